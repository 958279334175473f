// Package adoption is the decision which objects that others created a Project can take over, and what that changes.
//
// An object is taken over only if it stays exactly as it is: same name, address and translation. Everything else stays
// untouched, with a reason.
package adoption

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Object is an object of Kube-OVN, or a namespace.
type Object[S, T any] struct {
	Name string
	// Owner is the VPC for which Sallyport manages the object; empty: others do.
	Owner    string
	Deleting bool
	// ByKubeOVN: Kube-OVN created this Vpc for a router that it does not know.
	ByKubeOVN bool
	Origin    state.Ref
	Spec      S
	Status    T
}

// Cluster is what exists.
type Cluster struct {
	Vpcs       []Object[kubeovn.VpcSpec, kubeovn.VpcStatus]
	Subnets    []Object[kubeovn.SubnetSpec, kubeovn.SubnetStatus]
	OvnEips    []Object[kubeovn.OvnEipSpec, kubeovn.OvnEipStatus]
	OvnFips    []Object[kubeovn.OvnFipSpec, kubeovn.OvnFipStatus]
	SnatRules  []Object[kubeovn.OvnSnatRuleSpec, kubeovn.OvnSnatRuleStatus]
	DnatRules  []Object[kubeovn.OvnDnatRuleSpec, kubeovn.OvnDnatRuleStatus]
	Namespaces []Object[struct{}, struct{}]
	// Attachments are the namespaces that have a NetworkAttachmentDefinition named default.
	Attachments map[string]bool
	// Balancers are the Services of type LoadBalancer, as namespace/name.
	Balancers []string
	Projects  []kubedcv1.Project
	EIps      []kubedcv1.EIp
	FIps      []kubedcv1.FIp
	Externals []snapshot.ExternalSubnet
}

// What happens to an object.
const (
	Take   = "take over"
	Create = "create"
	Change = "change"
	Leave  = "leave"
)

// Item is a line of a plan.
type Item struct {
	Action string `json:"action"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	// Becomes is the object that it is part of in future.
	Becomes string `json:"becomes,omitempty"`
	// Note is why it is left, or what changes.
	Note string `json:"note,omitempty"`
}

// Offer is an object that the Project takes over, and the object that will have asked for it.
type Offer struct {
	Kind            intent.Kind
	Namespace, Name string
	Origin          state.Ref
}

// Plan is what adopting a VPC takes.
type Plan struct {
	Project string `json:"project"`
	VPC     string `json:"vpc"`
	Items   []Item `json:"items"`
	// Problems are why the VPC can't be adopted; then nothing is changed.
	Problems []string `json:"problems,omitempty"`

	// Offers are in the order in which they are made. The namespace is last: until then the Project is refused.
	Offers []Offer `json:"-"`
	// Count is how many objects the controller must see before it takes over any: those offered, and all EIps and FIps of
	// the namespace.
	Count int `json:"-"`
	// NewProject is nil if the Project exists.
	NewProject  *kubedcv1.Project `json:"-"`
	NewEIps     []kubedcv1.EIp    `json:"-"`
	NewFIps     []kubedcv1.FIp    `json:"-"`
	ChangedFIps []kubedcv1.FIp    `json:"-"`
	Finalizers  []Finalizers      `json:"-"`
}

// IsEmpty reports whether there is nothing to do.
func (p *Plan) IsEmpty() bool {
	return len(p.Offers)+len(p.NewEIps)+len(p.NewFIps)+len(p.ChangedFIps)+len(p.Finalizers) == 0 && p.NewProject == nil
}

// planner makes the plan of one VPC.
type planner struct {
	*Cluster
	*Plan
	organization, name string
	vpc                *Object[kubeovn.VpcSpec, kubeovn.VpcStatus]
	subnet             *Object[kubeovn.SubnetSpec, kubeovn.SubnetStatus]
	prefix             netip.Prefix
	network            *snapshot.ExternalSubnet // the default one
	taken              map[string]bool          // names of EIps and FIps, by kind
	routed             map[netip.Addr]string    // targets of the source policies, and their gateways
}

// MakePlan decides about the VPC of a Project.
func (c *Cluster) MakePlan(organization, name string) *Plan {
	vpc := organization + "-" + name
	p := &planner{
		Cluster: c, Plan: &Plan{Project: organization + "/" + name, VPC: vpc, Items: []Item{}},
		organization: organization, name: name, taken: map[string]bool{}, routed: map[netip.Addr]string{},
	}
	if p.vpc = find(c.Vpcs, vpc); p.vpc == nil {
		p.refuse("there is no Vpc %s: a Project named %s has a Vpc, a namespace and a router of that name", vpc, p.Project)
		return p.Plan
	}
	if p.vpc.Owner == vpc {
		p.listUnadopted()
		return p.Plan
	}
	if p.checkVPC(); len(p.Problems) == 0 {
		p.planProject()
		p.planRouterPorts()
		p.planSNAT()
		p.planAddresses()
		p.planLeft()
		p.planFinalizers()
		p.planNamespace()
	}
	if len(p.Problems) > 0 {
		p.Offers, p.NewProject, p.NewEIps, p.NewFIps, p.ChangedFIps, p.Finalizers = nil, nil, nil, nil, nil, nil
	}
	return p.Plan
}

// Candidates returns the Projects, as organization and name, that the Vpcs of others could belong to: those that exist,
// or else those whose organization is a namespace.
func (c *Cluster) Candidates() (out [][2]string) {
	for _, v := range c.Vpcs {
		if v.Owner != "" || v.ByKubeOVN || v.Name == kubeovn.ManagementVpc || v.Deleting {
			continue
		}
		var existing, possible [][2]string
		for i, r := range v.Name {
			if r != '-' || i == 0 || i == len(v.Name)-1 {
				continue
			}
			names := [2]string{v.Name[:i], v.Name[i+1:]}
			switch {
			case slices.ContainsFunc(c.Projects, func(p kubedcv1.Project) bool {
				return p.Namespace == names[0] && p.Name == names[1]
			}):
				existing = append(existing, names)
			case find(c.Namespaces, names[0]) != nil:
				possible = append(possible, names)
			}
		}
		if out = append(out, existing...); len(existing) == 0 {
			out = append(out, possible...)
		}
	}
	return out
}

// Unnamed returns the Vpcs of others that no Project can have, with the reason.
func (c *Cluster) Unnamed() (out []Item) {
	candidates := c.Candidates()
	for _, v := range c.Vpcs {
		if v.Owner != "" || v.ByKubeOVN || v.Name == kubeovn.ManagementVpc || v.Deleting {
			continue
		}
		if !slices.ContainsFunc(candidates, func(n [2]string) bool { return n[0]+"-"+n[1] == v.Name }) {
			out = append(out, Item{Action: Leave, Kind: "Vpc", Name: v.Name, Note: "its name is not that of an organization's namespace, " +
				"a hyphen and a project; names of Vpcs can't be changed"})
		}
	}
	return out
}

func (p *planner) refuse(format string, args ...any) {
	p.Problems = append(p.Problems, fmt.Sprintf(format, args...))
}

func (p *planner) addItem(action, kind, name, becomes, note string) {
	p.Items = append(p.Items, Item{Action: action, Kind: kind, Name: name, Becomes: becomes, Note: note})
}

// offer lets the Project take over an object.
func (p *planner) offer(kind intent.Kind, namespace, name, becomes string, origin state.Ref) {
	p.Offers = append(p.Offers, Offer{Kind: kind, Namespace: namespace, Name: name, Origin: origin})
	p.addItem(Take, string(kind), strings.TrimPrefix(namespace+"/"+name, "/"), becomes, "")
}

// find returns the object of a name, or nil.
func find[S, T any](list []Object[S, T], name string) *Object[S, T] {
	if i := slices.IndexFunc(list, func(o Object[S, T]) bool { return o.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// external returns an external subnet, or nil.
func (p *planner) external(subnet string) *snapshot.ExternalSubnet {
	if i := slices.IndexFunc(p.Externals, func(x snapshot.ExternalSubnet) bool { return x.Subnet == subnet }); i >= 0 {
		return &p.Externals[i]
	}
	return nil
}
