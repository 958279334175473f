package compile

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// eip is an EIp and what was decided about it.
type eip struct {
	snapshot.EIp
	key                               intent.ObjectKey
	accepted, resolved, waiting, held intent.Finding
	tolerated                         intent.Finding

	ownOvnEipName   string                   // the name of an OvnEip of its own
	ovnEipName      string                   // the OvnEip that has its address
	external        *snapshot.ExternalSubnet // the subnet it is on
	address         netip.Addr               // invalid: none yet
	holders         []intent.ObjectKey
	madeForOwner    bool // for a FIp or a Service, with which it goes
	deletionBlocked bool // it is being deleted, and has to wait
}

// isWanted says whether its address should be there.
func (e *eip) isWanted() bool {
	return e.external != nil && e.accepted.OK() && e.resolved.OK() && (!e.Deleting || e.deletionBlocked)
}

// hasOwnOvnEip says whether its OvnEip is its own, not another's whose address it stands for.
func (e *eip) hasOwnOvnEip() bool { return e.ExistingOvnEip == "" }

// isSharedWith says whether Services of a namespace may bind to it: those of its own, and of those that its owner
// names.
func (e *eip) isSharedWith(namespace string) bool {
	return namespace == e.Namespace || slices.Contains(e.SharedWith, namespace)
}

// allocateEIPs decides for each EIp on which subnet its address is. Kube-OVN's IPAM gives the address: it is the only
// one that gives any, so none is given twice.
func (c *compiler) allocateEIPs() {
	c.blockEIPDeletion()
	c.emitDefaultEIP()
	asked := map[netip.Addr]*eip{}
	for _, e := range c.sortByPossession() {
		e.accepted, e.resolved, e.waiting = c.allocateEIP(e, asked)
		if e.ExistingOvnEip == "" && e.accepted.OK() {
			c.eipCount[e.Namespace]++
		}
		switch {
		case e.ExistingOvnEip != "":
		case e.isWanted() && !c.failedWithoutAddress(e.ovnEipName):
			e.tolerated = c.checkStillAllowed(e.external, e.Namespace)
			c.emitOvnEip(e, e.external.Subnet)
		case !e.isWanted() && !e.Deleting:
			c.releaseEIP(e)
		}
	}
}

func (c *compiler) emitOvnEip(e *eip, subnet string) {
	spec := kubeovn.OvnEipSpec{ExternalSubnet: subnet, Type: "nat"}
	if want := e.requiredAddress(); want.IsValid() {
		spec.V4Ip = want.String()
	}
	c.out.AddObject(c.clusterKey(intent.OvnEip, e.ovnEipName),
		intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}, spec), e.key.Ref())
}

// releaseEIP is for an EIp that nobody deletes and that loses its address, as when its project goes. Its status gives
// the address up before the OvnEip goes: the next who gets it may get it at once, and no two EIps may show the same.
func (c *compiler) releaseEIP(e *eip) {
	have := c.w.Engine.OvnEips[e.ovnEipName]
	if e.StatusAddress.IsValid() && have.Owned && !have.Deleting && e.hasOwnOvnEip() {
		c.emitOvnEip(e, have.Subnet)
	}
	e.address = netip.Addr{}
}

// emitDefaultEIP wants the EIp that stands for the address of the router's port on the default network.
func (c *compiler) emitDefaultEIP() {
	if !c.project.isActive() || c.project.defaultNetwork == nil || c.isTerminating(c.w.Shard) {
		return
	}
	c.emitEIP(c.namespacedKey(intent.EIp, defaultEIPName),
		addressSource{Child: c.externalPortName(c.project.defaultNetwork.Subnet)}, c.project.ref())
}

// addressSource is where the address of an EIp comes from.
type addressSource struct {
	Type, Child string
	Address     netip.Addr
}

func (s addressSource) buildSpec() map[string]string {
	out := map[string]string{"externalNetworkType": s.Type, "childRef": s.Child}
	if s.Address.IsValid() {
		out["ipAddress"] = s.Address.String()
	}
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	return out
}

// emitEIP wants an EIp of our own making. Nothing in an EIp can be changed: one whose address comes from elsewhere has
// to go first.
func (c *compiler) emitEIP(key intent.ObjectKey, from addressSource, by state.Ref) {
	have := c.eipsByKey[key]
	if have != nil && c.w.Engine.OwnedObjects[key] &&
		from != (addressSource{have.Type, have.ExistingOvnEip, have.Address}) {
		return
	}
	o := intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}, from.buildSpec())
	o.Terminating = have != nil && have.deletionBlocked // it works as it is, and nothing can be written to it
	c.out.AddObject(key, o, by)
}

// chooseEIPType is the network type of an EIp of our own making: what is asked for, the default of its day, or today's.
func (c *compiler) chooseEIPType(key intent.ObjectKey, asked, usual string) string {
	if have := c.eipsByKey[key]; asked == "" && have != nil {
		asked = have.Type
	}
	if asked == "" {
		return c.defaultNetworkType(usual)
	}
	return asked
}

// lookupEIP is the EIp of a namespace and name, or nil.
func (c *compiler) lookupEIP(namespace, name string) *eip {
	return c.eipsByKey[intent.ObjectKey{Kind: intent.EIp, Namespace: namespace, Name: name}]
}

// isTerminating says whether nothing can be made in a namespace any more.
func (c *compiler) isTerminating(namespace string) bool {
	if m := c.w.Management; m != nil {
		return m.TerminatingNamespaces[namespace]
	}
	return c.w.Namespace.Deleting
}

// sortByPossession is the EIps that have an OvnEip already, then those that had one, then the others: who comes later
// gets what is left.
func (c *compiler) sortByPossession() []*eip {
	rank := func(e *eip) int {
		switch {
		case c.w.Engine.OvnEips[c.ovnEipName(e)].Exists:
			return 0
		case e.StatusAddress.IsValid():
			return 1
		default:
			return 2
		}
	}
	out := slices.Clone(c.eips)
	slices.SortStableFunc(out, func(a, b *eip) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// randomOvnEip is the name of the OvnEip that has an EIp's address.
func (c *compiler) ovnEipName(e *eip) string {
	if e.ExistingOvnEip != "" {
		return e.ExistingOvnEip
	}
	return e.ownOvnEipName
}

// nameOvnEips decides how the OvnEip of each EIp is called. Who has one keeps its name. The others get the usual name
// where nobody else has it, in the order of age, and otherwise one that no other EIp can have.
func (c *compiler) nameOvnEips() {
	taken := map[string]bool{}
	unnamed := slices.DeleteFunc(slices.Clone(c.eips), func(e *eip) bool {
		return e.ExistingOvnEip != "" || e.ownOvnEipName != ""
	})
	for _, e := range unnamed {
		for _, name := range ownership.OvnEipNames(e.Namespace, e.Name) {
			if have := c.w.Engine.OvnEips[name]; e.ownOvnEipName == "" && have.Exists && have.Owned &&
				have.Origin == e.key.Ref() {
				e.ownOvnEipName, taken[name] = name, true
			}
		}
	}
	for _, e := range unnamed {
		if e.ownOvnEipName == "" {
			e.ownOvnEipName = c.chooseOvnEipName(e, taken)
			taken[e.ownOvnEipName] = true
		}
	}
}

// chooseOvnEipName is the first name for the OvnEip of an EIp that nobody else has. No other EIp can have the last one.
func (c *compiler) chooseOvnEipName(e *eip, taken map[string]bool) string {
	names := ownership.OvnEipNames(e.Namespace, e.Name)
	for _, name := range names {
		have := c.w.Engine.OvnEips[name]
		if !taken[name] && (!have.Exists || have.Owned && have.Origin == state.Ref{}) {
			return name
		}
	}
	return names[len(names)-1]
}

func (e *eip) buildVerdict() intent.Verdict {
	facts := intent.EIpFacts{OvnEip: e.ovnEipName, Holders: e.holders, Address: e.address, MadeForOwner: e.madeForOwner}
	if e.external != nil {
		facts.Network = e.external.Subnet
	}
	if !facts.Address.IsValid() && e.isWanted() {
		facts.Address = e.StatusAddress // it is being made again; what is not in the status is forgotten
	}
	return intent.Verdict{
		Object: e.key, Generation: e.Generation, Facts: facts, Tolerated: e.tolerated,
		Accepted: e.accepted, Resolved: e.resolved,
		Waiting: firstProblem(deletingFinding(e.Deleting && !e.deletionBlocked), e.waiting), Held: e.held,
	}
}
