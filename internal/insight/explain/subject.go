package explain

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Subject is the subject of an explanation: an object, or an address.
type Subject struct {
	Object  state.Ref
	Address netip.Addr
}

// mainObject returns the object to explain and, for an address, its owners. It returns noRef for an address without
// owners.
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

// Explain explains the subject, given all findings of the cluster.
func (q Subject) Explain(s *clusterstate.State, findings []diagnosis.Finding) Explanation {
	ref, whose := q.mainObject(s)
	if ref == noRef {
		return explainUnusedAddress(s, *whose, findings)
	}
	x := explainObject(s, ref, findings)
	x.AddressOwners = whose
	return x
}

// Shards returns the shards that the subject depends on.
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

// Nodes returns the nodes on the path of the subject.
func (q Subject) Nodes(s *clusterstate.State) []string {
	var out []string
	q.visitDependencies(s, func(r state.Ref) {
		if r.Kind == clusterstate.NodeKind {
			out = append(out, r.Name)
		}
	})
	return out
}

// Paths returns the paths of the connections that the subject is for, to every backend. Those of UDP and ICMP are left
// out: programs receive the datagrams of questions, and many pods do not answer pings on purpose.
func (q Subject) Paths(s *clusterstate.State) (out []trace.Path) {
	ref, _ := q.mainObject(s)
	if ref == noRef {
		return nil
	}
	t := trace.New(s)
	for _, query := range limitQueries(t.ExampleQueries(ref)) {
		if query.Protocol == "tcp" || query.Protocol == "sctp" {
			out = append(out, t.Trace(query).Paths...)
		}
	}
	return out
}

// visitDependencies calls do for everything that the subject depends on.
func (q Subject) visitDependencies(s *clusterstate.State, do func(state.Ref)) {
	if ref, _ := q.mainObject(s); ref != noRef {
		for _, r := range s.DependenciesOf(ref) {
			do(r)
		}
	}
}

// Unknown returns the explanation of a subject that cannot be resolved, because Kubernetes could not be read.
func Unknown(s *clusterstate.State, text string, findings []diagnosis.Finding) Explanation {
	x := Explanation{
		About:    state.Ref{Kind: "Object", Name: text},
		State:    "is unknown: Kubernetes could not be read",
		Findings: diagnosis.FilterByRefs(findings),
	}
	for _, u := range s.Unread {
		x.ReadFailures = append(x.ReadFailures, Fact{u.System, u.Problem})
	}
	return x
}
