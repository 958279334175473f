package view

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	productcontroller "github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// observerConfig returns the collector's configuration for a lab, from outside.
func observerConfig(t *testing.T, c *harness.Cluster) collector.Config {
	t.Helper()
	config, err := kube.LoadConfig(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	out := collector.Config{Cluster: c.Name, Namespaces: kube.DefaultNamespaces, Controller: productcontroller.Config{
		Kubernetes: config, Northbound: c.DatabaseConfig(t, "nb"), Southbound: c.DatabaseConfig(t, "sb"),
	}}
	out.Controller.Defaults.BFDInterval = 200 * time.Millisecond
	return out
}

// takeSurvey collects a survey of a lab.
func takeSurvey(t *testing.T, c *harness.Cluster, scope collector.Scope) *clusterstate.State {
	t.Helper()
	return takeSurveyWith(t, observerConfig(t, c), scope)
}

func takeSurveyWith(t *testing.T, config collector.Config, scope collector.Scope) *clusterstate.State {
	t.Helper()
	o, err := collector.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	return o.Collect(harness.Within(t, harness.Patience), scope)
}

// TestViewSurvey checks that a survey contains a project with one object of each kind, its addresses and rows, and no
// differences.
func TestViewSurvey(t *testing.T) {
	c := harness.SharedSallyport(t)
	c.CreateOrganization(t, "survey")
	ns := c.CreateProject(t, "survey", "one", "10.88.0.0/24", "cloud")
	address := c.RunPod(t, harness.Pod{Namespace: ns, Name: "web", Node: "node1"})
	c.Apply(t, fmt.Sprintf(`
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: front, namespace: %[1]s}, spec: {externalNetworkType: public}}
---
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: web, namespace: %[1]s}, spec: {eip: front, podTarget: {podName: web}}}
---
{apiVersion: v1, kind: Service, metadata: {name: shop, namespace: %[1]s}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{name: http, port: 8080, targetPort: 80}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: only-web, namespace: %[1]s}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{ports: [{port: 80}]}]}`, ns))
	for _, o := range []manifest.Ref{
		harness.ObjectRef("EIp", ns, "front"), harness.ObjectRef("FIp", ns, "web"),
		harness.ObjectRef("Service", ns, "shop"),
	} {
		c.WaitProgrammed(t, o.GVK.Kind, ns, o.Name)
	}
	var s *clusterstate.State
	var took time.Duration
	harness.Eventually(t, "nothing differs, the NetworkPolicy is there, and nodes hold the gateway ports", func() bool {
		began := time.Now()
		s = takeSurvey(t, c, collector.Scope{Shards: []string{ns}, Sync: true})
		took = time.Since(began)
		return len(s.Shards) == 1 && len(s.Shards[0].Differs) == 0 && len(aclsOfPod(s, ns, "web")) > 0 &&
			!slices.ContainsFunc(s.Logical.Router(ns).Ports, func(p logical.RouterPort) bool {
				return len(p.Chassis) > 0 && p.Holder == "" // it is claimed a moment after the rows are written
			})
	})
	t.Logf("the survey took %s: %d pods, %d routers, %d switches", took, len(s.Cluster.Pods), len(s.Logical.Routers),
		len(s.Logical.Switches))
	if len(s.Unread) > 0 || s.Shards[0].Problem != "" || len(s.Cluster.Absent) > 0 {
		t.Errorf("not read: %v %s %v", s.Unread, s.Shards[0].Problem, s.Cluster.Absent)
	}
	checkSurveyedObjects(t, s, ns, netip.MustParseAddr(address))
	checkSurveyedRows(t, s, ns, netip.MustParseAddr(address))
	t.Run("written and read back", func(t *testing.T) { checkRoundTrip(t, s) })
	t.Run("without the northbound database", func(t *testing.T) { checkWithoutNorthbound(t, c, ns) })
	t.Run("a node without an agent", func(t *testing.T) { checkMissingAgent(t, c) })
	t.Run("with the rights of an operator", func(t *testing.T) { checkOperatorSurvey(t, c, ns) })
}

// checkOperatorSurvey checks that the chart's role for operators is sufficient, and that without it the survey lists
// what could not be read.
func checkOperatorSurvey(t *testing.T, c *harness.Cluster, ns string) {
	config := observerConfig(t, c)
	config.Controller.Kubernetes.Impersonate.UserName = "olga"
	if s := takeSurveyWith(t, config, collector.Scope{}); len(s.Unread) == 0 ||
		!strings.Contains(s.Unread[0].Problem, "olga") {
		t.Errorf("without rights: %v", s.Unread)
	}
	c.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: survey-operators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sallyport-operator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: olga}]`)
	var s *clusterstate.State
	harness.Eventually(t, "an operator may read everything", func() bool {
		s = takeSurveyWith(t, config, collector.Scope{Shards: []string{ns}})
		return len(s.Unread) == 0
	})
	if len(s.Shards) != 1 || s.Shards[0].Problem != "" || s.Cluster.ProjectOfShard(ns) == nil ||
		len(s.Cluster.Inside) == 0 {
		t.Errorf("an operator's survey: unread %v, shards %+v, Services in %v", s.Unread, s.Shards, s.Cluster.Inside)
	}
}

// checkSurveyedObjects checks that each object has its address.
//
//nolint:cyclop // a list of facts
func checkSurveyedObjects(t *testing.T, s *clusterstate.State, ns string, pod netip.Addr) {
	t.Helper()
	cluster := &s.Cluster
	project := cluster.ProjectOfShard(ns)
	eip := cluster.EIp(state.Ref{Kind: "EIp", Namespace: ns, Name: "front"})
	fip := cluster.FIp(state.Ref{Kind: "FIp", Namespace: ns, Name: "web"})
	shop := cluster.Service(state.Ref{Kind: "Service", Namespace: ns, Name: "shop"})
	if project == nil || eip == nil || fip == nil || shop == nil {
		t.Fatalf("missing: Project %v, EIp %v, FIp %v, Service %v", project, eip, fip, shop)
	}
	public := netip.MustParsePrefix("91.224.11.0/24")
	if eip.Network != "ext-public" || eip.Type != "public" || !public.Contains(eip.Address) ||
		!slices.Contains(eip.UsedBy, fip.Ref) || eip.Shard != ns {
		t.Errorf("EIp %+v", eip)
	}
	if fip.External != eip.Address || fip.Target != pod || fip.EIp != "front" ||
		fip.Condition(kubedcv1.ConditionProgrammed).Status != "True" {
		t.Errorf("FIp %+v", fip)
	}
	end := clusterstate.Endpoint{
		Port: "http", Address: netip.AddrPortFrom(pod, 80), Ready: true, Serving: true, Pod: "web", Node: "node1",
	}
	if len(shop.Ingress) != 1 || !shop.Ours || !slices.Contains(shop.Endpoints, end) {
		t.Errorf("Service %+v, want endpoint %+v", shop, end)
	}
	own := cluster.EIpAt(shop.Ingress[0])
	if own == nil || own.MadeFor != shop.Ref {
		t.Errorf("the Service's own EIp is %+v", own)
	}
	if !project.Address.IsValid() || !slices.Contains(project.Prefixes, netip.MustParsePrefix("10.88.0.0/24")) {
		t.Errorf("Project %+v", project)
	}
	i := slices.IndexFunc(cluster.Policies, func(p clusterstate.NetworkPolicy) bool { return p.Namespace == ns })
	if i < 0 || !cluster.Policies[i].Ingress || cluster.Policies[i].Egress ||
		!slices.Equal(cluster.Policies[i].Pods, []string{"web"}) {
		t.Errorf("NetworkPolicies %+v", cluster.Policies)
	}
	for _, n := range cluster.Nodes {
		if !n.Ready || n.Chassis == "" || n.Gateway != (n.Name != "node1") || s.Taken.Sub(n.Heartbeat) > time.Minute {
			t.Errorf("node %+v", n)
		}
	}
	i = slices.IndexFunc(cluster.Subnets, func(s clusterstate.Subnet) bool { return s.Name == "ext-public" })
	if got := cluster.Subnets[i]; got.Network != "ext-public" || got.Interface != "ext-public" || got.Free == 0 ||
		got.Used == 0 || !got.Ready {
		t.Errorf("external subnet %+v", got)
	}
}

// checkSurveyedRows checks that each row of the project is in the logical network with its owner.
//
//nolint:cyclop // a list of facts
func checkSurveyedRows(t *testing.T, s *clusterstate.State, ns string, pod netip.Addr) {
	t.Helper()
	router := s.Logical.Router(ns)
	if router == nil {
		t.Fatalf("no router %s", ns)
	}
	fip, shop := s.Cluster.FIp(state.Ref{Kind: "FIp", Namespace: ns, Name: "web"}),
		s.Cluster.Service(state.Ref{Kind: "Service", Namespace: ns, Name: "shop"})
	if !slices.ContainsFunc(router.NATs, func(n logical.NAT) bool {
		return n.Type == "dnat_and_snat" && n.External == fip.External && n.Logical.Addr() == pod
	}) || !slices.ContainsFunc(router.NATs, func(n logical.NAT) bool {
		return n.Type == "snat" && n.Logical.Contains(pod)
	}) {
		t.Errorf("translations %+v", router.NATs)
	}
	vip := logical.VIP{
		Address:  netip.AddrPortFrom(shop.Ingress[0], 8080),
		Backends: []netip.AddrPort{netip.AddrPortFrom(pod, 80)},
	}
	if !slices.ContainsFunc(router.Balancers, func(b logical.LoadBalancer) bool {
		return b.VIPOwner(vip.Address) == shop.Ref && b.Protocol == "tcp" &&
			slices.ContainsFunc(b.VIPs, func(v logical.VIP) bool {
				return reflect.DeepEqual(v, vip)
			})
	}) {
		t.Errorf("load balancers %+v, want %+v", router.Balancers, vip)
	}
	if len(router.Policies) == 0 || !slices.IsSortedFunc(router.Policies,
		func(a, b logical.RouterPolicy) int { return b.Priority - a.Priority }) {
		t.Errorf("policies %+v", router.Policies)
	}
	gateway := slices.IndexFunc(router.Ports, func(p logical.RouterPort) bool { return p.Name == ns+"-ext-cloud" })
	if gateway < 0 || !slices.Contains(router.Ports[gateway].Chassis, router.Ports[gateway].Holder) {
		t.Errorf("ports %+v, want one on ext-cloud that a chassis holds", router.Ports)
	}
	inside := s.Logical.Switch(ns + "-default")
	if inside == nil || !slices.ContainsFunc(inside.Ports, func(p logical.SwitchPort) bool {
		return slices.Contains(p.Addresses, pod) && p.Chassis == "node1" && p.Up && p.MAC != ""
	}) {
		t.Errorf("switch %+v, want the pod's port on node1", inside)
	}
	if p := s.Logical.Progress; p.Asked == 0 || p.Translated != p.Asked || p.Done != p.Asked {
		t.Errorf("progress %+v after a sync", p)
	}
	for _, c := range s.Logical.Chassis {
		if c.Seen != s.Logical.Progress.Asked || len(c.Encaps) == 0 {
			t.Errorf("chassis %+v after a sync", c)
		}
	}
}

// aclsOfPod returns the ACLs of the port groups that contain a pod's port.
func aclsOfPod(s *clusterstate.State, ns, pod string) (out []logical.ACL) {
	for _, g := range s.Logical.Groups {
		if slices.Contains(g.Ports, pod+"."+ns) {
			out = append(out, g.ACLs...)
		}
	}
	return out
}

func checkRoundTrip(t *testing.T, s *clusterstate.State) {
	var file bytes.Buffer
	if err := s.Write(&file); err != nil {
		t.Fatal(err)
	}
	size := file.Len()
	again, err := clusterstate.Read(&file, clusterstate.DefaultLimit)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s, again) {
		t.Errorf("read back it is another\n%+v\n%+v", s, again)
	}
	t.Logf("as a file it has %d KiB", size>>10)
}

// checkWithoutNorthbound checks that the rest of the survey is available soon if the northbound address is closed or
// never answers.
func checkWithoutNorthbound(t *testing.T, c *harness.Cluster, ns string) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() //nolint:errcheck // the test is over
	for name, server := range map[string]string{"refused": harness.FreeAddress(t), "silent": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			config := observerConfig(t, c)
			config.Controller.Northbound.Endpoints = []string{"tcp:" + server}
			began := time.Now()
			s := takeSurveyWith(t, config, collector.Scope{AllShards: true, Sync: true})
			if took := time.Since(began); took > show.ChooseSize(30*time.Second, harness.Patience) {
				t.Errorf("it took %s", took)
			}
			if len(s.Unread) != 1 || s.Unread[0].System != clusterstate.Northbound ||
				!strings.Contains(s.Unread[0].Problem, server) {
				t.Errorf("unread: %+v", s.Unread)
			}
			if s.Cluster.ProjectOfShard(ns) == nil || len(s.Logical.Chassis) == 0 || len(s.Logical.Routers) > 0 {
				t.Error("Kubernetes and the southbound database are not there")
			}
			if i := slices.IndexFunc(s.Shards, func(s clusterstate.Shard) bool { return s.Name == ns }); i < 0 ||
				s.Shards[i].Problem == "" {
				t.Errorf("shards %+v", s.Shards)
			}
		})
	}
}

// checkMissingAgent checks that a node without an agent is reported, and that the Inspection is deleted.
func checkMissingAgent(t *testing.T, c *harness.Cluster) {
	s := takeSurvey(t, c, collector.Scope{PlanInspections: func(s *clusterstate.State) (out []kubedcv1alpha1.InspectionSpec) {
		for _, n := range s.Cluster.Nodes {
			out = append(out, kubedcv1alpha1.InspectionSpec{Node: n.Name})
		}
		return out
	}})
	if got := s.Inspected["node1"]; len(s.Inspected) != 3 || !strings.Contains(got.Problem, "sallyport-agent") ||
		got.Asked.IsZero() {
		t.Errorf("inspected: %+v", s.Inspected)
	}
	if left := takeSurvey(t, c, collector.Scope{}).Cluster.Inspections; len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestViewSurveySync checks that a survey shows when northd or a chassis lags behind the northbound database.
func TestViewSurveySync(t *testing.T) {
	c := harness.StartLab(t, "sync", blueprint.Blueprint{Nodes: 2, Gateways: 1, Raft: 1})
	if p := takeSurvey(t, c, collector.Scope{Sync: true}).Logical.Progress; p.Asked == 0 || p.Done != p.Asked {
		t.Fatalf("all are well: %+v", p)
	}
	c.ControlLab(t, "pause", "node1-ovn-controller")
	s := takeSurvey(t, c, collector.Scope{Sync: true})
	seen := map[string]bool{}
	for _, chassis := range s.Logical.Chassis {
		seen[chassis.Name] = chassis.Seen == s.Logical.Progress.Asked
	}
	if p := s.Logical.Progress; p.Translated != p.Asked || p.Done == p.Asked || seen["node1"] || !seen["node2"] {
		t.Errorf("node1 does nothing: %+v %v", p, seen)
	}
	c.ControlLab(t, "resume", "node1-ovn-controller")
	c.ControlLab(t, "pause", "ovn-northd")
	if p := takeSurvey(t, c, collector.Scope{Sync: true}).Logical.Progress; p.Translated == p.Asked {
		t.Errorf("northd does nothing: %+v", p)
	}
}

// The engine's version is read from the running cluster, and with it the behaviour that Sallyport works around.
func TestViewEngine(t *testing.T) {
	c := harness.SharedSallyport(t)
	out, err := runCommand(t, c, "status")
	if err != nil {
		t.Fatal(err)
	}
	harness.ExpectContains(t, out, "Kube-OVN "+parts.KubeOVNVersion+" ")
	if out, err = runCommand(t, c, "status", "-o", "yaml"); err != nil {
		t.Fatal(err)
	}
	harness.ExpectContains(t, out, "kubeOVN: "+parts.KubeOVNVersion)
	harness.ExpectContains(t, out, "tested: true")
	harness.ExpectContains(t, out, "- "+kubeovn.Quirks[0].ID)

	// An image without a version must not be taken for one, and its text must not reach the terminal.
	setEngineImage(t, c, "example/kube-ovn:latest")
	t.Cleanup(func() { setEngineImage(t, c, "docker.io/kubeovn/kube-ovn:v"+parts.KubeOVNVersion) })
	if out, err = runCommand(t, c, "status"); err != nil {
		t.Fatal(err)
	}
	harness.ExpectContains(t, out, "Kube-OVN of unknown version")
}

// setEngineImage changes the image in Kube-OVN's Deployment, which has no replicas in a lab.
func setEngineImage(t *testing.T, c *harness.Cluster, image string) {
	t.Helper()
	text := fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: kube-ovn-controller, namespace: kube-system}
spec:
  replicas: 0
  selector: {matchLabels: {app: kube-ovn-controller}}
  template:
    metadata: {labels: {app: kube-ovn-controller}}
    spec: {containers: [{name: kube-ovn-controller, image: %q}]}`, image)
	if err := c.Objects.Apply(context.Background(), text); err != nil {
		t.Fatal(err)
	}
}
