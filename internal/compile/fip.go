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
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// fip is a FIp and the decisions about it.
type fip struct {
	snapshot.FIp
	key                         intent.ObjectKey
	accepted, resolved, waiting intent.Finding
	held, partly                intent.Finding

	ovnFipName  string
	eip         *eip // nil: not found, or not created yet
	ownEIPName  string
	needsOwnEIP bool // the controller creates the EIp
	target      netip.Addr
	vmInterface *intent.VMInterface

	dependencies []state.Ref // shared rows that it depends on
	translated   bool        // its translation is, or is about to be, written
	outbound     bool        // connections of the target should use the address, by policies
	redirects    bool        // these policies are written
}

// isWanted reports whether its translation should exist.
func (f *fip) isWanted() bool {
	return f.accepted.OK() && f.resolved.OK() && !f.Deleting && f.eip != nil
}

// resolveFIPs resolves the EIp and the target of each FIp. Current holders of an EIp or target have precedence, then
// the oldest.
func (c *compiler) resolveFIPs() {
	for _, f := range c.fips {
		f.ovnFipName, f.ownEIPName = c.ovnFipName(f), ownEIPName(f)
		if f.accepted = firstProblem(c.checkMembership(), checkMalformed(f.Malformed)); !f.accepted.OK() {
			continue
		}
		f.needsOwnEIP = f.ownEIPName != "" && !f.Deleting && !c.isTerminating(f.Namespace)
		f.resolved = firstProblem(c.resolveEIP(f), c.resolveTarget(f))
	}
	targets, addresses := map[netip.Addr][]*fip{}, map[*eip]*fip{}
	for _, f := range c.sortByTenure() {
		if !f.accepted.OK() {
			continue
		}
		f.accepted = firstProblem(c.checkTargetOwned(f), c.checkTargetInSubnet(f), c.checkManagementReturn(f),
			c.checkEIPUnused(f, addresses),
			c.checkTargetUnused(f, targets[f.target]))
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

// recordOvnFips records the OvnFip of each FIp that has one under a name of others: those that were adopted.
func (c *compiler) recordOvnFips() {
	c.ovnFipsByOrigin = map[state.Ref]string{}
	for name, have := range c.w.Engine.OvnFips {
		if have.Origin.Kind != string(intent.FIp) ||
			slices.Contains(ownership.OvnFipNames(have.Origin.Namespace, have.Origin.Name), name) {
			continue
		}
		if other := c.ovnFipsByOrigin[have.Origin]; other == "" || name < other {
			c.ovnFipsByOrigin[have.Origin] = name
		}
	}
}

// ovnFipName returns the name of a FIp's OvnFip: the one under which it was adopted; the usual one, unless that belongs
// to another object, or did when the OvnFip was created. FIps of the management VPC have none.
func (c *compiler) ovnFipName(f *fip) string {
	if c.w.Management != nil {
		return ""
	}
	if name := c.ovnFipsByOrigin[f.key.Ref()]; name != "" {
		return name
	}
	names := ownership.OvnFipNames(f.Namespace, f.Name)
	if c.w.Engine.ForeignOvnFips[names[0]] || c.w.Engine.OvnFips[names[1]].Exists {
		return names[1]
	}
	return names[0]
}

// sortByTenure returns the FIps that currently have both their EIp and their target first, then those with the EIp,
// then those with the target, then the others; each group by age.
func (c *compiler) sortByTenure() []*fip {
	tenure := func(f *fip) (n int) {
		have := c.w.Engine.OvnFips[f.ovnFipName]
		if f.eip != nil && have.OvnEip == f.eip.ovnEipName {
			n += 2
		}
		if f.target.IsValid() && have.TargetIP == f.target {
			n++
		}
		return n
	}
	out := slices.Clone(c.fips)
	slices.SortStableFunc(out, func(a, b *fip) int { return cmp.Compare(tenure(b), tenure(a)) })
	return out
}

// ownEIPName returns the name of the EIp that is created for a FIp and deleted with it; empty: the FIp names an EIp.
func ownEIPName(f *fip) string {
	if f.EIp != "" {
		return ""
	}
	return "fip-" + f.Name + "-" + intent.UIDSuffix(f.UID)
}

// emitOwnEIP adds the EIp that is created for a FIp.
func (c *compiler) emitOwnEIP(f *fip) {
	key := intent.ObjectKey{Kind: intent.EIp, Namespace: f.Namespace, Name: f.ownEIPName}
	from := addressSource{Type: c.chooseEIPType(key, f.Type, c.w.Config.DefaultFIpType), Family: f.Family}
	if f.Family == c.families[0] {
		from.Family = 0
	}
	c.emitEIP(key, from, f.key.Ref())
}

func (c *compiler) resolveEIP(f *fip) intent.Finding {
	name := f.EIp
	if f.ownEIPName != "" {
		name = f.ownEIPName
	}
	if f.eip = c.lookupEIP(f.Namespace, name); f.eip != nil {
		return intent.Finding{}
	}
	if f.ownEIPName != "" {
		f.waiting = intent.Finding{Reason: intent.WaitingForEIp, Message: fmt.Sprintf("EIp %s is being created", name)}
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.EIpNotFound, Message: fmt.Sprintf(
		"EIp %s does not exist in namespace %s; create it, or name another", humanize.QuoteName(name), f.Namespace)}
}

func (c *compiler) resolveTarget(f *fip) intent.Finding {
	switch {
	case f.Address.IsValid():
		f.target = f.Address
		return intent.Finding{}
	case f.Pod != "":
		return c.resolvePodTarget(f)
	default:
		return c.resolveVMTarget(f)
	}
}

func (c *compiler) resolvePodTarget(f *fip) intent.Finding {
	addresses, exists := c.w.Pods[snapshot.PodKey(f.Namespace, f.Pod)]
	if !exists {
		return intent.Finding{Reason: intent.PodNotFound, Message: fmt.Sprintf(
			"pod %s does not exist in namespace %s, or has terminated; create it, and the floating IP follows",
			humanize.QuoteName(f.Pod), f.Namespace)}
	}
	for _, a := range addresses {
		if ipfamily.Of(a) == c.familyOf(f.eip) {
			f.target = a
			return intent.Finding{}
		}
	}
	return intent.Finding{
		Reason: intent.TargetHasNoAddress,
		Message: fmt.Sprintf("pod %s has no %s address yet; the floating IP follows when it has one", f.Pod,
			c.familyOf(f.eip)),
	}
}

func (c *compiler) resolveVMTarget(f *fip) intent.Finding {
	interfaces, exists := c.w.VMs[snapshot.PodKey(f.Namespace, f.VM)]
	if !exists {
		return intent.Finding{Reason: intent.VMNotFound, Message: fmt.Sprintf(
			"virtual machine %s is not running in namespace %s; start it, and the floating IP follows",
			humanize.QuoteName(f.VM), f.Namespace)}
	}
	for _, i := range interfaces {
		if f.Interface != "" && f.Interface != i.Interface && f.Interface != i.InGuest ||
			!i.Address.IsValid() || ipfamily.Of(i.Address) != c.familyOf(f.eip) {
			continue
		}
		f.target, f.vmInterface = i.Address, &i
		return intent.Finding{}
	}
	if f.Interface != "" {
		return intent.Finding{Reason: intent.TargetHasNoAddress, Message: fmt.Sprintf(
			"virtual machine %s reports no %s address on an interface %s (it has %s); "+
				"the floating IP follows when it does",
			humanize.QuoteName(f.VM), c.familyOf(f.eip), humanize.QuoteName(f.Interface), listInterfaces(interfaces))}
	}
	return intent.Finding{Reason: intent.TargetHasNoAddress, Message: fmt.Sprintf(
		"virtual machine %s reports no %s address yet; the floating IP follows when it does", f.VM, c.familyOf(f.eip))}
}

// listInterfaces returns the names of interfaces, for messages.
func listInterfaces(interfaces []intent.VMInterface) string {
	names := []string{}
	for _, i := range interfaces {
		names = append(names, humanize.QuoteName(i.Interface)) // reported by the guest
	}
	names = slices.Compact(names) // one for each family
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// checkTargetInSubnet checks that the target is in the project's subnet, or in one of the management VPC. OVN would
// translate to any address, including those of other networks.
func (c *compiler) checkTargetInSubnet(f *fip) intent.Finding {
	prefix := c.project.prefix(c.familyOf(f.eip))
	if !f.target.IsValid() || prefix.Contains(f.target) {
		return intent.Finding{}
	}
	if c.findSubnet(f.target) != nil && ipfamily.Of(f.target) == c.familyOf(f.eip) {
		return intent.Finding{}
	}
	if !prefix.IsValid() {
		return intent.Finding{Reason: intent.TargetOutsideProject, Message: fmt.Sprintf(
			"the project has no %[1]s prefix, and %[2]s can't be translated: external networks have %[1]s addresses only",
			c.familyOf(f.eip), f.target)}
	}
	return intent.Finding{Reason: intent.TargetOutsideProject, Message: fmt.Sprintf(
		"%s is not in the project's subnet %s; use an address of a pod or virtual machine there", f.target, prefix)}
}

// checkEIPUnused returns the finding that another object uses the FIp's EIp.
func (c *compiler) checkEIPUnused(f *fip, addresses map[*eip]*fip) intent.Finding {
	if f.eip != nil && f.eip.ExistingOvnEip != "" {
		return intent.Finding{
			Reason:  intent.EIpTaken,
			Message: fmt.Sprintf("EIp %s is the project's default egress address; use another EIp", f.eip.Name),
		}
	}
	if other := addresses[f.eip]; f.eip != nil && other != nil {
		return intent.Finding{Reason: intent.EIpTaken, Message: fmt.Sprintf(
			"EIp %s is held by FIp %s; use another EIp, or delete that FIp", f.eip.Name, other.Name)}
	}
	if s := c.findBalancedService(f.eip); s != nil {
		return intent.Finding{Reason: intent.EIpTaken, Message: fmt.Sprintf(
			"EIp %s is held by Service %s; use another EIp, or assign that Service another", f.eip.Name, s.Name)}
	}
	return intent.Finding{}
}

// checkTargetUnused returns the finding that another FIp has the same target on the same network. A target may have one
// address on each network, unless the return path is by source address.
func (c *compiler) checkTargetUnused(f *fip, others []*fip) intent.Finding {
	for _, other := range others {
		if f.target.IsValid() && c.haveConflict(f, other) {
			return intent.Finding{Reason: intent.TargetTaken, Message: fmt.Sprintf(
				"FIp %s already has target %s, and a target can have only one address on a network; "+
					"delete one of the two, or use another network",
				other.Name, f.target)}
		}
	}
	return intent.Finding{}
}

// haveConflict reports whether two FIps can't have the same target.
func (c *compiler) haveConflict(a, b *fip) bool {
	if a.eip == nil || b.eip == nil || a.eip.external == nil || b.eip.external == nil {
		return false // decided before anything is translated
	}
	return a.eip.external.Subnet == b.eip.external.Subnet || c.returnsBySource(a.eip.external) ||
		c.returnsBySource(b.eip.external)
}

// emitFloatingNAT adds the OvnFip of each FIp that has an EIp and a target, and the NAT row that Kube-OVN creates from
// it. Kube-OVN never checks the row again, so the controller restores it when it is lost.
func (c *compiler) emitFloatingNAT() {
	for _, f := range c.fips {
		if !f.isWanted() {
			continue
		}
		if c.w.Management != nil {
			c.emitManagementFIP(f)
			continue
		}
		if c.isSecond(f.eip) {
			c.emitSecondFIP(f)
			continue
		}
		have := c.w.Engine.OvnFips[f.ovnFipName]
		ready := c.checkFIPReady(f)
		f.waiting = firstProblem(f.waiting, ready)
		if !ready.OK() && !have.Exists {
			continue // keep the existing OvnFip while something is slow
		}
		if have.Stuck {
			f.waiting = firstProblem(f.waiting, intent.Finding{Reason: intent.WaitingForEngine, Message: fmt.Sprintf(
				"Kube-OVN has missed OvnFip %s, which is being recreated", f.ovnFipName)})
			continue
		}
		if c.mustRecreateFIP(f, have) {
			f.waiting = firstProblem(f.waiting, intent.Finding{Reason: intent.WaitingForEngine, Message: fmt.Sprintf(
				"OvnFip %s is being recreated with the address of EIp %s", f.ovnFipName, f.eip.Name)})
			continue
		}
		f.translated = true
		spec := kubeovn.OvnFipSpec{OvnEip: f.eip.ovnEipName, Vpc: c.w.Shard, Addresses: kubeovn.NewAddresses(f.target)}
		c.out.AddObject(c.clusterKey(intent.OvnFip, f.ovnFipName),
			intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}, spec), f.key.Ref())
		if !have.Ready || have.Deleting || have.TargetIP != f.target || have.OvnEip != f.eip.ovnEipName {
			f.waiting = firstProblem(f.waiting, intent.Finding{Reason: intent.WaitingForEngine, Message: fmt.Sprintf(
				"Kube-OVN has not applied OvnFip %s yet", f.ovnFipName)})
			continue
		}
		c.out.AddRow(c.w.Shard, intent.DNATAndSNAT{External: have.ExternalIP, Logical: f.target}, f.key.Ref())
	}
}

// mustRecreateFIP reports whether the existing translation has to be deleted before it can be created as it should be:
// it prevents its address from being recreated, it has an address that is no longer the EIp's, or it is on another EIp
// and the new one is not ready.
func (c *compiler) mustRecreateFIP(f *fip, have snapshot.OvnFip) bool {
	switch {
	case c.isVPCTerminating() || c.w.Engine.OvnEips[f.eip.ovnEipName].Deleting ||
		c.failedWithoutAddress(f.eip.ovnEipName) || !f.eip.isWanted():
		return true
	case have.OvnEip == f.eip.ovnEipName:
		return have.ExternalIP.IsValid() && f.eip.address.IsValid() && have.ExternalIP != f.eip.address
	default:
		return !c.checkFIPReady(f).OK()
	}
}

// checkFIPReady returns what a translation waits for. Kube-OVN reports an OvnFip as ready that it could not write, if
// it is created before the router or its port.
func (c *compiler) checkFIPReady(f *fip) intent.Finding {
	if why := c.checkEIPReady(f.eip); !why.OK() {
		return why
	}
	if why := c.checkRebuild(); !why.OK() && c.isVPCTerminating() {
		return why
	}
	if !c.w.Engine.Vpc.Ready || !c.w.Engine.Subnet.Ready {
		return intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("Kube-OVN has not created VPC %s and its subnet yet", c.w.Shard),
		}
	}
	return intent.Finding{}
}

func (f *fip) buildVerdict(c *compiler) intent.Verdict {
	facts := intent.FIpFacts{
		OvnFip: f.ovnFipName, Target: f.target, VM: f.vmInterface, EIp: f.EIp,
		Translated: f.translated, Outbound: f.translated && c.leavesAsFIP(f),
	}
	if f.ownEIPName != "" {
		facts.EIp = f.ownEIPName
	}
	if f.eip != nil && c.isSecond(f.eip) {
		facts.OvnFip = ""
	}
	if f.eip != nil && f.accepted.OK() {
		facts.External = f.eip.address
		if f.eip.external != nil {
			facts.Network = f.eip.external.Subnet
		}
	}
	return intent.Verdict{
		Object: f.key, Generation: f.Generation, Facts: facts,
		Accepted: f.accepted, Resolved: f.resolved, Waiting: firstProblem(deletingFinding(f.Deleting), f.waiting),
		Held: f.held, Partly: f.partly, Through: f.dependencies,
	}
}
