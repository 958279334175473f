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
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// How long the API server may take: to say that it is there, and to send everything.
const (
	reachLimit = 5 * time.Second
	readLimit  = time.Minute
)

// Surveyor reads a whole cluster from the API server itself, and asks its nodes.
type Surveyor struct {
	api     client.WithWatch
	version discovery.ServerVersionInterface
	where   Namespaces
}

// NewSurveyor is one for a cluster whose platform runs in these namespaces.
func NewSurveyor(config *rest.Config, where Namespaces) (*Surveyor, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server has its own fairness
	config.Timeout = readLimit
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	quick := rest.CopyConfig(config)
	quick.Timeout = reachLimit
	version, err := discovery.NewDiscoveryClientForConfig(quick)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	return &Surveyor{api: api, version: version, where: where}, nil
}

// Cluster reads the objects of a cluster, and says what could not be read. Kinds that the API server does not have are empty.
func (s *Surveyor) Cluster(ctx context.Context, settings snapshot.Config) (survey.Cluster, []survey.Unread) {
	version, err := s.version.ServerVersion()
	if err != nil {
		return survey.Cluster{}, []survey.Unread{{System: survey.Kubernetes, Problem: err.Error()}}
	}
	all := everything{where: s.where}
	unread := s.read(ctx, &all)
	all.place()
	out := survey.Cluster{
		Version: version.GitVersion, Networks: all.readNetworks(settings), Subnets: all.readSubnets(), Vpcs: all.readVpcs(),
		Namespaces: all.readNamespaces(), Projects: all.readProjects(), EIps: all.readEIps(), FIps: all.readFIps(),
		Services: all.readServices(settings), Beside: all.readBeside(settings), EgressIPs: all.readEgressIPs(), EgressServices: all.readEgressServices(),
		EgressRoutes: all.readEgressRoutes(), NodePaths: all.readNodePaths(), Pods: all.readPods(), Nodes: all.readNodes(),
		OvnEips: all.readOvnEips(), Policies: all.readPolicies(), Leases: all.readLeases(), Events: all.readEvents(),
		Inspections: each(all.inspections.Items, func(o *kubedcv1alpha1.Inspection) survey.Object { return surveyed("Inspection", o, nil) }),
		Inside:      all.readInside(), Absent: all.absent,
	}
	all.readOptional(&out)
	return out, unread
}

// everything is all objects that a survey is made of.
type everything struct {
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
	slices         discoveryv1.EndpointSliceList
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
	ranges         networkingv1.ServiceCIDRList
	optional       []foreign // of the Gateway API

	where     Namespaces                   // of the platform
	absent    []string                     // kinds that are needed
	shards    map[string]string            // of namespaces
	externals map[string]snapshot.External // by subnet
}

// read reads all lists side by side.
func (s *Surveyor) read(ctx context.Context, all *everything) []survey.Unread {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	warnings := client.MatchingFields{"type": corev1.EventTypeWarning}
	reads := []func() error{
		s.lists(ctx, &all.networks), s.lists(ctx, &all.subnets), s.lists(ctx, &all.vlans), s.lists(ctx, &all.providers), s.lists(ctx, &all.vpcs),
		s.lists(ctx, &all.namespaces), s.lists(ctx, &all.projects), s.lists(ctx, &all.eips), s.lists(ctx, &all.fips),
		s.lists(ctx, &all.services), s.lists(ctx, &all.slices), s.lists(ctx, &all.egressIPs), s.lists(ctx, &all.egressServices),
		s.lists(ctx, &all.egressRoutes), s.lists(ctx, &all.nodePaths), s.lists(ctx, &all.pods), s.lists(ctx, &all.nodes),
		s.lists(ctx, &all.ovnEips), s.lists(ctx, &all.policies), s.lists(ctx, &all.leases), s.lists(ctx, &all.events, warnings),
		s.lists(ctx, &all.inspections),
	}
	all.optional = make([]foreign, len(foreigners))
	for i, kind := range foreigners {
		all.optional[i].kind = kind
		reads = append(reads, func() error { return s.listForeign(ctx, &all.optional[i]) })
	}
	reads = append(reads, func() error { // older API servers do not have them
		return ignoreAbsent(s.api.List(ctx, &all.ranges))
	})
	problems := make([]error, len(reads))
	var group sync.WaitGroup
	for i, read := range reads {
		group.Go(func() { problems[i] = read() })
	}
	group.Wait()
	var out []survey.Unread
	for _, err := range problems {
		var absent *meta.NoKindMatchError
		switch {
		case errors.As(err, &absent):
			all.absent = append(all.absent, absent.GroupKind.Kind)
		case err != nil:
			out = append(out, survey.Unread{System: survey.Kubernetes, Problem: err.Error()})
		}
	}
	slices.Sort(all.absent)
	return out
}

// lists reads a list.
func (s *Surveyor) lists(ctx context.Context, list client.ObjectList, by ...client.ListOption) func() error {
	return func() error { return s.api.List(ctx, list, by...) }
}

// ignoreAbsent is an error, unless it says that there is no such kind.
func ignoreAbsent(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// place says which shard decides about which namespace, and which subnets are external.
func (e *everything) place() {
	e.shards, e.externals = map[string]string{}, map[string]snapshot.External{}
	organizations := map[string]bool{}
	for i := range e.projects.Items {
		organizations[e.projects.Items[i].Namespace] = true
	}
	for i := range e.namespaces.Items {
		ns := &e.namespaces.Items[i]
		e.shards[ns.Name] = ns.Name
		if managed(ns) && !organizations[ns.Name] {
			e.shards[ns.Name] = kubeovn.ManagementVpc
		}
	}
	in := NewInputs("")
	for i := range e.networks.Items {
		in.Add(&e.networks.Items[i])
	}
	for i := range e.subnets.Items {
		in.Add(&e.subnets.Items[i])
	}
	for _, x := range in.readExternals() {
		e.externals[x.Subnet] = x
	}
}

// diversions is the shard that decides about EgressServices and EgressRoutes of a namespace.
func (e *everything) diversions(namespace string) string {
	if shard := e.shards[namespace]; shard != kubeovn.ManagementVpc {
		return shard
	}
	return ownership.NodesShard
}

// surveyed is what all objects have.
func surveyed(kind string, o metav1.Object, conditions []metav1.Condition) survey.Object {
	out := survey.Object{
		Ref: state.Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}, Created: utc(o.GetCreationTimestamp()),
		Deleting: o.GetDeletionTimestamp() != nil, Generation: o.GetGeneration(), Labels: o.GetLabels(),
	}
	for _, c := range conditions {
		out.Conditions = append(out.Conditions, survey.Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: utc(c.LastTransitionTime),
			Generation: c.ObservedGeneration,
		})
	}
	slices.SortStableFunc(out.Conditions, func(a, b survey.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return out
}

// utc is a time as it is written to a file and read back.
func utc(t metav1.Time) time.Time { return t.Time.Round(0).UTC() }

// each reads the items of a list, in the order of namespaces and names.
func each[I, V any, P interface {
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
