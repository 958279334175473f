package kube

import (
	"bufio"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Limits of manifests: they may come from a tenant, and a pipeline reads them.
const (
	maxManifestBytes   = 16 << 20
	maxManifests       = 10_000
	maxManifestMistake = 20 // reported mistakes of one document
)

// Stdin is the name of the standard input as a file of manifests.
const Stdin = "-"

// Manifest is an object in a file.
type Manifest struct {
	File     string
	Document int // number of the YAML document in the file, from 1
	Object   client.Object
	raw      *unstructured.Unstructured
}

// Position returns where the object is: its file and, if that has several documents, the number of the document.
func (m Manifest) Position() string { return formatPosition(m.File, m.Document) }

func formatPosition(file string, document int) string {
	if file == Stdin {
		file = "standard input"
	}
	return fmt.Sprintf("%s, document %d", file, document)
}

// Manifests are the objects of files, and what is wrong with the files.
type Manifests struct {
	Objects []Manifest
	// Mistakes are texts with the file, the document and the object.
	Mistakes []string
	// Ignored are objects of kinds that do not concern Sallyport.
	Ignored []string
}

// ReadManifests reads manifests from files, from all .yaml, .yml and .json files below directories, and from in for the
// name Stdin. Fields are decoded strictly. Namespaced objects without a namespace are put into the given one.
func ReadManifests(paths []string, in io.Reader, namespace string) (*Manifests, error) {
	out := &Manifests{}
	for _, path := range paths {
		if path == Stdin {
			if err := out.readFrom(in, Stdin, namespace); err != nil {
				return nil, err
			}
			continue
		}
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if name != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
				return nil
			}
			file, err := os.Open(name) //nolint:gosec // a file that the operator names
			if err != nil {
				return err
			}
			defer file.Close()
			return out.readFrom(file, name, namespace)
		})
		if err != nil {
			return nil, err
		}
	}
	out.findDuplicates()
	return out, nil
}

// readFrom reads the documents of one file.
func (m *Manifests) readFrom(in io.Reader, name, namespace string) error {
	raw, err := io.ReadAll(io.LimitReader(in, maxManifestBytes+1))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(raw) > maxManifestBytes {
		return fmt.Errorf("%s: larger than %d MiB", name, maxManifestBytes>>20)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for number := 0; ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if isEmptyDocument(text) {
			continue
		}
		if number++; len(m.Objects) >= maxManifests {
			return fmt.Errorf("%s: more than %d objects", name, maxManifests)
		}
		m.addDocument(text, Manifest{File: name, Document: number}, namespace)
	}
}

// isEmptyDocument reports whether a document consists of comments and separators.
func isEmptyDocument(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && string(line) != "---" {
			return false
		}
	}
	return true
}

// addDocument decodes one document: an object, or a List of objects.
func (m *Manifests) addDocument(text []byte, at Manifest, namespace string) {
	at.raw = &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &at.raw.Object); err != nil {
		m.addMistake(at, trimDecoderText(err))
		return
	}
	if at.raw.GetKind() == "List" && at.raw.GetAPIVersion() == "v1" {
		items, _, _ := unstructured.NestedSlice(at.raw.Object, "items")
		for _, item := range items {
			if one, err := yaml.Marshal(item); err == nil && len(m.Objects) < maxManifests {
				m.addDocument(one, Manifest{File: at.File, Document: at.Document}, namespace)
			}
		}
		return
	}
	gvk := at.raw.GroupVersionKind()
	if !scheme.Recognizes(gvk) {
		if wrong := unknownKind(gvk); wrong != "" {
			m.addMistake(at, wrong)
		} else {
			m.Ignored = append(m.Ignored, fmt.Sprintf("%s %s (%s)", gvk.Kind, at.raw.GetName(), at.Position()))
		}
		return
	}
	if !isInputKind(gvk) {
		m.Ignored = append(m.Ignored, fmt.Sprintf("%s %s (%s)", gvk.Kind, at.raw.GetName(), at.Position()))
		return
	}
	object, mistakes := decodeStrictly(text, gvk)
	for _, wrong := range mistakes {
		m.addMistake(at, wrong)
	}
	if object == nil {
		return
	}
	if at.Object = object; object.GetName() == "" {
		m.addMistake(at, "metadata.name is missing")
		return
	}
	if object.GetNamespace() == "" && !clusterScopedKinds[intent.Kind(gvk.Kind)] {
		object.SetNamespace(namespace)
		at.raw.SetNamespace(namespace)
	}
	AdoptByLabels(object)
	m.Objects = append(m.Objects, at)
}

func (m *Manifests) addMistake(at Manifest, text string) {
	name := strings.TrimPrefix(at.raw.GetNamespace()+"/"+at.raw.GetName(), "/")
	what := strings.TrimSpace(at.raw.GetKind() + " " + name)
	if what != "" {
		what += ": "
	}
	m.Mistakes = append(m.Mistakes, at.Position()+": "+what+text)
}

// findDuplicates reports objects that are there twice: the later one would overwrite the earlier one.
func (m *Manifests) findDuplicates() {
	first := map[intent.ObjectKey]Manifest{}
	for _, o := range m.Objects {
		key, err := KeyOf(o.Object)
		if err != nil {
			continue
		}
		if before, twice := first[key]; twice {
			m.addMistake(o, "the same object is in "+before.Position()+" too")
			continue
		}
		first[key] = o
	}
}

// ClientObjects returns the objects.
func (m *Manifests) ClientObjects() []client.Object {
	out := make([]client.Object, 0, len(m.Objects))
	for _, o := range m.Objects {
		out = append(out, o.Object)
	}
	return out
}

// clusterScopedKinds are the kinds without a namespace among those in manifests.
var clusterScopedKinds = map[intent.Kind]bool{
	intent.Namespace: true, "Node": true, intent.ExternalNetwork: true, intent.EgressIP: true, intent.NodePath: true,
	intent.Vpc: true, intent.Subnet: true, intent.OvnEip: true, intent.OvnFip: true, intent.OvnSnatRule: true,
}

// isInputKind reports whether a kind is one that the controller reads.
func isInputKind(gvk schema.GroupVersionKind) bool {
	return gvk == coreGV.WithKind("Node") || gvkByKind[intent.Kind(gvk.Kind)] == gvk
}

// unknownKind returns what is wrong with a kind that is not known, or nothing if it may be somebody else's.
func unknownKind(gvk schema.GroupVersionKind) string {
	if gvk.Kind == "" || gvk.Version == "" {
		return "apiVersion or kind is missing"
	}
	var inVersion []string
	for kind, known := range gvkByKind {
		if known.GroupVersion() == gvk.GroupVersion() && known.Group != kubeOVNGV.Group {
			inVersion = append(inVersion, string(kind)) // Kube-OVN has kinds with similar names
		}
	}
	right, known := gvkByKind[intent.Kind(gvk.Kind)]
	switch suggested := humanize.SuggestName(gvk.Kind, inVersion); {
	case known && right.Group == gvk.Group:
		return fmt.Sprintf("there is no version %s of this kind; use apiVersion %s", humanize.QuoteName(gvk.Version),
			right.GroupVersion())
	case suggested != "":
		return fmt.Sprintf("there is no kind %s in %s%s", humanize.QuoteName(gvk.Kind), gvk.GroupVersion(), suggested)
	case known && isOwnKind(gvk.Kind):
		return fmt.Sprintf("there is no kind %s in %s; use apiVersion %s", gvk.Kind,
			humanize.QuoteName(gvk.GroupVersion().String()), right.GroupVersion())
	default:
		return ""
	}
}

// isOwnKind reports whether a kind's name is one that few others use.
func isOwnKind(kind string) bool {
	return slices.Contains([]intent.Kind{
		intent.EIp, intent.FIp, intent.ExternalNetwork, intent.EgressRoute, intent.EgressService,
		intent.EgressIP,
	}, intent.Kind(kind))
}

// strictDecoder decodes documents and reports fields that do not exist or are there twice.
var strictDecoder = json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
	json.SerializerOptions{Yaml: true, Strict: true})

// decodeStrictly decodes a document. It returns nil if it can't be decoded at all.
func decodeStrictly(text []byte, gvk schema.GroupVersionKind) (client.Object, []string) {
	into, err := scheme.New(gvk)
	if err != nil {
		return nil, []string{err.Error()}
	}
	decoded, _, err := strictDecoder.Decode(text, &gvk, into)
	strict, isStrict := runtime.AsStrictDecodingError(err)
	if err != nil && !isStrict {
		return nil, []string{trimDecoderText(err)}
	}
	object, is := decoded.(client.Object)
	if !is {
		return nil, []string{"a " + gvk.Kind + " is not an object"}
	}
	var mistakes []string
	if isStrict {
		for _, wrong := range strict.Errors() {
			if text := describeFieldMistake(wrong, object, gvk); text != "" && len(mistakes) < maxManifestMistake {
				mistakes = append(mistakes, text)
			}
		}
	}
	return object, mistakes
}

// describeFieldMistake adds the nearest field to an error about an unknown one. Of the kinds of others only the fields
// that we read are known.
func describeFieldMistake(err error, object client.Object, gvk schema.GroupVersionKind) string {
	text := trimDecoderText(err)
	path, isUnknown := strings.CutPrefix(text, "unknown field ")
	if !isUnknown {
		return text
	}
	if gvk.GroupVersion() == kubeOVNGV || gvk.GroupVersion() == multusGV || gvk.GroupVersion() == kubeVirtGV ||
		gvk.GroupVersion() == envoyGV {
		return ""
	}
	path = strings.Trim(path, `"`)
	parent, name := "", path
	if i := strings.LastIndex(path, "."); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	fields := fieldsAt(object, parent)
	suggested := humanize.SuggestName(name, fields)
	if suggested == "" && len(fields) > 0 && len(fields) <= 12 {
		suggested = "; there are " + strings.Join(fields, ", ")
	}
	return "unknown field " + humanize.Quote(path) + suggested
}

// trimDecoderText returns the text of a decoding error without the names of the decoders.
func trimDecoderText(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	for _, prefix := range []string{
		"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: ",
		"yaml: unmarshal errors: ", "yaml: ", "json: ",
	} {
		text = strings.TrimPrefix(strings.TrimSpace(text), prefix)
	}
	return text
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
