// Package event is a recorder of Events with a rate limit: a user who changes objects all the time must not fill the
// API server.
package event

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Burst and refill interval of Events for one object, and for all objects of a namespace together. Events beyond the
// limit are dropped: the conditions of the object still show its state.
const (
	objectBurst          = 25
	objectRefillEvery    = 5 * time.Minute
	namespaceBurst       = 250
	namespaceRefillEvery = time.Second
)

// maxBuckets is how many buckets are kept before full ones are dropped.
const maxBuckets = 10_000

// Recorder records Events.
type Recorder struct {
	sink   events.EventRecorder
	scheme *runtime.Scheme
	clock  func() time.Time

	mu      sync.Mutex
	buckets map[string]tokenBucket
}

// tokenBucket counts used tokens; they are refilled over time.
type tokenBucket struct {
	used        float64
	updatedAt   time.Time
	refillEvery time.Duration
}

// New returns a recorder of Events on objects of a scheme.
func New(to events.EventRecorder, scheme *runtime.Scheme, clock func() time.Time) *Recorder {
	return &Recorder{sink: to, scheme: scheme, clock: clock, buckets: map[string]tokenBucket{}}
}

// Record records an Event. A repeated reason on the same object increases the count of one Event, so the reference does
// not include the version of the object.
func (r *Recorder) Record(about client.Object, kind, reason, action, message string) {
	ref, err := reference.GetReference(r.scheme, about)
	if err != nil || !r.allowEvent(ref.Namespace, string(ref.UID)) {
		return
	}
	ref.ResourceVersion = ""
	r.sink.Eventf(ref, nil, kind, reason, action, "%s", message)
}

// allowEvent takes one token from the buckets of the object and of its namespace, or reports that one of them has none.
// Then it takes none: an Event over the limit of its object does not count against the namespace, nor the other way round.
func (r *Recorder) allowEvent(namespace, uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buckets) >= maxBuckets {
		r.dropFullBuckets()
	}
	now := r.clock()
	object, all := "object "+namespace+"/"+uid, "namespace "+namespace
	ofObject := r.buckets[object].refill(now, objectRefillEvery)
	ofAll := r.buckets[all].refill(now, namespaceRefillEvery)
	allowed := ofObject.used+1 <= objectBurst && ofAll.used+1 <= namespaceBurst
	if allowed {
		ofObject.used++
		ofAll.used++
	}
	r.buckets[object], r.buckets[all] = ofObject, ofAll
	return allowed
}

// refill returns the bucket as it is now.
func (b tokenBucket) refill(now time.Time, every time.Duration) tokenBucket {
	used := max(0, b.used-float64(now.Sub(b.updatedAt))/float64(every))
	return tokenBucket{used: used, updatedAt: now, refillEvery: every}
}

// dropFullBuckets drops buckets that are full again or, if there are too few of those, all buckets of objects.
func (r *Recorder) dropFullBuckets() {
	now := r.clock()
	for key, b := range r.buckets {
		if float64(now.Sub(b.updatedAt))/float64(b.refillEvery) >= b.used {
			delete(r.buckets, key)
		}
	}
	if len(r.buckets) >= maxBuckets {
		for key, b := range r.buckets {
			if b.refillEvery == objectRefillEvery { // keep the buckets of namespaces
				delete(r.buckets, key)
			}
		}
	}
}
