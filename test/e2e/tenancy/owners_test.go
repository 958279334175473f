package tenancy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

const (
	byConsent   = "condition `RefNotPermitted`"
	byNamespace = "condition `OvnEipNotFound`"
	byTenure    = "condition `SomePortTaken`"
	byPodOwner  = "condition `EndpointNotInNamespace`"
	byOwner     = "an address belongs to one namespace, a pod to its own"
	byManager   = "labels count when the controller applied them"
	byNames     = "a name of its own for the second OvnEip"
	byReserved  = "condition `NameReserved`"
	byOffer     = "condition `NameReserved` until an operator offers it"
	byTarget    = "condition `TargetOutsideProject`"
)

// ownerAttacks are the attacks that take over addresses, pods and objects of others.
var ownerAttacks = []attack{
	{"H1", managementEditor, "Service on another namespace's EIp without its consent", byConsent, bindWithoutConsent},
	{"H1", managementEditor, "Service that asks whether another namespace has an EIp", byConsent, probeEIPExistence},
	{"H1", tenantEditor, "Service on another project's EIp", byConsent, bindAcrossProjects},
	{"", projectPlanner, "Project that takes over an operator's Vpc by its name", byOffer, takeForeignVPC},
	{
		"H1", managementEditor, "Service that goes on with an EIp after consent is withdrawn", byConsent,
		bindAfterWithdrawal,
	},
	{
		"H1", managementEditor, "Service with two ports of a shared EIp that takes a third, in use", byTenure,
		takeHeldPort,
	},
	{
		"H1", managementEditor, "Service that keeps the owner from deleting a shared EIp",
		"guests do not count as users",
		blockEIPDeletion,
	},
	{
		"H1", managementEditor, "EIp that stands for another namespace's OvnEip", byNamespace,
		claimOvnEIP("eip-mgmt-a-gw"),
	},
	{
		"H1", managementEditor, "EIp that stands for the OvnEip of the management VPC's router", byNamespace,
		claimOvnEIP("ovn-cluster-ext-public"),
	},
	{
		"H1", managementOwner, "write itself into sharedWith of another namespace's EIp", "RBAC",
		func(t *testing.T, f *attackFixture, who actor) {
			createVictimEIP(t, f, "")
			who.Cannot(t, "the attack", harness.TryPatch("eips/mgmt-a/gw", `{"spec":{"sharedWith":["mgmt-b"]}}`),
				"cannot patch resource")
			who.MustApply(t, f, eipManifest("mgmt-b", "own", "{externalNetworkType: public}"))
			who.Can(t, "the control", harness.TryPatch("eips/mgmt-b/own", `{"spec":{"sharedWith":["mgmt-a"]}}`))
		},
	},
	{"H1", tenantEditor, "sharedWith for everybody", bySchema, expectRefused(
		harness.TryCreate("eips/evil-x/new", `{spec: {sharedWith: ["*"]}}`), "spec.sharedWith",
		harness.TryCreate("eips/evil-x/new", `{spec: {sharedWith: [mgmt-a]}}`))},
	{"H1", tenantEditor, "sharedWith of 65 namespaces", bySchema, expectRefused(
		harness.TryCreate("eips/evil-x/new", `{spec: {sharedWith: [`+namespaceList(65)+`]}}`), "spec.sharedWith",
		harness.TryCreate("eips/evil-x/new", `{spec: {sharedWith: [`+namespaceList(64)+`]}}`))},

	{"L3", managementOwner, "EndpointSlice with another namespace's pod", byPodOwner, publishForeignPod("")},
	{
		"L3", managementOwner, "EndpointSlice with another namespace's pod, in the name of Kubernetes' controller",
		byPodOwner,
		publishForeignPod(`, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io`),
	},

	{
		"H4", managementEditor, "pods that leave with another's address, by externalIPs", byOwner,
		egressWithForeignAddress(func(address string) string {
			return fmt.Sprintf(`, externalIPs: [%s]`, address)
		}, ""),
	},
	{
		"H4", managementOwner, "another namespace's pod led out by a hand-written EndpointSlice", byOwner,
		egressWithForeignAddress(func(string) string {
			return ""
		}, "dns"),
	},
	{
		"H4", managementEditor, "FIp that takes over another namespace's pod, in both directions", byTarget,
		targetForeignPod("mgmt-b", "mallory"),
	},
	{
		"H4", tenantEditor, "FIp of a project that takes over a pod of the default VPC", byTarget,
		targetForeignPod("evil-x", "mallory"),
	},

	{
		"M2", tenantOwner, "EndpointSlice with the labels of another's project, which would keep that from being deleted",
		byManager, blockProjectDeletion,
	},
	{"L1", tenantEditor, "EIp whose OvnEip would have the name of another project's", byNames, collideOvnEIPName},
	{
		"L4", projectPlanner, "finalizer of one's own in a project that is deleted",
		"condition `NamespaceContentRemaining`", blockNamespaceDeletion,
	},
	{
		"L12", projectPlanner, "Project with the VPC of egress addresses", byReserved,
		createReservedProject("sallyport", "egress"),
	},
	{
		"L12", projectPlanner, "Project with the name of the NodePaths' shard", byReserved,
		createReservedProject("sallyport", "nodes"),
	},
	{
		"L12", projectPlanner, "Project with the name of the ExternalNetworks' shard", byReserved,
		createReservedProject("sallyport", "networks"),
	},
	{"L12", projectPlanner, "Project with Kube-OVN's own VPC", byReserved, createReservedProject("ovn", "cluster")},
	{
		"L12", projectPlanner, "Project with the name of Kube-OVN's own Subnet", byReserved,
		createReservedProject("ovn", "default"),
	},
	{
		"L12", projectPlanner, "Project with the name of an external subnet", byReserved,
		createReservedProject("ext", "public"),
	},
}

func namespaceList(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("n%d", i))
	}
	return strings.Join(out, ", ")
}

// createVictimEIP creates the EIp gw in mgmt-a, with the given sharedWith, and a Service dns on its port 443. It
// returns the address.
func createVictimEIP(t *testing.T, f *attackFixture, sharedWith string) string {
	t.Helper()
	f.Apply(t, eipManifest("mgmt-a", "gw", fmt.Sprintf("{externalNetworkType: public, sharedWith: [%s]}", sharedWith)))
	f.WaitProgrammedOnNodes(t, "EIp", "mgmt-a", "gw")
	f.Apply(t, `{apiVersion: v1, kind: Service, metadata: {name: dns, namespace: mgmt-a, annotations: {service.nlb.kube-dc.com/bind-on-eip: gw}},
  spec: {type: LoadBalancer, loadBalancerClass: kube-dc.com/sallyport, selector: {app: dns}, ports: [{name: https, port: 443, targetPort: 80}]}}`)
	f.WaitForObject(t, "Service", "mgmt-a", "dns", manifest.True("Programmed"))
	f.SyncFlows(t)
	return f.ReadField(t, "EIp", "mgmt-a", "gw", "status", "ipAddress")
}

const bindToVictimEIP = "service.nlb.kube-dc.com/bind-on-eip: mgmt-a/gw"

// setSharedWith allows namespaces to bind to the victim's EIp.
func setSharedWith(t *testing.T, f *attackFixture, namespaces string) {
	t.Helper()
	f.ApplyWithoutCleanup(t, eipManifest("mgmt-a", "gw",
		fmt.Sprintf("{externalNetworkType: public, sharedWith: [%s]}", namespaces)))
}

func bindWithoutConsent(t *testing.T, f *attackFixture, who actor) {
	address := createVictimEIP(t, f, "kube-system")
	who.MustApply(t, f, loadBalancerManifest("mgmt-b", "steal", bindToVictimEIP, ""))
	f.expectReason(t, harness.ObjectRef("Service", "mgmt-b", "steal"), "ResolvedRefs", "RefNotPermitted")
	f.ExpectSilence(t, f.public.Client, "http://"+address)
	setSharedWith(t, f, "mgmt-b")
	f.WaitForObject(t, "Service", "mgmt-b", "steal", manifest.True("Programmed"))
	f.SyncFlows(t)
	f.ExpectAnswer(t, f.public.Client, "http://"+address, "mallory", f.public.ClientAddress)
}

func probeEIPExistence(t *testing.T, f *attackFixture, who actor) {
	createVictimEIP(t, f, "")
	told := map[string]string{}
	for name, bind := range map[string]string{
		"there":  bindToVictimEIP,
		"absent": "service.nlb.kube-dc.com/bind-on-eip: mgmt-a/xx",
	} {
		who.MustApply(t, f, loadBalancerManifest("mgmt-b", name, bind, ""))
		f.expectReason(t, harness.ObjectRef("Service", "mgmt-b", name), "ResolvedRefs", "RefNotPermitted")
		o, err := f.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Service", "mgmt-b", name))
		if err != nil {
			t.Fatal(err)
		}
		message, _ := harness.FindCondition(o, "ResolvedRefs")["message"].(string)
		told[name] = strings.ReplaceAll(strings.ReplaceAll(message, "mgmt-a/gw", "EIP"), "mgmt-a/xx", "EIP")
	}
	if told["there"] != told["absent"] {
		t.Errorf("the messages tell whether there is such an EIp: %q and %q", told["there"], told["absent"])
	}
	who.MustApply(t, f, loadBalancerManifest("mgmt-b", "own", "service.nlb.kube-dc.com/bind-on-eip: xx", ""))
	f.expectReason(t, harness.ObjectRef("Service", "mgmt-b", "own"), "ResolvedRefs", "EIpNotFound")
}

func bindAcrossProjects(t *testing.T, f *attackFixture, who actor) {
	victim := f.victims[0].namespace
	f.Apply(t, eipManifest(victim, "open", "{externalNetworkType: public, sharedWith: [evil-x]}"))
	f.WaitProgrammedOnNodes(t, "EIp", victim, "open")
	who.MustApply(t, f, loadBalancerManifest("evil-x", "steal", "service.nlb.kube-dc.com/bind-on-eip: "+victim+"/open",
		""))
	f.expectReason(t, harness.ObjectRef("Service", "evil-x", "steal"), "ResolvedRefs", "RefNotPermitted")
	who.MustApply(t, f, eipManifest("evil-x", "open", "{externalNetworkType: public}"))
	who.MustApply(t, f, loadBalancerManifest("evil-x", "own", "service.nlb.kube-dc.com/bind-on-eip: evil-x/open", ""))
	f.WaitForObject(t, "Service", "evil-x", "own", manifest.True("Programmed"))
}

func bindAfterWithdrawal(t *testing.T, f *attackFixture, who actor) {
	address := createVictimEIP(t, f, "mgmt-b")
	who.MustApply(t, f, loadBalancerManifest("mgmt-b", "guest", bindToVictimEIP, ""))
	f.WaitForObject(t, "Service", "mgmt-b", "guest", manifest.True("Programmed"))
	f.SyncFlows(t)
	f.ExpectAnswer(t, f.public.Client, "http://"+address, "mallory", f.public.ClientAddress)
	setSharedWith(t, f, "kube-system")
	f.expectReason(t, harness.ObjectRef("Service", "mgmt-b", "guest"), "ResolvedRefs", "RefNotPermitted")
	f.SyncFlows(t)
	f.ExpectSilence(t, f.public.Client, "http://"+address)
	f.ExpectAnswer(t, f.public.Client, "http://"+address+":443", "dns", f.public.ClientAddress)
}

func takeHeldPort(t *testing.T, f *attackFixture, who actor) {
	address := createVictimEIP(t, f, "mgmt-b")
	service := func(ports string) string {
		return strings.Replace(loadBalancerManifest("mgmt-b", "steal", bindToVictimEIP, ""),
			"ports: [{name: http, port: 80}]", "ports: ["+ports+"]", 1)
	}
	two := "{name: a, port: 80}, {name: b, port: 81, targetPort: 80}"
	who.MustApply(t, f, service(two))
	f.WaitForObject(t, "Service", "mgmt-b", "steal", manifest.True("Programmed"))
	who.MustApply(t, f, service(two+", {name: c, port: 443, targetPort: 80}"))
	f.expectReason(t, harness.ObjectRef("Service", "mgmt-b", "steal"), "Programmed", "SomePortTaken")
	f.SyncFlows(t)
	f.ExpectAnswer(t, f.public.Client, "http://"+address+":443", "dns", f.public.ClientAddress)
	f.ExpectAnswer(t, f.public.Client, "http://"+address+":81", "mallory", f.public.ClientAddress)
}

func blockEIPDeletion(t *testing.T, f *attackFixture, who actor) {
	createVictimEIP(t, f, "mgmt-b")
	who.MustApply(t, f, loadBalancerManifest("mgmt-b", "guest", bindToVictimEIP, ""))
	f.WaitForObject(t, "Service", "mgmt-b", "guest", manifest.True("Programmed"))
	f.DeleteAndWait(t, "Service", "mgmt-a", "dns")
	f.DeleteAndWait(t, "EIp", "mgmt-a", "gw") // waits until it is gone
	f.expectReason(t, harness.ObjectRef("Service", "mgmt-b", "guest"), "ResolvedRefs", "RefNotPermitted")
}

// claimOvnEIP creates an EIp with childRef to an OvnEip of others. The control refers to one of its own.
func claimOvnEIP(ovnEip string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, who actor) {
		createVictimEIP(t, f, "mgmt-b")
		who.MustApply(t, f, eipManifest("mgmt-b", "child", "{childRef: "+ovnEip+"}"))
		f.expectReason(t, harness.ObjectRef("EIp", "mgmt-b", "child"), "ResolvedRefs", "OvnEipNotFound")
		if address := f.ReadField(t, "EIp", "mgmt-b", "child", "status", "ipAddress"); address != "" {
			t.Errorf("the EIp is told address %s", address)
		}
		who.MustApply(t, f, eipManifest("mgmt-b", "own", "{externalNetworkType: public}"))
		f.WaitProgrammedOnNodes(t, "EIp", "mgmt-b", "own")
		who.MustApply(t, f, eipManifest("mgmt-b", "alias",
			"{childRef: "+f.ReadField(t, "EIp", "mgmt-b", "own", "status", "ovnEIpRef")+"}"))
		f.WaitProgrammedOnNodes(t, "EIp", "mgmt-b", "alias")
	}
}

// publishForeignPod adds the victim's pod to a Service of the attacker, together with the attacker's own pod, which is
// the control.
func publishForeignPod(labels string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, who actor) {
		victim, own := f.ReadStatusField(t, "Pod", "mgmt-a", "dns", "podIP"),
			f.ReadStatusField(t, "Pod", "mgmt-b", "mallory", "podIP")
		service := loadBalancerManifest("mgmt-b", "leak", "network.kube-dc.com/external-network-type: public", "")
		who.MustApply(t, f, strings.Replace(service, "selector: {app: mallory}, ", "", 1))
		slice := endpointSliceManifest("mgmt-b", "leak", "{name: http, port: 80, protocol: TCP}", fmt.Sprintf(
			"{addresses: [%s], targetRef: {kind: Pod, name: dns, namespace: mgmt-a}}, {addresses: [%s]}", victim, own))
		who.MustApply(t, f, strings.Replace(slice, "kubernetes.io/service-name: leak",
			"kubernetes.io/service-name: leak"+labels, 1))
		f.expectReason(t, harness.ObjectRef("Service", "mgmt-b", "leak"), "Programmed", "EndpointNotInNamespace")
		var address string
		f.WaitForObject(t, "Service", "mgmt-b", "leak", func(o *unstructured.Unstructured) bool {
			if o != nil {
				address = harness.IngressIP(o)
			}
			return address != ""
		})
		f.SyncFlows(t)
		for range 12 { // a hash selects the backend
			f.ExpectAnswer(t, f.public.Client, "http://"+address, "mallory", f.public.ClientAddress)
		}
	}
}

// targetForeignPod creates a FIp with outbound whose target is the address of the victim's pod. The control has the
// attacker's own pod as target.
func targetForeignPod(namespace, own string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, who actor) {
		fip := func(name, pod string) string {
			return fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: %s, namespace: %s}, "+
				"spec: {externalNetworkType: public, outbound: true, ipAddress: %s}}", name, namespace, pod)
		}
		who.MustApply(t, f, fip("foreign", f.ReadStatusField(t, "Pod", "mgmt-a", "dns", "podIP")))
		f.expectReason(t, harness.ObjectRef("FIp", namespace, "foreign"), "Accepted", "TargetOutsideProject")
		if rows := f.RunNbctl(t, "--bare", "--columns=_uuid", "find", "NAT",
			fmt.Sprintf("external_ids:sallyport-owner=FIp/%s/foreign", namespace)); strings.TrimSpace(rows) != "" {
			t.Errorf("there is a translation: %s", rows)
		}
		who.MustApply(t, f, fip("own", f.ReadStatusField(t, "Pod", namespace, own, "podIP")))
		f.WaitProgrammedOnNodes(t, "FIp", namespace, "own")
		address := f.ReadField(t, "FIp", namespace, "own", "status", "externalIP")
		f.ExpectAnswer(t, f.public.Client, "http://"+address, own, f.public.ClientAddress)
	}
}

// The uplink, and an address of the attacker and one of the victim on it.
const (
	uplinkManifest = `{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: partners},
  spec: {type: partners, nodes: {interface: uplink-x, gateways: [198.18.10.254], addresses: [198.18.10.0/24]}}}`
	attackerAddress, victimAddress = "198.18.10.2", "198.18.10.1"
)

// hasEgress reports whether a NodePath contains an egress entry of an object for a pod with an address.
func hasEgress(o *unstructured.Unstructured, by, address, pod string) bool {
	networks, _, _ := unstructured.NestedSlice(o.Object, "spec", "networks")
	for _, n := range networks {
		egress, _, _ := unstructured.NestedSlice(n.(map[string]any), "egress")
		for _, e := range egress {
			text := fmt.Sprint(e)
			if strings.Contains(text, by) && strings.Contains(text, address) && strings.Contains(text, pod) {
				return true
			}
		}
	}
	return false
}

// egressWithForeignAddress lets pods of the management VPC leave through nodes with the victim's address, or redirects
// the victim's pod. Another controller, such as MetalLB, assigns the addresses. The control leaves with its own
// address.
func egressWithForeignAddress(spec func(address string) string, pod string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, who actor) {
		f.Apply(t, uplinkManifest)
		service := func(namespace, name, more string) string {
			text := loadBalancerManifest(namespace, name, `k8s.ovn.org/egress-service: "{}"`, more)
			return strings.Replace(text, "loadBalancerClass: kube-dc.com/sallyport",
				"loadBalancerClass: example.com/metal", 1)
		}
		f.Apply(t, strings.Replace(service("mgmt-a", "front", ""), "app: mallory", "app: dns", 1))
		f.setServiceAddress(t, "mgmt-a", "front", victimAddress)
		if err := who.Apply(t, f, service("mgmt-b", "thief", spec(victimAddress))); err != nil {
			t.Logf("refused: %v", err)
		}
		if pod != "" {
			who.MustApply(t, f, endpointSliceManifest("mgmt-b", "own", "{name: http, port: 80, protocol: TCP}",
				fmt.Sprintf("{addresses: [%s], nodeName: node2}", f.ReadStatusField(t, "Pod", "mgmt-a", pod, "podIP"))))
		}
		who.MustApply(t, f, service("mgmt-b", "own", ""))
		f.setServiceAddress(t, "mgmt-b", "own", attackerAddress)
		mallory, dns := f.ReadStatusField(t, "Pod", "mgmt-b", "mallory", "podIP"),
			f.ReadStatusField(t, "Pod", "mgmt-a", "dns", "podIP")
		var seen *unstructured.Unstructured
		f.WaitForObject(t, "NodePath", "", "node2", func(o *unstructured.Unstructured) bool {
			seen = o
			return o != nil && hasEgress(o, "mgmt-b/own", attackerAddress, mallory) &&
				hasEgress(o, "mgmt-a/front", victimAddress, dns)
		})
		if hasEgress(seen, "mgmt-b/", victimAddress, "") || hasEgress(seen, "mgmt-b/", "", dns+" ") ||
			hasEgress(seen, "mgmt-b/", "", dns+"]") {
			t.Errorf("the attacker leaves with the victim's address, or leads its pod: %v", seen.Object["spec"])
		}
	}
}

// setServiceAddress writes an address into the status of a Service, as a load balancer controller does.
func (f *attackFixture) setServiceAddress(t *testing.T, namespace, name, address string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, address)
	services := f.Client.CoreV1().Services(namespace)
	if _, err := services.Patch(harness.Within(t, harness.Patience), name, types.MergePatchType, patch,
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// blockProjectDeletion labels an object of the attacker as one of another project and adds a finalizer. The project is
// deleted all the same.
func blockProjectDeletion(t *testing.T, f *attackFixture, who actor) {
	f.CreateProject(t, "acme", "tmp", "10.39.0.0/24", "cloud")
	cuckoo := `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: cuckoo, namespace: evil-x, finalizers: [%s],
  labels: {%s}}, addressType: IPv4, endpoints: []}`
	err := who.Apply(t, f, fmt.Sprintf(cuckoo, "example.com/stay",
		"app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: acme-tmp"))
	t.Logf("written: %v", err)
	t.Cleanup(func() { // before the deletion, which it would block
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if err := f.Objects.Apply(ctx, fmt.Sprintf(cuckoo, "", "a: b")); err != nil {
			t.Error(err)
		}
	})
	f.DeleteAndWait(t, "Project", "acme", "tmp") // waits until it is gone
	who.MustApply(t, f, strings.Replace(fmt.Sprintf(cuckoo, "", "a: b"), "name: cuckoo", "name: plain", 1))
}

// collideOvnEIPName creates an EIp whose OvnEip has the usual name of another project's.
func collideOvnEIPName(t *testing.T, f *attackFixture, who actor) {
	f.CreateProject(t, "evil", "x-y", "10.38.0.0/24", "cloud")
	who.MustApply(t, f, eipManifest("evil-x", "y-db", "{externalNetworkType: public}"))
	f.WaitProgrammedOnNodes(t, "EIp", "evil-x", "y-db")
	f.Apply(t, eipManifest("evil-x-y", "db", "{externalNetworkType: public}"))
	f.WaitProgrammedOnNodes(t, "EIp", "evil-x-y", "db")
	first, second := f.ReadField(t, "EIp", "evil-x", "y-db", "status", "ovnEIpRef"),
		f.ReadField(t, "EIp", "evil-x-y", "db", "status", "ovnEIpRef")
	if first != "eip-evil-x-y-db" || second != "eip-evil-x-y.db" {
		t.Errorf("the OvnEips are %s and %s", first, second)
	}
	f.Apply(t, eipManifest("evil-x-y", "other", "{externalNetworkType: public}"))
	f.WaitProgrammedOnNodes(t, "EIp", "evil-x-y", "other")
}

// blockNamespaceDeletion deletes a project whose namespace contains an object with a finalizer. The project's condition
// names the object.
func blockNamespaceDeletion(t *testing.T, f *attackFixture, who actor) {
	f.CreateProject(t, "evil", "kept", "10.37.0.0/24", "cloud")
	stays := `{apiVersion: v1, kind: ServiceAccount, metadata: {name: stays, namespace: evil-kept, finalizers: [%s]}}`
	f.Apply(t, fmt.Sprintf(stays, "example.com/stay"))
	who.Can(t, "deletes its project", harness.TryDelete("projects/evil/kept"))
	if err := f.Objects.Delete(harness.Within(t, 5*time.Second),
		"{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: kept, namespace: evil}}"); err == nil {
		t.Error("the project is gone before what is in its namespace")
	}
	f.expectReason(t, harness.ObjectRef("Project", "evil", "kept"), "Deletable", "NamespaceContentRemaining")
	if told := f.ReadField(t, "Project", "evil", "kept", "status", "conditions"); !strings.Contains(told,
		"serviceaccounts") || !strings.Contains(told, "example.com/stay") {
		t.Errorf("it does not say what stays: %s", told)
	}
	f.Apply(t, fmt.Sprintf(stays, ""))
	f.DeleteAndWait(t, "Project", "evil", "kept")
}

// createReservedProject creates a Project whose VPC would have a reserved name, and its organization.
func createReservedProject(organization, name string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, _ actor) {
		f.CreateOrganization(t, organization)
		f.Apply(t, fmt.Sprintf(`{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: %s, namespace: %s},
  spec: {cidrBlock: 10.36.0.0/24, egressNetworkType: cloud}}`, name, organization))
		f.expectReason(t, harness.ObjectRef("Project", organization, name), "Accepted", "NameReserved")
		if organization != "ext" && !show.IsFullSize() {
			return // one control is enough: deleting a Project takes ten seconds
		}
		f.Apply(t, fmt.Sprintf(`{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: plain, namespace: %s},
  spec: {cidrBlock: 10.36.0.0/24, egressNetworkType: cloud}}`, organization))
		f.WaitForObject(t, "Project", organization, "plain", manifest.True("Accepted"))
	}
}

// takeForeignVPC creates a Project whose Vpc exists already and belongs to an operator. Nothing is written to its router.
// In the control the operator has removed it.
func takeForeignVPC(t *testing.T, f *attackFixture, who actor) {
	const vpc = `{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: evil-lair}, spec: {staticRoutes: [{cidr: 192.0.2.0/24, nextHopIP: 10.9.9.9, policy: policyDst}]}}`
	f.ApplyWithoutCleanup(t, vpc)
	f.WaitForObject(t, "Vpc", "", "evil-lair", func(o *unstructured.Unstructured) bool {
		standby, _, _ := unstructured.NestedBool(o.Object, "status", "standby")
		return standby
	})
	who.MustApply(t, f, projectManifest("lair", "10.37.0.0/24", "", "egressNetworkType: cloud"))
	f.expectReason(t, harness.ObjectRef("Project", "evil", "lair"), "Accepted", "NameReserved")
	if rows := f.RunNbctl(t, "lr-policy-list", "evil-lair"); strings.TrimSpace(rows) != "Routing Policies" && strings.TrimSpace(rows) != "" {
		t.Errorf("the router has\n%s", rows)
	}
	if f.ReadField(t, "Vpc", "", "evil-lair", "metadata", "labels", "kube-dc.com/vpc") != "" {
		t.Error("the Vpc is the attacker's")
	}
	f.DeleteAndWait(t, "Vpc", "", "evil-lair")
	f.WaitForObject(t, "Project", "evil", "lair", manifest.True("Accepted"))
}
