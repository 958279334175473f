package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/installation"
)

// The oldest minor versions of Kubernetes: for the chart, and for its value agent.inspections.
const (
	oldestKubernetes      = 30
	kubernetesInspections = 31
)

// maxShown limits the names in one line, because others decide how many there are.
const maxShown = 5

func checkKubernetes(r *run) {
	core, _, _ := strings.Cut(strings.TrimPrefix(r.Kubernetes, "v"), "-")
	parts := strings.SplitN(core, ".", 3)
	minor := -1
	if len(parts) > 1 && parts[0] == "1" {
		if n, err := strconv.Atoi(strings.TrimRight(parts[1], "+")); err == nil {
			minor = n
		}
	}
	switch {
	case minor < 0:
		r.warn("KubernetesVersionUnknown", "Sallyport needs Kubernetes 1.30 or newer: check the version yourself",
			"version %s is not of the form 1.N.N", humanize.Quote(r.Kubernetes))
	case minor < oldestKubernetes:
		r.fail("KubernetesTooOld", "upgrade Kubernetes to 1.30 or newer", "version %s", r.Kubernetes)
	case minor < kubernetesInspections:
		r.warn("KubernetesWithoutInspections", "set agent.inspections=false, or upgrade Kubernetes to 1.31",
			"version %s: agents can't answer Inspections", r.Kubernetes)
	default:
		r.pass("version %s", r.Kubernetes)
	}
}

func checkAdmission(r *run) {
	if !r.IsServed(installation.AdmissionPolicies) {
		r.fail("AdmissionPoliciesMissing", "enable them in the API server; with admissionPolicies.enabled=false of the chart, "+
			"tenants can write what the controller writes",
			"the API server does not serve %s", installation.AdmissionPolicies)
		return
	}
	r.pass("ValidatingAdmissionPolicies are served")
}

func checkPriority(r *run) {
	if !r.IsServed(installation.PriorityLevels) {
		r.warn("PriorityLevelsMissing", "set priorityAndFairness.enabled=false of the chart",
			"the API server does not serve %s", installation.PriorityLevels)
		return
	}
	r.pass("PriorityLevelConfigurations are served")
}

func checkEngine(r *run) {
	var missing []string
	for _, a := range installation.EngineAPIs {
		if !r.IsServed(a) {
			missing = append(missing, a.Resource)
		}
	}
	if len(missing) > 0 {
		r.fail("KubeOVNKindsMissing", "install Kube-OVN with all of its CRDs",
			"the API server does not serve %s of kubeovn.io/v1",
			humanize.JoinLimited(missing, maxShown))
	}
	if r.Engine == nil {
		r.fail("KubeOVNNotFound", "install Kube-OVN, or name its namespace with --kube-ovn-namespace",
			"there is no Deployment kube-ovn-controller")
		return
	}
	if r.Engine.Ready < r.Engine.Wanted {
		r.fail("KubeOVNNotReady", "kubectl -n "+r.Engine.Namespace+" describe deployment "+r.Engine.Name,
			"%d of %d replicas of kube-ovn-controller are ready", r.Engine.Ready, r.Engine.Wanted)
	}
	switch v := r.EngineVersion; {
	case !v.IsKnown():
		r.warn("KubeOVNVersionUnknown", fmt.Sprintf("check the version yourself: Sallyport needs %s", kubeovn.OldestVersion),
			"the image of kube-ovn-controller does not tell its version")
	case v.Compare(kubeovn.OldestVersion) < 0:
		r.fail("KubeOVNTooOld", fmt.Sprintf("upgrade Kube-OVN to %s or newer", kubeovn.OldestVersion), "version %s", v)
	case !v.IsTested():
		r.warn("KubeOVNNotTested", "try it in a test cluster first",
			"version %s; the tests run %s", v, kubeovn.TestedVersion)
	default:
		r.passIfClean("version %s", v)
	}
}

// engineSwitches are switches of Kube-OVN's controller that are on unless somebody turns them off.
var engineSwitches = []struct {
	flag, code, lost string
	fails            bool
}{
	{"enable-eip-snat", "EIPSwitchedOff", "Kube-OVN gives no external addresses", true},
	{
		"enable-lb", "LoadBalancersSwitchedOff",
		"Kube-OVN deletes OVN's load balancers again and again; the tests run with true only", false,
	},
}

func checkEngineSettings(r *run) {
	if r.Engine == nil {
		r.skip("", "", "there is no Deployment kube-ovn-controller")
		return
	}
	for _, s := range engineSwitches {
		if !isSwitchedOff(r.Engine.Args, s.flag) {
			continue
		}
		report := r.warn
		if s.fails {
			report = r.fail
		}
		report(s.code, "start kube-ovn-controller with --"+s.flag+"=true", "--%s=false: %s", s.flag, s.lost)
	}
	r.passIfClean("external addresses and load balancers are enabled")
}

// isSwitchedOff reports whether arguments turn a flag off. The last one counts.
func isSwitchedOff(args []string, flag string) (off bool) {
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == flag {
			on, err := strconv.ParseBool(value)
			off = value != "" && err == nil && !on
		}
	}
	return off
}

// gatewayAdvice is how to make a node a gateway.
const gatewayAdvice = "kubectl label node NODE " + kubeovn.GatewayLabel + "=true"

func checkGatewayNodes(r *run) {
	var able, notReady, withoutChassis []string
	for _, n := range r.Nodes {
		switch {
		case !n.Gateway:
		case !n.Ready:
			notReady = append(notReady, n.Name)
		case n.Chassis == "":
			withoutChassis = append(withoutChassis, n.Name)
		default:
			able = append(able, n.Name)
		}
	}
	if len(able)+len(notReady)+len(withoutChassis) == 0 {
		r.fail("NoGatewayNode", gatewayAdvice, "no node has the label %s=true", kubeovn.GatewayLabel)
		return
	}
	report := r.warn
	if len(able) == 0 {
		report = r.fail
	}
	if len(notReady) > 0 {
		report("GatewayNodeNotReady", "kubectl describe node "+notReady[0], "not Ready: %s",
			humanize.JoinLimited(notReady, maxShown))
	}
	if len(withoutChassis) > 0 {
		report("GatewayNodeWithoutChassis", "check the pod kube-ovn-cni of the node",
			"Kube-OVN has not registered a chassis for %s", humanize.JoinLimited(withoutChassis, maxShown))
	}
	if len(able) == 1 && len(r.results) == 0 {
		r.pass("%s; no other node takes over when it fails: label a second one", able[0])
		return
	}
	r.passIfClean("%s", humanize.JoinLimited(able, maxShown))
}

func checkGatewayConfig(r *run) {
	if !r.GatewayConfig {
		r.warn("GatewayConfigMissing",
			"create it with enable-external-gw: \"true\" and external-gw-nodes, as Kube-OVN's documentation says",
			"there is no ConfigMap %s: every start of Kube-OVN takes the label %s off all nodes", kubeovn.GatewayConfigMap,
			kubeovn.GatewayLabel)
		return
	}
	r.pass("ConfigMap %s exists", kubeovn.GatewayConfigMap)
}

func checkNamesakes(r *run) {
	if len(r.Namesakes) > 0 {
		r.warn("OtherInstallation", "if it belongs to the platform, remove it or set --controller-namespace; two controllers write "+
			"the same objects", "Deployments with the name of the controller: %s",
			humanize.JoinLimited(r.Namesakes, maxShown))
		return
	}
	r.pass("none")
}

func checkPermissions(r *run) {
	if len(r.Denied) == 0 {
		r.pass("sufficient for helm install")
		return
	}
	var denied []string
	for _, p := range r.Denied {
		denied = append(denied, p.String())
	}
	slices.Sort(denied)
	report := r.fail
	if r.Controller != nil {
		report = r.warn // it is installed already
	}
	report("PermissionsMissing", "let an administrator of the cluster install the chart", "you may not %s",
		humanize.JoinLimited(denied, maxShown))
}
