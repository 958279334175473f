// Package kube is the Kubernetes side of the controller: it reads caches into a snapshot and writes objects.
// objects.
package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// ShardIndex is the cache index of managed objects by the shard that owns them.
const ShardIndex = "shard"

// Cluster is the cluster as the targets see it: writes go to the API server, reads come from a cache.
type Cluster struct {
	api     client.Client // the API server; some reads must bypass the cache
	reader  client.Reader
	indexed bool
	barrier *writeBarrier // nil: there is no cache, so writes are readable at once
	// missingKinds are the optional kinds that the API server does not serve. A cache cannot watch them.
	missingKinds map[intent.Kind]bool
	progress     *progress            // nil: there is no watch
	contentCache versionCache[string] // of objects: the fields that we applied
	// nodePathContents shares the contents of equal NodePaths.
	nodePathContents nodePathContents
	statusCache      versionCache[intent.Status]   // of statuses
	selectorCache    versionCache[egressSelectors] // of EgressIPs: their parsed selectors
	// egressIndex are the namespace selectors of EgressIPs, and egressEvents the events that keep it up to date; nil: there
	// is no watch.
	egressIndex  selectorIndex
	egressEvents atomic.Pointer[toolscache.ResourceEventHandlerRegistration]
	// managementSelected: in the last run of the management VPC, EgressIPs selected its pods.
	managementSelected atomic.Bool
}

// NewCluster returns a cluster that is observed through a cache. The client must read from the API server, not from a
// cache. Call it before the cache starts: it adds indexes and handlers for every kind that is written.
func NewCluster(ctx context.Context, api client.Client, c cache.Cache) (*Cluster, error) {
	cluster := &Cluster{
		api: api, reader: c, indexed: true, missingKinds: findMissingKinds(api), progress: newProgress(time.Now),
	}
	for _, kind := range cluster.availableKinds(appliedKinds) {
		object, err := newObject(kind)
		if err != nil {
			return nil, err
		}
		if err := c.IndexField(ctx, object, ShardIndex, indexByShard); err != nil {
			return nil, fmt.Errorf("index %s by shard: %w", kind, err)
		}
	}
	if err := addIndexes(ctx, c); err != nil {
		return nil, err
	}
	var err error
	cluster.barrier, err = newWriteBarrier(ctx, c, cluster.availableKinds(writtenKinds))
	return cluster, err
}

// NewLiveCluster returns a cluster that is observed without a cache, for single reads.
func NewLiveCluster(api client.Client) *Cluster {
	return &Cluster{api: api, reader: api, missingKinds: findMissingKinds(api)}
}

// findMissingKinds returns the optional kinds that the API server does not serve.
func findMissingKinds(api client.Client) map[intent.Kind]bool {
	out := map[intent.Kind]bool{}
	for _, kind := range optionalKinds {
		gvk := gvkByKind[kind]
		_, err := api.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		out[kind] = err != nil
	}
	return out
}

// availableKinds returns the kinds of a list that the API server serves.
func (c *Cluster) availableKinds(list []intent.Kind) []intent.Kind {
	return slices.DeleteFunc(slices.Clone(list), func(kind intent.Kind) bool { return c.missingKinds[kind] })
}

func indexByShard(o client.Object) []string {
	if shard := cmp.Or(ownerShard(o), offeredShard(o)); shard != "" {
		return []string{shard}
	}
	return nil
}

// LoadConfig returns the client configuration for the API server: from a kubeconfig file or, without one, from
// $KUBECONFIG, the default path or the service account of the pod.
func LoadConfig(file string) (*rest.Config, error) {
	config, _, err := LoadConfigContext(file, "")
	return config, err
}

// LoadConfigContext does the same for one context of the file, and returns the name of the context. An empty context
// selects the current context. The service account of a pod has no context name.
func LoadConfigContext(file, context string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	loading := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: context})
	config, err := loading.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", errors.New("no kubeconfig found")
	}
	if err != nil {
		return nil, "", err
	}
	if raw, err := loading.RawConfig(); context == "" && err == nil {
		context = raw.CurrentContext
	}
	return config, context, nil
}

// CertificateExpiry returns when our client certificate for the API server expires, or zero without a certificate.
func CertificateExpiry(config *rest.Config) time.Time {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil || len(config.CertData) == 0 {
		return time.Time{}
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil || pair.Leaf == nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter.UTC()
}

// forgetObject drops the cached values of a deleted object.
func (c *Cluster) forgetObject(o client.Object) {
	if key, err := KeyOf(o); err == nil {
		c.contentCache.evict(key)
		c.statusCache.evict(key)
		c.selectorCache.evict(key)
	}
}

// matchShard selects the objects of a shard. In a cache it uses the index, because a label selector is compared with
// every object of the kind. The API server has no such index, so there it uses labels.
func (c *Cluster) matchShard(shard string) []client.ListOption {
	if c.indexed {
		return []client.ListOption{client.MatchingFields{ShardIndex: shard}, client.UnsafeDisableDeepCopy}
	}
	return []client.ListOption{client.MatchingLabels(ownership.ManagedLabels(shard))}
}

// readObject gets an object as last observed. Callers must not modify it: it may be the cache's own copy.
func (c *Cluster) readObject(ctx context.Context, key intent.ObjectKey) (client.Object, error) {
	object, err := newObject(key.Kind)
	if err != nil {
		return nil, err
	}
	err = c.reader.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, object,
		client.UnsafeDisableDeepCopy)
	return object, err
}

func newObject(kind intent.Kind) (client.Object, error) {
	object, err := scheme.New(gvkByKind[kind])
	if err != nil {
		return nil, fmt.Errorf("kind %s: %w", kind, err)
	}
	return object.(client.Object), nil
}

func newList(kind intent.Kind) (client.ObjectList, error) {
	gvk := gvkByKind[kind]
	gvk.Kind += "List"
	list, err := scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("kind %s: %w", kind, err)
	}
	return list.(client.ObjectList), nil
}

// KeyOf returns the key of an object that was read.
func KeyOf(o client.Object) (intent.ObjectKey, error) {
	gvks, _, err := scheme.ObjectKinds(o)
	if err != nil {
		return intent.ObjectKey{}, err
	}
	return intent.ObjectKey{Kind: intent.Kind(gvks[0].Kind), Namespace: o.GetNamespace(), Name: o.GetName()}, nil
}

// Scheme returns every kind that we read or write. Callers must not add to it.
func Scheme() *runtime.Scheme { return scheme }
