package diagnosis

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// unservedGracePeriod is how long a Service may wait for the address of another controller.
const unservedGracePeriod = time.Minute

// checkServices finds Services whose connections have no backend, and why.
func (p *checker) checkServices() {
	for i := range p.Cluster.Services {
		s := &p.Cluster.Services[i]
		switch {
		case !s.Ours:
			p.checkUnservedService(s)
		case !s.Deleting:
			p.checkServiceEndpoints(s)
		}
	}
}

func (p *checker) checkUnservedService(s *clusterstate.Service) {
	if s.Type != "LoadBalancer" || len(s.Ingress) > 0 || p.now.Sub(s.Created) < unservedGracePeriod {
		return
	}
	class := fmt.Sprintf("has load balancer class %s", s.Class)
	if s.Class == "" {
		class = "has no load balancer class"
	}
	p.report(ServiceNotOurs, []state.Ref{s.Ref},
		"%s %s, which Sallyport does not serve, and no other controller has assigned an address", s.Ref, class)
}

// checkServiceEndpoints finds ports of a Service without endpoints, and why.
func (p *checker) checkServiceEndpoints(s *clusterstate.Service) {
	if len(s.Selector) == 0 {
		return // its endpoints are managed by others
	}
	pods := p.selectedPods(s)
	if len(pods) == 0 {
		if !hasLiveEndpoint(s.Endpoints) {
			p.report(SelectorMatchesNothing, []state.Ref{s.Ref},
				"%s selects pods with %s, but no pod in %s has these labels",
				s.Ref, formatSelector(s.Selector), s.Namespace)
		}
		return
	}
	about := []state.Ref{s.Ref}
	for _, pod := range pods {
		about = append(about, pod.Ref)
	}
	for _, port := range s.Ports {
		if p.checkNamedPort(s, port, pods, about) {
			return
		}
	}
	if !hasLiveEndpoint(s.Endpoints) {
		p.report(PodsNotReady, about, "%s has no pod that is ready: %s", s.Ref,
			joinLimited(p.describePodStates(pods), 3))
		return
	}
	for _, port := range s.Ports {
		p.checkDeclaredPort(s, port, pods, about)
	}
}

// hasLiveEndpoint reports whether connections have a backend: a ready endpoint, or one that is terminating and still
// serving.
func hasLiveEndpoint(endpoints []clusterstate.Endpoint) bool {
	return slices.ContainsFunc(endpoints, func(e clusterstate.Endpoint) bool { return e.Ready || e.Serving && e.End })
}

// selectedPods returns the unfinished pods that a Service selects.
func (p *checker) selectedPods(s *clusterstate.Service) (out []*clusterstate.Pod) {
	for i := range p.Cluster.Pods {
		pod := &p.Cluster.Pods[i]
		if pod.Namespace == s.Namespace && !isPodFinished(pod) && matchesSelector(s.Selector, pod.Labels) {
			out = append(out, pod)
		}
	}
	return out
}

func matchesSelector(selector, labels map[string]string) bool {
	for k, v := range selector {
		if has, there := labels[k]; !there || has != v {
			return false
		}
	}
	return true
}

func formatSelector(selector map[string]string) string {
	var out []string
	for _, k := range sortedKeys(selector) {
		out = append(out, k+"="+selector[k])
	}
	return joinLimited(out, 5)
}

// describePodStates says for each pod why it is not ready.
func (p *checker) describePodStates(pods []*clusterstate.Pod) (out []string) {
	for _, pod := range pods {
		out = append(out, fmt.Sprintf("pod %s %s", pod.Name, p.describePodState(pod)))
	}
	return out
}

// describePodState says why a pod is not ready.
func (p *checker) describePodState(pod *clusterstate.Pod) string {
	if n := p.nodes[pod.Node]; n != nil && !n.Ready {
		return "is on node " + pod.Node + ", which is not Ready"
	}
	switch {
	case pod.Deleting:
		return "is being deleted"
	case pod.Waiting != "":
		return "is waiting: " + pod.Waiting
	case pod.Node == "":
		return "is not scheduled yet"
	case pod.Phase != "Running":
		return "is " + pod.Phase
	}
	return "is running but not ready"
}

// checkNamedPort finds a port whose target is a name that no pod has. Kubernetes creates no endpoints for such a port.
func (p *checker) checkNamedPort(s *clusterstate.Service, port clusterstate.ServicePort, pods []*clusterstate.Pod,
	about []state.Ref,
) bool {
	if _, err := strconv.Atoi(port.Target); err == nil || port.Target == "" {
		return false
	}
	if slices.ContainsFunc(pods, func(pod *clusterstate.Pod) bool { return slices.Contains(pod.PortNames, port.Target) }) {
		return false
	}
	p.report(NamedPortMissing, about,
		"port %d of %s has target port %q, but none of its pods has a container port of that name",
		port.Port, s.Ref, port.Target)
	return true
}

// checkDeclaredPort finds a port whose target no container declares. A pod that declares no ports may listen anywhere.
func (p *checker) checkDeclaredPort(s *clusterstate.Service, port clusterstate.ServicePort, pods []*clusterstate.Pod, about []state.Ref) {
	target, err := strconv.Atoi(port.Target)
	if err != nil {
		return
	}
	var declared []string
	for _, pod := range pods {
		if len(pod.Ports) == 0 || slices.Contains(pod.Ports, target) {
			return
		}
		for _, n := range pod.Ports {
			declared = append(declared, strconv.Itoa(n))
		}
	}
	p.report(TargetPortNotDeclared, about,
		"port %d of %s has target port %d, but the containers of its pods declare %s",
		port.Port, s.Ref, target, joinLimited(declared, 5))
}

// backend identifies a backend of a load balancer. The address alone does not, because several tenants may use it; the
// switch port does.
type backend struct {
	port    string // pod.namespace, as Kube-OVN names the port of a pod
	address netip.AddrPort
}

// checkServiceMonitors finds backends that health checks report offline.
func (p *checker) checkServiceMonitors() {
	offline := map[backend]bool{}
	for _, m := range p.Logical.Monitors {
		offline[backend{m.Port, m.Address}] = m.Status == "offline" || m.Status == "error"
	}
	for i := range p.Cluster.Services {
		if s := &p.Cluster.Services[i]; s.Ours && !s.Deleting {
			p.reportOfflineBackends(s, offline)
		}
	}
}

// reportOfflineBackends reports the backends of a Service that are ready but that health checks report offline.
func (p *checker) reportOfflineBackends(s *clusterstate.Service, offline map[backend]bool) {
	ready := slices.DeleteFunc(slices.Clone(s.Endpoints), func(e clusterstate.Endpoint) bool { return !e.Ready })
	about := []state.Ref{s.Ref}
	var out []string
	for _, e := range ready {
		if !offline[backend{kubeovn.PodPort(e.Pod, s.Namespace), e.Address}] {
			continue
		}
		out, about = append(out, e.Address.String()), append(about, clusterstate.PodRef(s.Namespace, e.Pod))
	}
	if len(out) == 0 {
		return
	}
	f := p.report(HealthCheckOffline, about, "health checks of %s fail for %s (%d of %d backends)", s.Ref,
		joinLimited(out, 3), len(out), len(ready))
	if len(out) < len(ready) {
		f.Severity = Warning
	}
}
