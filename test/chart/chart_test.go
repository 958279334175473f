// Package chart is what the Helm chart promises before it meets a cluster.
package chart

import (
	"bytes"
	"fmt"
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
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/internal/model/ownership"
)

const chartDir = "../../charts/sallyport"

// runHelm runs the Helm that `make chart` built.
func runHelm(t *testing.T, args ...string) (string, error) {
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

// renderChart renders the chart with settings as after `helm --set`.
func renderChart(t *testing.T, settings ...string) (string, error) {
	t.Helper()
	args := []string{"template", "sallyport", chartDir, "--namespace", "network"}
	for _, s := range settings {
		args = append(args, "--set-json", s)
	}
	return runHelm(t, args...)
}

// findController finds the controller's rendered object of a kind and reads it strictly into out.
func findController(t *testing.T, rendered, kind string, out any) bool {
	t.Helper()
	return findRendered(t, rendered, kind, "sallyport-controller", out)
}

// findRendered finds a rendered object and reads it strictly into out.
func findRendered(t *testing.T, rendered, kind, name string, out any) bool {
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
	theirs, err := filepath.Glob(chartDir + "/files/crds/*")
	if err != nil || len(theirs) != len(ours) {
		t.Errorf("the chart has %d definitions, config/crd %d; run make generate", len(theirs), len(ours))
	}
	for _, path := range ours {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(chartDir, "files/crds", filepath.Base(path)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the chart's copy of %s is not the same (%v); run make generate", filepath.Base(path), err)
		}
	}
}

// The definitions are templates, so that an upgrade of the release upgrades them, and are kept when it is removed.
func TestDefinitionsAreUpgraded(t *testing.T) {
	ours, err := filepath.Glob("../../config/crd/*.yaml")
	if err != nil || len(ours) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	if _, err := os.Stat(chartDir + "/crds"); err == nil {
		t.Error("Helm never upgrades what is in the chart's directory crds")
	}
	out, err := renderChart(t)
	if err != nil {
		t.Fatal(out)
	}
	type definition struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   metav1.ObjectMeta `json:"metadata"`
		Spec       map[string]any    `json:"spec"`
	}
	for _, path := range ours {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want, got definition
		if err := sigsyaml.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		if !findRendered(t, out, "CustomResourceDefinition", want.Metadata.Name, &got) {
			t.Errorf("%s is not rendered", want.Metadata.Name)
			continue
		}
		if !reflect.DeepEqual(got.Spec, want.Spec) || got.Metadata.Annotations["helm.sh/resource-policy"] != "keep" ||
			got.Metadata.Labels["app.kubernetes.io/name"] != "sallyport" {
			t.Errorf("%s is another, or is not kept: %v", want.Metadata.Name, got.Metadata)
		}
	}
	for setting, want := range map[string]int{`crds.enabled=false`: 0, `crds=null`: len(ours)} {
		out, err := renderChart(t, setting)
		if n := strings.Count(out, "\nkind: CustomResourceDefinition\n"); err != nil || n != want {
			t.Errorf("%s: %d definitions, wanted %d: %v", setting, n, want, err)
		}
	}
}

// Pods of both programs can be pulled from a registry that asks who pulls.
func TestPullSecrets(t *testing.T) {
	for setting, want := range map[string][]corev1.LocalObjectReference{
		`imagePullSecrets=["one","two"]`: {{Name: "one"}, {Name: "two"}},
		`imagePullSecrets=[]`:            nil,
	} {
		out, err := renderChart(t, setting, `agent.enabled=true`)
		var c appsv1.Deployment
		var a appsv1.DaemonSet
		if err != nil || !findController(t, out, "Deployment", &c) || !findRendered(t, out, "DaemonSet", "sallyport-agent", &a) {
			t.Fatalf("%v\n%s", err, lastPart(out))
		}
		for _, pod := range []corev1.PodSpec{c.Spec.Template.Spec, a.Spec.Template.Spec} {
			if !reflect.DeepEqual(pod.ImagePullSecrets, want) {
				t.Errorf("%s: %s has %v", setting, pod.ServiceAccountName, pod.ImagePullSecrets)
			}
		}
	}
}

// A new installation has quotas. One that is upgraded with the values that it had, which know no quotas, has none.
func TestQuotasAreFinite(t *testing.T) {
	for setting, want := range map[string][]string{
		`replicas=2`: {
			"--default-eip-quota=8", "--organization-eip-quota=40",
			"--organization-project-quota=20",
		},
		`defaults.eipQuota="none"`: {
			"--default-eip-quota=none", "--organization-eip-quota=40",
			"--organization-project-quota=20",
		},
		`defaults.organizationProjectQuota=null`: {"--default-eip-quota=8", "--organization-eip-quota=40"},
		`defaults.organizationEIpQuota=0`: {
			"--default-eip-quota=8", "--organization-eip-quota=0",
			"--organization-project-quota=20",
		},
	} {
		rendered, err := renderChart(t, setting)
		var d appsv1.Deployment
		if err != nil || !findController(t, rendered, "Deployment", &d) {
			t.Fatalf("%s: %v\n%s", setting, err, rendered)
		}
		got := slices.DeleteFunc(slices.Clone(d.Spec.Template.Spec.Containers[0].Args), func(a string) bool {
			return !strings.Contains(a, "-quota=")
		})
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s gives %v, not %v", setting, got, want)
		}
	}
}

// A wrong value is refused with its name, before anything is written.
func TestValuesAreChecked(t *testing.T) {
	for setting, good := range map[string]bool{
		`replicas=1`:                         true,
		`crds.enabled=false`:                 true,
		`crds.enabled="no"`:                  false,
		`crds={"enable":false}`:              false, // a word that does not exist
		`replicas="two"`:                     false,
		`replicas=-1`:                        false,
		`workers=0`:                          false,
		`logLevel="loud"`:                    false,
		`logLevel="debug"`:                   true,
		`replica=3`:                          false, // a word that does not exist
		`defaults.eipNetworkType="x y"`:      false,
		`defaults.eipNetworkType="public"`:   true,
		`defaults.eipQuota=0`:                true,
		`defaults.eipQuota="none"`:           true,
		`defaults.eipQuota=-1`:               false,
		`defaults.eipQuota="many"`:           false,
		`defaults.organizationEIpQuota=1e9`:  false, // Helm would write it as 1e+09
		`ovn.nbAddress="10.0.0.1:6641"`:      false, // neither tcp: nor ssl:
		`ovn.nbAddress="tcp:10.0.0.1"`:       false,
		`ovn.nbAddress="tcp:10.0.0.1:6641,"`: false,
		`ovn.recomputeInterval="500ms"`:      true,
		`ovn.recomputeInterval="0s"`:         true,
		`ovn.recomputeInterval="-1s"`:        false,
		`ovn.recomputeInterval="1h"`:         false, // longer than a run may take

		`ovn.nbAddress="tcp:10.0.0.1:6641,tcp:[fd00::2]:6641"`: true,
		// without certificates
		`ovn.nbAddress="ssl:10.0.0.1:6641"`:                                                  false,
		`ovn={"nbAddress":"ssl:10.0.0.1:6641,ssl:10.0.0.2:6641","tlsSecret":"kube-ovn-tls"}`: true,
		`ovn={"tlsSecret":"kube-ovn-tls"}`:                                                   true,
		// certificates, and not used
		`ovn={"nbAddress":"tcp:10.0.0.1:6641","tlsSecret":"kube-ovn-tls"}`: false,
		`ovn={"sbAddress":"tcp:10.0.0.1:6642","tlsSecret":"kube-ovn-tls"}`: false,
		// without certificates
		`ovn.sbAddress="ssl:10.0.0.1:6642"`:                                                  false,
		`ovn.sbAddress="none"`:                                                               true,
		`agent={"enabled":true,"tls":{"agentSecret":"a"}}`:                                   false, // one side only
		`agent={"enabled":true,"tls":{"agentSecret":"a","controllerSecret":"c"}}`:            true,
		`agent={"enabled":true,"bindAddress":"--x"}`:                                         false,
		`agent={"enabled":true,"bindAddress":"::"}`:                                          true,
		`agent={"enabled":true,"namespace":"agents"}`:                                        true,
		`agent={"enabled":true,"namespace":"a:b\" || true || \""}`:                           false, // would be CEL
		`networkPolicy.egress={"enabled":true,"apiServerPorts":[0]}`:                         false,
		`priorityAndFairness.concurrencyShares=0`:                                            false, // nothing would be served
		`priorityAndFairness.concurrencyShares=40`:                                           true,
		`priorityAndFairness={"enable":false}`:                                               false, // a word that does not exist
		`metrics.secure="yes"`:                                                               false,
		`ovn={"nbAddress":"ssl:10.0.0.1:6641,tcp:10.0.0.2:6641","tlsSecret":"kube-ovn-tls"}`: false,
		`image.digest="sha256:abc"`:                                                          false,
		`image.pullPolicy="Sometimes"`:                                                       false,
		`metrics.serviceMonitor={"enabled":true,"interval":"often"}`:                         false,
		// nothing to monitor
		`metrics={"service":false,"serviceMonitor":{"enabled":true,"interval":"30s"}}`: false,
		// a word that does not exist
		`metrics.dashboard={"enabled":true,"folder":"a"}`:                              false,
		`admissionPolicies.exempt.users="admin"`:                                       false,
		`admissionPolicies.exempt={"users":[],"groups":["CN=Platform \"Ops\", OU=a"]}`: true,
		`admissionPolicies.exempt.namespaces=["kube-system\", \"x"]`:                   false, // would be CEL
		`admissionPolicies.exempt.namespaces=["network","kube-system"]`:                true,
		// would be an expression of its own
		`admissionPolicies.attachmentNamespaces=["a|.*"]`:   false,
		`admissionPolicies.attachmentNamespaces=["shared"]`: true,
		// every tenant's network
		`admissionPolicies.podAnnotations=["logical_switch"]`:                                 false,
		`admissionPolicies.podAnnotations=["routes"]`:                                         true,
		`admissionPolicies.namespaceLabels=[""]`:                                              false, // every label
		`admissionPolicies.namespaceLabels=["example.com/"]`:                                  true,
		`networkPolicy={"enabled":true,"metricsFrom":[{"namespaceSelector":{}}]}`:             true,
		`tolerations=[{"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"}]`: true,
	} {
		out, err := renderChart(t, setting)
		if (err == nil) != good {
			t.Errorf("%s: taken: %t, wanted %t\n%s", setting, err == nil, good, lastPart(out))
		}
		key, _, _ := strings.Cut(strings.FieldsFunc(setting, func(r rune) bool { return r == '=' || r == '.' })[0], "=")
		if err != nil && !strings.Contains(out, key) {
			t.Errorf("%s: the refusal does not name %s:\n%s", setting, key, out)
		}
	}
}

func lastPart(text string) string { return text[max(0, len(text)-500):] }

// Two replicas on different nodes, as nobody, with nothing to write on.
func TestDeployment(t *testing.T) {
	out, err := renderChart(t, `ovn={"nbAddress":"ssl:[fd00::1]:6641","tlsSecret":"kube-ovn-tls"}`,
		`defaults.fipNetworkType="public"`)
	if err != nil {
		t.Fatal(out)
	}
	var d appsv1.Deployment
	if !findController(t, out, "Deployment", &d) {
		t.Fatal("no Deployment")
	}
	pod := d.Spec.Template.Spec
	container := pod.Containers[0]
	var budget policyv1.PodDisruptionBudget
	budgeted := findController(t, out, "PodDisruptionBudget", &budget)
	if *d.Spec.Replicas != 2 || len(pod.TopologySpreadConstraints) == 0 || !budgeted {
		t.Error("the replicas are not two, not spread, or may all be evicted at once")
	}
	s := container.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation ||
		s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the pod may more than it needs: %v, %v", pod.SecurityContext, s)
	}
	for _, want := range []string{
		"--nb-address=ssl:[fd00::1]:6641", "--nb-ca=/etc/sallyport/ovn/cacert", "--leader-election-namespace=network",
		"--default-fip-network-type=public",
	} {
		if !slices.Contains(container.Args, want) {
			t.Errorf("no %s in %q", want, container.Args)
		}
	}
	if !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool {
		return e.Name == "GOMEMLIMIT" && e.ValueFrom.ResourceFieldRef.Resource == "limits.memory"
	}) {
		t.Errorf("Go does not know how much memory there is: %v", container.Env)
	}
	if out, err = renderChart(t, `replicas=1`); err != nil || findController(t, out, "PodDisruptionBudget", &budget) {
		t.Errorf("the node of a single replica could not be drained: %v", err)
	}
	expectFlagsExist(t, "sallyport-controller", container.Args)
}

// An agent that only answers the controller may nothing, and speaks with it where, and how, it asks.
func TestAgent(t *testing.T) {
	out, err := renderChart(t, `agent={"enabled":true,"inspections":false,"tls":{"agentSecret":"a","controllerSecret":"c"}}`)
	if err != nil {
		t.Fatal(out)
	}
	var d appsv1.DaemonSet
	var c appsv1.Deployment
	if !findRendered(t, out, "DaemonSet", "sallyport-agent", &d) || !findController(t, out, "Deployment", &c) {
		t.Fatal("no DaemonSet, or no Deployment")
	}
	pod := d.Spec.Template.Spec
	s := pod.Containers[0].SecurityContext
	if *pod.AutomountServiceAccountToken || !*pod.SecurityContext.RunAsNonRoot || *s.AllowPrivilegeEscalation ||
		s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the pod may more than it needs: %v, %v", pod.SecurityContext, s)
	}
	for _, arg := range pod.Containers[0].Args {
		if strings.HasPrefix(arg, "--egressip") && !slices.Contains(c.Spec.Template.Spec.Containers[0].Args, arg) {
			t.Errorf("the controller does not know %s", arg)
		}
	}
	if got := mountedSecrets(c.Spec.Template.Spec); !slices.Equal(got, []string{"c"}) {
		t.Errorf("the controller has the Secrets %q", got)
	}
	expectFlagsExist(t, "sallyport-controller", c.Spec.Template.Spec.Containers[0].Args)
}

// mountedSecrets are the Secrets that a pod mounts.
func mountedSecrets(pod corev1.PodSpec) (out []string) {
	for _, v := range pod.Volumes {
		if v.Secret != nil {
			out = append(out, v.Secret.SecretName)
		}
	}
	return out
}

// The key of OVN's databases is on no node: agents have a Secret of their own, and who wants TLS in one place only has
// to say so.
func TestAgentsHaveNoKeyOfDatabases(t *testing.T) {
	const ovn = `ovn={"tlsSecret":"kube-ovn-tls"}`
	for agent, want := range map[string]struct {
		secrets []string
		refusal string
	}{
		`agent={"enabled":true,"nodePaths":true,"tls":{"agentSecret":"a","controllerSecret":"c"}}`: {secrets: []string{"a"}},
		`agent={"enabled":true,"tls":{"plaintext":true}}`:                                          {},
		`agent={"enabled":true}`: {refusal: "agents no longer use ovn.tlsSecret"},
		`agent={"enabled":true,"tls":{"agentSecret":"kube-ovn-tls","controllerSecret":"c"}}`:      {refusal: "write to OVN's databases"},
		`agent={"enabled":true,"tls":{"agentSecret":"","controllerSecret":"c","plaintext":true}}`: {refusal: "give both"},
	} {
		out, err := renderChart(t, ovn, agent)
		if want.refusal != "" {
			if err == nil || !strings.Contains(out, want.refusal) {
				t.Errorf("%s: %v\n%s", agent, err, lastPart(out))
			}
			continue
		}
		var d appsv1.DaemonSet
		if err != nil || !findRendered(t, out, "DaemonSet", "sallyport-agent", &d) {
			t.Fatalf("%s: %v\n%s", agent, err, lastPart(out))
		}
		if got := mountedSecrets(d.Spec.Template.Spec); !slices.Equal(got, want.secrets) {
			t.Errorf("%s: agents have the Secrets %q", agent, got)
		}
	}
}

// Agents answer on the node's own address, and not on the external networks that it is on.
func TestAgentsAnswerOnTheNodesAddress(t *testing.T) {
	for setting, want := range map[string]string{
		`agent={"enabled":true}`:                    "--bind-address=$(HOST_IP)",
		`agent={"enabled":true,"bindAddress":"::"}`: "--bind-address=::",
	} {
		out, err := renderChart(t, setting)
		var d appsv1.DaemonSet
		if err != nil || !findRendered(t, out, "DaemonSet", "sallyport-agent", &d) {
			t.Fatalf("%v\n%s", err, lastPart(out))
		}
		c := d.Spec.Template.Spec.Containers[0]
		at := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "HOST_IP" })
		if !slices.Contains(c.Args, want) || at < 0 || c.Env[at].ValueFrom.FieldRef.FieldPath != "status.hostIP" {
			t.Errorf("%s: %q, %v", setting, c.Args, c.Env)
		}
	}
}

// Whoever has certificates for the databases speaks by TLS with both, and with none of them otherwise.
func TestDatabasesByTLS(t *testing.T) {
	for setting, want := range map[string][]string{
		`ovn.tlsSecret=""`: {
			"--nb-address=tcp:ovn-nb.kube-system.svc:6641",
			"--sb-address=tcp:ovn-sb.kube-system.svc:6642",
		},
		`ovn.tlsSecret="kube-ovn-tls"`: {
			"--nb-address=ssl:ovn-nb.kube-system.svc:6641",
			"--sb-address=ssl:ovn-sb.kube-system.svc:6642",
		},
		`ovn.sbAddress="none"`: {"--nb-address=tcp:ovn-nb.kube-system.svc:6641"},
	} {
		out, err := renderChart(t, setting)
		var d appsv1.Deployment
		if err != nil || !findController(t, out, "Deployment", &d) {
			t.Fatalf("%v\n%s", err, lastPart(out))
		}
		var got []string
		for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
			if strings.Contains(arg, "b-address=") {
				got = append(got, arg)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", setting, got)
		}
	}
}

// Metrics are for who may get them, unless somebody says otherwise; then the controller asks the cluster about nobody.
func TestMetricsAreForReaders(t *testing.T) {
	for _, secure := range []bool{true, false} {
		out, err := renderChart(t, fmt.Sprintf("metrics.secure=%t", secure), "ovn.relay=false",
			`metrics.serviceMonitor={"enabled":true,"interval":"30s"}`)
		var d appsv1.Deployment
		var role, reader rbacv1.ClusterRole
		if err != nil || !findController(t, out, "Deployment", &d) || !findController(t, out, "ClusterRole", &role) {
			t.Fatalf("%v\n%s", err, lastPart(out))
		}
		asks := slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, "tokenreviews")
		})
		if !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, fmt.Sprintf("--metrics-secure=%t", secure)) ||
			asks != secure ||
			findRendered(t, out, "ClusterRole", "sallyport-metrics-reader", &reader) != secure ||
			strings.Contains(out, "scheme: https") != secure {
			t.Errorf("secure %t: asks %t\n%s", secure, asks, out)
		}
	}
}

// The relay listens on loopback, its tokens have no permission on the API server, and who may request them may do
// nothing else but port-forward. Without the relay there is nothing of it.
func TestRelay(t *testing.T) {
	for _, on := range []bool{true, false} {
		out, err := renderChart(t, fmt.Sprintf("ovn.relay=%t", on), "metrics.secure=false")
		var d appsv1.Deployment
		var controller, tokens rbacv1.ClusterRole
		var reader rbacv1.Role
		if err != nil || !findController(t, out, "Deployment", &d) || !findController(t, out, "ClusterRole", &controller) {
			t.Fatalf("%v\n%s", err, lastPart(out))
		}
		asks := slices.ContainsFunc(controller.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, "tokenreviews")
		})
		if slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--relay-address=127.0.0.1:8082") != on || asks != on ||
			findRendered(t, out, "ClusterRole", "sallyport-ovn-relay", &tokens) != on ||
			findRendered(t, out, "Role", "sallyport-ovn-reader", &reader) != on || strings.Contains(out, "8082") != on {
			t.Errorf("relay %t: asks %t\n%s", on, asks, out)
		}
		for _, r := range tokens.Rules {
			if len(r.Resources) > 0 || !slices.Equal(r.NonResourceURLs, []string{"/sallyport/ovn/*"}) {
				t.Errorf("tokens may do %v", r)
			}
		}
		for _, r := range reader.Rules {
			if slices.Contains(r.Verbs, "create") != (r.Resources[0] != "pods") ||
				r.Resources[0] == "serviceaccounts/token" && !slices.Equal(r.ResourceNames, []string{"sallyport-ovn-reader"}) {
				t.Errorf("readers may do %v", r)
			}
		}
	}
}

// Nothing but metrics and health comes in; what goes out is limited on request, to the ports that the controller dials.
func TestNetworkPolicy(t *testing.T) {
	for setting, ports := range map[string][]int32{
		`networkPolicy.enabled=true`: nil, `networkPolicy.egress.enabled=true`: {53, 53, 443, 6443, 6641, 6642, 9},
		`networkPolicy.egress={"enabled":true,"apiServerPorts":[16443]}`: {53, 53, 16443, 6641, 6642, 9},
	} {
		out, err := renderChart(t, setting)
		var p networkingv1.NetworkPolicy
		if err != nil || !findController(t, out, "NetworkPolicy", &p) {
			t.Fatalf("%v\n%s", err, lastPart(out))
		}
		var got []int32
		for _, rule := range p.Spec.Egress {
			for _, port := range rule.Ports {
				got = append(got, port.Port.IntVal)
			}
		}
		if !slices.Equal(got, ports) || len(p.Spec.Ingress) != 2 ||
			slices.Contains(p.Spec.PolicyTypes, "Egress") != (ports != nil) {
			t.Errorf("%s: out by %v, %v", setting, got, p.Spec)
		}
	}
}

// Requests of the controller have a priority level of their own, divided by namespace, and Leases do not wait behind them.
func TestPriorityAndFairness(t *testing.T) {
	out, err := renderChart(t, `agent={"enabled":true}`, `serviceAccount={"name":"other"}`)
	if err != nil {
		t.Fatal(out)
	}
	var level flowcontrolv1.PriorityLevelConfiguration
	if !findRendered(t, out, "PriorityLevelConfiguration", "sallyport", &level) ||
		*level.Spec.Limited.NominalConcurrencyShares != 20 || level.Spec.Limited.LimitResponse.Queuing == nil {
		t.Errorf("no priority level, or one without queues: %+v", level.Spec.Limited)
	}
	precedence := map[string]int32{}
	for name, want := range map[string]struct{ account, level string }{
		"sallyport-controller": {"other", "sallyport"}, "sallyport-lease": {"other", "leader-election"},
		"sallyport-agents": {"sallyport-agent", "sallyport"},
	} {
		var f flowcontrolv1.FlowSchema
		if !findRendered(t, out, "FlowSchema", name, &f) {
			t.Fatalf("no FlowSchema %s", name)
		}
		precedence[name] = f.Spec.MatchingPrecedence
		account := f.Spec.Rules[0].Subjects[0].ServiceAccount
		if account.Name != want.account || account.Namespace != "network" ||
			f.Spec.PriorityLevelConfiguration.Name != want.level {
			t.Errorf("%s: requests of %v have level %s", name, account, f.Spec.PriorityLevelConfiguration.Name)
		}
		if by := f.Spec.DistinguisherMethod.Type; (by == "ByNamespace") != (name == "sallyport-controller") {
			t.Errorf("%s: requests are divided %s", name, by)
		}
	}
	// Kubernetes' own for ServiceAccounts of kube-system have 900
	if precedence["sallyport-lease"] >= precedence["sallyport-controller"] || precedence["sallyport-controller"] >= 900 {
		t.Errorf("the first that matches applies: %v", precedence)
	}
	for setting, want := range map[string]int{`priorityAndFairness.enabled=false`: 0, `agent.enabled=false`: 2} {
		if out, err := renderChart(t, setting); err != nil || strings.Count(out, "kind: FlowSchema") != want {
			t.Errorf("%s: %d FlowSchemas, wanted %d: %v", setting, strings.Count(out, "kind: FlowSchema"), want, err)
		}
	}
}

// By these labels sallyport status and kubectl, as findings have it, find the agents' pods.
func TestAgentsAreFound(t *testing.T) {
	out, err := renderChart(t, `agent.enabled=true`)
	if err != nil {
		t.Fatal(out)
	}
	var d appsv1.DaemonSet
	if !findRendered(t, out, "DaemonSet", "sallyport-agent", &d) {
		t.Fatal("no DaemonSet")
	}
	if d.Name != ownership.AgentName {
		t.Errorf("the DaemonSet is called %s, and %s is looked for", d.Name, ownership.AgentName)
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
		{"true", "false", []string{"NET_ADMIN"}, []string{"state", "settings"}, []string{"nodepaths/status"}},
		{
			"false", "true",
			[]string{"NET_RAW", "DAC_OVERRIDE"},
			[]string{"openvswitch", "ovn"},
			[]string{"inspections/status"},
		},
		{
			"true", "true",
			[]string{"NET_ADMIN", "NET_RAW", "DAC_OVERRIDE"},
			[]string{"state", "settings", "openvswitch", "ovn"},
			[]string{"nodepaths/status", "inspections/status"},
		},
	} {
		out, err := renderChart(t, `agent={"enabled":true,"nodePaths":`+c.paths+`,"inspections":`+c.inspections+`}`)
		if err != nil {
			t.Fatal(out)
		}
		var d appsv1.DaemonSet
		var role rbacv1.ClusterRole
		if !findRendered(t, out, "DaemonSet", "sallyport-agent", &d) ||
			!findRendered(t, out, "ClusterRole", "sallyport-controller-agent", &role) {
			t.Fatal("no DaemonSet, or no ClusterRole")
		}
		expectEventsRole(t, out, c.paths == "true")
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
		if !slices.Equal(capabilities, c.capabilities) || !slices.Equal(mounts, c.mounts) ||
			!slices.Equal(writes, c.writes) ||
			agent.SecurityContext.Capabilities.Drop[0] != "ALL" || *agent.SecurityContext.AllowPrivilegeEscalation {
			t.Errorf("NodePaths %s, Inspections %s: it has %q, mounts %q, and writes %q", c.paths, c.inspections,
				capabilities, mounts, writes)
		}
		expectFlagsExist(t, "sallyport-agent", agent.Args)
	}
}

// The file with the names of routing tables is on the node only where it is asked for, and the agent gets the directory
// that is mounted.
func TestTableNames(t *testing.T) {
	for values, want := range map[string]string{
		`agent={"enabled":true,"nodePaths":true}`:                    "",
		`agent={"enabled":true,"nodePaths":true,"tableNames":true}`:  "/host/etc/iproute2/rt_tables.d",
		`agent={"enabled":true,"nodePaths":false,"tableNames":true}`: "",
	} {
		out, err := renderChart(t, values)
		if err != nil {
			t.Fatal(out)
		}
		var d appsv1.DaemonSet
		if !findRendered(t, out, "DaemonSet", "sallyport-agent", &d) {
			t.Fatal("no DaemonSet")
		}
		agent := d.Spec.Template.Spec.Containers[0]
		at := slices.IndexFunc(agent.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "table-names" })
		switch {
		case (at >= 0) != (want != ""):
			t.Errorf("%s: the directory is mounted: %v", values, at >= 0)
		case at >= 0 && (agent.VolumeMounts[at].MountPath != want ||
			!slices.Contains(agent.Args, "--table-names-dir="+want)):
			t.Errorf("%s: it is mounted at %s, and the agent has %q", values, agent.VolumeMounts[at].MountPath, agent.Args)
		}
		expectFlagsExist(t, "sallyport-agent", agent.Args)
	}
}

// expectEventsRole checks that agents tell of NodePaths, where they carry them out, in the namespace default and in no
// other.
func expectEventsRole(t *testing.T, rendered string, want bool) {
	t.Helper()
	var events rbacv1.Role
	if tells := findRendered(t, rendered, "Role", "sallyport-controller-agent", &events); tells != want || tells &&
		events.Namespace != metav1.NamespaceDefault {
		t.Errorf("events: %t, in namespace %q", tells, events.Namespace)
	}
}

// runc refuses to start a container with a mount below /proc, and one below /sys is a risk that we need not take. The
// node's settings are mounted elsewhere, and the agent is told where.
func TestMountsAreAllowed(t *testing.T) {
	for _, inspections := range []string{"true", "false"} {
		out, err := renderChart(t, `agent={"enabled":true,"nodePaths":true,"tls":{"plaintext":true},"inspections":`+
			inspections+`}`, `ovn={"nbAddress":"ssl:[fd00::1]:6641","tlsSecret":"kube-ovn-tls"}`)
		if err != nil {
			t.Fatal(out)
		}
		var d appsv1.DaemonSet
		var c appsv1.Deployment
		if !findRendered(t, out, "DaemonSet", "sallyport-agent", &d) || !findController(t, out, "Deployment", &c) {
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
		if root := strings.TrimSuffix(mounts[at].MountPath, "/net"); !slices.Contains(agent.Args,
			"--sysctl-root="+root) {
			t.Errorf("the node's settings are at %s, and the agent is told %q", root, agent.Args)
		}
	}
}

// Agents may have a namespace of their own. Everything that names their ServiceAccount names it there, and the release's
// namespace has only what complies with the Pod Security Standard restricted.
func TestAgentsNamespace(t *testing.T) {
	const account = ":sallyport-agent\""
	for namespace, values := range map[string]string{
		"network": `agent={"enabled":true,"nodePaths":true}`,
		"agents":  `agent={"enabled":true,"nodePaths":true,"namespace":"agents"}`,
	} {
		out, err := renderChart(t, values)
		if err != nil {
			t.Fatal(out)
		}
		var d appsv1.DaemonSet
		var s corev1.ServiceAccount
		var b rbacv1.ClusterRoleBinding
		var r rbacv1.RoleBinding
		var f flowcontrolv1.FlowSchema
		if !findRendered(t, out, "DaemonSet", "sallyport-agent", &d) ||
			!findRendered(t, out, "ServiceAccount", "sallyport-agent", &s) ||
			!findRendered(t, out, "ClusterRoleBinding", "sallyport-controller-agent", &b) ||
			!findRendered(t, out, "RoleBinding", "sallyport-controller-agent", &r) ||
			!findRendered(t, out, "FlowSchema", "sallyport-agents", &f) {
			t.Fatal("an object of the agents is missing")
		}
		found := []string{
			d.Namespace, s.Namespace, b.Subjects[0].Namespace, r.Subjects[0].Namespace,
			f.Spec.Rules[0].Subjects[0].ServiceAccount.Namespace,
		}
		for _, got := range found {
			if got != namespace {
				t.Errorf("%s: the namespaces of agents are %q", values, found)
			}
		}
		// of the policy on status, and of that of the agents
		if n := strings.Count(out, "system:serviceaccount:"+namespace+account); n != 2 || strings.Count(out, account) != n {
			t.Errorf("%s: policies name the agents of %s %d times, and agents %d times", values, namespace, n,
				strings.Count(out, account))
		}
	}
}

// Operators read, and ask nodes. They write nothing else, and nothing of ours lets them read Secrets.
func TestOperators(t *testing.T) {
	out, err := renderChart(t)
	if err != nil {
		t.Fatal(out)
	}
	var role rbacv1.ClusterRole
	if !findRendered(t, out, "ClusterRole", "sallyport-operator", &role) {
		t.Fatal("no ClusterRole")
	}
	for _, rule := range role.Rules {
		reads := slices.Equal(rule.Verbs, []string{"get", "list", "watch"})
		if asks := slices.Equal(rule.Resources, []string{"inspections"}); !reads && !asks ||
			slices.Contains(rule.Resources, "secrets") {
			t.Errorf("operators may more than to read and to ask: %v", rule)
		}
	}
}

// expectFlagsExist checks the chart's flags against a program, where it is built.
func expectFlagsExist(t *testing.T, program string, args []string) {
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

// Switched on, the alerts and the dashboard come as the files have them, with the labels by which Prometheus and
// Grafana find them.
func TestMonitoring(t *testing.T) {
	var rule struct {
		APIVersion string `json:"apiVersion"`
		Kind       string
		Metadata   metav1.ObjectMeta
		Spec       struct{ Groups []any }
	}
	var board corev1.ConfigMap
	out, err := renderChart(t)
	if err != nil || findController(t, out, "PrometheusRule", &rule) ||
		findRendered(t, out, "ConfigMap", "sallyport-dashboard", &board) {
		t.Errorf("they come though nobody asked: %v", err)
	}
	out, err = renderChart(t, `metrics.prometheusRule={"enabled":true,"labels":{"release":"prometheus"}}`,
		`metrics.dashboard.enabled=true`)
	if err != nil || !findController(t, out, "PrometheusRule", &rule) ||
		!findRendered(t, out, "ConfigMap", "sallyport-dashboard", &board) {
		t.Fatalf("they do not come: %v\n%s", err, lastPart(out))
	}
	var file struct{ Groups []any }
	if err := sigsyaml.Unmarshal(readChartFile(t, "monitoring/alerts.yaml"), &file); err != nil ||
		!reflect.DeepEqual(rule.Spec.Groups, file.Groups) {
		t.Errorf("the rules are not those of the file: %v", err)
	}
	if rule.Metadata.Labels["release"] != "prometheus" || board.Labels["grafana_dashboard"] != "1" {
		t.Errorf("labels %v, %v", rule.Metadata.Labels, board.Labels)
	}
	if got, want := board.Data["sallyport.json"],
		string(readChartFile(t, "monitoring/dashboard.json")); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Error("the dashboard is not that of the file")
	}
}

// readChartFile is a file of the chart.
func readChartFile(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(chartDir, path))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The controller has no right on everything, none on Secrets, and none on others' leases.
func TestRightsAreFew(t *testing.T) {
	out, err := renderChart(t)
	if err != nil {
		t.Fatal(out)
	}
	var cluster rbacv1.ClusterRole
	var local rbacv1.Role
	if !findController(t, out, "ClusterRole", &cluster) || !findController(t, out, "Role", &local) {
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
