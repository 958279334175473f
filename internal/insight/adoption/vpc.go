package adoption

import (
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// checkVPC finds the Subnet and the default network of the VPC, and what prevents that a Project has this VPC.
func (p *planner) checkVPC() {
	switch {
	case ownership.IsReservedVPC(p.VPC) || p.external(p.VPC) != nil:
		p.refuse("Vpc name %s is reserved", p.VPC)
	case p.vpc.Owner != "":
		p.refuse("Vpc %s belongs to another Project", p.VPC)
	case p.vpc.ByKubeOVN:
		p.refuse("Vpc %s is Kube-OVN's record of a router that somebody else made", p.VPC)
	case p.vpc.Deleting:
		p.refuse("Vpc %s is being deleted", p.VPC)
	}
	if other := slices.DeleteFunc(slices.Clone(p.vpc.Spec.Namespaces), func(ns string) bool { return ns == p.VPC }); len(other) > 0 {
		p.refuse("Vpc %s has the namespaces %s: a Project has one namespace, named like its Vpc", p.VPC, strings.Join(other, ", "))
	}
	p.checkNamespace()
	p.checkProjects()
	p.checkSubnet()
	p.findDefaultNetwork()
	p.checkRoutes()
}

func (p *planner) checkNamespace() {
	if find(p.Namespaces, p.organization) == nil {
		p.refuse("there is no namespace %s: create the namespace of the organization first", p.organization)
	}
	switch ns := find(p.Namespaces, p.VPC); {
	case ns == nil:
		p.refuse("there is no namespace %s: a Project's namespace has the name of its Vpc", p.VPC)
	case ns.Deleting:
		p.refuse("namespace %s is being deleted", p.VPC)
	case ns.Owner != "" && ns.Owner != p.VPC:
		p.refuse("namespace %s belongs to another Project", p.VPC)
	}
}

// checkProjects refuses a VPC that another Project would get: acme/web-db and acme-web/db both have the VPC acme-web-db,
// and the oldest gets it.
func (p *planner) checkProjects() {
	for _, other := range p.Projects {
		if snapshot.ProjectShard(other.Namespace, other.Name) == p.VPC && (other.Namespace != p.organization || other.Name != p.name) {
			p.refuse("Project %s/%s asks for the same Vpc: delete it, or adopt the Vpc for that Project", other.Namespace, other.Name)
		}
	}
}

func (p *planner) checkSubnet() {
	name := ownership.VPCSubnetName(p.VPC)
	for _, s := range p.Subnets {
		if s.Spec.Vpc == p.VPC && s.Name != name {
			p.refuse("Subnet %s is in the VPC: a Project has one Subnet, named %s", s.Name, name)
		}
	}
	if p.subnet = find(p.Subnets, name); p.subnet == nil || p.subnet.Spec.Vpc != p.VPC {
		p.refuse("the VPC has no Subnet %s", name)
		p.subnet = nil
		return
	}
	spec := p.subnet.Spec
	if other := slices.DeleteFunc(slices.Clone(spec.Namespaces), func(ns string) bool { return ns == p.VPC }); len(other) > 0 {
		p.refuse("Subnet %s has the namespaces %s: pods there would get other addresses", name, strings.Join(other, ", "))
	}
	if spec.Provider != "" && spec.Provider != kubeovn.Provider || spec.Vlan != "" || spec.NatOutgoing {
		p.refuse("Subnet %s has a provider, a VLAN or natOutgoing; Projects have none", name)
	}
	prefix, err := netip.ParsePrefix(spec.CIDRBlock)
	if err != nil {
		p.refuse("Subnet %s has the prefixes %s: only Subnets with one prefix can be adopted", name, spec.CIDRBlock)
		return
	}
	p.prefix = prefix.Masked()
	for _, text := range spec.ExcludeIps {
		if !p.isOwnReserve(text) {
			p.refuse("Subnet %s has %s in excludeIps: a Project would give these addresses to pods; release them first",
				name, text)
		}
	}
	if p.subnet.Deleting || p.subnet.Owner != "" && p.subnet.Owner != p.VPC {
		p.refuse("Subnet %s is being deleted, or belongs to another Project", name)
	}
}

// isOwnReserve reports whether an entry of excludeIps is what a Project excludes as well: the gateway, and the last
// addresses.
func (p *planner) isOwnReserve(text string) bool {
	if slices.Contains(strings.Split(p.subnet.Spec.Gateway, ","), text) {
		return true
	}
	first, _, _ := strings.Cut(text, "..")
	a, err := netip.ParseAddr(first)
	if err != nil || !p.prefix.Contains(a) {
		return false
	}
	for range reservedAtEnd {
		if a = a.Next(); !p.prefix.Contains(a) {
			return true
		}
	}
	return false
}

// reservedAtEnd is the number of addresses at the end of its Subnet that a Project excludes, with the last one.
const reservedAtEnd = 9

// findDefaultNetwork finds the network of the default egress: that of the SNAT rule, else that of the default route,
// else the only one.
func (p *planner) findDefaultNetwork() {
	for _, r := range p.SnatRules {
		if subnet, ok := kubeovn.SubnetOfRouterPort(p.VPC, r.Spec.OvnEip); ok && r.Status.Vpc == p.VPC {
			p.network = p.external(subnet)
		}
	}
	for _, route := range p.vpc.Spec.StaticRoutes {
		for i, x := range p.Externals {
			if p.network == nil && route.CIDR == "0.0.0.0/0" && route.NextHopIP == x.Gateway.String() {
				p.network = &p.Externals[i]
			}
		}
	}
	attached := p.attachedSubnets()
	if p.network == nil && len(attached) == 1 {
		p.network = p.external(attached[0])
	}
	if p.network == nil {
		p.refuse("the VPC has no default network: neither an OvnSnatRule with the address of a router port nor a default route " +
			"names a Subnet with the label " + kubedcv1.ExternalNetworkTypeLabel)
	}
}

// attachedSubnets returns the external subnets that the router is connected to.
func (p *planner) attachedSubnets() []string {
	out := append(slices.Clone(p.vpc.Spec.ExtraExternalSubnets), p.vpc.Status.ExtraExternalSubnets...)
	slices.Sort(out)
	return slices.Compact(out)
}

// checkRoutes refuses routes and policies that the controller would replace by others.
func (p *planner) checkRoutes() {
	if p.vpc.Spec.EnableExternal && len(p.attachedSubnets()) == 0 {
		p.refuse("Vpc %s is connected to Kube-OVN's default external network: name it in spec.extraExternalSubnets", p.VPC)
	}
	for _, route := range p.vpc.Spec.StaticRoutes {
		prefix, err := netip.ParsePrefix(route.CIDR)
		if err != nil || prefix.Bits() != 0 || route.RouteTable != "" || p.network == nil {
			continue
		}
		if route.NextHopIP != p.network.Gateway.String() || route.ECMPMode != "" || route.BfdID != "" {
			p.refuse("the default route by %s would be replaced by one by %s, the gateway of %s", route.NextHopIP,
				p.network.Gateway, p.network.Subnet)
		}
	}
	for _, policy := range p.vpc.Spec.PolicyRoutes {
		if !ownership.IsOwnPriority(p.VPC, policy.Priority) {
			continue
		}
		target, err := netip.ParseAddr(policy.Match[strings.LastIndex(policy.Match, " ")+1:])
		if err != nil || policy.Match != match.From(match.Addr(target)).String() || policy.Action != "reroute" || policy.Priority != ownership.ReturnFIP {
			p.refuse("the policy with priority %d and match %q would be removed: that priority is Sallyport's; give it another",
				policy.Priority, policy.Match)
			continue
		}
		p.routed[target] = policy.NextHopIP
	}
}

func (p *planner) projectRef() state.Ref {
	return state.Ref{Kind: string(intent.Project), Namespace: p.organization, Name: p.name}
}

// planProject plans the Project, its Vpc, its Subnet and its NetworkAttachmentDefinition.
func (p *planner) planProject() {
	becomes := "Project " + p.Project
	gateway := p.subnet.Spec.Gateway
	i := slices.IndexFunc(p.Projects, func(o kubedcv1.Project) bool { return o.Namespace == p.organization && o.Name == p.name })
	if i < 0 {
		p.NewProject = &kubedcv1.Project{}
		p.NewProject.Namespace, p.NewProject.Name = p.organization, p.name
		p.NewProject.Spec = kubedcv1.ProjectSpec{
			CIDRBlock: p.prefix.String(), GwLanIP: gateway, EgressNetworkType: kubedcv1.NetworkType(p.network.Type),
		}
		p.addItem(Create, "Project", p.Project, "", "")
	} else {
		p.checkProjectSpec(p.Projects[i].Spec)
	}
	p.offer(intent.Vpc, "", p.VPC, becomes, p.projectRef())
	p.offer(intent.Subnet, "", p.subnet.Name, becomes, p.projectRef())
	if p.Attachments[p.VPC] {
		p.offer(intent.NetworkAttachment, p.VPC, "default", becomes, p.projectRef())
	}
}

// checkProjectSpec refuses a Project that describes another network.
func (p *planner) checkProjectSpec(spec kubedcv1.ProjectSpec) {
	if cidr, err := netip.ParsePrefix(spec.CIDRBlock); err != nil || cidr.Masked() != p.prefix {
		p.refuse("the Project has cidrBlock %s, and the Subnet %s", spec.CIDRBlock, p.prefix)
	}
	gateway := spec.GwLanIP
	if gateway == "" {
		gateway = p.prefix.Addr().Next().String()
	}
	if gateway != p.subnet.Spec.Gateway {
		p.refuse("the Project has gateway %s, and the Subnet %s", gateway, p.subnet.Spec.Gateway)
	}
	if string(spec.EgressNetworkType) != p.network.Type {
		p.refuse("the Project has egressNetworkType %s, and the VPC leaves through %s of type %s", spec.EgressNetworkType,
			p.network.Subnet, p.network.Type)
	}
}

// planRouterPorts plans the OvnEips of the router's ports, and the EIp of the default egress.
func (p *planner) planRouterPorts() {
	for _, subnet := range p.attachedSubnets() {
		name := kubeovn.RouterPort(p.VPC, subnet)
		switch o := find(p.OvnEips, name); {
		case p.external(subnet) == nil:
			p.refuse("the VPC is connected to Subnet %s, which is no external network of Sallyport: label it with %s", subnet,
				kubedcv1.ExternalNetworkTypeLabel)
		case o == nil || !o.Status.Ready || o.Deleting:
			p.refuse("OvnEip %s of the router's port does not exist, or has no address", name)
		case o.Owner == "":
			p.offer(intent.OvnEip, "", name, "Project "+p.Project, p.projectRef())
		}
	}
	for _, e := range p.namespaceEIps() {
		if e.Name == kubedcv1.DefaultGatewayEIp && p.network != nil {
			if e.Spec.ChildRef != kubeovn.RouterPort(p.VPC, p.network.Subnet) {
				p.refuse("EIp %s/%s is not that of the default egress: delete it, or give it another name", e.Namespace, e.Name)
				continue
			}
			p.offer(intent.EIp, e.Namespace, e.Name, "Project "+p.Project, p.projectRef())
		}
	}
}

// planSNAT plans the OvnSnatRule of the default egress.
func (p *planner) planSNAT() {
	found := 0
	for _, r := range p.SnatRules {
		if r.Status.Vpc != p.VPC || r.Owner != "" {
			continue
		}
		switch found++; {
		case found > 1:
			p.refuse("OvnSnatRule %s: a Project has one SNAT rule, and pods of a Subnet with two leave with either address", r.Name)
		case !r.Status.Ready || r.Spec.VpcSubnet != p.subnet.Name || r.Status.V4IpCidr != p.prefix.String():
			p.refuse("OvnSnatRule %s translates %s, and a Project's translates %s by vpcSubnet", r.Name, r.Status.V4IpCidr, p.prefix)
		case r.Spec.OvnEip != kubeovn.RouterPort(p.VPC, p.network.Subnet):
			p.refuse("OvnSnatRule %s translates to %s of OvnEip %s; pods of a Project leave with the address of the router's port, "+
				"and adopting would change theirs", r.Name, r.Status.V4Eip, r.Spec.OvnEip)
		default:
			p.offer(intent.OvnSnatRule, "", r.Name, "Project "+p.Project, p.projectRef())
		}
	}
}

// planNamespace offers the namespace, after everything else.
func (p *planner) planNamespace() {
	if ns := find(p.Namespaces, p.VPC); ns != nil && ns.Owner == "" {
		p.Count = p.countObjects()
		p.offer(intent.Namespace, "", p.VPC, "Project "+p.Project, p.projectRef())
	}
}

// countObjects returns the number of the objects that are offered, and of all EIps and FIps of the namespace.
func (p *planner) countObjects() int {
	n := len(p.namespaceEIps()) + len(p.NewEIps) + len(p.NewFIps)
	for _, f := range p.FIps {
		if f.Namespace == p.VPC {
			n++
		}
	}
	for _, o := range p.Offers {
		if o.Kind != intent.EIp { // counted already
			n++
		}
	}
	return n
}
