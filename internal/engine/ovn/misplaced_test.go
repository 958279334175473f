package ovn

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// newPodPort returns the port of a pod as Kube-OVN writes it.
func newPodPort(uuid, name, pod, on string) *nb.LogicalSwitchPort {
	return &nb.LogicalSwitchPort{
		UUID:        uuid,
		Name:        name,
		Addresses:   []string{"00:00:00:aa:bb:cc 10.16.0.9 fd00::9"},
		ExternalIDs: map[string]string{"pod": pod, "ls": on, "vendor": "kube-ovn"},
	}
}

// A port is judged by the namespace and switch in external_ids, whatever the name of the pod.
func TestMisplacedPorts(t *testing.T) {
	router := newPodPort("r", "acme-web-default-acme-web", "", "acme-web-default")
	router.Type = nb.RouterPortType
	virtual := newPodPort("v", "vip.evil-x", "evil-x/vip", "acme-web-default")
	virtual.Type = "virtual"
	s := newTestSession(t,
		router, virtual,
		newPodPort("1", "shop.acme-web", "acme-web/shop", "acme-web-default"),
		newPodPort("2", "spy.evil-x", "evil-x/spy", "acme-web-default"),
		newPodPort("3", "shop.acme-web.evil-x", "evil-x/shop.acme-web", "acme-web-default"),
		newPodPort("4", "two.evil-x", "evil-x/two", "evil-x-default"),
		newPodPort("5", "two.evil-x.default.acme-web.ovn", "evil-x/two", "acme-web-default"),
		newPodPort("6", "wire.acme-web", "acme-web/wire", "ext-public"),
		newPodPort("7", "dns.kube-system", "kube-system/dns", "ovn-default"),
		newPodPort("8", "vm.acme-web", "acme-web/vm", "acme-web-default"),
		newPodPort("9", "mcast-querier-acme-web-default", "default/mcast-querier-acme-web-default", "acme-web-default"),
		newPodPort("10", "nobody", "", "acme-web-default"),
		newPodPort("11", "gate.edge", "edge/gate", "gates"),
		newPodPort("12", "build.edge", "edge/build", "edge-default"), // a Subnet with the name of a project's
		newPodPort("13", "far.edge", "edge/far", "elsewhere"),
		&nb.LogicalRouter{UUID: "m", Name: "ovn-cluster", Ports: []string{"m1", "m2", "m3"}},
		&nb.LogicalRouterPort{UUID: "m1", Name: "ovn-cluster-ovn-default"},
		&nb.LogicalRouterPort{UUID: "m2", Name: "ovn-cluster-gates"},
		&nb.LogicalRouterPort{UUID: "m3", Name: "ovn-cluster-edge-default"},
	)
	s.misplaced.indexExisting(s)
	c := &Client{}
	c.current.Store(s)
	for shard, want := range map[string][]string{
		"acme-web":    {"shop.acme-web.evil-x", "spy.evil-x", "two.evil-x.default.acme-web.ovn", "wire.acme-web"},
		"evil-x":      {"shop.acme-web.evil-x", "spy.evil-x", "two.evil-x.default.acme-web.ovn"},
		"acme-pay":    nil,
		"ovn-cluster": {"build.edge", "dns.kube-system", "gate.edge"},
	} {
		var got []string
		for _, p := range c.MisplacedPodPorts(shard) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %s: %q, want %q", shard, got, want)
		}
	}
	if got := c.MisplacedPodPorts("acme-web")[0]; got.Namespace != "evil-x" || got.Pod != "shop.acme-web" ||
		got.Subnet != "acme-web-default" || fmt.Sprint(got.Addresses) != "[10.16.0.9 fd00::9]" {
		t.Errorf("read %+v", got)
	}
}

// The ports of a pod on switches of the management VPC are read without the others.
func TestManagementPodPorts(t *testing.T) {
	s := newTestSession(t,
		newPodPort("1", "dns.kube-system", "kube-system/dns", "ovn-default"),
		newPodPort("2", "dns.kube-system.second.net.ovn", "kube-system/dns", "gates"),
		newPodPort("3", "dns.kube-system.third.net.ovn", "kube-system/dns", "elsewhere"),
		newPodPort("4", "mail.kube-system", "kube-system/mail", "ovn-default"),
		&nb.LogicalRouter{UUID: "m", Name: "ovn-cluster", Ports: []string{"m1"}},
		&nb.LogicalRouterPort{UUID: "m1", Name: "ovn-cluster-gates"},
	)
	s.misplaced.indexExisting(s)
	c := &Client{}
	if got := c.ManagementPodPorts("kube-system", "dns"); got != nil {
		t.Errorf("without a connection: %v", got)
	}
	c.current.Store(s)
	for pod, want := range map[string][]string{
		"dns": {"dns.kube-system", "dns.kube-system.second.net.ovn"}, "mail": {"mail.kube-system"}, "other": nil,
	} {
		var got []string
		for _, p := range c.ManagementPodPorts("kube-system", pod) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %s: %q, want %q", pod, got, want)
		}
	}
}

// Ports are created, moved and deleted. Ports on the right switch notify nobody: there is one for each pod.
func TestMisplacedPortsAreTold(t *testing.T) {
	spy, home := newPodPort("2", "spy.evil-x", "evil-x/spy", "acme-web-default"),
		newPodPort("2", "spy.evil-x", "evil-x/spy", "evil-x-default")
	s := newTestSession(t, &nb.LogicalRouterPort{UUID: "m2", Name: "ovn-cluster-gates"})
	told := map[string]int{}
	x := newRowIndex(s, func(shard string) { told[shard]++ },
		func(namespace, name string) { told["pod "+namespace+"/"+name]++ })
	both := map[string]int{"acme-web": 1, "evil-x": 1}
	for _, step := range []struct {
		what string
		do   func()
		want map[string]int
		has  int
	}{
		{"a pod where it belongs", func() {
			x.OnAdd("", newPodPort("1", "shop.acme-web", "acme-web/shop", "acme-web-default"))
		}, nil, 0},
		{"a foreign pod", func() { x.OnAdd("", spy) }, both, 1},
		{"it goes home", func() { x.OnUpdate("", spy, home) }, both, 0},
		{"it comes back", func() { x.OnUpdate("", home, spy) }, both, 1},
		{"it changes", func() { x.OnUpdate("", spy, spy) }, map[string]int{"acme-web": 2, "evil-x": 2}, 1},
		{"it ends", func() { x.OnDelete("", spy) }, both, 0},
		{"a pod on an external network", func() {
			x.OnAdd("", newPodPort("6", "wire.acme-web", "acme-web/wire", "ext-public"))
		}, map[string]int{"acme-web": 1}, 0},
		{"a pod on another Subnet of the management VPC", func() {
			x.OnAdd("", newPodPort("7", "gate.edge", "edge/gate", "gates"))
		}, map[string]int{"edge": 1, "pod edge/gate": 1}, 0},
	} {
		clear(told)
		step.do()
		if !maps.Equal(told, step.want) {
			t.Errorf("%s: told %v, want %v", step.what, told, step.want)
		}
		if got := len(s.misplaced.findUUIDs(switchIndexKey("acme-web-default"))); got != step.has {
			t.Errorf("%s: %d ports on the switch, want %d", step.what, got, step.has)
		}
	}
	// A port that is no longer in the cache is not misplaced, even before its event has arrived.
	x.OnAdd("", spy)
	c := &Client{}
	c.current.Store(s)
	if got := c.MisplacedPodPorts("acme-web"); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// A group has the ports that exist. A deleted port does not keep the others out.
func TestGroupsOfSeveralPorts(t *testing.T) {
	ids := ownerExternalIDs(nb.PortGroupTable, "acme", state.Ref{Kind: "Isolation", Namespace: "acme", Name: "pods"})
	s := newTestSession(t,
		newPodPort("u1", "b.evil", "evil/b", "acme-default"), newPodPort("u2", "a.evil", "evil/a", "acme-default"),
		&nb.PortGroup{UUID: "g", Name: "guarded", Ports: []string{"u1", "u2"}, ExternalIDs: ids},
	)
	r, whole := s.readRouter("acme")
	want := intent.PortGroup{Name: "guarded", Ports: "a.evil b.evil"}
	if got := r.records[want.Key("acme")].value; !whole || got != intent.Row(want) {
		t.Errorf("read %v (whole: %v), want %v", got, whole, want)
	}
	tx := newTransaction(s, "acme", routerState{})
	got, err := tx.portGroupMembers(intent.PortGroup{Name: "guarded", Ports: "a.evil b.evil gone.evil"})
	if err != nil || !slices.Equal(got, []string{"u2", "u1"}) {
		t.Errorf("members are %q (%v)", got, err)
	}
	if _, err := tx.portGroupMembers(intent.PortGroup{Name: "guarded", Ports: "gone.evil"}); err == nil {
		t.Error("a group of ports that are all gone is written")
	}
}
