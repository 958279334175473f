// Package kube is Kubernetes: caches read into a snapshot, and the targets that write to it.
package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// ShardIndex is the index of a cache by the shard that an object of ours belongs to.
const ShardIndex = "shard"

// Cluster is a cluster as the targets see it: written to directly, read from a cache.
type Cluster struct {
	api     client.Client // the API server itself, also where it is read
	reader  client.Reader
	indexed bool
	barrier *writeBarrier // nil: what was written is there to be read at once
	// missingKinds are the optional kinds that the API server does not have. A cache can't watch them.
	missingKinds  map[intent.Kind]bool
	progress      *progress                     // nil: nobody has watched
	contentCache  versionCache[string]          // of objects: the fields that we applied
	statusCache   versionCache[intent.Status]   // of statuses
	selectorCache versionCache[egressSelectors] // of EgressIPs: whom they select
}

// NewCluster is a cluster that is observed in a cache. The client must read from the API server and not from a cache.
// Call it before the cache is started: it adds indexes and handlers for every kind that is written.
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

// NewLiveCluster is a cluster that is observed without a cache: for one look, such as a plan printed by a command.
func NewLiveCluster(api client.Client) *Cluster {
	return &Cluster{api: api, reader: api, missingKinds: findMissingKinds(api)}
}

// findMissingKinds are the optional kinds that the API server does not have.
func findMissingKinds(api client.Client) map[intent.Kind]bool {
	out := map[intent.Kind]bool{}
	for _, kind := range optionalKinds {
		gvk := gvkByKind[kind]
		_, err := api.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		out[kind] = err != nil
	}
	return out
}

// availableKinds are the kinds of a list that the API server has.
func (c *Cluster) availableKinds(list []intent.Kind) []intent.Kind {
	return slices.DeleteFunc(slices.Clone(list), func(kind intent.Kind) bool { return c.missingKinds[kind] })
}

func indexByShard(o client.Object) []string {
	if shard := ownerShard(o); shard != "" {
		return []string{shard}
	}
	return nil
}

// LoadConfig is how to reach the API server: by a kubeconfig file; without one by $KUBECONFIG, the usual place, or the
// pod's own account.
func LoadConfig(file string) (*rest.Config, error) {
	config, _, err := LoadConfigContext(file, "")
	return config, err
}

// LoadConfigContext is the same by one of the contexts of the file, and says its name. Without a context it is the one
// in force; without a file the pod's own account, which has no name.
func LoadConfigContext(file, context string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	loading := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: context})
	config, err := loading.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", errors.New("there is no kubeconfig")
	}
	if err != nil {
		return nil, "", err
	}
	if raw, err := loading.RawConfig(); context == "" && err == nil {
		context = raw.CurrentContext
	}
	return config, context, nil
}

// CertificateExpiry is when the certificate ends with which we reach the API server; zero: we have none.
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

// forgetObject drops what is remembered of an object that is gone.
func (c *Cluster) forgetObject(o client.Object) {
	if key, err := KeyOf(o); err == nil {
		c.contentCache.evict(key)
		c.statusCache.evict(key)
		c.selectorCache.evict(key)
	}
}

// matchShard is the choice of a shard's objects: by index from a cache, where labels would be compared with those of
// every object of the kind, and by label from the API server, which has no such index.
func (c *Cluster) matchShard(shard string) []client.ListOption {
	if c.indexed {
		return []client.ListOption{client.MatchingFields{ShardIndex: shard}, client.UnsafeDisableDeepCopy}
	}
	return []client.ListOption{client.MatchingLabels(ownership.ManagedLabels(shard))}
}

// readObject gets an object as it was last observed. What it returns must not be changed: it may be the cache's own.
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

// KeyOf is the key of an object that was read.
func KeyOf(o client.Object) (intent.ObjectKey, error) {
	gvks, _, err := scheme.ObjectKinds(o)
	if err != nil {
		return intent.ObjectKey{}, err
	}
	return intent.ObjectKey{Kind: intent.Kind(gvks[0].Kind), Namespace: o.GetNamespace(), Name: o.GetName()}, nil
}

// Scheme is every kind that we read or write. Callers may not add to it.
func Scheme() *runtime.Scheme { return scheme }
