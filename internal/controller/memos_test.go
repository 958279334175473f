package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

func endpointsEvent(of shard.Shard, service string) kube.Event {
	return kube.Event{
		Shard: of, Kind: string(intent.EndpointSlice),
		Object: intent.ObjectKey{Kind: intent.Service, Namespace: of.Name, Name: service},
	}
}

func podEvent(of shard.Shard, i int) kube.Event {
	return kube.Event{
		Shard: of, Kind: string(kube.Pod),
		Object: intent.ObjectKey{Kind: kube.Pod, Namespace: "crowd", Name: fmt.Sprint(i)},
	}
}

// The memo of the management VPC is kept although an object waits, but not while a status is held back. That of a
// project is not.
func TestMemoOfPodsIsKept(t *testing.T) {
	now := time.Unix(1000, 0)
	waiting := []intent.Verdict{{Waiting: intent.Finding{Reason: intent.Programming}}}
	for name, test := range map[string]struct {
		of     shard.Shard
		change func(*Work)
		again  time.Duration
		kept   bool
	}{
		"at rest":                     {shard.Named(kubeovn.ManagementVpc), func(*Work) {}, 0, true},
		"an object waits":             {shard.Named(kubeovn.ManagementVpc), func(w *Work) { w.Verdicts = waiting }, time.Second, true},
		"a status is held back":       {shard.Named(kubeovn.ManagementVpc), func(w *Work) { w.statusDue = 1 }, time.Second, false},
		"objects are written":         {shard.Named(kubeovn.ManagementVpc), func(w *Work) { w.wroteObjects = true }, 0, false},
		"an object waits, no pods":    {shard.Named("acme"), func(w *Work) { w.pods = nil }, time.Second, false},
		"nothing waits, and no pods ": {shard.Named("acme"), func(w *Work) { w.pods = nil }, 0, true},
	} {
		s := &Reconciler{Clock: func() time.Time { return now }, NB: &ovn.Client{}}
		_, _, memo := compile.ShardWithMemo(podsFixture())
		work := &Work{memo: memo, pods: &kube.EgressPodReader{}}
		test.change(work)
		if !s.keepMemos(test.of, work, test.again) {
			t.Errorf("%s: the shard runs again", name)
		}
		stored, kept := s.memos.take(test.of, now)
		if kept != test.kept || kept && (stored.pods != work.pods || stored.isWaiting != work.isWaiting()) {
			t.Errorf("%s: kept is %t, %+v", name, kept, stored)
		}
	}
}

// podsFixture returns the management VPC with a pod that an EgressIP selects.
func podsFixture() *snapshot.VpcInput {
	a := netip.MustParseAddr("10.16.0.2")
	w := &snapshot.VpcInput{
		Shard:        kubeovn.ManagementVpc,
		Management:   &snapshot.Management{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.16.0.0/16")}},
		Selections:   []snapshot.Selection{{EgressIP: "mail", Pods: []netip.Addr{a}}},
		PodAddresses: []netip.Addr{a},
		EgressPods: snapshot.NewEgressPods(snapshot.EgressPod{
			Namespace: "mail", Name: "a", Ports: []netip.Addr{a}, Runs: true, InSelected: true, EgressIPs: []string{"mail"},
		}),
	}
	w.Engine.Vpc.Exists, w.Engine.RouterPorts = true, map[string]bool{"ovn-cluster-ovn-default": true}
	return w
}

// Only a shard of which nothing but endpoints changed is updated.
func TestChangeLog(t *testing.T) {
	of, anything := shard.Named("acme"), kube.Event{Shard: shard.Named("acme"), Kind: "Service"}
	a, b := endpointsEvent(of, "a"), endpointsEvent(of, "b")
	for name, test := range map[string]struct {
		events []kube.Event
		want   int // Services; 0: anything may have changed
	}{
		"no event":           {nil, 0},
		"endpoints":          {[]kube.Event{a, b, a}, 2},
		"before others":      {[]kube.Event{a, anything}, 0},
		"after others":       {[]kube.Event{anything, a}, 0},
		"of another":         {[]kube.Event{a, {Shard: shard.Named("other")}}, 1},
		"pods and endpoints": {[]kube.Event{a, podEvent(of, 0), podEvent(of, 0)}, 2},
		"many pods": {slices.Collect(func(yield func(kube.Event) bool) {
			for i := range maxChangedPods {
				yield(podEvent(of, i))
			}
			yield(podEvent(of, 0)) // known
		}), maxChangedPods},
		"too many pods": {slices.Collect(func(yield func(kube.Event) bool) {
			for i := range maxChangedPods + 1 {
				yield(podEvent(of, i))
			}
		}), 0},
		"too many": {slices.Collect(func(yield func(kube.Event) bool) {
			for i := range maxChangedObjects + 2 {
				yield(endpointsEvent(of, fmt.Sprint(i)))
			}
		}), 0},
	} {
		var log changeLog
		for _, e := range test.events {
			log.note(e)
		}
		services, only := log.take(of)
		if only != (test.want > 0) || len(services) != test.want {
			t.Errorf("%s: %d Services, %v", name, len(services), only)
		}
		if services, only = log.take(of); only || len(services) > 0 {
			t.Errorf("%s: the changes are not forgotten: %v", name, services)
		}
	}
}

// Memos are bounded in size and age: tenants decide how many there are.
func TestMemoStoreIsBounded(t *testing.T) {
	var store memoStore
	now := time.Unix(1000, 0)
	for i := range 100 {
		at := now.Add(time.Duration(i) * time.Second)
		store.put(shard.Named(fmt.Sprint(i)), storedMemo{size: maxMemoItems / 10, settledAt: at, usedAt: at})
	}
	if len(store.memos) != 10 || store.items != maxMemoItems {
		t.Errorf("%d memos with %d items", len(store.memos), store.items)
	}
	if _, there := store.take(shard.Named("0"), now); there {
		t.Error("the memo that was used first is kept")
	}
	last := now.Add(99 * time.Second)
	if _, there := store.take(shard.Named("99"), last); !there {
		t.Error("the memo that was used last is dropped")
	}
	if _, there := store.take(shard.Named("99"), last); there {
		t.Error("a memo was taken twice")
	}
	if _, there := store.take(shard.Named("98"), last.Add(maxMemoAge)); there {
		t.Error("an old memo is used")
	}
	late := last.Add(2 * maxMemoAge)
	store.put(shard.Named("new"), storedMemo{size: 1, settledAt: late, usedAt: late})
	if len(store.memos) != 1 || store.items != 1 {
		t.Errorf("old memos are kept: %d with %d items", len(store.memos), store.items)
	}
	store.put(shard.Named("huge"), storedMemo{size: 2 * maxMemoItems, settledAt: late, usedAt: late.Add(1)})
	if len(store.memos) != 1 {
		t.Errorf("%d memos beside one that is too large", len(store.memos)-1)
	}
}

func TestConditionsAreUpdated(t *testing.T) {
	var s partitionedSeries
	a, b := labelValues{"a"}, labelValues{"b"}
	s.addToPart("unknown", map[labelValues]float64{a: 1})
	s.replacePart("p", map[labelValues]float64{a: 2})
	s.addToPart("p", map[labelValues]float64{a: -1, b: 1})
	if got := s.sumParts(); len(got) != 2 || got[a] != 1 || got[b] != 1 {
		t.Errorf("%v", got)
	}
	s.addToPart("p", map[labelValues]float64{a: -1})
	if got := s.sumParts(); len(got) != 1 || got[b] != 1 {
		t.Errorf("%v", got)
	}
}

// All endpoints of a changed Service count: the runner pauses after a Service with thousands of them, however few rows it
// has.
func TestUpdateSizeCountsEndpoints(t *testing.T) {
	update := &compile.ServiceUpdate{RowKeys: map[intent.RowKey]bool{{Table: "Load_Balancer", ID: "a"}: true}}
	small := snapshot.Service{Endpoints: make([]snapshot.Endpoint, 10)}
	large := snapshot.Service{Endpoints: make([]snapshot.Endpoint, snapshot.MaxEndpoints)}
	for want, changed := range map[int][]snapshot.Service{
		1: nil, 11: {small}, 11 + snapshot.MaxEndpoints: {small, large},
	} {
		if got := estimateUpdateSize(update, changed); got != want {
			t.Errorf("%d Services have size %d, wanted %d", len(changed), got, want)
		}
	}
}
