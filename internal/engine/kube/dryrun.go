package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// kubectlManager is the field manager of kubectl apply. With the same one, a dry run says what kubectl would do.
const kubectlManager = "kubectl-client-side-apply"

// What applying a manifest would do to its object.
const (
	ActionCreate    = "create"
	ActionChange    = "change"
	ActionDelete    = "delete"
	ActionUnchanged = "unchanged"
)

// ManifestChange is what applying a manifest would do to its object.
type ManifestChange struct {
	Position, Action        string
	Kind, Namespace, Object string
	Fields                  []string // the changed fields
}

// ManifestPreview is what applying manifests would do to their objects.
type ManifestPreview struct {
	// Objects are the objects as they would be, and others that follow from them.
	Objects  []client.Object
	Changes  []ManifestChange
	Mistakes []string // why the API server would refuse an object
	Warnings []string // what could not be checked, and what a manifest does not achieve
}

// PreviewManifests asks the API server, in dry runs, what applying manifests would do to their objects, or deleting
// them. Nothing is written.
func (c *Cluster) PreviewManifests(ctx context.Context, m *Manifests, deleting bool) (*ManifestPreview, error) {
	out := &ManifestPreview{}
	created := createdNamespaces(m)
	for _, manifest := range m.Objects {
		var err error
		if deleting {
			err = c.previewDeletion(ctx, manifest, out)
		} else {
			err = c.previewManifest(ctx, manifest, created, out)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", manifest.Position(), err)
		}
	}
	if deleting {
		return out, nil
	}
	return out, c.addConsequences(ctx, out)
}

// createdNamespaces returns the namespaces that manifests create, by themselves or with a Project.
func createdNamespaces(m *Manifests) map[string]bool {
	out := map[string]bool{}
	for _, o := range m.Objects {
		switch o := o.Object.(type) {
		case *corev1.Namespace:
			out[o.Name] = true
		case *kubedcv1.Project:
			out[snapshot.ProjectShard(o.Namespace, o.Name)] = true
		}
	}
	return out
}

func (m Manifest) newChange(action string) ManifestChange {
	return ManifestChange{
		Position: m.Position(), Action: action, Kind: m.raw.GetKind(), Namespace: m.raw.GetNamespace(),
		Object: m.raw.GetName(),
	}
}

func (m Manifest) describe(text string) string {
	return fmt.Sprintf("%s: %s %s: %s", m.Position(), m.raw.GetKind(),
		strings.TrimPrefix(m.raw.GetNamespace()+"/"+m.raw.GetName(), "/"), text)
}

// previewDeletion adds an object as it is after kubectl delete, while finalizers keep it.
func (c *Cluster) previewDeletion(ctx context.Context, m Manifest, out *ManifestPreview) error {
	live, err := c.readLive(ctx, m)
	if err != nil || live == nil {
		if err == nil {
			out.Warnings = append(out.Warnings, m.describe("there is no such object"))
		}
		return err
	}
	now := metav1.Now()
	live.SetDeletionTimestamp(&now)
	object, err := toTypedObject(live)
	if err != nil {
		return err
	}
	out.Objects = append(out.Objects, object)
	out.Changes = append(out.Changes, m.newChange(ActionDelete))
	return nil
}

// readLive returns an object as the API server has it, nil if there is none.
func (c *Cluster) readLive(ctx context.Context, m Manifest) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(m.raw.GroupVersionKind())
	err := c.api.Get(ctx, client.ObjectKeyFromObject(m.raw), live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return live, err
}

// previewManifest adds an object as it is after kubectl apply.
func (c *Cluster) previewManifest(ctx context.Context, m Manifest, created map[string]bool, out *ManifestPreview) error {
	live, err := c.readLive(ctx, m)
	if err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	var after *unstructured.Unstructured
	if live == nil || err != nil {
		after, err = c.dryRunCreate(ctx, m, created)
	} else {
		after, err = c.dryRunPatch(ctx, m, live)
	}
	switch {
	case isDenied(err):
		out.Mistakes = append(out.Mistakes, m.describe(shortenDenial(err)))
		return nil
	case meta.IsNoMatchError(err):
		out.Mistakes = append(out.Mistakes, m.describe("the API server does not serve this kind; install its CRD"))
		return nil
	case apierrors.IsForbidden(err): // the user may not write it
		out.Warnings = append(out.Warnings, m.describe("not checked by the API server: "+err.Error()))
		after = m.raw.DeepCopy()
		after.SetCreationTimestamp(metav1.Now())
	case err != nil:
		return err
	}
	object, err := toTypedObject(after)
	if err != nil {
		return err
	}
	out.Objects = append(out.Objects, object)
	change := m.newChange(ActionCreate)
	if live != nil {
		change.Fields = changedFields("", withoutBookkeeping(live), withoutBookkeeping(after))
		if change.Action = ActionChange; len(change.Fields) == 0 {
			change.Action = ActionUnchanged
		}
	}
	out.Changes = append(out.Changes, change)
	return nil
}

// dryRunCreate returns an object as the API server would create it. If its namespace is yet to be created, it is checked
// in the namespace default: that answers for its fields, not for policies of its namespace.
func (c *Cluster) dryRunCreate(ctx context.Context, m Manifest, created map[string]bool) (*unstructured.Unstructured, error) {
	create := func(namespace string) (*unstructured.Unstructured, error) {
		o := m.raw.DeepCopy()
		o.SetNamespace(namespace)
		err := c.api.Create(ctx, o, client.DryRunAll, client.FieldOwner(kubectlManager),
			client.FieldValidation(metav1.FieldValidationStrict))
		return o, err
	}
	namespace := m.raw.GetNamespace()
	o, err := create(namespace)
	if !isMissingNamespace(err) {
		return o, err
	}
	if !created[namespace] {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"namespace %s does not exist, and no file creates it or a Project of this name", namespace))
	}
	o, err = create(metav1.NamespaceDefault)
	if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		o, err = m.raw.DeepCopy(), nil
	}
	if err == nil {
		o.SetCreationTimestamp(metav1.Now())
		o.SetNamespace(namespace)
	}
	return o, err
}

func isMissingNamespace(err error) bool {
	var status *apierrors.StatusError
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.ErrStatus.Details != nil &&
		status.ErrStatus.Details.Kind == "namespaces"
}

// dryRunPatch returns an object as the API server would have it after kubectl apply: fields that the last applied
// manifest had, and this one has not, are removed; others are kept.
func (c *Cluster) dryRunPatch(ctx context.Context, m Manifest, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	original := []byte(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	wanted := m.raw.DeepCopy()
	unstructured.RemoveNestedField(wanted.Object, "status")
	modified, err := json.Marshal(wanted.Object)
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(live.Object)
	if err != nil {
		return nil, err
	}
	kind, patch := types.MergePatchType, []byte(nil)
	if typed := m.Object; isBuiltIn(m) {
		kind = types.StrategicMergePatchType
		lookup, lookupErr := strategicpatch.NewPatchMetaFromStruct(typed)
		if lookupErr != nil {
			return nil, lookupErr
		}
		patch, err = strategicpatch.CreateThreeWayMergePatch(original, modified, current, lookup, true)
	} else {
		patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current,
			mergepatch.RequireKeyUnchanged("apiVersion"), mergepatch.RequireKeyUnchanged("kind"))
	}
	if err != nil {
		return nil, fmt.Errorf("compare with the cluster: %w", err)
	}
	after := live.DeepCopy()
	return after, c.api.Patch(ctx, after, client.RawPatch(kind, patch), client.DryRunAll,
		client.FieldOwner(kubectlManager), client.FieldValidation(metav1.FieldValidationStrict))
}

// isBuiltIn reports whether the kind is Kubernetes' own.
func isBuiltIn(m Manifest) bool {
	group := m.raw.GroupVersionKind().Group
	return group == "" || group == "discovery.k8s.io"
}

// isDenied reports whether the API server would refuse the object whoever writes it: for its fields, or by a policy.
func isDenied(err error) bool {
	isRBAC := err != nil && strings.Contains(err.Error(), "cannot ") && strings.Contains(err.Error(), " resource ")
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsConflict(err) ||
		apierrors.IsMethodNotSupported(err) || apierrors.IsForbidden(err) && !isRBAC
}

// shortenDenial returns the API server's answer without the name of the object, which is printed before it.
func shortenDenial(err error) string {
	text := err.Error()
	for _, cut := range []string{" is invalid: ", " is forbidden: "} {
		if _, rest, found := strings.Cut(text, cut); found {
			return rest
		}
	}
	return text
}

// withoutBookkeeping returns the fields of an object that users write.
func withoutBookkeeping(u *unstructured.Unstructured) map[string]any {
	out := u.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "status")
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	if len(out.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations")
	}
	return out.Object
}

// changedFields returns the paths of the fields that differ, sorted. Lists are compared as a whole.
func changedFields(path string, before, after any) []string {
	b, isMap := before.(map[string]any)
	a, areMaps := after.(map[string]any)
	if !isMap || !areMaps {
		was, _ := json.Marshal(before)
		is, _ := json.Marshal(after)
		if string(was) == string(is) {
			return nil
		}
		return []string{strings.TrimPrefix(path, ".")}
	}
	var out []string
	for name, value := range b {
		out = append(out, changedFields(path+"."+name, value, a[name])...)
	}
	for name, value := range a {
		if _, known := b[name]; !known {
			out = append(out, changedFields(path+"."+name, nil, value)...)
		}
	}
	slices.Sort(out)
	return out
}
