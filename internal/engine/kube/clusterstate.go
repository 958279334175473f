package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Time limits for the API server: for a first response, and for sending everything.
const (
	connectTimeout = 5 * time.Second
	readTimeout    = time.Minute
)

// ClusterReader reads the state of a whole cluster directly from the API server, and queries its nodes.
type ClusterReader struct {
	api      client.WithWatch
	version  discovery.ServerVersionInterface
	platform Namespaces
}

// NewClusterReader returns a reader for a cluster whose platform runs in these namespaces.
func NewClusterReader(config *rest.Config, where Namespaces) (*ClusterReader, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // no client-side limit: the API server has priority and fairness
	config.Timeout = readTimeout
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	quick := rest.CopyConfig(config)
	quick.Timeout = connectTimeout
	version, err := discovery.NewDiscoveryClientForConfig(quick)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	return &ClusterReader{api: api, version: version, platform: where}, nil
}

// ReadCluster reads the objects of a cluster and returns what could not be read. Kinds that the API server does not
// serve are empty.
func (s *ClusterReader) ReadCluster(ctx context.Context, settings snapshot.Config) (clusterstate.Cluster,
	[]clusterstate.ReadFailure,
) {
	version, err := s.version.ServerVersion()
	if err != nil {
		return clusterstate.Cluster{}, []clusterstate.ReadFailure{{System: clusterstate.Kubernetes, Problem: err.Error()}}
	}
	all := clusterDump{platform: s.platform}
	unread := s.readLists(ctx, &all)
	all.resolveShards()
	out := clusterstate.Cluster{
		Version: version.GitVersion, KubeOVN: all.engineVersion,
		Networks: all.readNetworks(settings), Subnets: all.readSubnets(), Vpcs: all.readVpcs(),
		Namespaces: all.readNamespaces(), Projects: all.readProjects(), EIps: all.readEIps(), FIps: all.readFIps(),
		Services: all.readServices(settings), Beside: all.readCompanionServices(settings),
		EgressIPs: all.readEgressIPs(), EgressServices: all.readEgressServices(),
		EgressRoutes: all.readEgressRoutes(), NodePaths: all.readNodePaths(), Pods: all.readPods(),
		Nodes:   all.readNodes(),
		OvnEips: all.readOvnEips(), Policies: all.readNetworkPolicies(), Leases: all.readLeases(),
		Events: all.readEvents(),
		Inspections: readSorted(all.inspections.Items, func(o *kubedcv1alpha1.Inspection) clusterstate.Object {
			return readObjectMeta("Inspection", o, nil)
		}),
		Inside: all.readServiceCIDRs(), Absent: all.missingKinds,
	}
	all.readGatewayObjects(&out)
	return out, unread
}

// clusterDump holds all objects that a survey is built from.
type clusterDump struct {
	networks       kubedcv1alpha1.ExternalNetworkList
	subnets        SubnetList
	vlans          VlanList
	providers      ProviderNetworkList
	vpcs           VpcList
	namespaces     corev1.NamespaceList
	projects       kubedcv1.ProjectList
	eips           kubedcv1.EIpList
	fips           kubedcv1.FIpList
	services       corev1.ServiceList
	endpointSlices discoveryv1.EndpointSliceList
	egressIPs      ovnv1.EgressIPList
	egressServices ovnv1.EgressServiceList
	egressRoutes   kubedcv1alpha1.EgressRouteList
	nodePaths      kubedcv1alpha1.NodePathList
	pods           corev1.PodList
	nodes          corev1.NodeList
	ovnEips        OvnEipList
	policies       networkingv1.NetworkPolicyList
	leases         coordinationv1.LeaseList
	events         corev1.EventList
	inspections    kubedcv1alpha1.InspectionList
	serviceCIDRs   networkingv1.ServiceCIDRList
	gatewayLists   []gatewayList // of the Gateway API

	engineVersion string // of Kube-OVN; empty: unknown
	platform      Namespaces
	missingKinds  []string                           // kinds that are needed but not served
	shards        map[string]string                  // by namespace
	externals     map[string]snapshot.ExternalSubnet // by subnet
}

// readLists reads all lists in parallel.
func (s *ClusterReader) readLists(ctx context.Context, all *clusterDump) []clusterstate.ReadFailure {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	warnings := client.MatchingFields{"type": corev1.EventTypeWarning}
	reads := []func() error{
		s.listFunc(ctx, &all.networks), s.listFunc(ctx, &all.subnets), s.listFunc(ctx, &all.vlans),
		s.listFunc(ctx, &all.providers), s.listFunc(ctx, &all.vpcs),
		s.listFunc(ctx, &all.namespaces), s.listFunc(ctx, &all.projects), s.listFunc(ctx, &all.eips),
		s.listFunc(ctx, &all.fips),
		s.listFunc(ctx, &all.services), s.listFunc(ctx, &all.endpointSlices), s.listFunc(ctx, &all.egressIPs),
		s.listFunc(ctx, &all.egressServices),
		s.listFunc(ctx, &all.egressRoutes), s.listFunc(ctx, &all.nodePaths), s.listFunc(ctx, &all.pods),
		s.listFunc(ctx, &all.nodes),
		s.listFunc(ctx, &all.ovnEips), s.listFunc(ctx, &all.policies), s.listFunc(ctx, &all.leases),
		s.listFunc(ctx, &all.events, warnings),
		s.listFunc(ctx, &all.inspections),
	}
	all.gatewayLists = make([]gatewayList, len(gatewayKinds))
	for i, kind := range gatewayKinds {
		all.gatewayLists[i].kind = kind
		reads = append(reads, func() error { return s.listGatewayObjects(ctx, &all.gatewayLists[i]) })
	}
	reads = append(reads, func() error { // older API servers do not serve them
		return ignoreMissingKind(s.api.List(ctx, &all.serviceCIDRs))
	})
	reads = append(reads, func() error {
		engine := client.ObjectKey{Namespace: s.platform.KubeOVN, Name: kubeOVNName}
		all.engineVersion = readEngineVersion(ctx, s.api, engine)
		return nil
	})
	problems := make([]error, len(reads))
	var group sync.WaitGroup
	for i, read := range reads {
		group.Go(func() { problems[i] = read() })
	}
	group.Wait()
	var out []clusterstate.ReadFailure
	for _, err := range problems {
		var absent *meta.NoKindMatchError
		switch {
		case errors.As(err, &absent):
			all.missingKinds = append(all.missingKinds, absent.GroupKind.Kind)
		case err != nil:
			out = append(out, clusterstate.ReadFailure{System: clusterstate.Kubernetes, Problem: err.Error()})
		}
	}
	slices.Sort(all.missingKinds)
	return out
}

func (s *ClusterReader) listFunc(ctx context.Context, list client.ObjectList, by ...client.ListOption) func() error {
	return func() error { return s.api.List(ctx, list, by...) }
}

// ignoreMissingKind returns the error unless it means that the kind is not served.
func ignoreMissingKind(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// resolveShards determines the shard of each namespace, and the external subnets.
func (e *clusterDump) resolveShards() {
	e.shards, e.externals = map[string]string{}, map[string]snapshot.ExternalSubnet{}
	organizations := map[string]bool{}
	for i := range e.projects.Items {
		organizations[e.projects.Items[i].Namespace] = true
	}
	subnets := map[string]*Subnet{}
	for i := range e.subnets.Items {
		subnets[e.subnets.Items[i].Name] = &e.subnets.Items[i]
	}
	for i := range e.namespaces.Items {
		ns := &e.namespaces.Items[i]
		e.shards[ns.Name] = ns.Name
		if isManagementNamespace(ns, subnets[podSubnet(ns)]) && !organizations[ns.Name] {
			e.shards[ns.Name] = kubeovn.ManagementVpc
		}
	}
	in := NewInputs(shard.Shard{})
	for i := range e.networks.Items {
		in.Add(&e.networks.Items[i])
	}
	for i := range e.subnets.Items {
		in.Add(&e.subnets.Items[i])
	}
	for _, x := range in.readExternalSubnets() {
		e.externals[x.Subnet] = x
	}
}

// shardOfEgressPolicies returns the shard that decides about EgressServices and EgressRoutes of a namespace.
func (e *clusterDump) shardOfEgressPolicies(namespace string) string {
	if shard := e.shards[namespace]; shard != kubeovn.ManagementVpc {
		return shard
	}
	return ownership.NodesShard
}

// readObjectMeta reads what all objects have in common.
func readObjectMeta(kind string, o metav1.Object, conditions []metav1.Condition) clusterstate.Object {
	out := clusterstate.Object{
		Ref:      state.Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()},
		Created:  toUTC(o.GetCreationTimestamp()),
		Deleting: o.GetDeletionTimestamp() != nil, Generation: o.GetGeneration(), Labels: o.GetLabels(),
	}
	for _, c := range conditions {
		out.Conditions = append(out.Conditions, clusterstate.Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message,
			Since:      toUTC(c.LastTransitionTime),
			Generation: c.ObservedGeneration,
		})
	}
	slices.SortStableFunc(out.Conditions, func(a, b clusterstate.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return out
}

// toUTC returns a time that is unchanged after writing it to a file and reading it back.
func toUTC(t metav1.Time) time.Time { return t.Time.Round(0).UTC() }

// readSorted reads the items of a list, sorted by namespace and name.
func readSorted[I, V any, P interface {
	*I
	metav1.Object
}](items []I, read func(P) V,
) []V {
	var objects []P
	for i := range items {
		objects = append(objects, &items[i])
	}
	slices.SortStableFunc(objects, func(a, b P) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	var out []V
	for _, o := range objects {
		out = append(out, read(o))
	}
	return out
}
