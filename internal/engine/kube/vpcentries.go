package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// sharedLists are the lists of a Vpc's spec that we share with others. To the API server each is one value: there is no
// way to apply an element.
var sharedLists = []intent.VpcList{intent.ExternalSubnets, intent.StaticRoutes, intent.PolicyRoutes}

// VpcEntries is our elements of the lists of one Vpc.
type VpcEntries struct {
	cluster *Cluster
	vpc     string
	// attachedSubnets are the external subnets whose connection to the Vpc is ours to make and to end.
	attachedSubnets map[string]bool
}

// NewVpcEntries is our elements of a Vpc.
func NewVpcEntries(c *Cluster, vpc string, attached map[string]bool) *VpcEntries {
	return &VpcEntries{cluster: c, vpc: vpc, attachedSubnets: attached}
}

// Scope is which elements are ours.
func (t *VpcEntries) Scope() string {
	return fmt.Sprintf("policies in our priority bands, default routes and external networks of Vpc %s", t.vpc)
}

// Observe returns our elements. A Vpc that does not exist has none.
func (t *VpcEntries) Observe(ctx context.Context) (intent.VpcEntries, error) {
	object, err := t.cluster.readObject(ctx, intent.ObjectKey{Kind: intent.Vpc, Name: t.vpc})
	if apierrors.IsNotFound(err) {
		return intent.VpcEntries{}, nil
	}
	if err != nil {
		return nil, err
	}
	return t.ownEntries(object.(*Vpc).Spec), nil
}

// ownEntries is our elements of a spec.
func (t *VpcEntries) ownEntries(spec kubeovn.VpcSpec) intent.VpcEntries {
	set := intent.VpcEntries{}
	for _, subnet := range spec.ExtraExternalSubnets {
		if t.attachedSubnets[subnet] {
			t.addEntry(set, intent.ExternalSubnets, subnetEntry(subnet))
		}
	}
	if key, connected := intent.EnableExternalEntry(t.vpc); spec.EnableExternal && len(t.attachedSubnets) > 0 {
		set[key] = state.Entry[intent.VpcEntry]{Value: connected}
	}
	for _, route := range spec.StaticRoutes {
		if t.vpc != kubeovn.ManagementVpc { // there the operator has the default route
			t.addEntry(set, intent.StaticRoutes, routeEntry(route))
		}
	}
	for _, policy := range spec.PolicyRoutes {
		if ownership.IsOwnPriority(t.vpc, policy.Priority) {
			t.addEntry(set, intent.PolicyRoutes, policyEntry(policy))
		}
	}
	return set
}

// listEntry is an element with what makes it unique in its list. It has no id when it is not ours.
type listEntry struct{ id, content string }

// addEntry adds an element. Two with one id are something else than what anybody can want, so both are shown.
func (t *VpcEntries) addEntry(set intent.VpcEntries, list intent.VpcList, e listEntry) {
	if e.id == "" {
		return
	}
	key := intent.VpcEntryKey{Vpc: t.vpc, List: list, ID: e.id}
	if other, twice := set[key]; twice {
		e.content = other.Value.Content + " and " + e.content
	}
	set[key] = state.Entry[intent.VpcEntry]{Value: intent.VpcEntry{Content: e.content}}
}

func subnetEntry(subnet string) listEntry { return listEntry{subnet, intent.CanonicalJSON(subnet)} }

// routeEntry knows default routes of the main table. Kube-OVN writes every field of a route, also the empty ones, and
// fills in the policy: the normal form has neither.
func routeEntry(r kubeovn.StaticRoute) listEntry {
	prefix, err := netip.ParsePrefix(r.CIDR)
	if err != nil || prefix.Bits() != 0 || r.RouteTable != "" {
		return listEntry{}
	}
	if r.Policy == "" {
		r.Policy = "policyDst"
	}
	r.CIDR = prefix.String()
	return listEntry{r.CIDR, intent.CanonicalJSON(r)}
}

// policyEntry is a policy without what Kube-OVN fills in.
func policyEntry(p kubeovn.PolicyRoute) listEntry {
	element := map[string]any{"priority": p.Priority, "match": p.Match, "action": p.Action}
	if p.NextHopIP != "" {
		element["nextHopIP"] = p.NextHopIP
	}
	return listEntry{strconv.Itoa(p.Priority) + " " + p.Match, intent.CanonicalJSON(element)}
}

// parseEntry is an element as the API server has it.
func parseEntry(list intent.VpcList, item any) (listEntry, error) {
	raw, err := json.Marshal(item)
	if err != nil {
		return listEntry{}, err
	}
	switch list {
	case intent.StaticRoutes:
		return decodeEntry(raw, routeEntry)
	case intent.PolicyRoutes:
		return decodeEntry(raw, policyEntry)
	default:
		return decodeEntry(raw, subnetEntry)
	}
}

func decodeEntry[V any](raw []byte, element func(V) listEntry) (listEntry, error) {
	var v V
	err := json.Unmarshal(raw, &v)
	return element(v), err
}
