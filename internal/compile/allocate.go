package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// allocateEIP chooses the subnet for an EIp's address, and returns what the EIp still waits for.
func (c *compiler) allocateEIP(e *eip, asked map[netip.Addr]*eip) (accepted, resolved, waiting intent.Finding) {
	if c.isSecond(e) {
		return c.allocateSecond(e, asked)
	}
	e.ovnEipName = c.ovnEipName(e)
	have := c.w.Engine.OvnEips[e.ovnEipName]
	if e.StatusAddress.IsValid() && c.hasLostAddress(e, asked) {
		e.StatusAddress = have.RequestedAddress // the status was overwritten while the OvnEip was being recreated
	}
	if c.hasLostAddress(e, asked) {
		e.StatusAddress = netip.Addr{}
	}
	if have.Owned && (!have.Adopted || !e.StatusAddress.IsValid()) {
		e.address = have.Address
	}
	accepted = firstProblem(c.checkMembership(), checkMalformed(e.Malformed))
	if !accepted.OK() {
		return accepted, resolved, waiting
	}
	if e.ExistingOvnEip != "" {
		if c.isDefaultEIP(e) && e.StatusAddress.IsValid() && !have.Address.IsValid() {
			asked[e.StatusAddress] = e // the router port gets it back
		}
		resolved, waiting = c.resolveChildEIP(e, have)
		return accepted, resolved, waiting
	}
	if accepted, waiting = c.checkEIPQuota(e, have); !accepted.OK() {
		return accepted, resolved, waiting
	}
	var full intent.Finding
	e.external, resolved, full = c.chooseSubnet(e, have)
	if e.external == nil {
		return accepted, resolved, full
	}
	if accepted = c.claimAddress(e, asked); !accepted.OK() {
		return accepted, resolved, waiting
	}
	return accepted, resolved, firstProblem(full, c.checkOvnEipReady(e, have))
}

// resolveChildEIP resolves an EIp that refers to an existing OvnEip (spec.childRef). The OvnEip has to belong to the
// project: OvnEips have no namespace, and a tenant could not use the address of another project.
func (c *compiler) resolveChildEIP(e *eip, have snapshot.OvnEip) (resolved, waiting intent.Finding) {
	if !c.ownsOvnEip(e, have) && !c.standsForDefaultPort(e) {
		e.address = netip.Addr{}
		return intent.Finding{Reason: intent.OvnEipNotFound, Message: fmt.Sprintf(
			"OvnEip %s does not exist in %s; correct spec.childRef", humanize.Quote(e.ExistingOvnEip),
			c.describeScope(e.Namespace))}, waiting
	}
	if e.external = c.externalByName(have.Subnet); !have.Exists && c.isDefaultEIP(e) {
		e.external = c.project.defaultNetwork
	}
	switch {
	case have.Deleting:
		waiting = beingDeletedFinding(intent.OvnEip, e.ExistingOvnEip)
	case !have.Ready && e.external != nil && e.external.Free <= 0:
		waiting = poolExhausted([]*snapshot.ExternalSubnet{e.external})
	case !have.Ready:
		waiting = intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("OvnEip %s has no address yet", e.ExistingOvnEip),
		}
	default:
		waiting = c.checkExternalPort(have.Subnet)
	}
	return resolved, waiting
}

// ownsOvnEip reports whether the OvnEip that an EIp refers to belongs to the EIp's namespace. A project has one
// namespace. In the management VPC, a namespace owns the OvnEips that were created for its EIps.
func (c *compiler) ownsOvnEip(e *eip, have snapshot.OvnEip) bool {
	if c.w.Management == nil {
		return have.Owned
	}
	return have.Owned && slices.ContainsFunc(c.eips, func(o *eip) bool {
		return o.ExistingOvnEip == "" && o.Namespace == e.Namespace && c.ovnEipName(o) == e.ExistingOvnEip
	})
}

// describeScope names the unit that addresses belong to, for messages.
func (c *compiler) describeScope(namespace string) string {
	if c.w.Management == nil {
		return "this project"
	}
	return "namespace " + namespace
}

// standsForDefaultPort reports whether an EIp represents the default egress address, whose OvnEip may not exist yet.
func (c *compiler) standsForDefaultPort(e *eip) bool {
	return c.project.isActive() && c.project.defaultNetwork != nil &&
		e.ExistingOvnEip == c.externalPortName(c.project.defaultNetwork.Subnet)
}

// checkMembership checks that the namespace belongs to a project that can have addresses.
func (c *compiler) checkMembership() intent.Finding {
	switch p := c.project; {
	case p == nil:
		return intent.Finding{Reason: intent.NoProject, Message: fmt.Sprintf(
			"namespace %s does not belong to a Project; create the object in a project's namespace", c.w.Shard)}
	case p.Deleting:
		return intent.Finding{Reason: intent.ProjectDeleting, Message: fmt.Sprintf("%s is being deleted", p.key)}
	case !p.accepted.OK():
		return intent.Finding{
			Reason:  intent.ProjectRefused,
			Message: fmt.Sprintf("%s is not accepted (%s); see its conditions", p.key, p.accepted.Reason),
		}
	default:
		return intent.Finding{}
	}
}

func checkMalformed(m snapshot.Malformed) intent.Finding {
	if m == "" {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.Malformed, Message: string(m)}
}

// chooseSubnet returns the subnet for an EIp's address, in this order: the subnet it has an address on; the subnet that
// contains the requested address; of the network's subnets the one of the default network, one that the router has a
// port on, the one with most free addresses.
func (c *compiler) chooseSubnet(e *eip, have snapshot.OvnEip) (x *snapshot.ExternalSubnet, resolved,
	waiting intent.Finding,
) {
	if x := c.currentSubnet(e, have); x != nil {
		return x, resolved, waiting
	}
	found, resolved := c.candidateSubnets(e)
	if !resolved.OK() {
		return nil, resolved, waiting
	}
	if want := e.requiredAddress(); want.IsValid() {
		if i := slices.IndexFunc(found, func(x *snapshot.ExternalSubnet) bool {
			return x.Prefix.Contains(want)
		}); i >= 0 {
			return found[i], resolved, waiting
		}
		return found[0], resolved, waiting
	}
	room := slices.DeleteFunc(slices.Clone(found), func(x *snapshot.ExternalSubnet) bool {
		return x.Free <= 0 || (x.Free == 1 && !c.hasExternalPort(x.Subnet))
	})
	if len(room) == 0 {
		return nil, resolved, poolExhausted(found)
	}
	return pickPreferred(room,
		func(x *snapshot.ExternalSubnet) bool {
			return c.project.defaultNetwork != nil && x.Subnet == c.project.defaultNetwork.Subnet
		},
		func(x *snapshot.ExternalSubnet) bool { return c.hasExternalPort(x.Subnet) },
	), resolved, waiting
}

// currentSubnet returns the subnet that an EIp is on, or was on when its OvnEip was deleted. The EIp keeps it even if
// the subnet's type or the default type has changed since.
func (c *compiler) currentSubnet(e *eip, have snapshot.OvnEip) *snapshot.ExternalSubnet {
	if x := c.externalByName(have.Subnet); x != nil && !x.Unsupported && have.Exists && have.Owned &&
		(have.Ready || x.Free > 0) {
		return x
	}
	want := e.requiredAddress()
	for _, x := range c.findExternals(func(x snapshot.ExternalSubnet) bool { return !x.Unsupported }) {
		if (want == e.address || want == e.StatusAddress) && c.mayHoldAddress(e, x, want) {
			return x
		}
	}
	return nil
}

// candidateSubnets returns the subnets of the network that an EIp names, or of the default type.
func (c *compiler) candidateSubnets(e *eip) ([]*snapshot.ExternalSubnet, intent.Finding) {
	if e.Network == "" && e.Type == "" {
		return c.resolveSubnets(c.defaultNetworkType(c.w.Config.DefaultEIpType), "", e.Namespace)
	}
	return c.resolveSubnets(e.Type, e.Network, e.Namespace)
}

// resolveSubnets returns the subnets of the named network, or without a name those of a type, that admit a namespace
// and that Kube-OVN can connect a VPC to.
func (c *compiler) resolveSubnets(of, name, namespace string) ([]*snapshot.ExternalSubnet, intent.Finding) {
	kind, fits := "type", func(x snapshot.ExternalSubnet) bool { return x.Type == of }
	if name != "" {
		kind, fits = "name", func(x snapshot.ExternalSubnet) bool { return x.Network == name || x.Subnet == name }
	}
	found := c.findExternals(fits)
	if len(found) == 0 {
		return nil, c.networkNotFound(kind, cmp.Or(name, of))
	}
	admitted := slices.DeleteFunc(slices.Clone(found), func(x *snapshot.ExternalSubnet) bool {
		return !c.admitsNamespace(x, namespace)
	})
	if len(admitted) == 0 {
		return nil, c.networkNotAllowed(found[0], namespace)
	}
	usable := slices.DeleteFunc(slices.Clone(admitted), func(x *snapshot.ExternalSubnet) bool { return x.Unsupported })
	if len(usable) == 0 {
		return nil, networkNotSupported(admitted[0])
	}
	return usable, intent.Finding{}
}

// defaultNetworkType returns the network type for objects that name none.
func (c *compiler) defaultNetworkType(configured string) string {
	if configured != "" {
		return configured
	}
	if found := c.findExternals(func(x snapshot.ExternalSubnet) bool { return x.Default }); len(found) > 0 {
		// by name: the default must not depend on the number of free addresses
		return slices.MinFunc(found, func(a, b *snapshot.ExternalSubnet) int {
			return strings.Compare(a.Subnet, b.Subnet)
		}).Type
	}
	if c.project != nil {
		return c.project.NetworkType
	}
	return ""
}

// requiredAddress returns the address that an EIp must have: the requested one, the current one, or the one in its
// status.
func (e *eip) requiredAddress() netip.Addr {
	for _, a := range []netip.Addr{e.Address, e.address, e.StatusAddress} {
		if a.IsValid() {
			return a
		}
	}
	return netip.Addr{}
}

// hasLostAddress reports whether the address in an EIp's status is not the EIp's: another object holds it, or no
// network can assign it, because somebody wrote it into the status. The EIp may then get another address, unless its
// spec requests this one.
func (c *compiler) hasLostAddress(e *eip, asked map[netip.Addr]*eip) bool {
	h, held := c.w.AddressOwners[e.StatusAddress]
	given := slices.ContainsFunc(c.w.ExternalSubnets, func(x snapshot.ExternalSubnet) bool {
		return c.mayHoldAddress(e, &x, e.StatusAddress)
	})
	return !given || asked[e.StatusAddress] != nil || (held && h.OvnEip != e.ovnEipName)
}

// claimAddress checks that no other object holds the address that an EIp must have, and claims it.
func (c *compiler) claimAddress(e *eip, asked map[netip.Addr]*eip) intent.Finding {
	want := e.requiredAddress()
	if !want.IsValid() {
		return intent.Finding{}
	}
	if !isAllocatable(e.external, want) {
		return intent.Finding{Reason: intent.AddressOutsideNetwork, Message: fmt.Sprintf(
			"%s can't be assigned: subnet %s has %s with gateway %s; request another address", want,
			e.external.Subnet, e.external.Prefix, e.external.Gateway)}
	}
	if !c.mayHoldAddress(e, e.external, want) {
		return intent.Finding{Reason: intent.AddressReserved, Message: fmt.Sprintf(
			"%s is reserved for other hosts on the network: it is in excludeIps of Subnet %s; "+
				"request another address, omit it to get any, or ask the operator to remove it from excludeIps",
			want, e.external.Subnet)}
	}
	if other := asked[want]; other != nil {
		who := "an EIp of another namespace"
		if other.Namespace == e.Namespace {
			who = other.key.String()
		}
		return intent.Finding{
			Reason:  intent.AddressTaken,
			Message: fmt.Sprintf("%s is held by %s; request another address, or omit it to get any", want, who),
		}
	}
	if h, held := c.w.AddressOwners[want]; held && h.OvnEip != e.ovnEipName {
		who := "another project"
		switch {
		case h.Shard == c.w.Shard && c.w.Management != nil:
			who = "an OvnEip of the management VPC"
		case h.Shard == c.w.Shard:
			who = "OvnEip " + h.OvnEip + " of this project"
		case h.Shard == "":
			who = "an OvnEip that the operator created"
		}
		return intent.Finding{
			Reason:  intent.AddressTaken,
			Message: fmt.Sprintf("%s is held by %s; request another address, or omit it to get any", want, who),
		}
	}
	asked[want] = e
	return intent.Finding{}
}

// mayHoldAddress reports whether an EIp may have an address of a subnet. Kube-OVN also assigns addresses in excludeIps
// when they are requested explicitly; those belong to routers, DNS servers and other hosts on the wire. An EIp that
// holds such an address keeps it, because operators may exclude addresses later. Only an OvnEip owned by this shard to
// which Kube-OVN assigned the address proves that; a user may have written the EIp's status. A shared address is
// available to the namespace that the operator names.
func (c *compiler) mayHoldAddress(e *eip, x *snapshot.ExternalSubnet, a netip.Addr) bool {
	have := c.w.Engine.OvnEips[e.ovnEipName]
	holds := have.Exists && have.Owned && have.Address == a
	return isAllocatable(x, a) && (holds || !x.IsReserved(a) || x.GrantsAddress(a, e.Namespace))
}

// isAllocatable reports whether Kube-OVN's IPAM can assign an address of a subnet: any but the first, the last and the
// gateway's.
func isAllocatable(x *snapshot.ExternalSubnet, a netip.Addr) bool {
	within := x.Prefix.Masked()
	return within.Contains(a) && a != x.Gateway && within.Contains(a.Next()) && within.Contains(a.Prev())
}

// checkOvnEipReady returns what an EIp still waits for.
func (c *compiler) checkOvnEipReady(e *eip, have snapshot.OvnEip) intent.Finding {
	switch {
	case have.Deleting && !e.Deleting:
		return intent.Finding{
			Reason:  intent.BeingDeleted,
			Message: fmt.Sprintf("OvnEip %s is being deleted; it will be recreated with its address", e.ovnEipName),
		}
	case e.external.Free <= 0 && !have.Ready:
		return poolExhausted([]*snapshot.ExternalSubnet{e.external})
	case !have.Ready || !have.Address.IsValid():
		return intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("Kube-OVN has not assigned an address to OvnEip %s yet", e.ovnEipName),
		}
	case !c.isConnected(e.external.Subnet) && !c.checkGatewayNodes().OK():
		return c.checkGatewayNodes()
	default:
		return c.checkExternalPort(e.external.Subnet)
	}
}

// poolExhausted returns the finding that no subnet has a free address, with the numbers of each.
func poolExhausted(found []*snapshot.ExternalSubnet) intent.Finding {
	var pools []string
	for _, x := range found {
		pools = append(pools, fmt.Sprintf("%s: %d free, %d in use", x.Subnet, x.Free, x.Used))
	}
	return intent.Finding{Reason: intent.PoolExhausted, Message: fmt.Sprintf(
		"no address is left (%s); delete an EIp, or ask the operator for another subnet of this type",
		strings.Join(pools, "; "))}
}
