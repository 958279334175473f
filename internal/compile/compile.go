// Package compile is every decision: the world of one VPC in, what should be written and what we think of each object out.
package compile

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// Shard compiles the world of one VPC. It is total: any world gives an intent and a verdict for each object.
func Shard(world *snapshot.World) (*intent.Intent, []intent.Verdict) {
	c := newCompiler(world)

	c.claimProject()      // whose shard this is
	c.chooseServices()    // which Services are ours
	c.buildProject()      // namespace, VPC, subnet
	c.allocateEIps()      // each EIp gets a network and an address
	c.resolveFIps()       // each FIp gets an EIp and a target
	c.resolveServices()   // each Service gets an EIp and its ports
	c.resolveDiversions() // each EgressService and EgressRoute gets a network, an address and pods
	c.attachNetworks()    // the router gets a port on each network that is used
	c.leaveByDefault()    // SNAT and the default way out
	c.reachNetwork()      // or what the management VPC has instead
	c.translateFIps()     // 1:1 NAT
	c.balanceServices()   // load balancers
	c.leaveByEgress()     // what EgressIPs select
	c.divert()            // what EgressServices and EgressRoutes lead elsewhere
	c.returnToNetworks()  // replies leave by the network they came from
	c.isolate()           // pods on networks where they do not belong
	c.isolateAddresses()  // other projects on networks that isolate them
	c.keepToAllowLists()  // with whom outside there may be connections
	c.unblock()           // what Kube-OVN can't remove by itself
	c.judgeEIps()         // who holds each EIp
	c.holdObjects()       // finalizers
	c.keepServices()      // which Services do not go by themselves yet

	return c.in, c.verdicts()
}

// compiler is one run: the world, what was decided so far, and the intent that grows from it.
type compiler struct {
	w  *snapshot.World
	in *intent.Intent

	project    *project
	eips       []*eip // in the order in which they are served
	names      map[intent.ObjectKey]*eip
	counted    map[string]int     // EIps that count for quotas, by namespace
	ours       []snapshot.Counted // and as their organization counts them; nil: nobody has asked yet
	fips       []*fip
	services   []*service
	pods       map[string]map[netip.Addr]bool // their addresses, by namespace
	foreign    []*service                     // somebody else's, of which we have written the status
	diversions []*diversion
	others     []intent.Verdict // of Projects that want a shard that is taken
}

func newCompiler(w *snapshot.World) *compiler {
	c := &compiler{w: w, in: intent.New(), names: map[intent.ObjectKey]*eip{}, counted: map[string]int{}, pods: podsByNamespace(w.Pods)}
	for _, e := range inOrder(w.EIps, func(e snapshot.EIp) snapshot.Meta { return e.Meta }) {
		key := intent.ObjectKey{Kind: intent.EIp, Namespace: e.Namespace, Name: e.Name}
		c.names[key] = &eip{EIp: e, key: key}
		c.eips = append(c.eips, c.names[key])
	}
	c.nameOvnEips()
	for _, f := range inOrder(w.FIps, func(f snapshot.FIp) snapshot.Meta { return f.Meta }) {
		c.fips = append(c.fips, &fip{FIp: f, key: intent.ObjectKey{Kind: intent.FIp, Namespace: f.Namespace, Name: f.Name}})
	}
	for _, s := range inOrder(w.Services, func(s snapshot.Service) snapshot.Meta { return s.Meta }) {
		c.services = append(c.services, &service{Service: s, key: intent.ObjectKey{Kind: intent.Service, Namespace: s.Namespace, Name: s.Name}})
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

// inOrder is objects by age, then by name: who came first is served first.
func inOrder[T any](list []T, meta func(T) snapshot.Meta) []T {
	return slices.SortedFunc(slices.Values(list), func(a, b T) int {
		x, y := meta(a), meta(b)
		return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
}

// verdicts is what we think of each object, Projects first.
func (c *compiler) verdicts() []intent.Verdict {
	out := slices.Clone(c.others)
	if c.project != nil && c.w.Management == nil {
		out = append(out, c.project.verdict(c))
	}
	for _, e := range c.eips {
		out = append(out, e.verdict())
	}
	for _, f := range c.fips {
		out = append(out, f.verdict())
	}
	for _, s := range c.services {
		out = append(out, s.verdict(c))
	}
	for _, d := range c.diversions {
		if d.service == nil {
			out = append(out, d.verdict(c))
		}
	}
	for _, s := range c.foreign {
		out = append(out, intent.Verdict{Object: s.key, Facts: intent.ServiceFacts{Foreign: true}})
	}
	slices.SortStableFunc(out, func(a, b intent.Verdict) int { return a.Object.Compare(b.Object) })
	return out
}

// deleting is the finding on an object that goes: what was made for it is in force no more, or only until it is removed.
func deleting(goes bool) intent.Finding {
	if !goes {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.Deleting, Message: "what was made for the object is removed with it"}
}

// first is the first finding that is not OK.
func first(findings ...intent.Finding) intent.Finding {
	for _, f := range findings {
		if !f.OK() {
			return f
		}
	}
	return intent.Finding{}
}
