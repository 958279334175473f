package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/internal/engine/kernel"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Applier carries out what a NodePath asks for, in the network namespace in which it was made.
type Applier struct {
	kernel   *kernel.Kernel
	nft      *kernel.Nft
	stateDir string // where is written down what was there before
}

// NewApplier is a carrier that writes down in a directory what was there before, and finds the kernel's settings as
// files below sysctl.
func NewApplier(dir, sysctl string) (*Applier, error) {
	k, err := kernel.OpenAt(sysctl)
	if err != nil {
		return nil, err
	}
	nft, err := kernel.OpenNft()
	if err != nil {
		return nil, err
	}
	return &Applier{k, nft, dir}, nil
}

// Close ends the connection to the kernel. What it holds stays.
func (c *Applier) Close() { c.kernel.Close() }

// Report is how the kernel is doing.
type Report struct {
	Want     *nodepath.Kernel
	Networks []nodepath.NetworkResult
	Entries  map[string]int64 // by network
	Failures []state.Failure
	// Changes are what had to be done, as lines of a plan.
	Changes []string
}

// Apply brings the kernel to what is asked for.
func (c *Applier) Apply(ctx context.Context, spec nodepath.Spec) (*Report, error) {
	node, err := c.kernel.ReadNode()
	if err != nil {
		return nil, err
	}
	want := nodepath.Compile(spec, node)
	out := &Report{Want: want, Networks: want.Networks, Entries: countEntries(want)}
	// What is made first goes last. An interface keeps its addresses in a VRF by a setting, has its routes there, and
	// rules lead to them.
	settings := c.kernel.Sysctls(c.stateDir, want.Sysctls)
	links := state.TryPreparePlan(ctx, c.kernel.Links(c.stateDir), want.Links, state.SkipRemovals)
	if err := out.runPlans(ctx, state.TryPreparePlan(ctx, settings, settings.FilterExisting(want.Sysctls),
		state.SkipRemovals), links); err != nil {
		return nil, err
	}
	failed := failedOrigins(out.Failures)
	if hasRemovals(links) {
		if err := c.removeLinks(ctx, out, failed); err != nil {
			return nil, err
		}
	}
	// Routes go with the interface that is put into a VRF, and settings come with one that is made, so they are looked
	// at only now.
	err = out.runPlans(ctx,
		state.TryPreparePlan(ctx, settings, want.Sysctls,
			skipFailedOrigins[nodepath.SysctlKey, nodepath.Sysctl](failed)),
		state.TryPreparePlan(ctx, c.kernel.Routes(), want.Routes,
			skipFailedOrigins[nodepath.RouteKey, nodepath.Route](failed)),
		state.TryPreparePlan(ctx, c.nft, want.Nft, skipFailedOrigins[nodepath.NftKey, nodepath.NftValue](failed)),
		state.TryPreparePlan(ctx, c.kernel.Rules(), want.Rules,
			skipFailedOrigins[nodepath.RuleKey, nodepath.Rule](failed)),
	)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// removeLinks takes away links that are not wanted any more, and interfaces out of VRFs. What leads packets the new way
// comes before that, and routes by such an interface, which the kernel takes away with it, come at once after: in
// between, connections are interrupted.
func (c *Applier) removeLinks(ctx context.Context, out *Report, failed map[state.Ref]bool) error {
	err := out.runPlans(ctx,
		state.TryPreparePlan(ctx, c.nft, out.Want.Nft, skipFailedOrigins[nodepath.NftKey, nodepath.NftValue](failed),
			state.SkipRemovals),
		state.TryPreparePlan(ctx, c.kernel.Rules(), out.Want.Rules,
			skipFailedOrigins[nodepath.RuleKey, nodepath.Rule](failed), state.SkipRemovals),
		state.TryPreparePlan(ctx, c.kernel.Links(c.stateDir), out.Want.Links, onlyRemove),
	)
	if err != nil {
		return err
	}
	return out.runPlans(ctx, state.TryPreparePlan(ctx, c.kernel.Routes(), out.Want.Routes,
		skipFailedOrigins[nodepath.RouteKey, nodepath.Route](failed), state.SkipRemovals))
}

// runPlans carries plans out.
func (r *Report) runPlans(ctx context.Context, plans ...state.Prepared) error {
	ready, err := state.CollectPlans(plans...)
	if err != nil {
		return err
	}
	r.Changes = append(r.Changes, changeLines(ready)...)
	r.Failures = append(r.Failures, state.Run(ctx, ready...)...)
	return nil
}

// onlyRemove keeps what goes: what comes has come, or failed to.
func onlyRemove[K state.Key[K], V state.Value[V]](changes []state.Change[K, V], _ state.Set[K, V]) []state.Change[K,
	V] {
	return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[K, V]) bool { return !c.IsRemoval() })
}

// failedOrigins are those of what failed.
func failedOrigins(failures []state.Failure) map[state.Ref]bool {
	out := map[state.Ref]bool{}
	for _, f := range failures {
		out[f.Origin] = true
	}
	return out
}

// skipFailedOrigins lets nothing come for networks that lack a link: rules that lead to the legs of a VRF that is not
// there make packets go round. And it lets nothing go, because the old way of such a network is better than none.
func skipFailedOrigins[K state.Key[K], V state.Value[V]](failed map[state.Ref]bool) state.Guard[K, V] {
	return func(changes []state.Change[K, V], _ state.Set[K, V]) []state.Change[K, V] {
		return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[K, V]) bool {
			return failed[c.Origin] || c.IsRemoval() && len(failed) > 0
		})
	}
}

// hasRemovals says whether something of a plan goes.
func hasRemovals(p state.Prepared) bool {
	return p.Err == nil && slices.ContainsFunc(p.ChangeLines(), func(l state.Line) bool { return l.Removes })
}

func changeLines(plans []state.Plan) (out []string) {
	for _, p := range plans {
		for _, l := range p.ChangeLines() {
			if !l.Held {
				out = append(out, l.Text)
			}
		}
	}
	return out
}

// countEntries counts what is wanted for each network.
func countEntries(k *nodepath.Kernel) map[string]int64 {
	out := map[string]int64{}
	countByOrigin(out, k.Links)
	countByOrigin(out, k.Rules)
	countByOrigin(out, k.Routes)
	countByOrigin(out, k.Nft)
	countByOrigin(out, k.Sysctls)
	return out
}

func countByOrigin[K state.Key[K], V state.Value[V]](into map[string]int64, set state.Set[K, V]) {
	for e := range maps.Values(set) {
		into[e.Origin.Name]++
	}
}

// describeFailures is the failures of a network, as a sentence.
func (r *Report) describeFailures(network string) string {
	var first state.Failure
	n := 0
	for _, f := range r.Failures {
		if f.Origin == nodepath.NetworkRef(network) {
			if n++; n == 1 {
				first = f
			}
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s: %v", first.Key, first.Err)
	default:
		return fmt.Sprintf("%s: %v, and %d more", first.Key, first.Err, n-1)
	}
}

// networkProblems are what keeps networks from working, by network.
func (r *Report) networkProblems() map[string]string {
	out := map[string]string{}
	for _, n := range r.Networks {
		if problem := n.Problem; problem != "" {
			out[n.Name] = problem
		} else if failed := r.describeFailures(n.Name); failed != "" {
			out[n.Name] = failed
		}
	}
	return out
}

// hasMissingInterface says whether a network's interface is not there or not ready.
func (r *Report) hasMissingInterface() bool {
	return slices.ContainsFunc(r.Networks, func(n nodepath.NetworkResult) bool { return n.Missing })
}
