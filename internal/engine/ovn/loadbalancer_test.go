package ovn

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// newLoadBalancerRow returns a load balancer for health checks, and the row that we write for it.
func newLoadBalancerRow() (intent.LoadBalancer, *nb.LoadBalancer) {
	port, _ := intent.NewPodPort("shop", "web.0")
	to := netip.MustParseAddrPort("10.0.0.7:8080")
	value := intent.LoadBalancer{
		Name: "shop-web-tcp", Protocol: intent.TCP,
		IPPortMappings: []intent.IPPortMapping{{
			Backend: to.Addr(),
			Port:    port,
			Source:  netip.MustParseAddr("10.0.0.250"),
		}},
	}
	return value, encodeLoadBalancer(value, "u", map[string]string{}, nil).row.(*nb.LoadBalancer)
}

func TestBalancerRoundTrip(t *testing.T) {
	want, row := newLoadBalancerRow()
	if got := decodeLoadBalancer(row, "shop", attachedNowhere); !got.Equal(want) {
		t.Errorf("%s was written, and is read as %s", want, got)
	}
	if mappings := map[string]string{"10.0.0.7": "web.0.shop:10.0.0.250"}; !maps.Equal(row.IPPortMappings, mappings) {
		t.Errorf("ip_port_mappings are %v", row.IPPortMappings)
	}
}

// Foreign changes to our row are detected, and so repaired.
func TestBalancerShowsWhatIsNotOurs(t *testing.T) {
	for name, change := range map[string]func(*nb.LoadBalancer){
		"another port":       func(b *nb.LoadBalancer) { b.IPPortMappings["10.0.0.7"] = "web.1.shop:10.0.0.250" },
		"no name of a pod":   func(b *nb.LoadBalancer) { b.IPPortMappings["10.0.0.7"] = "web 0.shop:10.0.0.250" },
		"another source":     func(b *nb.LoadBalancer) { b.IPPortMappings["10.0.0.7"] = "web.0.shop:10.0.0.1" },
		"no source":          func(b *nb.LoadBalancer) { b.IPPortMappings["10.0.0.7"] = "web.0.shop" },
		"one more":           func(b *nb.LoadBalancer) { b.IPPortMappings["10.0.0.8"] = "web.0.shop:10.0.0.250" },
		"one more, nonsense": func(b *nb.LoadBalancer) { b.IPPortMappings["x"] = "" },
		"none":               func(b *nb.LoadBalancer) { b.IPPortMappings = nil },
		"another option":     func(b *nb.LoadBalancer) { b.Options[rejectOption] = "false" },
		"another timeout":    func(b *nb.LoadBalancer) { b.Options[affinityOption] = "7" },
	} {
		want, row := newLoadBalancerRow()
		change(row)
		if got := decodeLoadBalancer(row, "shop", attachedNowhere); got.Equal(want) {
			t.Errorf("%s: it is read as if it were ours: %s", name, got)
		}
	}
}

// FuzzBalancer: what can be decoded of a row is encoded unchanged, and no text decodes to more or other entries than it
// has.
func FuzzBalancer(f *testing.F) {
	f.Add("198.51.100.9:80", "10.0.0.7:8080,10.0.0.8:8080", "10.0.0.7", "web", "shop", "10.0.0.250")
	f.Add("[2001:db8::9]:80", "[fd00::7]:8080", "fd00::7", "web.0", "shop", "fd00::250")
	f.Add("198.51.100.9:80", "", "10.0.0.7", "shop.acme-web:10.30.0.1 240.0.0.9=x", "evil-x", "10.66.0.254")
	f.Add("a=b c=d", "x y", "10.0.0.7=x", "a\nb", "a.b", "::1%eth0 || ip4")
	f.Fuzz(func(t *testing.T, vip, backends, backend, pod, namespace, source string) {
		mapping := pod + "." + namespace + ":" + source
		row := &nb.LoadBalancer{
			VIPs:           map[string]string{vip: backends},
			IPPortMappings: map[string]string{backend: mapping},
		}
		value, balanced := decodeLoadBalancer(row, "shop", attachedNowhere), decodeVIP(vip, backends)
		if len(value.IPPortMappings) != 1 {
			t.Fatalf("one entry is read as %s", value)
		}
		again := encodeLoadBalancer(value, "", map[string]string{}, nil).row.(*nb.LoadBalancer)
		readable := !slices.ContainsFunc(append(slices.Clone(balanced.Backends), balanced.Address),
			func(a netip.AddrPort) bool { return !a.IsValid() })
		sorted := slices.IsSortedFunc(strings.Split(backends, ","), func(a, b string) int {
			return parseCanonicalAddrPort(a).Compare(parseCanonicalAddrPort(b))
		})
		if readable && sorted && (balanced.Address.String() != vip || encodeBackends(balanced.Backends) != backends) {
			t.Errorf("%q=%q is written as %s", vip, backends, balanced)
		}
		p := value.IPPortMappings[0]
		if p.Backend.IsValid() && p.Source.IsValid() && p.Port != (intent.PodPort{}) &&
			!maps.Equal(again.IPPortMappings, row.IPPortMappings) {
			t.Errorf("%q is written as %q", row.IPPortMappings, again.IPPortMappings)
		}
		if port, ok := intent.NewPodPort(namespace, pod); ok && strings.ContainsAny(port.String(), " =:,|\"'\n\x1b") {
			t.Errorf("%q is the name of a port", port)
		}
	})
}

// newVIPRow returns a shared load balancer with two VIPs, as OVN has it.
func newVIPRow() *nb.LoadBalancer {
	return &nb.LoadBalancer{
		UUID: "u", Name: "shop-lb-tcp-0",
		VIPs: map[string]string{"198.51.100.9:80": "10.0.0.7:8080", "198.51.100.9:443": ""},
		ExternalIDs: map[string]string{
			ownership.RowShardKey: "shop", ownership.RowOwnerKey: "Project/acme/shop",
			ownership.RowVIPOwnerPrefix + "198.51.100.9:80":  "shop/web",
			ownership.RowVIPOwnerPrefix + "198.51.100.9:443": "shop/tls",
		},
	}
}

// wantVIPs returns the VIPs of that load balancer, by key.
func wantVIPs() map[intent.RowKey]intent.VIP {
	out := map[intent.RowKey]intent.VIP{}
	for _, v := range []intent.VIP{
		{
			Address: netip.MustParseAddrPort("198.51.100.9:80"), Service: "shop/web",
			Backends: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:8080")},
		},
		{Address: netip.MustParseAddrPort("198.51.100.9:443"), Service: "shop/tls"},
	} {
		v.LoadBalancer, v.Protocol = "shop-lb-tcp-0", intent.TCP
		out[v.Key("shop")] = v
	}
	return out
}

// countDifferences returns how many VIPs of a row are missing, more than ours, or different.
func countDifferences(row *nb.LoadBalancer) (differences int) {
	found := indexByKey("shop", vipRecords(row, "shop", row.Name))
	for key, want := range wantVIPs() {
		if r, there := found[key]; !there || !r.value.Equal(want) {
			differences++
		}
	}
	for key := range found {
		if _, ours := wantVIPs()[key]; !ours {
			differences++
		}
	}
	return differences
}

// Foreign changes of VIPs and of their owners are detected, and so repaired.
func TestVIPsShowWhatIsNotOurs(t *testing.T) {
	if n := countDifferences(newVIPRow()); n != 0 {
		t.Fatalf("%d VIPs differ before a change", n)
	}
	for name, change := range map[string]func(*nb.LoadBalancer){
		"another backend":      func(b *nb.LoadBalancer) { b.VIPs["198.51.100.9:80"] = "10.0.0.8:8080" },
		"a nonsense backend":   func(b *nb.LoadBalancer) { b.VIPs["198.51.100.9:80"] = "10.0.0.7:8080,moon" },
		"an empty backend":     func(b *nb.LoadBalancer) { b.VIPs["198.51.100.9:80"] = "10.0.0.7:8080," },
		"another spelling":     func(b *nb.LoadBalancer) { b.VIPs["198.51.100.9:80"] = "10.0.0.7:08080" },
		"a nonsense address":   func(b *nb.LoadBalancer) { b.VIPs["moon"] = "" },
		"an address is gone":   func(b *nb.LoadBalancer) { delete(b.VIPs, "198.51.100.9:443") },
		"a backend that is no": func(b *nb.LoadBalancer) { b.VIPs["198.51.100.9:443"] = "10.0.0.7:8080" },
		"another owner": func(b *nb.LoadBalancer) {
			b.ExternalIDs[ownership.RowVIPOwnerPrefix+"198.51.100.9:443"] = "shop/web"
		},
		"no owner": func(b *nb.LoadBalancer) {
			delete(b.ExternalIDs, ownership.RowVIPOwnerPrefix+"198.51.100.9:443")
		},
	} {
		row := newVIPRow()
		change(row)
		if n := countDifferences(row); n != 1 {
			t.Errorf("%s: %d VIPs differ, wanted 1", name, n)
		}
	}
}

// A VIP of a load balancer with one Service belongs to that Service: such rows were written by earlier versions for all
// Services.
func TestVIPOfOneService(t *testing.T) {
	row := &nb.LoadBalancer{
		Name: "shop-web-tcp", VIPs: map[string]string{"198.51.100.9:80": ""},
		ExternalIDs: map[string]string{ownership.RowShardKey: "shop", ownership.RowOwnerKey: "Service/shop/web"},
	}
	id := decodeLoadBalancer(row, "shop", attachedNowhere).ID()
	if r := vipRecords(row, "shop", id)[0]; id != "shop/web tcp" || r.value.(intent.VIP).Service != "shop/web" {
		t.Errorf("the load balancer is %q, the VIP %s", id, r.value)
	}
}

// A row loses an address with its last port.
func TestAddressesThatAnEditLoses(t *testing.T) {
	for name, c := range map[string]struct {
		removed []string
		added   map[string]string
		want    []string
	}{
		"one of two ports":  {removed: []string{"198.51.100.9:80"}},
		"both ports":        {removed: []string{"198.51.100.9:80", "198.51.100.9:443"}, want: []string{"198.51.100.9"}},
		"other backends":    {removed: []string{"198.51.100.9:80"}, added: map[string]string{"198.51.100.9:80": ""}},
		"another address":   {added: map[string]string{"198.51.100.10:80": ""}},
		"of another family": {added: map[string]string{"[2001:db8::9]:80": ""}},
		"replaced by another": {
			removed: []string{"198.51.100.9:80", "198.51.100.9:443"}, added: map[string]string{"198.51.100.10:80": ""},
			want: []string{"198.51.100.9"},
		},
	} {
		edit := &vipEdit{before: newVIPRow(), removed: c.removed, added: c.added}
		if got := slices.Sorted(maps.Keys(edit.lostAddresses())); !slices.Equal(got, c.want) {
			t.Errorf("%s: the row loses %v, wanted %v", name, got, c.want)
		}
	}
}
