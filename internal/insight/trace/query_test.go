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

// What can't be asked is answered with what to write instead.
func TestAskInVain(t *testing.T) {
	for _, c := range []struct{ client, server, protocol, says string }{
		{"203.0.113.9", "198.51.100.7", "tcp", "which port of 198.51.100.7? Give one such as 198.51.100.7:443"},
		{
			"203.0.113.9", "web.example.org:443", "tcp",
			`where to? "web.example.org:443" is no address such as 198.51.100.7`,
		},
		{"", "198.51.100.7:443", "tcp", "from where? give an address"},
		{"203.0.113.9", "198.51.100.7:443", "gre", "protocol gre is none of tcp, udp, sctp, icmp"},
		{"2001:db8::9", "198.51.100.7:443", "tcp", "different families"},
	} {
		if _, err := ParseQuery(c.client, "", c.server, c.protocol); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
