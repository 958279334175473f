package kube

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// laggingCache is a cache with at most one Vpc.
type laggingCache struct {
	client.Reader
	vpc   atomic.Pointer[Vpc]
	reads chan struct{} // one for each read, while someone receives
}

func (l *laggingCache) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	defer func() {
		select {
		case l.reads <- struct{}{}:
		default:
		}
	}()
	vpc := l.vpc.Load()
	if vpc == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "vpcs"}, key.Name)
	}
	*out.(*Vpc) = *vpc
	return nil
}

func vpcAtVersion(version string) *Vpc {
	return &Vpc{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "1", ResourceVersion: version}}
}

func TestTargetWaitsUntilTheCacheShowsItsWrite(t *testing.T) {
	deleting := vpcAtVersion("12")
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	key := intent.ObjectKey{Kind: intent.Vpc, Name: "v"}
	for name, k := range map[string]struct {
		awaited      pendingWrite
		before, then *Vpc
	}{
		"made":               {pendingWrite{key: key, version: "10"}, nil, vpcAtVersion("10")},
		"changed":            {pendingWrite{key: key, version: "10"}, vpcAtVersion("9"), vpcAtVersion("11")},
		"gone":               {pendingWrite{key: key, uid: "1"}, vpcAtVersion("9"), nil},
		"being deleted":      {pendingWrite{key: key, uid: "1"}, vpcAtVersion("9"), deleting},
		"deleted and remade": {pendingWrite{key: key, uid: "0"}, deleting, vpcAtVersion("9")},
	} {
		t.Run(name, func(t *testing.T) {
			store := &laggingCache{reads: make(chan struct{}, 100)}
			store.vpc.Store(k.before)
			c := &Cluster{reader: store, barrier: &writeBarrier{waiters: map[intent.ObjectKey]chan struct{}{}}}
			began, done := time.Now(), make(chan struct{})
			go func() { c.waitForCache(t.Context(), []pendingWrite{k.awaited}); close(done) }()
			<-store.reads
			store.vpc.Store(k.then)
			c.barrier.notifyWaiters(intent.Vpc, vpcAtVersion("0"))
			<-done
			if took := time.Since(began); took >= cacheSyncTimeout {
				t.Errorf("waited %s: the event was not heard", took)
			}
		})
	}
}

func TestTargetDoesNotWaitForEver(t *testing.T) {
	store := &laggingCache{reads: make(chan struct{}, 100)}
	c := &Cluster{reader: store, barrier: &writeBarrier{waiters: map[intent.ObjectKey]chan struct{}{}}}
	began := time.Now()
	c.waitForCache(t.Context(), []pendingWrite{{key: intent.ObjectKey{Kind: intent.Vpc, Name: "v"}, version: "10"}})
	if took := time.Since(began); took < cacheSyncTimeout || took > 3*cacheSyncTimeout {
		t.Errorf("waited %s, want %s", took, cacheSyncTimeout)
	}
}
