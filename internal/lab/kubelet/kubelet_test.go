package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/proc"
	"github.com/sallyport/sallyport/internal/lab/program"
)

// lab is a running Kubelet on an API of memory.
type lab struct {
	*Kubelet
	t      *testing.T
	client *fake.Clientset
}

func newLab(t *testing.T) *lab {
	t.Helper()
	client := fake.NewClientset()
	checkUIDs(client)
	logs := t.TempDir()
	k := New(Config{
		Client: client, Processes: proc.NewTable(logs), Logs: logs, LeaseDuration: 200 * time.Millisecond,
		Programs: testProgram, Images: func() []string { return []string{"crash", "serve"} },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return &lab{Kubelet: k, t: t, client: client}
}

// checkUIDs has the API of memory refuse, as the real one does, what is meant for an earlier pod of the same name.
func checkUIDs(client *fake.Clientset) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	refuse := func(namespace, name string, uid types.UID) (bool, error) {
		object, err := client.Tracker().Get(pods, namespace, name)
		if pod, ok := object.(*corev1.Pod); err == nil && ok && uid != "" && pod.UID != uid {
			return true, apierrors.NewConflict(pods.GroupResource(), name, errors.New("another UID"))
		}
		return false, nil
	}
	client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		d, ok := a.(clienttesting.DeleteActionImpl)
		if !ok || d.DeleteOptions.Preconditions == nil {
			return false, nil, nil
		}
		handled, err := refuse(d.Namespace, d.Name, *d.DeleteOptions.Preconditions.UID)
		return handled, nil, err
	})
	client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		p, ok := a.(clienttesting.PatchActionImpl)
		var body metav1.PartialObjectMetadata
		if !ok || json.Unmarshal(p.Patch, &body) != nil {
			return false, nil, nil
		}
		handled, err := refuse(p.Namespace, p.Name, body.UID)
		return handled, nil, err
	})
}

func testProgram(image string) (program.Program, bool) {
	switch image {
	case "serve":
		return func(ctx context.Context, n program.Net, spec program.Spec) error {
			l, err := n.Listen(ctx, "tcp", spec.Env["LISTEN"])
			if err != nil {
				return err
			}
			<-ctx.Done()
			return l.Close()
		}, true
	case "crash":
		return func(context.Context, program.Net, program.Spec) error { panic("as told") }, true
	case "idle":
		return func(ctx context.Context, _ program.Net, _ program.Spec) error { <-ctx.Done(); return ctx.Err() }, true
	case "finish":
		return func(context.Context, program.Net, program.Spec) error { return nil }, true
	}
	return nil, false
}

func nodeNamed(name string) blueprint.Node {
	return blueprint.Node{Name: name, Management: netip.MustParsePrefix("127.0.0.1/8")}
}

func (l *lab) register(n Node) {
	l.t.Helper()
	if err := l.Register(l.t.Context(), n); err != nil {
		l.t.Fatal(err)
	}
}

// pod makes a pod that the scheduler has bound to node.
func (l *lab) pod(node string, change func(*corev1.Pod)) *corev1.Pod {
	l.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:      "web",
			Namespace: "shop",
			UID:       types.UID(fmt.Sprintf("uid-%d", time.Now().UnixNano())),
		},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Image: "idle"}},
		},
	}
	if change != nil {
		change(pod)
	}
	made, err := l.client.CoreV1().Pods(pod.Namespace).Create(l.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return made
}

func (l *lab) edit(change func(*corev1.Pod)) {
	l.t.Helper()
	pod, err := l.client.CoreV1().Pods("shop").Get(l.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	change(pod)
	if _, err := l.client.CoreV1().Pods("shop").Update(l.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// delete asks for the pod's end, as `kubectl delete` does.
func (l *lab) delete() {
	l.t.Helper()
	l.edit(func(p *corev1.Pod) {
		now, grace := metav1.Now(), int64(5)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	})
}

// await reads, and then watches, until an object is as wanted. A nil object stands for one that is gone.
func await[T runtime.Object](t *testing.T, what string, w func(metav1.ListOptions) (watch.Interface, error),
	get func() (T, error), ok func(T, bool) bool,
) T {
	t.Helper()
	events, err := w(metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		object, err := get()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if ok(object, err == nil) {
			return object
		}
		select {
		case <-events.ResultChan():
		case <-ctx.Done():
			t.Fatalf("%s does not come true; it is %+v", what, object)
		}
	}
}

func (l *lab) awaitPod(what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	l.t.Helper()
	pods := l.client.CoreV1().Pods("shop")
	return await(l.t, what,
		func(o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(l.t.Context(), o) },
		func() (*corev1.Pod, error) { return pods.Get(l.t.Context(), "web", metav1.GetOptions{}) },
		func(p *corev1.Pod, there bool) bool { return there && ok(p) })
}

func (l *lab) awaitGone(uid types.UID) {
	l.t.Helper()
	pods := l.client.CoreV1().Pods("shop")
	await(l.t, "the pod is gone",
		func(o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(l.t.Context(), o) },
		func() (*corev1.Pod, error) { return pods.Get(l.t.Context(), "web", metav1.GetOptions{}) },
		func(p *corev1.Pod, there bool) bool { return !there || p.UID != uid })
}

// awaitBeat waits until the node's lease was renewed after t.
func (l *lab) awaitBeat(node string, after time.Time) time.Time {
	l.t.Helper()
	leases := l.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease := await(l.t, "lease of "+node+" is renewed",
		func(o metav1.ListOptions) (watch.Interface, error) { return leases.Watch(l.t.Context(), o) },
		func() (*coordinationv1.Lease, error) { return leases.Get(l.t.Context(), node, metav1.GetOptions{}) },
		func(lease *coordinationv1.Lease, there bool) bool { return there && lease.Spec.RenewTime.After(after) })
	return lease.Spec.RenewTime.Time
}

func isReady(p *corev1.Pod) bool {
	c := conditionNamed(p.Status.Conditions, corev1.PodReady)
	return p.Status.Phase == corev1.PodRunning && c != nil && c.Status == corev1.ConditionTrue
}

func restartsOf(p *corev1.Pod) int32 {
	if len(p.Status.ContainerStatuses) == 0 {
		return -1
	}
	return p.Status.ContainerStatuses[0].RestartCount
}
