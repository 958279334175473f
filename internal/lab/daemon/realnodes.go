package daemon

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/internal/lab/boot"
	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/pki"
	"github.com/sallyport/sallyport/internal/lab/realnode"
	"github.com/sallyport/sallyport/internal/lab/world"
)

// prepareRealNodes makes the real nodes, of which nothing runs yet.
func (d *Daemon) prepareRealNodes(shop realnode.Shop) error {
	shop.Cgroups = realnode.Cgroups{Lab: d.config.Name, Dir: d.config.path(Cgroups), Hierarchies: d.config.Cgroups}
	if d.config.Blueprint.RealNodes > 0 {
		if err := shop.Cgroups.Mount(); err != nil {
			return err
		}
	}
	for name, c := range d.chassis {
		if c.Node.Real {
			n := &realnode.Node{Shop: shop, Node: c.Node}
			d.real[name], c.Wrap = n, n.Wrap
		}
	}
	return nil
}

// realNodeSteps bring real nodes up beside the rest of the lab: they are ready when Kube-OVN's daemon is.
func (d *Daemon) realNodeSteps() []boot.Step {
	if len(d.real) == 0 {
		return nil
	}
	return []boot.Step{
		{Name: "container runtimes", After: []string{"nodes"}, Run: func(ctx context.Context) error {
			return d.eachReal(ctx, func(ctx context.Context, n *realnode.Node) error { return n.StartRuntime(ctx) })
		}},
		{
			Name: "kubelets", After: []string{"container runtimes", "node objects"},
			Run: func(ctx context.Context) error {
				return d.eachReal(ctx, func(_ context.Context, n *realnode.Node) error { return d.startKubelet(n) })
			},
		},
		{Name: "real nodes", After: []string{"kubelets", "kube-ovn"}, Run: func(ctx context.Context) error {
			return d.eachReal(ctx, d.startNetwork)
		}},
	}
}

func (d *Daemon) eachReal(ctx context.Context, fn func(context.Context, *realnode.Node) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range d.real {
		group.Go(func() error { return fn(ctx, n) })
	}
	return group.Wait()
}

// registerReal makes the Node before its kubelet does, with the labels that the kubelet may not set: Kube-OVN begins
// with it at once.
func (d *Daemon) registerReal(ctx context.Context, n *realnode.Node) error {
	labels := d.nodeLabels(n.Node)
	labels["node-role.kubernetes.io/control-plane"] = ""
	labels["ovn.kubernetes.io/ovs_dp_type"] = "userspace"
	_, err := d.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: n.Management.Addr().String()},
			{Type: corev1.NodeHostName, Address: n.Name},
		}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register node %s: %w", n.Name, err)
	}
	return nil
}

// startKubelet gives those on the node who talk to the API server their credentials.
func (d *Daemon) startKubelet(n *realnode.Node) error {
	var err error
	for config, subject := range map[*string]pki.Subject{
		&n.KubeletConfig: {Name: "system:node:" + n.Name, Groups: []string{"system:nodes"}},
		&n.ProxyConfig:   {Name: "system:kube-proxy"},
		&n.NetworkConfig: {Name: "kube-ovn-cni:" + n.Name, Groups: []string{"system:masters"}},
	} {
		path, issueErr := d.cluster.NodeKubeconfig(subject)
		*config, err = path, errors.Join(err, issueErr)
	}
	if err != nil {
		return err
	}
	return n.StartKubelet()
}

var nodeKind = schema.GroupVersionKind{Version: "v1", Kind: "Node"}

func (d *Daemon) startNetwork(ctx context.Context, n *realnode.Node) error {
	if err := n.StartNetwork(ctx); err != nil {
		return err
	}
	return d.objects.Wait(ctx, manifest.Ref{GVK: nodeKind, Name: n.Name}, manifest.True("Ready"))
}

// cutPower ends a real node: its processes, and all that its kernel had.
func (d *Daemon) cutPower(n *realnode.Node, c *engine.Chassis) error {
	err := errors.Join(c.Kill(), n.Kill(), c.Demolish())
	for _, s := range d.config.Blueprint.Segments() {
		err = errors.Join(err, netns.Own().DeleteLink(world.PortName(s.Name, n.Name)))
	}
	return err
}

// bootReal builds a real node and starts its switch: on an empty disk, or on that which a power cut left.
func (d *Daemon) bootReal(ctx context.Context, c *engine.Chassis, start func(context.Context) error) error {
	if err := c.Build(); err != nil {
		return err
	}
	if err := attach(c, d.config.Blueprint); err != nil {
		return err
	}
	n := d.real[c.Node.Name]
	n.NS = c.NS
	if err := n.Boot(ctx); err != nil {
		return err
	}
	return start(ctx)
}

// reboot brings a real node back after a power cut.
func (d *Daemon) reboot(ctx context.Context, n *realnode.Node, c *engine.Chassis) error {
	if err := d.bootReal(ctx, c, c.Restart); err != nil {
		return err
	}
	if err := n.StartRuntime(ctx); err != nil {
		return err
	}
	if err := d.startKubelet(n); err != nil {
		return err
	}
	return d.startNetwork(ctx, n)
}

// importImage loads a container image on every real node that runs.
func (d *Daemon) importImage(ctx context.Context, file string) error {
	if len(d.real) == 0 {
		return errors.New("the lab has no real nodes, and only these run container images; start it with --real-nodes")
	}
	return d.eachReal(ctx, func(ctx context.Context, n *realnode.Node) error {
		if d.state(n.Name) == killed {
			return nil
		}
		return n.ImportImage(ctx, file)
	})
}

// findPodNetwork is the network namespace of a pod of a real node: a file, as the lab sees it.
func (d *Daemon) findPodNetwork(ctx context.Context, namespace, pod string) (PodNetwork, error) {
	for _, n := range d.real {
		if d.state(n.Name) == killed {
			continue
		}
		path, err := n.PodNetwork(ctx, namespace, pod)
		if err != nil || path != "" {
			return PodNetwork{Path: path}, err
		}
	}
	return PodNetwork{}, fmt.Errorf("no real node has pod %s of namespace %s", pod, namespace)
}
