package address

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// allocationLog records the holder of each external address over the whole test. It is filled from three ordered
// streams: EIps and OvnEips of the API server, NAT rows of the northbound database.
type allocationLog struct {
	mu                sync.Mutex
	holders           map[streamAddress]map[string]time.Time // holder → since when
	current           map[string]string                      // stream and holder → address
	grants            int                                    // number of allocations
	doubleAllocations []string
	streamRestarts    int // number of streams that were restarted

	events    int
	nextEvent chan struct{} // closed at the next event
}

// streamAddress is an address as one stream reports it.
type streamAddress struct{ stream, address string }

func newAllocationLog() *allocationLog {
	return &allocationLog{
		holders:   map[streamAddress]map[string]time.Time{},
		current:   map[string]string{},
		nextEvent: make(chan struct{}),
	}
}

// recordHolder records that a holder has an address now or, if empty, that it has none any more.
func (l *allocationLog) recordHolder(stream, holder, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.current[stream+holder]; before == address {
		return
	} else if before != "" {
		delete(l.holders[streamAddress{stream, before}], holder)
	}
	l.current[stream+holder] = address
	if address == "" {
		delete(l.current, stream+holder)
		return
	}
	key := streamAddress{stream, address}
	if l.holders[key] == nil {
		l.holders[key] = map[string]time.Time{}
	}
	for other, since := range l.holders[key] {
		l.doubleAllocations = append(l.doubleAllocations,
			fmt.Sprintf("%s: %s was given to %s while %s had had it for %s",
				stream, address, holder, other, time.Since(since).Round(time.Millisecond)))
	}
	l.holders[key][holder] = time.Now()
	l.grants++
}

func (l *allocationLog) countEvent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events++
	close(l.nextEvent)
	l.nextEvent = make(chan struct{})
}

// dropStream ends a stream: its information may be outdated.
func (l *allocationLog) dropStream(stream string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streamRestarts++
	for key := range l.holders {
		if key.stream == stream {
			delete(l.holders, key)
		}
	}
	for holder := range l.current {
		if strings.HasPrefix(holder, stream) {
			delete(l.current, holder)
		}
	}
}

// waitEvents returns after the given number of further events, or when the context is done.
func (l *allocationLog) waitEvents(ctx context.Context, events int) {
	for ; events > 0 && ctx.Err() == nil; events-- {
		l.mu.Lock()
		next := l.nextEvent
		l.mu.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
}

func (l *allocationLog) eventCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

func (l *allocationLog) foundDoubles() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.doubleAllocations)
}

// Names of the streams.
const (
	eipStream    = "EIp"
	ovnEipStream = "OvnEip"
	natStream    = "NAT"
)

// watchAllocations starts the log, which runs until the test ends.
func watchAllocations(t *testing.T, c *harness.Cluster) *allocationLog {
	t.Helper()
	l := newAllocationLog()
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(func() { stop(); group.Wait() })
	api, err := dynamic.NewForConfig(c.RESTConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{}, 3)
	for stream, where := range map[string]struct {
		resource schema.GroupVersionResource
		field    string
	}{
		eipStream:    {schema.GroupVersionResource{Group: "kube-dc.com", Version: "v1", Resource: "eips"}, "ipAddress"},
		ovnEipStream: {schema.GroupVersionResource{Group: "kubeovn.io", Version: "v1", Resource: "ovn-eips"}, "v4Ip"},
	} {
		w := &objectStream{log: l, stream: stream, field: where.field, api: api.Resource(where.resource), ready: begun}
		group.Go(func() { w.watchUntilDone(ctx) })
	}
	group.Go(func() { watchNAT(ctx, c, l, begun) })
	for range 3 {
		select {
		case <-begun:
		case <-harness.Within(t, harness.Patience).Done():
			t.Fatal("the addresses can't be watched")
		}
	}
	return l
}

// objectStream is the addresses in the statuses of objects of a kind. An object that is being deleted shows none: its
// address may be allocated again while it waits for its last finalizer.
type objectStream struct {
	log           *allocationLog
	stream, field string
	api           dynamic.ResourceInterface
	ready         chan<- struct{}
}

// watchUntilDone watches until the context is done. It resumes where a connection ended, so that no event is missed.
func (s *objectStream) watchUntilDone(ctx context.Context) {
	version := ""
	for ctx.Err() == nil {
		var err error
		if version == "" {
			if version, err = s.relist(ctx); err == nil && s.ready != nil {
				s.ready <- struct{}{}
				s.ready = nil
			}
		}
		if err == nil {
			version, err = s.watchFrom(ctx, version)
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			version = "" // the API server no longer has the events in between
		}
		if err != nil {
			select { // the API server is down
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

func (s *objectStream) relist(ctx context.Context) (string, error) {
	list, err := s.api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	s.log.dropStream(s.stream)
	for i := range list.Items {
		s.recordObject(&list.Items[i], false)
	}
	return list.GetResourceVersion(), nil
}

func (s *objectStream) watchFrom(ctx context.Context, from string) (string, error) {
	w, err := s.api.Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
	if err != nil {
		return from, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		o, ok := e.Object.(*unstructured.Unstructured)
		if e.Type == watch.Error || !ok {
			return from, apierrors.FromObject(e.Object)
		}
		from = o.GetResourceVersion()
		if e.Type != watch.Bookmark {
			s.recordObject(o, e.Type == watch.Deleted)
		}
	}
	return from, nil
}

func (s *objectStream) recordObject(o *unstructured.Unstructured, gone bool) {
	address, _, _ := unstructured.NestedString(o.Object, "status", s.field)
	if gone || o.GetDeletionTimestamp() != nil {
		address = ""
	}
	s.log.recordHolder(s.stream, strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"), address)
	s.log.countEvent()
}

// watchNAT follows the floating IPs in the northbound database, on any running server.
func watchNAT(ctx context.Context, c *harness.Cluster, l *allocationLog, begun chan<- struct{}) {
	for i := 0; ctx.Err() == nil; i++ {
		socket := c.Inside(c.DatabaseFile(fmt.Sprintf("ovn-nb%d", 1+i%c.Blueprint.Raft), "sock"))
		cmd := exec.CommandContext(ctx, c.Parts.Program("ovsdb-client"),
			"--format=json", "monitor", "unix:"+socket, "OVN_Northbound", "NAT", "type,external_ip,logical_ip")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			if begun != nil {
				begun <- struct{}{}
				begun = nil
			}
			l.dropStream(natStream)
			readNATChanges(out, l)
			_ = cmd.Wait()
		}
		select { // the server was killed
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// readNATChanges reads transactions, one per line: rows with the action. A changed row takes two lines of a table, and
// only the first has its id.
func readNATChanges(out io.Reader, l *allocationLog) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	holders := map[string]string{} // by row
	for lines.Scan() {
		var table struct{ Data [][]any }
		if json.Unmarshal(lines.Bytes(), &table) != nil {
			continue
		}
		come := map[string]string{}
		var row string
		for _, cells := range table.Data {
			if id := fmt.Sprint(cells[0]); id != "" {
				row = id
			}
			switch action := cells[1]; {
			case action == "delete" || action == "old":
				l.recordHolder(natStream, holders[row], "")
			case cells[2] == "dnat_and_snat":
				come[row] = fmt.Sprint(cells[3])
				holders[row] = fmt.Sprintf("%v (row %s)", cells[4], row)
			}
		}
		for row, address := range come {
			l.recordHolder(natStream, holders[row], address)
		}
		l.countEvent()
	}
}
