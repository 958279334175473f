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
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/words"
)

// fip is a FIp and what was decided about it.
type fip struct {
	snapshot.FIp
	key                         intent.ObjectKey
	accepted, resolved, waiting intent.Finding
	held                        intent.Finding

	ovnFip string
	eip    *eip // nil: not found, or not made yet
	own    string
	target netip.Addr
	vm     *intent.VMInterface

	through []state.Ref // what it needs besides its own rows
}

// wanted says whether its translation should be there.
func (f *fip) wanted() bool { return f.accepted.OK() && f.resolved.OK() && !f.Deleting && f.eip != nil }

// resolveFIps gives each FIp its EIp and its target. Who holds an EIp or a target now keeps it; then who came first has it.
func (c *compiler) resolveFIps() {
	for _, f := range c.fips {
		f.ovnFip, f.own = c.ovnFip(f), ownEIp(f)
		if f.accepted = first(c.member(), c.translatable(), malformed(f.Malformed)); !f.accepted.OK() {
			continue
		}
		c.makeOwnEIp(f)
		f.resolved = first(c.findEIp(f), c.findTarget(f))
	}
	targets, addresses := map[netip.Addr][]*fip{}, map[*eip]*fip{}
	for _, f := range c.byTenure() {
		if !f.accepted.OK() {
			continue
		}
		f.accepted = first(c.inProject(f), c.addressTaken(f, addresses), c.targetTaken(f, targets[f.target]))
		if f.Deleting || !f.accepted.OK() {
			continue
		}
		if f.target.IsValid() {
			targets[f.target] = append(targets[f.target], f)
		}
		if f.eip != nil {
			addresses[f.eip] = f
		}
	}
}

// ovnFip is the name of a FIp's OvnFip: the usual one, unless that is somebody else's, or was when it was made.
func (c *compiler) ovnFip(f *fip) string {
	names := ownership.OvnFipNames(f.Namespace, f.Name)
	if c.w.Engine.Foreign[names[0]] || c.w.Engine.OvnFips[names[1]].Exists {
		return names[1]
	}
	return names[0]
}

// translatable says whether the shard can have floating IPs.
func (c *compiler) translatable() intent.Finding {
	if c.w.Management == nil {
		return intent.Finding{}
	}
	return intent.Finding{
		Reason: intent.NoProject, Message: "the namespace is in the management VPC, which has no floating IPs; use a load balancer, or a project",
	}
}

// byTenure is the FIps that have their EIp and their target now, then those that have the EIp, then those that have the
// target, then the others; each by age.
func (c *compiler) byTenure() []*fip {
	tenure := func(f *fip) (n int) {
		have := c.w.Engine.OvnFips[f.ovnFip]
		if f.eip != nil && have.OvnEip == f.eip.ovnEip {
			n += 2
		}
		if f.target.IsValid() && have.Target == f.target {
			n++
		}
		return n
	}
	out := slices.Clone(c.fips)
	slices.SortStableFunc(out, func(a, b *fip) int { return cmp.Compare(tenure(b), tenure(a)) })
	return out
}

// ownEIp is the name of the EIp that a FIp has made for itself, or nothing. It goes with the FIp.
func ownEIp(f *fip) string {
	if f.EIp != "" {
		return ""
	}
	return "fip-" + f.Name + "-" + intent.Suffix(f.UID)
}

// makeOwnEIp wants that EIp.
func (c *compiler) makeOwnEIp(f *fip) {
	if f.own == "" || f.Deleting || c.ending(f.Namespace) {
		return
	}
	key := c.inside(intent.EIp, f.own)
	c.wantEIp(key, source{Type: c.ownType(key, f.Type, c.w.Config.DefaultFIpType)}, f.key.Ref())
}

func (c *compiler) findEIp(f *fip) intent.Finding {
	name := f.EIp
	if f.own != "" {
		name = f.own
	}
	if f.eip = c.named(f.Namespace, name); f.eip != nil {
		return intent.Finding{}
	}
	if f.own != "" {
		f.waiting = intent.Finding{Reason: intent.WaitForEIp, Message: fmt.Sprintf("EIp %s is being made", name)}
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.EIpNotFound, Message: fmt.Sprintf(
		"EIp %s does not exist in namespace %s; create it, or name another", words.Name(name), c.w.Shard)}
}

func (c *compiler) findTarget(f *fip) intent.Finding {
	switch {
	case f.Address.IsValid():
		f.target = f.Address
		return intent.Finding{}
	case f.Pod != "":
		return c.findPod(f)
	default:
		return c.findVM(f)
	}
}

func (c *compiler) findPod(f *fip) intent.Finding {
	addresses, exists := c.w.Pods[snapshot.PodName(f.Namespace, f.Pod)]
	if !exists {
		return intent.Finding{Reason: intent.PodNotFound, Message: fmt.Sprintf(
			"pod %s does not exist in namespace %s, or has ended; create it, and the floating IP follows", words.Name(f.Pod), c.w.Shard)}
	}
	for _, a := range addresses {
		if a.Is4() {
			f.target = a
			return intent.Finding{}
		}
	}
	return intent.Finding{Reason: intent.NoAddressYet, Message: fmt.Sprintf("pod %s has no IPv4 address yet; the floating IP follows when it has one", f.Pod)}
}

func (c *compiler) findVM(f *fip) intent.Finding {
	interfaces, exists := c.w.VMs[f.VM]
	if !exists {
		return intent.Finding{Reason: intent.VMNotFound, Message: fmt.Sprintf(
			"virtual machine %s does not run in namespace %s; start it, and the floating IP follows", words.Name(f.VM), c.w.Shard)}
	}
	for _, i := range interfaces {
		if f.Interface != "" && f.Interface != i.Interface && f.Interface != i.InGuest || !i.Address.IsValid() {
			continue
		}
		f.target, f.vm = i.Address, &i
		return intent.Finding{}
	}
	if f.Interface != "" {
		return intent.Finding{Reason: intent.NoAddressYet, Message: fmt.Sprintf(
			"virtual machine %s reports no IPv4 address on an interface %s (it has %s); the floating IP follows when it does",
			words.Name(f.VM), words.Name(f.Interface), listed(interfaces))}
	}
	return intent.Finding{Reason: intent.NoAddressYet, Message: fmt.Sprintf(
		"virtual machine %s reports no IPv4 address yet; the floating IP follows when it does", f.VM)}
}

// listed is the names of interfaces.
func listed(interfaces []intent.VMInterface) string {
	names := []string{}
	for _, i := range interfaces {
		names = append(names, words.Name(i.Interface)) // the guest says them
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// inProject says whether the target is in the project's subnet: OVN would translate to any address, also of other networks.
func (c *compiler) inProject(f *fip) intent.Finding {
	prefix := c.project.prefix4()
	if !f.target.IsValid() || prefix.Contains(f.target) {
		return intent.Finding{}
	}
	if !prefix.IsValid() {
		return intent.Finding{Reason: intent.TargetOutside, Message: fmt.Sprintf(
			"the project has no IPv4 prefix, and %s can't be translated: Kube-OVN 1.16 has IPv4 addresses on external networks only", f.target)}
	}
	return intent.Finding{Reason: intent.TargetOutside, Message: fmt.Sprintf(
		"%s is not in the project's subnet %s; use an address of a pod or virtual machine in it", f.target, prefix)}
}

// addressTaken is who else uses a FIp's EIp.
func (c *compiler) addressTaken(f *fip, addresses map[*eip]*fip) intent.Finding {
	if f.eip != nil && f.eip.Child != "" {
		return intent.Finding{Reason: intent.EIpTaken, Message: fmt.Sprintf("EIp %s is the project's way out; use another EIp", f.eip.Name)}
	}
	if other := addresses[f.eip]; f.eip != nil && other != nil {
		return intent.Finding{Reason: intent.EIpTaken, Message: fmt.Sprintf(
			"EIp %s is held by FIp %s; use another EIp, or delete that FIp", f.eip.Name, other.Name)}
	}
	if s := c.balancer(f.eip); s != nil {
		return intent.Finding{Reason: intent.EIpTaken, Message: fmt.Sprintf(
			"EIp %s is held by Service %s; use another EIp, or let that Service use another", f.eip.Name, s.Name)}
	}
	return intent.Finding{}
}

// targetTaken is who else leads to a FIp's target by the same network. On several networks a target may have one address each,
// unless replies find back by the target's address.
func (c *compiler) targetTaken(f *fip, others []*fip) intent.Finding {
	for _, other := range others {
		if f.target.IsValid() && c.clash(f, other) {
			return intent.Finding{Reason: intent.TargetTaken, Message: fmt.Sprintf(
				"FIp %s leads to %s already, and on each network replies can leave with one address only; delete one of the two, or use another network",
				other.Name, f.target)}
		}
	}
	return intent.Finding{}
}

// clash says whether two FIps can't lead to the same target.
func (c *compiler) clash(a, b *fip) bool {
	if a.eip == nil || b.eip == nil || a.eip.on == nil || b.eip.on == nil {
		return false // known before anything is translated
	}
	return a.eip.on.Subnet == b.eip.on.Subnet || c.bySource(a.eip.on) || c.bySource(b.eip.on)
}

// translateFIps wants the 1:1 translation of each FIp that has an EIp and a target, and the NAT row that Kube-OVN makes of
// it: Kube-OVN never looks at the row again, so we put it back when it is lost.
func (c *compiler) translateFIps() {
	for _, f := range c.fips {
		if !f.wanted() {
			continue
		}
		have := c.w.Engine.OvnFips[f.ovnFip]
		ready := c.readyFor(f)
		f.waiting = first(f.waiting, ready)
		if !ready.OK() && !have.Exists {
			continue // what is there stays while something is slow
		}
		if have.Overlooked {
			f.waiting = first(f.waiting, intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf(
				"Kube-OVN has overlooked OvnFip %s, which is made again", f.ovnFip)})
			continue
		}
		if c.mustGiveWay(f, have) {
			f.waiting = first(f.waiting, intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf(
				"OvnFip %s has to go, and comes again with the address of EIp %s", f.ovnFip, f.eip.Name)})
			continue
		}
		spec := kubeovn.OvnFipSpec{OvnEip: f.eip.ovnEip, Vpc: c.w.Shard, V4Ip: f.target.String()}
		c.in.Object(c.key(intent.OvnFip, f.ovnFip), intent.NewObject(intent.Meta{Labels: ownership.Labels(c.w.Shard)}, spec), f.key.Ref())
		if !have.Ready || have.Deleting || have.Target != f.target || have.OvnEip != f.eip.ovnEip {
			f.waiting = first(f.waiting, intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf(
				"Kube-OVN has not carried out OvnFip %s yet", f.ovnFip)})
			continue
		}
		c.in.Row(c.w.Shard, intent.FloatingNAT{External: have.External, Logical: f.target}, f.key.Ref())
	}
}

// mustGiveWay says whether the translation that is there has to go before it can be made as it should be: it stands in the
// way of making its address again, it has an address that is the EIp's no more, or it is on another EIp and the new one is
// not ready to be translated to.
func (c *compiler) mustGiveWay(f *fip, have snapshot.OvnFip) bool {
	switch {
	case c.vpcLeaves() || c.w.Engine.OvnEips[f.eip.ovnEip].Deleting || c.blank(f.eip.ovnEip) || !f.eip.wanted():
		return true
	case have.OvnEip == f.eip.ovnEip:
		return have.External.IsValid() && f.eip.address.IsValid() && have.External != f.eip.address
	default:
		return !c.readyFor(f).OK()
	}
}

// readyFor says what a translation has to wait for. Kube-OVN reports one as ready that it could not write, when it comes
// before the router or its port.
func (c *compiler) readyFor(f *fip) intent.Finding {
	if why := c.eipReady(f.eip); !why.OK() {
		return why
	}
	if why := c.rebuilt(); !why.OK() && c.vpcLeaves() {
		return why
	}
	if !c.w.Engine.Vpc.Ready || !c.w.Engine.Subnet.Ready {
		return intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf("Kube-OVN has not made VPC %s and its subnet yet", c.w.Shard)}
	}
	return intent.Finding{}
}

func (f *fip) verdict() intent.Verdict {
	facts := intent.FIpFacts{OvnFip: f.ovnFip, Target: f.target, VM: f.vm, EIp: f.EIp}
	if f.own != "" {
		facts.EIp = f.own
	}
	if f.eip != nil && f.accepted.OK() {
		facts.External = f.eip.address
	}
	return intent.Verdict{
		Object: f.key, Generation: f.Generation, Facts: facts,
		Accepted: f.accepted, Resolved: f.resolved, Waiting: first(deleting(f.Deleting), f.waiting), Held: f.held, Through: f.through,
	}
}
