package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/installation"
)

// Helm's annotations of the objects of a release, and the label that the chart gives to all of its objects.
const (
	helmReleaseAnnotation   = "meta.helm.sh/release-name"
	helmNamespaceAnnotation = "meta.helm.sh/release-namespace"
	chartNameLabel          = "app.kubernetes.io/name"
	chartName               = "sallyport"
)

// maxWaitingPods limits the pods that are reported, because a Deployment may have any number.
const maxWaitingPods = 20

// InstallationOptions are what `sallyport check` can't find in the cluster.
type InstallationOptions struct {
	Namespaces
	Release   string // of Helm
	TLSSecret string // value ovn.tlsSecret of the chart; empty: what is installed, else Kube-OVN's if it uses TLS
	// CustomDatabases: the chart is given the addresses of OVN's databases.
	CustomDatabases bool
}

// InstallationReader reads what an installation of Sallyport needs.
type InstallationReader struct {
	API       client.Client
	Discovery discovery.DiscoveryInterface
	Options   InstallationOptions
	Now       func() time.Time
}

// NewInstallationReader returns a reader with the caller's permissions.
func NewInstallationReader(config *rest.Config, o InstallationOptions) (*InstallationReader, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // no client-side limit: the API server has priority and fairness
	config.Timeout = readTimeout
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	return &InstallationReader{API: api, Discovery: served, Options: o, Now: time.Now}, nil
}

// Read reads everything. What can't be read is in Unread.
func (r *InstallationReader) Read(ctx context.Context) (*installation.Cluster, error) {
	wanted, err := readWantedDefinitions()
	if err != nil {
		return nil, err
	}
	out := &installation.Cluster{
		Taken: r.Now(), Wanted: wanted,
		Release: installation.Release{Name: r.Options.Release, Namespace: r.Options.Controller},
	}
	// The others depend on what is installed.
	r.readParts(ctx, out, map[installation.Part]func(context.Context, *installation.Cluster) error{
		installation.Workloads: r.readWorkloads,
	})
	r.readParts(ctx, out, map[installation.Part]func(context.Context, *installation.Cluster) error{
		installation.Version:     r.readVersion,
		installation.APIs:        r.readAPIs,
		installation.Pods:        r.readWaitingPods,
		installation.Nodes:       r.readNodes,
		installation.Subnets:     r.readSubnets,
		installation.Gateways:    r.readGatewayConfig,
		installation.Databases:   r.readDatabases,
		installation.Secrets:     r.readSecrets,
		installation.Definitions: r.readDefinitions,
		installation.Namespaces:  r.readNamespaces,
		installation.Permissions: r.readPermissions,
	})
	return out, nil
}

// readParts reads parts in parallel. Each function writes fields of its own.
func (r *InstallationReader) readParts(ctx context.Context, out *installation.Cluster,
	parts map[installation.Part]func(context.Context, *installation.Cluster) error,
) {
	var group sync.WaitGroup
	var mu sync.Mutex
	for part, read := range parts {
		group.Go(func() {
			if err := read(ctx, out); err != nil {
				mu.Lock()
				defer mu.Unlock()
				out.Unread = append(out.Unread, installation.ReadFailure{Part: part, Problem: err.Error()})
			}
		})
	}
	group.Wait()
	slices.SortFunc(out.Unread, func(a, b installation.ReadFailure) int {
		return strings.Compare(string(a.Part), string(b.Part))
	})
}

func (r *InstallationReader) readVersion(_ context.Context, out *installation.Cluster) error {
	version, err := r.Discovery.ServerVersion()
	if err != nil {
		return err
	}
	out.Kubernetes = version.GitVersion
	return nil
}

func (r *InstallationReader) readAPIs(_ context.Context, out *installation.Cluster) error {
	served := map[installation.API]bool{}
	asked := map[string]bool{}
	for _, a := range installation.WantedAPIs() {
		if asked[a.GroupVersion] {
			continue
		}
		asked[a.GroupVersion] = true
		list, err := r.Discovery.ServerResourcesForGroupVersion(a.GroupVersion)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, resource := range list.APIResources {
			served[installation.API{GroupVersion: a.GroupVersion, Resource: resource.Name}] = true
		}
	}
	for _, a := range installation.WantedAPIs() {
		if !served[a] {
			out.Missing = append(out.Missing, a)
		}
	}
	return nil
}

func (r *InstallationReader) readWorkloads(ctx context.Context, out *installation.Cluster) error {
	engine, err := r.readDeployment(ctx, client.ObjectKey{Namespace: r.Options.KubeOVN, Name: kubeOVNName}, kubeOVNName)
	if err != nil {
		return err
	}
	out.Engine = engine
	if engine != nil {
		out.EngineVersion, _ = kubeovn.ParseImageVersion(engine.Image)
	}
	controller := client.ObjectKey{Namespace: r.Options.Controller, Name: controllerName}
	if out.Controller, err = r.readDeployment(ctx, controller, "controller"); err != nil {
		return err
	}
	for _, key := range listNamesakes(ctx, r.API, controller) {
		out.Namesakes = append(out.Namesakes, key.String())
	}
	out.Agent, err = r.readAgents(ctx)
	return err
}

// readDeployment reads a Deployment. It returns nil if there is none.
func (r *InstallationReader) readDeployment(ctx context.Context, key client.ObjectKey, container string,
) (*installation.Workload, error) {
	var d appsv1.Deployment
	if err := r.API.Get(ctx, key, &d); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	out := &installation.Workload{
		Namespace: d.Namespace, Name: d.Name, Release: readRelease(d.Annotations), Wanted: 1,
		Ready: int(d.Status.ReadyReplicas), Secrets: referredSecrets(d.Namespace, d.Spec.Template.Spec),
	}
	if d.Spec.Replicas != nil {
		out.Wanted = int(*d.Spec.Replicas)
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name != container {
			continue
		}
		out.Image, out.Args = c.Image, append(slices.Clone(c.Command), c.Args...)
		out.TLS = slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "ENABLE_SSL" && e.Value == "true" }) ||
			slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--nb-cert=") })
	}
	return out, nil
}

func (r *InstallationReader) readAgents(ctx context.Context) (*installation.Workload, error) {
	var d appsv1.DaemonSet
	if err := r.API.Get(ctx, client.ObjectKey{Namespace: r.Options.agents(), Name: agentName}, &d); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &installation.Workload{
		Namespace: d.Namespace, Name: d.Name, Release: readRelease(d.Annotations),
		Wanted: int(d.Status.DesiredNumberScheduled), Ready: int(d.Status.NumberReady),
		Image: firstImage(d.Spec.Template.Spec.Containers), Secrets: referredSecrets(d.Namespace, d.Spec.Template.Spec),
	}, nil
}

// readRelease reads the Helm release that an object belongs to.
func readRelease(annotations map[string]string) installation.Release {
	return installation.Release{Name: annotations[helmReleaseAnnotation], Namespace: annotations[helmNamespaceAnnotation]}
}

// readWaitingPods adds the pods of the controller and of the agents that do not start.
func (r *InstallationReader) readWaitingPods(ctx context.Context, out *installation.Cluster) error {
	for _, w := range []struct {
		of     *installation.Workload
		labels client.MatchingLabels
	}{
		{out.Controller, client.MatchingLabels{chartNameLabel: chartName, "app.kubernetes.io/component": "controller"}},
		{out.Agent, client.MatchingLabels{chartNameLabel: agentName}},
	} {
		if w.of == nil {
			continue
		}
		var pods corev1.PodList
		if err := r.API.List(ctx, &pods, client.InNamespace(w.of.Namespace), w.labels); err != nil {
			return err
		}
		for i := range pods.Items {
			w.of.Waiting = append(w.of.Waiting, readWaiting(&pods.Items[i])...)
		}
		w.of.Waiting = w.of.Waiting[:min(len(w.of.Waiting), maxWaitingPods)]
	}
	return nil
}

// readWaiting returns why a pod does not start. Containers that are being created are not reported.
func readWaiting(pod *corev1.Pod) (out []installation.Waiting) {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			out = append(out,
				installation.Waiting{Pod: pod.Namespace + "/" + pod.Name, Image: c.Image, Reason: w.Reason})
		}
	}
	return out
}

func (r *InstallationReader) readNodes(ctx context.Context, out *installation.Cluster) error {
	var list corev1.NodeList
	if err := r.API.List(ctx, &list); err != nil {
		return err
	}
	out.Nodes = readSorted(list.Items, func(n *corev1.Node) installation.Node {
		return installation.Node{
			Name: n.Name, Gateway: n.Labels[kubeovn.GatewayLabel] == "true", Chassis: n.Annotations[kubeovn.ChassisAnnotation],
			Ready: IsNodeReady(n),
		}
	})
	return nil
}

// readSubnets reads the external networks that labels define. Without Kube-OVN's kinds there are none.
func (r *InstallationReader) readSubnets(ctx context.Context, out *installation.Cluster) error {
	var subnets SubnetList
	var vlans VlanList
	var providers ProviderNetworkList
	err := errors.Join(
		ignoreMissingKind(r.API.List(ctx, &subnets, client.HasLabels{kubedcv1.ExternalNetworkTypeLabel})),
		ignoreMissingKind(r.API.List(ctx, &vlans)), ignoreMissingKind(r.API.List(ctx, &providers)))
	if err != nil {
		return err
	}
	out.Subnets = readSorted(subnets.Items, func(s *Subnet) installation.Subnet {
		x := installation.Subnet{
			Name: s.Name, Type: s.Labels[kubedcv1.ExternalNetworkTypeLabel],
			Default: s.Labels[kubedcv1.DefaultExternalLabel] == "true", CIDR: s.Spec.CIDRBlock, Gateway: s.Spec.Gateway,
			Ready: s.Status.IsReady(), Free: int(s.Status.V4AvailableIPs), Vlan: s.Spec.Vlan,
		}
		if i := slices.IndexFunc(vlans.Items, func(v Vlan) bool { return v.Name == s.Spec.Vlan }); i >= 0 {
			x.VlanExists, x.Provider = true, vlans.Items[i].Spec.Provider
		}
		if i := slices.IndexFunc(providers.Items, func(p ProviderNetwork) bool { return p.Name == x.Provider }); i >= 0 {
			p := &providers.Items[i]
			x.ProviderExists, x.ExcludedNodes, x.ReadyNodes = true, p.Spec.ExcludeNodes, p.Status.ReadyNodes
			x.ProviderReported = len(p.Status.ReadyNodes)+len(p.Status.NotReadyNodes) > 0
		}
		return x
	})
	return nil
}

func (r *InstallationReader) readGatewayConfig(ctx context.Context, out *installation.Cluster) error {
	var config corev1.ConfigMap
	err := r.API.Get(ctx, client.ObjectKey{Namespace: r.Options.KubeOVN, Name: kubeovn.GatewayConfigMap}, &config)
	out.GatewayConfig = err == nil
	return client.IgnoreNotFound(err)
}

// readDatabases reads the Services that Kube-OVN points to the leaders of OVN's databases.
func (r *InstallationReader) readDatabases(ctx context.Context, out *installation.Cluster) error {
	if r.Options.CustomDatabases || usesOwnDatabaseAddresses(out.Controller) {
		return nil
	}
	for _, name := range []string{"ovn-nb", "ovn-sb"} {
		var service corev1.Service
		err := r.API.Get(ctx, client.ObjectKey{Namespace: r.Options.KubeOVN, Name: name}, &service)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		var slicesOf discoveryv1.EndpointSliceList
		if err := r.API.List(ctx, &slicesOf, client.InNamespace(r.Options.KubeOVN),
			client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
			return err
		}
		ready := 0
		for i := range slicesOf.Items {
			for _, e := range slicesOf.Items[i].Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					ready++
				}
			}
		}
		out.Databases = append(out.Databases, installation.Service{Name: name, Exists: err == nil, Ready: ready})
	}
	return nil
}

// usesOwnDatabaseAddresses reports whether an installed controller has other addresses than Kube-OVN's Service.
func usesOwnDatabaseAddresses(controller *installation.Workload) bool {
	return controller != nil && slices.ContainsFunc(controller.Args, func(arg string) bool {
		return strings.HasPrefix(arg, "--nb-address=") && !strings.Contains(arg, ":ovn-nb.")
	})
}

// readNamespaces reads the namespaces of the controller and of the agents.
func (r *InstallationReader) readNamespaces(ctx context.Context, out *installation.Cluster) error {
	for _, name := range slices.Compact([]string{r.Options.Controller, r.Options.agents()}) {
		var ns corev1.Namespace
		err := r.API.Get(ctx, client.ObjectKey{Name: name}, &ns)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		out.Namespaces = append(out.Namespaces, installation.Namespace{
			Name: name, Exists: err == nil, Enforce: ns.Labels["pod-security.kubernetes.io/enforce"],
			Agents: name == r.Options.agents(),
		})
	}
	return nil
}

// readPermissions asks which permissions for an installation the caller lacks.
func (r *InstallationReader) readPermissions(ctx context.Context, out *installation.Cluster) error {
	wanted := installPermissions(r.Options.Controller)
	problems, allowed := make([]error, len(wanted)), make([]bool, len(wanted))
	var group sync.WaitGroup
	for i, p := range wanted {
		group.Go(func() {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: p.Verb, Group: p.Group, Resource: p.Resource, Namespace: p.Namespace,
				},
			}}
			problems[i] = r.API.Create(ctx, review)
			allowed[i] = review.Status.Allowed
		})
	}
	group.Wait()
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("review your permissions: %w", err)
	}
	for i, p := range wanted {
		if !allowed[i] {
			out.Denied = append(out.Denied, p)
		}
	}
	return nil
}

// installPermissions are the permissions to create what is in the chart. Escalate: without it, the API server refuses
// roles that permit what the caller may not do.
func installPermissions(namespace string) (out []installation.Permission) {
	const rbac, admission = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
	for _, p := range []installation.Permission{
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Group: rbac, Resource: "clusterroles"},
		{Group: rbac, Resource: "clusterrolebindings"},
		{Group: admission, Resource: "validatingadmissionpolicies"},
		{Group: admission, Resource: "validatingadmissionpolicybindings"},
		{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"},
		{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"},
		{Group: rbac, Resource: "roles", Namespace: namespace},
		{Group: rbac, Resource: "rolebindings", Namespace: namespace},
		{Group: "apps", Resource: "deployments", Namespace: namespace},
		{Group: "apps", Resource: "daemonsets", Namespace: namespace},
		{Group: "policy", Resource: "poddisruptionbudgets", Namespace: namespace},
		{Group: "networking.k8s.io", Resource: "networkpolicies", Namespace: namespace},
		{Resource: "services", Namespace: namespace},
		{Resource: "serviceaccounts", Namespace: namespace},
		{Resource: "secrets", Namespace: namespace}, // Helm keeps its releases there
	} {
		p.Verb = "create"
		out = append(out, p)
	}
	return append(out, installation.Permission{Verb: "escalate", Group: rbac, Resource: "clusterroles"})
}
