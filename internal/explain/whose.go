package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// Whose is who has an address.
type Whose struct {
	Address netip.Addr `json:"address"`
	Holders []Step     `json:"holders,omitempty"`
	// Pool is where it would come from when nobody has it.
	Pool string `json:"pool,omitempty"`
}

func (w *Whose) is(about state.Ref, format string, args ...any) {
	w.Holders = append(w.Holders, Step{About: about, Text: fmt.Sprintf(format, args...)})
}

// Find is who has an address: those first that people ask for addresses with, then the engine, nodes and pods.
func Find(s *survey.Survey, a netip.Addr) Whose {
	w := &Whose{Address: a}
	w.asked(&s.Cluster)
	w.gateways(&s.Cluster)
	w.engine(s)
	w.hosts(s)
	if pool := s.Cluster.Pool(a); pool != nil {
		w.Pool = fmt.Sprintf("Subnet %s %s of network %s, which has %d free", pool.Name, few(pool.Prefixes), pool.Network, pool.Free)
	} else if on := s.Cluster.NetworkAt(a); on != nil {
		w.Pool = fmt.Sprintf("the addresses of network %s, by which nodes are reached", on.Name)
	}
	return *w
}

// asked are those who asked for the address.
func (w *Whose) asked(c *survey.Cluster) {
	for _, o := range c.FIps {
		if o.External == w.Address {
			w.is(o.Ref, "floating IP of %s", text(o.Target))
		}
	}
	for _, o := range c.Services {
		if slices.Contains(o.Ingress, w.Address) {
			w.is(o.Ref, "load balancer")
		}
		if slices.Contains(o.ExternalIPs, w.Address) {
			w.is(o.Ref, "an external IP that somebody gave it")
		}
	}
	for _, o := range c.EIps {
		if o.Address == w.Address {
			w.is(o.Ref, "external address")
		}
	}
	for _, o := range c.EgressIPs {
		if slices.Contains(addresses(o.Addresses), w.Address) {
			w.is(o.Ref, "egress address, held by %s", cmp.Or(o.Held[w.Address.String()], "no node"))
		}
	}
	for _, o := range c.Projects {
		if o.Address == w.Address {
			w.is(o.Ref, "the address that its pods leave with")
		}
	}
	for _, o := range slices.Concat(c.EgressServices, c.EgressRoutes) {
		if slices.Contains(o.Sources, w.Address) {
			w.is(o.Ref, "the address that its pods leave with")
		}
	}
}

func (w *Whose) gateways(c *survey.Cluster) {
	for _, o := range c.Networks {
		if slices.Contains(o.Gateways, w.Address) {
			w.is(o.Ref, "gateway of the network, outside of the cluster")
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
			w.is(on, "gateway of Subnet %s, outside of the cluster", o.Name)
		default:
			w.is(o.Ref, "gateway of the pods' Subnet")
		}
	}
}

func (w *Whose) engine(s *survey.Survey) {
	for _, o := range s.Cluster.OvnEips {
		if o.Address == w.Address {
			w.is(o.Ref, "Kube-OVN's entry, type %s", o.Type)
		}
	}
	for _, r := range s.Logical.Routers {
		for _, p := range r.Ports {
			if slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Addr() == w.Address }) {
				w.is(survey.RouterRef(r.Name), "address of its port %s", p.Name)
			}
		}
		for _, n := range r.NATs {
			if n.External == w.Address {
				w.is(survey.RouterRef(r.Name), "%s", nat(n))
			}
		}
		for _, b := range r.Balancers {
			if slices.ContainsFunc(b.VIPs, func(v logical.VIP) bool { return v.Address.Addr() == w.Address }) {
				w.is(survey.RouterRef(r.Name), "load balancer %s", b.Name)
			}
		}
	}
}

func (w *Whose) hosts(s *survey.Survey) {
	for _, o := range s.Cluster.Nodes {
		held := slices.Contains(o.Addresses, w.Address)
		for _, i := range s.Inspected[o.Name].Interfaces {
			held = held || slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == w.Address })
		}
		if held {
			w.is(o.Ref, "node")
		}
	}
	for _, o := range s.Cluster.Pods {
		if slices.Contains(o.Addresses, w.Address) && !o.HostNetwork {
			w.is(o.Ref, "pod on %s", o.Node)
		}
	}
	for _, o := range s.Cluster.Services {
		if o.ClusterIP == w.Address {
			w.is(o.Ref, "its address inside the cluster")
		}
	}
	for _, n := range s.Logical.Learned {
		if n.Address == w.Address && len(w.Holders) == 0 { // of each other routers learn, too
			w.is(state.Ref{Kind: "Neighbour", Name: n.MAC}, "a host that router port %s has learned", n.Port)
		}
	}
}

// none is no object.
var none state.Ref

// main is whom to explain of those who have an address: its only user, or else who has it for several.
func (w *Whose) main() state.Ref {
	var users []state.Ref
	var eip, project state.Ref
	for _, h := range w.Holders {
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
	case len(users) == 1 && project == none:
		return users[0]
	case len(users) == 0 && project != none:
		return project
	case eip != none:
		return eip
	default:
		return w.Holders[0].About
	}
}

// nobodys explains an address that nobody has.
func nobodys(s *survey.Survey, w Whose, findings []diagnosis.Finding) Explanation {
	x := Explanation{About: state.Ref{Kind: "Address", Name: w.Address.String()}, Whose: &w, State: "is nobody's"}
	if on := s.Cluster.NetworkAt(w.Address); on != nil {
		x.Wrong = diagnosis.Touching(findings, s.HangsOn(on.Ref)...)
		x.Next = append(x.Next, "Look whether whoever should have it exists: sallyport explain KIND/NAME.")
	} else {
		x.Wrong = diagnosis.Touching(findings)
		x.Next = append(x.Next, "It is of no network of this cluster; look at DNS, or at another cluster.")
	}
	return x
}
