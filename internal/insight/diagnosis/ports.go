package diagnosis

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// MaxPortQuestions is the maximum number of ports that one node is asked about. The kind Inspection has the same limit.
const MaxPortQuestions = 64

// addPortQuestions asks the pods behind Services whether they answer. Only TCP and SCTP: programs do not notice the first
// packet of a connection that is not completed, but they receive a datagram.
func (q *inspectionPlanner) addPortQuestions() {
	if !q.scope.Ports {
		return
	}
	ports := q.podPorts()
	for i := range q.Cluster.Services {
		s := &q.Cluster.Services[i]
		if !s.Ours || s.Deleting {
			continue
		}
		for _, e := range s.Endpoints {
			protocol := endpointProtocol(s, e)
			if spec := q.specs[e.Node]; spec != nil && e.Ready && (protocol == "tcp" || protocol == "sctp") {
				q.addPortQuestion(spec, ports[kubeovn.PodPort(e.Pod, s.Namespace)], e.Address, protocol)
			}
		}
	}
}

// podPort is a logical switch port, and the Subnet of its switch.
type podPort struct {
	*logical.SwitchPort
	subnet *clusterstate.Subnet
}

// podPorts returns the switch ports by name.
func (p *checker) podPorts() map[string]podPort {
	out := map[string]podPort{}
	for i := range p.Logical.Switches {
		s := &p.Logical.Switches[i]
		for k := range s.Ports {
			out[s.Ports[k].Name] = podPort{&s.Ports[k], p.subnets[s.Name]}
		}
	}
	return out
}

func (q *inspectionPlanner) addPortQuestion(spec *kubedcv1alpha1.InspectionSpec, at podPort, to netip.AddrPort,
	protocol string,
) {
	if at.SwitchPort == nil || at.subnet == nil || at.MAC == "" || !slices.Contains(at.Addresses, to.Addr()) ||
		len(spec.Ports) >= MaxPortQuestions {
		return
	}
	i := slices.IndexFunc(at.subnet.Gateways, func(a netip.Addr) bool { return ipfamily.Same(a, to.Addr()) })
	if i < 0 {
		return
	}
	question := kubedcv1alpha1.PortQuestion{
		LogicalPort: at.Name, MAC: at.MAC, Address: to.Addr().String(), From: at.subnet.Gateways[i].String(),
		Protocol: protocol, Port: int32(to.Port()),
	}
	if !slices.Contains(spec.Ports, question) {
		spec.Ports = append(spec.Ports, question)
	}
}

// endpointProtocol returns the protocol of the port that an endpoint is for, in lower case.
func endpointProtocol(s *clusterstate.Service, e clusterstate.Endpoint) string {
	for _, p := range s.Ports {
		if p.Name == e.Port {
			return strings.ToLower(p.Protocol)
		}
	}
	return ""
}

// portKey identifies a port of a pod.
type portKey struct {
	logicalPort, protocol string
	address               netip.AddrPort
}

// checkPorts finds Services whose pods, asked through their nodes' agents, do not answer.
func (p *checker) checkPorts() {
	answers := map[portKey]clusterstate.PortAnswer{}
	for _, node := range sortedKeys(p.Inspected) {
		for _, a := range p.Inspected[node].Ports {
			answers[portKey{a.LogicalPort, a.Protocol, a.Address}] = a
		}
	}
	for i := range p.Cluster.Services {
		s := &p.Cluster.Services[i]
		if !s.Ours || s.Deleting {
			continue
		}
		for _, port := range s.Ports {
			p.checkServicePort(s, port, answers)
		}
	}
}

// checkServicePort reports the endpoints of a port that do not answer. If others do, the Service works in part.
func (p *checker) checkServicePort(s *clusterstate.Service, port clusterstate.ServicePort,
	answers map[portKey]clusterstate.PortAnswer,
) {
	asked := 0
	closed, blocked := unansweredPort{about: []state.Ref{s.Ref}}, unansweredPort{about: []state.Ref{s.Ref}}
	for _, e := range s.Endpoints {
		protocol := strings.ToLower(port.Protocol)
		a, known := answers[portKey{kubeovn.PodPort(e.Pod, s.Namespace), protocol, e.Address}]
		if e.Port != port.Name || !known || a.Result == "" {
			continue
		}
		asked++
		switch {
		case a.Result == clusterstate.PortClosed:
			closed.add(s, e)
		case a.Result == clusterstate.PortRejected, a.Result == clusterstate.PortSilent && protocol != "udp":
			blocked.add(s, e)
		}
	}
	for _, c := range []struct {
		code, says string
		unansweredPort
	}{
		{NothingListens, "where nothing listens", closed},
		{PortBlocked, "where the pod does not answer", blocked},
	} {
		if len(c.where) == 0 {
			continue
		}
		f := p.report(c.code, c.about, "port %d of %s leads to %s, %s (%d of %d that were asked)", port.Port, s.Ref,
			joinLimited(c.where, 3), c.says, len(c.where), asked)
		if len(c.where) < asked {
			f.Severity = Warning
		}
	}
}

// unansweredPort collects endpoints that do not answer.
type unansweredPort struct {
	about []state.Ref
	where []string
}

func (u *unansweredPort) add(s *clusterstate.Service, e clusterstate.Endpoint) {
	u.about = append(u.about, clusterstate.PodRef(s.Namespace, e.Pod))
	u.where = append(u.where, fmt.Sprintf("%s of pod %s", e.Address, e.Pod))
}
