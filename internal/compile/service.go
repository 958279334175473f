package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/words"
)

// service is a Service that wants a load balancer and what was decided about it.
type service struct {
	snapshot.Service
	key                         intent.ObjectKey
	accepted, resolved, waiting intent.Finding

	eip     *eip // nil: not found, or not made yet
	own     string
	refused map[snapshot.Port]intent.Finding // ports that it can't have
	excess  intent.Finding                   // ports that are too many
	behind  map[string][]snapshot.Endpoint   // endpoints in the project's subnet, by the name of the port
	through []state.Ref                      // what it needs besides its own rows
}

// wanted says whether its load balancers should be there.
func (s *service) wanted() bool {
	return s.accepted.OK() && !s.Deleting && s.eip != nil && s.eip.wanted() && s.eip.address.IsValid()
}

// chooseServices keeps the Services that are ours. Of others we take our status away.
func (c *compiler) chooseServices() {
	all := c.services
	c.services = nil
	for _, s := range all {
		switch {
		case c.serves(s):
			c.services = append(c.services, s)
		case s.Marked:
			c.foreign = append(c.foreign, s)
		}
	}
}

// serves says whether a Service is ours to serve.
func (c *compiler) serves(s *service) bool {
	return s.Balancer && c.w.Config.Classless.Ours(s.Class, c.project != nil, c.w.Management != nil)
}

// resolveServices gives each Service its EIp and its ports. Who has a port now keeps it; then who came first has it.
func (c *compiler) resolveServices() {
	c.limitPorts()
	for _, s := range c.services {
		s.own, s.refused = ownServiceEIp(s), map[snapshot.Port]intent.Finding{}
		if s.accepted = first(c.member(), malformed(s.Malformed)); !s.accepted.OK() {
			continue
		}
		if s.accepted = c.balanceable(s); !s.accepted.OK() {
			continue
		}
		c.makeServiceEIp(s)
		s.resolved = c.findServiceEIp(s)
		s.waiting = first(s.waiting, s.excess, s.tooMany(), c.outsiders(s))
		s.accepted = first(s.portless(), c.sharable(s), c.repliesFind(s))
	}
	c.assignPorts()
}

// assignPorts gives each port of an address to one Service: to the one that has it now, then to the oldest that asks for it. Each port
// is decided by itself, so that no number of other ports takes one away.
func (c *compiler) assignPorts() {
	type portClaim struct {
		by   *service
		port snapshot.Port // one from a file may have a number twice
	}
	holders := map[string]portClaim{}
	for _, held := range []bool{true, false} {
		for _, s := range c.services {
			for _, p := range s.claims() {
				if _, taken := holders[s.slot(p)]; !taken && (!held || c.holdsPort(s, p)) {
					holders[s.slot(p)] = portClaim{s, p}
				}
			}
		}
	}
	for _, s := range c.services {
		for _, p := range s.claims() {
			if holder := holders[s.slot(p)]; holder != (portClaim{s, p}) {
				s.refused[p] = intent.Finding{Reason: intent.PortTaken, Message: fmt.Sprintf(
					"port %d/%s of EIp %s is held by %s; use another port, or another EIp",
					p.Number, p.Protocol, s.eip.Name, s.nameHolder(holder.by))}
			}
		}
		s.judgePorts()
	}
}

// claims are the ports that a Service asks for.
func (s *service) claims() []snapshot.Port {
	if s.eip == nil || !s.accepted.OK() || s.Deleting {
		return nil
	}
	return s.Ports
}

// holdsPort says whether a port of a Service's address is balanced for the Service now.
func (c *compiler) holdsPort(s *service, p snapshot.Port) bool {
	return c.w.Engine.Balanced[balanced(p.Protocol, socket(s.eip.address, p.Number))] == intent.ServiceOf(s.key.Ref())
}

// nameHolder names the Service that has a port, to those who may know: its own namespace, and that of the EIp.
func (s *service) nameHolder(holder *service) string {
	if s.Namespace == holder.Namespace || s.Namespace == s.eip.Namespace {
		return holder.key.String()
	}
	return "a Service of another namespace"
}

// judgePorts refuses a Service that has none of its ports. One that has some works with those.
func (s *service) judgePorts() {
	for _, p := range s.Ports {
		why, refused := s.refused[p]
		switch {
		case !refused:
		case len(s.refused) == len(s.Ports):
			s.accepted = first(s.accepted, why)
		default:
			s.waiting = first(s.waiting, intent.Finding{Reason: intent.SomePortTaken, Message: why.Message})
		}
	}
}

// slot is what no two Services can have: a port of an address, which several EIps may stand for.
func (s *service) slot(p snapshot.Port) string {
	return fmt.Sprintf("%s %s:%d", p.Protocol, s.eip.ovnEip, p.Number)
}

// onlyIPv6 is why a project can't have external addresses.
var onlyIPv6 = intent.Finding{
	Reason: intent.TargetOutside, Message: "the project has no IPv4 prefix, and Kube-OVN 1.16 has IPv4 addresses on external networks only",
}

// balanceable says whether OVN can balance what a Service asks for.
func (c *compiler) balanceable(s *service) intent.Finding {
	for _, p := range s.Ports {
		if !slices.Contains(protocols, p.Protocol) {
			return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
				"port %d has protocol %s, which can't be balanced; use TCP, UDP or SCTP", p.Number, p.Protocol)}
		}
	}
	if len(s.Ranges) > mostRanges {
		return intent.Finding{Reason: intent.TooManyRanges, Message: fmt.Sprintf(
			"spec.loadBalancerSourceRanges has %d entries, and at most %d are supported; combine them into shorter prefixes", len(s.Ranges), mostRanges)}
	}
	if !c.project.prefix4().IsValid() {
		return onlyIPv6
	}
	return intent.Finding{}
}

// mostRanges is how many loadBalancerSourceRanges a Service may have. Each is a flow on every node that has the switch.
const mostRanges = 250

// ownServiceEIp is the name of the EIp that a Service has made for itself, or nothing. It goes with the Service.
func ownServiceEIp(s *service) string {
	if s.EIp != "" {
		return ""
	}
	return "slb-" + s.Name + "-" + intent.Suffix(s.UID)
}

// makeServiceEIp wants that EIp: with the address that the Service asks for, or on the network that it asks for.
func (c *compiler) makeServiceEIp(s *service) {
	if s.own == "" || s.Deleting || c.ending(s.Namespace) {
		return
	}
	from := source{Type: s.Type, Address: s.Address}
	if has := c.networks(func(x snapshot.External) bool { return x.Prefix.Contains(s.Address) }); from.Type == "" && len(has) > 0 {
		from.Type = has[0].Type
	}
	key := s.beside(intent.EIp, s.own)
	from.Type = c.ownType(key, from.Type, cmp.Or(c.w.Config.DefaultServiceType, c.w.Config.DefaultEIpType))
	c.wantEIp(key, from, s.key.Ref())
}

func (c *compiler) findServiceEIp(s *service) intent.Finding {
	in, name := cmp.Or(s.EIpIn, s.Namespace), cmp.Or(s.EIp, s.own)
	if e := c.named(in, name); e != nil && e.sharedWith(s.Namespace) {
		s.eip, s.waiting = e, c.eipReady(e)
		return intent.Finding{}
	}
	if in != s.Namespace {
		return c.notPermitted(s)
	}
	if s.own != "" {
		s.waiting = intent.Finding{Reason: intent.WaitForEIp, Message: fmt.Sprintf("EIp %s is being made", name)}
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.EIpNotFound, Message: fmt.Sprintf(
		"EIp %s does not exist in namespace %s; create it, or name another", words.Name(name), words.Name(in))}
}

// notPermitted is the finding on a Service that names an EIp of another namespace and may not use it. It is the same whether there is
// such an EIp or not.
func (c *compiler) notPermitted(s *service) intent.Finding {
	name := s.EIpIn + "/" + s.EIp
	if c.w.Management == nil {
		return intent.Finding{Reason: intent.RefNotPermitted, Message: fmt.Sprintf(
			"EIp %q can't be used here: Services of a project bind to EIps of its own namespace %s; name one of those", name, s.Namespace)}
	}
	return intent.Finding{Reason: intent.RefNotPermitted, Message: fmt.Sprintf(
		"EIp %q does not exist, or is not shared with namespace %s; let its owner add %s to spec.sharedWith, or name an EIp of this namespace",
		name, s.Namespace, s.Namespace)}
}

// eipReady says what has to be waited for before an EIp can be used.
func (c *compiler) eipReady(e *eip) intent.Finding {
	if e.wanted() && e.waiting.OK() {
		return intent.Finding{}
	}
	why := first(e.accepted, e.resolved, e.waiting, intent.Finding{Reason: intent.BeingDeleted, Message: "it is being deleted"})
	return intent.Finding{Reason: intent.WaitForEIp, Message: fmt.Sprintf("EIp %s is not ready: %s", e.Name, why.Message)}
}

// sharable says whether the EIp is not a floating IP's, which has all of its ports.
func (c *compiler) sharable(s *service) intent.Finding {
	for _, f := range c.fips {
		if s.eip != nil && f.eip == s.eip && f.accepted.OK() && !f.Deleting {
			return intent.Finding{Reason: intent.EIpTaken, Message: fmt.Sprintf(
				"EIp %s is held by FIp %s, which has all of its ports; use another EIp, or delete that FIp", s.eip.Name, f.Name)}
		}
	}
	return intent.Finding{}
}

// repliesFind says whether replies find back to the network of the EIp. By the pod's address they would not: a pod behind a load
// balancer sends its own traffic, too.
func (c *compiler) repliesFind(s *service) intent.Finding {
	if s.eip == nil || s.eip.on == nil || c.isDefault(s.eip.on) || !c.bySource(s.eip.on) {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NeedsConnection, Message: fmt.Sprintf(
		"network %s leads replies back by the pod's address (returnPath Source), with which pods behind load balancers can't be reached; "+
			"use the project's default network, or ask the operator for returnPath Connection", s.eip.on.Network)}
}

// outsiders says whether a Service has endpoints that get no connections.
func (c *compiler) outsiders(s *service) intent.Finding {
	for _, e := range s.Endpoints {
		if why := c.outside(s, e); !why.OK() {
			return why
		}
	}
	return intent.Finding{}
}

// tooMany says whether a Service has more endpoints than are balanced.
func (s *service) tooMany() intent.Finding {
	if s.Left == 0 {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.TooManyEndpoints, Message: fmt.Sprintf(
		"the Service has %d endpoints, one for each address and port, and at most %d are balanced; %d get no connections; "+
			"use fewer pods or ports, or spread them over several Services", len(s.Endpoints)+s.Left, snapshot.MostEndpoints, s.Left)}
}

// outside is why an endpoint gets no connections; none: it does. It has to be in the project: OVN would send connections to any address,
// also of other networks. In the management VPC, which has pods of many namespaces, it has to be a pod of the Service's own: whoever may
// write EndpointSlices would publish those of others.
func (c *compiler) outside(s *service, e snapshot.Endpoint) intent.Finding {
	switch {
	case !c.project.prefix4().Contains(e.Address):
		return intent.Finding{Reason: intent.OutsideUnused, Message: fmt.Sprintf(
			"endpoint %s is not in the project's subnet %s and gets no connections; use pods or virtual machines in it", e.Address, c.project.prefix4())}
	case c.w.Management != nil && !c.pods[s.Namespace][e.Address]:
		return intent.Finding{Reason: intent.EndpointNotOwned, Message: fmt.Sprintf(
			"endpoint %s is not the address of a pod in namespace %s and gets no connections; let the Service select pods of its namespace",
			e.Address, s.Namespace)}
	default:
		return intent.Finding{}
	}
}

// usesEIp says whether a Service uses an EIp: by name, or its own as long as there is something balanced on it.
func (c *compiler) usesEIp(s *service, e *eip) bool {
	if s.Deleting {
		return false
	}
	return s.binds(e) || s.Namespace == e.Namespace && ownServiceEIp(s) == e.Name && c.balancesOn(s, c.w.Engine.OvnEips[c.ovnEip(e)].Address)
}

// binds says whether a Service names an EIp, and may.
func (s *service) binds(e *eip) bool {
	return s.EIp == e.Name && cmp.Or(s.EIpIn, s.Namespace) == e.Namespace && e.sharedWith(s.Namespace)
}

// balancesOn says whether a Service has something balanced on an address now.
func (c *compiler) balancesOn(s *service, a netip.Addr) bool {
	return slices.ContainsFunc(s.Ports, func(p snapshot.Port) bool {
		return c.w.Engine.Balanced[balanced(p.Protocol, socket(a, p.Number))] == intent.ServiceOf(s.key.Ref())
	})
}

// balancer is who has something balanced on an EIp now, or nil.
func (c *compiler) balancer(e *eip) *service {
	for _, s := range c.services {
		if e != nil && e.address.IsValid() && s.binds(e) && c.usesEIp(s, e) && c.balancesOn(s, e.address) {
			return s
		}
	}
	return nil
}

// shown is the address to show: that of the EIp, once something is balanced on it. It stays while rows are being put back.
func (c *compiler) shown(s *service) netip.Addr {
	if s.wanted() && (s.Shown == s.eip.address || c.balancesOn(s, s.eip.address)) {
		return s.eip.address
	}
	return netip.Addr{}
}

// lonely says whether a Service has no endpoint that would get connections.
func (c *compiler) lonely(s *service) bool {
	return !slices.ContainsFunc(s.Ports, func(p snapshot.Port) bool {
		if !c.project.alive() {
			return false
		}
		to, _ := c.backends(s, p)
		return len(to) > 0
	})
}

// keepServices lets Services stay that want to go when they stay without endpoints, until that time has come.
func (c *compiler) keepServices() {
	for _, s := range slices.Concat(c.services, c.foreign) {
		if !s.Expires {
			continue
		}
		expired := s.accepted.OK() && !s.Idle.IsZero() && c.lonely(s) && c.w.Config.Lonely > 0 && c.w.Now.Sub(s.Idle) >= c.w.Config.Lonely
		if !expired || slices.Contains(c.foreign, s) {
			c.in.Stay(s.key)
		}
	}
}

// unshown says whether a Service waits for its address to be shown, which is the next run's business.
func (c *compiler) unshown(s *service) intent.Finding {
	if !s.wanted() || c.shown(s).IsValid() {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.Programming, Message: "its address is shown once it is balanced"}
}

func (s *service) verdict(c *compiler) intent.Verdict {
	facts := intent.ServiceFacts{Address: c.shown(s), Lonely: c.lonely(s), Expires: s.Expires}
	for _, p := range s.Ports {
		facts.Ports = append(facts.Ports, intent.PortFacts{Number: p.Number, Protocol: p.Protocol, Refused: s.refused[p]})
	}
	return intent.Verdict{
		Object: s.key, Generation: s.Generation, Facts: facts,
		Accepted: s.accepted, Resolved: s.resolved, Waiting: first(deleting(s.Deleting), s.waiting, c.unshown(s)), Through: s.through,
	}
}
