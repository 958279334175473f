package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ownAddress: a Service gets an EIp, and each protocol answers to the world and to neighbours.
func (h *hall) ownAddress(t *testing.T) string {
	address := h.serve(t, wish{name: "own", ports: "[{name: a, port: 80}, {name: b, port: 80, protocol: UDP}, {name: c, port: 80, protocol: SCTP}]"})
	x := h.network(t, "cloud")
	asked := 0
	for where, saw := range map[string]string{"internet": theInternet, x.client: x.clientAddress, x.neighbour: x.neighbourAddress} {
		for _, proto := range []string{"http", "udp", "sctp"} {
			asked += h.spread(t, where, proto+"://"+address+":80", saw, "b1", "b2", "b3")
		}
	}
	h.noDrops(t)
	return fmt.Sprintf("%d requests by three protocols from three places, all three backends, client's address seen", asked)
}

// byType: a Service on a secondary and on a third network, for the same pods that are behind one on the default network.
func (h *hall) byType(t *testing.T) string {
	h.serve(t, wish{name: "typed-cloud"})
	asked := 0
	var rows []int
	for _, kind := range []string{"public", "third"} {
		address := h.serve(t, wish{name: "typed-" + kind, selector: "{app: b1}", annotations: "network.kube-dc.com/external-network-type: " + kind})
		h.spread(t, "internet", "http://"+address, theInternet, "b1")
		before := h.countRows(t)
		h.ask4(t, wish{name: "typed-" + kind, annotations: "network.kube-dc.com/external-network-type: " + kind})
		eventually(t, "all backends", func() bool { return strings.Count(h.vips(t, "typed-"+kind+"-tcp"), ",") == 2 })
		h.sync(t)
		rows = append(rows, h.countRows(t)-before)
		x := h.network(t, kind)
		for where, saw := range map[string]string{"internet": theInternet, x.client: x.clientAddress} {
			asked += h.spread(t, where, "http://"+address, saw, "b1", "b2", "b3")
		}
	}
	for _, more := range rows {
		if more != 0 {
			t.Errorf("two more backends made %d more rows", more)
		}
	}
	h.noDrops(t)
	return fmt.Sprintf("%d requests on two secondary networks; two more backends: %v more rows; no router dropped anything", asked, rows)
}

// countRows is how many rows say that they are the project's.
func (h *hall) countRows(t *testing.T) (n int) {
	t.Helper()
	for _, table := range []string{
		"Load_Balancer", "ACL", "QoS", "Port_Group", "Address_Set", "Logical_Switch_Port", "Logical_Router_Port", "Logical_Router_Static_Route", "Logical_Router_Policy", "NAT",
	} {
		n += len(strings.Fields(h.nbctl(t, "--bare", "--columns=_uuid", "find", table, "external_ids:sallyport-vpc="+h.ns)))
	}
	return n
}

// vips is what a load balancer balances, as OVN has it, without the endpoints that only bring connections to an end.
func (h *hall) vips(t *testing.T, name string) string {
	t.Helper()
	all := strings.Fields(h.nbctl(t, "--bare", "--columns=vips", "find", "Load_Balancer", "name="+h.ns+"-"+name))
	return strings.Join(slices.DeleteFunc(all, func(v string) bool { return strings.HasPrefix(v, "240.") }), " ")
}

// sharedEIp: two Services on one EIp, which have the same number with different protocols, too.
func (h *hall) sharedEIp(t *testing.T) string {
	address := h.eip(t, h.ns, "front", "{externalNetworkType: public}")
	t.Cleanup(func() { h.remove(t, "EIp", h.ns, "front") })
	bind := "service.nlb.kube-dc.com/bind-on-eip: front"
	one := h.serve(t, wish{name: "one", selector: "{app: b1}", annotations: bind, ports: "[{name: t, port: 80}, {name: u, port: 81, targetPort: 80, protocol: UDP}]"})
	two := h.serve(t, wish{name: "two", selector: "{app: b2}", annotations: bind, ports: "[{name: t, port: 81, targetPort: 80}, {name: u, port: 80, protocol: UDP}]"})
	if one != address || two != address {
		t.Errorf("EIp front has %s, the Services have %s and %s", address, one, two)
	}
	for target, name := range map[string]string{"http://%s:80": "b1", "http://%s:81": "b2", "udp://%s:81": "b1", "udp://%s:80": "b2"} {
		h.answers(t, "internet", fmt.Sprintf(target, address), name, theInternet)
	}
	if owners := h.field(t, "EIp", h.ns, "front", "status", "ownershipType"); owners != "Shared" {
		t.Errorf("EIp front is %s", owners)
	}
	h.noDrops(t)
	return "two Services, ports 80 and 81 of TCP and UDP crosswise"
}

// clash: who comes second is told who is first, keeps what it can have, and gets the rest when the first goes.
func (h *hall) clash(t *testing.T) string {
	address := h.eip(t, h.ns, "clash", "{externalNetworkType: cloud}")
	t.Cleanup(func() { h.remove(t, "EIp", h.ns, "clash") })
	bind := "service.nlb.kube-dc.com/bind-on-eip: clash"
	h.serve(t, wish{name: "first", selector: "{app: b1}", annotations: bind})
	for name, ports := range map[string]string{"none": web, "some": "[{name: a, port: 80}, {name: b, port: 443, targetPort: 80}]"} {
		h.ask4(t, wish{name: name, selector: "{app: b2}", annotations: bind, ports: ports})
		t.Cleanup(func() { h.remove(t, "Service", h.ns, name) })
	}
	h.says(t, "none", "Accepted=False PortTaken", "held by Service "+h.ns+"/first")
	h.says(t, "some", "Programmed=False SomePortTaken", "held by Service "+h.ns+"/first")
	h.says(t, "some", "LoadBalancerPortsError=True PortTaken", "port 80/tcp")
	h.sync(t)
	h.answers(t, "internet", "http://"+address, "b1", theInternet)
	h.answers(t, "internet", "http://"+address+":443", "b2", theInternet)
	if shown := h.addressOf(t, "none"); shown != "" {
		t.Errorf("a Service without a port shows the address %s", shown)
	}
	h.remove(t, "Service", h.ns, "some")
	h.remove(t, "Service", h.ns, "first")
	h.inForce(t, "none")
	h.answers(t, "internet", "http://"+address, "b2", theInternet)
	return "refused with the holder's name; the free port works; the other one follows when the holder has gone"
}

// onTheWayOut: the address with which the project's pods leave also takes connections in.
func (h *hall) onTheWayOut(t *testing.T) string {
	address := h.serve(t, wish{name: "gw", annotations: `service.nlb.kube-dc.com/bind-on-default-gw-eip: "true"`})
	if gw := h.field(t, "EIp", h.ns, "default-gw", "status", "ipAddress"); address != gw {
		t.Errorf("the Service has %s, default-gw has %s", address, gw)
	}
	asked := h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3")
	h.answers(t, "cli."+h.ns, "http://"+theInternet, "internet", address)
	h.noDrops(t)
	return fmt.Sprintf("%d requests in, and pods still leave with it", asked)
}

// givenAddress: the address that a Service asks for, on whichever network has it; and one that somebody else has.
func (h *hall) givenAddress(t *testing.T) string {
	const given = "91.224.11.77" // of ext-public
	if address := h.serve(t, wish{name: "given", more: ", loadBalancerIP: " + given}); address != given {
		t.Errorf("asked for %s, got %s", given, address)
	}
	h.spread(t, "internet", "http://"+given, theInternet, "b1", "b2", "b3")
	h.ask4(t, wish{name: "late", more: ", loadBalancerIP: " + given})
	t.Cleanup(func() { h.remove(t, "Service", h.ns, "late") })
	h.says(t, "late", "Programmed=False WaitingForEIp", given+" is held by")
	h.noDrops(t)
	return given + " given, and refused to the second who asks for it"
}

// classes: a Service of another class has nothing of ours; one of our class has.
func (h *hall) classes(t *testing.T) string {
	h.ask4(t, wish{name: "foreign", more: ", loadBalancerClass: example.com/other"})
	t.Cleanup(func() { h.remove(t, "Service", h.ns, "foreign") })
	address := h.serve(t, wish{name: "classed", more: ", loadBalancerClass: kube-dc.com/sallyport"})
	h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3")
	if status := h.field(t, "Service", h.ns, "foreign", "status"); status != "map[loadBalancer:map[]]" {
		t.Errorf("a Service of another class has the status %s", status)
	}
	return "ours answers, another's has no status and no address"
}
