package explain

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Subject is what somebody asks about: an object, or an address.
type Subject struct {
	Object  state.Ref
	Address netip.Addr
}

// mainObject is the object that a subject is about; nobody: nobody has the address.
func (q Subject) mainObject(s *clusterstate.State) (state.Ref, *AddressOwners) {
	if !q.Address.IsValid() {
		return q.Object, nil
	}
	w := FindAddressOwners(s, q.Address)
	if len(w.Owners) == 0 {
		return noRef, &w
	}
	return w.primaryOwner(), &w
}

// Explain explains it, given what is wrong with the cluster.
func (q Subject) Explain(s *clusterstate.State, findings []diagnosis.Finding) Explanation {
	ref, whose := q.mainObject(s)
	if ref == noRef {
		return explainUnusedAddress(s, *whose, findings)
	}
	x := explainObject(s, ref, findings)
	x.AddressOwners = whose
	return x
}

// Shards are those that decide about it.
func (q Subject) Shards(s *clusterstate.State) []string {
	var out []string
	q.visitDependencies(s, func(r state.Ref) {
		switch {
		case r.Kind == string(intent.NodePath):
			out = append(out, ownership.NodesShard)
		case r.Kind == clusterstate.RouterKind && (s.Cluster.ProjectOfShard(r.Name) != nil ||
			r.Name == kubeovn.ManagementVpc || r.Name == ownership.EgressVpc):
			out = append(out, r.Name)
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// Nodes are those on its way.
func (q Subject) Nodes(s *clusterstate.State) []string {
	var out []string
	q.visitDependencies(s, func(r state.Ref) {
		if r.Kind == clusterstate.NodeKind {
			out = append(out, r.Name)
		}
	})
	return out
}

// visitDependencies does something with everything that it hangs on.
func (q Subject) visitDependencies(s *clusterstate.State, do func(state.Ref)) {
	if ref, _ := q.mainObject(s); ref != noRef {
		for _, r := range s.DependenciesOf(ref) {
			do(r)
		}
	}
}

// Unknown explains something of which nothing is known, because Kubernetes could not be read.
func Unknown(s *clusterstate.State, text string, findings []diagnosis.Finding) Explanation {
	x := Explanation{
		About:    state.Ref{Kind: "Object", Name: text},
		State:    "is not known: Kubernetes could not be read",
		Findings: diagnosis.FilterByRefs(findings),
	}
	for _, u := range s.Unread {
		x.ReadFailures = append(x.ReadFailures, Fact{u.System, u.Problem})
	}
	return x
}
