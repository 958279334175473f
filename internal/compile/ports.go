package compile

import (
	"fmt"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// The maximum number of ports of a Service, and of all Services in a namespace. Kubernetes lets a Service have as many
// as fit into an object, about ten thousand. Each port costs rows, flows on every node, and time in each run of the
// project: with 4,000 ports in one Service a run took more than 8 s, and the Service did not work after two minutes.
const (
	maxServicePorts   = 1000
	maxNamespacePorts = 5000
)

// limitPorts removes ports over the limits, the last ones of the youngest Services first. Later passes do not see them.
func (c *compiler) limitPorts() {
	left := map[string]int{} // remaining ports by namespace
	for _, s := range c.services {
		if s.first != nil { // it comes after the other, and has the same ports
			s.Ports, s.excessPorts = s.first.Ports, s.first.excessPorts
			continue
		}
		if _, known := left[s.Namespace]; !known {
			left[s.Namespace] = maxNamespacePorts
		}
		requested := len(s.Ports)
		allowed := min(requested, maxServicePorts, left[s.Namespace])
		left[s.Namespace] -= allowed
		s.Ports = s.Ports[:allowed:allowed]
		if allowed == requested {
			continue
		}
		s.excessPorts = intent.Finding{Reason: intent.TooManyPorts, Message: fmt.Sprintf(
			"%d of its %d ports are ignored: the limit is %d for a Service and %d for all Services of a namespace; "+
				"use fewer ports, or several namespaces",
			requested-allowed, requested, maxServicePorts, maxNamespacePorts)}
	}
}

// checkPortsLeft refuses a Service that has no port left.
func (s *service) checkPortsLeft() intent.Finding {
	if s.excessPorts.OK() || len(s.Ports) > 0 {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NoPortsLeft, Message: s.excessPorts.Message}
}

// endpointsForPort returns the endpoints of a port that may get connections. They are indexed by port once, because
// there may be thousands of both.
func (c *compiler) endpointsForPort(s *service, port string) []snapshot.Endpoint {
	if s.endpointsByPort == nil {
		s.endpointsByPort = map[string][]snapshot.Endpoint{}
		for _, e := range s.Endpoints {
			if c.checkEndpoint(s, e).OK() {
				s.endpointsByPort[e.PortName] = append(s.endpointsByPort[e.PortName], e)
			}
		}
	}
	return s.endpointsByPort[port]
}
