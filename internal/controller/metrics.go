package controller

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sallyport/sallyport/internal/kube"
	"github.com/sallyport/sallyport/internal/ovn"
	"github.com/sallyport/sallyport/internal/runner"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// Metrics is every metric, with what it counts. The reference page is made from it.
var Metrics = []struct{ Name, Kind, Labels, Help string }{
	{"sallyport_shard_runs_total", "counter", "result", "Runs of a project's shard, by result: ok or failed."},
	{"sallyport_shard_run_seconds", "histogram", "", "How long a run of a shard takes."},
	{"sallyport_shard_asks_total", "counter", "by", "Events that asked for a shard to be run, by the kind of object, OVN, or Reach: nodes that are asked."},
	{"sallyport_shards_waiting", "gauge", "", "Shards that are asked for and not yet run."},
	{"sallyport_kubernetes_writes_total", "counter", "verb, kind", "Writes to the Kubernetes API."},
	{"sallyport_northbound_transactions_total", "counter", "", "Transactions that wrote to the OVN northbound database."},
	{"sallyport_northbound_connected", "gauge", "", "1 while the OVN northbound database is connected."},
	{"sallyport_egress_addresses", "gauge", "node", "Egress addresses that a node holds."},
	{"sallyport_node_networks", "gauge", "state", "External networks of nodes, one for each node: works, fails, or waits for the agent there."},
	{"sallyport_egress_moves_total", "counter", "by", "Egress addresses that went to another node, by who decided it: OVN, or the controller."},
}

func help(name string) string {
	for _, m := range Metrics {
		if m.Name == name {
			return m.Help
		}
	}
	panic(name + " is not in the list of metrics")
}

// counters is the metrics that are counted here.
type counters struct {
	runs  *prometheus.CounterVec
	times prometheus.Histogram
}

func newCounters(a *asks) *counters {
	const runs, times = "sallyport_shard_runs_total", "sallyport_shard_run_seconds"
	c := &counters{
		runs:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: runs, Help: help(runs)}, []string{"result"}),
		times: prometheus.NewHistogram(prometheus.HistogramOpts{Name: times, Help: help(times), Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
	}
	a.register()
	metrics.Registry.MustRegister(c.runs, c.times)
	return c
}

// ran counts a run.
func (c *counters) ran(_ string, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	c.runs.WithLabelValues(result).Inc()
	c.times.Observe(took.Seconds())
}

// watch adds the metrics that are read when somebody asks for them.
func (c *counters) watch(queue *runner.Runner, nb *ovn.Client) {
	gauge := func(name string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help(name)}, read)
	}
	metrics.Registry.MustRegister(
		gauge("sallyport_shards_waiting", func() float64 { return float64(queue.Waiting()) }),
		gauge("sallyport_northbound_connected", func() float64 {
			if nb.Connected() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sallyport_northbound_transactions_total", Help: help("sallyport_northbound_transactions_total"),
		}, func() float64 { return float64(nb.Writes()) }),
	)
}

// uplinks counts how networks on nodes are doing.
type uplinks struct{ states *prometheus.GaugeVec }

func newUplinks() *uplinks {
	const name = "sallyport_node_networks"
	u := &uplinks{prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help(name)}, []string{"state"})}
	u.are(&snapshot.Nodes{})
	metrics.Registry.MustRegister(u.states)
	return u
}

// are takes down how networks on nodes are doing. Without anybody who counts, nothing happens.
func (u *uplinks) are(w *snapshot.Nodes) {
	if u == nil {
		return
	}
	counts := map[string]int{"works": 0, "fails": 0, "waits": 0}
	for _, n := range w.Uplinks {
		for _, node := range n.Nodes {
			path := w.Paths[node]
			switch problem, known := path.Networks[n.Name]; {
			case !path.Reported || !known:
				counts["waits"]++
			case problem != "":
				counts["fails"]++
			default:
				counts["works"]++
			}
		}
	}
	for state, n := range counts {
		u.states.WithLabelValues(state).Set(float64(n))
	}
}

// addresses counts where egress addresses are.
type addresses struct {
	held  *prometheus.GaugeVec
	moves *prometheus.CounterVec
}

func newAddresses() *addresses {
	const held, moves = "sallyport_egress_addresses", "sallyport_egress_moves_total"
	a := &addresses{
		held:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: held, Help: help(held)}, []string{"node"}),
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{Name: moves, Help: help(moves)}, []string{"by"}),
	}
	for _, by := range []string{engine, ourselves} {
		a.moves.WithLabelValues(by)
	}
	metrics.Registry.MustRegister(a.held, a.moves)
	return a
}

// are takes down where addresses are now and were before, of the nodes that may hold some, and which of them the engine has moved. Without
// anybody who counts, nothing happens.
func (a *addresses) are(nodes []snapshot.Node, now, before map[netip.Addr]string, engines func(netip.Addr) bool) {
	if a == nil {
		return
	}
	a.held.Reset()
	for _, n := range nodes {
		a.held.WithLabelValues(n.Name)
	}
	for address, node := range now {
		a.held.WithLabelValues(node).Inc()
		switch was := before[address]; {
		case was == "" || was == node:
		case engines(address):
			a.moves.WithLabelValues(engine).Inc()
		default:
			a.moves.WithLabelValues(ourselves).Inc()
		}
	}
}

// asks is where events go. The caches are built before the queue that they ask, so what comes in between waits here.
type asks struct {
	mu             sync.Mutex
	forward        func(shard string)
	early          []string
	events, writes *prometheus.CounterVec
}

func newAsks() *asks {
	count := func(name string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help(name)}, labels)
	}
	return &asks{events: count("sallyport_shard_asks_total", "by"), writes: count("sallyport_kubernetes_writes_total", "verb", "kind")}
}

func (a *asks) register() { metrics.Registry.MustRegister(a.events, a.writes) }

// ask passes on that a shard is asked for, because of an object of a kind.
func (a *asks) ask(shard, by string) {
	a.events.WithLabelValues(by).Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.forward == nil {
		a.early = append(a.early, shard)
		return
	}
	a.forward(shard)
}

// to passes everything on from now on.
func (a *asks) to(forward func(shard string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forward = forward
	for _, shard := range a.early {
		forward(shard)
	}
	a.early = nil
}

// What events of the OVN databases and of probes are called.
const (
	engine = "OVN"
	probed = "Reach"
)

// ourselves is what the controller is called where it decides.
const ourselves = "controller"

// askKnown passes on what happens to routers of ours: Kube-OVN's default router changes all the time. What the engine itself can
// do is said of the networks.
func (a *asks) askKnown(cluster *kube.Cluster) func(router string) {
	return func(router string) {
		if router == "" {
			a.ask(kube.NetworksShard, engine)
			return
		}
		if cluster.Knows(context.Background(), router) {
			a.ask(router, engine)
		}
	}
}

func (a *asks) wrote(verb, kind string) { a.writes.WithLabelValues(verb, kind).Inc() }
