// Package kubelet is the lab's nodes and pods in the Kubernetes API: it registers nodes, keeps their leases, and
// carries out the pods bound to them.
package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/proc"
	"github.com/sallyport/sallyport/internal/lab/program"
)

// Switch connects namespaces to a node's Open vSwitch.
type Switch interface {
	// Plug makes the port and returns when ovn-controller has installed it. A port of the same name that a dead node
	// left is replaced.
	Plug(ctx context.Context, ns netns.NS, port engine.Port) error
	// Unplug removes the port; a port that is not there is no error.
	Unplug(ctx context.Context, port engine.Port) error
}

// Node is one node of the lab.
type Node struct {
	blueprint.Node
	NS     netns.NS          // the node's own namespace
	Switch Switch            // nil: a fake node, whose pods send no packets
	Labels map[string]string // added to the defaults
}

// Config is what a Kubelet works with.
type Config struct {
	Client    kubernetes.Interface
	Processes *proc.Table                                // runs containers that have a command
	Programs  func(image string) (program.Program, bool) // runs containers that have none; default program.Lookup
	Images    func() []string                            // what Programs knows; default program.Images
	// directory; a built-in program logs to <pod>.<namespace>.log
	Logs          string
	LeaseDuration time.Duration  // default 40s; renewed at a quarter
	Version       string         // the Kubernetes version that nodes report
	Inside        []netip.Prefix // pods and Services: what nodes reach through OVN
	Log           *slog.Logger   // nil: silent
	TLS           *tls.Config    // of the server for the API server's requests; nil: there is none
}

const (
	podWorkers   = 32 // a worker waits for the API only, never for a pod
	nodeWorkers  = 8  // a worker may wait for ovn-controller
	leaseWorkers = 8
	byNode       = "node"
)

// Kubelet carries out the pods of all nodes of a lab.
type Kubelet struct {
	Config
	ctx    context.Context // ends with Run; what is started for a pod outlives the call that started it
	cancel context.CancelFunc

	informers informers.SharedInformerFactory
	pods      cache.SharedIndexInformer
	nodes     cache.SharedIndexInformer

	podQueue   *queue[types.NamespacedName]
	nodeQueue  *queue[string]
	leaseQueue *queue[string]

	mu      sync.Mutex
	members map[string]*member
	// newest last; more than one only while a cut-off node still runs an old pod
	sandboxes map[types.NamespacedName][]*sandbox
}

// New is a Kubelet without nodes.
func New(c Config) *Kubelet {
	if c.LeaseDuration == 0 {
		c.LeaseDuration = 40 * time.Second
	}
	if c.Version == "" {
		c.Version = "v1.35.4"
	}
	if c.Programs == nil {
		c.Programs, c.Images = program.Lookup, program.Images
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	k := &Kubelet{Config: c, members: map[string]*member{}, sandboxes: map[types.NamespacedName][]*sandbox{}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.informers = informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTransform(slim))
	k.pods = k.informers.Core().V1().Pods().Informer()
	k.nodes = k.informers.Core().V1().Nodes().Informer()
	k.podQueue = newQueue(podWorkers, k.syncPod)
	k.nodeQueue = newQueue(nodeWorkers, k.syncNode)
	k.leaseQueue = newQueue(leaseWorkers, k.renewLease)
	return k
}

// slim drops what nobody here reads: at tens of thousands of pods, managed fields are most of the memory. It leaves the
// object itself alone, which may still belong to its sender.
func slim(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		c := *o
		c.ManagedFields = nil
		return &c, nil
	case *corev1.Node:
		c := *o
		c.ManagedFields = nil
		return &c, nil
	}
	return object, nil
}

// Run works until ctx ends, and then ends every pod as a power cut would.
func (k *Kubelet) Run(ctx context.Context) error {
	defer k.cancel()
	if err := k.watch(); err != nil {
		return err
	}
	k.informers.StartWithContext(ctx)
	defer k.informers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), k.pods.HasSynced, k.nodes.HasSynced) {
		return fmt.Errorf("read pods and nodes: %w", ctx.Err())
	}
	var work sync.WaitGroup
	for _, q := range []interface {
		run(context.Context, *slog.Logger)
	}{k.podQueue, k.nodeQueue, k.leaseQueue} {
		work.Go(func() { q.run(ctx, k.Log) })
	}
	<-ctx.Done()
	k.cancel()
	work.Wait()
	for _, m := range k.allMembers() {
		k.cutPods(m)
	}
	return nil
}

// watch turns events into work.
func (k *Kubelet) watch() error {
	_, podErr := k.pods.AddEventHandler(handler(func(o any) {
		if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			k.podQueue.add(nameOf(pod))
		}
	}))
	_, nodeErr := k.nodes.AddEventHandler(handler(func(o any) {
		if node, ok := o.(*corev1.Node); ok && k.member(node.Name) != nil {
			k.nodeQueue.add(node.Name)
		}
	}))
	err := errors.Join(podErr, nodeErr, k.pods.AddIndexers(cache.Indexers{byNode: nodeOfPod}))
	if err != nil {
		return fmt.Errorf("watch pods and nodes: %w", err)
	}
	return nil
}

func handler(fn func(any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    fn,
		UpdateFunc: func(_, object any) { fn(object) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			fn(object)
		},
	}
}

func nodeOfPod(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil, nil
	}
	return []string{pod.Spec.NodeName}, nil
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// PodNS is the network namespace of a running pod; that of a hostNetwork pod is its node's.
func (k *Kubelet) PodNS(namespace, name string) (netns.NS, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.sandboxes[types.NamespacedName{Namespace: namespace, Name: name}]
	if len(list) == 0 {
		return netns.NS{}, false
	}
	return list[len(list)-1].namespace()
}
