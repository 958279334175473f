package compile

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

// eip is an EIp and what was decided about it.
type eip struct {
	snapshot.EIp
	key                               intent.ObjectKey
	accepted, resolved, waiting, held intent.Finding
	tolerated                         intent.Finding

	own     string             // the name of an OvnEip of its own
	ovnEip  string             // the OvnEip that has its address
	on      *snapshot.External // the subnet it is on
	address netip.Addr         // invalid: none yet
	holders []intent.ObjectKey
	made    bool // for a FIp or a Service, with which it goes
	keep    bool // it is being deleted, and has to wait
}

// wanted says whether its address should be there.
func (e *eip) wanted() bool {
	return e.on != nil && e.accepted.OK() && e.resolved.OK() && (!e.Deleting || e.keep)
}

// owns says whether its OvnEip is its own, not another's whose address it stands for.
func (e *eip) owns() bool { return e.Child == "" }

// sharedWith says whether Services of a namespace may bind to it: those of its own, and of those that its owner names.
func (e *eip) sharedWith(namespace string) bool {
	return namespace == e.Namespace || slices.Contains(e.SharedWith, namespace)
}

// allocateEIps decides for each EIp on which subnet its address is. Kube-OVN's IPAM gives the address: it is the only one
// that gives any, so none is given twice.
func (c *compiler) allocateEIps() {
	c.keepHeldEIps()
	c.makeDefaultEIp()
	asked := map[netip.Addr]*eip{}
	for _, e := range c.byPossession() {
		e.accepted, e.resolved, e.waiting = c.allocate(e, asked)
		if e.Child == "" && e.accepted.OK() {
			c.counted[e.Namespace]++
		}
		switch {
		case e.Child != "":
		case e.wanted() && !c.blank(e.ovnEip):
			e.tolerated = c.tolerate(e.on, e.Namespace)
			c.wantOvnEip(e, e.on.Subnet)
		case !e.wanted() && !e.Deleting:
			c.letGo(e)
		}
	}
}

func (c *compiler) wantOvnEip(e *eip, subnet string) {
	spec := kubeovn.OvnEipSpec{ExternalSubnet: subnet, Type: "nat"}
	if want := e.want(); want.IsValid() {
		spec.V4Ip = want.String()
	}
	c.in.Object(c.key(intent.OvnEip, e.ovnEip), intent.NewObject(intent.Meta{Labels: ownership.Labels(c.w.Shard)}, spec), e.key.Ref())
}

// letGo is for an EIp that nobody deletes and that loses its address, as when its project goes. Its status gives the address up
// before the OvnEip goes: the next who gets it may get it at once, and no two EIps may show the same.
func (c *compiler) letGo(e *eip) {
	have := c.w.Engine.OvnEips[e.ovnEip]
	if e.Remembered.IsValid() && have.Ours && !have.Deleting && e.owns() {
		c.wantOvnEip(e, have.Subnet)
	}
	e.address = netip.Addr{}
}

// makeDefaultEIp wants the EIp that stands for the address of the router's port on the default network.
func (c *compiler) makeDefaultEIp() {
	if !c.project.alive() || c.project.way == nil || c.ending(c.w.Shard) {
		return
	}
	c.wantEIp(c.inside(intent.EIp, DefaultEIp), source{Child: c.port(c.project.way.Subnet)}, c.project.ref())
}

// source is where the address of an EIp comes from.
type source struct {
	Type, Child string
	Address     netip.Addr
}

func (s source) spec() map[string]string {
	out := map[string]string{"externalNetworkType": s.Type, "childRef": s.Child}
	if s.Address.IsValid() {
		out["ipAddress"] = s.Address.String()
	}
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	return out
}

// wantEIp wants an EIp of our own making. Nothing in an EIp can be changed: one whose address comes from elsewhere has to go first.
func (c *compiler) wantEIp(key intent.ObjectKey, from source, by state.Ref) {
	have := c.names[key]
	if have != nil && c.w.Engine.Objects[key] && from != (source{have.Type, have.Child, have.Address}) {
		return
	}
	o := intent.NewObject(intent.Meta{Labels: ownership.Labels(c.w.Shard)}, from.spec())
	o.Terminating = have != nil && have.keep // it works as it is, and nothing can be written to it
	c.in.Object(key, o, by)
}

// ownType is the network type of an EIp of our own making: what is asked for, the default of its day, or today's.
func (c *compiler) ownType(key intent.ObjectKey, asked, usual string) string {
	if have := c.names[key]; asked == "" && have != nil {
		asked = have.Type
	}
	if asked == "" {
		return c.defaultType(usual)
	}
	return asked
}

// named is the EIp of a namespace and name, or nil.
func (c *compiler) named(namespace, name string) *eip {
	return c.names[intent.ObjectKey{Kind: intent.EIp, Namespace: namespace, Name: name}]
}

// ending says whether nothing can be made in a namespace any more.
func (c *compiler) ending(namespace string) bool {
	if m := c.w.Management; m != nil {
		return m.Ending[namespace]
	}
	return c.w.Namespace.Deleting
}

// byPossession is the EIps that have an OvnEip already, then those that had one, then the others: who comes later gets what is
// left.
func (c *compiler) byPossession() []*eip {
	rank := func(e *eip) int {
		switch {
		case c.w.Engine.OvnEips[c.ovnEip(e)].Exists:
			return 0
		case e.Remembered.IsValid():
			return 1
		default:
			return 2
		}
	}
	out := slices.Clone(c.eips)
	slices.SortStableFunc(out, func(a, b *eip) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// ovnEip is the name of the OvnEip that has an EIp's address.
func (c *compiler) ovnEip(e *eip) string {
	if e.Child != "" {
		return e.Child
	}
	return e.own
}

// nameOvnEips decides how the OvnEip of each EIp is called. Who has one keeps its name. The others get the usual name where nobody else
// has it, in the order of age, and otherwise one that no other EIp can have.
func (c *compiler) nameOvnEips() {
	taken := map[string]bool{}
	unnamed := slices.DeleteFunc(slices.Clone(c.eips), func(e *eip) bool { return e.Child != "" || e.own != "" })
	for _, e := range unnamed {
		for _, name := range ownership.OvnEipNames(e.Namespace, e.Name) {
			if have := c.w.Engine.OvnEips[name]; e.own == "" && have.Exists && have.Ours && have.Origin == e.key.Ref() {
				e.own, taken[name] = name, true
			}
		}
	}
	for _, e := range unnamed {
		if e.own == "" {
			e.own = c.chooseOvnEipName(e, taken)
			taken[e.own] = true
		}
	}
}

// chooseOvnEipName is the first name for the OvnEip of an EIp that nobody else has. No other EIp can have the last one.
func (c *compiler) chooseOvnEipName(e *eip, taken map[string]bool) string {
	names := ownership.OvnEipNames(e.Namespace, e.Name)
	for _, name := range names {
		have := c.w.Engine.OvnEips[name]
		if !taken[name] && (!have.Exists || have.Ours && have.Origin == state.Ref{}) {
			return name
		}
	}
	return names[len(names)-1]
}

func (e *eip) verdict() intent.Verdict {
	facts := intent.EIpFacts{OvnEip: e.ovnEip, Holders: e.holders, Address: e.address, MadeForOwner: e.made}
	if e.on != nil {
		facts.Network = e.on.Subnet
	}
	if !facts.Address.IsValid() && e.wanted() {
		facts.Address = e.Remembered // it is being made again; what is not in the status is forgotten
	}
	return intent.Verdict{
		Object: e.key, Generation: e.Generation, Facts: facts, Tolerated: e.tolerated,
		Accepted: e.accepted, Resolved: e.resolved, Waiting: first(deleting(e.Deleting && !e.keep), e.waiting), Held: e.held,
	}
}
