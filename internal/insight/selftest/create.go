package selftest

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
)

// createProjects creates the server's project and one for the client of each network, and waits for them.
func (r *run) createProjects(ctx context.Context) bool {
	const check = "Projects"
	r.ShowProgress("creating Projects")
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	begun := r.Now()
	server := r.newProject(serverProject, r.cluster.networks[0])
	clients := make([]*kubedcv1.Project, len(r.cluster.networks))
	objects := []client.Object{r.newOrganization(), server}
	for i, n := range r.cluster.networks {
		clients[i] = r.newProject(n.clientProject, n)
		objects = append(objects, clients[i])
	}
	for _, o := range objects {
		if err := r.create(ctx, o); err != nil {
			r.failObject(check, o, err)
			return false
		}
	}
	if err := r.waitFor(ctx, server, findMissingStatus); err != nil {
		r.failObject(check, server, err)
		return false
	}
	programmed := 1
	for i, n := range r.cluster.networks {
		if err := r.waitFor(ctx, clients[i], findMissingStatus); err != nil {
			r.failObject(check, clients[i], err)
			n.problem = "its client has no project"
			continue
		}
		n.egress, _ = netip.ParseAddr(clients[i].Status.ExternalIP)
		programmed++
	}
	r.pass(check, "%d of %d ready after %s", programmed, 1+len(clients), r.since(begun))
	return programmed > 1
}

// startPods starts a server and a client for each network, on different nodes.
func (r *run) startPods(ctx context.Context) bool {
	const check = "Pods"
	r.ShowProgress("starting pods")
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	settling, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	begun, started := r.Now(), 0
	r.eachPod(func(n *network, pod *corev1.Pod) {
		if err := r.createPod(ctx, settling, pod); err != nil {
			r.failObject(check, pod, err)
			n.problem = "its pods do not run"
		}
	})
	r.eachPod(func(n *network, pod *corev1.Pod) {
		if err := r.waitFor(ctx, pod, findPodProblem); err != nil {
			r.failObject(check, pod, err)
			n.problem = "its pods do not run"
			return
		}
		started++
	})
	if started == 0 {
		return false
	}
	r.pass(check, "%d ready after %s", started, r.since(begun))
	return true
}

// eachPod visits the server and the client of each network without problems.
func (r *run) eachPod(visit func(*network, *corev1.Pod)) {
	for _, n := range r.cluster.networks {
		for _, key := range []client.ObjectKey{n.server, n.client} {
			if n.problem == "" {
				visit(n, r.newPod(key, r.nodeOf(n, key)))
			}
		}
	}
}

// createAddresses creates a FIp and a Service for the server of each network.
func (r *run) createAddresses(ctx context.Context) bool {
	r.ShowProgress("creating FIps and Services")
	for _, n := range r.cluster.networks {
		if n.problem != "" {
			continue
		}
		fip, service := r.newFIP(n), r.newService(n)
		n.awaitFIP = r.createAddress(ctx, n.check(fipCheck), fip, func() string { return fip.Status.ExternalIP })
		n.awaitService = r.createAddress(ctx, n.check(serviceCheck), service, func() string {
			for _, ingress := range service.Status.LoadBalancer.Ingress {
				return ingress.IP
			}
			return ""
		})
	}
	return true
}

// createAddress creates an object. The returned function waits until it is Programmed, and returns its address.
func (r *run) createAddress(ctx context.Context, check string, o client.Object, read func() string,
) func(context.Context) netip.Addr {
	err := r.create(ctx, o)
	return func(ctx context.Context) (out netip.Addr) {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		if err == nil {
			err = r.waitFor(ctx, o, findMissingStatus)
		}
		if err == nil {
			out, err = netip.ParseAddr(read())
		}
		if err != nil {
			r.failObject(check, o, err)
		}
		return out
	}
}
