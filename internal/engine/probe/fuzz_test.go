package probe

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzClaim: any frame claims one address for one MAC address, or none. Our own requests claim no address that was
// requested.
func FuzzClaim(f *testing.F) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	for _, text := range []string{"198.51.100.7", "fd00::7"} {
		f.Add(buildFrame(mac, claimKey{address: netip.MustParseAddr(text)}))
	}
	advertised := buildFrame(mac, claimKey{address: netip.MustParseAddr("fd00::7")})
	advertised[icmpOffset] = neighbourAdvertisement
	f.Add(append(advertised[:ndOptionsOffset:ndOptionsOffset], targetLinkOption, 1, 2, 0, 0, 0, 0, 2))
	f.Add(append(advertised[:ndOptionsOffset:ndOptionsOffset], 14, 255, 0, 0, 0, 0, 0, 0))
	f.Add(advertised[:ndOptionsOffset-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		address, mac, ok := parseClaim(data)
		if ok != address.IsValid() || ok != (len(mac) == 6) {
			t.Errorf("% x: %s has %s (%t)", data, mac, address, ok)
		}
		if ok && address.Is4() != (etherTypeOf(data) == unix.ETH_P_ARP) {
			t.Errorf("% x: %s", data, address)
		}
		if vlan := parseVLANTag(data); vlan > 0x0fff {
			t.Errorf("% x: VLAN %d", data, vlan)
		}
	})
}

// A host that claims an address for many MAC addresses can't make a result grow without limit, and claims that nobody
// requested are discarded.
func TestClaimsAreBounded(t *testing.T) {
	asked, other := claimKey{address: netip.MustParseAddr("198.51.100.7")}, claimKey{address: netip.MustParseAddr("198.51.100.8")}
	c := claims{asked: {}}
	for i := range 1000 {
		mac := net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i)}
		c.addClaim(asked, mac)
		c.addClaim(other, mac)
	}
	if len(c[asked]) != maxMACs || len(c) != 1 {
		t.Errorf("%d MAC addresses of %d addresses", len(c[asked]), len(c))
	}
}
