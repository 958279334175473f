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

// Applier applies a NodePath in the network namespace in which it was created.
type Applier struct {
	kernel   *kernel.Kernel
	nft      *kernel.Nft
	stateDir string // stores the previous state
	namesDir string // names of routing tables; empty: none
}

// NewApplier returns an applier that stores the previous state of the node in a directory, and finds the kernel's
// settings as files below sysctl. It names routing tables in a directory that iproute2 reads, unless names is empty.
func NewApplier(dir, sysctl, names string) (*Applier, error) {
	k, err := kernel.OpenAt(sysctl)
	if err != nil {
		return nil, err
	}
	nft, err := kernel.OpenNft()
	if err != nil {
		return nil, err
	}
	return &Applier{k, nft, dir, names}, nil
}

// Close closes the connection to the kernel. The kernel state is kept.
func (c *Applier) Close() { c.kernel.Close() }

// Report is the result of a run.
type Report struct {
	Want     *nodepath.Kernel
	Networks []nodepath.NetworkResult
	Entries  map[string]int64 // by network
	Failures []state.Failure
	// Changes are the changes that were made, as lines of a plan.
	Changes []string
}

// Apply brings the kernel to the wanted state.
func (c *Applier) Apply(ctx context.Context, spec nodepath.Spec) (*Report, error) {
	node, err := c.kernel.ReadNode()
	if err != nil {
		return nil, err
	}
	want := nodepath.Compile(spec, node)
	out := &Report{Want: want, Networks: want.Networks, Entries: countEntries(want)}
	// Deletions run in reverse order. A sysctl keeps the addresses of an interface when it moves into a VRF, so
	// settings come before links. Routes need the interface in its VRF, and rules need the routes.
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
	// The kernel deletes the routes of an interface that moves into a VRF, and a new interface has its own sysctls, so
	// both are observed only now.
	err = out.runPlans(ctx,
		state.TryPreparePlan(ctx, settings, want.Sysctls,
			skipFailedOrigins[nodepath.SysctlKey, nodepath.Sysctl](failed)),
		state.TryPreparePlan(ctx, c.kernel.Routes(), want.Routes,
			skipFailedOrigins[nodepath.RouteKey, nodepath.Route](failed)),
		state.TryPreparePlan(ctx, c.nft, want.Nft, skipFailedOrigins[nodepath.NftKey, nodepath.NftValue](failed)),
		state.TryPreparePlan(ctx, c.kernel.Rules(), want.Rules,
			skipFailedOrigins[nodepath.RuleKey, nodepath.Rule](failed)),
	)
	if err != nil || c.namesDir == "" {
		return out, err
	}
	return out, out.runPlans(ctx, state.TryPreparePlan(ctx, kernel.NewTableNames(c.namesDir), want.TableNames,
		skipFailedOrigins[nodepath.TableID, nodepath.TableName](failed)))
}

// removeLinks deletes unwanted links and takes interfaces out of VRFs. Before that it adds the nftables entries and
// rules for the new path. Right after, it restores routes through such an interface, which the kernel deletes:
// connections are interrupted in between.
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

func (r *Report) runPlans(ctx context.Context, plans ...state.Prepared) error {
	ready, err := state.CollectPlans(plans...)
	if err != nil {
		return err
	}
	r.Changes = append(r.Changes, changeLines(ready)...)
	r.Failures = append(r.Failures, state.Run(ctx, ready...)...)
	return nil
}

// onlyRemove keeps removals only: additions were already tried.
func onlyRemove[K state.Key[K], V state.Value[V]](changes []state.Change[K, V], _ state.Set[K, V]) []state.Change[K,
	V] {
	return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[K, V]) bool { return !c.IsRemoval() })
}

func failedOrigins(failures []state.Failure) map[state.Ref]bool {
	out := map[state.Ref]bool{}
	for _, f := range failures {
		out[f.Origin] = true
	}
	return out
}

// skipFailedOrigins adds nothing for networks that lack a link: rules that point to the veth pair of a missing VRF
// would create a loop. It also removes nothing, because the old path of such a network is better than none.
func skipFailedOrigins[K state.Key[K], V state.Value[V]](failed map[state.Ref]bool) state.Guard[K, V] {
	return func(changes []state.Change[K, V], _ state.Set[K, V]) []state.Change[K, V] {
		return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[K, V]) bool {
			return failed[c.Origin] || c.IsRemoval() && len(failed) > 0
		})
	}
}

// hasRemovals reports whether a plan removes something.
func hasRemovals(p state.Prepared) bool {
	return p.Err == nil && slices.ContainsFunc(p.ChangeKeys(), func(l state.Line) bool { return l.Removes })
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

// countEntries counts the wanted entries of each network.
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

// describeFailures summarizes the failures of a network.
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

// networkProblems returns the problem of each network that does not work.
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

// hasMissingInterface reports whether the interface of a network is missing or not ready.
func (r *Report) hasMissingInterface() bool {
	return slices.ContainsFunc(r.Networks, func(n nodepath.NetworkResult) bool { return n.Missing })
}
