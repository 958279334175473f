// Package event is Events on objects, a bounded number of them: whoever changes his objects all the time must not fill
// the API server.
package event

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How many Events an object, and all objects of a namespace together, may have at once, and after what time one more.
// What comes beyond that is dropped: the conditions of an object say how it is.
const (
	objectBurst          = 25
	objectRefillEvery    = 5 * time.Minute
	namespaceBurst       = 250
	namespaceRefillEvery = time.Second
)

// maxBuckets is how many budgets are remembered before those that are full again are forgotten.
const maxBuckets = 10_000

// Recorder records Events.
type Recorder struct {
	sink   events.EventRecorder
	scheme *runtime.Scheme
	clock  func() time.Time

	mu      sync.Mutex
	buckets map[string]tokenBucket
}

// tokenBucket is how much has been spent of a number of Events; it comes back with time.
type tokenBucket struct {
	used        float64
	updatedAt   time.Time
	refillEvery time.Duration
}

// New is a recorder of Events on objects of a scheme.
func New(to events.EventRecorder, scheme *runtime.Scheme, clock func() time.Time) *Recorder {
	return &Recorder{sink: to, scheme: scheme, clock: clock, buckets: map[string]tokenBucket{}}
}

// Record records an Event. The same reason on the same object again is one Event that counts: so the version of the
// object is not part of it.
func (r *Recorder) Record(about client.Object, kind, reason, action, message string) {
	ref, err := reference.GetReference(r.scheme, about)
	if err != nil || !r.allowEvent(ref.Namespace, string(ref.UID)) {
		return
	}
	ref.ResourceVersion = ""
	r.sink.Eventf(ref, nil, kind, reason, action, "%s", message)
}

// allowEvent spends one Event of an object's and of its namespace's budget, or says that there is none. One that its
// object can't have costs its namespace nothing.
func (r *Recorder) allowEvent(namespace, uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buckets) >= maxBuckets {
		r.dropFullBuckets()
	}
	return r.takeToken("object "+namespace+"/"+uid, objectBurst, objectRefillEvery) &&
		r.takeToken("namespace "+namespace, namespaceBurst, namespaceRefillEvery)
}

func (r *Recorder) takeToken(key string, most float64, every time.Duration) bool {
	now := r.clock()
	b := r.buckets[key]
	b.used = max(0, b.used-float64(now.Sub(b.updatedAt))/float64(every))
	b.updatedAt, b.refillEvery = now, every
	allowed := b.used+1 <= most
	if allowed {
		b.used++
	}
	r.buckets[key] = b
	return allowed
}

// dropFullBuckets forgets budgets of which nothing is spent any more, and all of them where that is none.
func (r *Recorder) dropFullBuckets() {
	now := r.clock()
	for key, b := range r.buckets {
		if float64(now.Sub(b.updatedAt))/float64(b.refillEvery) >= b.used {
			delete(r.buckets, key)
		}
	}
	if len(r.buckets) >= maxBuckets {
		for key, b := range r.buckets {
			if b.refillEvery == objectRefillEvery { // those of namespaces still hold
				delete(r.buckets, key)
			}
		}
	}
}
