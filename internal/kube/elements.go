package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
)

// lists are the lists of a Vpc's spec that we share with others. To the API server each is one value: there is no way to
// apply an element.
var lists = []intent.List{intent.ExternalSubnets, intent.StaticRoutes, intent.PolicyRoutes}

// Elements is our elements of the lists of one Vpc.
type Elements struct {
	cluster *Cluster
	vpc     string
	// attached are the external subnets whose connection to the Vpc is ours to make and to end.
	attached map[string]bool
}

// NewElements is our elements of a Vpc.
func NewElements(c *Cluster, vpc string, attached map[string]bool) *Elements {
	return &Elements{cluster: c, vpc: vpc, attached: attached}
}

// Scope is which elements are ours.
func (t *Elements) Scope() string {
	return fmt.Sprintf("policies in our priority bands, default routes and external networks of Vpc %s", t.vpc)
}

// Observe returns our elements. A Vpc that does not exist has none.
func (t *Elements) Observe(ctx context.Context) (intent.Elements, error) {
	object, err := t.cluster.read(ctx, intent.ObjectKey{Kind: intent.Vpc, Name: t.vpc})
	if apierrors.IsNotFound(err) {
		return intent.Elements{}, nil
	}
	if err != nil {
		return nil, err
	}
	return t.of(object.(*Vpc).Spec), nil
}

// of is our elements of a spec.
func (t *Elements) of(spec kubeovn.VpcSpec) intent.Elements {
	set := intent.Elements{}
	for _, subnet := range spec.ExtraExternalSubnets {
		if t.attached[subnet] {
			t.add(set, intent.ExternalSubnets, attachedElement(subnet))
		}
	}
	if key, connected := intent.Connected(t.vpc); spec.EnableExternal && len(t.attached) > 0 {
		set[key] = state.Entry[intent.Element]{Value: connected}
	}
	for _, route := range spec.StaticRoutes {
		if t.vpc != kubeovn.ManagementVpc { // there the operator has the default route
			t.add(set, intent.StaticRoutes, routeElement(route))
		}
	}
	for _, policy := range spec.PolicyRoutes {
		if ownership.Priority(t.vpc, policy.Priority) {
			t.add(set, intent.PolicyRoutes, policyElement(policy))
		}
	}
	return set
}

// named is an element with what makes it unique in its list. It has no id when it is not ours.
type named struct{ id, content string }

// add adds an element. Two with one id are something else than what anybody can want, so both are shown.
func (t *Elements) add(set intent.Elements, list intent.List, e named) {
	if e.id == "" {
		return
	}
	key := intent.ElementKey{Vpc: t.vpc, List: list, ID: e.id}
	if other, twice := set[key]; twice {
		e.content = other.Value.Content + " and " + e.content
	}
	set[key] = state.Entry[intent.Element]{Value: intent.Element{Content: e.content}}
}

func attachedElement(subnet string) named { return named{subnet, intent.Canonical(subnet)} }

// routeElement knows default routes of the main table. Kube-OVN writes every field of a route, also the empty ones, and fills
// in the policy: the normal form has neither.
func routeElement(r kubeovn.StaticRoute) named {
	prefix, err := netip.ParsePrefix(r.CIDR)
	if err != nil || prefix.Bits() != 0 || r.RouteTable != "" {
		return named{}
	}
	if r.Policy == "" {
		r.Policy = "policyDst"
	}
	r.CIDR = prefix.String()
	return named{r.CIDR, intent.Canonical(r)}
}

// policyElement is a policy without what Kube-OVN fills in.
func policyElement(p kubeovn.PolicyRoute) named {
	element := map[string]any{"priority": p.Priority, "match": p.Match, "action": p.Action}
	if p.NextHopIP != "" {
		element["nextHopIP"] = p.NextHopIP
	}
	return named{strconv.Itoa(p.Priority) + " " + p.Match, intent.Canonical(element)}
}

// elementOf is an element as the API server has it.
func elementOf(list intent.List, item any) (named, error) {
	raw, err := json.Marshal(item)
	if err != nil {
		return named{}, err
	}
	switch list {
	case intent.StaticRoutes:
		return decoded(raw, routeElement)
	case intent.PolicyRoutes:
		return decoded(raw, policyElement)
	default:
		return decoded(raw, attachedElement)
	}
}

func decoded[V any](raw []byte, element func(V) named) (named, error) {
	var v V
	err := json.Unmarshal(raw, &v)
	return element(v), err
}
