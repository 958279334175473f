package trace

import (
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// ExampleQueries returns connections that an object is for: to its address from outside, or from one of its pods. An
// object has none while nothing uses it.
func (t *Tracer) ExampleQueries(ref state.Ref) (out []Query) {
	c := &t.survey.Cluster
	switch intent.Kind(ref.Kind) {
	case intent.EIp:
		if o := c.EIp(ref); o != nil {
			return t.exampleQueriesOfEIp(o)
		}
	case intent.FIp:
		if o := c.FIp(ref); o != nil && o.External.IsValid() {
			return []Query{t.FloatingIPQuery(o)}
		}
	case intent.Service:
		if o := c.Service(ref); o != nil {
			return t.exampleQueriesOfService(o)
		}
	case intent.Project:
		if o := c.Project(ref); o != nil {
			return t.DefaultEgressQueries(o.Shard)
		}
	case intent.EgressIP:
		if o := c.EgressIP(ref); o != nil {
			for _, shard := range sortedKeys(t.podsByVPC) {
				out = append(out, t.EgressIPQueries(o, shard)...)
			}
		}
	case intent.EgressService, intent.EgressRoute:
		if o := c.EgressPolicy(ref); o != nil {
			return t.EgressPolicyQueries(o)
		}
	}
	return out
}

func (t *Tracer) exampleQueriesOfEIp(o *clusterstate.EIp) (out []Query) {
	for _, user := range t.addressRefs(o.Address) {
		if user.Kind == string(intent.EIp) {
			continue
		}
		for _, q := range t.ExampleQueries(user) {
			if q.Pod != "" || q.Server.Addr() == o.Address {
				out = append(out, q)
			}
		}
	}
	if p := t.survey.Cluster.ProjectOfShard(o.Shard); p != nil && p.Address == o.Address {
		out = append(out, t.DefaultEgressQueries(o.Shard)...)
	}
	return out
}

func (t *Tracer) exampleQueriesOfService(o *clusterstate.Service) (out []Query) {
	for _, a := range slices.Concat(o.Ingress, o.ExternalIPs) {
		for _, p := range o.Ports {
			out = append(out, t.ServiceQuery(o, a, p))
		}
	}
	return out
}

// ServiceQuery returns a connection to a port of a Service, from a client that its loadBalancerSourceRanges allow.
func (t *Tracer) ServiceQuery(o *clusterstate.Service, a netip.Addr, p clusterstate.ServicePort) Query {
	client := t.outsideHost(a)
	for _, prefix := range o.Sources {
		if ipfamily.Same(prefix.Addr(), a) && !prefix.Contains(client) {
			client = hostIn(prefix)
		}
	}
	return Query{
		Client: netip.AddrPortFrom(client, 0), Server: netip.AddrPortFrom(a, uint16(p.Port)), //nolint:gosec // a port
		Protocol: strings.ToLower(p.Protocol),
	}
}

// FloatingIPQuery returns a connection to a floating IP: to a port that its pod declares, or else a ping.
func (t *Tracer) FloatingIPQuery(o *clusterstate.FIp) Query {
	q := Query{
		Client: netip.AddrPortFrom(t.outsideHost(o.External), 0), Server: netip.AddrPortFrom(o.External, 0),
		Protocol: "icmp",
	}
	if p := t.podsByName[o.Namespace+"/"+o.Pod]; p != nil && len(p.Ports) > 0 {
		q.Protocol, q.Server = "tcp", netip.AddrPortFrom(o.External, uint16(p.Ports[0])) //nolint:gosec // a port
	}
	return q
}

// DefaultEgressQueries returns a connection to the outside from a pod of a VPC that has the VPC's source address: no
// floating IP, EgressIP or EgressService gives it another one. Pods of the management VPC have it only for hosts on the
// external network.
func (t *Tracer) DefaultEgressQueries(shard string) []Query {
	for _, p := range t.podsByVPC[shard] {
		if !p.Ready || len(p.Addresses) == 0 || t.hasOwnSource(shard, p) {
			continue
		}
		to := t.outsideHost(p.Addresses[0])
		if shard == kubeovn.ManagementVpc {
			to = t.onLinkHost(shard, p.Addresses[0])
		}
		if to.IsValid() {
			return []Query{egressQuery(p, to)}
		}
	}
	return nil
}

// EgressIPQueries returns a connection to the outside from a pod of a VPC that an EgressIP selects.
func (t *Tracer) EgressIPQueries(o *clusterstate.EgressIP, shard string) []Query {
	return t.egressQueries(shard, ownership.EgressIPPodSet(shard, o.Name), nil)
}

// EgressPolicyQueries returns a connection to a destination of an EgressRoute or EgressService from one of its pods.
func (t *Tracer) EgressPolicyQueries(o *clusterstate.EgressPolicy) []Query {
	set := ownership.EgressRoutePodSet(o.Shard, o.Name)
	if o.Kind == string(intent.EgressService) {
		set = ownership.EgressServicePodSet(o.Shard, o.Name)
	}
	return t.egressQueries(o.Shard, set, o.Destinations)
}

// egressQueries returns a connection from the first pod of an address set to a destination.
func (t *Tracer) egressQueries(shard, set string, destinations []netip.Prefix) []Query {
	for _, p := range t.podsByVPC[shard] {
		for _, a := range p.Addresses {
			if !t.isInAddressSet(set, a) {
				continue
			}
			to := t.outsideHost(a)
			for _, d := range destinations {
				if ipfamily.Same(d.Addr(), a) && !d.Contains(to) {
					to = hostIn(d)
				}
			}
			return []Query{egressQuery(p, to)}
		}
	}
	return nil
}

func egressQuery(p *clusterstate.Pod, to netip.Addr) Query {
	return Query{Pod: p.Namespace + "/" + p.Name, Server: netip.AddrPortFrom(to, 443), Protocol: "tcp"}
}

// hasOwnSource reports whether a floating IP, an EgressIP or an EgressService gives a pod its source address.
func (t *Tracer) hasOwnSource(shard string, p *clusterstate.Pod) bool {
	c := &t.survey.Cluster
	in := func(set string) bool {
		return slices.ContainsFunc(p.Addresses, func(a netip.Addr) bool { return t.isInAddressSet(set, a) })
	}
	return slices.ContainsFunc(c.FIps, func(f clusterstate.FIp) bool {
		return f.Shard == shard && slices.Contains(p.Addresses, f.Target)
	}) || slices.ContainsFunc(c.EgressIPs, func(e clusterstate.EgressIP) bool {
		return in(ownership.EgressIPPodSet(shard, e.Name))
	}) || slices.ContainsFunc(c.EgressServices, func(e clusterstate.EgressPolicy) bool {
		return e.Shard == shard && in(ownership.EgressServicePodSet(shard, e.Name))
	})
}

func (t *Tracer) isInAddressSet(set string, a netip.Addr) bool {
	return slices.Contains(t.survey.Logical.Sets[set], a.String())
}

// outsideHost returns an address of the family of another one, outside the cluster.
func (t *Tracer) outsideHost(like netip.Addr) netip.Addr { return t.outsideHosts[ipfamily.Of(like)] }

// findOutsideHost returns an address outside the cluster and the destinations of EgressRoutes.
func (f *topology) findOutsideHost(family ipfamily.Family) netip.Addr {
	examples := family.OutsideHosts()
	for _, a := range examples {
		routed := slices.ContainsFunc(f.survey.Cluster.EgressRoutes, func(e clusterstate.EgressPolicy) bool {
			return slices.ContainsFunc(e.Destinations, func(p netip.Prefix) bool { return p.Contains(a) && p.Bits() > 0 })
		})
		if !routed && f.externalSwitchFor(a) == nil && f.survey.Cluster.NetworkAt(a) == nil {
			return a
		}
	}
	return examples[0]
}

// onLinkHost returns the last address of the first external network of a router that nothing in the cluster has, as a
// host on the network.
func (t *Tracer) onLinkHost(router string, like netip.Addr) netip.Addr {
	i := slices.IndexFunc(t.routers, func(r *logicalRouter) bool { return r.Name == router })
	if i < 0 {
		return netip.Addr{}
	}
	for _, p := range t.routers[i].gatewayPorts {
		on := p.switchPort
		if on == nil || on.onSwitch.localnetPort == nil || on.onSwitch.subnet == nil {
			continue
		}
		prefix := ipfamily.FirstPrefix(ipfamily.Of(like), on.onSwitch.subnet.Prefixes)
		for a := netipx.PrefixLastIP(prefix).Prev(); prefix.Contains(a); a = a.Prev() {
			if len(on.onSwitch.findAddressOwners(a)) == 0 && len(t.addressRefs(a)) == 0 && !on.onSwitch.isGateway(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}

// hostIn returns the first host of a prefix.
func hostIn(p netip.Prefix) netip.Addr {
	if p.IsSingleIP() {
		return p.Addr()
	}
	return p.Masked().Addr().Next()
}
