package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// backends are where new connections to a port go: endpoints that are ready or, when none is, those that end and still serve. The
// others only bring the connections to an end that they have.
func (c *compiler) backends(s *service, p snapshot.Port) (to, draining []netip.AddrPort) {
	var serving []netip.AddrPort
	for _, e := range c.endpointsOf(s, p.Name) {
		at := socket(e.Address, e.Number)
		switch {
		case e.Ready:
			to = append(to, at)
		case e.Serving:
			serving = append(serving, at)
		default:
			draining = append(draining, at)
		}
	}
	if len(to) == 0 {
		to = serving
	} else {
		draining = append(draining, serving...)
	}
	return sockets(to), sockets(draining)
}

// sockets is addresses and ports in order, each once.
func sockets(list []netip.AddrPort) []netip.AddrPort {
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}

// check wants the health checks of a load balancer, and returns at which switch port each backend is, and who asks it.
func (c *compiler) check(s *service, protocol intent.Protocol, vips []intent.VIP) (probes []intent.Probe) {
	asks := c.prober()
	if !asks.IsValid() {
		s.waiting = first(s.waiting, intent.Finding{Reason: intent.NoProber, Message: fmt.Sprintf(
			"subnet %s has no address left with which backends could be checked; use fewer networks, or a project with a larger subnet", c.subnet())})
		return nil
	}
	for _, v := range vips {
		if v.Address.Addr() == s.drain() {
			continue // whoever brings connections to an end is not asked
		}
		c.in.Row(c.w.Shard, intent.HealthCheck{
			Balancer: s.balancer(protocol), VIP: v.Address,
			Interval: s.Check.Interval, Timeout: s.Check.Timeout, Successes: s.Check.Successes, Failures: s.Check.Failures,
		}, s.key.Ref())
	}
	for _, e := range s.Endpoints {
		if port, known := c.portOf(s, e); known && c.outside(s, e).OK() {
			probes = append(probes, intent.Probe{Backend: e.Address, Port: port, Source: asks})
		}
	}
	slices.SortFunc(probes, func(a, b intent.Probe) int {
		return cmp.Or(a.Compare(b), strings.Compare(a.Port.String(), b.Port.String()))
	})
	return slices.CompactFunc(probes, func(a, b intent.Probe) bool { return a.Backend == b.Backend })
}

// portOf is the switch port of the pod that an endpoint is. Anybody may have written the endpoint: only a pod of the Service's namespace that has
// the endpoint's address is one. Others are not checked.
func (c *compiler) portOf(s *service, e snapshot.Endpoint) (intent.PodPort, bool) {
	if !slices.Contains(c.w.Pods[snapshot.PodName(s.Namespace, e.Target)], e.Address) {
		return intent.PodPort{}, false
	}
	return intent.PodPortOf(s.Namespace, e.Target)
}

// prober is the address with which backends are checked: of those that are kept for legs the last, which legs take last.
func (c *compiler) prober() netip.Addr {
	for _, a := range slices.Backward(reserve(c.project.prefix4())) {
		taken := c.occupied(a)
		for _, leg := range c.w.Engine.Legs {
			taken = taken || leg == a
		}
		if !taken {
			return a
		}
	}
	return netip.Addr{}
}

// restrict wants the rules that let only clients of given ranges reach a Service: on the way from the network to the router, and
// inside the project before the switch balances. It says whether they can be written: until then nothing is balanced, or strangers
// would be first.
//
// One rule passes the clients and another drops the rest. A single rule for everybody else, "!(ip4.src == {...})", is no alternative:
// ovn-controller needs about five times as long for each further range, and minutes for eight.
func (c *compiler) restrict(s *service) bool {
	if len(s.Ranges) == 0 {
		return true
	}
	if !c.connected(s.eip.on.Subnet) {
		return false // the EIp says so
	}
	clients := prefixes(s.Ranges)
	door := c.socketOn(s.eip.on.Subnet)
	for _, at := range []struct {
		port      string
		direction intent.Direction
		match     string
	}{
		{door, intent.OutOfSwitch, fmt.Sprintf("outport == %q && ", door)},
		{c.socket(), intent.IntoSwitch, ""},
	} {
		group := ownership.RangeGroup(at.port)
		// Several Services have the same group: it is the project's.
		c.in.Row(c.w.Shard, intent.PortGroup{Name: group, Ports: at.port}, c.project.ref())
		for _, p := range protocols {
			if ports := s.numbers(p); ports != "" {
				to := fmt.Sprintf("%sip4.dst == %s && %s.dst == {%s}", at.match, s.eip.address, p, ports)
				rule := func(priority int, match, action string) {
					c.in.Row(c.w.Shard, intent.Rule{Group: group, Direction: at.direction, Priority: priority, Match: match, Action: action}, s.key.Ref())
				}
				if clients != "" { // none: ranges of IPv6 only
					rule(ownership.RangePriority+1, to+" && ip4.src == {"+strings.ReplaceAll(clients, " ", ", ")+"}", "pass")
				}
				rule(ownership.RangePriority, to, "drop")
			}
		}
	}
	return true
}

// numbers are the ports of a protocol that a Service has.
func (s *service) numbers(protocol intent.Protocol) string {
	var out []string
	for _, p := range s.Ports {
		if _, refused := s.refused[p]; !refused && p.Protocol == protocol {
			out = append(out, strconv.Itoa(p.Number))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
