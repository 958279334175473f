package tenancy

import (
	"fmt"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

const (
	byLimits = "policy `sallyport-limits`"
	byQuota  = "condition `QuotaExceeded`"
	byGuests = "condition `NetworkNotAllowed`"
	byLists  = "rules of the Project's allow-lists"
)

// poolAttacks are the attacks on address pools, quotas and restricted networks.
var poolAttacks = []attack{
	{
		"H5", tenantEditor, "twelve EIps at once in two projects of an organization that may have two more", byQuota,
		createEIPsConcurrently,
	},
	{
		"H5", tenantEditor, "load balancers and floating IPs beyond the quota of the organization", byQuota,
		exceedQuotaIndirectly,
	},
	{"H5", projectPlanner, "more Projects than the organization may have", byQuota, exceedProjectQuota},
	{"H5", projectPlanner, "delete a Project and make it anew to lose its quota", byQuota, recreateProject},
	{
		"H5", tenantOwner, "raise the quota of the own namespace", byLimits,
		expectRefused(
			harness.TryPatch("namespaces//evil-x", `{"metadata":{"annotations":{"kube-dc.com/eip-quota":"1000"}}}`),
			"is for the platform's operators",
			harness.TryPatch("namespaces//evil-x", `{"metadata":{"annotations":{"kube-dc.com/eip-quotas":"1000"}}}`)),
	},
	{
		"H5", managementOwner, "raise the quota of Projects of a namespace of the management VPC", byLimits,
		expectRefused(
			harness.TryPatch("namespaces//mgmt-b", `{"metadata":{"annotations":{"kube-dc.com/project-quota":"1000"}}}`),
			"is for the platform's operators",
			harness.TryPatch("namespaces//mgmt-b", `{"metadata":{"annotations":{"kube-dc.com/projects":"1000"}}}`)),
	},
	{
		"H5", projectPlanner, "a new Project with a quota of its own choice", byLimits,
		expectRefused(
			harness.TryCreate("projects/evil/new",
				`{spec: {cidrBlock: 10.67.0.0/24, egressNetworkType: cloud, eipQuota: 100}}`), "eipQuota is for",
			harness.TryCreate("projects/evil/new", `{spec: {cidrBlock: 10.67.0.0/24, egressNetworkType: cloud}}`)),
	},
	{
		"L13", managementOwner, "a label by which networks choose namespaces", byLimits,
		expectRefused(
			harness.TryPatch("namespaces//mgmt-b", `{"metadata":{"labels":{"network.kube-dc.com/partners":"true"}}}`),
			"are for the platform's operators",
			harness.TryPatch("namespaces//mgmt-b", `{"metadata":{"labels":{"partners":"true"}}}`)),
	},
	{
		"", managementOwner, "offer the own namespace to a Project with the label of sallyport adopt", byLimits,
		expectRefused(
			harness.TryPatch("namespaces//mgmt-b", `{"metadata":{"labels":{"network.kube-dc.com/adopt":"mgmt-b"}}}`),
			"are for the platform's operators",
			harness.TryPatch("namespaces//mgmt-b", `{"metadata":{"labels":{"adopt":"mgmt-b"}}}`)),
	},
	{
		"L13", tenantEditor, "an EIp on a network for others, by type, by name and by subnet", byGuests,
		requestRestrictedEIP,
	},
	{"L13", tenantEditor, "a load balancer with an address of a network for others", byGuests, requestRestrictedLB},
	{"L13", tenantEditor, "an EgressRoute by a network for others", byGuests, requestRestrictedRoute},
	{
		"L13", projectPlanner, "a Project whose way out is a network for others, labelled as one of them", byGuests,
		requestRestrictedProject,
	},
	{
		"L13", managementEditor, "an EIp of the management VPC on a network for others", byGuests,
		requestRestrictedManagementEIP,
	},
	{
		"L11", projectPlanner, "an allow-list of the own choice", byLimits,
		expectRefused(
			harness.TryPatch("projects/evil/x",
				`{"metadata":{"annotations":{"network.kube-dc.com/ingress-allowlist":"0.0.0.0/0"}}}`),
			"is for the platform's operators",
			harness.TryPatch("projects/evil/x",
				`{"metadata":{"annotations":{"network.kube-dc.com/ingress":"0.0.0.0/0"}}}`)),
	},
	{
		"L11", outsider, "a connection to a Project whose ingress allow-list does not have it", byLists,
		bypassIngressAllowList,
	},
	{
		"L11", tenantEditor, "a pod that calls home past the egress allow-list of its Project", byLists,
		bypassEgressAllowList,
	},
}

// setQuota sets a quota of the organization evil as an operator, and removes it at the end of the test.
func (f *attackFixture) setQuota(t *testing.T, key string, most int) {
	t.Helper()
	patch := func(text string) error {
		_, err := f.Client.CoreV1().Namespaces().Patch(harness.Within(t, harness.Patience), "evil", types.MergePatchType,
			[]byte(text), metav1.PatchOptions{})
		return err
	}
	if err := patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, key, most)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

// countAcceptedEIPs returns the number of EIps of Projects of the organization evil.
func (f *attackFixture) countAcceptedEIPs(t *testing.T, projects ...string) (n int) {
	t.Helper()
	for _, name := range projects {
		used, _ := strconv.Atoi(f.ReadField(t, "Project", "evil", name, "status", "eipsUsed")) // absent: none
		n += used
	}
	return n
}

func createEIPsConcurrently(t *testing.T, f *attackFixture, who actor) {
	f.CreateProject(t, "evil", "two", "10.68.0.0/24", "cloud")
	have := f.countAcceptedEIPs(t, "x", "two")
	f.setQuota(t, "kube-dc.com/eip-quota", have+2)
	text := ""
	for i := range 6 {
		text += eipManifest("evil-x", fmt.Sprintf("many-%d", i), "{externalNetworkType: cloud}") + "\n---\n" +
			eipManifest("evil-two", fmt.Sprintf("many-%d", i), "{externalNetworkType: cloud}") + "\n---\n"
	}
	f.Apply(t, text) // by the operator: the account of evil-x has no permissions in evil-two
	refused := func(o *unstructured.Unstructured) bool { return harness.FalseReason(o, "Accepted") == "QuotaExceeded" }
	decided := func(o *unstructured.Unstructured) bool { return manifest.True("Accepted")(o) || refused(o) }
	for i := range 6 {
		for _, namespace := range []string{"evil-x", "evil-two"} {
			f.WaitForObject(t, "EIp", namespace, fmt.Sprintf("many-%d", i), decided)
		}
	}
	harness.Eventually(t, "two more EIps are accepted", func() bool {
		n := f.countAcceptedEIPs(t, "x", "two")
		if n > have+2 {
			t.Fatalf("%d EIps are accepted; the organization may have %d", n, have+2)
		}
		return n == have+2
	})
	f.setQuota(t, "kube-dc.com/eip-quota", have+12)
	harness.Eventually(t, "with a higher quota all are accepted", func() bool {
		return f.countAcceptedEIPs(t, "x", "two") == have+12
	})
	who.Can(t, "read them", harness.TryList("eips", "evil-x"))
}

func exceedQuotaIndirectly(t *testing.T, f *attackFixture, who actor) {
	have := f.countAcceptedEIPs(t, "x")
	f.setQuota(t, "kube-dc.com/eip-quota", have+1)
	service := func(name string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: evil-x},
  spec: {type: LoadBalancer, selector: {app: mallory}, ports: [{port: 80}]}}`, name)
	}
	who.MustApply(t, f, service("first"))
	f.WaitForObject(t, "Service", "evil-x", "first", manifest.True("Programmed"))
	who.MustApply(t, f, service("second"))
	f.expectReason(t, harness.ObjectRef("Service", "evil-x", "second"), "Programmed", "WaitingForEIp")
	who.MustApply(t, f, `{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: third, namespace: evil-x}, spec: {podTarget: {podName: mallory}, externalNetworkType: public}}`)
	f.expectReason(t, harness.ObjectRef("FIp", "evil-x", "third"), "Programmed", "WaitingForEIp")
	if n := f.countAcceptedEIPs(t, "x"); n != have+1 {
		t.Errorf("%d EIps are accepted; wanted %d", n, have+1)
	}
}

// projectManifest returns a Project of the organization evil.
func projectManifest(name, cidr, metadata, spec string) string {
	return fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: %s, namespace: evil%s}, spec: {cidrBlock: %s, %s}}",
		name, metadata, cidr, spec)
}

func exceedProjectQuota(t *testing.T, f *attackFixture, who actor) {
	f.setQuota(t, "kube-dc.com/project-quota", 2) // x exists
	who.MustApply(t, f, projectManifest("fits", "10.68.0.0/24", "", "egressNetworkType: cloud"))
	f.WaitProgrammed(t, "Project", "evil", "fits")
	who.MustApply(t, f, projectManifest("spare", "10.69.0.0/24", "", "egressNetworkType: cloud"))
	f.expectReason(t, harness.ObjectRef("Project", "evil", "spare"), "Accepted", "QuotaExceeded")
	f.setQuota(t, "kube-dc.com/project-quota", 3)
	f.WaitProgrammed(t, "Project", "evil", "spare")
}

func recreateProject(t *testing.T, f *attackFixture, who actor) {
	have := f.countAcceptedEIPs(t, "x")
	f.setQuota(t, "kube-dc.com/eip-quota", have+1)
	text := projectManifest("anew", "10.68.0.0/24", "", "egressNetworkType: cloud")
	who.MustApply(t, f, text)
	f.WaitProgrammed(t, "Project", "evil", "anew")
	f.DeleteAndWait(t, "Project", "evil", "anew")
	who.MustApply(t, f, text)
	f.WaitProgrammed(t, "Project", "evil", "anew")
	f.CreateEIP(t, "evil-anew", "first", "{externalNetworkType: cloud}")
	f.Apply(t, eipManifest("evil-anew", "second", "{externalNetworkType: cloud}"))
	f.expectReason(t, harness.ObjectRef("EIp", "evil-anew", "second"), "Accepted", "QuotaExceeded")
}

// restrictThirdNetwork restricts the network third to the organization acme until the end of the test.
func (f *attackFixture) restrictThirdNetwork(t *testing.T) {
	t.Helper()
	f.Apply(t, `{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: guarded},
  spec: {type: third, subnets: [ext-third], allowedProjects: {matchLabels: {kubernetes.io/metadata.name: acme}}}}`)
	f.WaitProgrammed(t, "ExternalNetwork", "", "guarded")
}

func requestRestrictedEIP(t *testing.T, f *attackFixture, who actor) {
	f.restrictThirdNetwork(t)
	for name, spec := range map[string]string{
		"by-type": "{externalNetworkType: third}", "by-name": "{externalNetwork: guarded}",
		"by-subnet":  "{externalNetwork: ext-third}",
		"by-address": "{externalNetworkType: third, ipAddress: 198.19.7.77}",
	} {
		who.MustApply(t, f, eipManifest("evil-x", name, spec))
		f.expectReason(t, harness.ObjectRef("EIp", "evil-x", name), "ResolvedRefs", "NetworkNotAllowed")
	}
	f.CreateEIP(t, f.victims[0].namespace, "guest", "{externalNetworkType: third}")
}

func requestRestrictedLB(t *testing.T, f *attackFixture, who actor) {
	f.restrictThirdNetwork(t)
	service := func(name, network string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: evil-x, annotations: {network.kube-dc.com/external-network-type: %s}},
  spec: {type: LoadBalancer, selector: {app: mallory}, ports: [{port: 80}]}}`, name, network)
	}
	who.MustApply(t, f, service("stranger", "third"))
	f.expectReason(t, harness.ObjectRef("Service", "evil-x", "stranger"), "Programmed", "WaitingForEIp")
	who.MustApply(t, f, service("guest", "public"))
	f.WaitForObject(t, "Service", "evil-x", "guest", manifest.True("Programmed"))
	if f.ReadField(t, "Service", "evil-x", "stranger", "status", "loadBalancer", "ingress") != "" {
		t.Error("a load balancer has an address of a network that is not for it")
	}
}

func requestRestrictedRoute(t *testing.T, f *attackFixture, who actor) {
	f.restrictThirdNetwork(t)
	route := func(name, network string) string {
		return fmt.Sprintf(`{apiVersion: kube-dc.com/v1alpha1, kind: EgressRoute, metadata: {name: %s, namespace: evil-x},
  spec: {destinations: [203.0.113.0/24], externalNetworkType: %s}}`, name, network)
	}
	who.MustApply(t, f, route("stranger", "third"))
	f.expectReason(t, harness.ObjectRef("EgressRoute", "evil-x", "stranger"), "ResolvedRefs", "NetworkNotAllowed")
	who.MustApply(t, f, route("guest", "public"))
	f.WaitProgrammed(t, "EgressRoute", "evil-x", "guest")
}

func requestRestrictedProject(t *testing.T, f *attackFixture, who actor) {
	f.restrictThirdNetwork(t)
	who.MustApply(t, f, projectManifest("stranger", "10.68.0.0/24", ", labels: {kubernetes.io/metadata.name: acme}",
		"egressNetworkType: third"))
	f.expectReason(t, harness.ObjectRef("Project", "evil", "stranger"), "ResolvedRefs", "NetworkNotAllowed")
	f.CreateProject(t, "acme", "guest", "10.69.0.0/24", "third")
}

func requestRestrictedManagementEIP(t *testing.T, f *attackFixture, who actor) {
	f.restrictThirdNetwork(t)
	who.MustApply(t, f, eipManifest("mgmt-b", "stranger", "{externalNetworkType: third}"))
	f.expectReason(t, harness.ObjectRef("EIp", "mgmt-b", "stranger"), "ResolvedRefs", "NetworkNotAllowed")
	who.MustApply(t, f, eipManifest("mgmt-b", "guest", "{externalNetworkType: public}"))
	f.WaitProgrammed(t, "EIp", "mgmt-b", "guest")
}

// createListedProject creates a Project of the organization evil with allow-lists, and a pod with a floating IP on the
// network public.
func (f *attackFixture) createListedProject(t *testing.T, lists string) (namespace, address string) {
	t.Helper()
	namespace = "evil-listed"
	f.Apply(t, projectManifest("listed", "10.68.0.0/24", ", annotations: {"+lists+"}", "egressNetworkType: cloud"))
	f.WaitProgrammed(t, "Project", "evil", "listed")
	f.WaitForObject(t, "ServiceAccount", namespace, "default", manifest.Exists)
	f.WaitForObject(t, "Namespace", "", namespace, func(o *unstructured.Unstructured) bool {
		return o.GetAnnotations()[logicalSwitchKey] == namespace+"-default"
	})
	f.RunPod(t, harness.Pod{Namespace: namespace, Name: "shop", Node: "node1"})
	f.RunPod(t, harness.Pod{Namespace: namespace, Name: "other", Node: "node2"})
	return namespace, f.CreateFIP(t, namespace, "shop", "{podTarget: {podName: shop}, externalNetworkType: public}")
}

func bypassIngressAllowList(t *testing.T, f *attackFixture, _ actor) {
	third := f.Network(t, "third")
	namespace, address := f.createListedProject(t,
		fmt.Sprintf("network.kube-dc.com/ingress-allowlist: %q", f.public.ClientAddress))
	f.ExpectAnswers(t, f.public.Client, address, "shop", f.public.ClientAddress)
	f.ExpectSilence(t, f.public.Neighbour, "http://"+address)
	f.ExpectSilence(t, "internet", "http://"+address)
	f.ExpectSilence(t, third.Client, "http://"+address)
	// Connections that its pods initiate are answered, and traffic between them is not filtered.
	f.ExpectAnswer(t, "shop."+namespace, "http://"+harness.InternetAddress, "internet", "")
	f.ExpectAnswer(t, "other."+namespace, "http://"+harness.InternetAddress, "internet", "")
	f.ExpectAnswer(t, "other."+namespace, "http://"+f.ReadField(t, "Pod", namespace, "shop", "status", "podIP"), "shop",
		"")
}

func bypassEgressAllowList(t *testing.T, f *attackFixture, _ actor) {
	namespace, address := f.createListedProject(t,
		fmt.Sprintf("network.kube-dc.com/egress-allowlist: %q", f.public.ClientAddress+"/32"))
	f.ExpectSilence(t, "shop."+namespace, "http://"+harness.InternetAddress)
	f.ExpectSilence(t, "other."+namespace, "http://"+harness.InternetAddress)
	f.ExpectSilence(t, "other."+namespace, "udp://"+harness.InternetAddress+":80")
	f.ExpectAnswer(t, "shop."+namespace, "http://"+f.public.ClientAddress, f.public.Client, "")
	// Replies to clients that are not on the egress list leave through the network of the request.
	f.ExpectAnswers(t, "internet", address, "shop", "")
	f.ExpectAnswers(t, f.public.Client, address, "shop", f.public.ClientAddress)
	f.ExpectAnswer(t, "other."+namespace, "http://"+f.ReadField(t, "Pod", namespace, "shop", "status", "podIP"), "shop",
		"")
}
