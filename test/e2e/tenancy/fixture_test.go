package tenancy

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// identity is an attacker. Each has the token of a real ServiceAccount, with the RBAC and the policies of the rendered
// chart.
type identity string

const (
	tenantEditor     identity = "edit"        // Kubernetes' edit in the project's namespace evil-x
	tenantOwner      identity = "owner"       // all permissions in evil-x, and on that Namespace object
	managementEditor identity = "medit"       // Kubernetes' edit in mgmt-b, a namespace of the management VPC
	managementOwner  identity = "mowner"      // all permissions in mgmt-b
	projectPlanner   identity = "planner"     // sallyport-project-admin in the organization evil
	nodeAgent        identity = "node"        // the agent of node1, after a takeover of that node
	outsider         identity = "outsider"    // a host on an external network, without a token
	workstation      identity = "workstation" // another user of the operator's workstation, without a token
)

// accounts are the ServiceAccounts of the identities: namespace and name.
var accounts = map[identity][2]string{
	tenantEditor: {"evil-x", "edit"}, tenantOwner: {"evil-x", "owner"}, managementEditor: {"mgmt-b", "edit"},
	managementOwner: {"mgmt-b", "owner"}, projectPlanner: {"evil", "planner"},
}

// actor is an identity with its API client.
type actor struct {
	harness.User // unset for an outsider and the workstation
	objects      *manifest.Client
}

// Apply applies objects as the actor. They are deleted at the end of the test.
func (a actor) Apply(t *testing.T, f *attackFixture, text string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if err := f.Objects.Delete(ctx, text); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return a.objects.Apply(ctx, text)
}

// MustApply applies objects that the actor is allowed to write.
func (a actor) MustApply(t *testing.T, f *attackFixture, text string) {
	t.Helper()
	if err := a.Apply(t, f, text); err != nil {
		t.Fatal(err)
	}
}

// victim is a project with a pod "shop" that has a floating IP and a load balancer on the network public.
type victim struct {
	namespace string // of the project; its VPC has the same name, its subnet is NAMESPACE-default
	pod       string // address of shop
	fip, lb   string // external addresses
}

// attackFixture is a lab with three victims and an attacker: the organization evil with the project evil-x and its pod
// mallory, and in the management VPC the victim's namespace mgmt-a with the pod dns, and the attacker's mgmt-b with the
// pod mallory.
type attackFixture struct {
	*harness.Cluster
	controller *harness.Controller
	victims    []victim
	public     harness.ExternalNetwork
	actors     map[identity]actor
}

// attackerPrefix is the subnet of the project evil-x.
var attackerPrefix = netip.MustParsePrefix("10.66.0.0/24")

const tenantsManifest = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: edit, namespace: evil-x}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: owner, namespace: evil-x}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: planner, namespace: evil}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: edit, namespace: mgmt-b}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: owner, namespace: mgmt-b}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: edit, namespace: evil-x},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}, subjects: [{kind: ServiceAccount, name: edit, namespace: evil-x}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: owner, namespace: evil-x},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: owner, namespace: evil-x}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: planner, namespace: evil},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sallyport-project-admin}, subjects: [{kind: ServiceAccount, name: planner, namespace: evil}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: edit, namespace: mgmt-b},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}, subjects: [{kind: ServiceAccount, name: edit, namespace: mgmt-b}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: owner, namespace: mgmt-b},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: owner, namespace: mgmt-b}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: own-namespace},
  rules: [{apiGroups: [""], resources: [namespaces], resourceNames: [evil-x, mgmt-b], verbs: [get, patch, update]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: own-namespace},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: own-namespace},
  subjects: [{kind: ServiceAccount, name: owner, namespace: evil-x}, {kind: ServiceAccount, name: owner, namespace: mgmt-b}]}
`

// newAttackFixture starts the lab with a controller that has the permissions of the chart's ServiceAccount.
func newAttackFixture(t *testing.T) *attackFixture {
	t.Helper()
	c := harness.StartLab(t, "tenancy", harness.LoadTopology(t, "shared.yaml"))
	c.InstallSallyport(t)
	c.ApplyAgent(t)
	f := &attackFixture{Cluster: c, public: c.Network(t, "public"), actors: map[identity]actor{}}
	f.controller = c.NewController(t, t.TempDir())
	f.controller.StartForTest(t)
	c.CreateOrganization(t, "evil")
	c.CreateOrganization(t, "acme")
	c.CreateProject(t, "evil", "x", attackerPrefix.String(), "cloud")
	c.RunPod(t, harness.Pod{Namespace: "evil-x", Name: "mallory", Node: "node1"})
	for i, name := range []string{"web", "pay", "mail"} {
		f.victims = append(f.victims, f.newVictim(t, name, fmt.Sprintf("10.3%d.0.0/24", i)))
	}
	for namespace, pod := range map[string]string{"mgmt-a": "dns", "mgmt-b": "mallory"} {
		c.CreateNamespace(t, namespace, "")
		c.RunPod(t, harness.Pod{Namespace: namespace, Name: pod, Node: "node2"})
	}
	if err := c.Objects.Apply(harness.Within(t, harness.Patience), tenantsManifest); err != nil {
		t.Fatal(err)
	}
	c.SyncFlows(t)
	c.ResetDrops(t)
	return f
}

func (f *attackFixture) newVictim(t *testing.T, name, cidr string) victim {
	t.Helper()
	v := victim{namespace: f.CreateProject(t, "acme", name, cidr, "cloud")}
	v.pod = f.RunPod(t, harness.Pod{Namespace: v.namespace, Name: "shop", Node: "node2"})
	v.fip = f.CreateFIP(t, v.namespace, "shop", "{podTarget: {podName: shop}, externalNetworkType: public}")
	f.Apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: shop, namespace: %s,
  annotations: {network.kube-dc.com/external-network-type: public}}, spec: {type: LoadBalancer, selector: {app: shop}, ports: [{port: 80}]}}`, v.namespace))
	f.WaitForObject(t, "Service", v.namespace, "shop", manifest.True("Programmed"))
	o, err := f.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Service", v.namespace, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	v.lb = harness.IngressIP(o)
	return v
}

// startStreams opens a connection to each address of each victim.
func (f *attackFixture) startStreams(t *testing.T) (out []*harness.Stream) {
	t.Helper()
	for _, v := range f.victims {
		out = append(out, f.StartStream(t, f.public.Client, v.fip), f.StartStream(t, f.public.Client, v.lb))
	}
	return out
}

// actor returns an identity with its token.
func (f *attackFixture) actor(t *testing.T, who identity) actor {
	t.Helper()
	if a, known := f.actors[who]; known {
		return a
	}
	account, has := accounts[who]
	var config *rest.Config
	switch {
	case has:
		config = harness.LoadConfig(t, f.Kubeconfig())
		config.CertData, config.KeyData = nil, nil
		config.CertFile, config.KeyFile = "", ""
		config.BearerToken = f.createToken(t, account[0], account[1])
	case who == nodeAgent:
		config = harness.LoadConfig(t, f.KubeconfigForHost(t, f.AgentKubeconfig(t, "node1")))
	default:
		return actor{}
	}
	objects, err := manifest.New(config)
	if err != nil {
		t.Fatal(err)
	}
	a := actor{harness.NewUser(t, string(who), config), objects}
	f.actors[who] = a
	return a
}

func (f *attackFixture) createToken(t *testing.T, namespace, account string) string {
	t.Helper()
	hours := int64(4 * 3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}
	token, err := f.Client.CoreV1().ServiceAccounts(namespace).CreateToken(harness.Within(t, harness.Patience), account,
		request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}
