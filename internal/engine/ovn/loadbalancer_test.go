package ovn

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
)

// newLoadBalancerRow returns a load balancer with a backend and a health check, and the row that we write for it.
func newLoadBalancerRow() (intent.LoadBalancer, *nb.LoadBalancer) {
	port, _ := intent.NewPodPort("shop", "web.0")
	to := netip.MustParseAddrPort("10.0.0.7:8080")
	value := intent.LoadBalancer{
		Name: "shop-web-tcp", Protocol: intent.TCP,
		VIPs: []intent.VIP{{
			Address:  netip.MustParseAddrPort("198.51.100.9:80"),
			Backends: []netip.AddrPort{to},
		}, {Address: netip.MustParseAddrPort("198.51.100.9:443")}},
		IPPortMappings: []intent.IPPortMapping{{
			Backend: to.Addr(),
			Port:    port,
			Source:  netip.MustParseAddr("10.0.0.250"),
		}},
	}
	return value, encodeLoadBalancer(value, "u", map[string]string{}).row.(*nb.LoadBalancer)
}

func attachedNowhere(string, string, string) bool { return false }

func TestBalancerRoundTrip(t *testing.T) {
	want, row := newLoadBalancerRow()
	if got := decodeLoadBalancer(row, attachedNowhere); !got.Equal(want) {
		t.Errorf("%s was written, and is read as %s", want, got)
	}
	if vips := map[string]string{"198.51.100.9:80": "10.0.0.7:8080", "198.51.100.9:443": ""}; !maps.Equal(row.VIPs,
		vips) {
		t.Errorf("vips are %v", row.VIPs)
	}
	if mappings := map[string]string{"10.0.0.7": "web.0.shop:10.0.0.250"}; !maps.Equal(row.IPPortMappings, mappings) {
		t.Errorf("ip_port_mappings are %v", row.IPPortMappings)
	}
}

// Foreign changes to our row are detected, and so repaired.
func TestBalancerShowsWhatIsNotOurs(t *testing.T) {
	for name, change := range map[string]func(*nb.LoadBalancer){
		"another port":         func(b *nb.LoadBalancer) { b.IPPortMappings["10.0.0.7"] = "web.1.shop:10.0.0.250" },
		"no name of a pod":     func(b *nb.LoadBalancer) { b.IPPortMappings["10.0.0.7"] = "web 0.shop:10.0.0.250" },
		"another source":       func(b *nb.LoadBalancer) { b.IPPortMappings["10.0.0.7"] = "web.0.shop:10.0.0.1" },
		"no source":            func(b *nb.LoadBalancer) { b.IPPortMappings["10.0.0.7"] = "web.0.shop" },
		"one more":             func(b *nb.LoadBalancer) { b.IPPortMappings["10.0.0.8"] = "web.0.shop:10.0.0.250" },
		"one more, nonsense":   func(b *nb.LoadBalancer) { b.IPPortMappings["x"] = "" },
		"none":                 func(b *nb.LoadBalancer) { b.IPPortMappings = nil },
		"another backend":      func(b *nb.LoadBalancer) { b.VIPs["198.51.100.9:80"] = "10.0.0.8:8080" },
		"a nonsense backend":   func(b *nb.LoadBalancer) { b.VIPs["198.51.100.9:80"] = "10.0.0.7:8080,moon" },
		"an empty backend":     func(b *nb.LoadBalancer) { b.VIPs["198.51.100.9:80"] = "10.0.0.7:8080," },
		"another spelling":     func(b *nb.LoadBalancer) { b.VIPs["198.51.100.9:80"] = "10.0.0.7:08080" },
		"a nonsense address":   func(b *nb.LoadBalancer) { b.VIPs["moon"] = "" },
		"an address is gone":   func(b *nb.LoadBalancer) { delete(b.VIPs, "198.51.100.9:443") },
		"a backend that is no": func(b *nb.LoadBalancer) { b.VIPs["198.51.100.9:443"] = "10.0.0.7:8080" },
	} {
		want, row := newLoadBalancerRow()
		change(row)
		if got := decodeLoadBalancer(row, attachedNowhere); got.Equal(want) {
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
		value := decodeLoadBalancer(row, attachedNowhere)
		if len(value.VIPs) != 1 || len(value.IPPortMappings) != 1 {
			t.Fatalf("one entry is read as %s", value)
		}
		again := encodeLoadBalancer(value, "", map[string]string{}).row.(*nb.LoadBalancer)
		readable := !slices.ContainsFunc(append(value.VIPs[0].Backends, value.VIPs[0].Address),
			func(a netip.AddrPort) bool {
				return !a.IsValid()
			})
		sorted := slices.IsSortedFunc(strings.Split(backends, ","), func(a, b string) int {
			return parseCanonicalAddrPort(a).Compare(parseCanonicalAddrPort(b))
		})
		if readable && sorted && !maps.Equal(again.VIPs, row.VIPs) {
			t.Errorf("%q is written as %q", row.VIPs, again.VIPs)
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
