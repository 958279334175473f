package ovn

import (
	"net/netip"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

func decodeRow(m model.Model) (intent.Row, bool) {
	switch r := m.(type) {
	case *nb.LogicalRouterPort:
		return decodeRouterPort(r), true
	case *nb.StaticMACBinding:
		return decodeMACBinding(r)
	case *nb.NAT:
		port := ""
		if r.GatewayPort != nil {
			port = *r.GatewayPort
		}
		return decodeNAT(r, port)
	case *nb.LogicalRouterPolicy:
		return decodeRouterPolicy("acme-web", r)
	case *nb.LogicalSwitchPort:
		return decodeSwitchPort(r)
	case *nb.QoS:
		return decodeQoS(r)
	case *nb.ACL:
		return decodeACL(r)
	case *nb.StaticRoute:
		return decodeStaticRoute(r)
	}
	return nil, false
}

func mustAddr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func mustPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

var (
	aPort = intent.LogicalRouterPort{
		Name:       "acme-onl",
		MAC:        "0a:00:00:00:00:01",
		Network:    mustPrefix("169.254.90.1/30"),
		Peer:       "onl-acme",
		RouteTable: "onlink",
	}
	aBinding = intent.StaticMACBinding{
		Port:    "acme-onl",
		Address: mustAddr("169.254.90.2"),
		MAC:     "0a:00:00:00:00:02",
	}
	aFIP                 = intent.DNATAndSNAT{External: mustAddr("198.51.100.10"), Logical: mustAddr("10.0.0.10")}
	aSNAT                = intent.SNAT{External: mustAddr("198.51.100.20"), Logical: mustPrefix("10.0.0.0/24")}
	aSwitchPort          = intent.LogicalSwitchPort{Switch: "net1", Name: "net1-leg", RouterPort: "acme-leg"}
	anExternalSwitchPort = intent.LogicalSwitchPort{
		Switch:               "ext",
		Name:                 "ext-acme",
		RouterPort:           "acme-ext",
		AnnounceNATAddresses: true,
	}
	aQoS  = intent.QoS{Switch: "net1", Priority: 100, Match: "ct.rpl", Mark: 91}
	anACL = intent.ACL{
		PortGroup: "g", Direction: intent.ToLport, Tier: 1, Priority: 100, Match: "ip", Action: "pass", Label: 91,
	}
	aStaticRoute = intent.LogicalRouterStaticRoute{
		RouteTable: "return-x",
		Prefix:     mustPrefix("10.0.0.0/25"),
		OutputPort: "acme-leg",
	}
	aPolicy = intent.LogicalRouterPolicy{
		Priority: ownership.ReturnFIP,
		Match:    "ip4.src == 10.0.0.10",
		Action:   "reroute",
		NextHops: "198.51.100.1",
	}
)

func TestRowsComeBackAsTheyWereWritten(t *testing.T) {
	for _, want := range []intent.Row{
		aPort,
		intent.LogicalRouterPort{Name: "plain", MAC: "0a:00:00:00:00:01", Network: mustPrefix("fd00::1/64")},
		aBinding,
		intent.StaticMACBinding{Port: "p", Address: mustAddr("fe80::1"), MAC: "0a:00:00:00:00:02"},
		aFIP,
		intent.DNATAndSNAT{External: mustAddr("2001:db8::10"), Logical: mustAddr("fd00::10")},
		intent.DNAT{External: mustAddr("198.51.100.10"), Logical: mustAddr("10.0.0.10")},
		aSNAT,
		intent.SNAT{External: mustAddr("198.51.100.20"), Logical: mustPrefix("10.0.0.5/32")},
		intent.SNAT{External: mustAddr("2001:db8::20"), Logical: mustPrefix("fd00::/64")},
		aPolicy,
		aSwitchPort,
		anExternalSwitchPort,
		aQoS,
		intent.QoS{Switch: "net1", Priority: 110, Match: "ip", Mark: 0},
		anACL,
		intent.ACL{PortGroup: "g", Direction: intent.ToLport, Tier: 3, Match: "ip", Action: "allow-related"},
		aStaticRoute,
		intent.LogicalRouterStaticRoute{
			Prefix:     mustPrefix("::/0"),
			NextHop:    mustAddr("2001:db8::1"),
			OutputPort: "acme-ext",
		},
		intent.LogicalRouterStaticRoute{
			Prefix:     mustPrefix("10.0.0.1/32"),
			NextHop:    mustAddr("10.0.0.254"),
			OutputPort: "acme-ext",
		},
	} {
		d, err := encodeRow(want, "uuid", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := decodeRow(d.row); !ok || !got.Equal(want) || got.Key("acme") != want.Key("acme") {
			t.Errorf("%T: wrote %v, read %v", want, want, got)
		}
	}
}

// Rows of Kube-OVN, which have an older and looser form than ours, decode to the same value.
func TestRowsOfKubeOVNAreReadAsOurs(t *testing.T) {
	hop := "198.51.100.1"
	six := intent.DNATAndSNAT{External: mustAddr("2001:db8::10"), Logical: mustAddr("fd00::10")}
	host := intent.SNAT{External: mustAddr("198.51.100.20"), Logical: mustPrefix("10.0.0.5/32")}
	for _, c := range []struct {
		row  model.Model
		want intent.Row
	}{
		{&nb.NAT{
			Type:       "dnat_and_snat",
			ExternalIP: "198.51.100.10",
			LogicalIP:  "10.0.0.10",
			Options:    map[string]string{"stateless": "true"},
		}, aFIP},
		{&nb.NAT{Type: "dnat_and_snat", ExternalIP: "2001:DB8::0:10", LogicalIP: "fd00::10"}, six},
		{&nb.NAT{Type: "snat", ExternalIP: "198.51.100.20", LogicalIP: "10.0.0.5"}, host},
		{&nb.LogicalRouterPolicy{Priority: 30000, Match: aPolicy.Match, Action: "reroute", Nexthop: &hop}, aPolicy},
	} {
		if got, ok := decodeRow(c.row); !ok || !got.Equal(c.want) {
			t.Errorf("%+v: got %v, want %v", c.row, got, c.want)
		}
	}
}

// A changed row keeps its key and has another value, so that it is repaired.
func TestChangedRowsDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		want   intent.Row
		change func(model.Model)
	}{
		"two networks": {aPort, func(m model.Model) {
			p := m.(*nb.LogicalRouterPort)
			p.Networks = append(p.Networks, "10.0.0.1/24")
		}},
		"no network":       {aPort, func(m model.Model) { m.(*nb.LogicalRouterPort).Networks = nil }},
		"no peer":          {aPort, func(m model.Model) { m.(*nb.LogicalRouterPort).Peer = nil }},
		"no route table":   {aPort, func(m model.Model) { m.(*nb.LogicalRouterPort).Options = nil }},
		"weak MAC binding": {aBinding, func(m model.Model) { m.(*nb.StaticMACBinding).OverrideDynamicMAC = false }},
		"to another pod":   {aFIP, func(m model.Model) { m.(*nb.NAT).LogicalIP = "10.0.0.11" }},
		"to nowhere":       {aFIP, func(m model.Model) { m.(*nb.NAT).LogicalIP = "nowhere" }},
		"as nobody":        {aSNAT, func(m model.Model) { m.(*nb.NAT).ExternalIP = "" }},
		"dropped":          {aPolicy, func(m model.Model) { m.(*nb.LogicalRouterPolicy).Action = "drop" }},
		"to another port": {aSwitchPort, func(m model.Model) {
			m.(*nb.LogicalSwitchPort).Options["router-port"] = "x"
		}},
		"announced": {aSwitchPort, func(m model.Model) {
			m.(*nb.LogicalSwitchPort).Options["nat-addresses"] = "router"
		}},
		"not announced": {anExternalSwitchPort, func(m model.Model) {
			delete(m.(*nb.LogicalSwitchPort).Options, "nat-addresses")
		}},
		"announced others": {anExternalSwitchPort, func(m model.Model) {
			m.(*nb.LogicalSwitchPort).Options["nat-addresses"] = "x"
		}},
		"of another type": {aSwitchPort, func(m model.Model) { m.(*nb.LogicalSwitchPort).Type = "" }},
		"no mark":         {intent.QoS{Match: "ip"}, func(m model.Model) { m.(*nb.QoS).Action = nil }},
		"on the way out":  {aQoS, func(m model.Model) { m.(*nb.QoS).Direction = "to-lport" }},
		"no label":        {anACL, func(m model.Model) { m.(*nb.ACL).Label = 0 }},
		"on the way in":   {anACL, func(m model.Model) { m.(*nb.ACL).Direction = "from-lport" }},
		"by no port":      {aStaticRoute, func(m model.Model) { m.(*nb.StaticRoute).OutputPort = nil }},
		"by a stranger":   {aStaticRoute, func(m model.Model) { m.(*nb.StaticRoute).Nexthop = "discard" }},
		"two next hops": {aPolicy, func(m model.Model) {
			p := m.(*nb.LogicalRouterPolicy)
			p.Nexthops = append(p.Nexthops, "198.51.100.2")
		}},
	} {
		d, err := encodeRow(c.want, "uuid", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.change(d.row)
		if got, ok := decodeRow(d.row); !ok || got.Key("acme") != c.want.Key("acme") || got.Equal(c.want) {
			t.Errorf("%s: got %v; wanted the key of %v with another value", name, got, c.want)
		}
	}
}

func TestRowsThatAreNoneOfOurs(t *testing.T) {
	for _, m := range []model.Model{
		&nb.NAT{Type: "dnat", ExternalIP: "198.51.100.10", LogicalIP: "10.0.0.10", Match: "tcp"},
		&nb.NAT{Type: "snat", ExternalIP: "198.51.100.10", LogicalIP: "$set"},
		&nb.NAT{Type: "dnat_and_snat", ExternalIP: "", LogicalIP: "10.0.0.10"},
		&nb.StaticMACBinding{LogicalPort: "p", IP: "?"},
		&nb.LogicalRouterPolicy{Priority: 31000, Match: "ip4", Action: "reroute", Nexthops: []string{"10.0.0.1"}},
	} {
		if got, ok := decodeRow(m); ok {
			t.Errorf("%+v is read as %v", m, got)
		}
	}
}

func TestOriginOfARow(t *testing.T) {
	none := state.Ref{}
	for _, by := range []state.Ref{{Kind: "FIp", Namespace: "acme", Name: "web"}, {Kind: "Project", Name: "acme"}} {
		ids := ownerExternalIDs(nb.NATTable, "acme", by)
		if got := rowOrigin(ids, "acme"); got != by {
			t.Errorf("wrote %v, read %v", by, got)
		}
		if got := rowOrigin(ids, "other"); got != none {
			t.Errorf("a row of acme is taken for one of other, asked for by %v", got)
		}
	}
	if got := rowOrigin(nil, "acme"); got != none {
		t.Errorf("a row without marks is taken for ours, asked for by %v", got)
	}
	if got := rowOrigin(map[string]string{ownership.RowShardKey: "acme"}, "acme"); got == none {
		t.Error("a row of ours that has lost its owner is not ours any more, and would stay for ever")
	}
}

// Other options of our port are kept. The owner is not part of the value.
func TestPortKeepsOtherOptions(t *testing.T) {
	have := &nb.LogicalRouterPort{Options: map[string]string{"gateway_mtu": "1400", routeTableOption: "old"}}
	for table, want := range map[string]int{"new": 2, "": 1} {
		d, err := encodeRow(intent.LogicalRouterPort{Name: "p", RouteTable: table}, "uuid", nil, have)
		if err != nil {
			t.Fatal(err)
		}
		got := d.row.(*nb.LogicalRouterPort).Options
		if got["gateway_mtu"] != "1400" || got[routeTableOption] != table || len(got) != want {
			t.Errorf("table %q: got %v", table, got)
		}
	}
	if have.Options[routeTableOption] != "old" {
		t.Error("the row that was read is changed")
	}
}
