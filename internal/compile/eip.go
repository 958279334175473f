package compile

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// eip is an EIp and the decisions about it.
type eip struct {
	snapshot.EIp
	key                               intent.ObjectKey
	accepted, resolved, waiting, held intent.Finding
	tolerated                         intent.Finding

	ovnEip          *kubeovn.OvnEipSpec      // the OvnEip that should exist for it; nil: none
	ownOvnEipName   string                   // name of the OvnEip created for it
	ovnEipName      string                   // name of the OvnEip that has its address
	external        *snapshot.ExternalSubnet // subnet of its address
	address         netip.Addr               // invalid: none yet
	holders         []intent.ObjectKey
	madeForOwner    bool // created for a FIp or a Service, and deleted with it
	deletionBlocked bool // being deleted, but still in use
}

// isWanted reports whether its address should exist.
func (e *eip) isWanted() bool {
	return e.external != nil && e.accepted.OK() && e.resolved.OK() && (!e.Deleting || e.deletionBlocked)
}

// hasOwnOvnEip reports whether its OvnEip was created for it, and is not one that it refers to.
func (e *eip) hasOwnOvnEip() bool { return e.ExistingOvnEip == "" }

// isSharedWith reports whether Services of a namespace may bind to it: those of its own namespace, and of those in
// spec.sharedWith.
func (e *eip) isSharedWith(namespace string) bool {
	return namespace == e.Namespace || slices.Contains(e.SharedWith, namespace)
}

// allocateEIPs chooses the subnet of each EIp. Kube-OVN's IPAM assigns the address. Nothing else assigns addresses, so
// none is assigned twice.
func (c *compiler) allocateEIPs() {
	c.blockEIPDeletion()
	requested := map[netip.Addr]*eip{}
	for _, e := range c.sortByPossession() {
		e.accepted, e.resolved, e.waiting = c.allocateEIP(e, requested)
		if e.ExistingOvnEip == "" && e.accepted.OK() {
			c.eipCount[e.Namespace]++
		}
		switch {
		case c.isSecond(e) && e.isWanted():
			e.tolerated = c.checkStillAllowed(e.external, e.Namespace)
		case c.isSecond(e):
			e.address = netip.Addr{}
		case e.ExistingOvnEip != "":
		case e.isWanted() && !c.failedWithoutAddress(e.ovnEipName):
			e.tolerated = c.checkStillAllowed(e.external, e.Namespace)
			e.requestOvnEip(e.external.Subnet)
		case !e.isWanted() && !e.Deleting:
			c.releaseEIP(e)
		}
	}
}

// requestOvnEip decides that the EIp should have an OvnEip on a subnet, with the address that it must have.
func (e *eip) requestOvnEip(subnet string) {
	e.ovnEip = &kubeovn.OvnEipSpec{
		ExternalSubnet: subnet, Type: "nat", Addresses: kubeovn.NewAddresses(e.requiredAddress()),
	}
}

// emitEIPs adds the OvnEips of EIps, and the EIps that the controller creates: for the default egress, and for FIps and
// Services that name none.
func (c *compiler) emitEIPs() {
	c.emitDefaultEIP()
	for _, e := range c.eips {
		if e.ovnEip != nil {
			c.out.AddObject(c.clusterKey(intent.OvnEip, e.ovnEipName),
				intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}, *e.ovnEip), e.key.Ref())
		}
	}
	for _, f := range c.fips {
		if f.needsOwnEIP {
			c.emitOwnEIP(f)
		}
	}
	for _, s := range c.services {
		if s.needsOwnEIP {
			c.emitServiceEIP(s)
		}
	}
}

// releaseEIP handles an EIp that is not deleted but loses its address, as when its project is deleted. Its status drops
// the address before the OvnEip is deleted: the address may be assigned again at once, and no two EIps may show the
// same one.
func (c *compiler) releaseEIP(e *eip) {
	have := c.w.Engine.OvnEips[e.ovnEipName]
	if e.StatusAddress.IsValid() && have.Owned && !have.Deleting && e.hasOwnOvnEip() {
		e.requestOvnEip(have.Subnet)
	}
	e.address = netip.Addr{}
}

// emitDefaultEIP adds the EIp that represents the address of the router's port on the default network.
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
	Family      ipfamily.Family // zero: the default
}

func (s addressSource) buildSpec() map[string]string {
	out := map[string]string{"externalNetworkType": s.Type, "childRef": s.Child}
	if s.Family != 0 {
		out["ipFamily"] = s.Family.String()
	}
	if s.Address.IsValid() {
		out["ipAddress"] = s.Address.String()
	}
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	return out
}

// emitEIP adds an EIp that the controller creates. The spec of an EIp is immutable: one with another address source has
// to be deleted first.
func (c *compiler) emitEIP(key intent.ObjectKey, from addressSource, by state.Ref) {
	have := c.eipsByKey[key]
	if have != nil && c.w.Engine.OwnedObjects[key] &&
		from != (addressSource{have.Type, have.ExistingOvnEip, have.Address, have.Family}) {
		return
	}
	o := intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}, from.buildSpec())
	o.Terminating = have != nil && have.deletionBlocked // it still works, but can't be written to
	c.out.AddObject(key, o, by)
}

// chooseEIPType returns the network type of an EIp that the controller creates: the requested one, the one it was
// created with, or the current default.
func (c *compiler) chooseEIPType(key intent.ObjectKey, requested, fallback string) string {
	if have := c.eipsByKey[key]; requested == "" && have != nil {
		requested = have.Type
	}
	if requested == "" {
		return c.defaultNetworkType(fallback)
	}
	return requested
}

// lookupEIP returns the EIp of a namespace and name, or nil.
func (c *compiler) lookupEIP(namespace, name string) *eip {
	return c.eipsByKey[intent.ObjectKey{Kind: intent.EIp, Namespace: namespace, Name: name}]
}

// isTerminating reports whether a namespace is being deleted, so that nothing can be created in it.
func (c *compiler) isTerminating(namespace string) bool {
	if m := c.w.Management; m != nil {
		return m.TerminatingNamespaces[namespace]
	}
	return c.w.Namespace.Deleting
}

// sortByPossession returns the EIps that have an OvnEip first, then those that had one, then the others. Later ones get
// what is left.
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

// ovnEipName returns the name of the OvnEip that has an EIp's address.
func (c *compiler) ovnEipName(e *eip) string {
	if e.ExistingOvnEip != "" {
		return e.ExistingOvnEip
	}
	return e.ownOvnEipName // an EIp of the second family has none
}

// nameOvnEips chooses the name of each EIp's OvnEip. An existing OvnEip keeps its name. The others get the usual name
// if it is free, oldest first, and otherwise one that no other EIp can have.
func (c *compiler) nameOvnEips() {
	taken := map[string]bool{}
	unnamed := slices.DeleteFunc(slices.Clone(c.eips), func(e *eip) bool {
		return e.ExistingOvnEip != "" || e.ownOvnEipName != "" || c.isSecond(e)
	})
	byOrigin := c.ovnEipsByOrigin()
	for _, e := range unnamed {
		if name := byOrigin[e.key.Ref()]; name != "" {
			e.ownOvnEipName, taken[name] = name, true
		}
	}
	for _, e := range unnamed {
		if e.ownOvnEipName == "" {
			e.ownOvnEipName = c.chooseOvnEipName(e, taken)
			taken[e.ownOvnEipName] = true
		}
	}
}

// ovnEipsByOrigin returns the OvnEip of each EIp that has one, whatever its name: those that were adopted have the names
// that others gave them. Of several, one with a usual name counts.
func (c *compiler) ovnEipsByOrigin() map[state.Ref]string {
	out := map[state.Ref]string{}
	for name, have := range c.w.Engine.OvnEips {
		if !have.Exists || !have.Owned || have.Origin.Kind != string(intent.EIp) {
			continue
		}
		names := ownership.OvnEipNames(have.Origin.Namespace, have.Origin.Name)
		if other := out[have.Origin]; other == "" || isPreferredName(names, name, other) {
			out[have.Origin] = name
		}
	}
	return out
}

// isPreferredName reports whether an object keeps the first of two names: the one that comes first in its usual names,
// or else the first by the alphabet.
func isPreferredName(usual []string, a, b string) bool {
	rank := func(name string) int {
		if i := slices.Index(usual, name); i >= 0 {
			return i
		}
		return len(usual)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) < 0
}

// chooseOvnEipName returns the first name for the OvnEip of an EIp that is free. No other EIp can have the last one.
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
		facts.Address = e.StatusAddress // the OvnEip is being recreated; keep its address in the status
	}
	return intent.Verdict{
		Object: e.key, Generation: e.Generation, Facts: facts, Tolerated: e.tolerated,
		Accepted: e.accepted, Resolved: e.resolved,
		Waiting: firstProblem(deletingFinding(e.Deleting && !e.deletionBlocked), e.waiting), Held: e.held,
	}
}
