package trace

import (
	"strings"
	"testing"
)

func TestAsk(t *testing.T) {
	for _, c := range []struct{ client, pod, server, protocol, wants string }{
		{"203.0.113.9", "", "198.51.100.7:443", "", "203.0.113.9:0 198.51.100.7:443 tcp"},
		{" 203.0.113.9:5 ", "", "198.51.100.7:53", "UDP", "203.0.113.9:5 198.51.100.7:53 udp"},
		{"203.0.113.9", "", "198.51.100.7", "icmp", "203.0.113.9:0 198.51.100.7:0 icmp"},
		{"[2001:db8::9]", "", "[2001:db8::7]:443", "sctp", "[2001:db8::9]:0 [2001:db8::7]:443 sctp"},
		{"::ffff:203.0.113.9", "", "198.51.100.7:443", "tcp", "203.0.113.9:0 198.51.100.7:443 tcp"},
		{"", "acme-shop/web", "192.0.2.1:443", "tcp", "acme-shop/web 192.0.2.1:443 tcp"},
	} {
		q, err := ParseQuery(c.client, c.pod, c.server, c.protocol)
		got := strings.Join([]string{q.Client.String(), q.Server.String(), q.Protocol}, " ")
		if q.Pod != "" {
			got = strings.Join([]string{q.Pod, q.Server.String(), q.Protocol}, " ")
		}
		if err != nil || got != c.wants {
			t.Errorf("%+v is read as %s: %v", c, got, err)
		}
	}
}

// Errors say what to write instead.
func TestAskInVain(t *testing.T) {
	for _, c := range []struct{ client, server, protocol, says string }{
		{"203.0.113.9", "198.51.100.7", "tcp", "destination 198.51.100.7 has no port; write it as 198.51.100.7:443"},
		{
			"203.0.113.9", "web.example.org:443", "tcp",
			`destination: "web.example.org:443" is not an address such as 198.51.100.7`,
		},
		{"", "198.51.100.7:443", "tcp", "client: an address is missing"},
		{"203.0.113.9", "198.51.100.7:443", "gre", "protocol gre is not supported; use one of tcp, udp, sctp, icmp"},
		{"2001:db8::9", "198.51.100.7:443", "tcp", "different address families"},
	} {
		if _, err := ParseQuery(c.client, "", c.server, c.protocol); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
