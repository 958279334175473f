// Package collector is the code that collects the state of a cluster: it reads Kubernetes and both OVN databases,
// compares them with the desired state and queries nodes.
package collector

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
)

// syncTimeout limits the wait for northd and all chassis to catch up.
const syncTimeout = 3 * time.Second

// Config selects the cluster to read.
type Config struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Controller is the configuration of the controller: API server, databases and settings.
	Controller controller.Config
	// Namespaces are the namespaces of the platform.
	Namespaces kube.Namespaces
	// Sync waits for northd and all chassis. Nil: at the northbound database.
	Sync func(context.Context) error
}

// Scope selects what is collected in addition to the objects and rows.
type Scope struct {
	// Shards are compiled and compared with the cluster. AllShards selects all of them. SelectShards selects shards
	// after the cluster was read.
	Shards       []string
	AllShards    bool
	SelectShards func(*clusterstate.State) []string
	// Sync waits for northd and all chassis before reading. It writes a sequence number to the northbound database.
	Sync bool
	// PlanInspections returns the inspections of nodes, at most one for each node, after the cluster was read. If it is
	// nil, no node is queried.
	PlanInspections func(*clusterstate.State) []kubedcv1alpha1.InspectionSpec
}

// Collector collects the state of one cluster.
type Collector struct {
	config  Config
	cluster *kube.ClusterReader

	mu     sync.Mutex
	shards *controller.Reconciler // nil until shards are needed
	cancel context.CancelFunc
}

// Open returns a collector for a cluster. It connects on first use.
func Open(config Config) (*Collector, error) {
	cluster, err := kube.NewClusterReader(config.Controller.Kubernetes, config.Namespaces)
	if err != nil {
		return nil, err
	}
	return &Collector{config: config, cluster: cluster}, nil
}

// Close closes the connections.
func (o *Collector) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shards != nil {
		o.shards.NB.Close()
		o.shards.SB.Close()
		o.cancel()
		o.shards = nil
	}
}

// Collect collects the state. Systems that cannot be read are listed in Unread. All texts are escaped for a terminal.
func (o *Collector) Collect(ctx context.Context, scope Scope) *clusterstate.State {
	out := &clusterstate.State{}
	if scope.Sync {
		o.syncOVN(ctx)
	}
	out.Taken = time.Now().Round(0).UTC()
	var group sync.WaitGroup
	var kubernetes, engine []clusterstate.ReadFailure
	var problem error
	group.Go(func() { out.Cluster, kubernetes = o.cluster.ReadCluster(ctx, o.config.Controller.Defaults) })
	group.Go(func() {
		out.Logical, out.Certificates, engine = o.readOVN(ctx)
		if problem = findReadError(engine, clusterstate.Northbound); problem == nil && scope.compilesShards() {
			out.Shards, problem = o.CollectShards(ctx, scope)
		}
	})
	group.Wait()
	out.Cluster.Name = o.config.Cluster
	out.Certificates = append(o.clientCertificates(), out.Certificates...)
	out.Unread = slices.Concat(kubernetes, engine)
	if problem != nil {
		out.Shards = unknownShards(scope, &out.Cluster, problem)
	}
	o.collectFollowUps(ctx, scope, out)
	shown := clusterstate.EscapeControlChars(*out)
	return &shown
}

// SendPacket makes a node send a marked packet that others count. All texts are escaped for a terminal.
func (o *Collector) SendPacket(ctx context.Context, send kubedcv1alpha1.SendQuestion, from string, counting []string,
) ([]clusterstate.PacketSighting, error) {
	seen, err := o.cluster.SendPacket(ctx, send, from, counting)
	return clusterstate.EscapeControlChars(seen), err
}

// collectFollowUps adds what depends on the state read so far: selected shards, and the inspections of nodes.
func (o *Collector) collectFollowUps(ctx context.Context, scope Scope, out *clusterstate.State) {
	var group sync.WaitGroup
	var inspected map[string]clusterstate.NodeInspection
	if scope.PlanInspections != nil {
		questions := scope.PlanInspections(out)
		group.Go(func() { inspected = o.cluster.InspectNodes(ctx, questions) })
	}
	if scope.SelectShards != nil {
		about := Scope{Shards: scope.SelectShards(out)}
		problem := findReadError(out.Unread, clusterstate.Northbound)
		if problem == nil && about.compilesShards() {
			out.Shards, problem = o.CollectShards(ctx, about)
		}
		if problem != nil {
			out.Shards = unknownShards(about, &out.Cluster, problem)
		}
	}
	group.Wait()
	out.Inspected = inspected
}

// syncOVN waits for northd and all chassis. Errors are ignored: reading the databases reports them.
func (o *Collector) syncOVN(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if o.config.Sync != nil {
		_ = o.config.Sync(ctx)
		return
	}
	_ = ovn.SyncHypervisors(ctx, o.config.Controller.Northbound)
}

// readOVN reads both OVN databases, and the expiry of their servers' certificates.
func (o *Collector) readOVN(ctx context.Context) (logical.Network, []clusterstate.Certificate, []clusterstate.ReadFailure) {
	var north, south *ovn.Tables
	problems := make([]error, 2)
	var group sync.WaitGroup
	group.Go(func() { north, problems[0] = ovn.ReadNorthbound(ctx, o.config.Controller.Northbound) })
	group.Go(func() { south, problems[1] = ovn.ReadSouthbound(ctx, o.config.Controller.Southbound) })
	group.Wait()
	var shown []clusterstate.Certificate
	var unread []clusterstate.ReadFailure
	for i, system := range []string{clusterstate.Northbound, clusterstate.Southbound} {
		tables := []*ovn.Tables{north, south}[i]
		switch {
		case problems[i] != nil:
			unread = append(unread, clusterstate.ReadFailure{System: system, Problem: joinLines(problems[i])})
		case !tables.CertificateExpiry.IsZero():
			shown = append(shown, clusterstate.Certificate{
				For:     "clients of the " + system,
				Expires: tables.CertificateExpiry,
			})
		}
	}
	return ovn.BuildNetwork(north, south), shown, unread
}

// clientCertificates returns the expiry of our own client certificates.
func (o *Collector) clientCertificates() (out []clusterstate.Certificate) {
	for _, c := range []clusterstate.Certificate{
		{For: clusterstate.Kubernetes, Expires: kube.CertificateExpiry(o.config.Controller.Kubernetes)},
		{For: "OVN's databases", Expires: o.config.Controller.Northbound.CertificateExpiry()},
	} {
		if !c.Expires.IsZero() {
			out = append(out, c)
		}
	}
	return out
}

func joinLines(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
