package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/boot"
	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/kubelet"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/proc"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/internal/lab/world"
)

// start brings the lab up. The API server takes longest, so everything that does not need it runs beside it.
func (d *Daemon) start(daemonCtx context.Context, report func(boot.Timing)) error {
	ctx, cancel := context.WithCancelCause(daemonCtx)
	defer cancel(nil)
	if !d.config.Deadline.IsZero() {
		var release context.CancelFunc
		ctx, release = context.WithDeadline(ctx, d.config.Deadline)
		defer release()
	}
	d.processes.Ended = func(p *proc.Process) {
		cancel(fmt.Errorf("%s ended: %s\n%s", p.Spec.Name, p.State().Detail, d.processes.Tail(p.Spec.Name)))
	}
	steps := []boot.Step{
		{Name: "kubernetes API", Run: d.cluster.StartAPI},
		{Name: "clients", After: []string{"kubernetes API"}, Run: func(context.Context) error {
			return d.connect(daemonCtx)
		}},
		{Name: "doors", After: []string{"clients", "OVN databases"}, Run: func(context.Context) error {
			return openDoors(d.config.Doors)
		}},
		{Name: "controllers", After: []string{"clients"}, Run: func(context.Context) error {
			return d.cluster.StartControllers()
		}},
		{Name: "resource definitions", After: []string{"clients"}, Run: func(ctx context.Context) error {
			return d.cluster.Define(ctx, d.objects)
		}},
		{Name: "wires", Run: func(context.Context) error {
			return engine.Underlay(blueprint.UnderlayMTU, d.config.Blueprint.ServerAddresses())
		}},
		{Name: "outside world", Run: func(ctx context.Context) error { return world.Build(ctx, d.config.Blueprint) }},
		{Name: "outside hosts", After: []string{"outside world"}, Run: func(context.Context) error {
			return d.startHosts(daemonCtx)
		}},
		{Name: "OVN databases", After: []string{"wires"}, Run: d.central.Start},
		{Name: "nodes", After: []string{"wires", "outside world"}, Run: d.startChassis},
		{Name: "chassis", After: []string{"nodes", "OVN databases"}, Run: d.waitChassis},
		{Name: "tunnels", After: []string{"nodes"}, Run: d.warmTunnels},
		{Name: "node objects", After: []string{"clients", "nodes"}, Run: d.registerNodes},
		{Name: "control", After: []string{"node objects"}, Run: func(context.Context) error { return d.serve() }},
		{Name: "network objects", After: []string{"resource definitions"}, Run: func(ctx context.Context) error {
			return d.kubeovn.Describe(ctx, d.objects)
		}},
		{
			Name:  "kube-ovn",
			After: []string{"node objects", "network objects", "chassis", "controllers"},
			Run:   d.startKubeOVN,
		},
		{Name: "flows", After: []string{"kube-ovn", "tunnels"}, Run: d.central.Sync},
		{Name: "fake pods", After: []string{"kube-ovn"}, Run: d.fakePods},
	}
	err := boot.Run(ctx, append(steps, d.optionalSteps()...), func(t boot.Timing) {
		d.mu.Lock()
		d.timings = append(d.timings, t)
		d.mu.Unlock()
		report(t)
	})
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx) // the process that ended, not what its end stopped
	}
	return err
}

// optionalSteps are those of labs with real nodes or BGP.
func (d *Daemon) optionalSteps() []boot.Step {
	steps := d.realNodeSteps()
	if len(d.speakers) > 0 {
		steps = append(steps, boot.Step{Name: "BGP", After: []string{"nodes"}, Run: d.startBGP})
	}
	return steps
}

// providers are the external networks as every chassis carries them.
func providers(b blueprint.Blueprint) (out []engine.Provider) {
	for _, n := range b.Networks {
		out = append(out, engine.Provider{Network: n.Name, Interface: n.Name, VLAN: n.VLAN})
	}
	return out
}

// eachChassis runs fn for all chassis side by side.
func (d *Daemon) eachChassis(ctx context.Context, fn func(context.Context, *engine.Chassis) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range d.chassis {
		group.Go(func() error {
			if err := fn(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", c.Node.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (d *Daemon) startChassis(ctx context.Context) error {
	return d.eachChassis(ctx, func(ctx context.Context, c *engine.Chassis) error {
		if c.Node.Real {
			return d.bootReal(ctx, c, c.Start)
		}
		if err := c.Build(); err != nil {
			return err
		}
		if err := attach(c, d.config.Blueprint); err != nil {
			return err
		}
		return c.Start(ctx)
	})
}

// attach cables a node to every segment: bare to external networks, whose interface belongs to OVS, and with addresses
// to plain ones. The first uplink carries the node's default route.
func attach(c *engine.Chassis, b blueprint.Blueprint) error {
	routed := false
	for _, s := range b.Segments() {
		end := netns.End{NS: c.NS, Name: s.Name}
		if s.Kind == blueprint.Plain {
			end.Addresses = s.NodeAddresses(c.Node)
		}
		if err := world.Attach(s, end, blueprint.WireMTU); err != nil {
			return err
		}
		if s.Kind != blueprint.Plain || routed {
			continue
		}
		routed = true
		for _, g := range s.Gateways {
			if err := c.NS.AddRoutes(netns.Route{Via: g.Addr(), Dev: s.Name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// startBGP starts FRR on nodes and routers side by side, and waits until each node has its sessions.
func (d *Daemon) startBGP(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range d.speakers {
		group.Go(func() error {
			if err := s.Build(); err != nil {
				return err
			}
			if err := s.Start(ctx); err != nil {
				return err
			}
			return s.WaitCalled(ctx)
		})
	}
	return group.Wait()
}

func (d *Daemon) waitChassis(ctx context.Context) error {
	fakes := d.config.Blueprint.FakeNodeList()
	names := make([]string, len(fakes))
	for i, n := range fakes {
		names[i] = n.Name
	}
	if err := d.central.AddFakeChassis(ctx, names, func(i int) netip.Addr {
		return fakes[i].Tunnel.Addr()
	}); err != nil {
		return err
	}
	return d.eachChassis(ctx, func(ctx context.Context, c *engine.Chassis) error {
		return c.WaitRegistered(ctx, d.central)
	})
}

func (d *Daemon) warmTunnels(ctx context.Context) error {
	return d.eachChassis(ctx, func(ctx context.Context, c *engine.Chassis) error {
		for _, other := range d.config.Blueprint.NodeList() {
			if other.Name == c.Node.Name {
				continue
			}
			if err := c.Warm(ctx, other.Tunnel.Addr()); err != nil {
				return err
			}
		}
		return nil
	})
}

// registerNodes makes the Node objects, real and fake.
func (d *Daemon) registerNodes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, c := range d.chassis {
		group.Go(func() error {
			if n := d.real[c.Node.Name]; n != nil {
				return d.registerReal(ctx, n)
			}
			return d.kubelet.Register(ctx,
				kubelet.Node{Node: c.Node, NS: c.NS, Switch: c, Labels: d.nodeLabels(c.Node)})
		})
	}
	for _, n := range d.config.Blueprint.FakeNodeList() {
		group.Go(func() error { return d.kubelet.Register(ctx, kubelet.Node{Node: n}) })
	}
	return group.Wait()
}

// nodeLabels say which node may hold gateways, and that the node carries the provider networks: on a real node
// Kube-OVN's own agent writes the latter.
func (d *Daemon) nodeLabels(n blueprint.Node) map[string]string {
	labels := map[string]string{}
	if n.Gateway {
		labels["ovn.kubernetes.io/external-gw"] = "true"
	}
	for _, p := range providers(d.config.Blueprint) {
		labels[p.Network+".provider-network.kubernetes.io/ready"] = "true"
	}
	return labels
}

func (d *Daemon) startKubeOVN(ctx context.Context) error {
	if err := d.cluster.StartKubeOVN(d.kubeovn); err != nil {
		return err
	}
	return d.cluster.WaitKubeOVN(ctx, d.objects, d.kubeovn)
}

// startHosts lets every host outside answer as lab/echo does, so that there is somebody to talk to from inside.
func (d *Daemon) startHosts(ctx context.Context) error {
	names := []string{world.Internet}
	for _, s := range d.config.Blueprint.Segments() {
		names = append(names, s.Client, s.Neighbour)
	}
	for _, name := range names {
		log, err := os.Create(d.processes.LogPath(name))
		if err != nil {
			return fmt.Errorf("make log of %s: %w", name, err)
		}
		go func() {
			err := program.Echo(ctx, netns.Named(name), program.Spec{Name: name, Log: log})
			fmt.Fprintln(log, "ended:", err)
		}()
	}
	return nil
}
