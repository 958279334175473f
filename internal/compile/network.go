package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// findExternals returns the external subnets that match, those with most free addresses first.
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

// pickPreferred returns the first subnet that meets the first preference, else the first that meets the second, and so
// on; else the first.
func pickPreferred(from []*snapshot.ExternalSubnet,
	preferences ...func(*snapshot.ExternalSubnet) bool,
) *snapshot.ExternalSubnet {
	for _, preferred := range preferences {
		if i := slices.IndexFunc(from, preferred); i >= 0 {
			return from[i]
		}
	}
	return from[0]
}

// externalByName returns the subnet of a name, or nil.
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
		message += "; there is none at all: ask the operator to label a Kube-OVN Subnet with " +
			"network.kube-dc.com/external-network-type"
	}
	return intent.Finding{Reason: intent.NetworkNotFound, Message: message}
}

// admitsNamespace reports whether a network may be used by a namespace of the shard.
func (c *compiler) admitsNamespace(x *snapshot.ExternalSubnet, namespace string) bool {
	if p := c.project; c.w.Management == nil && p != nil {
		return x.Admitted.AdmitsAny(c.w.Shard, snapshot.ProjectKey(p.Namespace, p.Name))
	}
	return x.Admitted.AdmitsAny(namespace)
}

// networkNotAllowed returns the finding that a namespace may not use a network.
func (c *compiler) networkNotAllowed(x *snapshot.ExternalSubnet, namespace string) intent.Finding {
	var known []string
	for i := range c.w.ExternalSubnets {
		if other := &c.w.ExternalSubnets[i]; c.admitsNamespace(other, namespace) && !other.Unsupported {
			known = append(known, other.Type)
		}
	}
	next := "ask the operator to add it to allowedProjects or allowedNamespaces of the ExternalNetwork"
	if slices.Sort(known); len(known) > 0 {
		next = "use one of the types " + strings.Join(slices.Compact(known), ", ") + ", or " + next
	}
	return intent.Finding{Reason: intent.NetworkNotAllowed, Message: fmt.Sprintf(
		"network %s (type %s) is not available to namespace %s; %s", x.Network, x.Type, namespace, next)}
}

// checkStillAllowed returns the finding that an existing address is kept although its namespace may not use the network
// any more.
func (c *compiler) checkStillAllowed(x *snapshot.ExternalSubnet, namespace string) intent.Finding {
	if x == nil || c.admitsNamespace(x, namespace) {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NetworkNoLongerAllowed, Message: fmt.Sprintf(
		"network %s (type %s) is no longer available to namespace %s; existing addresses are kept: "+
			"delete the object, or ask the operator to admit the namespace again",
		x.Network, x.Type, namespace)}
}

func networkNotSupported(x *snapshot.ExternalSubnet) intent.Finding {
	return intent.Finding{Reason: intent.NetworkNotSupported, Message: fmt.Sprintf(
		"subnet %s has an %s prefix, and Kube-OVN can't connect such a subnet to a VPC; "+
			"use another network, or ask the operator for a subnet with %s only",
		x.Subnet, kubeovn.ExternalFamily.Other(), kubeovn.ExternalFamily)}
}

// externalPortName returns the name of the router's port on an external subnet, and of the OvnEip that has its address.
// Kube-OVN defines it.
func (c *compiler) externalPortName(subnet string) string {
	return kubeovn.RouterPort(c.w.Shard, subnet)
}

// hasExternalPort reports whether the router has, or is getting, a port on an external subnet.
func (c *compiler) hasExternalPort(subnet string) bool {
	return c.w.Engine.OvnEips[c.externalPortName(subnet)].Exists
}

// isConnected reports whether the router's port on an external subnet is in the OVN database.
func (c *compiler) isConnected(subnet string) bool {
	return c.w.Engine.RouterPorts[c.externalPortName(subnet)] && c.w.Engine.OvnEips[c.externalPortName(subnet)].Ready
}

// checkExternalPort returns the reason why the router has no port on an external subnet yet.
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

// attachNetworks adds a router port on each external subnet in use. The port's OvnEip is created first: Kube-OVN then
// uses its address instead of allocating one itself, which would block a worker for a second.
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
		spec := kubeovn.OvnEipSpec{
			ExternalSubnet: x.Subnet, Type: "lrp", Addresses: kubeovn.NewAddresses(c.choosePortAddress(x)),
		}
		c.out.AddObject(c.clusterKey(intent.OvnEip, c.externalPortName(x.Subnet)),
			intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}, spec), by)
		if c.w.Management != nil {
			c.emitManagementPort(x)
			continue
		}
		if eip.Ready && !eip.Deleting && c.w.Engine.Vpc.Exists && !c.isAttachSkipped(x.Subnet) {
			key, entry := intent.ExternalSubnetEntry(c.w.Shard, x.Subnet)
			c.out.AddVpcEntry(key, entry, by)
			key, entry = intent.EnableExternalEntry(c.w.Shard)
			c.out.AddVpcEntry(key, entry, by)
		}
		if c.isConnected(x.Subnet) {
			c.out.AddRow(c.w.Shard, intent.NATAddressesOption(c.routerSwitchPortOn(x.Subnet)), by)
			want := intent.FormatNetworks(netip.PrefixFrom(eip.Address, x.Prefix.Bits()), c.secondNetwork(x))
			if have, known := c.w.Engine.PortNetworks[c.externalPortName(x.Subnet)]; known && have != want &&
				!eip.Deleting && eip.RequestedAddress == eip.Address {
				c.out.AddRow(c.w.Shard, intent.RouterPortNetworks{Port: c.externalPortName(x.Subnet), Networks: want}, by)
			}
		}
	}
}

// emitRouterOptions limits the neighbours that the router learns to those it talks to.
func (c *compiler) emitRouterOptions() {
	if c.project.isActive() && !c.isVPCTerminating() && c.w.Management == nil && c.w.Engine.RouterPorts != nil {
		c.out.AddRow(c.w.Shard, intent.LearnNeighboursOption(c.w.Shard), c.project.ref())
	}
}

// choosePortAddress returns the address that the router's port on an external subnet must have: the current one or, on
// the default network, the previous one, which third parties may have in their allow-lists. Invalid: any.
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

// failedWithoutAddress reports whether an OvnEip has to be deleted and recreated. Kube-OVN writes an OvnEip's address
// into its spec and then copies it from its cache into the status. If the cache is stale, the status becomes ready
// without an address, permanently. If Kube-OVN is restarted in between, another OvnEip may get the address, and this
// one gets none.
func (c *compiler) failedWithoutAddress(ovnEip string) bool {
	have := c.w.Engine.OvnEips[ovnEip]
	return have.Owned && have.FailedWithoutAddress
}

// isAttachSkipped reports whether Kube-OVN has not connected an external subnet, and will not. Such a subnet has to be
// removed from the request before it is requested again:
//   - At the end of processing a Vpc it records as connected whatever the spec asks for by then.
//   - It writes a status that it read earlier over that of a subnet that it was about to connect. The subnet is requested
//     and not connected then, and only another change of the request makes Kube-OVN compare the two.
func (c *compiler) isAttachSkipped(subnet string) bool {
	vpc := c.w.Engine.Vpc
	if c.w.Engine.RouterPorts == nil || c.w.Engine.RouterPorts[c.externalPortName(subnet)] {
		return false
	}
	unchanged := time.Duration(0)
	if !vpc.StatusWrittenAt.IsZero() {
		unchanged = c.w.Now.Sub(vpc.StatusWrittenAt)
	}
	if vpc.AttachedSubnets[subnet] {
		return !vpc.RequestedSubnets[subnet] || unchanged > engineGracePeriod
	}
	sawRequest := !vpc.LastEditedAt.IsZero() && !vpc.StatusWrittenAt.Before(vpc.LastEditedAt)
	return vpc.RequestedSubnets[subnet] && sawRequest && unchanged > attachGracePeriod
}

// attachGracePeriod is how long Kube-OVN may take to connect a subnet after it has written the status of the Vpc. It may
// have many Vpcs to process.
const attachGracePeriod = 20 * time.Second

// usedExternals returns the external subnets that the router needs a port on. Subnets without a prefix are left out:
// the router could not get an address there.
func (c *compiler) usedExternals() []*snapshot.ExternalSubnet {
	names := map[string]bool{}
	for _, x := range []*snapshot.ExternalSubnet{c.project.defaultNetwork, c.project.accessNetwork} {
		if x != nil {
			names[x.Subnet] = true
		}
	}
	for _, e := range c.eips {
		if e.isWanted() && e.ExistingOvnEip == "" { // an EIp with a childRef does not keep the port
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
			names[have.Subnet] = true // an address that is being removed still needs the port
		}
	}
	return c.findExternals(func(x snapshot.ExternalSubnet) bool {
		return names[x.Subnet] && x.Prefix.IsValid() && x.Gateway.IsValid()
	})
}
