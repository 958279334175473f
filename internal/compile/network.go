package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// findExternals is the external subnets that fit, those with most free addresses first.
func (c *compiler) findExternals(fits func(snapshot.ExternalSubnet) bool) []*snapshot.ExternalSubnet {
	var out []*snapshot.ExternalSubnet
	for i := range c.w.ExternalSubnets {
		if fits(c.w.ExternalSubnets[i]) {
			out = append(out, &c.w.ExternalSubnets[i])
		}
	}
	slices.SortFunc(out, func(a, b *snapshot.ExternalSubnet) int {
		return cmp.Or(cmp.Compare(b.Free, a.Free), strings.Compare(a.Subnet, b.Subnet))
	})
	return out
}

// pickPreferred is the first subnet that has the first wish, or else the first that has the second, and so on; or else
// the first.
func pickPreferred(from []*snapshot.ExternalSubnet,
	wishes ...func(*snapshot.ExternalSubnet) bool,
) *snapshot.ExternalSubnet {
	for _, wish := range wishes {
		if i := slices.IndexFunc(from, wish); i >= 0 {
			return from[i]
		}
	}
	return from[0]
}

// externalByName is the subnet of a name, or nil.
func (c *compiler) externalByName(subnet string) *snapshot.ExternalSubnet {
	for i := range c.w.ExternalSubnets {
		if c.w.ExternalSubnets[i].Subnet == subnet {
			return &c.w.ExternalSubnets[i]
		}
	}
	return nil
}

func (c *compiler) networkNotFound(what, name string) intent.Finding {
	var known []string
	for _, x := range c.w.ExternalSubnets {
		known = append(known, x.Type)
	}
	slices.Sort(known)
	message := fmt.Sprintf("there is no external network of %s %s", what, humanize.Quote(name))
	if known = slices.Compact(known); len(known) > 0 {
		message += "; use one of the types " + strings.Join(known, ", ") + ", or ask the operator for another"
	} else {
		message += "; there is none at all: the operator labels a Kube-OVN Subnet with network.kube-dc.com/external-network-type"
	}
	return intent.Finding{Reason: intent.NetworkNotFound, Message: message}
}

// admitsNamespace says whether a network is for a namespace of the shard.
func (c *compiler) admitsNamespace(x *snapshot.ExternalSubnet, namespace string) bool {
	if p := c.project; c.w.Management == nil && p != nil {
		return x.Admitted.AdmitsAny(c.w.Shard, snapshot.ProjectKey(p.Namespace, p.Name))
	}
	return x.Admitted.AdmitsAny(namespace)
}

// networkNotAllowed is the finding that a network is not for a namespace.
func (c *compiler) networkNotAllowed(x *snapshot.ExternalSubnet, namespace string) intent.Finding {
	var known []string
	for i := range c.w.ExternalSubnets {
		if other := &c.w.ExternalSubnets[i]; c.admitsNamespace(other, namespace) && !other.HasIPv6 {
			known = append(known, other.Type)
		}
	}
	next := "ask the operator to add it to allowedProjects or allowedNamespaces of the ExternalNetwork"
	if slices.Sort(known); len(known) > 0 {
		next = "use one of the types " + strings.Join(slices.Compact(known), ", ") + ", or " + next
	}
	return intent.Finding{Reason: intent.NetworkNotAllowed, Message: fmt.Sprintf(
		"network %s (type %s) is not for namespace %s; %s", x.Network, x.Type, namespace, next)}
}

// checkStillAllowed is the finding that an address of a network stays which is not for its namespace any more.
func (c *compiler) checkStillAllowed(x *snapshot.ExternalSubnet, namespace string) intent.Finding {
	if x == nil || c.admitsNamespace(x, namespace) {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NetworkNoLongerAllowed, Message: fmt.Sprintf(
		"network %s (type %s) is not for namespace %s any more; the address stays as long as the object does: "+
			"delete that, or ask the operator to admit it again",
		x.Network, x.Type, namespace)}
}

func networkIsDual(x *snapshot.ExternalSubnet) intent.Finding {
	return intent.Finding{Reason: intent.NetworkNotSupported, Message: fmt.Sprintf(
		"subnet %s has an IPv6 prefix, and Kube-OVN 1.16 can't connect such a subnet to a VPC; "+
			"use another network, or ask the operator for a subnet with IPv4 only",
		x.Subnet)}
}

// externalPortName is the name of the router's port on an external subnet, and of the OvnEip that has its address.
// Kube-OVN names it.
func (c *compiler) externalPortName(subnet string) string {
	return kubeovn.RouterPort(c.w.Shard, subnet)
}

// hasExternalPort says whether the router has, or is getting, a port on an external subnet.
func (c *compiler) hasExternalPort(subnet string) bool {
	return c.w.Engine.OvnEips[c.externalPortName(subnet)].Exists
}

// isConnected says whether the router's port on an external subnet is in the OVN database.
func (c *compiler) isConnected(subnet string) bool {
	return c.w.Engine.RouterPorts[c.externalPortName(subnet)] && c.w.Engine.OvnEips[c.externalPortName(subnet)].Ready
}

// checkExternalPort is why the router has no port on an external subnet yet.
func (c *compiler) checkExternalPort(subnet string) intent.Finding {
	switch x := c.externalByName(subnet); {
	case x != nil && x.Free <= 0 && !c.w.Engine.OvnEips[c.externalPortName(subnet)].Ready:
		return poolExhausted([]*snapshot.ExternalSubnet{x})
	case !c.isConnected(subnet):
		return intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("router %s has no port on %s yet", c.w.Shard, subnet),
		}
	default:
		return intent.Finding{}
	}
}

// attachNetworks gives the router a port on each external subnet that an address is on. The port's address comes first:
// Kube-OVN then uses it instead of taking one itself, for which it would stop a worker for a second.
func (c *compiler) attachNetworks() {
	if !c.project.isActive() || c.isVPCTerminating() {
		return
	}
	by := c.project.ref()
	for _, x := range c.usedExternals() {
		if c.failedWithoutAddress(c.externalPortName(x.Subnet)) || c.hasForeignPortEIP(x.Subnet) {
			continue
		}
		eip := c.w.Engine.OvnEips[c.externalPortName(x.Subnet)]
		spec := kubeovn.OvnEipSpec{ExternalSubnet: x.Subnet, Type: "lrp"}
		if address := c.choosePortAddress(x); address.IsValid() {
			spec.V4Ip = address.String()
		}
		c.out.AddObject(c.clusterKey(intent.OvnEip, c.externalPortName(x.Subnet)),
			intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}, spec), by)
		if c.w.Management != nil {
			c.emitManagementPort(x)
			continue
		}
		if eip.Ready && !eip.Deleting && c.w.Engine.Vpc.Exists && !c.isAttachSkipped(x.Subnet) {
			key, element := intent.ExternalSubnetEntry(c.w.Shard, x.Subnet)
			c.out.AddVpcEntry(key, element, by)
			key, element = intent.EnableExternalEntry(c.w.Shard)
			c.out.AddVpcEntry(key, element, by)
		}
		if c.isConnected(x.Subnet) {
			c.out.AddRow(c.w.Shard, intent.NATAddressesOption(c.routerSwitchPortOn(x.Subnet)), by)
			want := netip.PrefixFrom(eip.Address, x.Prefix.Bits())
			if have, known := c.w.Engine.PortNetworks[c.externalPortName(x.Subnet)]; known && have != want &&
				!eip.Deleting && eip.RequestedAddress == eip.Address {
				c.out.AddRow(c.w.Shard, intent.RouterPortNetwork{Port: c.externalPortName(x.Subnet), Network: want}, by)
			}
		}
	}
}

// choosePortAddress is the address that the router's port on an external subnet must have: the one it has, or, on the
// way out, the one it had, which others may have in their lists. Invalid: any.
func (c *compiler) choosePortAddress(x *snapshot.ExternalSubnet) netip.Addr {
	have := c.w.Engine.OvnEips[c.externalPortName(x.Subnet)]
	e := c.lookupEIP(c.w.Shard, defaultEIPName)
	if have.Address.IsValid() && !have.Adopted || e == nil || !c.isDefaultEIP(e) ||
		e.ExistingOvnEip != c.externalPortName(x.Subnet) || !c.mayHoldAddress(e, x, e.StatusAddress) {
		return have.Address
	}
	if holder, held := c.w.AddressOwners[e.StatusAddress]; held && holder.OvnEip != c.externalPortName(x.Subnet) {
		return have.Address
	}
	return e.StatusAddress
}

// failedWithoutAddress says whether an OvnEip has to go, so that it can come again. Kube-OVN writes an OvnEip's address
// into its spec and then copies it from its cache into the status; when the cache is late, the status becomes ready
// without an address, for ever. When Kube-OVN is restarted in between, another may get the address, and then this one
// gets none.
func (c *compiler) failedWithoutAddress(ovnEip string) bool {
	have := c.w.Engine.OvnEips[ovnEip]
	return have.Owned && have.FailedWithoutAddress
}

// isAttachSkipped says whether Kube-OVN takes an external subnet for connected that it has not connected: at the end of
// its work on a Vpc it notes as connected what the Vpc asks for by then. Such a subnet has to be disconnected, so that
// it can be connected.
func (c *compiler) isAttachSkipped(subnet string) bool {
	vpc := c.w.Engine.Vpc
	if c.w.Engine.RouterPorts == nil || c.w.Engine.RouterPorts[c.externalPortName(subnet)] ||
		!vpc.AttachedSubnets[subnet] {
		return false
	}
	return !vpc.RequestedSubnets[subnet] ||
		(!vpc.StatusWrittenAt.IsZero() && c.w.Now.Sub(vpc.StatusWrittenAt) > engineGracePeriod)
}

// usedExternals is the external subnets that the router needs a port on. One without IPv4 is none: the router could not
// get an address there.
func (c *compiler) usedExternals() []*snapshot.ExternalSubnet {
	names := map[string]bool{}
	for _, x := range []*snapshot.ExternalSubnet{c.project.defaultNetwork, c.project.accessNetwork} {
		if x != nil {
			names[x.Subnet] = true
		}
	}
	for _, e := range c.eips {
		if e.isWanted() && e.ExistingOvnEip == "" { // a child is there for another reason, and only as long
			names[e.external.Subnet] = true
		}
	}
	for _, d := range c.egressPolicies {
		if d.isWanted() {
			names[d.external.Subnet] = true
		}
	}
	for _, have := range c.w.Engine.OvnEips {
		if have.Owned && have.Type == "nat" {
			names[have.Subnet] = true // an address that is on its way out still needs the port
		}
	}
	return c.findExternals(func(x snapshot.ExternalSubnet) bool {
		return names[x.Subnet] && x.Prefix.IsValid() && x.Gateway.IsValid()
	})
}
