package compile

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// protocols are those that OVN balances. Each has a load balancer of its own.
var protocols = []intent.Protocol{intent.TCP, intent.UDP, intent.SCTP}

// longestAffinity is OVN's limit. Kubernetes allows a day.
const longestAffinity = 65535

// drain is an address of a Service's own that nobody can have (class E). Endpoints that get no new connections are its backends: OVN's
// router translates the replies of backends only, and open connections to an endpoint that is none any more would fall silent.
func (s *service) drain() netip.Addr {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(s.Namespace + "/" + s.Name)) // never fails
	sum := hash.Sum(nil)
	return netip.AddrFrom4([4]byte{240, sum[1], sum[2], sum[3]})
}

// balanceServices wants the load balancers of each Service, and what tells others of its address.
func (c *compiler) balanceServices() {
	for _, s := range c.services {
		if !s.wanted() {
			continue
		}
		if !c.w.Engine.Ports[c.inport()] {
			s.waiting = first(s.waiting, intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf(
				"Kube-OVN has not connected router %s with switch %s yet", c.w.Shard, c.subnet())})
			continue
		}
		if c.restrict(s) {
			for _, p := range protocols {
				c.balance(s, p)
			}
		}
		if address := c.shown(s); address.IsValid() && !c.ending(s.Namespace) {
			c.publish(s, address)
		}
	}
}

// balance wants the load balancer of a Service for one protocol.
func (c *compiler) balance(s *service, protocol intent.Protocol) {
	var vips []intent.VIP
	for _, p := range s.Ports {
		if _, refused := s.refused[p]; refused || p.Protocol != protocol {
			continue
		}
		to, draining := c.backends(s, p)
		vips = append(vips, intent.VIP{Address: socket(s.eip.address, p.Number), Backends: to})
		if len(draining) > 0 && protocol == intent.TCP {
			vips = append(vips, intent.VIP{Address: socket(s.drain(), p.Number), Backends: draining})
		}
	}
	if len(vips) == 0 {
		return
	}
	slices.SortFunc(vips, intent.VIP.Compare)
	var probes []intent.Probe
	if s.Check != nil && protocol != intent.SCTP { // OVN can't check that
		probes = c.check(s, protocol, vips)
	}
	c.in.Row(c.w.Shard, intent.LoadBalancer{
		Service: intent.ServiceOf(s.key.Ref()), Name: s.balancer(protocol), Protocol: protocol, VIPs: vips, Probes: probes,
		Affinity: min(s.Affinity, longestAffinity),
		Flush:    protocol != intent.TCP, // a TCP connection ends by itself, and may do so in peace
		Router:   c.w.Shard, Switch: c.subnet(),
	}, s.key.Ref())
}

// balancer is the name of a Service's load balancer for a protocol.
func (s *service) balancer(protocol intent.Protocol) string {
	return s.Namespace + "-" + s.Name + "-" + string(protocol)
}

//nolint:gosec // a port of a Service: the API server allows at most 65535
func socket(a netip.Addr, port int) netip.AddrPort { return netip.AddrPortFrom(a, uint16(port)) }

// balanced is a key of what is balanced now.
func balanced(protocol intent.Protocol, at netip.AddrPort) string {
	return string(protocol) + " " + at.String()
}

// beside names an object in the namespace of a Service.
func (s *service) beside(kind intent.Kind, name string) intent.ObjectKey {
	return intent.ObjectKey{Kind: kind, Namespace: s.Namespace, Name: name}
}

// publish wants what leads others in the cluster to the external address of a Service: a headless Service with an EndpointSlice,
// and a Backend of Envoy Gateway if that is asked for.
func (c *compiler) publish(s *service, address netip.Addr) {
	name, by := s.Name+"-ext", s.key.Ref()
	labels := ownership.Labels(c.w.Shard)
	labels[kubedcv1.ServiceManagedByLabel] = kubedcv1.ServiceManagedBy
	labels[kubedcv1.SourceServiceLabel] = s.Name
	labels[kubedcv1.EndpointTypeLabel] = kubedcv1.EndpointTypeExternal
	var ports, served []map[string]any
	for _, p := range s.Ports {
		port := map[string]any{"name": p.Name, "port": p.Number, "protocol": strings.ToUpper(string(p.Protocol))}
		served = append(served, maps.Clone(port)) // here a port without a name has an empty one
		if p.Name == "" {
			delete(port, "name")
		}
		ports = append(ports, port)
	}
	c.in.Object(s.beside(intent.Service, name), intent.NewObject(intent.Meta{Labels: labels}, map[string]any{
		"type": "ClusterIP", "clusterIP": "None", "ports": ports,
	}), by)
	sliced := intent.Meta{Labels: map[string]string{"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": ownership.ManagedBy}}
	for key, value := range labels {
		sliced.Labels[key] = value
	}
	c.in.Object(s.beside(intent.EndpointSlice, name), intent.NewBody(sliced, map[string]any{
		"addressType": "IPv4", "ports": served,
		"endpoints": []map[string]any{{"addresses": []string{address.String()}, "conditions": map[string]any{"ready": true}}},
	}), by)
	switch {
	case s.Backend && c.w.NoBackends:
		s.waiting = first(s.waiting, intent.Finding{
			Reason: intent.NoEnvoyGateway, Message: "a Backend is asked for, and there is no Envoy Gateway in the cluster that would know it; " +
				"install its resource definitions and restart the controller, or take the annotation off",
		})
	case s.Backend:
		c.publishBackend(s, address)
	}
}

// publishBackend wants the Backend at the external address. Its endpoints stand for each other, so it has the first port only.
func (c *compiler) publishBackend(s *service, address netip.Addr) {
	i := slices.IndexFunc(s.Ports, func(p snapshot.Port) bool { return p.Protocol == intent.TCP })
	if i < 0 {
		return
	}
	endpoint := map[string]any{"ip": map[string]any{"address": address.String(), "port": s.Ports[i].Number}}
	c.in.Object(s.beside(intent.Backend, s.Name+"-backend"), intent.NewObject(intent.Meta{Labels: ownership.Labels(c.w.Shard)},
		map[string]any{"endpoints": []any{endpoint}}), s.key.Ref())
}
