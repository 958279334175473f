package diagnosis

import (
	"slices"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// checkFloatingIPs finds floating IPs whose target does not exist or is not ready.
func (p *checker) checkFloatingIPs() {
	for i := range p.Cluster.FIps {
		f := &p.Cluster.FIps[i]
		if f.Deleting || !f.Target.IsValid() {
			continue // its conditions give the reason
		}
		pod := p.floatingIPTarget(f)
		switch {
		case pod == nil && f.VM == "":
			p.report(TargetAbsent, []state.Ref{f.Ref}, "%s has target %s, but no pod has that address", f.Ref, f.Target)
		case pod == nil:
		case len(pod.Addresses) > 0 && !slices.Contains(pod.Addresses, f.Target):
			p.report(TargetMoved, []state.Ref{f.Ref, pod.Ref}, "%s has target %s, but pod %s has %s%s", f.Ref, f.Target,
				pod.Name, pod.Addresses[0],
				p.notRepairedSuffix())
		case !pod.Ready:
			report := p.report(TargetNotReady, []state.Ref{f.Ref, pod.Ref}, "pod %s of %s %s", pod.Name, f.Ref,
				p.describePodState(pod))
			if pod.Phase == "Running" && pod.Waiting == "" {
				report.Severity = Warning // it may still answer
			}
		}
	}
}

// floatingIPTarget returns the pod of a floating IP, by name or by address, or nil.
func (p *checker) floatingIPTarget(f *clusterstate.FIp) *clusterstate.Pod {
	if f.Pod != "" {
		return p.Cluster.Pod(clusterstate.PodRef(f.Namespace, f.Pod))
	}
	return p.PodAt(f.Shard, f.Target)
}

// checkEgressIPs finds egress addresses that no pod uses, whose node is down, or that selected pods do not use.
func (p *checker) checkEgressIPs() {
	for i := range p.Cluster.EgressIPs {
		e := &p.Cluster.EgressIPs[i]
		if e.Selects == 0 && !e.Deleting {
			p.report(EgressSelectsNothing, []state.Ref{e.Ref}, "%s selects no pod", e.Ref)
		}
		if e.Outside.Number > 0 && !e.Deleting {
			p.report(EgressOutsideProject, []state.Ref{e.Ref},
				"%d of the %d pods that %s selects are neither in a project nor on an overlay Subnet of ovn-cluster, "+
					"and not served: %s",
				e.Outside.Number, e.Selects, e.Ref, e.Outside)
		}
		for _, a := range sortedKeys(e.Held) {
			if n := p.nodes[e.Held[a]]; n == nil || !n.Ready {
				p.report(EgressHolderDown, []state.Ref{e.Ref, clusterstate.NodeRef(e.Held[a])},
					"%s of %s is held by node %s, which is not Ready",
					a, e.Ref, e.Held[a])
			}
		}
	}
}
