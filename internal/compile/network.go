package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/words"
)

// networks is the external subnets that fit, those with most free addresses first.
func (c *compiler) networks(fits func(snapshot.External) bool) []*snapshot.External {
	var out []*snapshot.External
	for i := range c.w.Externals {
		if fits(c.w.Externals[i]) {
			out = append(out, &c.w.Externals[i])
		}
	}
	slices.SortFunc(out, func(a, b *snapshot.External) int {
		return cmp.Or(cmp.Compare(b.Free, a.Free), strings.Compare(a.Subnet, b.Subnet))
	})
	return out
}

// pick is the first subnet that has the first wish, or else the first that has the second, and so on; or else the first.
func pick(from []*snapshot.External, wishes ...func(*snapshot.External) bool) *snapshot.External {
	for _, wish := range wishes {
		if i := slices.IndexFunc(from, wish); i >= 0 {
			return from[i]
		}
	}
	return from[0]
}

// external is the subnet of a name, or nil.
func (c *compiler) external(subnet string) *snapshot.External {
	for i := range c.w.Externals {
		if c.w.Externals[i].Subnet == subnet {
			return &c.w.Externals[i]
		}
	}
	return nil
}

func (c *compiler) noNetwork(what, name string) intent.Finding {
	var known []string
	for _, x := range c.w.Externals {
		known = append(known, x.Type)
	}
	slices.Sort(known)
	message := fmt.Sprintf("there is no external network of %s %s", what, words.Quote(name))
	if known = slices.Compact(known); len(known) > 0 {
		message += "; use one of the types " + strings.Join(known, ", ") + ", or ask the operator for another"
	} else {
		message += "; there is none at all: the operator labels a Kube-OVN Subnet with network.kube-dc.com/external-network-type"
	}
	return intent.Finding{Reason: intent.NetworkNotFound, Message: message}
}

// admits says whether a network is for a namespace of the shard.
func (c *compiler) admits(x *snapshot.External, namespace string) bool {
	if p := c.project; c.w.Management == nil && p != nil {
		return x.Admitted.Admits(c.w.Shard, snapshot.ProjectKey(p.Namespace, p.Name))
	}
	return x.Admitted.Admits(namespace)
}

// notAllowed is the finding that a network is not for a namespace.
func (c *compiler) notAllowed(x *snapshot.External, namespace string) intent.Finding {
	var known []string
	for i := range c.w.Externals {
		if other := &c.w.Externals[i]; c.admits(other, namespace) && !other.Dual {
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

// tolerate is the finding that an address of a network stays which is not for its namespace any more.
func (c *compiler) tolerate(x *snapshot.External, namespace string) intent.Finding {
	if x == nil || c.admits(x, namespace) {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NoLongerAllowed, Message: fmt.Sprintf(
		"network %s (type %s) is not for namespace %s any more; the address stays as long as the object does: "+
			"delete that, or ask the operator to admit it again",
		x.Network, x.Type, namespace)}
}

func dual(x *snapshot.External) intent.Finding {
	return intent.Finding{Reason: intent.NetworkIsDual, Message: fmt.Sprintf(
		"subnet %s has an IPv6 prefix, and Kube-OVN 1.16 can't connect such a subnet to a VPC; "+
			"use another network, or ask the operator for a subnet with IPv4 only",
		x.Subnet)}
}

// port is the name of the router's port on an external subnet, and of the OvnEip that has its address. Kube-OVN names it.
func (c *compiler) port(subnet string) string { return c.w.Shard + "-" + subnet }

// ported says whether the router has, or is getting, a port on an external subnet.
func (c *compiler) ported(subnet string) bool { return c.w.Engine.OvnEips[c.port(subnet)].Exists }

// connected says whether the router's port on an external subnet is in the OVN database.
func (c *compiler) connected(subnet string) bool {
	return c.w.Engine.Ports[c.port(subnet)] && c.w.Engine.OvnEips[c.port(subnet)].Ready
}

// unported is why the router has no port on an external subnet yet.
func (c *compiler) unported(subnet string) intent.Finding {
	switch x := c.external(subnet); {
	case x != nil && x.Free <= 0 && !c.w.Engine.OvnEips[c.port(subnet)].Ready:
		return exhausted([]*snapshot.External{x})
	case !c.connected(subnet):
		return intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf("router %s has no port on %s yet", c.w.Shard, subnet)}
	default:
		return intent.Finding{}
	}
}

// attachNetworks gives the router a port on each external subnet that an address is on. The port's address comes first:
// Kube-OVN then uses it instead of taking one itself, for which it would stop a worker for a second.
func (c *compiler) attachNetworks() {
	if !c.project.alive() || c.vpcLeaves() {
		return
	}
	by := c.project.ref()
	for _, x := range c.used() {
		if c.blank(c.port(x.Subnet)) || c.given(x.Subnet) {
			continue
		}
		eip := c.w.Engine.OvnEips[c.port(x.Subnet)]
		spec := kubeovn.OvnEipSpec{ExternalSubnet: x.Subnet, Type: "lrp"}
		if address := c.portAddress(x); address.IsValid() {
			spec.V4Ip = address.String()
		}
		c.in.Object(c.key(intent.OvnEip, c.port(x.Subnet)), intent.NewObject(intent.Meta{Labels: ownership.Labels(c.w.Shard)}, spec), by)
		if c.w.Management != nil {
			c.connectManagement(x)
			continue
		}
		if eip.Ready && !eip.Deleting && c.w.Engine.Vpc.Exists && !c.skipped(x.Subnet) {
			key, element := intent.Attached(c.w.Shard, x.Subnet)
			c.in.Element(key, element, by)
			key, element = intent.Connected(c.w.Shard)
			c.in.Element(key, element, by)
		}
		if c.connected(x.Subnet) {
			c.in.Row(c.w.Shard, intent.Announcement(c.socketOn(x.Subnet)), by)
			want := netip.PrefixFrom(eip.Address, x.Prefix.Bits())
			if have, known := c.w.Engine.Networks[c.port(x.Subnet)]; known && have != want && !eip.Deleting && eip.Asked == eip.Address {
				c.in.Row(c.w.Shard, intent.PortNetwork{Port: c.port(x.Subnet), Network: want}, by)
			}
		}
	}
}

// portAddress is the address that the router's port on an external subnet must have: the one it has, or, on the way out, the
// one it had, which others may have in their lists. Invalid: any.
func (c *compiler) portAddress(x *snapshot.External) netip.Addr {
	have := c.w.Engine.OvnEips[c.port(x.Subnet)]
	e := c.named(c.w.Shard, DefaultEIp)
	if have.Address.IsValid() && !have.Found || e == nil || !c.isWayOut(e) || e.Child != c.port(x.Subnet) || !c.mayHave(e, x, e.Remembered) {
		return have.Address
	}
	if holder, held := c.w.Holders[e.Remembered]; held && holder.OvnEip != c.port(x.Subnet) {
		return have.Address
	}
	return e.Remembered
}

// blank says whether an OvnEip has to go, so that it can come again. Kube-OVN writes an OvnEip's address into its spec and then
// copies it from its cache into the status; when the cache is late, the status becomes ready without an address, for ever. When
// Kube-OVN is restarted in between, another may get the address, and then this one gets none.
func (c *compiler) blank(ovnEip string) bool {
	have := c.w.Engine.OvnEips[ovnEip]
	return have.Ours && have.Blank
}

// skipped says whether Kube-OVN takes an external subnet for connected that it has not connected: at the end of its work on a Vpc
// it notes as connected what the Vpc asks for by then. Such a subnet has to be disconnected, so that it can be connected.
func (c *compiler) skipped(subnet string) bool {
	vpc := c.w.Engine.Vpc
	if c.w.Engine.Ports == nil || c.w.Engine.Ports[c.port(subnet)] || !vpc.Attached[subnet] {
		return false
	}
	return !vpc.Asked[subnet] || (!vpc.Said.IsZero() && c.w.Now.Sub(vpc.Said) > patience)
}

// used is the external subnets that the router needs a port on. One without IPv4 is none: the router could not get an address there.
func (c *compiler) used() []*snapshot.External {
	names := map[string]bool{}
	for _, x := range []*snapshot.External{c.project.way, c.project.reach} {
		if x != nil {
			names[x.Subnet] = true
		}
	}
	for _, e := range c.eips {
		if e.wanted() && e.Child == "" { // a child is there for another reason, and only as long
			names[e.on.Subnet] = true
		}
	}
	for _, d := range c.diversions {
		if d.wanted() {
			names[d.on.Subnet] = true
		}
	}
	for _, have := range c.w.Engine.OvnEips {
		if have.Ours && have.Type == "nat" {
			names[have.Subnet] = true // an address that is on its way out still needs the port
		}
	}
	return c.networks(func(x snapshot.External) bool { return names[x.Subnet] && x.Prefix.IsValid() && x.Gateway.IsValid() })
}
