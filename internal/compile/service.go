package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// service is a Service of type LoadBalancer and the decisions about it.
type service struct {
	snapshot.Service
	key                         intent.ObjectKey
	accepted, resolved, waiting intent.Finding
	// earlyWaiting is on its EIp and the number of its ports. It and endpointProblem are reported before waiting.
	earlyWaiting, endpointProblem intent.Finding

	family   ipfamily.Family // of its address
	isSecond bool            // and whether that is not the one that Kube-OVN assigns
	// first and second are the two families of one Service: see addSecondServices.
	first, second *service

	eip             *eip // nil: not found, or not created yet
	ownEIPName      string
	needsOwnEIP     bool                             // the controller creates the EIp
	refusedPorts    map[snapshot.Port]intent.Finding // ports that another Service holds
	excessPorts     intent.Finding                   // finding on ports over the limit
	endpointsByPort map[string][]snapshot.Endpoint   // valid endpoints by port name; nil: not computed yet
	dependencies    []state.Ref                      // shared rows that it depends on
}

// addDependency adds the origin of rows that the Service depends on.
func (s *service) addDependency(ref state.Ref) {
	if !slices.Contains(s.dependencies, ref) {
		s.dependencies = append(s.dependencies, ref)
	}
}

// isWanted reports whether its load balancers should exist.
func (s *service) isWanted() bool {
	return s.accepted.OK() && !s.Deleting && s.eip != nil && s.eip.isWanted() && s.eip.address.IsValid()
}

// selectServices keeps the Services that Sallyport serves. From others it removes the status that Sallyport wrote.
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
	c.addSecondServices()
}

// isOwnService reports whether Sallyport serves a Service.
func (c *compiler) isOwnService(s *service) bool {
	return s.IsLoadBalancer && c.w.Config.ClasslessServices.OwnsService(s.Class, c.project != nil,
		c.w.Management != nil)
}

// resolveServices resolves the EIp and the ports of each Service. Current holders of a port have precedence, then the
// oldest Service.
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
		if s.isSecond {
			if s.resolved = c.checkSecondService(s); !s.resolved.OK() {
				continue
			}
		}
		s.needsOwnEIP = s.ownEIPName != "" && !s.Deleting && !c.isTerminating(s.Namespace)
		s.resolved = c.resolveServiceEIP(s)
		s.earlyWaiting, s.endpointProblem = firstProblem(s.earlyWaiting, s.excessPorts), c.checkEndpoints(s)
		s.accepted = firstProblem(s.checkPortsLeft(), c.checkNoFIPHolds(s), c.checkReturnPath(s))
	}
	c.assignPorts()
}

// assignPorts gives each port of an address to one Service: to the one that has it now, then to the oldest that
// requests it. Each port is decided separately, so that a Service can't take a port by having many others.
func (c *compiler) assignPorts() {
	type portClaim struct {
		by   *service
		port snapshot.Port // a manifest from a file may list a number twice
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

// requestedPorts returns the ports that a Service requests.
func (s *service) requestedPorts() []snapshot.Port {
	if s.eip == nil || !s.accepted.OK() || s.Deleting {
		return nil
	}
	return s.Ports
}

// holdsPort reports whether OVN currently balances a port of a Service's address for the Service.
func (c *compiler) holdsPort(s *service, p snapshot.Port) bool {
	return c.balances(s, p, s.eip.address)
}

// describeHolder names the Service that holds a port, but only to its own namespace and to that of the EIp.
func (s *service) describeHolder(holder *service) string {
	if s.Namespace == holder.Namespace || s.Namespace == s.eip.Namespace {
		return holder.key.String()
	}
	return "a Service of another namespace"
}

// applyRefusedPorts refuses a Service that has none of its ports. A Service that has some works with those.
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

// ovnEipPortKey returns the key that no two Services can share: a port of an address, which several EIps may represent.
func (s *service) ovnEipPortKey(p snapshot.Port) string {
	if s.eip.ovnEipName == "" {
		return fmt.Sprintf("%s %s:%d", p.Protocol, s.eip.address, p.Number)
	}
	return fmt.Sprintf("%s %s:%d", p.Protocol, s.eip.ovnEipName, p.Number)
}

// noPrefixOf returns the finding that a project can't have external addresses of a family.
func (c *compiler) noPrefixOf(f ipfamily.Family) intent.Finding {
	return intent.Finding{Reason: intent.TargetOutsideProject, Message: fmt.Sprintf(
		"the project has no %[1]s prefix, and external networks have %[1]s addresses only", f)}
}

// checkBalanceable checks that OVN can balance what a Service requests.
func (c *compiler) checkBalanceable(s *service) intent.Finding {
	for _, p := range s.Ports {
		if !slices.Contains(protocols, p.Protocol) {
			return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
				"port %d has protocol %s, which OVN can't balance; use TCP, UDP or SCTP", p.Number, p.Protocol)}
		}
	}
	if len(s.SourceRanges) > maxSourceRanges {
		return intent.Finding{Reason: intent.TooManyRanges, Message: fmt.Sprintf(
			"spec.loadBalancerSourceRanges has %d entries (maximum: %d); "+
				"combine them into shorter prefixes", len(s.SourceRanges), maxSourceRanges)}
	}
	if f := c.familyOf(s.eip); !s.isSecond && !c.project.prefix(f).IsValid() {
		return c.noPrefixOf(f)
	}
	return intent.Finding{}
}

// maxSourceRanges is the maximum number of loadBalancerSourceRanges. Each is a flow on every node that has the switch.
const maxSourceRanges = 250

// ownServiceEIPName returns the name of the EIp that is created for a Service and deleted with it; empty: the Service
// names an EIp.
func ownServiceEIPName(s *service) string {
	if s.EIp != "" {
		return ""
	}
	name := "slb-" + s.Name + "-" + intent.UIDSuffix(s.UID)
	if s.isSecond {
		name += "-" + strings.ToLower(s.family.String())
	}
	return name
}

// emitServiceEIP adds that EIp, with the requested address or on the requested network.
func (c *compiler) emitServiceEIP(s *service) {
	from := addressSource{Type: s.Type, Address: s.Address}
	if has := c.findExternals(func(x snapshot.ExternalSubnet) bool {
		return x.Prefix.Contains(s.Address) || x.Second != nil && x.Second.Prefix.Contains(s.Address)
	}); from.Type == "" && len(has) > 0 {
		from.Type = has[0].Type
	}
	if s.isSecond {
		from.Family = s.family
	}
	key := s.companionKey(intent.EIp, s.ownEIPName)
	from.Type = c.chooseEIPType(key, from.Type, cmp.Or(c.w.Config.DefaultServiceType, c.w.Config.DefaultEIpType))
	c.emitEIP(key, from, s.key.Ref())
}

func (c *compiler) resolveServiceEIP(s *service) intent.Finding {
	in, name := cmp.Or(s.EIpNamespace, s.Namespace), cmp.Or(s.EIp, s.ownEIPName)
	if e := c.lookupEIP(in, name); e != nil && e.isSharedWith(s.Namespace) {
		s.eip, s.earlyWaiting = e, c.checkEIPReady(e)
		if why := c.checkEIPFamily(s); !why.OK() {
			s.eip = nil
			return why
		}
		return intent.Finding{}
	}
	if in != s.Namespace {
		return c.eipNotPermitted(s)
	}
	if s.ownEIPName != "" {
		s.earlyWaiting = intent.Finding{
			Reason:  intent.WaitingForEIp,
			Message: fmt.Sprintf("EIp %s is being created", name),
		}
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.EIpNotFound, Message: fmt.Sprintf(
		"EIp %s does not exist in namespace %s; create it, or name another", humanize.QuoteName(name),
		humanize.QuoteName(in))}
}

// eipNotPermitted returns the finding on a Service that names an EIp of another namespace and may not use it. It does
// not reveal whether the EIp exists.
func (c *compiler) eipNotPermitted(s *service) intent.Finding {
	name := s.EIpNamespace + "/" + s.EIp
	if c.w.Management == nil {
		return intent.Finding{Reason: intent.RefNotPermitted, Message: fmt.Sprintf(
			"EIp %q can't be used here: Services of a project can use only EIps of namespace %s; name one of those",
			name, s.Namespace)}
	}
	return intent.Finding{Reason: intent.RefNotPermitted, Message: fmt.Sprintf(
		"EIp %q does not exist, or is not shared with namespace %s; "+
			"ask its owner to add %s to spec.sharedWith, or name an EIp of this namespace",
		name, s.Namespace, s.Namespace)}
}

// checkEIPReady returns what an EIp waits for before it can be used. A full pool is not a step that every EIp goes
// through, so that whoever uses the EIp gets an event for it.
func (c *compiler) checkEIPReady(e *eip) intent.Finding {
	if e.isWanted() && e.waiting.OK() {
		return intent.Finding{}
	}
	why := firstProblem(e.accepted, e.resolved, e.waiting,
		intent.Finding{Reason: intent.BeingDeleted, Message: "it is being deleted"})
	out := intent.Finding{
		Reason:  intent.WaitingForEIp,
		Message: fmt.Sprintf("EIp %s is not ready: %s", e.Name, why.Message),
	}
	if why.Reason == intent.PoolExhausted {
		out.Reason = why.Reason
	}
	return out
}

// checkNoFIPHolds checks that no floating IP holds the EIp, because a floating IP uses all ports.
func (c *compiler) checkNoFIPHolds(s *service) intent.Finding {
	for _, f := range c.fips {
		if s.eip != nil && f.eip == s.eip && f.accepted.OK() && !f.Deleting {
			return intent.Finding{Reason: intent.EIpTaken, Message: fmt.Sprintf(
				"EIp %s is held by FIp %s, which uses all ports; use another EIp, or delete that FIp", s.eip.Name,
				f.Name)}
		}
	}
	return intent.Finding{}
}

// checkReturnPath checks that the EIp's network supports load balancers. With a return path by source address it does
// not: the pods behind a load balancer also send traffic of their own.
func (c *compiler) checkReturnPath(s *service) intent.Finding {
	if s.eip == nil || s.eip.external == nil || c.isDefaultNetwork(s.eip.external) ||
		!c.returnsBySource(s.eip.external) {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NeedsConnectionReturnPath, Message: fmt.Sprintf(
		"network %s routes replies by the pod's address (returnPath Source), which does not work for load balancers; "+
			"use the project's default network, or ask the operator for returnPath Connection", s.eip.external.Network)}
}

// checkEndpoints returns the finding on endpoints over the limit, or on the first endpoint that gets no connections.
func (c *compiler) checkEndpoints(s *service) intent.Finding {
	if tooMany := s.checkEndpointCount(); !tooMany.OK() {
		return tooMany
	}
	for _, e := range s.Endpoints {
		if why := c.checkEndpoint(s, e); !why.OK() {
			return why
		}
	}
	return intent.Finding{}
}

// checkEndpointCount checks that the Service does not have more endpoints than are balanced.
func (s *service) checkEndpointCount() intent.Finding {
	if s.OmittedEndpoints == 0 {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.TooManyEndpoints, Message: fmt.Sprintf(
		"the Service has %d endpoints, one for each address and port (maximum: %d); %d get no connections; "+
			"use fewer pods or ports, or spread them over several Services", len(s.Endpoints)+s.OmittedEndpoints,
		snapshot.MaxEndpoints, s.OmittedEndpoints)}
}

// checkEndpoint returns the reason why an endpoint gets no connections. It has to be in the project: OVN would send
// connections to any address, including those of other networks. In the management VPC, which has pods of many
// namespaces, it has to be a pod of the Service's own namespace: otherwise anybody who may write EndpointSlices could
// publish the pods of others.
func (c *compiler) checkEndpoint(s *service, e snapshot.Endpoint) intent.Finding {
	if c.isHostPod(s, e) {
		return intent.Finding{}
	}
	if why := c.checkEndpointSubnet(s, e); !why.OK() || c.w.Management == nil {
		return why
	}
	if !c.podAddresses[s.Namespace][e.Address] {
		return intent.Finding{Reason: intent.EndpointNotInNamespace, Message: fmt.Sprintf(
			"endpoint %s is not the address of a pod in namespace %s and gets no connections; "+
				"select pods of the Service's own namespace",
			e.Address, s.Namespace)}
	}
	return intent.Finding{}
}

// serviceUsesEIP reports whether a Service uses an EIp: by name, or its own EIp as long as something is balanced on it.
func (c *compiler) serviceUsesEIP(s *service, e *eip) bool {
	if s.Deleting {
		return false
	}
	return s.isBoundTo(e) || s.Namespace == e.Namespace && ownServiceEIPName(s) == e.Name &&
		c.isBalancedOn(s, c.addressOf(e))
}

// addressOf returns the address that an EIp has had so far.
func (c *compiler) addressOf(e *eip) netip.Addr {
	if c.isSecond(e) {
		return e.StatusAddress
	}
	return c.w.Engine.OvnEips[c.ovnEipName(e)].Address
}

// isBoundTo reports whether a Service names an EIp and may use it.
func (s *service) isBoundTo(e *eip) bool {
	return s.EIp == e.Name && cmp.Or(s.EIpNamespace, s.Namespace) == e.Namespace && e.isSharedWith(s.Namespace)
}

// isBalancedOn reports whether OVN currently balances a port of an address for a Service.
func (c *compiler) isBalancedOn(s *service, a netip.Addr) bool {
	return slices.ContainsFunc(s.Ports, func(p snapshot.Port) bool {
		return c.balances(s, p, a)
	})
}

// balances reports whether OVN currently balances a port of an address for a Service.
func (c *compiler) balances(s *service, p snapshot.Port, a netip.Addr) bool {
	return c.w.Engine.VIPs[intent.FormatVIP(p.Protocol, newAddrPort(a, p.Number))].Service == intent.ServiceKey(s.key.Ref())
}

// findBalancedService returns a Service that is currently balanced on an EIp, or nil.
func (c *compiler) findBalancedService(e *eip) *service {
	for _, s := range c.services {
		if e != nil && e.address.IsValid() && s.isBoundTo(e) && c.serviceUsesEIP(s, e) && c.isBalancedOn(s, e.address) {
			return s
		}
	}
	return nil
}

// statusAddress returns the address for the Service's status: that of the EIp, once something is balanced on it. It is
// kept while rows are being restored.
func (c *compiler) statusAddress(s *service) netip.Addr {
	if s.isWanted() && (slices.Contains(s.StatusAddresses, s.eip.address) || c.isBalancedOn(s, s.eip.address)) {
		return s.eip.address
	}
	return netip.Addr{}
}

// hasNoBackends reports whether a Service has no endpoint that would get connections.
func (c *compiler) hasNoBackends(s *service) bool {
	return !slices.ContainsFunc(s.Ports, func(p snapshot.Port) bool {
		if !c.project.isActive() {
			return false
		}
		to, _ := c.selectBackends(s, p)
		return len(to) > 0
	})
}

// postponeAutodelete keeps the Services with autodelete until they have been without endpoints for the configured time.
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

// checkStatusAddress reports that the Service's address is not in its status yet. The next run adds it.
func (c *compiler) checkStatusAddress(s *service) intent.Finding {
	if !s.isWanted() || c.statusAddress(s).IsValid() {
		return intent.Finding{}
	}
	return intent.Finding{
		Reason:  intent.Programming,
		Message: "the load balancer is being programmed; the address appears in the status afterwards",
	}
}

func (s *service) buildVerdict(c *compiler) intent.Verdict {
	facts := intent.ServiceFacts{Address: c.statusAddress(s), Lonely: c.hasNoBackends(s), Expires: s.Autodelete}
	if s.second != nil {
		facts.SecondAddress = c.statusAddress(s.second)
	}
	for _, p := range s.Ports {
		facts.Ports = append(facts.Ports,
			intent.PortFacts{Number: p.Number, Protocol: p.Protocol, Refused: s.refusedPorts[p]})
	}
	return intent.Verdict{
		Object: s.key, Generation: s.Generation, Facts: facts,
		Accepted: s.accepted, Resolved: s.resolved, Waiting: firstProblem(deletingFinding(s.Deleting), s.earlyWaiting,
			s.endpointProblem, s.waiting, c.checkStatusAddress(s), s.secondProblem(c)), Through: s.dependencies,
	}
}
