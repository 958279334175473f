package loadbalancer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// showOwnAddress shows that a Service gets an EIp, and that each protocol works for clients on the internet and for
// neighbours.
func showOwnAddress(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{
		Name:  "own",
		Ports: "[{name: a, port: 80}, {name: b, port: 80, protocol: UDP}, {name: c, port: 80, protocol: SCTP}]",
	})
	x := h.Network(t, "cloud")
	asked := 0
	for where, saw := range map[string]string{
		"internet":  harness.InternetAddress,
		x.Client:    x.ClientAddress,
		x.Neighbour: x.NeighbourAddress,
	} {
		for _, proto := range []string{"http", "udp", "sctp"} {
			asked += h.ExpectBackends(t, where, proto+"://"+address+":80", saw, "b1", "b2", "b3")
		}
	}
	h.ExpectNoDrops(t)
	return fmt.Sprintf("%d requests by three protocols from three places, all three backends, client's address seen",
		asked)
}

// showByType shows Services on a secondary and on a third network for the same pods as a Service on the default
// network.
func showByType(t *testing.T, h *harness.BackendProject) string {
	h.CreateService(t, harness.ServiceSpec{Name: "typed-cloud"})
	asked := 0
	var rows []int
	for _, kind := range []string{"public", "third"} {
		address := h.CreateService(t, harness.ServiceSpec{
			Name:        "typed-" + kind,
			Selector:    "{app: b1}",
			Annotations: "network.kube-dc.com/external-network-type: " + kind,
		})
		h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1")
		before := countRows(t, h)
		h.ApplyService(t, harness.ServiceSpec{
			Name:        "typed-" + kind,
			Annotations: "network.kube-dc.com/external-network-type: " + kind,
		})
		harness.Eventually(t, "all backends", func() bool {
			return strings.Count(balancerVIPs(t, h, "typed-"+kind+"-tcp"), ",") == 2
		})
		h.SyncFlows(t)
		rows = append(rows, countRows(t, h)-before)
		x := h.Network(t, kind)
		for where, saw := range map[string]string{"internet": harness.InternetAddress, x.Client: x.ClientAddress} {
			asked += h.ExpectBackends(t, where, "http://"+address, saw, "b1", "b2", "b3")
		}
	}
	for _, more := range rows {
		if more != 0 {
			t.Errorf("two more backends made %d more rows", more)
		}
	}
	h.ExpectNoDrops(t)
	return fmt.Sprintf("%d requests on two secondary networks; two more backends: %v more rows; no router dropped anything", asked, rows)
}

// countRows counts the rows that are marked as the project's.
func countRows(t *testing.T, h *harness.BackendProject) (n int) {
	t.Helper()
	for _, table := range []string{
		"Load_Balancer", "ACL", "QoS", "Port_Group", "Address_Set", "Logical_Switch_Port", "Logical_Router_Port",
		"Logical_Router_Static_Route", "Logical_Router_Policy", "NAT",
	} {
		n += len(strings.Fields(h.RunNbctl(t, "--bare", "--columns=_uuid", "find", table,
			"external_ids:sallyport-vpc="+h.Namespace)))
	}
	return n
}

// balancerVIPs returns the VIPs of a Service in OVN, as vip=backends, without the entry that drains endpoints. The name
// is that of the Service and a protocol, joined by a hyphen.
func balancerVIPs(t *testing.T, h *harness.BackendProject, name string) string {
	t.Helper()
	cut := strings.LastIndexByte(name, '-')
	var all []string
	for _, row := range h.ReadNBTable(t, "Load_Balancer", "protocol,vips,external_ids") {
		vips, ids := row["vips"].(map[string]any), row["external_ids"].(map[string]any)
		for vip, backends := range vips {
			if row["protocol"] == name[cut+1:] && ids[ownership.RowVIPOwnerPrefix+vip] == h.Namespace+"/"+name[:cut] &&
				!strings.HasPrefix(vip, "240.") {
				all = append(all, fmt.Sprintf("%s=%s", vip, backends))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// showSharedEIp shows two Services on one EIp, including the same port number with different protocols.
func showSharedEIp(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateEIP(t, h.Namespace, "front", "{externalNetworkType: public}")
	t.Cleanup(func() { h.DeleteAndWait(t, "EIp", h.Namespace, "front") })
	bind := "service.nlb.kube-dc.com/bind-on-eip: front"
	one := h.CreateService(t, harness.ServiceSpec{
		Name:        "one",
		Selector:    "{app: b1}",
		Annotations: bind,
		Ports:       "[{name: t, port: 80}, {name: u, port: 81, targetPort: 80, protocol: UDP}]",
	})
	two := h.CreateService(t, harness.ServiceSpec{
		Name:        "two",
		Selector:    "{app: b2}",
		Annotations: bind,
		Ports:       "[{name: t, port: 81, targetPort: 80}, {name: u, port: 80, protocol: UDP}]",
	})
	if one != address || two != address {
		t.Errorf("EIp front has %s, the Services have %s and %s", address, one, two)
	}
	for target, name := range map[string]string{
		"http://%s:80": "b1",
		"http://%s:81": "b2",
		"udp://%s:81":  "b1",
		"udp://%s:80":  "b2",
	} {
		h.ExpectAnswer(t, "internet", fmt.Sprintf(target, address), name, harness.InternetAddress)
	}
	if owners := h.ReadField(t, "EIp", h.Namespace, "front", "status", "ownershipType"); owners != "Shared" {
		t.Errorf("EIp front is %s", owners)
	}
	h.ExpectNoDrops(t)
	return "two Services, ports 80 and 81 of TCP and UDP crosswise"
}

// showClash shows that the second Service for a port reports which Service has it, keeps its other ports, and gets the
// port when the first Service is deleted.
func showClash(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateEIP(t, h.Namespace, "clash", "{externalNetworkType: cloud}")
	t.Cleanup(func() { h.DeleteAndWait(t, "EIp", h.Namespace, "clash") })
	bind := "service.nlb.kube-dc.com/bind-on-eip: clash"
	h.CreateService(t, harness.ServiceSpec{Name: "first", Selector: "{app: b1}", Annotations: bind})
	for name, ports := range map[string]string{
		"none": harness.HTTPPort,
		"some": "[{name: a, port: 80}, {name: b, port: 443, targetPort: 80}]",
	} {
		h.ApplyService(t, harness.ServiceSpec{Name: name, Selector: "{app: b2}", Annotations: bind, Ports: ports})
		t.Cleanup(func() { h.DeleteAndWait(t, "Service", h.Namespace, name) })
	}
	h.WaitServiceCondition(t, "none", "Accepted=False PortTaken", "held by Service "+h.Namespace+"/first")
	h.WaitServiceCondition(t, "some", "Programmed=False SomePortTaken", "held by Service "+h.Namespace+"/first")
	h.WaitServiceCondition(t, "some", "LoadBalancerPortsError=True PortTaken", "port 80/tcp")
	h.SyncFlows(t)
	h.ExpectAnswer(t, "internet", "http://"+address, "b1", harness.InternetAddress)
	h.ExpectAnswer(t, "internet", "http://"+address+":443", "b2", harness.InternetAddress)
	if shown := h.ServiceAddress(t, "none"); shown != "" {
		t.Errorf("a Service without a port shows the address %s", shown)
	}
	h.DeleteAndWait(t, "Service", h.Namespace, "some")
	h.DeleteAndWait(t, "Service", h.Namespace, "first")
	h.WaitServiceProgrammed(t, "none")
	h.ExpectAnswer(t, "internet", "http://"+address, "b2", harness.InternetAddress)
	return "refused with the holder's name; the free port works; the other one follows when the holder has gone"
}

// showOnTheWayOut shows that the SNAT address of the project's default egress also accepts connections.
func showOnTheWayOut(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{
		Name:        "gw",
		Annotations: `service.nlb.kube-dc.com/bind-on-default-gw-eip: "true"`,
	})
	if gw := h.ReadField(t, "EIp", h.Namespace, "default-gw", "status", "ipAddress"); address != gw {
		t.Errorf("the Service has %s, default-gw has %s", address, gw)
	}
	asked := h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
	h.ExpectAnswer(t, "cli."+h.Namespace, "http://"+harness.InternetAddress, "internet", address)
	h.ExpectNoDrops(t)
	return fmt.Sprintf("%d requests in, and pods still leave with it", asked)
}

// showGivenAddress shows a Service that requests an address, on the network that contains it, and one that requests an
// address in use.
func showGivenAddress(t *testing.T, h *harness.BackendProject) string {
	const given = "91.224.11.77" // on ext-public
	if address := h.CreateService(t, harness.ServiceSpec{
		Name:        "given",
		ExtraFields: ", loadBalancerIP: " + given,
	}); address != given {
		t.Errorf("asked for %s, got %s", given, address)
	}
	h.ExpectBackends(t, "internet", "http://"+given, harness.InternetAddress, "b1", "b2", "b3")
	h.ApplyService(t, harness.ServiceSpec{Name: "late", ExtraFields: ", loadBalancerIP: " + given})
	t.Cleanup(func() { h.DeleteAndWait(t, "Service", h.Namespace, "late") })
	h.WaitServiceCondition(t, "late", "Programmed=False WaitingForEIp", given+" is held by")
	h.ExpectNoDrops(t)
	return given + " given, and refused to the second who asks for it"
}

// showClasses shows that a Service of another class is ignored, and that one of our class is served.
func showClasses(t *testing.T, h *harness.BackendProject) string {
	h.ApplyService(t, harness.ServiceSpec{Name: "foreign", ExtraFields: ", loadBalancerClass: example.com/other"})
	t.Cleanup(func() { h.DeleteAndWait(t, "Service", h.Namespace, "foreign") })
	address := h.CreateService(t, harness.ServiceSpec{
		Name:        "classed",
		ExtraFields: ", loadBalancerClass: kube-dc.com/sallyport",
	})
	h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
	if status := h.ReadField(t, "Service", h.Namespace, "foreign", "status"); status != "map[loadBalancer:map[]]" {
		t.Errorf("a Service of another class has the status %s", status)
	}
	return "ours answers, another's has no status and no address"
}
