package adoption

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

type (
	ovnEip = Object[kubeovn.OvnEipSpec, kubeovn.OvnEipStatus]
	ovnFip = Object[kubeovn.OvnFipSpec, kubeovn.OvnFipStatus]
)

// namespaceEIps returns the EIps in the project's namespace.
func (p *planner) namespaceEIps() (out []kubedcv1.EIp) {
	for _, e := range p.EIps {
		if e.Namespace == p.VPC {
			out = append(out, e)
		}
	}
	return out
}

// planAddresses plans the OvnFips of the VPC with their OvnEips, then the other OvnEips that EIps of the namespace refer
// to.
func (p *planner) planAddresses() {
	for _, e := range p.namespaceEIps() {
		p.taken["EIp "+e.Name] = true
	}
	for _, f := range p.FIps {
		if f.Namespace == p.VPC {
			p.taken["FIp "+f.Name] = true
		}
	}
	planned := map[string]bool{}
	for i := range p.OvnFips {
		f := &p.OvnFips[i]
		if f.Status.Vpc != p.VPC && (f.Status.Vpc != "" || f.Spec.Vpc != p.VPC) || f.Owner != "" {
			continue
		}
		eip := find(p.OvnEips, f.Spec.OvnEip)
		if why := p.checkOvnFip(f, eip, planned); why != "" {
			p.addItem(Leave, "OvnFip", f.Name, "", why)
			continue
		}
		planned[eip.Name] = true
		p.planFloatingIP(f, eip)
	}
	for target := range p.routed { // the policy would be removed, and nothing takes its place
		p.refuse("the policy with priority %d for %s would be removed, and %s has no floating IP on its network that can be adopted",
			ownership.ReturnFIP, target, target)
	}
	slices.Sort(p.Problems)
	for _, e := range p.namespaceEIps() {
		p.planIdleEIP(e, planned)
	}
}

// planIdleEIP plans the OvnEip of an EIp that no floating IP uses. Nothing but its name says which VPC it belongs to, and
// users may have written the status of the EIp: an OvnEip with another name needs the operator's word.
func (p *planner) planIdleEIP(e kubedcv1.EIp, planned map[string]bool) {
	o := p.ovnEipOf(e)
	if o == nil || planned[o.Name] || o.Owner != "" || e.Spec.ChildRef != "" {
		return
	}
	ref := eipRef(e.Namespace, e.Name)
	if !slices.Contains(ownership.OvnEipNames(e.Namespace, e.Name), o.Name) && o.Origin != ref {
		p.refuse("EIp %s/%s has the address %s of OvnEip %s, whose name does not say that it is its: if it is, set its annotation "+
			"%s to %s/%s/%s", e.Namespace, e.Name, o.Status.External(), o.Name, ownership.OriginAnnotation, ref.Kind, ref.Namespace, ref.Name)
		return
	}
	if why := p.checkOvnEip(o); why != "" {
		p.refuse("EIp %s/%s would get another address: OvnEip %s can't be adopted: %s", e.Namespace, e.Name, o.Name, why)
		return
	}
	p.offer(intent.OvnEip, "", o.Name, "EIp "+p.VPC+"/"+e.Name, ref)
}

// ovnEipOf returns the OvnEip of an EIp that another controller or an earlier run wrote, or nil: the one that says so, the
// one with its address, or else with its usual name. Sallyport's controller has written status.ovnEIpRef since.
func (p *planner) ovnEipOf(e kubedcv1.EIp) *ovnEip {
	address := cmp.Or(e.Spec.IPAddress, e.Status.IPAddress)
	for _, fits := range []func(*ovnEip) bool{
		func(o *ovnEip) bool { return o.Origin == eipRef(e.Namespace, e.Name) },
		func(o *ovnEip) bool { return address != "" && o.Status.External() == address },
	} {
		for i := range p.OvnEips {
			if fits(&p.OvnEips[i]) {
				return &p.OvnEips[i]
			}
		}
	}
	return find(p.OvnEips, ownership.OvnEipNames(e.Namespace, e.Name)[0])
}

// checkOvnFip returns why a floating IP can't be adopted.
func (p *planner) checkOvnFip(f *ovnFip, eip *ovnEip, planned map[string]bool) string {
	target, _ := netip.ParseAddr(f.Status.External())
	switch {
	case f.Deleting || !f.Status.Ready:
		return "it is being deleted, or Kube-OVN has not written its translation"
	case f.Status.V6Eip != "" || f.Spec.V6Ip != "":
		return "it translates IPv6 addresses"
	case f.Spec.Type == "distributed":
		return "its type is distributed: a FIp is translated on the gateway node, which would change the MAC address of the external address"
	case !p.prefix.Contains(target):
		return fmt.Sprintf("its target %s is not in the Subnet of the Project", f.Status.External())
	case f.Spec.Vpc != "" && f.Spec.Vpc != p.VPC || f.Spec.V4Ip != "" && f.Spec.V4Ip != f.Status.V4Ip:
		return "its spec differs from what Kube-OVN has written"
	case eip == nil:
		return "its OvnEip does not exist"
	case planned[eip.Name] || eip.Owner != "":
		return fmt.Sprintf("OvnEip %s has another user", eip.Name)
	case eip.Status.External() != f.Status.V4Eip:
		return fmt.Sprintf("OvnEip %s has the address %s, and the translation %s", eip.Name, eip.Status.External(), f.Status.V4Eip)
	default:
		return p.checkOvnEip(eip)
	}
}

// checkOvnEip returns why an external address can't be adopted.
func (p *planner) checkOvnEip(o *ovnEip) string {
	for _, r := range p.DnatRules {
		if r.Spec.OvnEip == o.Name {
			return fmt.Sprintf("OvnDnatRule %s uses its address, and Sallyport has no object of this kind", r.Name)
		}
	}
	for _, r := range p.SnatRules {
		if r.Spec.OvnEip == o.Name {
			return fmt.Sprintf("OvnSnatRule %s uses its address", r.Name)
		}
	}
	for _, f := range p.OvnFips {
		if f.Spec.OvnEip == o.Name && f.Status.Vpc != "" && f.Status.Vpc != p.VPC {
			return fmt.Sprintf("OvnFip %s of another VPC uses its address", f.Name)
		}
	}
	x := p.external(o.Spec.ExternalSubnet)
	address, err := netip.ParseAddr(o.Status.External())
	switch {
	case o.Deleting || !o.Status.Ready || err != nil:
		return "it is being deleted, or has no address"
	case o.Spec.Type != "nat":
		return fmt.Sprintf("its type is %s; addresses of EIps have type nat", o.Spec.Type)
	case o.Spec.External() != address.String():
		return "its spec does not name its address"
	case x == nil:
		return fmt.Sprintf("Subnet %s is no external network of Sallyport: label it with %s", o.Spec.ExternalSubnet,
			kubedcv1.ExternalNetworkTypeLabel)
	case !slices.Contains(p.attachedSubnets(), x.Subnet):
		return fmt.Sprintf("the router is not connected to Subnet %s", x.Subnet)
	case x.IsReserved(address):
		return fmt.Sprintf("%s is in excludeIps of Subnet %s; an EIp can't have it", address, x.Subnet)
	default:
		return ""
	}
}

// planFloatingIP plans a FIp and its EIp: those that exist, or new ones.
func (p *planner) planFloatingIP(f *ovnFip, o *ovnEip) {
	eipName := p.planEIP(o)
	target, _ := netip.ParseAddr(f.Status.External())
	x := p.external(o.Spec.ExternalSubnet)
	outbound, note := false, ""
	if via, routed := p.routed[target]; routed && via == x.Gateway.String() {
		outbound, note = true, "outbound: its connections leave through "+x.Subnet+", as now"
		delete(p.routed, target)
	}
	i := slices.IndexFunc(p.FIps, func(have kubedcv1.FIp) bool {
		return have.Namespace == p.VPC && (f.Origin == fipRef(have.Namespace, have.Name) ||
			slices.Contains(ownership.OvnFipNames(have.Namespace, have.Name), f.Name) ||
			have.Spec.EIp == eipName || have.Spec.EIp == "" && have.Spec.IPAddress == target.String() &&
			(have.Spec.ExternalNetworkType == "" || string(have.Spec.ExternalNetworkType) == x.Type))
	})
	if i < 0 {
		name := p.chooseName("FIp", f.Name)
		created := kubedcv1.FIp{}
		created.Namespace, created.Name = p.VPC, name
		created.Spec = kubedcv1.FIpSpec{IPAddress: target.String(), EIp: eipName, Outbound: outbound}
		p.NewFIps = append(p.NewFIps, created)
		p.addItem(Create, "FIp", p.VPC+"/"+name, "", note)
		p.offer(intent.OvnFip, "", f.Name, "FIp "+p.VPC+"/"+name, fipRef(p.VPC, name))
		return
	}
	have := p.FIps[i].DeepCopy()
	if have.Spec.EIp != eipName || have.Spec.Outbound != (outbound || have.Spec.Outbound) {
		if have.Spec.EIp != eipName {
			note = strings.TrimPrefix(note+"; eip: "+eipName+", which was made for it, and now stays when it is deleted", "; ")
		}
		have.Spec.EIp, have.Spec.ExternalNetworkType, have.Spec.Outbound = eipName, "", outbound || have.Spec.Outbound
		p.ChangedFIps = append(p.ChangedFIps, *have)
		p.addItem(Change, "FIp", p.VPC+"/"+have.Name, "", note)
	}
	p.offer(intent.OvnFip, "", f.Name, "FIp "+p.VPC+"/"+have.Name, fipRef(p.VPC, have.Name))
}

// planEIP plans the EIp of an OvnEip, and returns its name.
func (p *planner) planEIP(o *ovnEip) string {
	for _, e := range p.namespaceEIps() {
		if e.Spec.ChildRef == "" && p.ovnEipOf(e) == o {
			p.offer(intent.OvnEip, "", o.Name, "EIp "+p.VPC+"/"+e.Name, eipRef(e.Namespace, e.Name))
			return e.Name
		}
	}
	name := p.chooseName("EIp", strings.TrimPrefix(o.Name, "eip-"))
	x := p.external(o.Spec.ExternalSubnet)
	created := kubedcv1.EIp{}
	created.Namespace, created.Name = p.VPC, name
	created.Spec = kubedcv1.EIpSpec{ExternalNetwork: x.Subnet, IPAddress: o.Status.External()}
	p.NewEIps = append(p.NewEIps, created)
	p.addItem(Create, "EIp", p.VPC+"/"+name, "", o.Status.External()+" of "+x.Subnet)
	p.offer(intent.OvnEip, "", o.Name, "EIp "+p.VPC+"/"+name, eipRef(p.VPC, name))
	return name
}

// chooseName returns the name of a new EIp or FIp: that of Kube-OVN's object without the namespace, if it is free.
func (p *planner) chooseName(kind, from string) string {
	base := strings.TrimPrefix(strings.TrimPrefix(from, p.VPC+"-"), p.VPC+".")
	name := base
	for n := 2; p.taken[kind+" "+name] || name == kubedcv1.DefaultGatewayEIp; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	p.taken[kind+" "+name] = true
	return name
}

// planLeft lists what stays as it is, and refuses a VPC that would be cut off from a network on which it is.
func (p *planner) planLeft() {
	for _, r := range p.DnatRules {
		if r.Status.Vpc != p.VPC && r.Spec.Vpc != p.VPC {
			continue
		}
		p.addItem(Leave, "OvnDnatRule", r.Name, "", noPortTranslation)
	}
	for _, name := range p.Balancers {
		if strings.HasPrefix(name, p.VPC+"/") {
			p.addItem(Leave, "Service", name, "", "its load balancer is written anew beside the one that it has: remove the old one")
		}
	}
	for _, subnet := range p.attachedSubnets() {
		if !p.keepsNetwork(subnet) {
			p.refuse("the router would be disconnected from %s: no address there is adopted; adopt or remove what is on it", subnet)
		}
	}
}

// keepsNetwork reports whether the router stays connected to an external subnet.
func (p *planner) keepsNetwork(subnet string) bool {
	return p.network != nil && p.network.Subnet == subnet || slices.ContainsFunc(p.Offers, func(o Offer) bool {
		e := find(p.OvnEips, o.Name)
		return o.Kind == intent.OvnEip && e != nil && e.Spec.Type == "nat" && e.Spec.ExternalSubnet == subnet
	})
}

// listUnadopted lists what others have created in the VPC of a Project. Only whole VPCs are adopted: the objects of a
// Project that exists become visible to the controller one by one.
func (p *planner) listUnadopted() {
	for _, f := range p.OvnFips {
		if f.Status.Vpc == p.VPC && f.Owner == "" {
			p.addItem(Leave, "OvnFip", f.Name, "", "the Project has this Vpc already: delete it, and create a FIp with its address")
		}
	}
	for _, r := range p.DnatRules {
		if r.Status.Vpc == p.VPC {
			p.addItem(Leave, "OvnDnatRule", r.Name, "", noPortTranslation)
		}
	}
}

// noPortTranslation is why an OvnDnatRule is left.
const noPortTranslation = "Sallyport has no object of this kind: it stays Kube-OVN's"

func eipRef(namespace, name string) state.Ref {
	return state.Ref{Kind: string(intent.EIp), Namespace: namespace, Name: name}
}

func fipRef(namespace, name string) state.Ref {
	return state.Ref{Kind: string(intent.FIp), Namespace: namespace, Name: name}
}
