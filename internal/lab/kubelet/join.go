package kubelet

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// joinNode plugs a node's own interface once Kube-OVN has allocated it.
func (k *Kubelet) joinNode(ctx context.Context, node *corev1.Node, m *member) error {
	if m.Switch == nil {
		return nil
	}
	want, ok, err := joinPort(node, k.Inside)
	if err != nil || !ok || (m.join != nil && reflect.DeepEqual(*m.join, want)) {
		return err
	}
	if m.join != nil {
		if err := m.Switch.Unplug(ctx, m.join.Port); err != nil {
			return fmt.Errorf("unplug %s of node %s: %w", nodeInterface, node.Name, err)
		}
		m.join = nil
	}
	if err := plug(ctx, m.Switch, m.NS, []Attachment{want}); err != nil {
		return fmt.Errorf("join node %s: %w", node.Name, err)
	}
	m.join = &want
	return nil
}
