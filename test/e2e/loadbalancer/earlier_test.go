package loadbalancer

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// showEarlierRows shows that the load balancers of earlier versions, one for each Service and protocol, are replaced by
// shared ones without an interruption.
func showEarlierRows(t *testing.T, h *harness.BackendProject) string {
	names := []string{"earlier-cloud", "earlier-public", "earlier-sticky"}
	var addresses []string
	for i, kind := range []string{"cloud", "public", "cloud"} {
		w := harness.ServiceSpec{
			Name: names[i], Annotations: "network.kube-dc.com/external-network-type: " + kind,
			Ports: "[{name: t, port: 80}, {name: u, port: 80, protocol: UDP}]",
		}
		if names[i] == "earlier-sticky" {
			w.ExtraFields = ", sessionAffinity: ClientIP"
		}
		addresses = append(addresses, h.CreateService(t, w))
	}
	want := map[string]string{}
	for _, name := range names {
		want[name] = balancerVIPs(t, h, name+"-tcp") + balancerVIPs(t, h, name+"-udp")
	}
	harness.SharedController.Stop(syscall.SIGTERM)
	t.Cleanup(func() { harness.SharedController.StartIfStopped(t) })
	rows := writeEarlierRows(t, h, names)
	h.SyncFlows(t)
	var streams []*harness.Stream
	for _, a := range addresses {
		streams = append(streams, h.StartStream(t, "internet", a))
	}
	harness.ExpectStreamsContinue(t, "before the change of layout", streams...)
	harness.ResetGaps(streams...)
	gaps := measureGaps(t, h, append(slices.Clone(addresses), h.Network(t, "cloud").ClientAddress), func() {
		harness.SharedController.Start(t)
		harness.Eventually(t, "all VIPs are in shared load balancers, and the earlier rows are gone", func() bool {
			return countEarlierRows(t, h) == 0
		})
		h.SyncFlows(t)
	})
	for _, name := range names {
		if have := balancerVIPs(t, h, name+"-tcp") + balancerVIPs(t, h, name+"-udp"); have != want[name] {
			t.Errorf("%s has the VIPs %s, wanted %s", name, have, want[name])
		}
	}
	silence := harness.ExpectStreamsContinue(t, "after the change of layout", streams...)
	for _, a := range addresses[:2] {
		h.ExpectBackends(t, "internet", "udp://"+a+":80", harness.InternetAddress, "b1", "b2", "b3")
	}
	longest := slices.Max(gaps[:len(addresses)])
	if noise := gaps[len(addresses)]; longest > maxOutage+noise {
		t.Errorf("an address did not answer for %s, wanted %s; outside OVN it was %s", longest, maxOutage, noise)
	}
	return fmt.Sprintf("%d rows of 3 Services: new connections wait %s at most, open ones %s", rows,
		longest.Round(time.Millisecond), silence.Round(time.Millisecond))
}

// countEarlierRows counts the load balancers that belong to one Service.
func countEarlierRows(t *testing.T, h *harness.BackendProject) (n int) {
	t.Helper()
	for _, row := range h.ReadNBTable(t, "Load_Balancer", "external_ids") {
		ids := row["external_ids"].(map[string]any)
		if strings.HasPrefix(fmt.Sprint(ids[ownership.RowOwnerKey]), "Service/"+h.Namespace+"/earlier-") {
			n++
		}
	}
	return n
}

// writeEarlierRows writes the rows of Services as earlier versions had them, in one transaction, and returns how many.
func writeEarlierRows(t *testing.T, h *harness.BackendProject, services []string) (rows int) {
	t.Helper()
	var commands []string
	add := func(format string, args ...any) {
		commands = append(commands, "--")
		commands = append(commands, strings.Split(fmt.Sprintf(format, args...), " ")...)
	}
	for _, row := range h.ReadNBTable(t, "Load_Balancer", "name,protocol,vips,options,external_ids") {
		ids := row["external_ids"].(map[string]any)
		for vip, backends := range row["vips"].(map[string]any) {
			namespace, service, _ := strings.Cut(fmt.Sprint(ids[ownership.RowVIPOwnerPrefix+vip]), "/")
			if namespace != h.Namespace || !slices.Contains(services, service) {
				continue
			}
			rows++
			add("--id=@b%d create load_balancer name=%s-%s-%s protocol=%[4]s vips:\"%[5]s\"=\"%[6]s\"", rows, namespace, service,
				row["protocol"], vip, backends)
			for key, value := range row["options"].(map[string]any) {
				commands = append(commands, fmt.Sprintf("options:%s=%s", key, value))
			}
			for key, value := range map[string]string{
				ownership.RowOwnerKey: "Service/" + namespace + "/" + service, ownership.RowShardKey: namespace,
				ownership.RowVendorKey: ownership.RowVendor, ownership.RowParentKey: namespace + " " + namespace + "-default",
			} {
				commands = append(commands, fmt.Sprintf("external_ids:%s=%q", key, value))
			}
			add("add logical_router %s load_balancer @b%d", namespace, rows)
			add("add logical_switch %s-default load_balancer @b%d", namespace, rows)
			add("remove load_balancer %s vips \"%s\"", row["name"], vip)
			add("remove load_balancer %s external_ids \"%s%s\"", row["name"], ownership.RowVIPOwnerPrefix, vip)
		}
	}
	add("set logical_router %s external_ids:moved=true", h.Namespace) // see hidesAddress in internal/engine/ovn
	h.RunNbctl(t, commands...)
	return rows
}

// showProtocolGoes shows that neighbours find an address when the load balancer of one of its protocols loses it, and
// when the address moves to another load balancer.
func showProtocolGoes(t *testing.T, h *harness.BackendProject) string {
	const tcp, udp = "{name: t, port: 80}", "{name: u, port: 80, protocol: UDP}"
	w := harness.ServiceSpec{Name: "goes", Ports: "[" + tcp + ", " + udp + "]"}
	address := h.CreateService(t, w)
	answers := func(what, scheme string) {
		h.SyncFlows(t)
		h.RunInNetns(t, "router-ext-cloud", "ip", "neigh", "flush", "dev", "lan")
		t.Log(what)
		h.ExpectBackends(t, "internet", scheme+"://"+address+":80", harness.InternetAddress, "b1", "b2", "b3")
	}
	answers("both protocols", "http")
	w.Ports = "[" + tcp + "]"
	changeService(t, h, w)
	answers("without UDP", "http")
	w.ExtraFields = ", sessionAffinity: ClientIP"
	changeService(t, h, w)
	w.ExtraFields = ", sessionAffinity: None"
	changeService(t, h, w)
	answers("after an affinity", "http")
	w.Ports = "[" + tcp + ", " + udp + "]"
	changeService(t, h, w)
	w.Ports = "[" + udp + "]"
	changeService(t, h, w)
	answers("without TCP", "udp")
	return "4 changes, each with a new ARP request"
}
