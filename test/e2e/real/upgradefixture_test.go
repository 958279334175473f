package real

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// Kinds of paths of connections.
const (
	floatingIP   = "floating IP"
	loadBalancer = "load balancer"
	egress       = "egress"
	egressIP     = "EgressIP"
	// drainedLB is a load balancer with a second backend on the node that will be drained.
	drainedLB = "load balancer with a drained backend"
)

// upgradeFixture is a tenant with every kind of address, in a cluster with two replicas of the controller or without any.
type upgradeFixture struct {
	*harness.Cluster
	namespace string
	paths     []upgradePath
	// drained is the node that holds the tenant's gateway, and with Sallyport its EgressIP; no stream ends on it.
	drained string
	// expectProgress waits until a change is in force.
	expectProgress func(t *testing.T)
	replicas       []*harness.Controller
	older          string   // program of the older version
	pods           []string // their addresses
	mail           string   // the address of the Services' backend
	// untranslated are sources whose packets routers outside may drop in the step that runs now; nil: none may be.
	untranslated map[string]bool
}

// upgradePath is a way of connections: from a place to an address.
type upgradePath struct{ kind, where, address string }

// upgradeTopology has two nodes for pods and two for gateways.
func upgradeTopology() blueprint.Blueprint {
	b := blueprint.Default()
	b.Nodes = 4
	return b
}

func newUpgradeFixture(t *testing.T, older string) *upgradeFixture {
	t.Helper()
	f := &upgradeFixture{Cluster: harness.StartLab(t, "upgrades", upgradeTopology()), older: older}
	f.InstallSallyport(t)
	for range 2 { // they run outside the lab, from where they can't reach the nodes
		r := f.NewController(t, t.TempDir(), "--leader-elect=true", "--egressip-reachability-total-timeout=0")
		r.Program = older
		r.StartForTest(t)
		f.replicas = append(f.replicas, r)
	}
	f.expectProgress = func(t *testing.T) {
		t.Helper()
		f.CreateFIP(t, f.namespace, "progress", "{externalNetworkType: public, podTarget: {podName: spare}}")
		f.DeleteAndWait(t, "FIp", f.namespace, "progress")
	}
	f.CreateOrganization(t, "up")
	f.namespace = f.CreateProject(t, "up", "grade", "10.91.0.0/24", "cloud")
	f.drained = f.ListGateways(t)["cr-"+f.namespace+"-ext-cloud"]
	f.runPods(t)
	for _, network := range []string{"cloud", "public"} {
		f.addNetwork(t, network)
	}
	f.addEgressIP(t)
	pair := f.createService(t, "pair", "public", `pair: "yes"`)
	f.paths = append(f.paths, upgradePath{egress, "job." + f.namespace, harness.InternetAddress},
		upgradePath{floatingIP, "web." + f.namespace, harness.InternetAddress}, upgradePath{drainedLB, "internet", pair})
	return f
}

// runPods runs the pods at which connections end on nodes that hold no gateways, and a second backend on the node that will
// be drained.
func (f *upgradeFixture) runPods(t *testing.T) {
	t.Helper()
	var steady []string
	for _, n := range f.Blueprint.NodeList() {
		if !n.Gateway {
			steady = append(steady, n.Name)
		}
	}
	for i, name := range []string{"web", "mail", "job", "partner", "spare", "other"} {
		p := harness.Pod{Namespace: f.namespace, Name: name, Node: steady[i%len(steady)]}
		if name == "other" {
			p.Labels = map[string]string{"pair": "yes"}
		}
		address := f.RunPod(t, p)
		f.pods = append(f.pods, address)
		if name == "mail" {
			f.mail = address
		}
	}
	f.runEvictedPod(t)
}

// evicted is a second backend of a Service. It goes on for some seconds when it is deleted, as a server that is shut down
// in an orderly way does.
const evicted = "mail-too"

func (f *upgradeFixture) runEvictedPod(t *testing.T) {
	t.Helper()
	f.ApplyWithoutCleanup(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s, pair: "yes"}}, spec: {nodeName: %[3]s,
  containers: [{name: main, image: lab/echo, lifecycle: {preStop: {sleep: {seconds: 5}}}}]}}`, evicted, f.namespace, f.drained))
	f.WaitForObject(t, "Pod", f.namespace, evicted, manifest.True("Ready"))
	address := f.ReadField(t, "Pod", f.namespace, evicted, "status", "podIP")
	if !slices.Contains(f.pods, address) {
		f.pods = append(f.pods, address)
	}
}

// addNetwork gives the project a floating IP and a Service on a network.
func (f *upgradeFixture) addNetwork(t *testing.T, network string) {
	t.Helper()
	fip := f.CreateFIP(t, f.namespace, network, fmt.Sprintf("{externalNetworkType: %s, podTarget: {podName: web}}", network))
	f.addPaths(network, fip, f.createService(t, network, network, "app: mail"))
}

// createService creates a Service on a network and returns its address.
func (f *upgradeFixture) createService(t *testing.T, name, network, selector string) (address string) {
	t.Helper()
	f.Apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations:
  {network.kube-dc.com/external-network-type: %s}}, spec: {type: LoadBalancer, selector: {%s}, ports: [{port: 80}]}}`,
		name, f.namespace, network, selector))
	f.WaitForObject(t, "Service", f.namespace, name, func(o *unstructured.Unstructured) bool {
		if !manifest.True("Programmed")(o) {
			return false
		}
		address = harness.IngressIP(o)
		return address != ""
	})
	return address
}

// addPaths adds connections from the internet, and from a client behind the network's router.
func (f *upgradeFixture) addPaths(network, fip, balancer string) {
	for _, where := range []string{"internet", "client-ext-" + network} {
		f.paths = append(f.paths, upgradePath{floatingIP, where, fip}, upgradePath{loadBalancer, where, balancer})
	}
}

// addEgressIP gives a pod an egress address on the node that will be drained; then another node may hold it, too.
func (f *upgradeFixture) addEgressIP(t *testing.T) {
	t.Helper()
	const assignable = "k8s.ovn.org/egress-assignable"
	f.SetLabel(t, "Node "+f.drained, assignable, "")
	f.Apply(t, fmt.Sprintf(`{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: partners}, spec: {egressIPs: [%s],
  namespaceSelector: {matchLabels: {kube-dc.com/project: grade}}, podSelector: {matchLabels: {app: partner}}}}`, egressAddress))
	f.WaitProgrammedOnNodes(t, "EgressIP", "", "partners")
	for _, n := range f.Blueprint.NodeList() {
		if n.Gateway {
			f.SetLabel(t, "Node "+n.Name, assignable, "")
		}
	}
	f.SyncFlows(t)
	f.ExpectAnswer(t, "partner."+f.namespace, "http://"+harness.InternetAddress, "internet", egressAddress)
	f.paths = append(f.paths, upgradePath{egressIP, "partner." + f.namespace, harness.InternetAddress})
}

// bareNetwork is the network of the tenant without Sallyport: Kube-OVN's objects alone serve one network of a VPC only.
const bareNetwork = "ext-cloud"

// newBareFixture is the same with Kube-OVN's own objects: a floating IP, a load balancer (an OvnDnatRule is one in OVN) and
// source NAT.
func newBareFixture(t *testing.T) *upgradeFixture {
	t.Helper()
	f := &upgradeFixture{Cluster: harness.StartLab(t, "bare", upgradeTopology()), namespace: "bare"}
	f.expectProgress = f.expectBareProgress
	f.Apply(t, `
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: bare}
spec:
  namespaces: [bare]
  enableExternal: true
  extraExternalSubnets: [ext-cloud]
  staticRoutes: [{cidr: 0.0.0.0/0, nextHopIP: 100.65.0.1, policy: policyDst}]
  policyRoutes:
  - priority: 100
    action: reroute
    nextHopIP: 100.65.0.1
    match: 'inport == "bare-bare-net" && ip4.src == 10.91.0.0/24 && ip4.dst != 10.91.0.0/24'
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: bare-net}, spec: {vpc: bare, protocol: IPv4, cidrBlock: 10.91.0.0/24, namespaces: [bare]}}`)
	f.WaitForObject(t, "Subnet", "", "bare-net", manifest.True("Ready"))
	f.CreateNamespace(t, "bare", "bare-net")
	f.WaitGatewaysSettled(t)
	f.drained = f.ListGateways(t)["cr-bare-"+bareNetwork]
	f.runPods(t)
	f.paths = append(f.paths, upgradePath{egress, "job.bare", harness.InternetAddress})
	f.createBareNAT(t, "OvnSnatRule", "job", "vpcSubnet: bare-net")
	f.addPaths("cloud", f.createBareNAT(t, "OvnFip", "web", "vpc: bare, v4Ip: "+f.pods[0]),
		f.createBareNAT(t, "OvnDnatRule", "mail", `vpc: bare, v4Ip: `+f.mail+`, protocol: tcp, internalPort: "80", externalPort: "80"`))
	f.SyncFlows(t)
	return f
}

// createBareNAT creates an address and a rule that uses it, and returns the address.
func (f *upgradeFixture) createBareNAT(t *testing.T, kind, name, spec string) string {
	t.Helper()
	f.Apply(t, bareNAT(kind, name, spec))
	f.WaitForObject(t, kind, "", name, manifest.Field("true", "status", "ready"))
	return f.ReadField(t, "OvnEip", "", name, "status", "v4Ip")
}

func bareNAT(kind, name, spec string) string {
	return fmt.Sprintf(`
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: %[2]s}, spec: {externalSubnet: %[4]s, type: nat}}
---
{apiVersion: kubeovn.io/v1, kind: %[1]s, metadata: {name: %[2]s}, spec: {ovnEip: %[2]s, %[3]s}}`, kind, name, spec, bareNetwork)
}

func (f *upgradeFixture) expectBareProgress(t *testing.T) {
	t.Helper()
	f.ApplyWithoutCleanup(t, bareNAT("OvnFip", "progress", "vpc: bare, v4Ip: "+f.pods[4]))
	f.WaitForObject(t, "OvnFip", "", "progress", manifest.Field("true", "status", "ready"))
	for _, kind := range []string{"OvnFip", "OvnEip"} {
		f.DeleteAndWait(t, kind, "", "progress")
	}
}
