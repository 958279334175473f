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

// sharedLists are the lists in the spec of a Vpc that we share with others. The API server treats each as one value, so
// a single entry cannot be applied.
var sharedLists = []intent.VpcList{intent.ExternalSubnets, intent.StaticRoutes, intent.PolicyRoutes}

// VpcEntries is the target for our entries in the lists of one Vpc.
type VpcEntries struct {
	cluster *Cluster
	vpc     string
	// attachedSubnets are the external subnets that we connect to and disconnect from the Vpc.
	attachedSubnets map[string]bool
}

// NewVpcEntries returns the target for our entries of a Vpc.
func NewVpcEntries(c *Cluster, vpc string, attached map[string]bool) *VpcEntries {
	return &VpcEntries{cluster: c, vpc: vpc, attachedSubnets: attached}
}

// Scope describes which entries are ours.
func (t *VpcEntries) Scope() string {
	return fmt.Sprintf("router policies in our priority bands, default routes and external subnets of Vpc %s", t.vpc)
}

// Observe returns our entries. A Vpc that does not exist has none.
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

// ownEntries returns our entries of a spec.
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
		if t.vpc != kubeovn.ManagementVpc { // in the management VPC, the operator sets the default route
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

// listEntry is an entry with its unique ID in the list. An entry that is not ours has no ID.
type listEntry struct{ id, content string }

// addEntry adds an entry. Two entries with the same ID are never wanted, so the observed content shows both.
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

// routeEntry recognizes default routes of the main table. Kube-OVN writes every field of a route, even empty ones, and
// sets the policy; the normal form omits empty fields and always has the policy.
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

// policyEntry returns a policy without the fields that Kube-OVN fills in.
func policyEntry(p kubeovn.PolicyRoute) listEntry {
	element := map[string]any{"priority": p.Priority, "match": p.Match, "action": p.Action}
	if p.NextHopIP != "" {
		element["nextHopIP"] = p.NextHopIP
	}
	return listEntry{strconv.Itoa(p.Priority) + " " + p.Match, intent.CanonicalJSON(element)}
}

// parseEntry parses an entry as the API server returns it.
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
