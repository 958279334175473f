package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/internal/lab/bgp"
	"github.com/sallyport/sallyport/internal/lab/boot"
	"github.com/sallyport/sallyport/internal/lab/cluster"
	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/kubelet"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/pki"
	"github.com/sallyport/sallyport/internal/lab/proc"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/internal/lab/realnode"
)

// Daemon is everything that a running lab consists of.
type Daemon struct {
	config    Config
	processes *proc.Table
	central   engine.Central
	chassis   map[string]*engine.Chassis
	real      map[string]*realnode.Node
	speakers  map[string]*bgp.Speaker // by namespace: nodes and routers; none without BGP
	cluster   *cluster.Cluster
	kubeovn   cluster.KubeOVN
	client    kubernetes.Interface
	objects   *manifest.Client
	kubelet   *kubelet.Kubelet

	replacing sync.Mutex // programs of OVN are replaced one order at a time

	mu      sync.Mutex
	timings []boot.Timing
	nodes   map[string]string // what was done to a node: killed, cut
}

func runDaemon() error {
	var config Config
	if err := json.NewDecoder(os.Stdin).Decode(&config); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	report := os.NewFile(eventsFD, "events")
	events := json.NewEncoder(report)
	usage, err := begin(context.Background(), config, func(t boot.Timing) { _ = events.Encode(Event{Step: &t}) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		_ = events.Encode(Event{Error: err.Error()})
	} else {
		_ = events.Encode(Event{Ready: true, Usage: &usage})
	}
	_ = report.Close()
	select {} // until somebody kills the lab
}

func begin(ctx context.Context, config Config, report func(boot.Timing)) (Usage, error) {
	d, err := prepare(ctx, config)
	if err != nil {
		return Usage{}, err
	}
	if err := d.start(ctx, report); err != nil {
		return Usage{}, err
	}
	return usage()
}

// prepare makes the parts that know each other; nothing runs yet.
func prepare(ctx context.Context, config Config) (*Daemon, error) {
	set, err := parts.Ensure(ctx, func(line string) {
		fmt.Fprintln(os.Stderr, line)
	}, OptionalParts(config.Blueprint)...)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(config.path(Logs), 0o755); err != nil {
		return nil, fmt.Errorf("make log directory: %w", err)
	}
	ca, err := pki.New(config.path(PKI))
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		config:    config,
		processes: proc.NewTable(config.path(Logs)),
		chassis:   map[string]*engine.Chassis{},
		real:      map[string]*realnode.Node{},
		nodes:     map[string]string{},
	}
	servers := config.Blueprint.ServerAddresses()
	hosts := []string{"localhost", "127.0.0.1"}
	for _, s := range servers {
		hosts = append(hosts, s.Addr().String())
	}
	tls, err := ca.Issue(pki.Subject{Name: "ovn", Hosts: hosts})
	if err != nil {
		return nil, err
	}
	for _, role := range []string{"sallyport-agent", "sallyport-controller"} {
		if _, err := ca.Issue(pki.Subject{Name: role, Hosts: []string{role}}); err != nil {
			return nil, err
		}
	}
	shop := engine.Shop{Parts: set, Processes: d.processes, State: config.path(Data)}
	d.central = engine.Central{Shop: shop, Servers: servers, TLS: tls}
	for _, n := range config.Blueprint.NodeList() {
		d.chassis[n.Name] = &engine.Chassis{
			Shop:      shop,
			Node:      n,
			SB:        d.central.SBPlain(),
			Providers: providers(config.Blueprint),
		}
	}
	lease, grace := config.heartbeat()
	if err := d.prepareRealNodes(realnode.Shop{
		Parts: set, Processes: d.processes, Lab: config.Dir, Data: config.path(Data), Blueprint: config.Blueprint,
		CA: ca.Path("ca.crt"), Lease: lease, Images: config.Images,
	}); err != nil {
		return nil, err
	}
	frr := bgp.Shop{Packages: set.Root(parts.FRR), Processes: d.processes, Data: config.path(Data)}
	d.speakers = bgp.Speakers(frr, config.Blueprint)
	d.cluster = &cluster.Cluster{
		Parts: set, Processes: d.processes, State: config.path(Data), CA: ca, Address: servers[0].Addr(),
		Services: config.Blueprint.ServiceRange(), ServiceRanges: config.Blueprint.ServiceRanges(),
		Grace: grace, Reachable: config.Blueprint.RealNodes > 0,
	}
	d.kubeovn = cluster.KubeOVN{NB: d.central.NBPlain(), SB: d.central.SBPlain(), Blueprint: config.Blueprint}
	return d, netns.Own().LinkUp("lo")
}

// connect makes the clients, once the API server answers.
func (d *Daemon) connect(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(d.cluster.Config())
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	objects, err := manifest.New(d.cluster.Config())
	if err != nil {
		return err
	}
	serving, err := d.cluster.KubeletTLS()
	if err != nil {
		return err
	}
	lease, _ := d.config.heartbeat()
	d.client, d.objects = client, objects
	d.kubelet = kubelet.New(kubelet.Config{
		Client:        client,
		Processes:     d.processes,
		Programs:      program.Lookup,
		Images:        program.Images,
		Logs:          d.config.path(Logs),
		LeaseDuration: lease,
		Version:       "v" + parts.KubernetesVersion,
		Inside:        []netip.Prefix{d.config.Blueprint.PodRange(), d.config.Blueprint.ServiceRange()},
		Log:           slog.New(slog.NewTextHandler(os.Stderr, nil)),
		TLS:           serving,
	})
	go func() {
		if err := d.kubelet.Run(ctx); err != nil {
			slog.Error("kubelet ended", "error", err)
		}
	}()
	for _, door := range d.config.Doors {
		if door.Name == "api" {
			return d.cluster.WriteKubeconfig(d.config.path(Kubeconfig), "https://"+door.Outside)
		}
	}
	return nil
}
