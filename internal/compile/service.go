package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// service is a Service that wants a load balancer and what was decided about it.
type service struct {
	snapshot.Service
	key                         intent.ObjectKey
	accepted, resolved, waiting intent.Finding

	eip             *eip // nil: not found, or not made yet
	ownEIPName      string
	refusedPorts    map[snapshot.Port]intent.Finding // ports that it can't have
	excessPorts     intent.Finding                   // ports that are too many
	endpointsByPort map[string][]snapshot.Endpoint   // endpoints in the project's subnet, by the name of the port
	dependencies    []state.Ref                      // what it needs besides its own rows
}

// isWanted says whether its load balancers should be there.
func (s *service) isWanted() bool {
	return s.accepted.OK() && !s.Deleting && s.eip != nil && s.eip.isWanted() && s.eip.address.IsValid()
}

// selectServices keeps the Services that are ours. Of others we take our status away.
func (c *compiler) selectServices() {
	all := c.services
	c.services = nil
	for _, s := range all {
		switch {
		case c.isOwnService(s):
			c.services = append(c.services, s)
		case s.HasManagedStatus:
			c.foreignServices = append(c.foreignServices, s)
		}
	}
}

// isOwnService says whether a Service is ours to serve.
func (c *compiler) isOwnService(s *service) bool {
	return s.IsLoadBalancer && c.w.Config.ClasslessServices.OwnsService(s.Class, c.project != nil,
		c.w.Management != nil)
}

// resolveServices gives each Service its EIp and its ports. Who has a port now keeps it; then who came first has it.
func (c *compiler) resolveServices() {
	c.limitPorts()
	for _, s := range c.services {
		s.ownEIPName, s.refusedPorts = ownServiceEIPName(s), map[snapshot.Port]intent.Finding{}
		if s.accepted = firstProblem(c.checkMembership(), checkMalformed(s.Malformed)); !s.accepted.OK() {
			continue
		}
		if s.accepted = c.checkBalanceable(s); !s.accepted.OK() {
			continue
		}
		c.emitServiceEIP(s)
		s.resolved = c.resolveServiceEIP(s)
		s.waiting = firstProblem(s.waiting, s.excessPorts, s.checkEndpointCount(), c.checkEndpoints(s))
		s.accepted = firstProblem(s.checkPortsLeft(), c.checkNoFIPHolds(s), c.checkReturnPath(s))
	}
	c.assignPorts()
}

// assignPorts gives each port of an address to one Service: to the one that has it now, then to the oldest that asks
// for it. Each port is decided by itself, so that no number of other ports takes one away.
func (c *compiler) assignPorts() {
	type portClaim struct {
		by   *service
		port snapshot.Port // one from a file may have a number twice
	}
	holders := map[string]portClaim{}
	for _, held := range []bool{true, false} {
		for _, s := range c.services {
			for _, p := range s.requestedPorts() {
				if _, taken := holders[s.ovnEipPortKey(p)]; !taken && (!held || c.holdsPort(s, p)) {
					holders[s.ovnEipPortKey(p)] = portClaim{s, p}
				}
			}
		}
	}
	for _, s := range c.services {
		for _, p := range s.requestedPorts() {
			if holder := holders[s.ovnEipPortKey(p)]; holder != (portClaim{s, p}) {
				s.refusedPorts[p] = intent.Finding{Reason: intent.PortTaken, Message: fmt.Sprintf(
					"port %d/%s of EIp %s is held by %s; use another port, or another EIp",
					p.Number, p.Protocol, s.eip.Name, s.describeHolder(holder.by))}
			}
		}
		s.applyRefusedPorts()
	}
}

// requestedPorts are the ports that a Service asks for.
func (s *service) requestedPorts() []snapshot.Port {
	if s.eip == nil || !s.accepted.OK() || s.Deleting {
		return nil
	}
	return s.Ports
}

// holdsPort says whether a port of a Service's address is balanced for the Service now.
func (c *compiler) holdsPort(s *service, p snapshot.Port) bool {
	return c.w.Engine.VIPOwners[vipKey(p.Protocol,
		newAddrPort(s.eip.address, p.Number))] == intent.ServiceKey(s.key.Ref())
}

// describeHolder names the Service that has a port, to those who may know: its own namespace, and that of the EIp.
func (s *service) describeHolder(holder *service) string {
	if s.Namespace == holder.Namespace || s.Namespace == s.eip.Namespace {
		return holder.key.String()
	}
	return "a Service of another namespace"
}

// applyRefusedPorts refuses a Service that has none of its ports. One that has some works with those.
func (s *service) applyRefusedPorts() {
	for _, p := range s.Ports {
		why, refused := s.refusedPorts[p]
		switch {
		case !refused:
		case len(s.refusedPorts) == len(s.Ports):
			s.accepted = firstProblem(s.accepted, why)
		default:
			s.waiting = firstProblem(s.waiting, intent.Finding{Reason: intent.SomePortTaken, Message: why.Message})
		}
	}
}

// ovnEipPortKey is what no two Services can have: a port of an address, which several EIps may stand for.
func (s *service) ovnEipPortKey(p snapshot.Port) string {
	return fmt.Sprintf("%s %s:%d", p.Protocol, s.eip.ovnEipName, p.Number)
}

// noIPv4Prefix is why a project can't have external addresses.
var noIPv4Prefix = intent.Finding{
	Reason:  intent.TargetOutsideProject,
	Message: "the project has no IPv4 prefix, and Kube-OVN 1.16 has IPv4 addresses on external networks only",
}

// checkBalanceable says whether OVN can balance what a Service asks for.
func (c *compiler) checkBalanceable(s *service) intent.Finding {
	for _, p := range s.Ports {
		if !slices.Contains(protocols, p.Protocol) {
			return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
				"port %d has protocol %s, which can't be balanced; use TCP, UDP or SCTP", p.Number, p.Protocol)}
		}
	}
	if len(s.SourceRanges) > maxSourceRanges {
		return intent.Finding{Reason: intent.TooManyRanges, Message: fmt.Sprintf(
			"spec.loadBalancerSourceRanges has %d entries, and at most %d are supported; "+
				"combine them into shorter prefixes", len(s.SourceRanges), maxSourceRanges)}
	}
	if !c.project.ipv4Prefix().IsValid() {
		return noIPv4Prefix
	}
	return intent.Finding{}
}

// maxSourceRanges is how many loadBalancerSourceRanges a Service may have. Each is a flow on every node that has the
// switch.
const maxSourceRanges = 250

// ownServiceEIPName is the name of the EIp that a Service has made for itself, or nothing. It goes with the Service.
func ownServiceEIPName(s *service) string {
	if s.EIp != "" {
		return ""
	}
	return "slb-" + s.Name + "-" + intent.UIDSuffix(s.UID)
}

// emitServiceEIP wants that EIp: with the address that the Service asks for, or on the network that it asks for.
func (c *compiler) emitServiceEIP(s *service) {
	if s.ownEIPName == "" || s.Deleting || c.isTerminating(s.Namespace) {
		return
	}
	from := addressSource{Type: s.Type, Address: s.Address}
	if has := c.findExternals(func(x snapshot.ExternalSubnet) bool { return x.Prefix.Contains(s.Address) }); from.Type == "" && len(has) > 0 {
		from.Type = has[0].Type
	}
	key := s.companionKey(intent.EIp, s.ownEIPName)
	from.Type = c.chooseEIPType(key, from.Type, cmp.Or(c.w.Config.DefaultServiceType, c.w.Config.DefaultEIpType))
	c.emitEIP(key, from, s.key.Ref())
}

func (c *compiler) resolveServiceEIP(s *service) intent.Finding {
	in, name := cmp.Or(s.EIpNamespace, s.Namespace), cmp.Or(s.EIp, s.ownEIPName)
	if e := c.lookupEIP(in, name); e != nil && e.isSharedWith(s.Namespace) {
		s.eip, s.waiting = e, c.checkEIPReady(e)
		return intent.Finding{}
	}
	if in != s.Namespace {
		return c.eipNotPermitted(s)
	}
	if s.ownEIPName != "" {
		s.waiting = intent.Finding{Reason: intent.WaitingForEIp, Message: fmt.Sprintf("EIp %s is being made", name)}
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.EIpNotFound, Message: fmt.Sprintf(
		"EIp %s does not exist in namespace %s; create it, or name another", humanize.QuoteName(name),
		humanize.QuoteName(in))}
}

// eipNotPermitted is the finding on a Service that names an EIp of another namespace and may not use it. It is the same
// whether there is such an EIp or not.
func (c *compiler) eipNotPermitted(s *service) intent.Finding {
	name := s.EIpNamespace + "/" + s.EIp
	if c.w.Management == nil {
		return intent.Finding{Reason: intent.RefNotPermitted, Message: fmt.Sprintf(
			"EIp %q can't be used here: Services of a project bind to EIps of its own namespace %s; name one of those",
			name, s.Namespace)}
	}
	return intent.Finding{Reason: intent.RefNotPermitted, Message: fmt.Sprintf(
		"EIp %q does not exist, or is not shared with namespace %s; let its owner add %s to spec.sharedWith, or name an EIp of this namespace",
		name, s.Namespace, s.Namespace)}
}

// checkEIPReady says what has to be waited for before an EIp can be used.
func (c *compiler) checkEIPReady(e *eip) intent.Finding {
	if e.isWanted() && e.waiting.OK() {
		return intent.Finding{}
	}
	why := firstProblem(e.accepted, e.resolved, e.waiting,
		intent.Finding{Reason: intent.BeingDeleted, Message: "it is being deleted"})
	return intent.Finding{
		Reason:  intent.WaitingForEIp,
		Message: fmt.Sprintf("EIp %s is not ready: %s", e.Name, why.Message),
	}
}

// checkNoFIPHolds says whether the EIp is not a floating IP's, which has all of its ports.
func (c *compiler) checkNoFIPHolds(s *service) intent.Finding {
	for _, f := range c.fips {
		if s.eip != nil && f.eip == s.eip && f.accepted.OK() && !f.Deleting {
			return intent.Finding{Reason: intent.EIpTaken, Message: fmt.Sprintf(
				"EIp %s is held by FIp %s, which has all of its ports; use another EIp, or delete that FIp", s.eip.Name,
				f.Name)}
		}
	}
	return intent.Finding{}
}

// checkReturnPath says whether replies find back to the network of the EIp. By the pod's address they would not: a pod
// behind a load balancer sends its own traffic, too.
func (c *compiler) checkReturnPath(s *service) intent.Finding {
	if s.eip == nil || s.eip.external == nil || c.isDefaultNetwork(s.eip.external) ||
		!c.returnsBySource(s.eip.external) {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NeedsConnectionReturnPath, Message: fmt.Sprintf(
		"network %s leads replies back by the pod's address (returnPath Source), with which pods behind load balancers can't be reached; "+
			"use the project's default network, or ask the operator for returnPath Connection", s.eip.external.Network)}
}

// checkEndpoints says whether a Service has endpoints that get no connections.
func (c *compiler) checkEndpoints(s *service) intent.Finding {
	for _, e := range s.Endpoints {
		if why := c.checkEndpoint(s, e); !why.OK() {
			return why
		}
	}
	return intent.Finding{}
}

// checkEndpointCount says whether a Service has more endpoints than are balanced.
func (s *service) checkEndpointCount() intent.Finding {
	if s.OmittedEndpoints == 0 {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.TooManyEndpoints, Message: fmt.Sprintf(
		"the Service has %d endpoints, one for each address and port, and at most %d are balanced; %d get no connections; "+
			"use fewer pods or ports, or spread them over several Services", len(s.Endpoints)+s.OmittedEndpoints,
		snapshot.MaxEndpoints, s.OmittedEndpoints)}
}

// checkEndpoint is why an endpoint gets no connections; none: it does. It has to be in the project: OVN would send
// connections to any address, also of other networks. In the management VPC, which has pods of many namespaces, it has
// to be a pod of the Service's own: whoever may write EndpointSlices would publish those of others.
func (c *compiler) checkEndpoint(s *service, e snapshot.Endpoint) intent.Finding {
	switch {
	case !c.project.ipv4Prefix().Contains(e.Address):
		return intent.Finding{Reason: intent.EndpointOutsideProject, Message: fmt.Sprintf(
			"endpoint %s is not in the project's subnet %s and gets no connections; use pods or virtual machines in it",
			e.Address, c.project.ipv4Prefix())}
	case c.w.Management != nil && !c.podAddresses[s.Namespace][e.Address]:
		return intent.Finding{Reason: intent.EndpointNotInNamespace, Message: fmt.Sprintf(
			"endpoint %s is not the address of a pod in namespace %s and gets no connections; let the Service select pods of its namespace",
			e.Address, s.Namespace)}
	default:
		return intent.Finding{}
	}
}

// serviceUsesEIP says whether a Service uses an EIp: by name, or its own as long as there is something balanced on it.
func (c *compiler) serviceUsesEIP(s *service, e *eip) bool {
	if s.Deleting {
		return false
	}
	return s.isBoundTo(e) || s.Namespace == e.Namespace && ownServiceEIPName(s) == e.Name &&
		c.isBalancedOn(s, c.w.Engine.OvnEips[c.ovnEipName(e)].Address)
}

// isBoundTo says whether a Service names an EIp, and may.
func (s *service) isBoundTo(e *eip) bool {
	return s.EIp == e.Name && cmp.Or(s.EIpNamespace, s.Namespace) == e.Namespace && e.isSharedWith(s.Namespace)
}

// isBalancedOn says whether a Service has something balanced on an address now.
func (c *compiler) isBalancedOn(s *service, a netip.Addr) bool {
	return slices.ContainsFunc(s.Ports, func(p snapshot.Port) bool {
		return c.w.Engine.VIPOwners[vipKey(p.Protocol, newAddrPort(a, p.Number))] == intent.ServiceKey(s.key.Ref())
	})
}

// findBalancedService is who has something balanced on an EIp now, or nil.
func (c *compiler) findBalancedService(e *eip) *service {
	for _, s := range c.services {
		if e != nil && e.address.IsValid() && s.isBoundTo(e) && c.serviceUsesEIP(s, e) && c.isBalancedOn(s, e.address) {
			return s
		}
	}
	return nil
}

// statusAddress is the address to show: that of the EIp, once something is balanced on it. It stays while rows are
// being put back.
func (c *compiler) statusAddress(s *service) netip.Addr {
	if s.isWanted() && (s.StatusAddress == s.eip.address || c.isBalancedOn(s, s.eip.address)) {
		return s.eip.address
	}
	return netip.Addr{}
}

// hasNoBackends says whether a Service has no endpoint that would get connections.
func (c *compiler) hasNoBackends(s *service) bool {
	return !slices.ContainsFunc(s.Ports, func(p snapshot.Port) bool {
		if !c.project.isActive() {
			return false
		}
		to, _ := c.selectBackends(s, p)
		return len(to) > 0
	})
}

// postponeAutodelete lets Services stay that want to go when they stay without endpoints, until that time has come.
func (c *compiler) postponeAutodelete() {
	for _, s := range slices.Concat(c.services, c.foreignServices) {
		if !s.Autodelete {
			continue
		}
		expired := s.accepted.OK() && !s.IdleSince.IsZero() && c.hasNoBackends(s) && c.w.Config.AutodeleteAfter > 0 &&
			c.w.Now.Sub(s.IdleSince) >= c.w.Config.AutodeleteAfter
		if !expired || slices.Contains(c.foreignServices, s) {
			c.out.KeepService(s.key)
		}
	}
}

// checkStatusAddress says whether a Service waits for its address to be shown, which is the next run's business.
func (c *compiler) checkStatusAddress(s *service) intent.Finding {
	if !s.isWanted() || c.statusAddress(s).IsValid() {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.Programming, Message: "its address is shown once it is balanced"}
}

func (s *service) buildVerdict(c *compiler) intent.Verdict {
	facts := intent.ServiceFacts{Address: c.statusAddress(s), Lonely: c.hasNoBackends(s), Expires: s.Autodelete}
	for _, p := range s.Ports {
		facts.Ports = append(facts.Ports,
			intent.PortFacts{Number: p.Number, Protocol: p.Protocol, Refused: s.refusedPorts[p]})
	}
	return intent.Verdict{
		Object: s.key, Generation: s.Generation, Facts: facts,
		Accepted: s.accepted, Resolved: s.resolved, Waiting: firstProblem(deletingFinding(s.Deleting), s.waiting,
			c.checkStatusAddress(s)), Through: s.dependencies,
	}
}
