// Package chart is what the Helm chart promises before it meets a cluster.
package chart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/internal/ownership"
)

const chart = "../../charts/sallyport"

// helm runs the Helm that `make chart` built.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		t.Skip("HELM is not set; run make chart")
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return stdout.String() + stderr.String(), err
}

// render renders the chart with settings as after `helm --set`.
func render(t *testing.T, settings ...string) (string, error) {
	t.Helper()
	args := []string{"template", "sallyport", chart, "--namespace", "network"}
	for _, s := range settings {
		args = append(args, "--set-json", s)
	}
	return helm(t, args...)
}

// controllers finds the controller's rendered object of a kind and reads it strictly into out.
func controllers(t *testing.T, rendered, kind string, out any) bool {
	t.Helper()
	return find(t, rendered, kind, "sallyport-controller", out)
}

// find finds a rendered object and reads it strictly into out.
func find(t *testing.T, rendered, kind, name string, out any) bool {
	t.Helper()
	for _, text := range strings.Split(rendered, "\n---\n") {
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if head.Kind != kind || head.Metadata.Name != name {
			continue
		}
		if err := sigsyaml.UnmarshalStrict([]byte(text), out); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		return true
	}
	return false
}

// Helm wants the definitions in the chart; `make generate` copies them there.
func TestDefinitionsAreTheGeneratedOnes(t *testing.T) {
	ours, err := filepath.Glob("../../config/crd/*.yaml")
	if err != nil || len(ours) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	theirs, err := filepath.Glob(chart + "/crds/*")
	if err != nil || len(theirs) != len(ours) {
		t.Errorf("the chart has %d definitions, config/crd %d; run make generate", len(theirs), len(ours))
	}
	for _, path := range ours {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(chart, "crds", filepath.Base(path)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the chart's copy of %s is not the same (%v); run make generate", filepath.Base(path), err)
		}
	}
}

// A wrong value is refused with its name, before anything is written.
func TestValuesAreChecked(t *testing.T) {
	for setting, good := range map[string]bool{
		`replicas=1`:                         true,
		`replicas="two"`:                     false,
		`replicas=-1`:                        false,
		`workers=0`:                          false,
		`logLevel="loud"`:                    false,
		`logLevel="debug"`:                   true,
		`replica=3`:                          false, // a word that does not exist
		`defaults.eipNetworkType="x y"`:      false,
		`defaults.eipNetworkType="public"`:   true,
		`ovn.nbAddress="10.0.0.1:6641"`:      false, // neither tcp: nor ssl:
		`ovn.nbAddress="tcp:10.0.0.1"`:       false,
		`ovn.nbAddress="tcp:10.0.0.1:6641,"`: false,
		`ovn.nbAddress="tcp:10.0.0.1:6641,tcp:[fd00::2]:6641"`:                                true,
		`ovn.nbAddress="ssl:10.0.0.1:6641"`:                                                   false, // without certificates
		`ovn={"nbAddress":"ssl:10.0.0.1:6641,ssl:10.0.0.2:6641","tlsSecret":"kube-ovn-tls"}`:  true,
		`ovn={"nbAddress":"ssl:10.0.0.1:6641,tcp:10.0.0.2:6641","tlsSecret":"kube-ovn-tls"}`:  false,
		`image.digest="sha256:abc"`:                                                           false,
		`image.pullPolicy="Sometimes"`:                                                        false,
		`metrics.serviceMonitor={"enabled":true,"interval":"often"}`:                          false,
		`metrics={"service":false,"serviceMonitor":{"enabled":true,"interval":"30s"}}`:        false, // nothing to monitor
		`metrics.dashboard={"enabled":true,"folder":"a"}`:                                     false, // a word that does not exist
		`admissionPolicies.exempt.users="admin"`:                                              false,
		`admissionPolicies.exempt={"users":[],"groups":["CN=Platform \"Ops\", OU=a"]}`:        true,
		`networkPolicy={"enabled":true,"metricsFrom":[{"namespaceSelector":{}}]}`:             true,
		`tolerations=[{"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"}]`: true,
	} {
		out, err := render(t, setting)
		if (err == nil) != good {
			t.Errorf("%s: taken: %t, wanted %t\n%s", setting, err == nil, good, last(out))
		}
		key, _, _ := strings.Cut(strings.FieldsFunc(setting, func(r rune) bool { return r == '=' || r == '.' })[0], "=")
		if err != nil && !strings.Contains(out, key) {
			t.Errorf("%s: the refusal does not name %s:\n%s", setting, key, out)
		}
	}
}

func last(text string) string { return text[max(0, len(text)-500):] }

// Two replicas on different nodes, as nobody, with nothing to write on.
func TestDeployment(t *testing.T) {
	out, err := render(t, `ovn={"nbAddress":"ssl:[fd00::1]:6641","tlsSecret":"kube-ovn-tls"}`, `defaults.fipNetworkType="public"`)
	if err != nil {
		t.Fatal(out)
	}
	var d appsv1.Deployment
	if !controllers(t, out, "Deployment", &d) {
		t.Fatal("no Deployment")
	}
	pod := d.Spec.Template.Spec
	container := pod.Containers[0]
	var budget policyv1.PodDisruptionBudget
	budgeted := controllers(t, out, "PodDisruptionBudget", &budget)
	if *d.Spec.Replicas != 2 || len(pod.TopologySpreadConstraints) == 0 || !budgeted {
		t.Error("the replicas are not two, not spread, or may all be evicted at once")
	}
	s := container.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the pod may more than it needs: %v, %v", pod.SecurityContext, s)
	}
	for _, want := range []string{
		"--nb-address=ssl:[fd00::1]:6641", "--nb-ca=/etc/sallyport/ovn/cacert", "--leader-election-namespace=network", "--default-fip-network-type=public",
	} {
		if !slices.Contains(container.Args, want) {
			t.Errorf("no %s in %q", want, container.Args)
		}
	}
	if out, err = render(t, `replicas=1`); err != nil || controllers(t, out, "PodDisruptionBudget", &budget) {
		t.Errorf("the node of a single replica could not be drained: %v", err)
	}
	flagsExist(t, "sallyport-controller", container.Args)
}

// An agent that only answers the controller may nothing, and speaks with it where, and how, it asks.
func TestAgent(t *testing.T) {
	out, err := render(t, `agent={"enabled":true,"inspections":false}`, `ovn={"nbAddress":"ssl:[fd00::1]:6641","tlsSecret":"kube-ovn-tls"}`)
	if err != nil {
		t.Fatal(out)
	}
	var d appsv1.DaemonSet
	var c appsv1.Deployment
	if !find(t, out, "DaemonSet", "sallyport-agent", &d) || !controllers(t, out, "Deployment", &c) {
		t.Fatal("no DaemonSet, or no Deployment")
	}
	pod := d.Spec.Template.Spec
	s := pod.Containers[0].SecurityContext
	if *pod.AutomountServiceAccountToken || !*pod.SecurityContext.RunAsNonRoot || *s.AllowPrivilegeEscalation || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the pod may more than it needs: %v, %v", pod.SecurityContext, s)
	}
	for _, arg := range pod.Containers[0].Args {
		if !slices.Contains(c.Spec.Template.Spec.Containers[0].Args, arg) {
			t.Errorf("the controller does not know %s", arg)
		}
	}
	flagsExist(t, "sallyport-controller", c.Spec.Template.Spec.Containers[0].Args)
}

// By these labels sallyport status and kubectl, as findings have it, find the agents' pods.
func TestAgentsAreFound(t *testing.T) {
	out, err := render(t, `agent.enabled=true`)
	if err != nil {
		t.Fatal(out)
	}
	var d appsv1.DaemonSet
	if !find(t, out, "DaemonSet", "sallyport-agent", &d) {
		t.Fatal("no DaemonSet")
	}
	if got := d.Spec.Template.Labels[ownership.AgentLabel]; got != ownership.AgentName {
		t.Errorf("the pods have %s=%s, and %s is looked for", ownership.AgentLabel, got, ownership.AgentName)
	}
}

// What an agent may do follows from what it is to do, and nothing else.
func TestAgentsRights(t *testing.T) {
	for _, c := range []struct {
		paths, inspections   string
		capabilities, mounts []string
		writes               []string
	}{
		{"true", "false", []string{"NET_ADMIN"}, []string{"state", "settings"}, []string{"nodepaths/status", "events"}},
		{"false", "true", []string{"NET_RAW", "DAC_OVERRIDE"}, []string{"openvswitch", "ovn"}, []string{"inspections/status"}},
		{
			"true", "true",
			[]string{"NET_ADMIN", "NET_RAW", "DAC_OVERRIDE"},
			[]string{"state", "settings", "openvswitch", "ovn"},
			[]string{"nodepaths/status", "events", "inspections/status"},
		},
	} {
		out, err := render(t, `agent={"enabled":true,"nodePaths":`+c.paths+`,"inspections":`+c.inspections+`}`)
		if err != nil {
			t.Fatal(out)
		}
		var d appsv1.DaemonSet
		var role rbacv1.ClusterRole
		if !find(t, out, "DaemonSet", "sallyport-agent", &d) || !find(t, out, "ClusterRole", "sallyport-controller-agent", &role) {
			t.Fatal("no DaemonSet, or no ClusterRole")
		}
		agent := d.Spec.Template.Spec.Containers[0]
		var capabilities, mounts, writes []string
		for _, added := range agent.SecurityContext.Capabilities.Add {
			capabilities = append(capabilities, string(added))
		}
		for _, m := range agent.VolumeMounts {
			mounts = append(mounts, m.Name)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Verbs, "patch") {
				writes = append(writes, rule.Resources...)
			}
		}
		if !slices.Equal(capabilities, c.capabilities) || !slices.Equal(mounts, c.mounts) || !slices.Equal(writes, c.writes) ||
			agent.SecurityContext.Capabilities.Drop[0] != "ALL" || *agent.SecurityContext.AllowPrivilegeEscalation {
			t.Errorf("NodePaths %s, Inspections %s: it has %q, mounts %q, and writes %q", c.paths, c.inspections, capabilities, mounts, writes)
		}
		flagsExist(t, "sallyport-agent", agent.Args)
	}
}

// runc refuses to start a container with a mount below /proc, and one below /sys is a risk that we need not take. The node's settings are mounted
// elsewhere, and the agent is told where.
func TestMountsAreAllowed(t *testing.T) {
	for _, inspections := range []string{"true", "false"} {
		out, err := render(t, `agent={"enabled":true,"nodePaths":true,"inspections":`+inspections+`}`, `ovn={"nbAddress":"ssl:[fd00::1]:6641","tlsSecret":"kube-ovn-tls"}`)
		if err != nil {
			t.Fatal(out)
		}
		var d appsv1.DaemonSet
		var c appsv1.Deployment
		if !find(t, out, "DaemonSet", "sallyport-agent", &d) || !controllers(t, out, "Deployment", &c) {
			t.Fatal("no DaemonSet, or no Deployment")
		}
		agent := d.Spec.Template.Spec.Containers[0]
		mounts := slices.Concat(agent.VolumeMounts, c.Spec.Template.Spec.Containers[0].VolumeMounts)
		for _, m := range mounts {
			if top := strings.Split(m.MountPath, "/")[1]; top == "proc" || top == "sys" {
				t.Errorf("mount %s at %s is refused", m.Name, m.MountPath)
			}
		}
		at := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == "settings" })
		if root := strings.TrimSuffix(mounts[at].MountPath, "/net"); !slices.Contains(agent.Args, "--sysctl-root="+root) {
			t.Errorf("the node's settings are at %s, and the agent is told %q", root, agent.Args)
		}
	}
}

// Operators read, and ask nodes. They write nothing else, and nothing of ours lets them read Secrets.
func TestOperators(t *testing.T) {
	out, err := render(t)
	if err != nil {
		t.Fatal(out)
	}
	var role rbacv1.ClusterRole
	if !find(t, out, "ClusterRole", "sallyport-operator", &role) {
		t.Fatal("no ClusterRole")
	}
	for _, rule := range role.Rules {
		reads := slices.Equal(rule.Verbs, []string{"get", "list", "watch"})
		if asks := slices.Equal(rule.Resources, []string{"inspections"}); !reads && !asks || slices.Contains(rule.Resources, "secrets") {
			t.Errorf("operators may more than to read and to ask: %v", rule)
		}
	}
}

// flagsExist checks the chart's flags against a program, where it is built.
func flagsExist(t *testing.T, program string, args []string) {
	t.Helper()
	help, err := exec.Command("../../bin/"+program, "--help").CombinedOutput()
	if err != nil {
		t.Logf("flags are not compared: %v", err)
		return
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if !regexp.MustCompile(`(?m)(^|\s)` + name + `\b`).Match(help) {
			t.Errorf("%s has no flag %s", program, name)
		}
	}
}

// Switched on, the alerts and the dashboard come as the files have them, with the labels by which Prometheus and Grafana find them.
func TestMonitoring(t *testing.T) {
	var rule struct {
		APIVersion string `json:"apiVersion"`
		Kind       string
		Metadata   metav1.ObjectMeta
		Spec       struct{ Groups []any }
	}
	var board corev1.ConfigMap
	out, err := render(t)
	if err != nil || controllers(t, out, "PrometheusRule", &rule) || find(t, out, "ConfigMap", "sallyport-dashboard", &board) {
		t.Errorf("they come though nobody asked: %v", err)
	}
	out, err = render(t, `metrics.prometheusRule={"enabled":true,"labels":{"release":"prometheus"}}`, `metrics.dashboard.enabled=true`)
	if err != nil || !controllers(t, out, "PrometheusRule", &rule) || !find(t, out, "ConfigMap", "sallyport-dashboard", &board) {
		t.Fatalf("they do not come: %v\n%s", err, last(out))
	}
	var file struct{ Groups []any }
	if err := sigsyaml.Unmarshal(content(t, "monitoring/alerts.yaml"), &file); err != nil || !reflect.DeepEqual(rule.Spec.Groups, file.Groups) {
		t.Errorf("the rules are not those of the file: %v", err)
	}
	if rule.Metadata.Labels["release"] != "prometheus" || board.Labels["grafana_dashboard"] != "1" {
		t.Errorf("labels %v, %v", rule.Metadata.Labels, board.Labels)
	}
	if got, want := board.Data["sallyport.json"], string(content(t, "monitoring/dashboard.json")); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Error("the dashboard is not that of the file")
	}
}

// content is a file of the chart.
func content(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(chart, path))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The controller has no right on everything, none on Secrets, and none on others' leases.
func TestRightsAreFew(t *testing.T) {
	out, err := render(t)
	if err != nil {
		t.Fatal(out)
	}
	var cluster rbacv1.ClusterRole
	var local rbacv1.Role
	if !controllers(t, out, "ClusterRole", &cluster) || !controllers(t, out, "Role", &local) {
		t.Fatal("a role is missing")
	}
	for _, rule := range append(cluster.Rules, local.Rules...) {
		all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)
		for _, word := range []string{"*", "secrets", "deletecollection", "escalate", "bind", "impersonate"} {
			if slices.Contains(all, word) {
				t.Errorf("the controller has %q: %v", word, rule)
			}
		}
	}
	for _, rule := range local.Rules {
		if slices.Contains(rule.Verbs, "update") && len(rule.ResourceNames) == 0 {
			t.Errorf("the controller can take other programs' leases: %v", rule)
		}
	}
}
