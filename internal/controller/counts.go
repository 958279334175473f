package controller

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kube"
	"github.com/sallyport/sallyport/internal/mutual"
	"github.com/sallyport/sallyport/internal/runner"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/status"
)

// counts is what the controller counts while it works. It is nil where shards are only looked at.
type counts struct {
	events, writes, runs, moves *prometheus.CounterVec
	times                       prometheus.Histogram
	objects, held, uplinks      sums
	pods                        sums // misplaced
	mended                      sums // on nodes
	repairs                     *repairs
	leads                       atomic.Bool

	mu      sync.Mutex
	failing map[string]bool
}

func newCounts() *counts {
	times := metric("sallyport_shard_run_seconds")
	c := &counts{
		events: counter("sallyport_shard_asks_total"), writes: counter("sallyport_kubernetes_writes_total"),
		runs: counter("sallyport_shard_runs_total"), moves: counter("sallyport_egress_moves_total"),
		times:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: times.Name, Help: times.Help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
		repairs: newRepairs(), failing: map[string]bool{},
	}
	for _, by := range []string{engine, ourselves} {
		c.moves.WithLabelValues(by)
	}
	c.nodes(&snapshot.Nodes{})
	c.pods.are("", map[series]float64{{string(snapshot.Enforce)}: 0, {string(snapshot.Report)}: 0})
	return c
}

// serve adds what is counted, and what is read when somebody asks for it, to what Prometheus is told.
func (c *counts) serve(s *Shards, config Config, queue *runner.Runner) {
	metrics.Registry.MustRegister(
		// Of the process and of Go: controller-runtime serves these only to those who use its reconcilers.
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(),
		c.events, c.writes, c.runs, c.moves, c.times, c.repairs.done,
		newFigures("sallyport_info", func() map[series]float64 { return map[series]float64{{config.Version}: 1} }),
		newFigures("sallyport_objects", c.objects.total),
		newFigures("sallyport_misplaced_pods", c.pods.total),
		newFigures("sallyport_egress_addresses", c.held.total),
		newFigures("sallyport_node_networks", c.uplinks.total),
		newFigures("sallyport_node_repairs_total", c.mended.total),
		newFigures("sallyport_pool_addresses", func() map[series]float64 { return pools(s.Cluster) }),
		newFigures("sallyport_certificate_expires_seconds", func() map[series]float64 {
			return expiries(append(slices.Clone(config.Probe.Files), config.Northbound.CertFile, config.Northbound.CAFile)...)
		}),
		newFigures("sallyport_agent_certificate_expires_seconds", func() map[series]float64 { return agentExpiries(s.Probe.Expiries()) }),
		one("sallyport_leading", func() float64 { return number(c.leads.Load()) }),
		one("sallyport_shards_waiting", func() float64 { return float64(queue.Waiting()) }),
		one("sallyport_shards_failing", c.failed),
		one("sallyport_northbound_connected", func() float64 { return number(s.NB.Connected()) }),
		one("sallyport_northbound_transactions_total", func() float64 { return float64(s.NB.Writes()) }),
	)
	if len(config.Southbound.Endpoints) > 0 {
		metrics.Registry.MustRegister(one("sallyport_southbound_connected", func() float64 { return number(s.SB.Connected()) }))
	}
}

// asked counts an event.
func (c *counts) asked(shard, by string) {
	c.events.WithLabelValues(by).Inc()
	c.repairs.asked(shard, by)
}

// wrote counts a write to Kubernetes.
func (c *counts) wrote(verb, kind string) { c.writes.WithLabelValues(verb, kind).Inc() }

// ran counts a run.
func (c *counts) ran(shard string, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	c.runs.WithLabelValues(result).Inc()
	c.times.Observe(took.Seconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing[shard] = err != nil; err == nil {
		delete(c.failing, shard)
	}
}

func (c *counts) failed() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(len(c.failing))
}

// told takes down what objects of a shard are told about themselves.
func (c *counts) told(shard string, said map[status.Said]int) {
	values := make(map[series]float64, len(said))
	for s, n := range said {
		values[series{s.Kind, s.Condition, s.Status, s.Reason}] = float64(n)
	}
	c.objects.are(shard, values)
}

// misplaced takes down how many pods of a shard, or on its network, are where they do not belong.
func (c *counts) misplaced(shard string, verdicts []intent.Verdict, isolation snapshot.Isolation) {
	values := map[series]float64{}
	for _, v := range verdicts {
		if f, isProject := v.Facts.(intent.ProjectFacts); isProject && f.Misplaced > 0 {
			values[series{isolation.String()}] += float64(f.Misplaced)
		}
	}
	c.pods.are(shard, values)
}

// nodes takes down how networks on nodes are doing, and what agents had to put back.
func (c *counts) nodes(w *snapshot.Nodes) {
	if c == nil {
		return
	}
	states := map[series]float64{{"works"}: 0, {"fails"}: 0, {"waits"}: 0}
	for _, n := range w.Uplinks {
		for _, node := range n.Nodes {
			path := w.Paths[node]
			switch problem, known := path.Networks[n.Name]; {
			case !path.Reported || !known:
				states[series{"waits"}]++
			case problem != "":
				states[series{"fails"}]++
			default:
				states[series{"works"}]++
			}
		}
	}
	c.uplinks.are("", states)
	mended := map[series]float64{}
	for node, path := range w.Paths {
		mended[series{node}] = float64(path.Repairs)
	}
	c.mended.are("", mended)
}

// addresses takes down where egress addresses are now and were before, of the nodes that may hold some, and which of them the engine has
// moved.
func (c *counts) addresses(nodes []snapshot.Node, now, before map[netip.Addr]string, engines func(netip.Addr) bool) {
	if c == nil {
		return
	}
	held := map[series]float64{}
	for _, n := range nodes {
		held[series{n.Name}] = 0
	}
	for address, node := range now {
		held[series{node}]++
		switch was := before[address]; {
		case was == "" || was == node:
		case engines(address):
			c.moves.WithLabelValues(engine).Inc()
		default:
			c.moves.WithLabelValues(ourselves).Inc()
		}
	}
	c.held.are("", held)
}

// patient is how long Prometheus waits for what is read from caches. Before they are filled there is nothing to tell.
const patient = time.Second

// pools is how many addresses external networks have.
func pools(cluster *kube.Cluster) map[series]float64 {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	externals, err := cluster.Externals(ctx)
	if err != nil {
		return nil
	}
	out := map[series]float64{}
	for _, x := range externals {
		out[series{x.Network, x.Subnet, "free"}] = float64(x.Free)
		out[series{x.Network, x.Subnet, "used"}] = float64(x.Used)
	}
	return out
}

// agentExpiries is when certificates of agents end, by node.
func agentExpiries(ends map[string]time.Time) map[series]float64 {
	out := map[series]float64{}
	for node, end := range ends {
		out[series{node}] = float64(end.Unix())
	}
	return out
}

// expiries is when certificates end. A file that can't be read is a failed connection, and told as that.
func expiries(files ...string) map[series]float64 {
	out := map[series]float64{}
	for _, file := range files {
		if end, err := mutual.Expires(file); err == nil {
			out[series{file}] = float64(end.Unix())
		}
	}
	return out
}
