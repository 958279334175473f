// Package compile is every decision of the controller: a snapshot of one shard in, the intent and a verdict for each
// API object out. README.md in this directory describes the passes.
package compile

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Shard compiles the snapshot of one VPC. It is total: any snapshot gives an intent and a verdict for each object.
func Shard(world *snapshot.VpcInput) (*intent.Intent, []intent.Verdict) {
	c := newCompiler(world)
	c.resolve()
	c.emit()
	return c.out, c.buildVerdicts()
}

// resolve decides about each API object: whether it is accepted, and which network, address, target and ports it gets.
// It adds nothing to the intent.
func (c *compiler) resolve() {
	c.selectProject()         // choose the Project that owns the shard
	c.selectServices()        // choose the Services that Sallyport serves
	c.allocateEIPs()          // subnet and address of each EIp
	c.resolveFIPs()           // EIp and target of each FIp
	c.resolveServices()       // EIp and ports of each Service
	c.resolveEgressPolicies() // network, source address and pods of each EgressService and EgressRoute
	c.resolveFIPOutbound()    // FIps whose targets leave with their address
}

// emit adds to the intent what follows from the decisions. An object that can't have everything yet gets a finding
// about what it waits for.
func (c *compiler) emit() {
	c.emitProject()         // namespace, Vpc, Subnet, NetworkAttachmentDefinition
	c.emitEIPs()            // OvnEips, and the EIps that the controller creates
	c.attachNetworks()      // a router port on each external network in use
	c.emitRouterOptions()   // how the router learns its neighbours
	c.emitDefaultEgress()   // SNAT and default route
	c.emitHostAccess()      // the management VPC instead: access to the hosts of one network
	c.emitFloatingNAT()     // 1:1 NAT of FIps
	c.emitLoadBalancers()   // OVN load balancers and companion objects of Services
	c.emitEgressIPs()       // policies and links for pods that EgressIPs select
	c.emitEgressPolicies()  // policies and SNAT of EgressServices and EgressRoutes
	c.emitNodeBackends()    // management VPC: load balancers with backends on nodes
	c.emitFIPSubnetAccess() // management VPC: targets of FIps reach its other Subnets
	c.emitFIPOutbound()     // policies and SNAT for the targets of FIps
	c.emitReturnPaths()     // replies leave through the network the request arrived on
	c.isolateMisplaced()    // drop packets of pods on the wrong switch
	c.emitTenantIsolation() // drop packets from other projects on isolated networks
	c.emitAllowLists()      // ACLs of the ingress and egress allow-lists
	c.unblockDeletions()    // restore NAT rows without which Kube-OVN can't finish a deletion
	c.recordEIPHolders()    // owners of each EIp, for its status
	c.emitFinalizers()      // finalizers on the API objects
	c.postponeAutodelete()  // keep idle Services until their autodelete time
}

// compiler holds one run: the snapshot, the decisions so far, and the intent under construction.
type compiler struct {
	w        *snapshot.VpcInput
	out      *intent.Intent
	families []ipfamily.Family // of external networks; at least one

	project         *project
	subnet          *otherSubnet   // of the management VPC, for which rows are emitted; nil: the VPC's first
	otherSubnets    []*otherSubnet // of the management VPC
	eips            []*eip         // oldest first
	eipsByKey       map[intent.ObjectKey]*eip
	eipCount        map[string]int       // EIps that count for quotas, by namespace
	ownCounted      []snapshot.MemberEIp // for the organization's quota; nil: not computed yet
	fips            []*fip
	ovnFipsByOrigin map[state.Ref]string // OvnFips with names of others, by their FIps
	services        []*service
	hairpinNetworks map[netip.Addr]bool                 // in use
	drainAddresses  map[netip.AddrPort]intent.ObjectKey // in use, by Service
	drainCollides   bool                                // a Service did not get its first choice
	placements      map[vipClass]*vipPlacement          // VIPs of shared load balancers
	hasReturnPorts  bool
	podAddresses    map[string]map[netip.Addr]bool // addresses of pods, by namespace
	foreignServices []*service                     // not served by Sallyport, but with a status it wrote
	egressPolicies  []*vpcEgressPolicy
	hasOutboundFIPs bool             // some FIp has policies for the connections of its target
	selected        redirectedPods   // pods that EgressIPs redirect
	redirectedPods  []netip.Addr     // pods of the management VPC that use egress addresses or floating IPs
	refusedProjects []intent.Verdict // verdicts on Projects whose shard belongs to an older one
}

func newCompiler(w *snapshot.VpcInput) *compiler {
	c := &compiler{
		w:            w,
		out:          intent.New(),
		families:     externalFamilies(w.ExternalSubnets),
		eipsByKey:    map[intent.ObjectKey]*eip{},
		eipCount:     map[string]int{},
		podAddresses: podsByNamespace(w.Pods),

		hairpinNetworks: map[netip.Addr]bool{},
		drainAddresses:  map[netip.AddrPort]intent.ObjectKey{},
		placements:      map[vipClass]*vipPlacement{},
	}
	for _, e := range sortByAge(w.EIps, func(e snapshot.EIp) snapshot.Meta { return e.Meta }) {
		key := intent.ObjectKey{Kind: intent.EIp, Namespace: e.Namespace, Name: e.Name}
		c.eipsByKey[key] = &eip{EIp: e, key: key}
		c.eips = append(c.eips, c.eipsByKey[key])
	}
	c.nameOvnEips()
	c.recordOvnFips()
	for _, f := range sortByAge(w.FIps, func(f snapshot.FIp) snapshot.Meta { return f.Meta }) {
		c.fips = append(c.fips, &fip{
			FIp: f,
			key: intent.ObjectKey{Kind: intent.FIp, Namespace: f.Namespace, Name: f.Name},
		})
	}
	for _, s := range sortByAge(w.Services, func(s snapshot.Service) snapshot.Meta { return s.Meta }) {
		c.services = append(c.services, &service{
			Service: s,
			key:     intent.ObjectKey{Kind: intent.Service, Namespace: s.Namespace, Name: s.Name},
		})
	}
	return c
}

// podsByNamespace groups the addresses of pods by namespace. Keys of pods are namespace/name.
func podsByNamespace(pods map[string][]netip.Addr) map[string]map[netip.Addr]bool {
	out := map[string]map[netip.Addr]bool{}
	for name, addresses := range pods {
		namespace, _, _ := strings.Cut(name, "/")
		if out[namespace] == nil {
			out[namespace] = map[netip.Addr]bool{}
		}
		for _, a := range addresses {
			out[namespace][a] = true
		}
	}
	return out
}

// sortByAge sorts objects by age, then by name. Older objects have precedence.
func sortByAge[T any](list []T, meta func(T) snapshot.Meta) []T {
	return slices.SortedFunc(slices.Values(list), func(a, b T) int {
		x, y := meta(a), meta(b)
		return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.Namespace, y.Namespace),
			strings.Compare(x.Name, y.Name))
	})
}

// buildVerdicts returns the verdict on each object, Projects first.
func (c *compiler) buildVerdicts() []intent.Verdict {
	out := slices.Clone(c.refusedProjects)
	if c.project != nil && c.w.Management == nil {
		out = append(out, c.project.buildVerdict(c))
	}
	for _, e := range c.eips {
		out = append(out, e.buildVerdict())
	}
	for _, f := range c.fips {
		out = append(out, f.buildVerdict(c))
	}
	for _, s := range c.services {
		if s.first == nil {
			out = append(out, s.buildVerdict(c))
		}
	}
	for _, d := range c.egressPolicies {
		if d.service == nil {
			out = append(out, d.buildVerdict(c))
		}
	}
	for _, s := range c.foreignServices {
		out = append(out, intent.Verdict{Object: s.key, Facts: intent.ServiceFacts{Foreign: true}})
	}
	slices.SortStableFunc(out, func(a, b intent.Verdict) int { return a.Object.Compare(b.Object) })
	return out
}

// deletingFinding returns the finding on an object that is being deleted: whatever was created for it no longer works,
// or only until it is removed.
func deletingFinding(deleting bool) intent.Finding {
	if !deleting {
		return intent.Finding{}
	}
	return intent.Finding{
		Reason:  intent.Deleting,
		Message: "the object is being deleted; everything created for it is removed with it",
	}
}

// firstProblem returns the first finding that is not OK.
func firstProblem(findings ...intent.Finding) intent.Finding {
	for _, f := range findings {
		if !f.OK() {
			return f
		}
	}
	return intent.Finding{}
}
