package trace

import (
	"fmt"
	"net/netip"
	"slices"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Target is the port of a pod that gets a packet, and how its node can ask it.
type Target struct {
	Pod         state.Ref
	Node        string
	LogicalPort string
	MAC         string
	Gateway     netip.Addr
	Address     netip.AddrPort // port 0 for ICMP
	Protocol    string
}

// targetOf returns the port of the pod that receives a packet, or nil if the receiver is no pod that can be asked.
func (w *traceRun) targetOf(end outcome) *Target {
	at := end.switchPort
	out := &Target{
		Pod: w.switchPortRef(at), Node: w.nodeOfChassis(end.packet.chassis), LogicalPort: at.Name, MAC: at.MAC,
		Address: end.packet.tuple().destination, Protocol: w.query.Protocol,
	}
	if out.Protocol == "icmp" {
		out.Address = netip.AddrPortFrom(out.Address.Addr(), 0)
	}
	out.Gateway = at.onSwitch.gatewayFor(out.Address.Addr())
	if out.Pod.Kind != clusterstate.PodKind || out.Node == "" || out.MAC == "" || !out.Gateway.IsValid() ||
		!ipfamily.Same(out.Gateway, out.Address.Addr()) || out.Gateway == out.Address.Addr() {
		return nil
	}
	return out
}

// Question returns the question to the agent of the target's node.
func (t *Target) Question() kubedcv1alpha1.PortQuestion {
	return kubedcv1alpha1.PortQuestion{
		LogicalPort: t.LogicalPort, MAC: t.MAC, Address: t.Address.Addr().String(), From: t.Gateway.String(),
		Protocol: t.Protocol, Port: int32(t.Address.Port()),
	}
}

// port returns the port as text, such as "port 80/tcp".
func (t *Target) port() string {
	if t.Protocol == "icmp" {
		return "pings"
	}
	return fmt.Sprintf("port %d/%s", t.Address.Port(), t.Protocol)
}

// AddPortQuestions adds the questions about the pods that the paths lead to, each to its node. Nodes that are not asked
// anything else are asked only this.
func AddPortQuestions(s *clusterstate.State, specs []kubedcv1alpha1.InspectionSpec, paths []Path,
) []kubedcv1alpha1.InspectionSpec {
	for _, p := range paths {
		if p.Target == nil {
			continue
		}
		if n := s.Cluster.Node(p.Target.Node); n == nil || !n.Ready {
			continue
		}
		i := slices.IndexFunc(specs, func(o kubedcv1alpha1.InspectionSpec) bool { return o.Node == p.Target.Node })
		if i < 0 {
			i, specs = len(specs), append(specs, kubedcv1alpha1.InspectionSpec{Node: p.Target.Node})
		}
		q := p.Target.Question()
		if !slices.Contains(specs[i].Ports, q) && len(specs[i].Ports) < diagnosis.MaxPortQuestions {
			specs[i].Ports = append(specs[i].Ports, q)
		}
	}
	return specs
}

// applyPortAnswer replaces the computed verdict by what the pod answered, if its node was asked.
func (w *traceRun) applyPortAnswer(out *Path) {
	if out.Target == nil {
		return
	}
	i, asked := w.survey.Inspected[out.Target.Node]
	if !asked {
		return
	}
	k := slices.IndexFunc(i.Ports, func(a clusterstate.PortAnswer) bool {
		return a.LogicalPort == out.Target.LogicalPort && a.Address == out.Target.Address && a.Protocol == out.Target.Protocol
	})
	if k < 0 {
		if i.Problem != "" {
			out.Caveats = append(out.Caveats, fmt.Sprintf("whether the pod answers is not known: node %s was asked, but %s",
				out.Target.Node, i.Problem))
		}
		return
	}
	out.applyAnswer(i.Ports[k])
}

// applyAnswer sets the verdict from the answer of the pod. UDP servers need not answer an empty datagram.
func (p *Path) applyAnswer(a clusterstate.PortAnswer) {
	pod, port := p.Target.Pod, p.Target.port()
	switch a.Result {
	case clusterstate.PortOpen:
		p.Verdict = Answered
	case clusterstate.PortClosed:
		p.Verdict, p.Code = Refused, diagnosis.NothingListens
		p.Reason = fmt.Sprintf("nothing listens on %s of %s: it was asked on node %s, and refused", port, pod, p.Target.Node)
	case clusterstate.PortRejected:
		p.Verdict, p.Code = Refused, diagnosis.PortBlocked
		p.Reason = fmt.Sprintf("a firewall in %s rejects %s", pod, port)
	case clusterstate.PortSilent:
		if p.Target.Protocol == "udp" {
			p.Caveats = append(p.Caveats, fmt.Sprintf("%s did not refuse an empty datagram to %s; whether a server answers "+
				"depends on what it is asked", pod, port))
			return
		}
		p.Verdict, p.Code, p.ReplyHops = Dropped, diagnosis.PortBlocked, nil
		p.Reason = fmt.Sprintf("%s does not answer %s, although the packet reaches it: a firewall in the pod drops it, or "+
			"its program hangs", pod, port)
	default:
		p.Caveats = append(p.Caveats, fmt.Sprintf("whether the pod answers is not known: node %s: %s", p.Target.Node,
			a.Problem))
	}
	if p.Code != "" {
		p.nameService()
	}
}

// nameService puts the Service that chose the port before the pod.
func (p *Path) nameService() {
	p.About = []state.Ref{p.Target.Pod}
	i := slices.IndexFunc(p.PassedRefs, func(r state.Ref) bool { return r.Kind == string(intent.Service) })
	if i < 0 {
		return
	}
	p.About = []state.Ref{p.PassedRefs[i], p.Target.Pod}
	p.Reason += fmt.Sprintf("; %s sends it there", p.PassedRefs[i])
}
