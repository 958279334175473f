package bgp

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
)

// testBlueprint has uplinks of both families, of IPv4 and of IPv6 with BGP, and one without.
func testBlueprint(t *testing.T) blueprint.Blueprint {
	t.Helper()
	b, err := blueprint.Load("testdata/uplinks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConfiguration(t *testing.T) {
	for name, speaker := range Speakers(Shop{}, testBlueprint(t)) {
		if name == "node2" {
			continue
		}
		want, err := os.ReadFile("testdata/" + name + ".conf")
		if err != nil {
			t.Fatal(err)
		}
		if speaker.config != string(want) {
			t.Errorf("%s has\n%s\nwant\n%s", name, speaker.config, want)
		}
	}
}

func TestWhoSpeaks(t *testing.T) {
	speakers := Speakers(Shop{}, testBlueprint(t))
	for name, calls := range map[string]int{
		"router-dual": 4, "router-four": 2, "router-six": 2, "node1": 0, "node2": 0,
	} {
		if s := speakers[name]; s == nil || s.calls != calls {
			t.Errorf("%s: %+v, want %d sessions waited for", name, s, calls)
		}
	}
	if len(speakers) != 5 {
		t.Errorf("%d speakers, want 5: a router without BGP has none", len(speakers))
	}
	if silent := Speakers(Shop{}, blueprint.Default()); len(silent) != 0 {
		t.Errorf("a lab without BGP has speakers: %v", silent)
	}
}

func TestAnnounce(t *testing.T) {
	for _, c := range []struct {
		prefix string
		by     string // names of uplinks
		want   string // commands that differ, or part of the complaint
	}{
		{"198.18.10.1/32", "", "set community 64513:1 64513:2; network 198.18.10.1/32 route-map by-dual-four"},
		{"198.18.10.1/32", "four", "set community 64513:2; network 198.18.10.1/32 route-map by-four"},
		{"198.18.10.1/32", "four dual", "set community 64513:1 64513:2; network 198.18.10.1/32 route-map by-dual-four"},
		{"198.18.10.0/24", "dual", "set community 64513:1; network 198.18.10.0/24 route-map by-dual"},
		{"2001:db8:99::1/128", "", "set community 64513:1 64513:3; network 2001:db8:99::1/128 route-map by-dual-six"},
		{"198.18.10.1/32", "six", "no ipv4 prefix"},
		{"198.18.10.1/32", "plain", `no uplink "plain" with BGP; there are: dual, four, six`},
		{"198.18.10.1/32", "four nobody", `no uplink "nobody" with BGP`},
		{"198.18.10.1/24", "", "can't be announced"},
		{"224.0.0.1/32", "", "can't be announced"},
		{"::ffff:198.18.10.1/128", "", "can't be announced"},
	} {
		got, err := Announce(testBlueprint(t), "node1", netip.MustParsePrefix(c.prefix), strings.Fields(c.by)...)
		said := ""
		if err != nil {
			said = err.Error()
		} else {
			said = got[2] + "; " + got[len(got)-1]
		}
		if said != c.want && (err == nil || !strings.Contains(said, c.want)) {
			t.Errorf("%s by %q: %s; want %s", c.prefix, c.by, said, c.want)
		}
	}
}

func TestWhoMayAnnounce(t *testing.T) {
	prefix, b := netip.MustParsePrefix("2001:db8:99::1/128"), testBlueprint(t)
	got, err := Withdraw(b, "node2", prefix)
	want := "configure terminal; router bgp 64513; address-family ipv6 unicast; no network 2001:db8:99::1/128"
	if said := strings.Join(got, "; "); err != nil || said != want {
		t.Errorf("withdraw: %s, %v; want %s", said, err, want)
	}
	four := b
	four.Uplinks = []blueprint.Uplink{b.Uplinks[1]}
	for node, c := range map[string]struct {
		b    blueprint.Blueprint
		want string
	}{
		"node3":    {b, `no node "node3"; there are node1 to node2`},
		"router-a": {b, "no node"},
		"node1":    {blueprint.Default(), "bgp: true"},
		"node2":    {four, "no uplink with BGP has an ipv6 prefix"},
	} {
		if _, err := Announce(c.b, node, prefix); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a complaint with %q", node, err, c.want)
		}
	}
}

func TestSessionsAreCounted(t *testing.T) {
	for text, want := range map[string]int{
		`{}`: 0,
		`{"warning":"No BGP neighbors found in VRF default"}`:                        0,
		`{"ipv4Unicast":{"peers":{"192.0.2.11":{"state":"Active"}},"totalPeers":1}}`: 0,
		`{"ipv4Unicast":{"peers":{"192.0.2.11":{"state":"Established"},"192.0.2.12":{"state":"Established"}}},
		  "ipv6Unicast":{"peers":{"2001:db8:a::b":{"state":"Established"},"2001:db8:a::c":{"state":"Connect"}}}}`: 3,
	} {
		if got, err := established([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	if _, err := established([]byte("% Unknown command")); err == nil {
		t.Error("what is no summary is taken for one")
	}
}
