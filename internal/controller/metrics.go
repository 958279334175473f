package controller

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is a metric as documented.
type Metric struct{ Name, Kind, Labels, Help string }

// Metrics lists every metric. The reference page is generated from it.
var Metrics = []Metric{
	{"sallyport_info", "gauge", "version", "1, with the version of the controller."},
	{"sallyport_leading", "gauge", "", "1 while this replica runs shards, 0 while it waits for the lead. Only the one that leads counts shards and objects."},
	{
		"sallyport_objects", "gauge", "kind, condition, status, reason",
		"API objects that have a condition, by its status and reason.",
	},
	{
		"sallyport_misplaced_pods", "gauge", "isolation",
		"Pods on networks where they do not belong. With Enforce their packets are dropped, with Report they are not.",
	},
	{
		"sallyport_pool_addresses", "gauge", "network, subnet, state",
		"Addresses of external networks, free or used, as Kube-OVN counts them.",
	},
	{
		"sallyport_repairs_total", "counter", "target",
		"What was put right and nobody had asked to change, in Kubernetes or in OVN, since it began.",
	},
	{"sallyport_shard_runs_total", "counter", "result", "Runs of a project's shard, by result: ok or failed."},
	{"sallyport_shard_run_seconds", "histogram", "", "How long a run of a shard takes."},
	{
		"sallyport_shard_asks_total", "counter", "by",
		"Events that asked for a run, by the kind of object, OVN, OVN southbound or Reach (nodes that are asked).",
	},
	{"sallyport_shards_waiting", "gauge", "", "Shards that are asked for and not yet run."},
	{"sallyport_shards_failing", "gauge", "", "Shards whose last run failed. They are tried again."},
	{"sallyport_kubernetes_writes_total", "counter", "verb, kind", "Writes to the Kubernetes API."},
	{
		"sallyport_northbound_transactions_total", "counter", "",
		"Transactions that wrote to the OVN northbound database.",
	},
	{"sallyport_northbound_connected", "gauge", "", "1 while the OVN northbound database is connected."},
	{
		"sallyport_southbound_connected", "gauge", "",
		"1 while the OVN southbound database can be read; left out where none is configured.",
	},
	{
		"sallyport_certificate_expires_seconds", "gauge", "file",
		"When a certificate of the controller ends (OVN databases, agents), in seconds since 1970.",
	},
	{
		"sallyport_agent_certificate_expires_seconds", "gauge", "node",
		"When the certificate that the node's agent showed ends, in seconds since 1970.",
	},
	{"sallyport_egress_addresses", "gauge", "node", "Egress addresses that a node holds."},
	{
		"sallyport_egress_moves_total", "counter", "by",
		"Egress addresses that went to another node, by who decided it: OVN, or the controller.",
	},
	{
		"sallyport_node_networks", "gauge", "state",
		"External networks of nodes, one for each node: works, fails, or waits for the agent there.",
	},
	{
		"sallyport_node_repairs_total", "counter", "node",
		"What the agent of a node put back that somebody else there had taken away, as its NodePath says.",
	},
}

func findMetric(name string) Metric {
	for _, m := range Metrics {
		if m.Name == name {
			return m
		}
	}
	panic(name + " is not in the list of metrics")
}

func (m Metric) labelNames() []string {
	if m.Labels == "" {
		return nil
	}
	return strings.Split(m.Labels, ", ")
}

func newCounterVec(name string) *prometheus.CounterVec {
	m := findMetric(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.labelNames())
}

// labelValues are the values of a metric's labels, in order.
type labelValues [4]string

// seriesCollector computes all series of a metric when it is scraped, so that series of deleted objects disappear.
type seriesCollector struct {
	desc       *prometheus.Desc
	valueType  prometheus.ValueType
	labelCount int
	read       func() map[labelValues]float64
}

func newSeriesCollector(name string, read func() map[labelValues]float64) seriesCollector {
	m := findMetric(name)
	kind := prometheus.GaugeValue
	if m.Kind == "counter" {
		kind = prometheus.CounterValue
	}
	return seriesCollector{
		desc:       prometheus.NewDesc(m.Name, m.Help, m.labelNames(), nil),
		valueType:  kind,
		labelCount: len(m.labelNames()),
		read:       read,
	}
}

// newScalarCollector returns a collector for a metric without labels.
func newScalarCollector(name string, read func() float64) seriesCollector {
	return newSeriesCollector(name, func() map[labelValues]float64 { return map[labelValues]float64{{}: read()} })
}

// Describe sends the description of the metric.
func (f seriesCollector) Describe(to chan<- *prometheus.Desc) { to <- f.desc }

// Collect sends the current values.
func (f seriesCollector) Collect(to chan<- prometheus.Metric) {
	for labels, value := range f.read() {
		to <- prometheus.MustNewConstMetric(f.desc, f.valueType, value, labels[:f.labelCount]...)
	}
}

// partitionedSeries holds values that are recorded in parts, one per shard.
type partitionedSeries struct {
	mu    sync.Mutex
	parts map[string]map[labelValues]float64
}

// replacePart replaces the values of a part.
func (s *partitionedSeries) replacePart(part string, values map[labelValues]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		s.parts = map[string]map[labelValues]float64{}
	}
	if s.parts[part] = values; len(values) == 0 {
		delete(s.parts, part)
	}
}

func (s *partitionedSeries) sumParts() map[labelValues]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[labelValues]float64{}
	for _, part := range s.parts {
		for labels, n := range part {
			out[labels] += n
		}
	}
	return out
}

func boolToFloat(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
