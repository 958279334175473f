package real

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// workload is a tenant's objects of every kind, and those of the nodes.
type workload struct {
	*release
	namespace              string
	gateway, fip, service  string // addresses
	node                   string // address of node1 on its second uplink
	public, cloud          harness.ExternalNetwork
	secondUplink, internet string // clients
}

const (
	egressAddress   = "198.51.100.200"
	internetAddress = "203.0.113.10"
)

// createWorkload creates everything but what needs a label of nodes or an ExternalNetwork.
func (r *release) createWorkload(t *testing.T) *workload {
	t.Helper()
	w := &workload{
		release: r, namespace: "real-web", public: r.Network(t, "public"), cloud: r.Network(t, "cloud"),
		internet: "internet",
	}
	r.ApplyWithoutCleanup(t, `
{apiVersion: v1, kind: Namespace, metadata: {name: real}}
---
{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: web, namespace: real}, spec: {cidrBlock: 10.90.0.0/24, egressNetworkType: cloud}}`)
	r.WaitProgrammed(t, "Project", "real", "web")
	r.WaitForObject(t, "ServiceAccount", w.namespace, "default", manifest.Exists)
	r.WaitForObject(t, "Namespace", "", w.namespace, func(o *unstructured.Unstructured) bool {
		return o != nil && o.GetAnnotations()["ovn.kubernetes.io/logical_switch"] == w.namespace+"-default"
	})
	for _, node := range []string{"node1", "node2"} {
		runProbedPod(t, r.Cluster, harness.Pod{Namespace: w.namespace, Name: "on-" + node, Node: node},
			"exec: {command: [/cat, /proc/self/status]}")
	}
	r.ApplyWithoutCleanup(t, fmt.Sprintf(`
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: web, namespace: %[1]s}, spec: {podTarget: {podName: on-node1}, externalNetworkType: public}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: %[1]s}, spec: {type: LoadBalancer, selector: {app: on-node2}, ports: [{port: 80}]}}`, w.namespace))
	r.WaitProgrammedOnNodes(t, "FIp", w.namespace, "web")
	r.WaitForObject(t, "Service", w.namespace, "web", func(o *unstructured.Unstructured) bool {
		return o != nil && harness.IngressIP(o) != ""
	})
	w.gateway = r.ReadField(t, "EIp", w.namespace, "default-gw", "status", "ipAddress")
	w.fip = r.ReadField(t, "FIp", w.namespace, "web", "status", "externalIP")
	o, err := r.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Service", w.namespace, "web"))
	if err != nil {
		t.Fatal(err)
	}
	w.service = harness.IngressIP(o)
	uplink := r.Segment(t, "uplink-b")
	w.secondUplink, w.node = uplink.Client, uplink.NodeAddresses(r.Blueprint.NodeList()[0])[0].Addr().String()
	return w
}

// checkPackets sends packets through every kind of address, and returns how many kinds there are.
func (w *workload) checkPackets(t *testing.T) int {
	t.Helper()
	checks := []func(*testing.T){w.checkDefaultEgress, w.checkFloatingIP, w.checkService, w.checkEgressIP, w.checkNodePath}
	for _, check := range checks {
		w.SyncFlows(t)
		check(t)
		w.ExpectNoDrops(t)
	}
	return len(checks)
}

func (w *workload) checkDefaultEgress(t *testing.T) {
	for _, pod := range []string{"on-node1.", "on-node2."} {
		w.ExpectAnswer(t, pod+w.namespace, "http://"+internetAddress, w.internet, w.gateway)
	}
}

func (w *workload) checkFloatingIP(t *testing.T) {
	expectAnswers(t, w.Cluster, w.public.Client, w.fip, w.public.ClientAddress)
	w.ExpectAnswer(t, w.internet, "http://"+w.fip, "on-node1", internetAddress)
}

func (w *workload) checkService(t *testing.T) {
	w.ExpectAnswer(t, w.cloud.Client, "http://"+w.service, "on-node2", w.cloud.ClientAddress)
	w.ExpectAnswer(t, w.internet, "http://"+w.service, "on-node2", internetAddress)
	w.ExpectSilence(t, w.internet, "http://"+w.service+":81") // no port of the Service
}

// checkEgressIP is without a node for the address at first: the pod has no way out, and `sallyport doctor` says so.
func (w *workload) checkEgressIP(t *testing.T) {
	w.ApplyWithoutCleanup(t, fmt.Sprintf(`{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: partners}, spec: {egressIPs: [%s],
  namespaceSelector: {matchLabels: {kube-dc.com/project: web}}, podSelector: {matchLabels: {app: on-node2}}}}`, egressAddress))
	w.WaitForObject(t, "EgressIP", "", "partners", func(o *unstructured.Unstructured) bool {
		return o != nil && harness.FalseReason(o, "Programmed") == "NoMatchingNodeFound"
	})
	w.SyncFlows(t)
	w.ExpectSilence(t, "on-node2."+w.namespace, "http://"+internetAddress)
	if out := w.run(t, "sallyport doctor"+where+" && exit 1 || true"); !strings.Contains(out, "NoMatchingNodeFound") {
		t.Errorf("doctor does not find that no node can hold an address:\n%s", out)
	}
	for _, node := range []string{"node1", "node2"} {
		w.SetLabel(t, "Node "+node, "k8s.ovn.org/egress-assignable", "")
	}
	w.WaitProgrammedOnNodes(t, "EgressIP", "", "partners")
	w.ExpectAnswer(t, "on-node2."+w.namespace, "http://"+internetAddress, w.internet, egressAddress)
	w.ExpectAnswer(t, "on-node1."+w.namespace, "http://"+internetAddress, w.internet, w.gateway) // not selected
}

// checkNodePath asks node1 on its second uplink: without a NodePath the reply leaves by the first one, and its router
// drops it.
func (w *workload) checkNodePath(t *testing.T) {
	w.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: on-host, namespace: default}
spec:
  nodeName: node1
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: lab/echo, imagePullPolicy: IfNotPresent, securityContext: {runAsUser: 0}}]`)
	w.WaitForObject(t, "Pod", "default", "on-host", manifest.True("Ready"))
	w.ExpectSilence(t, w.secondUplink, "udp://"+w.node+":80") // a reply that is not sent again later
	if n := w.CountDrops(t)["router-uplink-a"]; n == 0 {
		t.Error("the router of the first uplink has not dropped the reply: the NodePath would make no difference")
	}
	w.ResetDrops(t)
	w.ApplyWithoutCleanup(t, fmt.Sprintf(`{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: uplink-b},
  spec: {type: uplink-b, nodes: {interface: uplink-b, gateways: [%s]}}}`, w.Segment(t, "uplink-b").Gateways[0].Addr()))
	for _, node := range []string{"node1", "node2"} {
		w.WaitForObject(t, "NodePath", "", node, manifest.True("Programmed"))
	}
	client := w.Segment(t, "uplink-b").ClientSide[0].Peer.Addr().String()
	for _, protocol := range []string{"udp", "http"} { // a pod on the node's network has the node's name
		w.ExpectAnswer(t, w.secondUplink, protocol+"://"+w.node+":80", "node1", client)
	}
}

// reportContainers asks the kubelets what the containers of the chart use.
func (r *release) reportContainers(t *testing.T, item *show.Item) {
	t.Helper()
	used := map[string][]string{}
	for _, node := range []string{"node1", "node2"} {
		raw, err := r.Client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + node + "/proxy/stats/summary").
			DoRaw(harness.Within(t, harness.Patience))
		if err != nil {
			t.Fatal(err)
		}
		var summary struct {
			Pods []struct {
				PodRef     struct{ Namespace string }
				Containers []struct {
					Name   string
					Memory struct{ WorkingSetBytes, RSSBytes uint64 }
				}
			}
		}
		if err := json.Unmarshal(raw, &summary); err != nil {
			t.Fatal(err)
		}
		for _, p := range summary.Pods {
			for _, container := range p.Containers {
				if ns := p.PodRef.Namespace; ns == controllerNamespace || ns == agentNamespace {
					used[container.Name] = append(used[container.Name], fmt.Sprint(container.Memory.RSSBytes>>20))
				}
			}
		}
	}
	if len(used["controller"]) != 2 || len(used["agent"]) != 2 {
		t.Errorf("the kubelets know these containers: %v", used)
	}
	item.AddFigure("resident memory: controllers %s MiB, agents %s MiB", strings.Join(used["controller"], " and "),
		strings.Join(used["agent"], " and "))
}

// checkUpgrade changes a value and rolls back, with open connections.
func (w *workload) checkUpgrade(t *testing.T, item *show.Item) {
	t.Helper()
	streams := []*harness.Stream{
		w.StartStream(t, w.public.Client, w.fip), w.StartStream(t, w.internet, w.service),
		w.StartStream(t, "on-node2."+w.namespace, internetAddress), w.StartStream(t, w.secondUplink, w.node),
	}
	steps := harness.SectionBlocks(t, w.page, "Upgrade it")
	for i, want := range []string{"debug", "info"} {
		harness.ResetGaps(streams...)
		begun := time.Now()
		commands := strings.TrimSuffix(steps[i], "\n")
		if want == "debug" {
			commands += " --set logLevel=debug --set agent.tableNames=true"
		}
		w.run(t, commands+"\nkubectl -n sallyport rollout status deployment/sallyport-controller --timeout=2m\n"+
			"kubectl -n sallyport-agents rollout status daemonset/sallyport-agent --timeout=2m")
		if !slices.Contains(w.controllerArgs(t), "--log-level="+want) {
			t.Errorf("the controller has the arguments %q, wanted log level %s", w.controllerArgs(t), want)
		}
		took := time.Since(begun)
		silence := harness.ExpectStreamsContinue(t, "with log level "+want, streams...)
		what := map[string]string{"debug": "upgrade", "info": "rollback"}[want]
		item.AddFigure("%s: all pods replaced in %.0f s, %d streams continue, longest silence %.1f s", what,
			took.Seconds(), len(streams), silence.Seconds())
		if silence > silenceLimit {
			t.Errorf("%s: a stream was silent for %s, allowed are %s; of FIp, Service, EgressIP and NodePath: %v", what, silence,
				silenceLimit, longestGaps(streams))
		}
	}
	w.ExpectNoDrops(t)
	w.expectHealthy(t)
}

func longestGaps(streams []*harness.Stream) (out []time.Duration) {
	for _, s := range streams {
		out = append(out, s.LongestGap())
	}
	return out
}

// silenceLimit allows for a busy machine; the interval of lines is 0.1 s.
var silenceLimit = show.ChooseSize(2*time.Second, 5*time.Second)

// remove follows the how-to to the end, and looks at what is left.
func (r *release) remove(t *testing.T) {
	t.Helper()
	for what, left := range r.leftovers(t) {
		if left == "" {
			t.Errorf("%s: there is nothing before the removal: the test can't fail", what)
		}
	}
	steps := harness.SectionBlocks(t, r.page, "Remove it")
	out := r.run(t, steps[0])
	if !strings.HasSuffix(strings.TrimSpace(out), "No resources found") {
		harness.Eventually(t, "objects of Kube-OVN are gone", func() bool {
			lines := strings.Split(strings.TrimSpace(steps[0]), "\n")
			return strings.Contains(r.run(t, lines[len(lines)-1]), "No resources found")
		})
	}
	r.run(t, steps[1])
	harness.Eventually(t, "pods have ended", func() bool {
		return strings.TrimSpace(r.run(t, "kubectl get pods -n sallyport -o name; kubectl get pods -n sallyport-agents -o name")) == ""
	})
	for what, left := range r.leftovers(t) {
		if left != "" {
			t.Errorf("%s after the removal:\n%s", what, left)
		}
	}
	kept := r.run(t, "kubectl -n sallyport get secrets,leases -o name; kubectl -n sallyport-agents get secrets -o name")
	harness.ExpectContains(t, kept, "secret/kube-ovn-tls", "secret/sallyport-controller-tls", "secret/sallyport-agent-tls",
		"lease.coordination.k8s.io/sallyport-controller")
}

// leftovers lists what is Sallyport's, in each system that it writes to.
func (r *release) leftovers(t *testing.T) map[string]string {
	t.Helper()
	const kinds = "crds,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,flowschemas,prioritylevelconfigurations"
	const namespaced = "deployments,daemonsets,services,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets"
	commands := map[string]string{
		"cluster-scoped objects": "kubectl get " + kinds + " -o name | grep -E 'sallyport|kube-dc[.]com|k8s[.]ovn[.]org' || true",
		"namespaced objects": "kubectl get " + namespaced + " -A -o name -l app.kubernetes.io/name=sallyport; " +
			"kubectl get " + namespaced + " -A -o name -l app.kubernetes.io/name=sallyport-agent",
		"objects of Kube-OVN": "kubectl get vpcs,subnets,ovn-eips,ovn-fips,ovn-snat-rules -o name -l app.kubernetes.io/managed-by=sallyport",
		"rows of OVN": `for table in Logical_Router Logical_Router_Policy Logical_Router_Port Logical_Router_Static_Route NAT \
			Load_Balancer Logical_Switch_Port ACL Port_Group Address_Set QoS HA_Chassis_Group; do
			ovn-nbctl --bare --columns=_uuid find $table 'external_ids:sallyport-owner!=""' | sed "s/^/$table /"; done`,
		"tables of the nodes' kernels": "for node in node1 node2; do sallyport lab exec $node -- nft list tables | grep sallyport || true; done",
		"rules of the nodes' kernels":  "for node in node1 node2; do sallyport lab exec $node -- ip rule | grep 'proto 91' || true; done",
	}
	out := map[string]string{}
	for what, command := range commands {
		out[what] = strings.TrimSpace(r.run(t, command))
	}
	return out
}
