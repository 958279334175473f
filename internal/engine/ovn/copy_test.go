package ovn

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// newTestSession returns a session with a cache of these rows and without a connection.
func newTestSession(t *testing.T, rows ...model.Model) *session {
	t.Helper()
	described, err := nb.DatabaseModel()
	if err != nil {
		t.Fatal(err)
	}
	database, errs := model.NewDatabaseModel(buildSchema(t, described), described)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	tables, err := cache.NewTableCache(database, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{tableCache: tables, ended: make(chan struct{})}
	for _, r := range rows {
		s.insertRow(t, r)
	}
	return s
}

func (s *session) insertRow(t *testing.T, m model.Model) {
	t.Helper()
	table := s.tableCache.DatabaseModel().FindTable(reflect.TypeOf(m))
	if err := s.tableCache.Table(table).Create(modelField(m, "UUID").(string), m, true); err != nil {
		t.Fatal(err)
	}
	s.changes.broadcast()
}

func ownIDs() map[string]string {
	return ownerExternalIDs(nb.NATTable, "acme", state.Ref{Kind: "FIp", Namespace: "acme", Name: "web"})
}

func newNATRow(uuid, external string, ids map[string]string) *nb.NAT {
	return &nb.NAT{UUID: uuid, Type: "dnat_and_snat", ExternalIP: external, LogicalIP: "10.0.0.10", ExternalIDs: ids}
}

func describeRecords(r routerState) []string {
	var out []string
	for key, rec := range r.records {
		out = append(out, key.ID+" by "+rec.origin.Name+" as "+rec.uuid)
	}
	slices.Sort(out)
	return out
}

func TestRouterIsReadWithWhatIsOursOnly(t *testing.T) {
	s := newTestSession(t,
		&nb.LogicalRouter{UUID: "r1", Name: "acme", Ports: []string{"p1", "p2"}, NAT: []string{"n1", "n2"}},
		&nb.LogicalRouter{UUID: "r2", Name: "other", NAT: []string{"n3"}},
		&nb.LogicalRouterPort{UUID: "p1", Name: "acme-onl", ExternalIDs: ownIDs()},
		&nb.LogicalRouterPort{UUID: "p2", Name: "acme-net1"},
		&nb.StaticMACBinding{UUID: "b1", LogicalPort: "acme-onl", IP: "169.254.90.2"},
		&nb.StaticMACBinding{UUID: "b2", LogicalPort: "acme-net1", IP: "10.0.0.1"},
		newNATRow("n1", "198.51.100.1", nil), newNATRow("n2", "198.51.100.2", ownIDs()),
		newNATRow("n3", "198.51.100.3", ownIDs()),
	)
	r, err := s.loadRouter(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"acme-onl 169.254.90.2 by web as b1", "acme-onl by web as p1",
		"dnat_and_snat 198.51.100.1 by  as n1", "dnat_and_snat 198.51.100.2 by web as n2",
	}
	if got := describeRecords(r); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := s.routerPortNames("acme"); !slices.Equal(got, []string{"acme-net1", "acme-onl"}) {
		t.Errorf("ports are %q", got)
	}
	if got := s.routerPortNames("nobody"); got != nil {
		t.Errorf("a router that is not there has ports %q", got)
	}
}

// libovsdb applies a transaction row by row. A router whose set refers to a row that is not in the cache yet is not
// read.
func TestRouterIsReadWhole(t *testing.T) {
	s := newTestSession(t, &nb.LogicalRouter{UUID: "r1", Name: "acme", NAT: []string{"n1"}})
	if _, whole := s.readRouter("acme"); whole {
		t.Fatal("half a transaction was read as a whole")
	}
	read := make(chan routerState)
	go func() {
		r, err := s.loadRouter(t.Context(), "acme")
		if err != nil {
			t.Error(err)
		}
		read <- r
	}()
	s.insertRow(t, newNATRow("n1", "198.51.100.1", nil))
	if r := <-read; len(r.records) != 1 {
		t.Errorf("got %q", describeRecords(r))
	}
}

func TestOfTwoRowsOursGoes(t *testing.T) {
	s := newTestSession(t,
		&nb.LogicalRouter{UUID: "r1", Name: "acme", NAT: []string{"n1", "n2", "n3", "n4"}},
		newNATRow("n1", "198.51.100.1", ownIDs()), newNATRow("n2", "198.51.100.1", nil), // ours has the lower UUID
		newNATRow("n3", "198.51.100.3", nil), newNATRow("n4", "198.51.100.3", nil), // duplicates of Kube-OVN
	)
	r, whole := s.readRouter("acme")
	want := []string{
		"dnat_and_snat 198.51.100.1 again n1 by web as n1", "dnat_and_snat 198.51.100.1 by  as n2",
		"dnat_and_snat 198.51.100.3 by  as n3",
	}
	if got := describeRecords(r); !whole || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	observed := intent.Rows{}
	for key, rec := range r.records {
		observed[key] = state.Entry[intent.Row]{Value: rec.value, Origin: rec.origin}
	}
	changes := intent.KeepForeignRows(state.Diff(intent.Rows{}, observed), observed)
	if len(changes) != 1 || !strings.Contains(changes[0].Key.ID, "again n1") {
		t.Errorf("removed would be %v", changes)
	}
}

// A MAC binding outlives its port and its router. It is found by its port's name and its MAC address when the port is
// gone.
func TestStrayBindingsAreFound(t *testing.T) {
	bindings := []model.Model{
		&nb.StaticMACBinding{UUID: "b1", LogicalPort: "acme-onlink", IP: "169.254.90.2", MAC: intent.DeriveMAC("x")},
		// not ours
		&nb.StaticMACBinding{UUID: "b2", LogicalPort: "acme-onlink", IP: "10.0.0.1", MAC: "0a:00:00:00:00:01"},
		// of another project
		&nb.StaticMACBinding{UUID: "b3", LogicalPort: "other-onlink", IP: "169.254.90.2", MAC: intent.DeriveMAC("x")},
		// of another project whose port exists
		&nb.StaticMACBinding{
			UUID:        "b4",
			LogicalPort: "acme-two-onlink",
			IP:          "169.254.90.2",
			MAC:         intent.DeriveMAC("x"),
		},
		&nb.LogicalRouterPort{UUID: "p4", Name: "acme-two-onlink"},
	}
	for where, s := range map[string]*session{
		"no router":       newTestSession(t, bindings...),
		"no port of ours": newTestSession(t, append(bindings, &nb.LogicalRouter{UUID: "r1", Name: "acme"})...),
	} {
		r, whole := s.readRouter("acme")
		if got := describeRecords(r); !whole ||
			!slices.Equal(got, []string{"acme-onlink 169.254.90.2 by " + unknownOrigin.Name + " as b1"}) {
			t.Errorf("%s: got %q", where, got)
		}
	}
}

// Every change of a row is reported with the name of the router that the row belongs to.
func TestChangesAreToldByRouter(t *testing.T) {
	port := &nb.LogicalRouterPort{UUID: "p1", Name: "acme-onl"}
	s := newTestSession(t, port)
	told := map[string]int{}
	x := newRowIndex(s, func(router string) { told[router]++ }, func(string, string) {})
	acme := &nb.LogicalRouter{
		UUID: "r1", Name: "acme", Ports: []string{"p1"}, NAT: []string{"n1"}, Policies: []string{"l1"},
	}
	without, renamed := &nb.LogicalRouter{UUID: "r1", Name: "acme", Ports: []string{"p1"}},
		&nb.LogicalRouter{UUID: "r1", Name: "new", Ports: []string{"p1"}}
	binding := &nb.StaticMACBinding{UUID: "b1", LogicalPort: "acme-onl"}
	n, policy := newNATRow("n1", "198.51.100.1", nil), &nb.LogicalRouterPolicy{UUID: "l1"}
	for _, step := range []struct {
		what string
		do   func()
		want map[string]int
	}{
		{"a NAT row that no router has yet", func() { x.OnAdd("", n) }, nil},
		{"a router that has it", func() { x.OnAdd("", acme) }, map[string]int{"acme": 1}},
		{"the NAT row in place", func() { x.OnUpdate("", n, n) }, map[string]int{"acme": 1}},
		{"a policy in place", func() { x.OnUpdate("", policy, policy) }, map[string]int{"acme": 1}},
		{"a port in place", func() { x.OnUpdate("", port, port) }, map[string]int{"acme": 1}},
		{"a MAC binding on its port", func() { x.OnAdd("", binding) }, map[string]int{"acme": 1}},
		{"a MAC binding on no port", func() { x.OnDelete("", &nb.StaticMACBinding{LogicalPort: "gone"}) }, nil},
		{"a router that has lost rows", func() { x.OnUpdate("", acme, without) }, map[string]int{"acme": 1}},
		{"a row that it has lost", func() { x.OnDelete("", n) }, nil},
		{"another name", func() { x.OnUpdate("", without, renamed) }, map[string]int{"acme": 1, "new": 1}},
		{"its port", func() { x.OnUpdate("", port, port) }, map[string]int{"new": 1}},
		{"its end", func() { x.OnDelete("", renamed) }, map[string]int{"new": 1}},
		{"a port without a router", func() { x.OnUpdate("", port, port) }, nil},
	} {
		clear(told)
		step.do()
		if !maps.Equal(told, step.want) {
			t.Errorf("%s: told %v, want %v", step.what, told, step.want)
		}
	}
}

// libovsdb returns copies, so rows can be changed without changing the cache.
func TestModelsCopyThemselves(t *testing.T) {
	text := "x"
	for _, m := range []interface {
		model.Model
		model.CloneableModel
	}{
		&nb.LogicalRouter{
			Options: map[string]string{"a": ""},
			UUID:    "1", Ports: []string{"a"}, NAT: []string{"a"}, Policies: []string{"a"}, LoadBalancers: []string{"a"},
		},
		&nb.LogicalSwitch{UUID: "1", LoadBalancers: []string{"a"}},
		&nb.LoadBalancer{
			UUID: "1", Protocol: &text, VIPs: map[string]string{"a": ""}, Options: map[string]string{"a": ""},
			IPPortMappings: map[string]string{"a": ""}, ExternalIDs: map[string]string{"a": ""},
		},
		&nb.HealthCheck{UUID: "1", Options: map[string]string{"a": ""}, ExternalIDs: map[string]string{"a": ""}},
		&nb.LogicalRouterPort{
			UUID:        "1",
			Networks:    []string{"a"},
			Peer:        &text,
			Group:       &text,
			Options:     map[string]string{"a": ""},
			ExternalIDs: map[string]string{"a": ""},
		},
		&nb.StaticMACBinding{UUID: "1"},
		&nb.ChassisGroup{UUID: "1", Chassis: []string{"a"}, ExternalIDs: map[string]string{"a": ""}},
		&nb.GroupChassis{UUID: "1", ExternalIDs: map[string]string{"a": ""}},
		&nb.NAT{
			UUID:        "1",
			GatewayPort: &text,
			Options:     map[string]string{"a": ""},
			ExternalIDs: map[string]string{"a": ""},
		},
		&nb.LogicalRouterPolicy{
			UUID:        "1",
			Nexthop:     &text,
			Nexthops:    []string{"a"},
			ExternalIDs: map[string]string{"a": ""},
		},
		&nb.LogicalSwitchPort{
			UUID:        "1",
			Addresses:   []string{"a"},
			Options:     map[string]string{"a": ""},
			ExternalIDs: map[string]string{"a": ""},
		},
		&nb.PortGroup{UUID: "1", Ports: []string{"a"}, ExternalIDs: map[string]string{"a": ""}},
		&nb.ACL{UUID: "1", ExternalIDs: map[string]string{"a": ""}},
		&nb.QoS{UUID: "1", Action: map[string]int{"mark": 1}, ExternalIDs: map[string]string{"a": ""}},
		&nb.StaticRoute{UUID: "1", OutputPort: &text, ExternalIDs: map[string]string{"a": ""}},
	} {
		checkDeepCopy(t, m, m.CloneModel())
	}
}
