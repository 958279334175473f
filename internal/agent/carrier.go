package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/internal/kernel"
	"github.com/sallyport/sallyport/internal/nodepath"
	"github.com/sallyport/sallyport/internal/state"
)

// Carrier carries out what a NodePath asks for, in the network namespace in which it was made.
type Carrier struct {
	kernel *kernel.Kernel
	nft    *kernel.Nft
	dir    string // where is written down what was there before
}

// NewCarrier is a carrier that writes down in a directory what was there before, and finds the kernel's settings as files below sysctl.
func NewCarrier(dir, sysctl string) (*Carrier, error) {
	k, err := kernel.OpenAt(sysctl)
	if err != nil {
		return nil, err
	}
	nft, err := kernel.OpenNft()
	if err != nil {
		return nil, err
	}
	return &Carrier{k, nft, dir}, nil
}

// Close ends the connection to the kernel. What it holds stays.
func (c *Carrier) Close() { c.kernel.Close() }

// Report is how the kernel is doing.
type Report struct {
	Want     *nodepath.Kernel
	Networks []nodepath.Network
	Entries  map[string]int64 // by network
	Failures []state.Failure
	// Changes are what had to be done, as lines of a plan.
	Changes []string
}

// Carry brings the kernel to what is asked for.
func (c *Carrier) Carry(ctx context.Context, spec nodepath.Spec) (*Report, error) {
	node, err := c.kernel.Node()
	if err != nil {
		return nil, err
	}
	want := nodepath.Compile(spec, node)
	out := &Report{Want: want, Networks: want.Networks, Entries: entries(want)}
	// What is made first goes last. An interface keeps its addresses in a VRF by a setting, has its routes there, and rules lead to them.
	settings := c.kernel.Settings(c.dir, want.Settings)
	links := state.Try(ctx, c.kernel.Links(c.dir), want.Links, state.OnlyGrow)
	if err := out.run(ctx, state.Try(ctx, settings, settings.Known(want.Settings), state.OnlyGrow), links); err != nil {
		return nil, err
	}
	failed := origins(out.Failures)
	if shrinks(links) {
		if err := c.unlink(ctx, out, failed); err != nil {
			return nil, err
		}
	}
	// Routes go with the interface that is put into a VRF, and settings come with one that is made, so they are looked at only now.
	err = out.run(ctx,
		state.Try(ctx, settings, want.Settings, without[nodepath.SettingKey, nodepath.Setting](failed)),
		state.Try(ctx, c.kernel.Routes(), want.Routes, without[nodepath.RouteKey, nodepath.Route](failed)),
		state.Try(ctx, c.nft, want.Nft, without[nodepath.NftKey, nodepath.NftValue](failed)),
		state.Try(ctx, c.kernel.Rules(), want.Rules, without[nodepath.RuleKey, nodepath.Rule](failed)),
	)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// unlink takes away links that are not wanted any more, and interfaces out of VRFs. What leads packets the new way comes before that, and
// routes by such an interface, which the kernel takes away with it, come at once after: in between, connections are interrupted.
func (c *Carrier) unlink(ctx context.Context, out *Report, failed map[state.Ref]bool) error {
	err := out.run(ctx,
		state.Try(ctx, c.nft, out.Want.Nft, without[nodepath.NftKey, nodepath.NftValue](failed), state.OnlyGrow),
		state.Try(ctx, c.kernel.Rules(), out.Want.Rules, without[nodepath.RuleKey, nodepath.Rule](failed), state.OnlyGrow),
		state.Try(ctx, c.kernel.Links(c.dir), out.Want.Links, onlyShrink),
	)
	if err != nil {
		return err
	}
	return out.run(ctx, state.Try(ctx, c.kernel.Routes(), out.Want.Routes, without[nodepath.RouteKey, nodepath.Route](failed), state.OnlyGrow))
}

// run carries plans out.
func (r *Report) run(ctx context.Context, plans ...state.Prepared) error {
	ready, err := state.All(plans...)
	if err != nil {
		return err
	}
	r.Changes = append(r.Changes, lines(ready)...)
	r.Failures = append(r.Failures, state.Run(ctx, ready...)...)
	return nil
}

// onlyShrink keeps what goes: what comes has come, or failed to.
func onlyShrink[K state.Key[K], V state.Value[V]](changes []state.Change[K, V], _ state.Set[K, V]) []state.Change[K, V] {
	return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[K, V]) bool { return !c.Removes() })
}

// origins are those of what failed.
func origins(failures []state.Failure) map[state.Ref]bool {
	out := map[state.Ref]bool{}
	for _, f := range failures {
		out[f.Origin] = true
	}
	return out
}

// without lets nothing come for networks that lack a link: rules that lead to the legs of a VRF that is not there make packets go round. And
// it lets nothing go, because the old way of such a network is better than none.
func without[K state.Key[K], V state.Value[V]](failed map[state.Ref]bool) state.Guard[K, V] {
	return func(changes []state.Change[K, V], _ state.Set[K, V]) []state.Change[K, V] {
		return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[K, V]) bool {
			return failed[c.Origin] || c.Removes() && len(failed) > 0
		})
	}
}

// shrinks says whether something of a plan goes.
func shrinks(p state.Prepared) bool {
	return p.Err == nil && slices.ContainsFunc(p.Changes(), func(l state.Line) bool { return l.Removes })
}

func lines(plans []state.Plan) (out []string) {
	for _, p := range plans {
		for _, l := range p.Changes() {
			if !l.Held {
				out = append(out, l.Text)
			}
		}
	}
	return out
}

// entries counts what is wanted for each network.
func entries(k *nodepath.Kernel) map[string]int64 {
	out := map[string]int64{}
	count(out, k.Links)
	count(out, k.Rules)
	count(out, k.Routes)
	count(out, k.Nft)
	count(out, k.Settings)
	return out
}

func count[K state.Key[K], V state.Value[V]](into map[string]int64, set state.Set[K, V]) {
	for e := range maps.Values(set) {
		into[e.Origin.Name]++
	}
}

// failed is the failures of a network, as a sentence.
func (r *Report) failed(network string) string {
	var first state.Failure
	n := 0
	for _, f := range r.Failures {
		if f.Origin == nodepath.Ref(network) {
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

// problems are what keeps networks from working, by network.
func (r *Report) problems() map[string]string {
	out := map[string]string{}
	for _, n := range r.Networks {
		if problem := n.Problem; problem != "" {
			out[n.Name] = problem
		} else if failed := r.failed(n.Name); failed != "" {
			out[n.Name] = failed
		}
	}
	return out
}

// missing says whether a network's interface is not there or not ready.
func (r *Report) missing() bool {
	return slices.ContainsFunc(r.Networks, func(n nodepath.Network) bool { return n.Missing })
}
