// Package collector is the taking of surveys: it reads Kubernetes and OVN's databases, compares them with what is asked
// for, and asks nodes.
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

// syncTimeout is how long northd and chassis may take to say that they have carried everything out.
const syncTimeout = 3 * time.Second

// Config is what is looked at.
type Config struct {
	// Cluster is its name.
	Cluster string
	// Controller is how the controller reaches everything, and what it was told.
	Controller controller.Config
	// Namespaces are where the platform runs.
	Namespaces kube.Namespaces
}

// Scope is how much of a cluster a survey is to tell.
type Scope struct {
	// Shards are those that are compiled and compared with what is there; All: all that there are; About: those that
	// follow from what was read.
	Shards       []string
	AllShards    bool
	SelectShards func(*clusterstate.State) []string
	// Sync: northd and chassis are asked for a sign of life first. This writes a number to the northbound database.
	Sync bool
	// PlanInspections are those to nodes, of which each may be asked once. They follow from what was read; nil: nobody
	// is asked.
	PlanInspections func(*clusterstate.State) []kubedcv1alpha1.InspectionSpec
}

// Collector takes surveys of one cluster.
type Collector struct {
	config  Config
	cluster *kube.ClusterReader

	mu     sync.Mutex
	shards *controller.Reconciler // nil: nobody has asked for shards yet
	cancel context.CancelFunc
}

// Open is an observer of a cluster. It connects when it is asked.
func Open(config Config) (*Collector, error) {
	cluster, err := kube.NewClusterReader(config.Controller.Kubernetes, config.Namespaces)
	if err != nil {
		return nil, err
	}
	return &Collector{config: config, cluster: cluster}, nil
}

// Close ends what was begun.
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

// Collect takes a survey. What can't be read is told in it; its texts can be printed as they are.
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

// collectFollowUps adds what follows from what was read: shards that somebody asks about, and what nodes say.
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

// syncOVN asks northd and chassis for a sign of life. When nobody can be asked, reading says why.
func (o *Collector) syncOVN(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	_ = ovn.SyncHypervisors(ctx, o.config.Controller.Northbound)
}

// readOVN reads both databases of OVN, and the certificates that their servers show.
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

// clientCertificates are those that we show.
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
