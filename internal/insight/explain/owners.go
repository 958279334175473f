package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// AddressOwners lists the owners of an address.
type AddressOwners struct {
	Address netip.Addr `json:"address"`
	Owners  []Part     `json:"holders,omitempty"`
	// Pool describes the subnet or network that contains the address.
	Pool string `json:"pool,omitempty"`
}

func (w *AddressOwners) addOwner(about state.Ref, format string, args ...any) {
	w.Owners = append(w.Owners, Part{About: about, Text: fmt.Sprintf(format, args...)})
}

// FindAddressOwners returns the owners of an address: first the objects that users create, then gateways, Kube-OVN and
// OVN, nodes and pods.
func FindAddressOwners(s *clusterstate.State, a netip.Addr) AddressOwners {
	w := &AddressOwners{Address: a}
	w.addRequesters(&s.Cluster)
	w.addGateways(&s.Cluster)
	w.addOVNOwners(s)
	w.addHosts(s)
	if pool := s.Cluster.ExternalSubnetAt(a); pool != nil {
		w.Pool = fmt.Sprintf("Subnet %s %s of network %s, %d addresses free", pool.Name, joinFew(pool.Prefixes),
			pool.Network, pool.Free)
	} else if on := s.Cluster.NetworkAt(a); on != nil {
		w.Pool = fmt.Sprintf("network %s, which nodes are attached to", on.Name)
	}
	return *w
}

// addRequesters adds the objects that request the address.
func (w *AddressOwners) addRequesters(c *clusterstate.Cluster) {
	for _, o := range c.FIps {
		if o.External == w.Address {
			w.addOwner(o.Ref, "floating IP of %s", addressOrNone(o.Target))
		}
	}
	for _, o := range c.Services {
		if slices.Contains(o.Ingress, w.Address) {
			w.addOwner(o.Ref, "load balancer")
		}
		if slices.Contains(o.ExternalIPs, w.Address) {
			w.addOwner(o.Ref, "external IP in its spec")
		}
	}
	for _, o := range c.EIps {
		if o.Address == w.Address {
			w.addOwner(o.Ref, "external address")
		}
	}
	for _, o := range c.EgressIPs {
		if slices.Contains(parseAddresses(o.Addresses), w.Address) {
			w.addOwner(o.Ref, "egress address, held by %s", cmp.Or(o.Held[w.Address.String()], "no node"))
		}
	}
	for _, o := range c.Projects {
		if o.Address == w.Address {
			w.addOwner(o.Ref, "source address of its pods")
		}
	}
	for _, o := range slices.Concat(c.EgressServices, c.EgressRoutes) {
		if slices.Contains(o.Sources, w.Address) {
			w.addOwner(o.Ref, "source address of its pods")
		}
	}
}

func (w *AddressOwners) addGateways(c *clusterstate.Cluster) {
	for _, o := range c.Networks {
		if slices.Contains(o.Gateways, w.Address) {
			w.addOwner(o.Ref, "gateway of the network, outside of the cluster")
		}
	}
	for _, o := range c.Subnets {
		switch {
		case !slices.Contains(o.Gateways, w.Address):
		case o.Network != "":
			on := o.Ref
			if n := c.Network(o.Network); n != nil {
				on = n.Ref
			}
			w.addOwner(on, "gateway of Subnet %s, outside of the cluster", o.Name)
		default:
			w.addOwner(o.Ref, "gateway of the pods' Subnet")
		}
	}
}

func (w *AddressOwners) addOVNOwners(s *clusterstate.State) {
	for _, o := range s.Cluster.OvnEips {
		if o.Address == w.Address {
			w.addOwner(o.Ref, "address object of Kube-OVN, type %s", o.Type)
		}
	}
	for _, r := range s.Logical.Routers {
		for _, p := range r.Ports {
			if slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Addr() == w.Address }) {
				w.addOwner(clusterstate.RouterRef(r.Name), "address of its port %s", p.Name)
			}
		}
		for _, n := range r.NATs {
			if n.External == w.Address {
				w.addOwner(clusterstate.RouterRef(r.Name), "%s", formatNAT(n))
			}
		}
		for _, b := range r.Balancers {
			if slices.ContainsFunc(b.VIPs, func(v logical.VIP) bool { return v.Address.Addr() == w.Address }) {
				w.addOwner(clusterstate.RouterRef(r.Name), "load balancer %s", b.Name)
			}
		}
	}
}

func (w *AddressOwners) addHosts(s *clusterstate.State) {
	for _, o := range s.Cluster.Nodes {
		held := slices.Contains(o.Addresses, w.Address)
		for _, i := range s.Inspected[o.Name].Interfaces {
			held = held || slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == w.Address })
		}
		if held {
			w.addOwner(o.Ref, "node")
		}
	}
	for _, o := range s.Cluster.Pods {
		if slices.Contains(o.Addresses, w.Address) && !o.HostNetwork {
			w.addOwner(o.Ref, "pod on %s", o.Node)
		}
	}
	for _, o := range s.Cluster.Services {
		if o.ClusterIP == w.Address {
			w.addOwner(o.Ref, "cluster IP")
		}
	}
	for _, n := range s.Logical.Learned {
		if n.Address == w.Address && len(w.Owners) == 0 { // routers also learn the addresses of other routers
			w.addOwner(state.Ref{Kind: "Neighbour", Name: n.MAC}, "host, learned by router port %s", n.Port)
		}
	}
}

// noRef is the zero Ref, which refers to no object.
var noRef state.Ref

// primaryOwner returns the owner to explain: the only user of the address, the EIp if there are several users,
// else the first owner.
func (w *AddressOwners) primaryOwner() state.Ref {
	var users []state.Ref
	var eip, project state.Ref
	for _, h := range w.Owners {
		switch intent.Kind(h.About.Kind) {
		case intent.FIp, intent.Service:
			users = append(users, h.About)
		case intent.EIp:
			eip = h.About
		case intent.Project:
			project = h.About
		}
	}
	switch {
	case len(users) == 1 && project == noRef:
		return users[0]
	case len(users) == 0 && project != noRef:
		return project
	case eip != noRef:
		return eip
	default:
		return w.Owners[0].About
	}
}

// explainUnusedAddress explains an address without an owner.
func explainUnusedAddress(s *clusterstate.State, w AddressOwners, findings []diagnosis.Finding) Explanation {
	if len(s.Unread) > 0 { // its owner may be in what could not be read
		x := Unknown(s, w.Address.String(), findings)
		x.About.Kind, x.State = "Address", "has no owner among what could be read"
		return x
	}
	x := Explanation{
		About:         state.Ref{Kind: "Address", Name: w.Address.String()},
		AddressOwners: &w,
		State:         "is not assigned",
	}
	if on := s.Cluster.NetworkAt(w.Address); on != nil {
		x.Findings = diagnosis.FilterByRefs(findings, s.DependenciesOf(on.Ref)...)
		x.NextSteps = append(x.NextSteps,
			"Check the object that should have this address: sallyport explain KIND/NAME.")
	} else {
		x.Findings = diagnosis.FilterByRefs(findings)
		x.NextSteps = append(x.NextSteps,
			"The address is in no network of this cluster; check DNS, or another cluster.")
	}
	return x
}
