package compile

import (
	"fmt"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// How many ports a Service, and all Services of a namespace together, may have. Kubernetes lets a Service have as many
// as fit into an object, about ten thousand, and each costs rows, flows on every node, and a run of the whole project:
// with 4,000 ports in one Service a run took more than 8 s, and the Service was not there after two minutes.
const (
	maxServicePorts   = 1000
	maxNamespacePorts = 5000
)

// limitPorts leaves out the ports that are too many, the last ones of the youngest Services first. What is left out is
// looked at by nobody.
func (c *compiler) limitPorts() {
	left := map[string]int{} // of a namespace
	for _, s := range c.services {
		if _, known := left[s.Namespace]; !known {
			left[s.Namespace] = maxNamespacePorts
		}
		asked := len(s.Ports)
		may := min(asked, maxServicePorts, left[s.Namespace])
		left[s.Namespace] -= may
		s.Ports = s.Ports[:may:may]
		if may == asked {
			continue
		}
		s.excessPorts = intent.Finding{Reason: intent.TooManyPorts, Message: fmt.Sprintf(
			"%d of its %d ports are left out: a Service may have %d, and those of a namespace %d together; use fewer, or several namespaces",
			asked-may, asked, maxServicePorts, maxNamespacePorts)}
	}
}

// checkPortsLeft refuses a Service of which no port is left.
func (s *service) checkPortsLeft() intent.Finding {
	if s.excessPorts.OK() || len(s.Ports) > 0 {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NoPortsLeft, Message: s.excessPorts.Message}
}

// endpointsForPort are the endpoints of a port that can be reached. They are sorted by port once: there may be
// thousands of both.
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
