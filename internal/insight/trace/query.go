package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

// Protocols lists the supported protocols.
var Protocols = []string{"tcp", "udp", "sctp", "icmp"}

// ParseNodeQuery parses a query from a node to an address and port.
func ParseNodeQuery(node, server, protocol string) (Query, error) {
	q, err := ParseQuery("", node, server, protocol)
	q.Node, q.Pod = node, ""
	return q, err
}

// ParseQuery parses a query as people write it: from a client outside or a pod (namespace/name), to an address and
// port.
func ParseQuery(client, pod, server, protocol string) (q Query, err error) {
	if q.Protocol = strings.ToLower(protocol); q.Protocol == "" {
		q.Protocol = "tcp"
	}
	if !slices.Contains(Protocols, q.Protocol) {
		return q, fmt.Errorf("protocol %s is not supported; use one of %s", protocol, strings.Join(Protocols, ", "))
	}
	if q.Server, err = parseEndpoint(server); err != nil {
		return q, fmt.Errorf("destination: %w", err)
	}
	if q.Server.Port() == 0 && q.Protocol != "icmp" {
		return q, fmt.Errorf("destination %s has no port; write it as %s", q.Server.Addr(),
			netip.AddrPortFrom(q.Server.Addr(), 443))
	}
	if q.Pod = pod; pod != "" {
		return q, nil
	}
	if q.Client, err = parseEndpoint(client); err != nil {
		return q, fmt.Errorf("client: %w", err)
	}
	if !ipfamily.Same(q.Client.Addr(), q.Server.Addr()) {
		return q, fmt.Errorf("%s and %s have different address families", q.Client.Addr(), q.Server.Addr())
	}
	return q, nil
}

// parseEndpoint parses an address with or without a port.
func parseEndpoint(text string) (netip.AddrPort, error) {
	text = strings.TrimSpace(text)
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return netip.AddrPortFrom(a.Unmap(), 0), nil
	}
	if a, err := netip.ParseAddrPort(text); err == nil {
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
	}
	if text == "" {
		return netip.AddrPort{}, errors.New("an address is missing")
	}
	return netip.AddrPort{}, fmt.Errorf("%q is not an address such as 198.51.100.7 or 198.51.100.7:443", text)
}
