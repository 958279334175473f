package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/words"
)

// allocate decides on which subnet an EIp's address is, and what it still waits for.
func (c *compiler) allocate(e *eip, asked map[netip.Addr]*eip) (accepted, resolved, waiting intent.Finding) {
	e.ovnEip = c.ovnEip(e)
	have := c.w.Engine.OvnEips[e.ovnEip]
	if e.Remembered.IsValid() && c.lost(e, asked) {
		e.Remembered = have.Asked // somebody has written into the status while it was being made again
	}
	if c.lost(e, asked) {
		e.Remembered = netip.Addr{}
	}
	if have.Ours && (!have.Found || !e.Remembered.IsValid()) {
		e.address = have.Address
	}
	accepted = first(c.member(), malformed(e.Malformed))
	if !accepted.OK() {
		return accepted, resolved, waiting
	}
	if e.Child != "" {
		if c.isWayOut(e) && e.Remembered.IsValid() && !have.Address.IsValid() {
			asked[e.Remembered] = e // the port gets it again
		}
		resolved, waiting = c.child(e, have)
		return accepted, resolved, waiting
	}
	if accepted, waiting = c.quota(e, have); !accepted.OK() {
		return accepted, resolved, waiting
	}
	var full intent.Finding
	e.on, resolved, full = c.choose(e, have)
	if e.on == nil {
		return accepted, resolved, full
	}
	if accepted = c.free(e, asked); !accepted.OK() {
		return accepted, resolved, waiting
	}
	return accepted, resolved, first(full, c.settled(e, have))
}

// child is an EIp that stands for an OvnEip that is there for another reason. It has to be the project's own: OvnEips have no
// namespace, and the address of another project would do a tenant no good.
func (c *compiler) child(e *eip, have snapshot.OvnEip) (resolved, waiting intent.Finding) {
	if !c.ownsOvnEip(e, have) && !c.ownChild(e) {
		e.address = netip.Addr{}
		return intent.Finding{Reason: intent.OvnEipNotFound, Message: fmt.Sprintf(
			"OvnEip %s does not exist in %s; correct spec.childRef", words.Quote(e.Child), c.place(e.Namespace))}, waiting
	}
	if e.on = c.external(have.Subnet); !have.Exists && c.isWayOut(e) {
		e.on = c.project.way
	}
	switch {
	case have.Deleting:
		waiting = beingDeleted(intent.OvnEip, e.Child)
	case !have.Ready && e.on != nil && e.on.Free <= 0:
		waiting = exhausted([]*snapshot.External{e.on})
	case !have.Ready:
		waiting = intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf("OvnEip %s has no address yet", e.Child)}
	default:
		waiting = c.unported(have.Subnet)
	}
	return resolved, waiting
}

// ownsOvnEip says whether the OvnEip that an EIp names is its namespace's own. A project has one namespace. Of the management VPC's, a
// namespace has those that its EIps asked for.
func (c *compiler) ownsOvnEip(e *eip, have snapshot.OvnEip) bool {
	if c.w.Management == nil {
		return have.Ours
	}
	return have.Ours && slices.ContainsFunc(c.eips, func(o *eip) bool {
		return o.Child == "" && o.Namespace == e.Namespace && c.ovnEip(o) == e.Child
	})
}

// place is what a namespace is called where addresses are counted.
func (c *compiler) place(namespace string) string {
	if c.w.Management == nil {
		return "this project"
	}
	return "namespace " + namespace
}

// ownChild says whether an EIp stands for the way out, whose OvnEip may not be there yet.
func (c *compiler) ownChild(e *eip) bool {
	return c.project.alive() && c.project.way != nil && e.Child == c.port(c.project.way.Subnet)
}

// member says whether the namespace is that of a project that can have addresses.
func (c *compiler) member() intent.Finding {
	switch p := c.project; {
	case p == nil:
		return intent.Finding{Reason: intent.NoProject, Message: fmt.Sprintf(
			"namespace %s belongs to no Project; create this in a project's namespace", c.w.Shard)}
	case p.Deleting:
		return intent.Finding{Reason: intent.ProjectDeleting, Message: fmt.Sprintf("%s is being deleted", p.key)}
	case !p.accepted.OK():
		return intent.Finding{Reason: intent.ProjectRefused, Message: fmt.Sprintf("%s is not accepted (%s); see its conditions", p.key, p.accepted.Reason)}
	default:
		return intent.Finding{}
	}
}

func malformed(m snapshot.Malformed) intent.Finding {
	if m == "" {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.Malformed, Message: string(m)}
}

// choose is the subnet for an EIp's address: the one it has an address on; the one that has the wanted address; or, of those
// of the network, the default network's, then one that the router has a port on, then the one with most free addresses.
func (c *compiler) choose(e *eip, have snapshot.OvnEip) (x *snapshot.External, resolved, waiting intent.Finding) {
	if x := c.stays(e, have); x != nil {
		return x, resolved, waiting
	}
	found, resolved := c.candidates(e)
	if !resolved.OK() {
		return nil, resolved, waiting
	}
	if want := e.want(); want.IsValid() {
		if i := slices.IndexFunc(found, func(x *snapshot.External) bool { return x.Prefix.Contains(want) }); i >= 0 {
			return found[i], resolved, waiting
		}
		return found[0], resolved, waiting
	}
	room := slices.DeleteFunc(slices.Clone(found), func(x *snapshot.External) bool { return x.Free <= 0 || (x.Free == 1 && !c.ported(x.Subnet)) })
	if len(room) == 0 {
		return nil, resolved, exhausted(found)
	}
	return pick(room,
		func(x *snapshot.External) bool { return c.project.way != nil && x.Subnet == c.project.way.Subnet },
		func(x *snapshot.External) bool { return c.ported(x.Subnet) },
	), resolved, waiting
}

// stays is the subnet that an EIp is on, or was on when somebody deleted its OvnEip. It stays there, whatever the type of the
// subnet and the default type are by now.
func (c *compiler) stays(e *eip, have snapshot.OvnEip) *snapshot.External {
	if x := c.external(have.Subnet); x != nil && !x.Dual && have.Exists && have.Ours && (have.Ready || x.Free > 0) {
		return x
	}
	want := e.want()
	for _, x := range c.networks(func(x snapshot.External) bool { return !x.Dual }) {
		if (want == e.address || want == e.Remembered) && c.mayHave(e, x, want) {
			return x
		}
	}
	return nil
}

// candidates is the subnets of the network that an EIp names, or of the default type.
func (c *compiler) candidates(e *eip) ([]*snapshot.External, intent.Finding) {
	if e.Network == "" && e.Type == "" {
		return c.subnetsOf(c.defaultType(c.w.Config.DefaultEIpType), "", e.Namespace)
	}
	return c.subnetsOf(e.Type, e.Network, e.Namespace)
}

// subnetsOf is the subnets of the network of a name, and without a name of those of a type, as far as they admit a namespace.
func (c *compiler) subnetsOf(of, name, namespace string) ([]*snapshot.External, intent.Finding) {
	kind, fits := "type", func(x snapshot.External) bool { return x.Type == of }
	if name != "" {
		kind, fits = "name", func(x snapshot.External) bool { return x.Network == name || x.Subnet == name }
	}
	found := c.networks(fits)
	if len(found) == 0 {
		return nil, c.noNetwork(kind, cmp.Or(name, of))
	}
	admitted := slices.DeleteFunc(slices.Clone(found), func(x *snapshot.External) bool { return !c.admits(x, namespace) })
	if len(admitted) == 0 {
		return nil, c.notAllowed(found[0], namespace)
	}
	usable := slices.DeleteFunc(slices.Clone(admitted), func(x *snapshot.External) bool { return x.Dual })
	if len(usable) == 0 {
		return nil, dual(admitted[0])
	}
	return usable, intent.Finding{}
}

// defaultType is the type of network for what names none.
func (c *compiler) defaultType(configured string) string {
	if configured != "" {
		return configured
	}
	if found := c.networks(func(x snapshot.External) bool { return x.Default }); len(found) > 0 {
		// by name: the default must not follow the number of free addresses
		return slices.MinFunc(found, func(a, b *snapshot.External) int { return strings.Compare(a.Subnet, b.Subnet) }).Type
	}
	if c.project != nil {
		return c.project.Network
	}
	return ""
}

// want is the address that an EIp must have: the one it asks for, the one it has, or the one it had.
func (e *eip) want() netip.Addr {
	for _, a := range []netip.Addr{e.Address, e.address, e.Remembered} {
		if a.IsValid() {
			return a
		}
	}
	return netip.Addr{}
}

// lost says whether somebody else has the address that an EIp had, or no network gives it: somebody wrote it into the status. It
// can have another one, unless it asks for that.
func (c *compiler) lost(e *eip, asked map[netip.Addr]*eip) bool {
	h, held := c.w.Holders[e.Remembered]
	given := slices.ContainsFunc(c.w.Externals, func(x snapshot.External) bool { return c.mayHave(e, &x, e.Remembered) })
	return !given || asked[e.Remembered] != nil || (held && h.OvnEip != e.ovnEip)
}

// free says whether nobody else has the address that an EIp must have.
func (c *compiler) free(e *eip, asked map[netip.Addr]*eip) intent.Finding {
	want := e.want()
	if !want.IsValid() {
		return intent.Finding{}
	}
	if !usable(e.on, want) {
		return intent.Finding{Reason: intent.AddressOutside, Message: fmt.Sprintf(
			"%s can't be given by this network, whose subnet %s has %s with gateway %s; ask for another address", want, e.on.Subnet, e.on.Prefix, e.on.Gateway)}
	}
	if !c.mayHave(e, e.on, want) {
		return intent.Finding{Reason: intent.AddressReserved, Message: fmt.Sprintf(
			"%s is reserved: it is in excludeIps of Subnet %s, which the operator keeps for others on that network; ask for another address, or for any, "+
				"or ask the operator to take it out of excludeIps", want, e.on.Subnet)}
	}
	if other := asked[want]; other != nil {
		who := "an EIp of another namespace"
		if other.Namespace == e.Namespace {
			who = other.key.String()
		}
		return intent.Finding{Reason: intent.AddressTaken, Message: fmt.Sprintf("%s is held by %s; ask for another address, or for any", want, who)}
	}
	if h, held := c.w.Holders[want]; held && h.OvnEip != e.ovnEip {
		who := "another project"
		switch {
		case h.Shard == c.w.Shard && c.w.Management != nil:
			who = "an OvnEip of the management VPC"
		case h.Shard == c.w.Shard:
			who = "OvnEip " + h.OvnEip + " of this project"
		case h.Shard == "":
			who = "an OvnEip that the operator made"
		}
		return intent.Finding{Reason: intent.AddressTaken, Message: fmt.Sprintf("%s is held by %s; ask for another address, or for any", want, who)}
	}
	asked[want] = e
	return intent.Finding{}
}

// mayHave says whether an EIp may have an address of a subnet. Kube-OVN gives also what excludeIps reserves to whoever asks for it: those are the
// addresses of routers, DNS servers and other hosts on the wire. An EIp that holds such an address keeps it, because operators exclude addresses
// later, too. Only an OvnEip of ours to which Kube-OVN gave the address proves that: a user may have written the EIp's status. An address that
// all projects share is for the namespace that the operator names.
func (c *compiler) mayHave(e *eip, x *snapshot.External, a netip.Addr) bool {
	have := c.w.Engine.OvnEips[e.ovnEip]
	holds := have.Exists && have.Ours && have.Address == a
	return usable(x, a) && (holds || !x.Reserves(a) || x.Grants(a, e.Namespace))
}

// usable says whether Kube-OVN's IPAM can give an address of a subnet: not the first and the last one, nor the gateway's.
func usable(x *snapshot.External, a netip.Addr) bool {
	within := x.Prefix.Masked()
	return within.Contains(a) && a != x.Gateway && within.Contains(a.Next()) && within.Contains(a.Prev())
}

// settled is what an EIp still waits for.
func (c *compiler) settled(e *eip, have snapshot.OvnEip) intent.Finding {
	switch {
	case have.Deleting && !e.Deleting:
		return intent.Finding{Reason: intent.BeingDeleted, Message: fmt.Sprintf("OvnEip %s is being deleted; it is made again with the same address", e.ovnEip)}
	case e.on.Free <= 0 && !have.Ready:
		return exhausted([]*snapshot.External{e.on})
	case !have.Ready || !have.Address.IsValid():
		return intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf("Kube-OVN has given OvnEip %s no address yet", e.ovnEip)}
	case !c.connected(e.on.Subnet) && !c.gated().OK():
		return c.gated()
	default:
		return c.unported(e.on.Subnet)
	}
}

// exhausted is the finding that no subnet has an address left, with their numbers.
func exhausted(found []*snapshot.External) intent.Finding {
	var pools []string
	for _, x := range found {
		pools = append(pools, fmt.Sprintf("%s: %d free, %d in use", x.Subnet, x.Free, x.Used))
	}
	return intent.Finding{Reason: intent.PoolExhausted, Message: fmt.Sprintf(
		"no address is left (%s); delete an EIp, or ask the operator for another subnet of this type", strings.Join(pools, "; "))}
}
