package compile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/show"
)

// FuzzShard looks for a snapshot that violates an invariant of compile.
func FuzzShard(f *testing.F) {
	chance := rand.New(rand.NewPCG(3, 4))
	for size := 0; size < 4000; size += show.ChooseSize(1, 4) {
		seed := make([]byte, size/8)
		for i := range seed {
			seed[i] = byte(chance.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		d := &fuzzInput{bytes}
		p := &invariants{T: t, w: randomWorld(d)}
		p.out, p.verdicts = Shard(p.w)
		p.checkPure(bytes)
		p.checkEveryStep()
		p.checkSettles()
		p.checkMemo(d)
		p.checkRecovers(d)
	})
}

// invariants hold for any snapshot.
type invariants struct {
	*testing.T
	w        *snapshot.VpcInput
	out      *intent.Intent
	verdicts []intent.Verdict
}

// resolveEmitsNothing: the first stage decides, and only the second adds to the intent.
func (p *invariants) resolveEmitsNothing() {
	c := newCompiler(p.w)
	if c.resolve(); !reflect.DeepEqual(c.out, intent.New()) {
		p.Errorf("resolve adds to the intent: %+v", c.out)
	}
}

// checkEveryStep checks the invariants that hold at every step.
func (p *invariants) checkEveryStep() {
	p.resolveEmitsNothing()
	p.keysHaveOneOrigin()
	p.originsAreOurs()
	p.translationsAreUnique()
	p.nothingDangles()
	p.finalizersHold()
	p.policiesAreOurs()
	p.noSetIsNegated()
	p.verdictsAreComplete()
	p.readyIsWanted()
	p.portsAreGiven()
	p.statusesAreTrue()
}

// checkPure checks that the same snapshot gives the same result in any order of its lists, and is not modified.
func (p *invariants) checkPure(bytes []byte) {
	again := randomWorld(&fuzzInput{bytes})
	if !reflect.DeepEqual(p.w, again) {
		p.Errorf("the world was changed: %+v, before %+v", p.w, again)
	}
	slices.Reverse(again.Projects)
	slices.Reverse(again.ExternalSubnets)
	slices.Reverse(again.EIps)
	slices.Reverse(again.FIps)
	if in, verdicts := Shard(again); !reflect.DeepEqual(in, p.out) || !reflect.DeepEqual(verdicts, p.verdicts) {
		p.Errorf("in another order of lists it gives something else:\n%+v %+v\n%+v %+v", p.out, p.verdicts, in, verdicts)
	}
}

func (p *invariants) keysHaveOneOrigin() {
	if err := p.out.Err(); err != nil {
		p.Error(err)
	}
}

// objectRefs returns the API objects of the shard.
func objectRefs(w *snapshot.VpcInput) map[state.Ref]bool {
	out := map[state.Ref]bool{}
	for _, o := range w.Projects {
		out[state.Ref{Kind: "Project", Namespace: o.Namespace, Name: o.Name}] = true
	}
	for _, o := range w.EIps {
		out[state.Ref{Kind: "EIp", Namespace: o.Namespace, Name: o.Name}] = true
	}
	for _, o := range w.FIps {
		out[state.Ref{Kind: "FIp", Namespace: o.Namespace, Name: o.Name}] = true
	}
	for _, o := range w.EgressServices {
		out[state.Ref{Kind: "EgressService", Namespace: o.Namespace, Name: o.Name}] = true
	}
	for _, o := range w.EgressRoutes {
		out[state.Ref{Kind: "EgressRoute", Namespace: o.Namespace, Name: o.Name}] = true
	}
	for _, o := range w.Services {
		out[state.Ref{Kind: "Service", Namespace: o.Namespace, Name: o.Name}] = true
	}
	return out
}

func (p *invariants) originsAreOurs() {
	known := objectRefs(p.w)
	origins := map[string]state.Ref{}
	for key, entry := range p.out.Objects {
		origins[key.String()] = entry.Origin
	}
	for key, entry := range p.out.VpcEntries {
		origins[key.String()] = entry.Origin
	}
	for key, entry := range p.out.Rows {
		lent := entry.Origin.Kind == "OvnFip" && p.w.Engine.OvnFips[entry.Origin.Name].Deleting || entry.Origin.Kind == "OvnSnatRule" && p.w.Engine.SnatRule.Deleting
		if !lent { // a row that is restored only to be deleted
			origins[key.String()] = entry.Origin
		}
	}
	for key := range p.out.Finalizers {
		origins["finalizer of "+key.String()] = key.Ref()
	}
	for _, x := range p.w.ExternalSubnets {
		known[state.Ref{Kind: "ReturnPath", Namespace: p.w.Shard, Name: x.Subnet}] = true
	}
	known[state.Ref{Kind: "ReturnPath", Namespace: p.w.Shard, Name: "turn"}] = true
	known[state.Ref{Kind: "LoadBalancer", Namespace: p.w.Shard, Name: "shared"}] = true
	for _, s := range p.w.Selections {
		known[selectionRef(s)] = true
	}
	for what, by := range origins {
		if !known[by] {
			p.Errorf("%s is wanted by %s, which does not exist", what, by)
		}
	}
}

// translationsAreUnique checks that no two translations conflict: of two on the same network OVN would use one, and it
// is undefined which.
func (p *invariants) translationsAreUnique() {
	logical := map[string]state.Ref{}
	for _, entry := range p.out.Rows { // rows are keyed by external address
		nat, is := entry.Value.(intent.DNATAndSNAT)
		if !is || entry.Origin.Kind == "OvnFip" {
			continue
		}
		what := nat.Logical.String() + " on " + p.networkOf(nat.External)
		if other, taken := logical[what]; taken {
			p.Errorf("%s and %s both translate to %s", other, entry.Origin, what)
		}
		logical[what] = entry.Origin
	}
	used := map[string]intent.ObjectKey{}
	for key, entry := range p.out.Objects {
		if key.Kind != intent.OvnFip {
			continue
		}
		spec := decodeSpec[kubeovn.OvnFipSpec](entry.Value)
		if other, taken := used[spec.OvnEip]; taken {
			p.Errorf("%s and %s both have %s", other, key, spec.OvnEip)
		}
		used[spec.OvnEip] = key
	}
}

// networkOf returns the external subnet that an address is on.
func (p *invariants) networkOf(a netip.Addr) string {
	for _, x := range p.w.ExternalSubnets {
		if x.Prefix.Contains(a) {
			return x.Subnet
		}
	}
	return ""
}

// nothingDangles checks that everything an object depends on is in the intent, too.
func (p *invariants) nothingDangles() {
	needs := func(by fmt.Stringer, kind intent.Kind, name string) {
		if _, wanted := p.out.Objects[intent.ObjectKey{Kind: kind, Name: name}]; !wanted {
			p.Errorf("%s is wanted and %s %s is not", by, kind, name)
		}
	}
	for key, entry := range p.out.Objects {
		switch key.Kind { // the namespace and addresses outlive a VPC that is recreated
		case intent.Subnet, intent.OvnFip, intent.OvnSnatRule:
			needs(key, intent.Vpc, testShard)
		}
		switch key.Kind {
		case intent.OvnFip:
			needs(key, intent.OvnEip, decodeSpec[kubeovn.OvnFipSpec](entry.Value).OvnEip)
		case intent.OvnSnatRule:
			needs(key, intent.OvnEip, decodeSpec[kubeovn.OvnSnatRuleSpec](entry.Value).OvnEip)
			if p.w.Engine.Subnet.Exists { // otherwise it is recreated when Kube-OVN has removed the old one
				needs(key, intent.Subnet, testShard+"-default")
			}
		}
	}
	for key := range p.out.VpcEntries {
		needs(key, intent.Vpc, key.Vpc)
		if key.List == intent.ExternalSubnets {
			needs(key, intent.OvnEip, testShard+"-"+key.ID)
		}
	}
}
