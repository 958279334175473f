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

	"github.com/sallyport/sallyport/internal/controller/runner"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/mtls"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/status"
)

// controllerMetrics holds the controller's metrics. It is nil for read-only use.
type controllerMetrics struct {
	triggers, writes, runs, moves             *prometheus.CounterVec
	endpointRuns, podRuns, egressRuns         *prometheus.CounterVec
	memoChecks, southboundWrites              *prometheus.CounterVec
	runSeconds                                prometheus.Histogram
	conditions, egressAddresses, nodeNetworks partitionedSeries
	misplacedPods                             partitionedSeries
	nodeRepairs                               partitionedSeries
	repairs                                   *repairCounter
	leading                                   atomic.Bool

	mu            sync.Mutex
	failingShards map[shard.Shard]bool
}

func newControllerMetrics() *controllerMetrics {
	times := findMetric("sallyport_shard_run_seconds")
	c := &controllerMetrics{
		triggers: newCounterVec("sallyport_shard_asks_total"),
		writes:   newCounterVec("sallyport_kubernetes_writes_total"),
		runs:     newCounterVec("sallyport_shard_runs_total"), moves: newCounterVec("sallyport_egress_moves_total"),
		runSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    times.Name,
			Help:    times.Help,
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		endpointRuns: newCounterVec("sallyport_endpoint_runs_total"), memoChecks: newCounterVec("sallyport_memo_checks_total"),
		southboundWrites: newCounterVec("sallyport_southbound_writes_total"),
		podRuns:          newCounterVec("sallyport_pod_runs_total"),
		egressRuns:       newCounterVec("sallyport_egress_runs_total"), repairs: newRepairCounter(),
		failingShards: map[shard.Shard]bool{},
	}
	for _, compiled := range []string{compiledServices, compiledVPC} {
		c.endpointRuns.WithLabelValues(compiled)
	}
	for _, compiled := range []string{compiledPods, compiledVPC} {
		c.podRuns.WithLabelValues(compiled)
	}
	for _, compiled := range []string{compiledEgressIPs, compiledAll} {
		c.egressRuns.WithLabelValues(compiled)
	}
	for _, result := range []string{memoSame, memoDifferent} {
		c.memoChecks.WithLabelValues(result)
	}
	for _, result := range []string{resultOK, resultFailed} {
		c.southboundWrites.WithLabelValues(result)
	}
	for _, by := range []string{sourceOVN, sourceController} {
		c.moves.WithLabelValues(by)
	}
	c.recordNodeNetworks(&snapshot.NodePathInput{})
	c.misplacedPods.replacePart("", map[labelValues]float64{
		{string(snapshot.IsolationEnforce)}: 0,
		{string(snapshot.IsolationReport)}:  0,
	})
	return c
}

// registerAll registers the metrics, including those that are computed when they are scraped.
func (c *controllerMetrics) registerAll(s *Reconciler, config Config, queue *runner.Runner) {
	metrics.Registry.MustRegister(
		// Metrics of the process and of Go: controller-runtime registers these only for users of its reconcilers.
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(),
		c.triggers, c.writes, c.runs, c.moves, c.endpointRuns, c.podRuns, c.egressRuns, c.memoChecks,
		c.southboundWrites, c.runSeconds,
		c.repairs.total,
		newSeriesCollector("sallyport_info", func() map[labelValues]float64 {
			return map[labelValues]float64{{config.Version}: 1}
		}),
		newSeriesCollector("sallyport_objects", c.conditions.sumParts),
		newSeriesCollector("sallyport_misplaced_pods", c.misplacedPods.sumParts),
		newSeriesCollector("sallyport_egress_addresses", c.egressAddresses.sumParts),
		newSeriesCollector("sallyport_node_networks", c.nodeNetworks.sumParts),
		newSeriesCollector("sallyport_node_repairs_total", c.nodeRepairs.sumParts),
		newSeriesCollector("sallyport_pool_addresses", func() map[labelValues]float64 {
			return poolAddresses(s.Cluster)
		}),
		newSeriesCollector("sallyport_certificate_expires_seconds", func() map[labelValues]float64 {
			return certExpiries(append(slices.Clone(config.Probe.CertificateFiles), config.Northbound.CertFile,
				config.Northbound.CAFile)...)
		}),
		newSeriesCollector("sallyport_agent_certificate_expires_seconds", func() map[labelValues]float64 {
			return agentCertExpiries(s.Prober.CertificateExpiries())
		}),
		newScalarCollector("sallyport_leading", func() float64 { return boolToFloat(c.leading.Load()) }),
		newScalarCollector("sallyport_shards_waiting", func() float64 { return float64(queue.QueueLength()) }),
		newScalarCollector("sallyport_shards_failing", c.countFailingShards),
		newScalarCollector("sallyport_northbound_connected", func() float64 { return boolToFloat(s.NB.IsConnected()) }),
		newScalarCollector("sallyport_northbound_transactions_total", func() float64 {
			return float64(s.NB.WriteCount())
		}),
		newScalarCollector("sallyport_northbound_recomputes_total", func() float64 {
			n, _ := s.NB.RecomputeStats()
			return float64(n)
		}),
		newScalarCollector("sallyport_northbound_recompute_wait_seconds_total", func() float64 {
			_, waited := s.NB.RecomputeStats()
			return waited.Seconds()
		}),
	)
	if len(config.Southbound.Endpoints) > 0 {
		metrics.Registry.MustRegister(newScalarCollector("sallyport_southbound_connected", func() float64 {
			return boolToFloat(s.SB.IsConnected())
		}))
	}
}

func (c *controllerMetrics) countTrigger(of shard.Shard, by string) {
	c.triggers.WithLabelValues(by).Inc()
	c.repairs.noteTrigger(of, by)
}

func (c *controllerMetrics) countWrite(verb, kind string) { c.writes.WithLabelValues(verb, kind).Inc() }

func (c *controllerMetrics) countRun(of shard.Shard, took time.Duration, err error) {
	c.runs.WithLabelValues(resultOf(err)).Inc()
	c.runSeconds.Observe(took.Seconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failingShards[of] = err != nil; err == nil {
		delete(c.failingShards, of)
	}
}

func (c *controllerMetrics) countSouthboundWrite(err error) {
	c.southboundWrites.WithLabelValues(resultOf(err)).Inc()
}

// Results of a run or a write.
const resultOK, resultFailed = "ok", "failed"

func resultOf(err error) string {
	if err != nil {
		return resultFailed
	}
	return resultOK
}

func (c *controllerMetrics) countFailingShards() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(len(c.failingShards))
}

// recordConditions records the conditions of the objects of a shard.
func (c *controllerMetrics) recordConditions(of shard.Shard, said map[status.ConditionKey]int) {
	values := make(map[labelValues]float64, len(said))
	for s, n := range said {
		values[labelValues{s.Kind, s.Condition, s.Status, s.Reason}] = float64(n)
	}
	c.conditions.replacePart(of.Name, values)
}

// updateConditions replaces the conditions of some objects of a shard.
func (c *controllerMetrics) updateConditions(of shard.Shard, before, after map[status.ConditionKey]int) {
	change := map[labelValues]float64{}
	for s, n := range before {
		change[labelValues{s.Kind, s.Condition, s.Status, s.Reason}] -= float64(n)
	}
	for s, n := range after {
		change[labelValues{s.Kind, s.Condition, s.Status, s.Reason}] += float64(n)
	}
	c.conditions.addToPart(of.Name, change)
}

// recordMisplacedPods records how many misplaced pods a shard, or its network, has.
func (c *controllerMetrics) recordMisplacedPods(of shard.Shard, verdicts []intent.Verdict, isolation snapshot.Isolation) {
	values := map[labelValues]float64{}
	for _, v := range verdicts {
		if f, isProject := v.Facts.(intent.ProjectFacts); isProject && f.Misplaced > 0 {
			values[labelValues{isolation.String()}] += float64(f.Misplaced)
		}
	}
	c.misplacedPods.replacePart(of.Name, values)
}

// recordNodeNetworks records the state of networks on nodes, and the repairs that agents report.
func (c *controllerMetrics) recordNodeNetworks(w *snapshot.NodePathInput) {
	if c == nil {
		return
	}
	states := map[labelValues]float64{{"works"}: 0, {"fails"}: 0, {"waits"}: 0}
	for _, n := range w.Uplinks {
		for _, node := range n.Nodes {
			path := w.NodePaths[node]
			switch problem, known := path.NetworkProblems[n.Name]; {
			case !path.IsCurrent || !known:
				states[labelValues{"waits"}]++
			case problem != "":
				states[labelValues{"fails"}]++
			default:
				states[labelValues{"works"}]++
			}
		}
	}
	c.nodeNetworks.replacePart("", states)
	repairs := map[labelValues]float64{}
	for node, path := range w.NodePaths {
		repairs[labelValues{node}] = float64(path.Repairs)
	}
	c.nodeRepairs.replacePart("", repairs)
}

// recordEgressAddresses records the egress addresses of each node, and the moves since the last run, by who decided
// them.
func (c *controllerMetrics) recordEgressAddresses(nodes []snapshot.Node, now, before map[netip.Addr]string,
	engines func(netip.Addr) bool,
) {
	if c == nil {
		return
	}
	held := map[labelValues]float64{}
	for _, n := range nodes {
		held[labelValues{n.Name}] = 0
	}
	for address, node := range now {
		held[labelValues{node}]++
		switch was := before[address]; {
		case was == "" || was == node:
		case engines(address):
			c.moves.WithLabelValues(sourceOVN).Inc()
		default:
			c.moves.WithLabelValues(sourceController).Inc()
		}
	}
	c.egressAddresses.replacePart("", held)
}

// scrapeTimeout limits how long a scrape waits for the caches. Before they are synced there are no values.
const scrapeTimeout = time.Second

// poolAddresses returns the free and used addresses of external networks.
func poolAddresses(cluster *kube.Cluster) map[labelValues]float64 {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	externals, err := cluster.ListExternalSubnets(ctx)
	if err != nil {
		return nil
	}
	out := map[labelValues]float64{}
	for _, x := range externals {
		out[labelValues{x.Network, x.Subnet, "free"}] = float64(x.Free)
		out[labelValues{x.Network, x.Subnet, "used"}] = float64(x.Used)
	}
	return out
}

// agentCertExpiries returns when the certificates of agents expire, by node.
func agentCertExpiries(ends map[string]time.Time) map[labelValues]float64 {
	out := map[labelValues]float64{}
	for node, end := range ends {
		out[labelValues{node}] = float64(end.Unix())
	}
	return out
}

// certExpiries returns when certificates expire. It skips unreadable files: they show as failed connections.
func certExpiries(files ...string) map[labelValues]float64 {
	out := map[labelValues]float64{}
	for _, file := range files {
		if end, err := mtls.EarliestExpiry(file); err == nil {
			out[labelValues{file}] = float64(end.Unix())
		}
	}
	return out
}
