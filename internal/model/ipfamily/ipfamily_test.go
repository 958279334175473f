package ipfamily

import (
	"net/netip"
	"testing"
)

func TestFamilies(t *testing.T) {
	for text, want := range map[string]Family{"10.0.0.1": V4, "::ffff:10.0.0.1": V6, "fd00::1": V6} {
		if got := Of(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %s", text, got)
		}
	}
	both := []netip.Prefix{netip.MustParsePrefix("fd00::/64"), netip.MustParsePrefix("10.0.0.0/8")}
	if FirstPrefix(V4, both) != both[1] || FirstPrefix(V6, both) != both[0] || FirstPrefix(V6, both[1:]).IsValid() {
		t.Error("the first prefix of a family is not found")
	}
}
