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

	"github.com/sallyport/sallyport/internal/intent"
)

// late is a cache with at most one Vpc.
type late struct {
	client.Reader
	vpc   atomic.Pointer[Vpc]
	reads chan struct{} // one for each look, as long as somebody reads
}

func (l *late) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
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

func vpcAt(version string) *Vpc {
	return &Vpc{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "1", ResourceVersion: version}}
}

func TestTargetWaitsUntilTheCacheShowsItsWrite(t *testing.T) {
	deleting := vpcAt("12")
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	key := intent.ObjectKey{Kind: intent.Vpc, Name: "v"}
	for name, k := range map[string]struct {
		awaited      mark
		before, then *Vpc
	}{
		"made":               {mark{key: key, version: "10"}, nil, vpcAt("10")},
		"changed":            {mark{key: key, version: "10"}, vpcAt("9"), vpcAt("11")},
		"gone":               {mark{key: key, uid: "1"}, vpcAt("9"), nil},
		"being deleted":      {mark{key: key, uid: "1"}, vpcAt("9"), deleting},
		"deleted and remade": {mark{key: key, uid: "0"}, deleting, vpcAt("9")},
	} {
		t.Run(name, func(t *testing.T) {
			store := &late{reads: make(chan struct{}, 100)}
			store.vpc.Store(k.before)
			c := &Cluster{reader: store, echo: &echo{waiting: map[intent.ObjectKey]chan struct{}{}}}
			began, done := time.Now(), make(chan struct{})
			go func() { c.settle(t.Context(), []mark{k.awaited}); close(done) }()
			<-store.reads
			store.vpc.Store(k.then)
			c.echo.heard(intent.Vpc, vpcAt("0"))
			<-done
			if took := time.Since(began); took >= patience {
				t.Errorf("waited %s: the event was not heard", took)
			}
		})
	}
}

func TestTargetDoesNotWaitForEver(t *testing.T) {
	store := &late{reads: make(chan struct{}, 100)}
	c := &Cluster{reader: store, echo: &echo{waiting: map[intent.ObjectKey]chan struct{}{}}}
	began := time.Now()
	c.settle(t.Context(), []mark{{key: intent.ObjectKey{Kind: intent.Vpc, Name: "v"}, version: "10"}})
	if took := time.Since(began); took < patience || took > 3*patience {
		t.Errorf("waited %s, want %s", took, patience)
	}
}
