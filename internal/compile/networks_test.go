package compile

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// A VRF without the cluster's prefixes would send packets for pods to its gateway.
func TestVRFNeedsToKnowWhatIsInside(t *testing.T) {
	uplink := snapshot.Uplink{Meta: snapshot.Meta{Name: "vlan"}, Method: "VRF", Nodes: []string{"a"}}
	for _, inside := range [][]netip.Prefix{nil, {netip.MustParsePrefix("10.96.0.0/12")}} {
		v := Networks(&snapshot.NetworkInput{ExternalNetworks: []snapshot.ExternalNetwork{{
			Meta:   uplink.Meta,
			Uplink: &uplink,
		}}, ClusterPrefixes: inside})[0]
		in, _ := Nodes(&snapshot.NodePathInput{Uplinks: []snapshot.Uplink{uplink}, ClusterPrefixes: inside})
		if known := inside != nil; v.Accepted.OK() != known || (len(in.Objects) > 0) != known {
			t.Errorf("with %v: %+v, and %v", inside, v.Accepted, in.Objects)
		}
	}
}

// A network of nodes is programmed when the agents of all of them report it.
func TestNetworkWaitsForItsNodes(t *testing.T) {
	paths := func(b snapshot.NodePathStatus) map[string]snapshot.NodePathStatus {
		return map[string]snapshot.NodePathStatus{"a": {
			IsCurrent:       true,
			NetworkProblems: map[string]string{"vlan": ""},
		}, "b": b}
	}
	for what, c := range map[string]struct {
		b    snapshot.NodePathStatus
		says string
	}{
		"it is done": {
			snapshot.NodePathStatus{IsCurrent: true, NetworkProblems: map[string]string{"vlan": ""}},
			"",
		},
		"nobody has said so": {snapshot.NodePathStatus{}, "check that sallyport-agent is running there"},
		"it can't be": {snapshot.NodePathStatus{
			IsCurrent:       true,
			NetworkProblems: map[string]string{"vlan": "interface eth1 is down"},
		}, "interface eth1 is down"},
	} {
		v := Networks(&snapshot.NetworkInput{
			ExternalNetworks: []snapshot.ExternalNetwork{{
				Meta:   snapshot.Meta{Name: "vlan"},
				Uplink: &snapshot.Uplink{Nodes: []string{"a", "b"}},
			}}, NodePaths: paths(c.b),
		})[0]
		if waits := v.Waiting.Reason == intent.WaitingForAgent; waits != (c.says != "") ||
			!strings.Contains(v.Waiting.Message, c.says) {
			t.Errorf("%s: %+v", what, v.Waiting)
		}
	}
}

// A shared address that is not reserved is not shared: anybody could get it.
func TestSharedAddressesAreReserved(t *testing.T) {
	address := netip.MustParseAddr("198.51.100.10")
	for what, c := range map[string]struct {
		reserved []snapshot.AddressRange
		want     string
	}{
		"reserved": {[]snapshot.AddressRange{{First: address, Last: address}}, ""},
		"free":     {nil, intent.SharedAddressNotReserved},
	} {
		v := Networks(&snapshot.NetworkInput{
			ExternalNetworks: []snapshot.ExternalNetwork{{
				Meta: snapshot.Meta{Name: "internet"}, Subnets: []string{"ext-public"},
				SharedAddresses: map[netip.Addr]string{address: "acme-dns"},
			}},
			ExternalSubnets: map[string]snapshot.ExternalSubnet{
				"ext-public": {
					Subnet:         "ext-public",
					Ready:          true,
					Prefix:         netip.MustParsePrefix("198.51.100.0/24"),
					ReservedRanges: c.reserved,
				},
			},
		})[0]
		if v.Resolved.Reason != c.want {
			t.Errorf("%s: %+v, wanted %q", what, v.Resolved, c.want)
		}
	}
}

// A user may write a source range as an IPv4-mapped prefix. It is IPv6 text, which OVN would refuse in a match for IPv4,
// and continue without the rule.
func TestMappedRangesAreNotIPv4(t *testing.T) {
	ranges := []netip.Prefix{
		netip.MustParsePrefix("::ffff:10.0.0.0/104"), netip.MustParsePrefix("fd00::/8"),
		netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("10.0.0.0/8"),
	}
	if got := joinPrefixes(ipfamily.V4, ranges); got != "10.0.0.0/8 192.0.2.7" {
		t.Errorf("IPv4 is %q", got)
	}
	clients := match.From(match.AnyOf(networksOf(ipfamily.V4, ranges)...)).String()
	if clients != "ip4.src == {10.0.0.0/8, 192.0.2.7}" {
		t.Error(clients)
	}
}

// Steering by connections needs no Services; the other ways into a VRF do.
func TestVRFSteering(t *testing.T) {
	for steering, services := range map[string][]string{"": {"10.96.0.7"}, "Mark": {"10.96.0.7"}, "Connection": nil} {
		w := &snapshot.NodePathInput{
			ClusterPrefixes: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
			Uplinks: []snapshot.Uplink{{
				Meta: snapshot.Meta{Name: "vlan"}, Method: "VRF", Steering: steering, Nodes: []string{"a"},
				ServicePrefixes: []netip.Prefix{netip.MustParsePrefix("198.18.10.0/24")},
			}},
			ExposedServices: []snapshot.ExposedService{{
				ExternalIPs: []netip.Addr{netip.MustParseAddr("198.18.10.1")},
				ClusterIPs:  []netip.Addr{netip.MustParseAddr("10.96.0.7")},
			}},
		}
		got := buildNodeNetwork(w, w.Uplinks[0])
		if string(got.Steering) != steering || !slices.Equal(got.Services, services) || len(got.Inside) != 1 {
			t.Errorf("steering %q: %+v", steering, got)
		}
	}
}

// A labelled Subnet gets an ExternalNetwork that says what the label says, unless an operator has one with the Subnet or
// with its name. A generated one that is not wanted any more takes no Subnet from others.
func TestGeneratedNetworks(t *testing.T) {
	of := func(name string, generated bool, subnets ...string) snapshot.ExternalNetwork {
		return snapshot.ExternalNetwork{Meta: snapshot.Meta{Name: name}, Generated: generated, Subnets: subnets}
	}
	labelled := []snapshot.LabelledSubnet{{Name: "ext-a", Type: "a", Default: true}, {Name: "ext-b", Type: "b"}}
	for what, c := range map[string]struct {
		networks []snapshot.ExternalNetwork
		want     []string
	}{
		"none":                        {nil, []string{"ext-a", "ext-b"}},
		"generated ones":              {[]snapshot.ExternalNetwork{of("ext-a", true, "ext-a")}, []string{"ext-a", "ext-b"}},
		"an operator's of the subnet": {[]snapshot.ExternalNetwork{of("public", false, "ext-a")}, []string{"ext-b"}},
		"an operator's of the name":   {[]snapshot.ExternalNetwork{of("ext-a", false, "other")}, []string{"ext-b"}},
		"both":                        {[]snapshot.ExternalNetwork{of("ext-a", true, "ext-a"), of("public", false, "ext-a")}, []string{"ext-b"}},
	} {
		w := &snapshot.NetworkInput{
			ExternalNetworks: c.networks, LabelledSubnets: labelled,
			ExternalSubnets: map[string]snapshot.ExternalSubnet{"ext-a": {Subnet: "ext-a", Ready: true}},
		}
		var got []string
		for key := range GeneratedNetworks(w).Objects {
			got = append(got, key.Name)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, wanted %v", what, got, c.want)
		}
		for _, v := range Networks(w) {
			if v.Object.Name == "public" && !v.Accepted.OK() {
				t.Errorf("%s: %s", what, v.Accepted.Message)
			}
		}
	}
}
