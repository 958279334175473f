package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/lab/parts"
)

// storedPrefixes are the keys of etcd whose objects are the same in every lab: the resource definitions of the lab, and
// what the API server itself creates when it starts for the first time. Nothing that depends on addresses, certificates or
// nodes is among them, and no namespace: programs take the UID of kube-system for the identity of the cluster.
var storedPrefixes = []string{
	"/registry/apiextensions.k8s.io/customresourcedefinitions/",
	"/registry/clusterroles/", "/registry/clusterrolebindings/", "/registry/roles/", "/registry/rolebindings/",
	"/registry/apiregistration.k8s.io/apiservices/", "/registry/flowschemas/", "/registry/prioritylevelconfigurations/", "/registry/priorityclasses/",
}

// Limits of etcd for one transaction, with a margin for what surrounds the objects.
const (
	maxOperations = 100
	maxBytes      = 1 << 20
)

// storedObject is a key of etcd with its value.
type storedObject struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// store is a file in the cache with the objects of a lab that had to create them. Other labs put them into their etcd before
// their API server starts, which saves two fifths of its processor time and the wait for each definition.
type store struct {
	path string // its name has the Kubernetes version and a sum of the definitions
	etcd string // where etcd answers
}

// storeFor returns the store of labs with these definitions and this build of Kubernetes, which is in a directory of the
// cache.
func storeFor(build, definitions string) store {
	sum := sha256.Sum256([]byte(filepath.Base(build) + "\x00" + definitions + "\x00" + strings.Join(storedPrefixes, " ")))
	name := fmt.Sprintf("api-objects-%s-%s.json", parts.KubernetesVersion, hex.EncodeToString(sum[:4]))
	return store{path: filepath.Join(filepath.Dir(build), name), etcd: etcdClient}
}

// restore puts the stored objects into an empty etcd, and reports whether there were any.
func (s store) restore(ctx context.Context) (bool, error) {
	raw, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var objects []storedObject
	if err == nil {
		err = json.Unmarshal(raw, &objects)
	}
	if err != nil {
		return false, fmt.Errorf("read stored API objects (remove %s, and the next lab makes it again): %w", s.path, err)
	}
	if err := s.waitHealthy(ctx); err != nil {
		return false, err
	}
	for len(objects) > 0 {
		n := countForTransaction(objects)
		if err := s.put(ctx, objects[:n]); err != nil {
			return false, err
		}
		objects = objects[n:]
	}
	return true, nil
}

// countForTransaction returns how many of the objects, one at least, fit into one transaction.
func countForTransaction(objects []storedObject) int {
	n, size := 0, 0
	for n < len(objects) && n < maxOperations {
		size += len(objects[n].Key) + len(objects[n].Value)
		if n > 0 && size > maxBytes {
			break
		}
		n++
	}
	return n
}

func (s store) put(ctx context.Context, objects []storedObject) error {
	type operation struct {
		Put storedObject `json:"requestPut"`
	}
	operations := make([]operation, len(objects))
	for i, o := range objects {
		operations[i].Put = o
	}
	return s.call(ctx, "/v3/kv/txn", map[string]any{"success": operations}, nil)
}

// keep writes the file from what etcd has now. Labs that do so at the same time write the same.
func (s store) keep(ctx context.Context) error {
	var objects []storedObject
	for _, prefix := range storedPrefixes {
		var found struct {
			Objects []storedObject `json:"kvs"`
		}
		end := []byte(prefix)
		end[len(end)-1]++ // the first key after all with the prefix
		if err := s.call(ctx, "/v3/kv/range", map[string]any{"key": []byte(prefix), "range_end": end}, &found); err != nil {
			return err
		}
		if len(found.Objects) == 0 {
			return fmt.Errorf("etcd has no key %s…, which every API server of Kubernetes %s makes", prefix, parts.KubernetesVersion)
		}
		objects = append(objects, found.Objects...)
	}
	raw, err := json.Marshal(objects)
	if err != nil {
		return fmt.Errorf("encode API objects: %w", err)
	}
	return s.write(raw)
}

// write replaces the file in one step, so that no lab reads a part of it.
func (s store) write(raw []byte) error {
	file, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*")
	if err != nil {
		return fmt.Errorf("store API objects: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(raw)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), s.path)
	}
	if err != nil {
		return fmt.Errorf("store API objects: %w", err)
	}
	return nil
}

// waitHealthy waits until etcd takes requests; it tells of that by no event.
func (s store) waitHealthy(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.call(ctx, "/v3/maintenance/status", struct{}{}, nil)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for etcd: %w", err)
		}
	}
}

// call asks etcd through its JSON gateway.
func (s store) call(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.etcd+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask etcd for %s: %s", path, response.Status)
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("read what etcd answers to %s: %w", path, err)
	}
	return nil
}
