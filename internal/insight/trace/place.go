package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Place is where a packet is on its path, and what happens to it there. Maps and documents show a path as places.
type Place struct {
	Kind   string    `json:"kind"` // one of the constants below
	Ref    state.Ref `json:"ref,omitzero"`
	Label  string    `json:"label"`
	Action string    `json:"action,omitempty"` // such as "DNAT to 10.0.0.7:8080"
	// Problem is set where a path ends although it should not.
	Problem bool `json:"problem,omitempty"`
}

// Kinds of places.
const (
	AtClient     = "client" // a host outside, client or server
	AtNetwork    = "network"
	AtNode       = "node"
	AtRouter     = "router"
	AtAddress    = "address"
	AtReturnPort = "returnPort"
	AtPod        = "pod"
	AtProxy      = "proxy" // of a Gateway
)

// requestedDrops are the codes of drops that a user or operator asked for: another client may pass.
var requestedDrops = []string{
	SourceRangesDrop, NetworkIsolates, AllowListDrops, NetworkPolicyDrops, SecurityGroupDrops,
}

// Passes reports whether the packet arrives and its reply reaches the client, as far as is known.
func (p Path) Passes() bool { return p.Verdict == Delivered || p.Verdict == Answered }

// IsBroken reports whether the path should be answered and is not. A path that filters end on purpose is not broken,
// nor is one whose end is unknown.
func (p Path) IsBroken() bool {
	return !p.Passes() && p.Verdict != Unknown && !slices.Contains(requestedDrops, p.Code)
}

// Places returns the places of the request and of the reply. A path that is not answered ends at the place that the
// verdict is about.
func (p Path) Places() (request, reply []Place) {
	request, reply = joinPlaces(p.RequestHops), joinPlaces(p.ReplyHops)
	switch {
	case p.Passes():
	case p.Verdict == Unknown && len(request) > 0 && request[len(request)-1].Kind == AtPod: // only the reply is unknown
	case p.Verdict == Lost:
		reply = p.appendEnd(reply)
	default:
		request = p.appendEnd(request)
	}
	return request, reply
}

// joinPlaces returns the places of hops. Consecutive hops at one place are joined.
func joinPlaces(hops []Hop) (out []Place) {
	for _, h := range hops {
		for _, at := range h.Places {
			if n := len(out); n == 0 || out[n-1].Kind != at.Kind || out[n-1].Label != at.Label {
				out = append(out, at)
			} else if last := &out[n-1]; !strings.Contains(last.Action, at.Action) {
				last.Action = strings.TrimPrefix(last.Action+", "+at.Action, ", ")
			}
		}
	}
	return out
}

// appendEnd adds the place where a path ends, or marks the last one if it is about the same object.
func (p Path) appendEnd(places []Place) []Place {
	about := p.endRef()
	end := Place{Kind: placeKind(about), Ref: about, Label: strings.TrimSpace(about.String())}
	if n := len(places); n > 0 && (places[n-1].Ref == about || about == state.Ref{}) {
		end, places = places[n-1], places[:n-1]
	}
	end.Action, end.Problem = strings.TrimPrefix(p.Reason, end.Label+" "), p.IsBroken()
	return append(slices.Clip(places), end)
}

// endRef returns the object at which the path ends: the pod that was asked, or the main object of the verdict.
func (p Path) endRef() state.Ref {
	switch {
	case p.Target != nil:
		return p.Target.Pod
	case len(p.About) > 0:
		return p.About[0]
	default:
		return state.Ref{}
	}
}

// placeKind returns where the object is that a path ends at.
func placeKind(about state.Ref) string {
	switch about.Kind {
	case clusterstate.NodeKind:
		return AtNode
	case clusterstate.PodKind:
		return AtPod
	case string(intent.ExternalNetwork), string(intent.Subnet):
		return AtNetwork
	case string(intent.FIp), string(intent.EIp), string(intent.Service), string(intent.EgressIP):
		return AtAddress
	default:
		return AtRouter
	}
}

// EndedHops returns the hops of the request, and those of a reply that is lost. If the path is broken, the last hop
// says why.
func (p Path) EndedHops() []Hop {
	hops := slices.Clone(p.RequestHops)
	if p.Verdict == Lost {
		hops = append(hops, p.ReplyHops...)
	}
	if p.Passes() {
		return hops
	}
	end := Hop{Text: p.Reason, Broken: p.IsBroken()}
	if end.About = p.endRef(); end.About != (state.Ref{}) {
		end.Text = strings.TrimPrefix(p.Reason, end.About.String()+" ")
	}
	if n := len(hops); n > 0 && hops[n-1].About == end.About {
		end.Node, end.Row, end.Packet, hops = hops[n-1].Node, hops[n-1].Row, hops[n-1].Packet, hops[:n-1]
	}
	return append(hops, end)
}

// atOutside is a host outside the cluster.
func (w *traceRun) atOutside(a netip.Addr) Place {
	if w.query.Pod == "" {
		return Place{Kind: AtClient, Label: "client " + a.String()}
	}
	return Place{Kind: AtClient, Label: "host " + a.String()}
}

func (f *topology) atNetwork(s *logicalSwitch) Place {
	ref := f.networkRef(s)
	out := Place{Kind: AtNetwork, Ref: ref, Label: ref.Name}
	if s.subnet != nil && s.subnet.Tag > 0 {
		out.Action = fmt.Sprintf("VLAN %d", s.subnet.Tag)
	}
	return out
}

// atExit is the node that sends a packet to an external network, and the network.
func (w *traceRun) atExit(on *logicalSwitch, f packet) []Place {
	return []Place{atNode(w.nodeOfChassis(f.chassis), ""), w.atNetwork(on)}
}

func atNode(node, action string) Place {
	return Place{Kind: AtNode, Ref: clusterstate.NodeRef(node), Label: node, Action: action}
}

func atRouter(router, format string, args ...any) []Place {
	return []Place{{Kind: AtRouter, Label: "router " + router, Action: fmt.Sprintf(format, args...)}}
}

func atAddress(label, format string, args ...any) []Place {
	return []Place{{Kind: AtAddress, Label: label, Action: fmt.Sprintf(format, args...)}}
}

func atReturnPort(network, action string) []Place {
	return []Place{{Kind: AtReturnPort, Label: "return port of " + network, Action: action}}
}

// atPod is the pod at one end of the path.
func atPod(about state.Ref, endpoint, node string) []Place {
	out := Place{Kind: AtPod, Ref: about, Label: strings.TrimSpace(about.Name + " " + endpoint)}
	if node != "" {
		out.Action = "on " + node
	}
	return []Place{out}
}
