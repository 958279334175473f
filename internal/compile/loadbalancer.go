package compile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// protocols are the protocols that OVN can load-balance. Each has load balancers of its own.
var protocols = []intent.Protocol{intent.TCP, intent.UDP, intent.SCTP}

// maxAffinity is OVN's limit of the affinity timeout in seconds. Kubernetes allows a day.
const maxAffinity = 65535

// emitLoadBalancers adds the load balancers and VIPs of Services, and their companion objects.
func (c *compiler) emitLoadBalancers() {
	shared := map[vipClass][]intent.VIP{}
	for _, s := range c.services {
		if !s.isWanted() {
			continue
		}
		if !c.w.Engine.RouterPorts[c.internalPortName()] {
			s.waiting = firstProblem(s.waiting, intent.Finding{Reason: intent.WaitingForEngine, Message: fmt.Sprintf(
				"Kube-OVN has not connected router %s to switch %s yet", c.w.Shard, c.subnetName())})
			continue
		}
		if c.emitSourceRanges(s) {
			for _, p := range protocols {
				class := vipClass{p, min(s.AffinitySeconds, maxAffinity)}
				vips, drained := c.listVIPs(s, p)
				switch {
				case len(vips) == 0:
				case s.HealthCheck != nil && p != intent.SCTP: // OVN has no SCTP health checks
					c.emitCheckedLoadBalancer(s, class, vips, drained)
				default:
					shared[class] = append(append(shared[class], vips...), drained...)
					s.addDependency(c.sharedLoadBalancersRef())
				}
			}
		}
		if address := c.statusAddress(s); address.IsValid() && s.first == nil && !c.isTerminating(s.Namespace) {
			c.emitCompanions(s, address)
		}
	}
	c.emitSharedLoadBalancers(shared)
}

// listVIPs returns the VIPs of a Service for one protocol, and those of its endpoints that are drained.
func (c *compiler) listVIPs(s *service, protocol intent.Protocol) (vips, drained []intent.VIP) {
	for _, p := range s.Ports {
		if _, refused := s.refusedPorts[p]; refused || p.Protocol != protocol {
			continue
		}
		v := intent.VIP{Protocol: protocol, Address: newAddrPort(s.eip.address, p.Number), Service: intent.ServiceKey(s.key.Ref())}
		to, draining := c.selectBackends(s, p)
		v.Backends = to
		vips = append(vips, v)
		if len(draining) > 0 && protocol == intent.TCP {
			v.Address, v.Backends = c.chooseDrainAddress(s, p.Number), draining
			drained = append(drained, v)
		}
	}
	return vips, drained
}

// chooseDrainAddress returns an address that no host and no other VIP has. Endpoints that get no new connections are
// backends of it: OVN's router translates replies of backends only, so open connections to an endpoint that is no
// backend any more would get no replies.
func (c *compiler) chooseDrainAddress(s *service, port int) netip.AddrPort {
	pool := internalByFamily[ipfamily.Of(s.eip.address)].drainPool
	for number := ownership.HashName(s.Namespace + "/" + s.Name); ; number++ {
		at := newAddrPort(addressAt(pool, number), port)
		if owner, taken := c.drainAddresses[at]; !taken || owner == s.key {
			c.drainAddresses[at] = s.key
			return at
		}
		c.drainCollides = true
	}
}

// emitCheckedLoadBalancer adds the load balancer of a Service with health checks. No other Service shares it: for each
// change of a load balancer with health checks, northd computes everything again.
func (c *compiler) emitCheckedLoadBalancer(s *service, class vipClass, vips, drained []intent.VIP) {
	b := c.newLoadBalancer(class, s.loadBalancerName(class.protocol))
	b.Service = intent.ServiceKey(s.key.Ref())
	b.IPPortMappings = c.emitHealthChecks(s, class.protocol, vips)
	c.out.AddRow(c.w.Shard, b, s.key.Ref())
	for _, v := range slices.Concat(vips, drained) {
		c.emitVIP(v, b.ID())
	}
}

// emitVIP adds a VIP to a load balancer.
func (c *compiler) emitVIP(v intent.VIP, loadBalancer string) {
	v.LoadBalancer = loadBalancer
	by, _ := intent.ParseServiceKey(v.Service) // listVIPs has written it
	c.out.AddRow(c.w.Shard, v, by)
}

// newLoadBalancer returns a load balancer without VIPs.
func (c *compiler) newLoadBalancer(class vipClass, name string) intent.LoadBalancer {
	return intent.LoadBalancer{
		Name: name, Protocol: class.protocol, AffinityTimeout: class.affinity,
		CTFlush: class.protocol != intent.TCP, // TCP connections end by themselves and are drained
		Router:  c.w.Shard, Switches: c.podSwitches(),
	}
}

// loadBalancerName returns the name of a Service's load balancer for a protocol.
func (s *service) loadBalancerName(protocol intent.Protocol) string {
	return s.Namespace + "-" + s.Name + "-" + string(protocol)
}

//nolint:gosec // the API server allows ports up to 65535
func newAddrPort(a netip.Addr, port int) netip.AddrPort { return netip.AddrPortFrom(a, uint16(port)) }

// companionKey returns the key of an object in the namespace of a Service.
func (s *service) companionKey(kind intent.Kind, name string) intent.ObjectKey {
	return intent.ObjectKey{Kind: kind, Namespace: s.Namespace, Name: name}
}

// emitCompanions adds the objects that let others in the cluster use the external address of a Service: a headless
// Service with an EndpointSlice, and a Backend of Envoy Gateway if requested.
func (c *compiler) emitCompanions(s *service, address netip.Addr) {
	name, by := s.Name+"-ext", s.key.Ref()
	labels := ownership.ManagedLabels(c.w.Shard)
	labels[kubedcv1.ServiceManagedByLabel] = kubedcv1.ServiceManagedBy
	labels[kubedcv1.SourceServiceLabel] = s.Name
	labels[kubedcv1.EndpointTypeLabel] = kubedcv1.EndpointTypeExternal
	var ports, served []map[string]any
	for _, p := range s.Ports {
		port := map[string]any{"name": p.Name, "port": p.Number, "protocol": strings.ToUpper(string(p.Protocol))}
		served = append(served, maps.Clone(port)) // an EndpointSlice needs the name, even if empty
		if p.Name == "" {
			delete(port, "name")
		}
		ports = append(ports, port)
	}
	c.out.AddObject(s.companionKey(intent.Service, name), intent.NewObject(intent.Meta{Labels: labels}, map[string]any{
		"type": "ClusterIP", "clusterIP": "None", "ports": ports,
	}), by)
	sliced := intent.Meta{Labels: map[string]string{
		"kubernetes.io/service-name":             name,
		"endpointslice.kubernetes.io/managed-by": ownership.ManagedBy,
	}}
	for key, value := range labels {
		sliced.Labels[key] = value
	}
	c.out.AddObject(s.companionKey(intent.EndpointSlice, name), intent.NewSpeclessObject(sliced, map[string]any{
		"addressType": ipfamily.Of(address).String(), "ports": served,
		"endpoints": []map[string]any{{
			"addresses":  []string{address.String()},
			"conditions": map[string]any{"ready": true},
		}},
	}), by)
	switch {
	case s.WantsBackend && c.w.BackendCRDMissing:
		s.waiting = firstProblem(s.waiting, intent.Finding{
			Reason: intent.NoEnvoyGateway,
			Message: "a Backend was requested, but Envoy Gateway's CRDs are not installed; " +
				"install them and restart the controller, or remove the annotation",
		})
	case s.WantsBackend:
		c.emitEnvoyBackend(s, address)
	}
}

// emitEnvoyBackend adds the Backend for the external address. Envoy Gateway treats its endpoints as alternatives, so it
// has the first TCP port only.
func (c *compiler) emitEnvoyBackend(s *service, address netip.Addr) {
	i := slices.IndexFunc(s.Ports, func(p snapshot.Port) bool { return p.Protocol == intent.TCP })
	if i < 0 {
		return
	}
	endpoint := map[string]any{"ip": map[string]any{"address": address.String(), "port": s.Ports[i].Number}}
	c.out.AddObject(s.companionKey(intent.Backend, s.Name+"-backend"),
		intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)},
			map[string]any{"endpoints": []any{endpoint}}), s.key.Ref())
}
