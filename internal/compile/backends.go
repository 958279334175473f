package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// selectBackends returns the endpoints that get new connections of a port: those that are ready or, if none is, those
// that are terminating but still serving. The others are drained: they only keep their open connections.
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

// sortAddrPorts sorts addresses and ports and removes duplicates.
func sortAddrPorts(list []netip.AddrPort) []netip.AddrPort {
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}

// emitHealthChecks adds the health checks of a load balancer. It returns the IP-to-port mappings: the switch port of
// each backend and the source address of its checks.
func (c *compiler) emitHealthChecks(s *service, protocol intent.Protocol,
	vips []intent.VIP,
) (probes []intent.IPPortMapping) {
	for _, on := range c.listBackendSubnets(s) {
		if !on.chooseProbeSource(c.familyOf(s.eip)).IsValid() {
			s.waiting = firstProblem(s.waiting, intent.Finding{Reason: intent.NoAddressForChecks, Message: fmt.Sprintf(
				"subnet %s has no address left as source of health checks; "+
					"use fewer networks, or a project with a larger subnet", on.subnetName())})
			return nil
		}
	}
	for _, v := range vips {
		c.out.AddRow(c.w.Shard, intent.LoadBalancerHealthCheck{
			LoadBalancer: s.loadBalancerName(protocol), VIP: v.Address,
			Interval: s.HealthCheck.Interval, Timeout: s.HealthCheck.Timeout, SuccessCount: s.HealthCheck.Successes,
			FailureCount: s.HealthCheck.Failures,
		}, s.key.Ref())
	}
	for _, e := range s.Endpoints {
		port, known := c.findPodPort(s, e)
		if on := c.findSubnet(e.Address); on != nil && known && c.checkEndpoint(s, e).OK() {
			source := on.chooseProbeSource(c.familyOf(s.eip))
			probes = append(probes, intent.IPPortMapping{Backend: e.Address, Port: port, Source: source})
		}
	}
	slices.SortFunc(probes, func(a, b intent.IPPortMapping) int {
		return cmp.Or(a.Compare(b), strings.Compare(a.Port.String(), b.Port.String()))
	})
	return slices.CompactFunc(probes, func(a, b intent.IPPortMapping) bool { return a.Backend == b.Backend })
}

// findPodPort returns the switch port of the pod behind an endpoint. EndpointSlices are user input, so the pod must be
// in the Service's namespace and have the endpoint's address. Other endpoints are not checked.
func (c *compiler) findPodPort(s *service, e snapshot.Endpoint) (intent.PodPort, bool) {
	if !slices.Contains(c.w.Pods[snapshot.PodKey(s.Namespace, e.TargetPod)], e.Address) {
		return intent.PodPort{}, false
	}
	return intent.NewPodPort(s.Namespace, e.TargetPod)
}

// chooseProbeSource returns the source address of health checks: the last free one of the addresses reserved for return
// ports, which return ports take last.
func (c *compiler) chooseProbeSource(f ipfamily.Family) netip.Addr {
	for _, a := range slices.Backward(reservedAddresses(c.project.prefix(f))) {
		taken := c.isOccupied(a)
		for _, used := range c.w.Engine.ReturnPorts {
			taken = taken || used == a
		}
		if !taken {
			return a
		}
	}
	return netip.Addr{}
}

// emitSourceRanges adds the ACLs that restrict a Service to its source ranges: on the path from the network to the
// router, and inside the project before the switch's load balancing. It reports whether they can be written. Until then
// the Service has no load balancer, or it would first be open to everybody.
//
// One ACL passes the clients and another drops the rest. A single ACL with a negated set of sources is no alternative:
// ovn-controller needs about five times as long for each further range, and minutes for eight.
func (c *compiler) emitSourceRanges(s *service) bool {
	if len(s.SourceRanges) == 0 {
		return true
	}
	if !c.isConnected(s.eip.external.Subnet) {
		return false // the EIp's conditions report it
	}
	clients := networksOf(c.familyOf(s.eip), s.SourceRanges)
	for _, at := range c.listBalancingPlaces(s.eip.external) {
		group := ownership.SourceRangePortGroup(at.port)
		// Several Services share the group, so its origin is the project.
		c.out.AddRow(c.w.Shard, intent.PortGroup{Name: group, Ports: at.port}, c.project.ref())
		for _, p := range protocols {
			if ports := s.acceptedPorts(p); len(ports) > 0 {
				to := match.All(at.packets, match.To(match.Addr(s.eip.address)), match.ToPorts(string(p), ports))
				rule := func(priority int, packets match.Expr, action string) {
					c.out.AddRow(c.w.Shard, intent.ACL{
						PortGroup: group, Direction: at.direction, Priority: priority, Match: packets.String(),
						Action: action,
					}, s.key.Ref())
				}
				if len(clients) > 0 { // empty: all ranges are of the other family
					rule(ownership.SourceRangePriority+1,
						match.All(to, match.From(match.AnyOf(clients...))), "pass")
				}
				rule(ownership.SourceRangePriority, to, "drop")
			}
		}
	}
	return true
}

// balancingPlace is a port group of a switch where packets are filtered before they are balanced.
type balancingPlace struct {
	port      string
	direction intent.Direction
	packets   match.Expr
}

// listBalancingPlaces returns the port to the router on an external network, and those on the switches of pods.
func (c *compiler) listBalancingPlaces(network *snapshot.ExternalSubnet) []balancingPlace {
	port := c.routerSwitchPortOn(network.Subnet)
	out := []balancingPlace{{port, intent.ToLport, match.OutPort(port)}}
	for _, name := range c.podSwitches() {
		out = append(out, balancingPlace{c.routerSwitchPortOn(name), intent.FromLport, match.Expr{}})
	}
	return out
}

// acceptedPorts returns the accepted ports of a Service for one protocol, sorted as text.
func (s *service) acceptedPorts(protocol intent.Protocol) []string {
	var out []string
	for _, p := range s.Ports {
		if _, refused := s.refusedPorts[p]; !refused && p.Protocol == protocol {
			out = append(out, strconv.Itoa(p.Number))
		}
	}
	slices.Sort(out)
	return out
}
