package adoption

import (
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
)

// CheckPreview adds to the problems what the controller would do to existing traffic, and returns the rows of OVN and the
// entries of the Vpc that it would write. The preview is the compiled VPC with everything offered.
func (p *Plan) CheckPreview(s clusterstate.Shard) (changes []string) {
	if len(p.Problems) > 0 {
		return nil
	}
	if s.Problem != "" {
		p.Problems = append(p.Problems, "what the controller would write is not known: "+s.Problem)
	}
	offered := map[string]bool{}
	for _, o := range p.Offers {
		offered[intent.ObjectKey{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}.String()] = true
	}
	asked := p.askedObjects()
	for _, v := range s.Verdicts {
		for _, f := range []intent.Finding{v.Accepted, v.Resolved} {
			if !f.OK() && asked[v.Object.String()] {
				p.Problems = append(p.Problems, v.Object.String()+" would not work: "+f.Reason+": "+f.Message)
			}
		}
	}
	for _, d := range s.Differs {
		switch {
		case isObjectScope(d.Scope) && (offered[d.Key] || strings.HasPrefix(d.Text, "+")):
		case isObjectScope(d.Scope), strings.Contains(d.Text, " NAT ") && !strings.HasPrefix(d.Text, "+"):
			p.Problems = append(p.Problems, "the controller would interrupt traffic: "+d.Text)
		default:
			changes = append(changes, d.Text)
		}
	}
	return changes
}

// isObjectScope reports whether a target is that of Kubernetes objects.
func isObjectScope(scope string) bool { return strings.HasPrefix(scope, "objects ") }

// askedObjects returns the Project, EIps and FIps that own what is taken over.
func (p *Plan) askedObjects() map[string]bool {
	out := map[string]bool{}
	for _, o := range p.Offers {
		key := intent.ObjectKey{Kind: intent.Kind(o.Origin.Kind), Namespace: o.Origin.Namespace, Name: o.Origin.Name}
		out[key.String()] = true
	}
	return out
}
