package intent

import (
	"strings"
	"testing"
)

// Only names that Kubernetes allows are accepted as the name of a port.
func TestPodPort(t *testing.T) {
	for _, good := range [][2]string{
		{"shop", "web"},
		{"shop", "web-0.v2"},
		{"a-1", "0"},
		{strings.Repeat("a", 63), strings.Repeat("a", 253)},
	} {
		port, ok := NewPodPort(good[0], good[1])
		if again, read := ParsePodPort(port.String()); !ok || !read || again != port ||
			port.String() != good[1]+"."+good[0] {
			t.Errorf("%q is %q, read as %q", good, port, again)
		}
	}
	for _, bad := range [][2]string{
		{"", "web"},
		{"shop", ""},
		{"shop.a", "web"},
		{"Shop", "web"},
		{"shop", "Web"},
		{"shop", "web "},
		{"shop", "web\n"},
		{"shop\n", "web"},
		{"shop", "web:10.0.0.1 x=y"},
		{"shop", "web="},
		{"shop", ".web"},
		{"shop", "web."},
		{"shop", "a..b"},
		{"shop", "-web"},
		{"shop", "web-"},
		{"shop", "we_b"},
		{"shop", "wéb"},
		{"shop", "web\x1b"},
		{strings.Repeat("a", 64), "web"},
		{"shop", strings.Repeat("a", 254)},
	} {
		if port, ok := NewPodPort(bad[0], bad[1]); ok || port != (PodPort{}) {
			t.Errorf("%q is the port %q", bad, port)
		}
	}
	for _, bad := range []string{"", "web", ".", "web.", ".shop", "a b.shop"} {
		if port, ok := ParsePodPort(bad); ok {
			t.Errorf("%q is read as the port %q", bad, port)
		}
	}
}
