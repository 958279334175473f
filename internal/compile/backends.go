package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// selectBackends are where new connections to a port go: endpoints that are ready or, when none is, those that end and
// still serve. The others only bring the connections to an end that they have.
func (c *compiler) selectBackends(s *service, p snapshot.Port) (to, draining []netip.AddrPort) {
	var serving []netip.AddrPort
	for _, e := range c.endpointsForPort(s, p.Name) {
		at := newAddrPort(e.Address, e.Number)
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
	return sortAddrPorts(to), sortAddrPorts(draining)
}

// sortAddrPorts is addresses and ports in order, each once.
func sortAddrPorts(list []netip.AddrPort) []netip.AddrPort {
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}

// emitHealthChecks wants the health checks of a load balancer, and returns at which switch port each backend is, and
// who asks it.
func (c *compiler) emitHealthChecks(s *service, protocol intent.Protocol,
	vips []intent.VIP,
) (probes []intent.IPPortMapping) {
	asks := c.chooseProbeSource()
	if !asks.IsValid() {
		s.waiting = firstProblem(s.waiting, intent.Finding{Reason: intent.NoAddressForChecks, Message: fmt.Sprintf(
			"subnet %s has no address left with which backends could be checked; use fewer networks, or a project with a larger subnet", c.subnetName())})
		return nil
	}
	for _, v := range vips {
		if v.Address.Addr() == s.drainAddress() {
			continue // whoever brings connections to an end is not asked
		}
		c.out.AddRow(c.w.Shard, intent.LoadBalancerHealthCheck{
			LoadBalancer: s.loadBalancerName(protocol), VIP: v.Address,
			Interval: s.HealthCheck.Interval, Timeout: s.HealthCheck.Timeout, SuccessCount: s.HealthCheck.Successes,
			FailureCount: s.HealthCheck.Failures,
		}, s.key.Ref())
	}
	for _, e := range s.Endpoints {
		if port, known := c.findPodPort(s, e); known && c.checkEndpoint(s, e).OK() {
			probes = append(probes, intent.IPPortMapping{Backend: e.Address, Port: port, Source: asks})
		}
	}
	slices.SortFunc(probes, func(a, b intent.IPPortMapping) int {
		return cmp.Or(a.Compare(b), strings.Compare(a.Port.String(), b.Port.String()))
	})
	return slices.CompactFunc(probes, func(a, b intent.IPPortMapping) bool { return a.Backend == b.Backend })
}

// findPodPort is the switch port of the pod that an endpoint is. Anybody may have written the endpoint: only a pod of
// the Service's namespace that has the endpoint's address is one. Others are not checked.
func (c *compiler) findPodPort(s *service, e snapshot.Endpoint) (intent.PodPort, bool) {
	if !slices.Contains(c.w.Pods[snapshot.PodKey(s.Namespace, e.TargetPod)], e.Address) {
		return intent.PodPort{}, false
	}
	return intent.NewPodPort(s.Namespace, e.TargetPod)
}

// chooseProbeSource is the address with which backends are checked: of those that are kept for legs the last, which
// legs take last.
func (c *compiler) chooseProbeSource() netip.Addr {
	for _, a := range slices.Backward(reservedAddresses(c.project.ipv4Prefix())) {
		taken := c.isOccupied(a)
		for _, leg := range c.w.Engine.ReturnPorts {
			taken = taken || leg == a
		}
		if !taken {
			return a
		}
	}
	return netip.Addr{}
}

// emitSourceRanges wants the rules that let only clients of given ranges reach a Service: on the way from the network
// to the router, and inside the project before the switch balances. It says whether they can be written: until then
// nothing is balanced, or strangers would be first.
//
// One rule passes the clients and another drops the rest. A single rule for everybody else, "!(ip4.src == {...})", is
// no alternative: ovn-controller needs about five times as long for each further range, and minutes for eight.
func (c *compiler) emitSourceRanges(s *service) bool {
	if len(s.SourceRanges) == 0 {
		return true
	}
	if !c.isConnected(s.eip.external.Subnet) {
		return false // the EIp says so
	}
	clients := joinPrefixes(s.SourceRanges)
	door := c.routerSwitchPortOn(s.eip.external.Subnet)
	for _, at := range []struct {
		port      string
		direction intent.Direction
		match     string
	}{
		{door, intent.ToLport, fmt.Sprintf("outport == %q && ", door)},
		{c.routerSwitchPort(), intent.FromLport, ""},
	} {
		group := ownership.SourceRangePortGroup(at.port)
		// Several Services have the same group: it is the project's.
		c.out.AddRow(c.w.Shard, intent.PortGroup{Name: group, Ports: at.port}, c.project.ref())
		for _, p := range protocols {
			if ports := s.joinPortNumbers(p); ports != "" {
				to := fmt.Sprintf("%sip4.dst == %s && %s.dst == {%s}", at.match, s.eip.address, p, ports)
				rule := func(priority int, match, action string) {
					c.out.AddRow(c.w.Shard, intent.ACL{
						PortGroup: group, Direction: at.direction, Priority: priority, Match: match, Action: action,
					}, s.key.Ref())
				}
				if clients != "" { // none: ranges of IPv6 only
					rule(ownership.SourceRangePriority+1,
						to+" && ip4.src == {"+strings.ReplaceAll(clients, " ", ", ")+"}", "pass")
				}
				rule(ownership.SourceRangePriority, to, "drop")
			}
		}
	}
	return true
}

// joinPortNumbers are the ports of a protocol that a Service has.
func (s *service) joinPortNumbers(protocol intent.Protocol) string {
	var out []string
	for _, p := range s.Ports {
		if _, refused := s.refusedPorts[p]; !refused && p.Protocol == protocol {
			out = append(out, strconv.Itoa(p.Number))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
