package compile

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// The second family of an external network (ADR 51). Kube-OVN assigns and translates IPv4 only, so the addresses and rows
// of the other family are ours: the network of the router's port, NAT, VIPs, policies and the on-link port's second
// network. An EIp has one family. The second family of a subnet is a subnet of its own, with the same name and router port.

// isSecond reports whether an EIp asks for an address that Kube-OVN does not assign.
func (c *compiler) isSecond(e *eip) bool { return e.Family != 0 && e.Family != c.families[0] }

// allocateSecond chooses the address of an EIp of the second family. It follows from the UID, so addresses do not change
// hands: OVN does not announce IPv6 addresses, and neighbours would keep the MAC address of the previous owner.
func (c *compiler) allocateSecond(e *eip, asked map[netip.Addr]*eip) (accepted, resolved, waiting intent.Finding) {
	accepted = firstProblem(c.checkMembership(), checkMalformed(e.Malformed))
	var x *snapshot.ExternalSubnet
	if accepted.OK() {
		x, resolved = c.chooseSecond(e)
	}
	if x == nil || !c.isFreeSecond(e, x, e.StatusAddress, asked) {
		e.StatusAddress = netip.Addr{}
	}
	if !accepted.OK() || x == nil {
		return accepted, resolved, waiting
	}
	if accepted, waiting = c.checkEIPQuota(e, snapshot.OvnEip{}); !accepted.OK() {
		return accepted, resolved, waiting
	}
	e.external = x
	if accepted = c.claimSecond(e, asked); !accepted.OK() {
		return accepted, resolved, waiting
	}
	if !e.address.IsValid() {
		return accepted, resolved, intent.Finding{Reason: intent.PoolExhausted, Message: fmt.Sprintf(
			"no address of %s is left; delete an EIp, or ask the operator for a larger range", x.Pool)}
	}
	asked[e.address] = e
	return accepted, resolved, c.checkSecondPort(x)
}

// chooseSecond returns the second family of the network that an EIp names, or of the default type. So far it is served on
// the project's default network only.
func (c *compiler) chooseSecond(e *eip) (*snapshot.ExternalSubnet, intent.Finding) {
	refuse := func(format string, args ...any) (*snapshot.ExternalSubnet, intent.Finding) {
		return nil, intent.Finding{Reason: intent.NetworkNotSupported, Message: fmt.Sprintf(format, args...)}
	}
	f := c.families[0].Other()
	if c.w.Management != nil {
		return refuse("pods of the default VPC can't have %s addresses of external networks; use %s", f, f.Other())
	}
	if !c.project.prefix(f).IsValid() {
		return refuse("the project has no %s prefix; use %s, or a project with both families", f, f.Other())
	}
	found, resolved := c.candidateSubnets(e)
	if !resolved.OK() {
		return nil, resolved
	}
	i := slices.IndexFunc(found, func(x *snapshot.ExternalSubnet) bool { return x.Second != nil && c.isDefaultNetwork(x) })
	switch {
	case i >= 0:
		return found[i].Second, resolved
	case slices.ContainsFunc(found, func(x *snapshot.ExternalSubnet) bool { return x.Second != nil }):
		return refuse("%s addresses can only be had on the project's default network, which %s is not; use %s, or that network",
			f, found[0].Network, f.Other())
	default:
		return refuse("network %s has no %s prefix; use %s, or ask the operator to set spec.ipv6 of the ExternalNetwork",
			found[0].Network, f, f.Other())
	}
}

// claimSecond sets the address of an EIp: the requested one, the current one, or the first free one of those that follow
// from its UID. Invalid: none is free.
func (c *compiler) claimSecond(e *eip, asked map[netip.Addr]*eip) intent.Finding {
	x, want := e.external, e.Address
	switch {
	case want.IsValid() && (!x.Pool.Contains(want) || !isAllocatable(x, want)):
		return intent.Finding{Reason: intent.AddressOutsideNetwork, Message: fmt.Sprintf(
			"%s can't be assigned: network %s assigns %s, and its gateway is %s; request another address, or omit it to get any",
			want, x.Network, x.Pool, x.Gateway)}
	case want.IsValid() && x.IsReserved(want):
		return intent.Finding{Reason: intent.AddressReserved, Message: fmt.Sprintf(
			"%s is reserved for routers on the network, which have the addresses up to %s; "+
				"request another address, or omit it to get any", want, x.ReservedRanges[0].Last)}
	case want.IsValid() && !c.isFreeSecond(e, x, want, asked):
		return intent.Finding{Reason: intent.AddressTaken, Message: fmt.Sprintf(
			"%s is held by another EIp; request another address, or omit it to get any", want)}
	case want.IsValid():
		e.address = want
	case e.StatusAddress.IsValid():
		e.address = e.StatusAddress
	default:
		e.address = c.probeSecond(e, asked)
	}
	return intent.Finding{}
}

// maxProbes is the maximum number of addresses that are tried for an EIp. A range that has more addresses than are tried
// is not full before there are as many EIps.
const maxProbes = 1 << 17

// probeSecond returns the first free address of those that follow from an EIp's UID. The step is odd, so that every
// address of the range is tried.
func (c *compiler) probeSecond(e *eip, asked map[netip.Addr]*eip) netip.Addr {
	seed := e.UID
	if seed == "" { // a rehearsal of an object that does not exist yet
		seed = e.Namespace + "/" + e.Name
	}
	sum := sha256.Sum256([]byte(seed))
	number, step := binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])|1
	hostBits := e.external.Pool.Addr().BitLen() - e.external.Pool.Bits()
	for range min(maxProbes, 1<<min(hostBits, 32)) {
		if a := hostAddress(e.external.Pool, number); c.isFreeSecond(e, e.external, a, asked) {
			return a
		}
		number += step
	}
	return netip.Addr{}
}

// hostAddress returns the address of a prefix with a number, which is reduced to the size of the prefix.
func hostAddress(within netip.Prefix, number uint64) netip.Addr {
	bytes := within.Masked().Addr().AsSlice()
	if hostBits := within.Addr().BitLen() - within.Bits(); hostBits < 64 {
		number &= 1<<hostBits - 1
	}
	for i := len(bytes) - 1; number > 0; i-- {
		bytes[i] |= byte(number)
		number >>= 8
	}
	a, _ := netip.AddrFromSlice(bytes) // 16 bytes, as before
	return a
}

// isFreeSecond reports whether an EIp may have an address: one of the range, that is not a router's, and that no other
// EIp has. The statuses of all EIps say who has which; of two with one address the older keeps it.
func (c *compiler) isFreeSecond(e *eip, x *snapshot.ExternalSubnet, a netip.Addr, asked map[netip.Addr]*eip) bool {
	if !a.IsValid() || !x.Pool.Contains(a) || !isAllocatable(x, a) || x.IsReserved(a) || asked[a] != nil {
		return false
	}
	owner, owned := c.w.IPv6Owners[a]
	return !owned || owner.Namespace == e.Namespace && owner.Name == e.Name
}

// checkSecondPort returns what an EIp of the second family waits for: the network of the router's port.
func (c *compiler) checkSecondPort(x *snapshot.ExternalSubnet) intent.Finding {
	if why := c.checkExternalPort(x.Subnet); !why.OK() {
		return why
	}
	if !c.isSecondReady(x) {
		return intent.Finding{Reason: intent.WaitingForEngine, Message: fmt.Sprintf(
			"router %s has no %s address on %s yet", c.w.Shard, x.Family(), x.Subnet)}
	}
	return intent.Finding{}
}

// isSecondReady reports whether the router's port on a subnet has its network of the second family.
func (c *compiler) isSecondReady(x *snapshot.ExternalSubnet) bool {
	return x.HasNetwork(c.w.Engine.PortNetworks[c.externalPortName(x.Subnet)])
}

// secondNetwork returns the address and prefix length of the router's port in the second family; invalid: it needs none.
func (c *compiler) secondNetwork(x *snapshot.ExternalSubnet) netip.Prefix {
	have := c.w.Engine.OvnEips[c.externalPortName(x.Subnet)].Address
	if x.Second == nil || c.w.Management != nil || !c.project.prefixOn(x.Second).IsValid() ||
		!c.isDefaultNetwork(x) || !x.Prefix.Contains(have) {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(x.SecondAddress(x.Second, have), x.Second.Prefix.Bits())
}

// secondDefault returns the second family of the project's default network once the router has it; nil: it has not.
func (c *compiler) secondDefault() *snapshot.ExternalSubnet {
	if c.project == nil || c.project.defaultNetwork == nil || c.w.Management != nil {
		return nil
	}
	x := c.project.defaultNetwork.Second
	if x == nil || !c.project.prefixOn(x).IsValid() || !c.isSecondReady(x) {
		return nil
	}
	return x
}

// emitSecondEgress routes packets of the second family through the default network, with the address of the router's port.
// OVN looks for the MAC address of a policy's IPv6 next hop only if a static route has the same next hop.
func (c *compiler) emitSecondEgress() {
	p, x := c.project, c.secondDefault()
	if x == nil {
		return
	}
	within := p.prefixOn(x).Masked()
	c.emitStaticRoute(intent.DefaultRoute(x.Gateway))
	c.emitRouterPolicy(intent.ReroutePolicy(ownership.DefaultEgress, c.matchEgress(match.Prefix(within)), x.Gateway), p.ref())
	c.emitRouterPolicy(c.onLinkPolicy(ownership.DefaultEgressOnLink, x.Family(), match.To(match.Prefix(x.Prefix))), p.ref())
	c.out.AddRow(c.w.Shard, intent.SNAT{External: c.secondNetwork(p.defaultNetwork).Addr(), Logical: within}, p.ref())
}

// emitSecondFIP adds the NAT row of a FIp of the second family.
func (c *compiler) emitSecondFIP(f *fip) {
	f.waiting = firstProblem(f.waiting, c.checkFIPReady(f))
	if !f.eip.isWanted() || !f.eip.address.IsValid() || !f.target.IsValid() || c.isVPCTerminating() ||
		!c.isSecondReady(f.eip.external) {
		return
	}
	f.translated = true
	c.out.AddRow(c.w.Shard, intent.DNATAndSNAT{External: f.eip.address, Logical: f.target}, f.key.Ref())
}

// addSecondServices adds the second family of each Service that asks for it: a Service of its own here, with an EIp of its
// own. Its verdict is a part of the Service's. A Service with one family has only one of the two.
func (c *compiler) addSecondServices() {
	var out []*service
	for _, s := range c.services {
		endpoints, address := s.Endpoints, s.Address
		s.family = c.families[0]
		if len(s.Families) == 1 {
			s.family = s.Families[0]
		}
		s.isSecond, s.Endpoints = s.family != c.families[0], endpointsOf(s.family, endpoints)
		out = append(out, s)
		if len(s.Families) < 2 || (!s.NeedsAll && (s.EIp != "" || c.project == nil || !c.checkSecondService(s).OK())) {
			continue
		}
		other := &service{Service: s.Service, key: s.key, family: s.family.Other(), isSecond: true, first: s}
		other.Endpoints, other.OmittedEndpoints = endpointsOf(other.family, endpoints), 0
		other.EgressByLBIP, other.Autodelete, other.WantsBackend = false, false, false
		if address.IsValid() && !s.family.Contains(address) {
			s.Address = netip.Addr{}
		} else {
			other.Address = netip.Addr{}
		}
		out = append(out, other)
		s.second = other
	}
	c.services = out
}

// checkSecondService returns why a Service can't have an address of the second family.
func (c *compiler) checkSecondService(s *service) intent.Finding {
	refuse := func(message string) intent.Finding {
		return intent.Finding{Reason: intent.NetworkNotSupported, Message: message}
	}
	f := c.families[0].Other()
	switch {
	case s.HealthCheck != nil:
		return refuse(fmt.Sprintf("%s backends can't be checked; remove the annotation for health checks, or use %s", f, f.Other()))
	case s.isSecond && s.EgressByLBIP:
		return refuse(fmt.Sprintf("pods can't leave with an %s address; remove the annotation for egress, or use %s", f, f.Other()))
	case s.first != nil && s.EIp != "":
		return refuse("a Service that names an EIp has only its address; use ipFamilyPolicy PreferDualStack, or name no EIp")
	case s.EIp != "":
		return intent.Finding{}
	}
	of := cmp.Or(s.Type, c.defaultNetworkType(cmp.Or(c.w.Config.DefaultServiceType, c.w.Config.DefaultEIpType)))
	_, why := c.chooseSecond(&eip{EIp: snapshot.EIp{Meta: s.Meta, Type: of}})
	return why
}

// checkEIPFamily checks that a Service and the EIp that it names are of one family.
func (c *compiler) checkEIPFamily(s *service) intent.Finding {
	if s.eip == nil || c.isSecond(s.eip) == s.isSecond {
		return intent.Finding{}
	}
	f := c.families[0]
	if c.isSecond(s.eip) {
		f = f.Other()
	}
	return intent.Finding{Reason: intent.FamilyNotServed, Message: fmt.Sprintf(
		"EIp %s has an %s address, and the Service asks for %s; set spec.ipFamilies to %s, or name another EIp", s.eip.Name, f,
		s.family, f)}
}

// secondProblem returns what is wrong with the second family of a Service.
func (s *service) secondProblem(c *compiler) intent.Finding {
	if s.second == nil || !s.accepted.OK() || !s.resolved.OK() {
		return intent.Finding{}
	}
	other := s.second.buildVerdict(c)
	if why := firstProblem(other.Accepted, other.Resolved); !why.OK() {
		return intent.Finding{Reason: intent.FamilyMissing, Message: fmt.Sprintf("it has no %s address: %s", s.second.family, why.Message)}
	}
	return other.Waiting
}

// endpointsOf returns the endpoints of a family.
func endpointsOf(f ipfamily.Family, from []snapshot.Endpoint) []snapshot.Endpoint {
	isOther := func(e snapshot.Endpoint) bool { return e.Address.IsValid() && !f.Contains(e.Address) }
	if !slices.ContainsFunc(from, isOther) {
		return from
	}
	return slices.DeleteFunc(slices.Clone(from), isOther)
}
