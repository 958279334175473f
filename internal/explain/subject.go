package explain

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// Subject is what somebody asks about: an object, or an address.
type Subject struct {
	Object  state.Ref
	Address netip.Addr
}

// main is the object that a subject is about; nobody: nobody has the address.
func (q Subject) main(s *survey.Survey) (state.Ref, *Whose) {
	if !q.Address.IsValid() {
		return q.Object, nil
	}
	w := Find(s, q.Address)
	if len(w.Holders) == 0 {
		return none, &w
	}
	return w.main(), &w
}

// Explain explains it, given what is wrong with the cluster.
func (q Subject) Explain(s *survey.Survey, findings []diagnosis.Finding) Explanation {
	ref, whose := q.main(s)
	if ref == none {
		return nobodys(s, *whose, findings)
	}
	x := object(s, ref, findings)
	x.Whose = whose
	return x
}

// Shards are those that decide about it.
func (q Subject) Shards(s *survey.Survey) []string {
	var out []string
	q.each(s, func(r state.Ref) {
		switch {
		case r.Kind == string(intent.NodePath):
			out = append(out, ownership.NodesShard)
		case r.Kind == survey.RouterKind && (s.Cluster.ProjectOf(r.Name) != nil || r.Name == kubeovn.ManagementVpc || r.Name == ownership.EgressVpc):
			out = append(out, r.Name)
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// Nodes are those on its way.
func (q Subject) Nodes(s *survey.Survey) []string {
	var out []string
	q.each(s, func(r state.Ref) {
		if r.Kind == survey.NodeKind {
			out = append(out, r.Name)
		}
	})
	return out
}

// each does something with everything that it hangs on.
func (q Subject) each(s *survey.Survey, do func(state.Ref)) {
	if ref, _ := q.main(s); ref != none {
		for _, r := range s.HangsOn(ref) {
			do(r)
		}
	}
}

// Unknown explains something of which nothing is known, because Kubernetes could not be read.
func Unknown(s *survey.Survey, text string, findings []diagnosis.Finding) Explanation {
	x := Explanation{About: state.Ref{Kind: "Object", Name: text}, State: "is not known: Kubernetes could not be read", Wrong: diagnosis.Touching(findings)}
	for _, u := range s.Unread {
		x.Unread = append(x.Unread, Fact{u.System, u.Problem})
	}
	return x
}
