// Package event is Events on objects, a bounded number of them: whoever changes his objects all the time must not fill the API server.
package event

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How many Events an object, and all objects of a namespace together, may have at once, and after what time one more. What comes beyond that is
// dropped: the conditions of an object say how it is.
const (
	perObject      = 25
	objectEvery    = 5 * time.Minute
	perNamespace   = 250
	namespaceEvery = time.Second
)

// kept is how many budgets are remembered before those that are full again are forgotten.
const kept = 10_000

// Recorder records Events.
type Recorder struct {
	to     events.EventRecorder
	scheme *runtime.Scheme
	clock  func() time.Time

	mu      sync.Mutex
	budgets map[string]budget
}

// budget is how much has been spent of a number of Events; it comes back with time.
type budget struct {
	spent float64
	at    time.Time
	every time.Duration
}

// New is a recorder of Events on objects of a scheme.
func New(to events.EventRecorder, scheme *runtime.Scheme, clock func() time.Time) *Recorder {
	return &Recorder{to: to, scheme: scheme, clock: clock, budgets: map[string]budget{}}
}

// Record records an Event. The same reason on the same object again is one Event that counts: so the version of the object is not part of it.
func (r *Recorder) Record(about client.Object, kind, reason, action, message string) {
	ref, err := reference.GetReference(r.scheme, about)
	if err != nil || !r.afford(ref.Namespace, string(ref.UID)) {
		return
	}
	ref.ResourceVersion = ""
	r.to.Eventf(ref, nil, kind, reason, action, "%s", message)
}

// afford spends one Event of an object's and of its namespace's budget, or says that there is none. One that its object can't have costs its
// namespace nothing.
func (r *Recorder) afford(namespace, uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.budgets) >= kept {
		r.forget()
	}
	return r.spend("object "+namespace+"/"+uid, perObject, objectEvery) && r.spend("namespace "+namespace, perNamespace, namespaceEvery)
}

func (r *Recorder) spend(key string, most float64, every time.Duration) bool {
	now := r.clock()
	b := r.budgets[key]
	b.spent = max(0, b.spent-float64(now.Sub(b.at))/float64(every))
	b.at, b.every = now, every
	allowed := b.spent+1 <= most
	if allowed {
		b.spent++
	}
	r.budgets[key] = b
	return allowed
}

// forget forgets budgets of which nothing is spent any more, and all of them where that is none.
func (r *Recorder) forget() {
	now := r.clock()
	for key, b := range r.budgets {
		if float64(now.Sub(b.at))/float64(b.every) >= b.spent {
			delete(r.budgets, key)
		}
	}
	if len(r.budgets) >= kept {
		for key, b := range r.budgets {
			if b.every == objectEvery { // those of namespaces still hold
				delete(r.budgets, key)
			}
		}
	}
}
