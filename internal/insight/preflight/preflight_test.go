package preflight_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/insight/preflight"
	"github.com/sallyport/sallyport/internal/model/installation"
)

// brokenCluster is a cluster with one fault, and how the report names it.
type brokenCluster struct {
	code  string
	state preflight.State
	seen  string
	fault func(*testing.T, *world)
}

var broken = []brokenCluster{
	{"KubernetesTooOld", preflight.Failed, "v1.29.3", func(_ *testing.T, w *world) { w.version = "v1.29.3" }},
	{"KubernetesVersionUnknown", preflight.Warning, "two", func(_ *testing.T, w *world) { w.version = "two" }},
	{"KubernetesWithoutInspections", preflight.Warning, "1.30", func(_ *testing.T, w *world) { w.version = "v1.30.1-gke.7" }},
	{"AdmissionPoliciesMissing", preflight.Failed, "validatingadmissionpolicies", func(_ *testing.T, w *world) {
		w.missing = append(w.missing, installation.AdmissionPolicies)
	}},
	{"PriorityLevelsMissing", preflight.Warning, "flowcontrol", func(_ *testing.T, w *world) {
		w.missing = append(w.missing, installation.PriorityLevels)
	}},
	{"KubeOVNNotFound", preflight.Failed, "kube-ovn-controller", func(_ *testing.T, w *world) { w.engine = nil }},
	{"KubeOVNKindsMissing", preflight.Failed, "ovn-fips", func(_ *testing.T, w *world) {
		w.missing = append(w.missing, installation.API{GroupVersion: "kubeovn.io/v1", Resource: "ovn-fips"})
	}},
	{"KubeOVNNotReady", preflight.Failed, "0 of 1", func(_ *testing.T, w *world) { w.engine.Status.ReadyReplicas = 0 }},
	{"KubeOVNTooOld", preflight.Failed, "1.12.4", func(_ *testing.T, w *world) { setImage(w.engine, "kubeovn/kube-ovn:v1.12.4") }},
	{"KubeOVNNotTested", preflight.Warning, "1.17.0", func(_ *testing.T, w *world) { setImage(w.engine, "kubeovn/kube-ovn:v1.17.0") }},
	{"KubeOVNVersionUnknown", preflight.Warning, "does not tell", func(_ *testing.T, w *world) {
		setImage(w.engine, "registry.example.com/kube-ovn@sha256:00")
	}},
	{"EIPSwitchedOff", preflight.Failed, "--enable-eip-snat=false", func(_ *testing.T, w *world) {
		addArgument(w.engine, "--enable-eip-snat=false")
	}},
	{"LoadBalancersSwitchedOff", preflight.Warning, "--enable-lb=false", func(_ *testing.T, w *world) {
		addArgument(w.engine, "--enable-lb=false")
	}},
	{"NoGatewayNode", preflight.Failed, "no node has the label", func(_ *testing.T, w *world) {
		for _, n := range w.nodes {
			n.Labels = map[string]string{"ovn.kubernetes.io/external-gw": "false"}
		}
	}},
	{"GatewayNodeNotReady", preflight.Failed, "node1, node2", func(_ *testing.T, w *world) {
		for _, n := range w.nodes {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}
	}},
	{"GatewayNodeWithoutChassis", preflight.Warning, "node2", func(_ *testing.T, w *world) { w.nodes[1].Annotations = nil }},
	{"GatewayConfigMissing", preflight.Warning, "ovn-external-gw-config", func(_ *testing.T, w *world) { w.gateway = nil }},
	{"NoExternalNetwork", preflight.Warning, "no Subnet", func(_ *testing.T, w *world) { w.subnets = nil }},
	{"NoDefaultNetwork", preflight.Warning, "default-external", func(_ *testing.T, w *world) {
		delete(w.subnets[0].Labels, "network.kube-dc.com/default-external")
	}},
	{"SeveralDefaultNetworks", preflight.Failed, "ext-cloud, ext-public", func(_ *testing.T, w *world) {
		w.subnets[1].Labels["network.kube-dc.com/default-external"] = "true"
	}},
	{"SubnetMalformed", preflight.Failed, "ext-public", func(_ *testing.T, w *world) { w.subnets[1].Spec.CIDRBlock = "192.0.2.0" }},
	{"SubnetWithoutIPv4", preflight.Failed, "ext-public", func(_ *testing.T, w *world) {
		w.subnets[1].Spec.CIDRBlock = "2001:db8::/64"
	}},
	{"SubnetWithIPv6", preflight.Warning, "ext-public", func(_ *testing.T, w *world) {
		w.subnets[1].Spec.CIDRBlock = "192.0.2.0/24,2001:db8::/64"
	}},
	{"SubnetGatewayOutside", preflight.Failed, "198.51.100.1", func(_ *testing.T, w *world) {
		w.subnets[1].Spec.Gateway = "198.51.100.1"
	}},
	{"SubnetWithoutVlan", preflight.Failed, "ext-public", func(_ *testing.T, w *world) { w.subnets[1].Spec.Vlan = "" }},
	{"VlanMissing", preflight.Failed, "vlan-public", func(_ *testing.T, w *world) { w.vlans = w.vlans[:1] }},
	{"ProviderNetworkMissing", preflight.Failed, "wire-public", func(_ *testing.T, w *world) { w.providers = w.providers[:1] }},
	{"SubnetNotReady", preflight.Failed, "ext-public", func(_ *testing.T, w *world) { w.subnets[1].Status.Conditions = nil }},
	{"SubnetFull", preflight.Warning, "ext-public", func(_ *testing.T, w *world) { w.subnets[1].Status.V4AvailableIPs = 0 }},
	{"GatewayNodeExcluded", preflight.Failed, "node2", func(_ *testing.T, w *world) {
		w.providers[1].Spec.ExcludeNodes = []string{"node2"}
	}},
	{"ProviderNetworkNotReady", preflight.Failed, "wire-public is not ready on gateway node node2", func(_ *testing.T, w *world) {
		w.providers[1].Status.ReadyNodes, w.providers[1].Status.NotReadyNodes = []string{"node1"}, []string{"node2"}
	}},
	{"DatabaseServiceMissing", preflight.Failed, "ovn-sb", func(_ *testing.T, w *world) { w.services = w.services[:1] }},
	{"DatabaseWithoutLeader", preflight.Failed, "ovn-nb", func(_ *testing.T, w *world) {
		w.endpoints[0].Endpoints[0].Conditions.Ready = new(bool)
	}},
	{"DatabasesWithoutTLS", preflight.Warning, "does not use TLS", func(_ *testing.T, w *world) {
		w.engine.Spec.Template.Spec.Containers[0].Env = nil
	}},
	{"ControllerWithoutTLS", preflight.Failed, "connects without", func(t *testing.T, w *world) {
		w.install(t)
		w.controller.Spec.Template.Spec.Containers[0].Args = []string{"--nb-address=tcp:ovn-nb.kube-system.svc:6641"}
	}},
	{"SecretMissing", preflight.Failed, "kube-ovn-tls", func(_ *testing.T, w *world) { w.secret = nil }},
	{"SecretIncomplete", preflight.Failed, "lacks key", func(_ *testing.T, w *world) { delete(w.secret.Data, "key") }},
	{"CertificateExpired", preflight.Failed, "2026-10-31", func(t *testing.T, w *world) {
		w.secret.Data = newCertificates(t, now.AddDate(0, 0, -1))
	}},
	{"CertificateExpiresSoon", preflight.Warning, "2026-11-02", func(t *testing.T, w *world) {
		w.secret.Data = newCertificates(t, now.AddDate(0, 0, 1))
	}},
	{"CertificateInvalid", preflight.Failed, "not signed", func(t *testing.T, w *world) {
		w.secret.Data["cacert"] = newCertificates(t, now.AddDate(1, 0, 0))["cacert"]
	}},
	{"DefinitionConflict", preflight.Failed, "eips.kube-dc.com", func(t *testing.T, w *world) {
		w.define(t)
		w.definitions = []*unstructured.Unstructured{w.definition(t, "eips.kube-dc.com")}
		versions := w.definitions[0].Object["spec"].(map[string]any)["versions"].([]any)
		schema, _, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec",
			"properties")
		delete(schema, "externalNetworkType")
		if err := unstructured.SetNestedMap(versions[0].(map[string]any), schema, "schema", "openAPIV3Schema", "properties",
			"spec", "properties"); err != nil {
			t.Fatal(err)
		}
	}},
	{"DefinitionOfAnotherRelease", preflight.Failed, "gate in namespace edge", func(t *testing.T, w *world) {
		w.install(t)
		w.definition(t, "eips.kube-dc.com").SetAnnotations(map[string]string{
			"meta.helm.sh/release-name": "gate", "meta.helm.sh/release-namespace": "edge",
		})
	}},
	{"DefinitionNotOfHelm", preflight.Warning, "eips.kube-dc.com", func(t *testing.T, w *world) {
		w.define(t)
		w.definitions = []*unstructured.Unstructured{w.definition(t, "eips.kube-dc.com")}
	}},
	{"KubeDCInstalled", preflight.Warning, "organizations.kube-dc.com", func(_ *testing.T, w *world) {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"group": "kube-dc.com"}}}
		o.SetName("organizations.kube-dc.com")
		w.definitions = append(w.definitions, o)
	}},
	{"NamespaceMissing", preflight.Warning, "sallyport", func(_ *testing.T, w *world) {
		w.secret.Namespace, w.options.Controller, w.options.Agent = "sallyport", "sallyport", "kube-system"
	}},
	{"AgentsNotAdmitted", preflight.Warning, "restricted", func(_ *testing.T, w *world) {
		w.namespace.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	}},
	{"OtherInstallation", preflight.Warning, "edge/sallyport-controller", func(_ *testing.T, w *world) {
		w.others = append(w.others, &appsv1.Deployment{ObjectMeta: newMeta("edge", "sallyport-controller")})
	}},
	{"ImageNotPulled", preflight.Failed, "ImagePullBackOff of registry.example.com/sallyport:1", func(t *testing.T, w *world) {
		w.install(t)
		w.addWaitingPod("ImagePullBackOff")
	}},
	{"PodDoesNotStart", preflight.Warning, "CrashLoopBackOff", func(t *testing.T, w *world) {
		w.install(t)
		w.addWaitingPod("CrashLoopBackOff")
	}},
	{"PermissionsMissing", preflight.Failed, "create clusterroles.rbac.authorization.k8s.io", func(_ *testing.T, w *world) {
		w.denied = "clusterroles"
	}},
	{preflight.Unreadable, preflight.NotChecked, "forbidden", func(_ *testing.T, w *world) { w.unreadable = "nodes" }},
}

func setImage(d *appsv1.Deployment, image string) { d.Spec.Template.Spec.Containers[0].Image = image }

func addArgument(d *appsv1.Deployment, argument string) {
	c := &d.Spec.Template.Spec.Containers[0]
	c.Args = append(c.Args, argument)
}

// codesOf are the codes of the problems, without repetition.
func codesOf(results []preflight.Result) (out []string) {
	for _, r := range results {
		if r.Code != "" && !slices.Contains(out, r.Code) {
			out = append(out, r.Code)
		}
	}
	return out
}

// A healthy cluster has no problem, before the installation and after it.
func TestHealthyClusterHasNoProblem(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"before the installation": func(*world) {},
		"after the installation":  func(w *world) { w.install(t) },
	} {
		w := newWorld(t)
		prepare(w)
		results := w.check(t)
		if codes := codesOf(results); len(codes) > 0 || preflight.Worst(results) != preflight.OK {
			t.Errorf("%s: %v in %+v", name, codes, results)
		}
		for _, check := range []string{"Kubernetes", "Kube-OVN", "Gateway nodes", "External networks", "Provider networks", "Secrets"} {
			i := slices.IndexFunc(results, func(r preflight.Result) bool { return r.Check == check })
			if i < 0 || results[i].State != preflight.OK {
				t.Errorf("%s: %s is not ok: %+v", name, check, results)
			}
		}
	}
}

// Each fault is named, with what was seen and what to do, and nothing else is reported.
func TestEachFaultIsNamed(t *testing.T) {
	for _, b := range broken {
		t.Run(b.code, func(t *testing.T) {
			w := newWorld(t)
			b.fault(t, w)
			results := w.check(t)
			if codes := codesOf(results); !slices.Equal(codes, []string{b.code}) {
				t.Fatalf("reported are %v: %+v", codes, results)
			}
			i := slices.IndexFunc(results, func(r preflight.Result) bool { return r.Code == b.code })
			if r := results[i]; r.State != b.state || !strings.Contains(r.Seen, b.seen) || r.Next == "" {
				t.Errorf("%+v, want %s with %q and a next step", r, b.state, b.seen)
			}
			want := preflight.Warning
			if b.state == preflight.Failed {
				want = preflight.Failed
			}
			if got := preflight.Worst(results); got != want {
				t.Errorf("the worst state is %s", got)
			}
		})
	}
}

// Every code of the package has a broken cluster in this test.
func TestEveryCodeHasACluster(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	reported := regexp.MustCompile(`(?:warn|fail|report)\("([A-Z][A-Za-z0-9]+)"|, "([A-Z][A-Za-z]+Off)"`)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range reported.FindAllStringSubmatch(string(raw), -1) {
			code := match[1] + match[2]
			found++
			if !slices.ContainsFunc(broken, func(b brokenCluster) bool { return b.code == code }) {
				t.Errorf("%s has no broken cluster", code)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d codes are found in the package", found)
	}
}

// Secrets that only an unreadable DaemonSet names are not reported as sufficient, nor as none.
func TestSecretsOfUnreadableWorkloadsAreNotChecked(t *testing.T) {
	w := newWorld(t)
	w.install(t)
	w.unreadable = "daemonsets"
	for _, r := range w.check(t) {
		if r.Check == "Secrets" && (r.State != preflight.NotChecked || r.Code != preflight.Unreadable) {
			t.Errorf("%+v", r)
		}
	}
}

// What users wrote reaches the report only in quotes or as names of objects, and lists are limited.
func TestReportIsLimited(t *testing.T) {
	w := newWorld(t)
	w.subnets[0].Spec.CIDRBlock = strings.Repeat("x", 5000)
	for _, r := range w.check(t) {
		if len(r.Seen) > 1000 {
			t.Errorf("%s has %d characters", r.Code, len(r.Seen))
		}
	}
}
