package trace

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Proxy is a proxy of a Gateway, which ends connections of clients and opens connections of its own.
type Proxy struct {
	Pod     string // namespace/name
	Gateway state.Ref
	Label   string
	Action  string // why the proxy chooses the backend
}

// TraceProxied follows a connection to a proxy, and the connection that the proxy opens to a backend. An invalid
// backend means that the proxy has none to connect to.
func (t *Tracer) TraceProxied(q Query, by Proxy, backend netip.AddrPort) Path {
	out := t.TraceFirst(q)
	if out.IsBroken() {
		return out
	}
	at := Place{Kind: AtProxy, Ref: by.Gateway, Label: by.Label, Action: by.Action}
	out.RequestHops, out.ReplyHops = placeProxy(out.RequestHops, at), placeProxy(out.ReplyHops, at)
	if !backend.IsValid() {
		return out
	}
	second := t.traceFromProxy(by.Pod, backend)
	joined := second
	joined.RequestHops = slices.Concat(out.RequestHops, withoutSender(second.RequestHops))
	if second.Passes() {
		joined.Verdict, joined.Code, joined.Reason, joined.About = out.Verdict, out.Code, out.Reason, out.About
		joined.ReplyHops = slices.Concat(replaceReceiver(second.ReplyHops, at), out.ReplyHops)
	}
	return joined
}

// traceFromProxy follows the connection of a proxy. What leaves through a node enters external networks like packets
// of a client outside, from the node's address.
func (t *Tracer) traceFromProxy(pod string, backend netip.AddrPort) Path {
	q := Query{Pod: pod, Server: backend, Protocol: "tcp"}
	out := t.TraceFirst(q)
	if out.Verdict != Unknown {
		return out
	}
	q = Query{Client: netip.AddrPortFrom(t.outsideHost(backend.Addr()), 0), Server: backend, Protocol: "tcp"}
	if p := t.podsByName[pod]; p != nil {
		if n := t.survey.Cluster.Node(p.Node); n != nil && len(n.Addresses) > 0 {
			q.Client = netip.AddrPortFrom(n.Addresses[0], 0)
		}
	}
	return t.TraceFirst(q)
}

// placeProxy replaces the pod at an end of a connection by the proxy.
func placeProxy(hops []Hop, proxy Place) []Hop {
	found := false
	hops = slices.Clone(hops)
	for i := range hops {
		hops[i].Places = slices.Clone(hops[i].Places)
		for k, at := range hops[i].Places {
			if at.Kind == AtPod {
				hops[i].Places[k], found = proxy, true
			}
		}
	}
	if !found && len(hops) > 0 {
		last := &hops[len(hops)-1]
		last.Places = append(last.Places, proxy)
	}
	return hops
}

// withoutSender returns hops without the place of the sender.
func withoutSender(hops []Hop) []Hop {
	hops = slices.Clone(hops)
	if len(hops) > 0 && len(hops[0].Places) > 0 {
		hops[0].Places = hops[0].Places[1:]
	}
	return hops
}

// replaceReceiver returns hops with the proxy in the place of the receiver.
func replaceReceiver(hops []Hop, proxy Place) []Hop {
	hops = slices.Clone(hops)
	if n := len(hops) - 1; n >= 0 && len(hops[n].Places) > 0 {
		hops[n].Places = append(slices.Clone(hops[n].Places[:len(hops[n].Places)-1]), proxy)
	}
	return hops
}
