package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// ReadManifests reads manifests from a file, or from all .yaml, .yml and .json files below a directory. It skips
// unknown kinds.
func ReadManifests(path string) ([]client.Object, error) {
	var out []client.Object
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if name != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			return nil
		}
		objects, err := readManifestFile(name)
		out = append(out, objects...)
		return err
	})
	return out, err
}

func readManifestFile(name string) ([]client.Object, error) {
	raw, err := os.ReadFile(name) //nolint:gosec // a file that the operator names
	if err != nil {
		return nil, err
	}
	var out []client.Object
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(u.Object) == 0 || !scheme.Recognizes(u.GroupVersionKind()) {
			continue
		}
		object, err := toTypedObject(u)
		if err != nil {
			return nil, fmt.Errorf("%s: %s %s: %w", name, u.GetKind(), u.GetName(), err)
		}
		AdoptByLabels(object)
		out = append(out, object)
	}
}

func toTypedObject(u *unstructured.Unstructured) (client.Object, error) {
	object, err := scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return nil, err
	}
	o, is := object.(client.Object)
	if !is {
		return nil, fmt.Errorf("a %s is not an object", u.GetKind())
	}
	return o, nil
}

// ShardsOf returns the sorted shards that objects belong to.
func ShardsOf(objects []client.Object) []string {
	shards := map[string]bool{}
	for _, object := range objects {
		switch o := object.(type) {
		case *kubedcv1.Project:
			shards[snapshot.ProjectShard(o.Namespace, o.Name)] = true
		case *kubedcv1.EIp, *kubedcv1.FIp:
			shards[o.GetNamespace()] = true
		default:
			for _, shard := range indexByShard(object) {
				shards[shard] = true
			}
		}
	}
	delete(shards, "")
	return slices.SortedFunc(maps.Keys(shards), strings.Compare)
}
