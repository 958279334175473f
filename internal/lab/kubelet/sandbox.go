package kubelet

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

// sandbox is one pod on a real node: its namespace and everything that runs in it. It belongs to a pod's UID, not to
// its name.
type sandbox struct {
	k        *Kubelet
	pod      *corev1.Pod // as it was when the sandbox was made
	node     *member
	name     string // of the namespace, and the first part of the names of logs and processes
	attached []Attachment

	term      context.Context // ends when the pod is to end
	terminate context.CancelFunc
	cut       context.Context // ends when the power goes
	powerOff  context.CancelFunc
	done      chan struct{}
	left      []engine.Port // still in the node's switch after a power cut; set before done is closed

	mu    sync.Mutex
	ns    netns.NS
	hasNS bool
	seen  observation
	grace time.Duration
	log   *os.File

	stopping bool
}

// start makes the sandbox of a pod and sets it going.
func (k *Kubelet) start(pod *corev1.Pod, m *member, attached []Attachment) *sandbox {
	s := &sandbox{
		k: k, pod: pod, node: m, attached: attached, done: make(chan struct{}), name: pod.Name + "." + pod.Namespace,
	}
	s.cut, s.powerOff = context.WithCancel(k.ctx)
	s.term, s.terminate = context.WithCancel(s.cut)
	s.seen = pendingObservation(pod, m, "")
	key := nameOf(pod)
	k.mu.Lock()
	if len(k.sandboxes[key]) > 0 {
		s.name += "." + m.Name // a node that is cut off still runs an older pod of this name
	}
	k.sandboxes[key] = append(k.sandboxes[key], s)
	k.mu.Unlock()
	go s.run()
	return s
}

// run is the life of the pod.
func (s *sandbox) run() {
	defer s.finish()
	if s.connect() && s.runInit() {
		s.runContainers()
	}
}

func (s *sandbox) finish() {
	s.disconnect()
	s.mu.Lock()
	if s.log != nil {
		_ = s.log.Close()
	}
	s.mu.Unlock()
	s.powerOff()
	close(s.done)
	s.changed()
}

// stop ends the pod: programs at once, processes within grace. It does not wait. A preStop hook that sleeps comes
// first, as long as the grace allows.
func (s *sandbox) stop(grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return
	}
	sleep := min(preStop(s.pod), grace)
	s.stopping, s.grace = true, grace-sleep
	time.AfterFunc(sleep, s.terminate)
}

// preStop is how long the hooks of a pod sleep. Other hooks do not exist in a lab.
func preStop(pod *corev1.Pod) (longest time.Duration) {
	for _, c := range pod.Spec.Containers {
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
			longest = max(longest, time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second)
		}
	}
	return longest
}

// loseDueToPower ends the pod as a power cut does. The interfaces go down first: a machine without power sends no FIN.
func (s *sandbox) loseDueToPower() {
	if ns, ok := s.namespace(); ok && !s.pod.Spec.HostNetwork {
		for _, a := range s.attached {
			_ = ns.LinkDown(a.Interface) // it may not be plugged yet
		}
	}
	s.powerOff()
	<-s.done
}

// cutPods ends all pods of a node at once.
func (k *Kubelet) cutPods(m *member) {
	var all sync.WaitGroup
	ended := k.sandboxesOn(m)
	for _, s := range ended {
		all.Go(s.loseDueToPower)
	}
	all.Wait()
	for _, s := range ended {
		m.leftovers = append(m.leftovers, s.left...)
		k.drop(s)
	}
}

func (s *sandbox) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// changed has the pod's status looked at.
func (s *sandbox) changed() { s.k.podQueue.add(nameOf(s.pod)) }

func (s *sandbox) observe() observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.seen
	o.Init, o.Containers = slices.Clone(o.Init), slices.Clone(o.Containers)
	return o
}

func (s *sandbox) namespace() (netns.NS, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns, s.hasNS
}

// pause waits; false when the pod is to end meanwhile.
func (s *sandbox) pause(d time.Duration) bool {
	ctx, cancel := context.WithTimeout(s.term, d)
	defer cancel()
	<-ctx.Done()
	return s.term.Err() == nil
}

// output is where the built-in programs of the pod log to.
func (s *sandbox) output() (io.Writer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.k.Logs == "" {
		return io.Discard, nil
	}
	if s.log != nil {
		return s.log, nil
	}
	f, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of pod %s: %w", s.name, err)
	}
	s.log = f
	return f, nil
}

func (s *sandbox) logPath() string { return filepath.Join(s.k.Logs, s.name+".log") }

// forget removes logs and processes of a pod that is gone.
func (s *sandbox) forget() {
	if s.k.Logs != "" {
		_ = os.Remove(s.logPath()) // there is none when no program ran
	}
	for _, list := range [][]corev1.Container{s.pod.Spec.InitContainers, s.pod.Spec.Containers} {
		for _, c := range list {
			if len(c.Command) > 0 && s.k.Processes != nil {
				s.k.Processes.Forget(s.name + "." + c.Name)
			}
		}
	}
}
