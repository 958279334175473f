package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Protocols are those that can be asked about.
var Protocols = []string{"tcp", "udp", "sctp", "icmp"}

// ParseQuery reads a question as people write it: from a client outside or a pod (namespace/name), to an address and
// port.
func ParseQuery(client, pod, server, protocol string) (q Query, err error) {
	if q.Protocol = strings.ToLower(protocol); q.Protocol == "" {
		q.Protocol = "tcp"
	}
	if !slices.Contains(Protocols, q.Protocol) {
		return q, fmt.Errorf("protocol %s is none of %s", protocol, strings.Join(Protocols, ", "))
	}
	if q.Server, err = parseEndpoint(server); err != nil {
		return q, fmt.Errorf("where to? %w", err)
	}
	if q.Server.Port() == 0 && q.Protocol != "icmp" {
		return q, fmt.Errorf("which port of %s? Give one such as %s", q.Server.Addr(),
			netip.AddrPortFrom(q.Server.Addr(), 443))
	}
	if q.Pod = pod; pod != "" {
		return q, nil
	}
	if q.Client, err = parseEndpoint(client); err != nil {
		return q, fmt.Errorf("from where? %w", err)
	}
	if q.Client.Addr().Is4() != q.Server.Addr().Is4() {
		return q, fmt.Errorf("%s and %s are of different families", q.Client.Addr(), q.Server.Addr())
	}
	return q, nil
}

// parseEndpoint is an address with or without a port.
func parseEndpoint(text string) (netip.AddrPort, error) {
	text = strings.TrimSpace(text)
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return netip.AddrPortFrom(a.Unmap(), 0), nil
	}
	if a, err := netip.ParseAddrPort(text); err == nil {
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
	}
	if text == "" {
		return netip.AddrPort{}, errors.New("give an address")
	}
	return netip.AddrPort{}, fmt.Errorf("%q is no address such as 198.51.100.7 or 198.51.100.7:443", text)
}
