// Package compile is every decision: the world of one VPC in, what should be written and what we think of each object
// out.
package compile

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Shard compiles the world of one VPC. It is total: any world gives an intent and a verdict for each object.
func Shard(world *snapshot.VpcInput) (*intent.Intent, []intent.Verdict) {
	c := newCompiler(world)

	c.selectProject()         // whose shard this is
	c.selectServices()        // which Services are ours
	c.emitProject()           // namespace, VPC, subnet
	c.allocateEIPs()          // each EIp gets a network and an address
	c.resolveFIPs()           // each FIp gets an EIp and a target
	c.resolveServices()       // each Service gets an EIp and its ports
	c.resolveEgressPolicies() // each EgressService and EgressRoute gets a network, an address and pods
	c.attachNetworks()        // the router gets a port on each network that is used
	c.emitDefaultEgress()     // SNAT and the default way out
	c.emitHostAccess()        // or what the management VPC has instead
	c.emitFloatingNAT()       // 1:1 NAT
	c.emitLoadBalancers()     // load balancers
	c.emitEgressIPs()         // what EgressIPs select
	c.emitEgressPolicies()    // what EgressServices and EgressRoutes lead elsewhere
	c.emitReturnPaths()       // replies leave by the network they came from
	c.isolateMisplaced()      // pods on networks where they do not belong
	c.emitTenantIsolation()   // other projects on networks that isolate them
	c.emitAllowLists()        // with whom outside there may be connections
	c.unblockDeletions()      // what Kube-OVN can't remove by itself
	c.recordEIPHolders()      // who holds each EIp
	c.emitFinalizers()        // finalizers
	c.postponeAutodelete()    // which Services do not go by themselves yet

	return c.out, c.buildVerdicts()
}

// compiler is one run: the world, what was decided so far, and the intent that grows from it.
type compiler struct {
	w   *snapshot.VpcInput
	out *intent.Intent

	project         *project
	eips            []*eip // in the order in which they are served
	eipsByKey       map[intent.ObjectKey]*eip
	eipCount        map[string]int       // EIps that count for quotas, by namespace
	ownCounted      []snapshot.MemberEIp // and as their organization counts them; nil: nobody has asked yet
	fips            []*fip
	services        []*service
	podAddresses    map[string]map[netip.Addr]bool // their addresses, by namespace
	foreignServices []*service                     // somebody else's, of which we have written the status
	egressPolicies  []*vpcEgressPolicy
	refusedProjects []intent.Verdict // of Projects that want a shard that is taken
}

func newCompiler(w *snapshot.VpcInput) *compiler {
	c := &compiler{
		w:            w,
		out:          intent.New(),
		eipsByKey:    map[intent.ObjectKey]*eip{},
		eipCount:     map[string]int{},
		podAddresses: podsByNamespace(w.Pods),
	}
	for _, e := range sortByAge(w.EIps, func(e snapshot.EIp) snapshot.Meta { return e.Meta }) {
		key := intent.ObjectKey{Kind: intent.EIp, Namespace: e.Namespace, Name: e.Name}
		c.eipsByKey[key] = &eip{EIp: e, key: key}
		c.eips = append(c.eips, c.eipsByKey[key])
	}
	c.nameOvnEips()
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

// podsByNamespace are the addresses of pods, which are named namespace/name.
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

// sortByAge is objects by age, then by name: who came first is served first.
func sortByAge[T any](list []T, meta func(T) snapshot.Meta) []T {
	return slices.SortedFunc(slices.Values(list), func(a, b T) int {
		x, y := meta(a), meta(b)
		return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.Namespace, y.Namespace),
			strings.Compare(x.Name, y.Name))
	})
}

// buildVerdicts is what we think of each object, Projects first.
func (c *compiler) buildVerdicts() []intent.Verdict {
	out := slices.Clone(c.refusedProjects)
	if c.project != nil && c.w.Management == nil {
		out = append(out, c.project.buildVerdict(c))
	}
	for _, e := range c.eips {
		out = append(out, e.buildVerdict())
	}
	for _, f := range c.fips {
		out = append(out, f.buildVerdict())
	}
	for _, s := range c.services {
		out = append(out, s.buildVerdict(c))
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

// deletingFinding is the finding on an object that goes: what was made for it is in force no more, or only until it is
// removed.
func deletingFinding(goes bool) intent.Finding {
	if !goes {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.Deleting, Message: "what was made for the object is removed with it"}
}

// firstProblem is the first finding that is not OK.
func firstProblem(findings ...intent.Finding) intent.Finding {
	for _, f := range findings {
		if !f.OK() {
			return f
		}
	}
	return intent.Finding{}
}
