package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Register makes or updates the Node, starts its heartbeat and begins to carry out its pods.
func (k *Kubelet) Register(ctx context.Context, n Node) error {
	want := nodeObject(n, k.Version, 0, time.Now())
	node, err := k.Client.CoreV1().Nodes().Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		node, err = k.adopt(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("register node %s: %w", n.Name, err)
	}
	if err := k.createLease(ctx, node); err != nil {
		return err
	}
	m := &member{Node: n}
	k.mu.Lock()
	known := k.members[n.Name] != nil
	if !known {
		k.members[n.Name] = m
	}
	k.mu.Unlock()
	if known {
		return fmt.Errorf("node %s is registered already", n.Name)
	}
	if err := k.serve(ctx, m); err != nil {
		return err
	}
	k.updateContact(m)
	k.wake(m)
	return nil
}

// adopt makes an existing Node ours: labels and annotations are added, others stay. Its status follows with the first
// report.
func (k *Kubelet) adopt(ctx context.Context, want *corev1.Node) (*corev1.Node, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels":      want.Labels,
		"annotations": want.Annotations,
	}})
	if err != nil {
		return nil, err
	}
	return k.Client.CoreV1().Nodes().Patch(ctx, want.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// createLease makes the node's Lease. The owner reference lets it go with its Node.
func (k *Kubelet) createLease(ctx context.Context, node *corev1.Node) error {
	seconds, now := max(1, int32(k.LeaseDuration/time.Second)), metav1.NowMicro() //nolint:gosec // a few seconds
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:            node.Name,
			Namespace:       corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	_, err := k.Client.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make lease of node %s: %w", node.Name, err)
	}
	return nil
}

// renewLease is one heartbeat; each asks for the next. The queue's one heap of due times serves any number of nodes.
func (k *Kubelet) renewLease(_ context.Context, node string) error {
	m := k.member(node)
	if m == nil {
		return nil
	}
	return m.inContact(func(ctx context.Context) error {
		if err := k.beat(ctx, node); err != nil {
			return fmt.Errorf("renew lease of node %s: %w", node, err)
		}
		k.leaseQueue.after(node, k.LeaseDuration/4)
		return nil
	})
}

func (k *Kubelet) beat(ctx context.Context, node string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"renewTime":      metav1.NowMicro(),
		"holderIdentity": node,
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, k.LeaseDuration)
	defer cancel()
	leases := k.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err = leases.Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	object, err := k.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return k.createLease(ctx, object)
}

// syncNode reports the node's status when it has changed or is old, and plugs the node's own interface.
func (k *Kubelet) syncNode(_ context.Context, name string) error {
	m := k.member(name)
	object, exists, err := k.nodes.GetStore().GetByKey(name)
	if m == nil || err != nil || !exists {
		return err
	}
	node, ok := object.(*corev1.Node)
	if !ok {
		return nil
	}
	return m.inContact(func(ctx context.Context) error {
		if err := k.reportNode(ctx, node, m); err != nil {
			return err
		}
		return k.joinNode(ctx, node, m)
	})
}

func (k *Kubelet) reportNode(ctx context.Context, node *corev1.Node, m *member) error {
	k.nodeQueue.after(node.Name, statusPeriod)
	status := nodeStatus(node.Status, m.Node, k.Version, m.boots, time.Now())
	if equality.Semantic.DeepEqual(node.Status, status) {
		return nil
	}
	patch, err := statusPatch(&corev1.Node{Status: node.Status}, &corev1.Node{Status: status}, corev1.Node{})
	if err != nil {
		return err
	}
	_, err = k.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("report status of node %s: %w", node.Name, err)
	}
	return nil
}

// statusPatch is the difference between two objects. A patch touches only what this node owns; an update would fight
// with every other writer of the object.
func statusPatch(before, after, kind any) ([]byte, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	wanted, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(old, wanted, kind)
	if err != nil {
		return nil, fmt.Errorf("compute status patch: %w", err)
	}
	return patch, nil
}
