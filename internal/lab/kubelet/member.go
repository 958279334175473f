package kubelet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/internal/lab/engine"
)

// member is a registered node and its state of health.
type member struct {
	Node
	faults sync.Mutex // one Kill, Silence or Restart at a time

	// contact is held for reading while the node talks to the API. Whoever takes contact away waits for that to end, so
	// nothing is reported after Kill or Silence has returned.
	contact sync.RWMutex
	api     context.Context // nil without contact

	// Guarded by Kubelet.mu.
	hangUp context.CancelFunc
	dead   bool
	silent bool

	// Read in contact, written without it; join is also written by the one worker that looks after the node.
	booted    time.Time // zero for the first boot
	boots     int
	join      *Attachment   // the node's own interface, once plugged
	leftovers []engine.Port // ports of pods that ended with the node
}

// inContact runs fn with a context that ends when the node loses contact; without contact it does nothing.
func (m *member) inContact(fn func(context.Context) error) error {
	m.contact.RLock()
	defer m.contact.RUnlock()
	if m.api == nil {
		return nil
	}
	err := fn(m.api)
	if m.api.Err() != nil {
		return nil // cut off in the middle: contact regained starts anew
	}
	return err
}

// Kill is a power cut: the node's heartbeat stops, its pods end at once and nothing is reported any more.
func (k *Kubelet) Kill(node string) error {
	m, err := k.mustMember(node)
	if err != nil {
		return err
	}
	m.faults.Lock()
	defer m.faults.Unlock()
	k.mu.Lock()
	m.dead = true
	k.mu.Unlock()
	k.updateContact(m)
	k.cutPods(m)
	return nil
}

// Silence cuts the node off from the API, or reconnects it. While it is cut off its pods go on running, and it hears of
// no new pod and of no deletion. When it is back it reports what is true.
func (k *Kubelet) Silence(node string, on bool) error {
	m, err := k.mustMember(node)
	if err != nil {
		return err
	}
	m.faults.Lock()
	defer m.faults.Unlock()
	k.mu.Lock()
	m.silent = on
	k.mu.Unlock()
	k.updateContact(m)
	if !on {
		k.wake(m)
	}
	return nil
}

// Restart boots a node that was killed: its heartbeat resumes and its pods are started anew. Its Open vSwitch must be
// up.
func (k *Kubelet) Restart(ctx context.Context, node string) error {
	m, err := k.mustMember(node)
	if err != nil {
		return err
	}
	m.faults.Lock()
	defer m.faults.Unlock()
	if !k.isDead(m) {
		return fmt.Errorf("node %s has not been killed", node)
	}
	if m.join != nil {
		m.leftovers = append(m.leftovers, m.join.Port)
	}
	for _, port := range m.leftovers {
		if err := m.Switch.Unplug(ctx, port); err != nil {
			return fmt.Errorf("clear port %s of node %s: %w", port.LogicalPort, node, err)
		}
	}
	m.join, m.leftovers = nil, nil
	m.booted, m.boots = time.Now(), m.boots+1
	k.mu.Lock()
	m.dead = false
	k.mu.Unlock()
	k.updateContact(m)
	k.wake(m)
	return nil
}

func (k *Kubelet) isDead(m *member) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return m.dead
}

// updateContact gives the node contact with the API, or takes it, as its state of health wants it.
func (k *Kubelet) updateContact(m *member) {
	k.mu.Lock()
	reachable := !m.dead && !m.silent
	if m.hangUp != nil && !reachable {
		m.hangUp()
	}
	k.mu.Unlock()
	m.contact.Lock()
	defer m.contact.Unlock()
	switch {
	case !reachable:
		m.api = nil
	case m.api == nil:
		ctx, cancel := context.WithCancel(k.ctx)
		k.mu.Lock()
		m.api, m.hangUp = ctx, cancel
		k.mu.Unlock()
	}
}

// wake looks at everything that the node has to do with.
func (k *Kubelet) wake(m *member) {
	k.leaseQueue.add(m.Name)
	k.nodeQueue.add(m.Name)
	// the index is there, or Run has not begun and there are no pods
	pods, _ := k.pods.GetIndexer().ByIndex(byNode, m.Name)
	for _, o := range pods {
		if pod, ok := o.(*corev1.Pod); ok {
			k.podQueue.add(nameOf(pod))
		}
	}
	for _, s := range k.sandboxesOn(m) {
		k.podQueue.add(nameOf(s.pod))
	}
}

func (k *Kubelet) member(node string) *member {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.members[node]
}

func (k *Kubelet) mustMember(node string) (*member, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.members[node]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("no node %q; there are: %s", node, strings.Join(sortedKeys(k.members), ", "))
}

func (k *Kubelet) allMembers() []*member {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*member, 0, len(k.members))
	for _, name := range sortedKeys(k.members) {
		out = append(out, k.members[name])
	}
	return out
}
