package ovn

import (
	"maps"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/state"
)

// podPort is a port of a pod as Kube-OVN writes it.
func podPort(uuid, name, pod, on string) *nb.LogicalSwitchPort {
	return &nb.LogicalSwitchPort{UUID: uuid, Name: name, ExternalIDs: map[string]string{"pod": pod, "ls": on, "vendor": "kube-ovn"}}
}

// A port is told by the namespace and the switch that Kube-OVN has written, whatever the pod is called.
func TestMisplacedPorts(t *testing.T) {
	router := podPort("r", "acme-web-default-acme-web", "", "acme-web-default")
	router.Type = nb.RouterPort
	virtual := podPort("v", "vip.evil-x", "evil-x/vip", "acme-web-default")
	virtual.Type = "virtual"
	s := copyOf(t,
		router, virtual,
		podPort("1", "shop.acme-web", "acme-web/shop", "acme-web-default"),
		podPort("2", "spy.evil-x", "evil-x/spy", "acme-web-default"),
		podPort("3", "shop.acme-web.evil-x", "evil-x/shop.acme-web", "acme-web-default"),
		podPort("4", "two.evil-x", "evil-x/two", "evil-x-default"),
		podPort("5", "two.evil-x.default.acme-web.ovn", "evil-x/two", "acme-web-default"),
		podPort("6", "wire.acme-web", "acme-web/wire", "ext-public"),
		podPort("7", "dns.kube-system", "kube-system/dns", "ovn-default"),
		podPort("8", "vm.acme-web", "acme-web/vm", "acme-web-default"),
		podPort("9", "mcast-querier-acme-web-default", "default/mcast-querier-acme-web-default", "acme-web-default"),
		podPort("10", "nobody", "", "acme-web-default"),
	)
	s.misplaced.fill(s)
	c := &Client{}
	c.current.Store(s)
	for shard, want := range map[string][]string{
		"acme-web": {"shop.acme-web.evil-x", "spy.evil-x", "two.evil-x.default.acme-web.ovn", "wire.acme-web"},
		"evil-x":   {"shop.acme-web.evil-x", "spy.evil-x", "two.evil-x.default.acme-web.ovn"},
		"acme-pay": nil,
	} {
		var got []string
		for _, p := range c.Misplaced(shard) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %s: %q, want %q", shard, got, want)
		}
	}
	if got := c.Misplaced("acme-web")[0]; got.Namespace != "evil-x" || got.Pod != "shop.acme-web" || got.Subnet != "acme-web-default" {
		t.Errorf("read %+v", got)
	}
}

// Ports come, move and go. Those that are where they belong concern nobody: there is one for each pod.
func TestMisplacedPortsAreTold(t *testing.T) {
	spy, home := podPort("2", "spy.evil-x", "evil-x/spy", "acme-web-default"), podPort("2", "spy.evil-x", "evil-x/spy", "evil-x-default")
	s := copyOf(t)
	told := map[string]int{}
	x := newIndex(s, func(shard string) { told[shard]++ })
	both := map[string]int{"acme-web": 1, "evil-x": 1}
	for _, step := range []struct {
		what string
		do   func()
		want map[string]int
		has  int
	}{
		{"a pod where it belongs", func() { x.OnAdd("", podPort("1", "shop.acme-web", "acme-web/shop", "acme-web-default")) }, nil, 0},
		{"a foreign pod", func() { x.OnAdd("", spy) }, both, 1},
		{"it goes home", func() { x.OnUpdate("", spy, home) }, both, 0},
		{"it comes back", func() { x.OnUpdate("", home, spy) }, both, 1},
		{"it changes", func() { x.OnUpdate("", spy, spy) }, map[string]int{"acme-web": 2, "evil-x": 2}, 1},
		{"it ends", func() { x.OnDelete("", spy) }, both, 0},
		{"a pod on an external network", func() { x.OnAdd("", podPort("6", "wire.acme-web", "acme-web/wire", "ext-public")) }, map[string]int{"acme-web": 1}, 0},
	} {
		clear(told)
		step.do()
		if !maps.Equal(told, step.want) {
			t.Errorf("%s: told %v, want %v", step.what, told, step.want)
		}
		if got := len(s.misplaced.find(onSwitch("acme-web-default"))); got != step.has {
			t.Errorf("%s: %d ports on the switch, want %d", step.what, got, step.has)
		}
	}
	// One that the copy does not have any more is not misplaced, even before its end was told.
	x.OnAdd("", spy)
	c := &Client{}
	c.current.Store(s)
	if got := c.Misplaced("acme-web"); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// A group has the ports that are there. One that has vanished meanwhile does not keep the others out.
func TestGroupsOfSeveralPorts(t *testing.T) {
	ids := externalIDs(nb.PortGroupTable, "acme", state.Ref{Kind: "Isolation", Namespace: "acme", Name: "pods"})
	s := copyOf(t,
		podPort("u1", "b.evil", "evil/b", "acme-default"), podPort("u2", "a.evil", "evil/a", "acme-default"),
		&nb.PortGroup{UUID: "g", Name: "guarded", Ports: []string{"u1", "u2"}, ExternalIDs: ids},
	)
	r, whole := s.read("acme")
	want := intent.PortGroup{Name: "guarded", Ports: "a.evil b.evil"}
	if got := r.records[want.Key("acme")].value; !whole || got != intent.Row(want) {
		t.Errorf("read %v (whole: %v), want %v", got, whole, want)
	}
	tx := newTransaction(s, "acme", router{})
	got, err := tx.members(intent.PortGroup{Name: "guarded", Ports: "a.evil b.evil gone.evil"})
	if err != nil || !slices.Equal(got, []string{"u2", "u1"}) {
		t.Errorf("members are %q (%v)", got, err)
	}
	if _, err := tx.members(intent.PortGroup{Name: "guarded", Ports: "gone.evil"}); err == nil {
		t.Error("a group of ports that are all gone is written")
	}
}
