package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// fakeEtcd keeps keys as etcd does, and refuses transactions beyond etcd's own limits.
type fakeEtcd struct{ keys map[string]string }

func (f *fakeEtcd) serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/v3/maintenance/status", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	mux.HandleFunc("/v3/kv/txn", func(_ http.ResponseWriter, r *http.Request) {
		var question struct {
			Success []struct {
				RequestPut storedObject `json:"requestPut"`
			} `json:"success"`
		}
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
			t.Error(err)
		}
		size := 0
		for _, o := range question.Success {
			size += len(o.RequestPut.Key) + len(o.RequestPut.Value)
			f.keys[string(o.RequestPut.Key)] = string(o.RequestPut.Value)
		}
		if len(question.Success) > 128 || size > 1572864 {
			t.Errorf("a transaction with %d operations and %d bytes: etcd refuses it", len(question.Success), size)
		}
	})
	mux.HandleFunc("/v3/kv/range", func(w http.ResponseWriter, r *http.Request) {
		var question struct {
			Key      []byte `json:"key"`
			RangeEnd []byte `json:"range_end"`
		}
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
			t.Error(err)
		}
		var found []storedObject
		for key, value := range f.keys {
			if bytes.Compare([]byte(key), question.Key) >= 0 && bytes.Compare([]byte(key), question.RangeEnd) < 0 {
				found = append(found, storedObject{Key: []byte(key), Value: []byte(value)})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kvs": found})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// What one lab keeps, the next has: many objects and large ones, and nothing that belongs to the first lab alone.
func TestStoredObjectsAreRestored(t *testing.T) {
	first := &fakeEtcd{keys: map[string]string{
		"/registry/namespaces/kube-system":                                    "identity of the cluster",
		"/registry/configmaps/kube-system/extension-apiserver-authentication": "certificates",
		"/registry/clusterrolesX/no":                                          "another kind",
	}}
	want := map[string]string{}
	for _, prefix := range storedPrefixes {
		for i := range 40 {
			want[fmt.Sprintf("%so%d", prefix, i)] = fmt.Sprintf("%d\x00\xff", i)
		}
	}
	for i := range 5 {
		want[fmt.Sprintf("%slarge%d", storedPrefixes[0], i)] = strings.Repeat("x", 500_000)
	}
	maps.Copy(first.keys, want)
	s := storeFor(filepath.Join(t.TempDir(), "kubernetes-1-abc"), "definitions")
	s.etcd = first.serve(t)
	if err := s.keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := &fakeEtcd{keys: map[string]string{}}
	s.etcd = second.serve(t)
	if found, err := s.restore(t.Context()); err != nil || !found {
		t.Fatalf("restored: %t, %v", found, err)
	}
	if !maps.Equal(second.keys, want) {
		t.Errorf("the second lab has %d keys, want the %d stored ones", len(second.keys), len(want))
	}
}

// Another definition or another build of Kubernetes is another store, and without a store nothing is restored.
func TestStoreIsForOneVersion(t *testing.T) {
	dir := t.TempDir()
	s := storeFor(filepath.Join(dir, "kubernetes-1-abc"), "definitions")
	for _, other := range []store{
		storeFor(filepath.Join(dir, "kubernetes-1-abd"), "definitions"),
		storeFor(filepath.Join(dir, "kubernetes-1-abc"), "definitions "),
	} {
		if other.path == s.path {
			t.Errorf("both use %s", s.path)
		}
	}
	if found, err := s.restore(t.Context()); found || err != nil {
		t.Errorf("restored from no file: %t, %v", found, err)
	}
	if err := s.write([]byte(`[{"key":`)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.restore(t.Context()); err == nil || !strings.Contains(err.Error(), "remove "+s.path) {
		t.Errorf("a damaged file gives %v; wanted the next step", err)
	}
}

// An etcd without the objects that every API server makes is not stored: labs after it would lack them.
func TestIncompleteObjectsAreNotStored(t *testing.T) {
	s := storeFor(filepath.Join(t.TempDir(), "kubernetes-1-abc"), "definitions")
	s.etcd = (&fakeEtcd{keys: map[string]string{storedPrefixes[0] + "one": "a definition"}}).serve(t)
	if err := s.keep(t.Context()); err == nil {
		t.Error("stored")
	}
	if found, _ := s.restore(t.Context()); found {
		t.Error("something was stored")
	}
}
