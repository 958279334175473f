package monitoring

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// alertCase is what an alert is shown by: series with which it fires and when it does, and the same with one thing
// changed, with which it never does. A series is its value in each minute, as promtool writes it.
type alertCase struct {
	alert        string
	firingSeries map[string]string
	// quietAt is a minute in which it does not fire yet, and at one in which it does.
	quietAt, firesAt string
	labels           map[string]string
	// summary is the text with its values, if that of the rule has any.
	summary     string
	quietSeries map[string]string
}

const (
	instanceA = `{instance="a"}`
	instanceB = `{instance="b"}`
)

func objectsSeries(kind, condition, reason string) string {
	return `sallyport_objects{instance="a",kind="` + kind + `",condition="` + condition + `",status="False",reason="` +
		reason + `"}`
}

func poolSeries(network, subnet, state, instance string) string {
	return `sallyport_pool_addresses{instance="` + instance + `",network="` + network + `",subnet="` + subnet +
		`",state="` + state + `"}`
}

var alertCases = []alertCase{
	{
		alert: "SallyportNotRunning", firingSeries: map[string]string{
			"sallyport_leading" + instanceA: "1x5 0x20",
			"sallyport_leading" + instanceB: "0x30",
		}, quietAt: "10m", firesAt: "12m",
		quietSeries: map[string]string{
			"sallyport_leading" + instanceA: "1x5 0x20",
			"sallyport_leading" + instanceB: "0x5 1x20",
		},
	},
	{
		alert: "SallyportNotRunning", quietAt: "4m", firesAt: "6m", // nobody is scraped
		quietSeries: map[string]string{"sallyport_leading" + instanceA: "1x30"},
	},
	{
		alert: "SallyportNorthboundUnreachable",
		firingSeries: map[string]string{
			"sallyport_northbound_connected" + instanceA: "1x30",
			"sallyport_northbound_connected" + instanceB: "0x30",
		}, quietAt: "4m", firesAt: "6m",
		labels: map[string]string{"instance": "b"}, summary: "b is not connected to the OVN northbound database.",
		quietSeries: map[string]string{
			"sallyport_northbound_connected" + instanceA: "1x30",
			"sallyport_northbound_connected" + instanceB: "0x3 1 0x3 1 0x3 1",
		},
	},
	{
		alert:        "SallyportSouthboundUnreachable",
		firingSeries: map[string]string{"sallyport_southbound_connected" + instanceA: "0x30"}, quietAt: "9m",
		firesAt: "11m",
		labels:  map[string]string{"instance": "a"}, summary: "a cannot read the OVN southbound database.",
		quietSeries: map[string]string{"sallyport_southbound_connected" + instanceA: "1x30"},
	},
	{
		alert: "SallyportSouthboundWritesFail", quietAt: "4m", firesAt: "12m",
		firingSeries: map[string]string{
			`sallyport_southbound_writes_total{instance="a",result="failed"}`: "0+1x30",
			`sallyport_southbound_writes_total{instance="a",result="ok"}`:     "1x30",
		},
		quietSeries: map[string]string{
			`sallyport_southbound_writes_total{instance="a",result="failed"}`: "0x5 1x25", // once, then it succeeded
			`sallyport_southbound_writes_total{instance="a",result="ok"}`:     "0+1x30",
		},
	},
	{
		alert: "SallyportMisplacedPods", quietAt: "1m", firesAt: "3m",
		firingSeries: map[string]string{
			`sallyport_misplaced_pods{instance="a",isolation="Enforce"}`: "0x1 2x10",
			`sallyport_misplaced_pods{instance="b",isolation="Enforce"}`: "0x12",
		},
		labels:  map[string]string{"isolation": "Enforce"},
		summary: "2 pod(s) are on networks where they do not belong (isolation Enforce).",
		quietSeries: map[string]string{
			`sallyport_misplaced_pods{instance="a",isolation="Enforce"}`: "0x12",
			`sallyport_misplaced_pods{instance="a",isolation="Report"}`:  "0x12",
		},
	},
	{
		alert: "SallyportShardsFailing",
		firingSeries: map[string]string{
			"sallyport_shards_failing" + instanceA: "0x2 3x30",
			"sallyport_shards_failing" + instanceB: "0x30",
		}, quietAt: "11m", firesAt: "14m",
		summary:     "The controller fails to reconcile 3 project(s).",
		quietSeries: map[string]string{"sallyport_shards_failing" + instanceA: "3x8 0 3x8 0 3x8"},
	},
	{
		alert: "SallyportBusy", firingSeries: map[string]string{"sallyport_shards_waiting" + instanceA: "51x30"},
		quietAt: "14m", firesAt: "16m",
		summary:     "51 project(s) are waiting to be reconciled; the queue has been long for 15 minutes.",
		quietSeries: map[string]string{"sallyport_shards_waiting" + instanceA: "1000x5 50x30"},
	},
	{
		alert: "SallyportRunsSlow", quietAt: "10m", firesAt: "40m",
		firingSeries: map[string]string{
			`sallyport_shard_run_seconds_bucket{le="4.096"}`: "0+98x60",
			`sallyport_shard_run_seconds_bucket{le="8.192"}`: "0+100x60",
			`sallyport_shard_run_seconds_bucket{le="+Inf"}`:  "0+100x60",
		},
		quietSeries: map[string]string{
			`sallyport_shard_run_seconds_bucket{le="1.024"}`: "0+100x60",
			`sallyport_shard_run_seconds_bucket{le="4.096"}`: "0+100x60",
			`sallyport_shard_run_seconds_bucket{le="+Inf"}`:  "0+100x60",
		},
	},
	{
		alert: "SallyportObjectsNotInForce", quietAt: "14m", firesAt: "16m",
		firingSeries: map[string]string{objectsSeries("FIp", "Programmed", "WaitingForEngine"): "2x30"},
		labels:       map[string]string{"kind": "FIp", "reason": "WaitingForEngine"},
		summary:      "2 object(s) of kind FIp are not programmed, with reason WaitingForEngine.",
		quietSeries: map[string]string{
			objectsSeries("FIp", "Programmed", "Programming"):       "2x10 stale 1x10",
			objectsSeries("EIp", "Programmed", "NotAccepted"):       "7x30",
			objectsSeries("EIp", "Accepted", "Malformed"):           "7x30",
			objectsSeries("Service", "Programmed", "SomePortTaken"): "1x30",
		},
	},
	{
		alert:        "SallyportDeletionsHang",
		firingSeries: map[string]string{objectsSeries("Project", "Deletable", "CleaningUp"): "1x60"}, quietAt: "29m",
		firesAt:     "31m",
		labels:      map[string]string{"kind": "Project"},
		summary:     "Deletion of 1 object(s) of kind Project has been stuck for half an hour.",
		quietSeries: map[string]string{objectsSeries("EIp", "Deletable", "InUse"): "1x60"},
	},
	{
		alert: "SallyportPoolExhausted", quietAt: "6m", firesAt: "9m",
		firingSeries: map[string]string{
			poolSeries("public", "public-1", "free", "a"): "2 1 0x30",
			poolSeries("public", "public-1", "used", "a"): "8 9 10x30",
			poolSeries("public", "public-2", "free", "a"): "0x30", poolSeries("cloud", "cloud", "free", "a"): "1000x30",
		},
		labels: map[string]string{"network": "public"}, summary: "The external network public has no free address.",
		quietSeries: map[string]string{
			poolSeries("public", "public-1", "free", "a"): "0x30",
			poolSeries("public", "public-2", "free", "a"): "5x30",
		},
	},
	{
		alert: "SallyportPoolLow", quietAt: "29m", firesAt: "31m",
		firingSeries: map[string]string{
			poolSeries("public", "one", "free", "a"): "5x60", poolSeries("public", "one", "used", "a"): "95x60",
			poolSeries("public", "one", "free", "b"): "5x60", poolSeries("public", "one", "used", "b"): "95x60",
		},
		labels:  map[string]string{"network": "public"},
		summary: "The external network public has 5 free addresses, less than a tenth.",
		quietSeries: map[string]string{
			poolSeries("public", "one", "free", "a"): "5x60", poolSeries("public", "one", "used", "a"): "95x60",
			poolSeries("public", "two", "free", "a"): "50x60",
			// that is another alert
			poolSeries("full", "three", "free", "a"): "0x60", poolSeries("full", "three", "used", "a"): "9x60",
		},
	},
	{
		alert:        "SallyportMemoDiffers",
		firingSeries: map[string]string{`sallyport_memo_checks_total{result="different"}`: "0x5 1x30"}, quietAt: "4m",
		firesAt:     "7m",
		quietSeries: map[string]string{`sallyport_memo_checks_total{result="same"}`: "0+1x30"},
	},
	{
		alert: "SallyportDisturbed", firingSeries: map[string]string{`sallyport_repairs_total{target="OVN"}`: "0+1x120"}, quietAt: "50m", firesAt: "70m",
		labels:  map[string]string{"target": "OVN"},
		summary: "For an hour, something has repeatedly reverted what the controller writes to OVN.",
		quietSeries: map[string]string{
			`sallyport_repairs_total{target="OVN"}`:        "0x10 500x60",
			`sallyport_repairs_total{target="Kubernetes"}`: "0x30 2x30 4x30",
		},
	},
	{
		alert:        "SallyportNoGatewayNode",
		firingSeries: map[string]string{objectsSeries("Service", "Programmed", "NoGatewayNode"): "1x30"}, quietAt: "4m",
		firesAt:     "6m",
		labels:      map[string]string{"kind": "Service"},
		summary:     "1 object(s) of kind Service need a gateway of the management VPC, but no node can hold it.",
		quietSeries: map[string]string{objectsSeries("Service", "Programmed", "WaitingForEIp"): "1x30"},
	},
	{
		alert:        "SallyportReturnPathBySource",
		firingSeries: map[string]string{objectsSeries("ExternalNetwork", "ReturnPath", "EngineTooOld"): "2x30"},
		quietAt:      "14m", firesAt: "16m",
		summary: "On 2 external network(s), replies are routed by the pod's address instead of by their connection.",
		// it was chosen
		quietSeries: map[string]string{`sallyport_objects{kind="ExternalNetwork",condition="ReturnPath",status="True",reason="Source"}`: "2x30"},
	},
	{
		alert:        "SallyportEgressWithoutNode",
		firingSeries: map[string]string{objectsSeries("EgressIP", "Programmed", "NoMatchingNodeFound"): "1x10"},
		quietAt:      "0m", firesAt: "2m",
		summary: "No node can hold the addresses of 1 EgressIP(s). " +
			"Their pods cannot reach the outside unless failurePolicy is Open.",
		quietSeries: map[string]string{objectsSeries("EgressIP", "Programmed", "UnassignedRequest"): "1x10"},
	},
	{
		alert: "SallyportEgressShort", firingSeries: map[string]string{objectsSeries("EgressIP", "Programmed",
			"UnassignedRequest"): "1x30"}, quietAt: "14m", firesAt: "16m",
		summary:     "1 EgressIP(s) have addresses that no node holds. Their pods leave with the remaining addresses.",
		quietSeries: map[string]string{objectsSeries("EgressIP", "Programmed", "NoMatchingNodeFound"): "1x30"},
	},
	{
		alert: "SallyportEgressRestless", quietAt: "10m", firesAt: "60m",
		firingSeries: map[string]string{
			`sallyport_egress_moves_total{by="OVN"}`: "0x20 0+1x40", `sallyport_egress_addresses{node="n1"}`: "1x60",
			`sallyport_egress_addresses{node="n2"}`: "0x60",
		},
		summary: "Egress addresses moved to another node 39 times in an hour.",
		quietSeries: map[string]string{ // a node with many of them is lost
			`sallyport_egress_moves_total{by="OVN"}`: "0x20 20x40",
			`sallyport_egress_addresses{node="n1"}`:  "20x20 0x40",
			`sallyport_egress_addresses{node="n2"}`:  "0x20 20x40",
		},
	},
	{
		alert:        "SallyportNodeNetworkFails",
		firingSeries: map[string]string{`sallyport_node_networks{state="fails"}`: "0 2x30"}, quietAt: "5m",
		firesAt: "7m",
		summary: "External networks do not work on nodes: 2 combination(s) of node and network.",
		quietSeries: map[string]string{
			`sallyport_node_networks{state="works"}`: "2x30",
			`sallyport_node_networks{state="fails"}`: "0x30",
		},
	},
	{
		alert: "SallyportAgentSilent", firingSeries: map[string]string{`sallyport_node_networks{state="waits"}`: "3x30"}, quietAt: "14m", firesAt: "16m",
		summary:     "No agent applies external networks on nodes: 3 combination(s) of node and network.",
		quietSeries: map[string]string{`sallyport_node_networks{state="waits"}`: "3x5 0x30"}, // agents take a moment
	},
	{
		alert:        "SallyportNodeDisturbed",
		firingSeries: map[string]string{`sallyport_node_repairs_total{node="n1"}`: "0x5 0+1x30"}, quietAt: "6m",
		firesAt: "20m",
		labels:  map[string]string{"node": "n1"},
		summary: "On n1, something repeatedly removes ip rules, routes or nftables of sallyport-agent.",
		// it began anew
		quietSeries: map[string]string{
			`sallyport_node_repairs_total{node="n1"}`: "0x5 3x30",
			`sallyport_node_repairs_total{node="n2"}`: "900x5 0x30",
		},
	},
	{
		alert:        "SallyportCertificateEnds",
		firingSeries: map[string]string{`sallyport_certificate_expires_seconds{file="cert"}`: "1209600x120"},
		quietAt:      "59m", firesAt: "62m",
		labels:      map[string]string{"file": "cert"},
		summary:     "The certificate cert of the controller expires in 13d 22h 58m 0s.",
		quietSeries: map[string]string{`sallyport_certificate_expires_seconds{file="cert"}`: "1219600x120"},
	},
	{
		alert:        "SallyportAgentCertificateEnds",
		firingSeries: map[string]string{`sallyport_agent_certificate_expires_seconds{node="n1"}`: "1209600x120"},
		quietAt:      "59m", firesAt: "62m", labels: map[string]string{"node": "n1"},
		summary:     "The certificate of the agent on n1 expires in 13d 22h 58m 0s.",
		quietSeries: map[string]string{`sallyport_agent_certificate_expires_seconds{node="n1"}`: "1219600x120"},
	},
}

// runPromtool runs the promtool of Debian's packages, that `make monitoring-check` unpacks.
func runPromtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv("PROMTOOL")
	if program == "" {
		t.Skip("PROMTOOL is not set; run make monitoring-check")
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	return string(out), err
}

func TestRulesAreValid(t *testing.T) {
	if out, err := runPromtool(t, "check", "rules", alertsFile); err != nil {
		t.Error(out)
	}
}

// Every alert fires with the series that it is about, not before its time, and not with others.
func TestAlertsFire(t *testing.T) {
	rules := map[string]alert{}
	for _, a := range loadAlerts(t) {
		rules[a.Alert] = a
	}
	for _, f := range alertCases {
		rule, exists := rules[f.alert]
		if !exists {
			t.Errorf("there is no alert %s", f.alert)
			continue
		}
		t.Run(f.alert, func(t *testing.T) { f.checkFiring(t, rule) })
	}
	for _, f := range alertCases {
		delete(rules, f.alert)
	}
	for name := range rules {
		t.Errorf("%s is not shown", name)
	}
}

// What promtool is given can fail.
func TestAlertsThatDoNotFireAreSeen(t *testing.T) {
	f := alertCases[0]
	if out, err := runPromtool(t, "test", "rules",
		f.writePromtoolTest(t, f.expectedAlert(loadAlerts(t)[0]), f.quietSeries)); err == nil {
		t.Errorf("an alert is said to fire with the series with which it does not\n%s", out)
	}
}

// A text that stands in the rule is not written here once more, where it would be forgotten.
func TestSummariesHaveValues(t *testing.T) {
	rules := map[string]alert{}
	for _, a := range loadAlerts(t) {
		rules[a.Alert] = a
	}
	for _, f := range alertCases {
		if hasValues := strings.Contains(rules[f.alert].Annotations["summary"], "{{"); hasValues != (f.summary != "") {
			t.Errorf("%s: summary has values: %v; its case has a text of its own: %v", f.alert, hasValues, f.summary != "")
		}
	}
}

func (f alertCase) checkFiring(t *testing.T, rule alert) {
	t.Helper()
	if out, err := runPromtool(t, "test", "rules",
		f.writePromtoolTest(t, f.expectedAlert(rule), f.firingSeries)); err != nil {
		t.Errorf("it does not fire as it should:\n%s", out)
	}
	if out, err := runPromtool(t, "test", "rules", f.writePromtoolTest(t, nil, f.quietSeries)); err != nil {
		t.Errorf("it fires though it should not:\n%s", out)
	}
}

// expectedAlert is what promtool must see of the rule when it fires.
func (f alertCase) expectedAlert(rule alert) map[string]any {
	notes, labels := maps.Clone(rule.Annotations), maps.Clone(rule.Labels)
	if f.summary != "" {
		notes["summary"] = f.summary
	}
	maps.Copy(labels, f.labels)
	return map[string]any{"exp_labels": labels, "exp_annotations": notes}
}

// writePromtoolTest writes a test for promtool: if no alert is expected, it must not fire.
func (f alertCase) writePromtoolTest(t *testing.T, expectedAlert map[string]any, inputs map[string]string) string {
	t.Helper()
	type object = map[string]any
	expected, series := []object{}, []object{}
	if expectedAlert != nil {
		expected = append(expected, expectedAlert)
	}
	for name, values := range inputs {
		series = append(series, object{"series": name, "values": values})
	}
	rules, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(object{
		"rule_files": []string{rules}, "evaluation_interval": "1m",
		"tests": []object{{"interval": "1m", "input_series": series, "alert_rule_test": []object{
			{"alertname": f.alert, "eval_time": f.quietAt, "exp_alerts": []object{}},
			{"alertname": f.alert, "eval_time": f.firesAt, "exp_alerts": expected},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
