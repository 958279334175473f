package controller

import (
	"maps"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is a metric as documented.
type Metric struct{ Name, Kind, Labels, Help string }

// Metrics lists every metric. The reference page is generated from it.
var Metrics = []Metric{
	{"sallyport_info", "gauge", "version", "Always 1; the label is the version of the controller."},
	{
		"sallyport_leading", "gauge", "",
		"1 while this replica is the leader, 0 while it is not. Only the leader counts shards and objects.",
	},
	{
		"sallyport_objects", "gauge", "kind, condition, status, reason",
		"API objects with a condition, by its status and reason.",
	},
	{
		"sallyport_misplaced_pods", "gauge", "isolation",
		"Pods on a network that they may not use. Isolation Enforce drops their packets, Report does not.",
	},
	{
		"sallyport_pool_addresses", "gauge", "network, subnet, state",
		"Addresses of external networks, free or used, as counted by Kube-OVN.",
	},
	{
		"sallyport_repairs_total", "counter", "target",
		"Changes that restored the wanted state although no input had changed, in Kubernetes or in OVN.",
	},
	{"sallyport_shard_runs_total", "counter", "result", "Runs of shards, by result: ok or failed."},
	{
		"sallyport_endpoint_runs_total", "counter", "compiled",
		"Runs in which only endpoints had changed, by what was compiled: the services that they belong to, or the vpc.",
	},
	{
		"sallyport_egress_runs_total", "counter", "compiled",
		"Runs in which only EgressIPs, or what they select, had changed, by what was compiled: these egressips, or all.",
	},
	{
		"sallyport_pod_runs_total", "counter", "compiled",
		"Runs of Kube-OVN's default VPC in which only pods had changed, by what was compiled: these pods, or the vpc.",
	},
	{
		"sallyport_memo_checks_total", "counter", "result",
		"Samples of compiled services, pods and EgressIPs that were compared with a compilation of their whole shard: same " +
			"or different.",
	},
	{"sallyport_shard_run_seconds", "histogram", "", "Duration of a run of a shard."},
	{
		"sallyport_shard_asks_total", "counter", "by",
		"Events that requested a run, by kind of object, OVN, OVN southbound or Reach (node health checks).",
	},
	{"sallyport_shards_waiting", "gauge", "", "Shards in the queue that do not run yet."},
	{"sallyport_shards_failing", "gauge", "", "Shards whose last run failed. They are retried."},
	{"sallyport_kubernetes_writes_total", "counter", "verb, kind", "Writes to the Kubernetes API."},
	{
		"sallyport_northbound_transactions_total", "counter", "",
		"Transactions that wrote to the OVN northbound database.",
	},
	{
		"sallyport_northbound_recomputes_total", "counter", "",
		"Transactions of those after which ovn-northd computes everything again.",
	},
	{
		"sallyport_northbound_recompute_wait_seconds_total", "counter", "",
		"Time that VPCs have waited because such transactions are limited, for all VPCs together.",
	},
	{"sallyport_northbound_connected", "gauge", "", "1 while the OVN northbound database is connected."},
	{
		"sallyport_southbound_connected", "gauge", "",
		"1 while the OVN southbound database is connected. Absent if none is configured.",
	},
	{
		"sallyport_southbound_writes_total", "counter", "result",
		"Writes to the OVN southbound database after gateways moved to other nodes, by result: ok or failed.",
	},
	{
		"sallyport_certificate_expires_seconds", "gauge", "file",
		"Expiry of a certificate of the controller (OVN databases, agents), in seconds since 1970.",
	},
	{
		"sallyport_agent_certificate_expires_seconds", "gauge", "node",
		"Expiry of the certificate that the agent of the node presented, in seconds since 1970.",
	},
	{"sallyport_egress_addresses", "gauge", "node", "Egress addresses on a node."},
	{
		"sallyport_egress_moves_total", "counter", "by",
		"Moves of egress addresses to another node, by who decided: OVN or the controller.",
	},
	{
		"sallyport_node_networks", "gauge", "state",
		"External networks on nodes, counted once per node: works, fails, or waits for the agent.",
	},
	{
		"sallyport_node_repairs_total", "counter", "node",
		"Repairs by the agent of a node after something else there removed its entries, from the NodePath status.",
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

// addToPart adds to the values of a part. Values that become zero are removed.
func (s *partitionedSeries) addToPart(part string, change map[labelValues]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := maps.Clone(s.parts[part])
	if values == nil {
		return // the part is not recorded
	}
	for labels, n := range change {
		if values[labels] += n; values[labels] == 0 {
			delete(values, labels)
		}
	}
	s.parts[part] = values
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
