package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Attempt is an API request that the API server admits or refuses. Writes are dry runs.
type Attempt func(context.Context, dynamic.Interface) error

var dryRun = []string{metav1.DryRunAll}

func resourceGVR(resource string) schema.GroupVersionResource {
	gv := schema.GroupVersion{Group: "kube-dc.com", Version: "v1"}
	switch resource {
	case "namespaces", "secrets", "services", "endpoints", "pods", "nodes", "bindings":
		gv.Group = ""
	case "deployments", "statefulsets", "daemonsets", "replicasets":
		gv.Group = "apps"
	case "jobs", "cronjobs":
		gv.Group = "batch"
	case "networkpolicies":
		gv.Group = "networking.k8s.io"
	case "endpointslices":
		gv.Group = "discovery.k8s.io"
	case "events":
		gv.Group = "events.k8s.io"
	case "leases":
		gv.Group = "coordination.k8s.io"
	case "nodepaths", "externalnetworks", "inspections", "egressroutes":
		gv.Version = "v1alpha1"
	case "egressips", "egressservices":
		gv.Group = "k8s.ovn.org"
	case "vpcs", "subnets", "ovn-eips", "vpc-egress-gateways":
		gv.Group = "kubeovn.io"
	case "network-attachment-definitions":
		gv.Group = "k8s.cni.cncf.io"
	}
	return gv.WithResource(resource)
}

// TryPatch attempts a merge patch of "resource/namespace/name"; the suffix "/status" selects the subresource.
func TryPatch(path, text string) Attempt {
	p := strings.Split(path+"/", "/")
	return func(ctx context.Context, client dynamic.Interface) error {
		var subresources []string
		if p[3] != "" {
			subresources = []string{p[3]}
		}
		options := metav1.PatchOptions{DryRun: dryRun}
		_, err := client.Resource(resourceGVR(p[0])).Namespace(p[1]).Patch(ctx, p[2], types.MergePatchType,
			[]byte(text), options, subresources...)
		return err
	}
}

// TryGet attempts to read "resource/namespace/name".
func TryGet(path string) Attempt {
	p := strings.Split(path, "/")
	return func(ctx context.Context, client dynamic.Interface) error {
		_, err := client.Resource(resourceGVR(p[0])).Namespace(p[1]).Get(ctx, p[2], metav1.GetOptions{})
		return err
	}
}

// TryDelete attempts to delete "resource/namespace/name".
func TryDelete(path string) Attempt {
	p := strings.Split(path, "/")
	return func(ctx context.Context, client dynamic.Interface) error {
		return client.Resource(resourceGVR(p[0])).Namespace(p[1]).Delete(ctx, p[2],
			metav1.DeleteOptions{DryRun: dryRun})
	}
}

var kindByResource = map[string]string{
	"eips": "EIp", "fips": "FIp", "projects": "Project", "inspections": "Inspection", "egressroutes": "EgressRoute",
	"egressservices": "EgressService", "externalnetworks": "ExternalNetwork",
	"namespaces": "Namespace", "services": "Service", "endpoints": "Endpoints", "endpointslices": "EndpointSlice",
	"events": "Event",
	"pods":   "Pod", "bindings": "Binding", "deployments": "Deployment", "statefulsets": "StatefulSet",
	"daemonsets":  "DaemonSet",
	"replicasets": "ReplicaSet", "jobs": "Job", "cronjobs": "CronJob", "networkpolicies": "NetworkPolicy",
	"vpcs": "Vpc", "subnets": "Subnet", "vpc-egress-gateways": "VpcEgressGateway",
	"network-attachment-definitions": "NetworkAttachmentDefinition",
}

// TryCreate attempts to create "resource/namespace/name" with additional fields; the suffix "/binding" binds a pod.
func TryCreate(path, text string) Attempt {
	p := strings.Split(path+"/", "/")
	kind, subresources := kindByResource[p[0]], []string(nil)
	if p[3] == "binding" {
		kind, subresources = "Binding", []string{p[3]}
	}
	return func(ctx context.Context, client dynamic.Interface) error {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			return err
		}
		o.SetGroupVersionKind(resourceGVR(p[0]).GroupVersion().WithKind(kind))
		o.SetNamespace(p[1])
		o.SetName(p[2])
		_, err := client.Resource(resourceGVR(p[0])).Namespace(p[1]).Create(ctx, o,
			metav1.CreateOptions{DryRun: dryRun}, subresources...)
		return err
	}
}

// TryList attempts to list the objects of a resource in a namespace.
func TryList(resource, namespace string) Attempt {
	return func(ctx context.Context, client dynamic.Interface) error {
		_, err := client.Resource(resourceGVR(resource)).Namespace(namespace).List(ctx, metav1.ListOptions{})
		return err
	}
}

// User is a user of the API.
type User struct {
	name string
	api  dynamic.Interface
}

// ImpersonateUser returns a user that the administrator, a member of system:masters, impersonates.
func (c *Cluster) ImpersonateUser(t *testing.T, name string) User {
	t.Helper()
	as := LoadConfig(t, c.Kubeconfig())
	as.Impersonate.UserName = name
	return NewUser(t, name, as)
}

// NewUser returns a user with the given client configuration.
func NewUser(t *testing.T, name string, config *rest.Config) User {
	t.Helper()
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return User{name, api}
}

// Try sends a request once.
func (p User) Try(ctx context.Context, try Attempt) error { return try(ctx, p.api) }

// Can fails the test unless the API server admits the request.
func (p User) Can(t *testing.T, what string, try Attempt) {
	t.Helper()
	p.expectEventually(t, what, try, "no error", func(err error) bool { return err == nil })
}

// Cannot fails the test unless the API server refuses the request with the given words.
func (p User) Cannot(t *testing.T, what string, try Attempt, words string) {
	t.Helper()
	p.expectEventually(t, what, try, words, func(err error) bool {
		return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), words)
	})
}

// expectEventually tries until the API server applies new roles and policies, which it learns by watching.
func (p User) expectEventually(t *testing.T, what string, try Attempt, want string, holds func(error) bool) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, Patience, true,
		func(ctx context.Context) (bool, error) {
			last = try(ctx, p.api)
			return holds(last), nil
		})
	if err != nil {
		t.Errorf("%s: %s: got %v; wanted %s", p.name, what, last, want)
	}
}

// CreateTenancy creates an organization with a project as the controller would, and its users: a viewer and an editor
// with Kubernetes' own roles, an owner with all permissions in both namespaces, and an operator with all permissions in
// the cluster.
func (c *Cluster) CreateTenancy(t *testing.T, org, project string) {
	t.Helper()
	c.CreateNamespace(t, org, "")
	subnet := ownership.VPCSubnetName(project)
	c.Apply(t, fmt.Sprintf(projectNetworkManifest, project, subnet))
	c.WaitForObject(t, "Subnet", "", subnet, manifest.True("Ready"))
	c.CreateNamespace(t, project, subnet)
	for _, text := range []string{tenantRoleBindings, tenantObjects} { // they remain until the lab ends
		if err := c.Objects.Apply(Within(t, Patience), fmt.Sprintf(text, org, project)); err != nil {
			t.Fatal(err)
		}
	}
	master := dynamic.NewForConfigOrDie(LoadConfig(t, c.Kubeconfig()))
	_, err := master.Resource(resourceGVR("services")).Namespace(project).Patch(Within(t, Patience), "balanced",
		types.MergePatchType,
		[]byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"100.65.0.9"}]}}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

const tenantRoleBindings = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: viewer, namespace: %[2]s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: User, name: viewer}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: editor, namespace: %[2]s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}, subjects: [{kind: User, name: editor}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: editor, namespace: %[1]s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}, subjects: [{kind: User, name: editor}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: planner, namespace: %[1]s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sallyport-project-admin}, subjects: [{kind: User, name: planner}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: owner, namespace: %[1]s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: User, name: owner}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: owner, namespace: %[2]s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: User, name: owner}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[2]s-namespaces},
  rules: [{apiGroups: [""], resources: [namespaces, namespaces/status], verbs: [get, create, patch, update, delete]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[2]s-namespaces},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[2]s-namespaces}, subjects: [{kind: User, name: owner}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[2]s-operator},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: User, name: operator}]}
`

const projectNetworkManifest = `
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: %[1]s, labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: %[1]s}},
  spec: {namespaces: [%[1]s]}}
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: %[2]s, labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: %[1]s}},
  spec: {vpc: %[1]s, protocol: IPv4, cidrBlock: 10.0.0.0/24, namespaces: [%[1]s]}}
`

const tenantObjects = `
{apiVersion: v1, kind: Namespace, metadata: {name: %[2]s,
  labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: %[2]s, kube-dc.com/project: web}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: mine, namespace: %[2]s}, spec: {schedulerName: nobody, containers: [{name: main, image: lab/idle}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: foreign, namespace: %[2]s},
  spec: {type: LoadBalancer, loadBalancerClass: example.com/other, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: expires, namespace: %[2]s, annotations: {service.nlb.kube-dc.com/autodelete: "true"}},
  spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: balanced-ext, namespace: %[2]s, labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: %[2]s}},
  spec: {clusterIP: None, ports: [{port: 80}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, endpoints: [], ports: [],
  metadata: {name: balanced-ext, namespace: %[2]s, labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: %[2]s}}}
---
{apiVersion: kube-dc.com/v1alpha1, kind: EgressRoute, metadata: {name: mine, namespace: %[2]s},
  spec: {destinations: [203.0.113.0/24], externalNetworkType: public}}
---
{apiVersion: k8s.ovn.org/v1, kind: EgressService, metadata: {name: balanced, namespace: %[2]s}, spec: {sourceIPBy: LoadBalancerIP}}
---
{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: web, namespace: %[1]s}, spec: {cidrBlock: 10.0.0.0/24, egressNetworkType: cloud}}
---
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: default-gw, namespace: %[2]s,
  labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: %[2]s}}, spec: {childRef: guard-web-ext-cloud}}
---
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: fip-web-abcde, namespace: %[2]s,
  labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: %[2]s}}, spec: {externalNetworkType: public}}
---
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: default, namespace: %[2]s,
  labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: %[2]s}}, spec: {config: "{}"}}
---
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: mine, namespace: %[2]s}, spec: {config: "{}"}}
---
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: mine, namespace: %[2]s}, spec: {externalNetworkType: public}}
---
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: mine, namespace: %[2]s}, spec: {ipAddress: 10.0.0.7, eip: mine}}
---
{apiVersion: v1, kind: Service, metadata: {name: balanced, namespace: %[2]s}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: waiting, namespace: %[2]s}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
---
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: held, namespace: %[2]s, finalizers: [kube-dc.com/sallyport]}, spec: {}}
`
