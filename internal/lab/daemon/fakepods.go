package daemon

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"golang.org/x/sync/errgroup"
)

// FakeNamespace holds the fake pods of a lab.
const FakeNamespace = "fake"

const fakeWriters = 16

// fakePods makes the fake pods, bound to the fake nodes in turn, and waits until all have an address and are ready.
func (d *Daemon) fakePods(ctx context.Context) error {
	want := d.config.Blueprint.FakePods
	if want == 0 {
		return nil
	}
	if err := d.objects.Namespace(ctx, FakeNamespace); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready, err := d.countReady(ctx, want)
	if err != nil {
		return err
	}
	nodes := d.config.Blueprint.FakeNodeList()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(fakeWriters)
	for i := range want {
		group.Go(func() error { return d.createFakePod(groupCtx, i, nodes[i%len(nodes)].Name) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %d fake pods: %w", want, context.Cause(ctx))
	}
}

func (d *Daemon) createFakePod(ctx context.Context, i int, node string) error {
	no := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("fake-%d", i),
			Namespace: FakeNamespace,
			Labels:    map[string]string{"app": "fake"},
			// Kube-OVN patches every waiting pod that has no annotation at all, every 20 seconds. Thousands of fake
			// pods wait.
			Annotations: map[string]string{"sallyport.lab/fake": "true"},
		},
		Spec: corev1.PodSpec{
			NodeName:                     node,
			AutomountServiceAccountToken: &no,
			Containers:                   []corev1.Container{{Name: "idle", Image: "lab/idle"}},
		},
	}
	if _, err := d.client.CoreV1().Pods(FakeNamespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make %s: %w", pod.Name, err)
	}
	return nil
}

// countReady closes the returned channel when want fake pods are ready.
func (d *Daemon) countReady(ctx context.Context, want int) (<-chan struct{}, error) {
	done := make(chan struct{})
	var count atomic.Int64
	factory := informers.NewSharedInformerFactoryWithOptions(d.client, 0, informers.WithNamespace(FakeNamespace),
		informers.WithTransform(onlyConditions))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if isReady(o) && count.Add(1) == int64(want) {
				close(done)
			}
		},
		UpdateFunc: func(old, o any) {
			if !isReady(old) && isReady(o) && count.Add(1) == int64(want) {
				close(done)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch fake pods: %w", err)
	}
	factory.StartWithContext(ctx)
	return done, nil
}

// onlyConditions keeps of a pod what is counted: fake pods come by the ten thousand.
func onlyConditions(o any) (any, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name:            pod.Name,
				Namespace:       pod.Namespace,
				UID:             pod.UID,
				ResourceVersion: pod.ResourceVersion,
			},
			Status: corev1.PodStatus{Conditions: pod.Status.Conditions},
		}, nil
	}
	return o, nil
}

func isReady(o any) bool {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
