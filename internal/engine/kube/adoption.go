package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/adoption"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// adoptionManager is the field manager of `sallyport adopt`.
const adoptionManager = "sallyport-adopt"

// ReadAdoption reads what could be adopted.
func (c *Cluster) ReadAdoption(ctx context.Context) (*adoption.Cluster, error) {
	out := &adoption.Cluster{Attachments: map[string]bool{}}
	var (
		vpcs        VpcList
		subnets     SubnetList
		ovnEips     OvnEipList
		ovnFips     OvnFipList
		snatRules   OvnSnatRuleList
		dnatRules   OvnDnatRuleList
		namespaces  corev1.NamespaceList
		attachments NetworkAttachmentDefinitionList
		services    corev1.ServiceList
		projects    kubedcv1.ProjectList
		eips        kubedcv1.EIpList
		fips        kubedcv1.FIpList
		networks    kubedcv1alpha1.ExternalNetworkList
	)
	for _, list := range []client.ObjectList{
		&vpcs, &subnets, &ovnEips, &ovnFips, &snatRules, &dnatRules, &namespaces, &attachments, &services, &projects, &eips,
		&fips, &networks,
	} {
		if err := c.api.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	out.Vpcs, out.Subnets, out.OvnEips = readAdoptable(vpcs.Items), readAdoptable(subnets.Items), readAdoptable(ovnEips.Items)
	out.OvnFips, out.SnatRules = readAdoptable(ovnFips.Items), readAdoptable(snatRules.Items)
	out.DnatRules = readAdoptable(dnatRules.Items)
	for i := range vpcs.Items {
		out.Vpcs[i].ByKubeOVN = vpcs.Items[i].Labels[kubeovn.ExternalVpcLabel] == "true"
	}
	readAdoptableNamespaces(out, &namespaces, &attachments, &services)
	out.Projects, out.EIps, out.FIps = projects.Items, eips.Items, fips.Items
	out.Externals = readAllExternalSubnets(&networks, &subnets)
	return out, nil
}

func readAllExternalSubnets(networks *kubedcv1alpha1.ExternalNetworkList, subnets *SubnetList) []snapshot.ExternalSubnet {
	in := NewInputs(shard.Named("")) // the networks are the same for all
	for i := range networks.Items {
		in.Add(&networks.Items[i])
	}
	for i := range subnets.Items {
		in.Add(&subnets.Items[i])
	}
	return in.readExternalSubnets()
}

// readAdoptableNamespaces adds the namespaces, and what is in them.
func readAdoptableNamespaces(out *adoption.Cluster, namespaces *corev1.NamespaceList,
	attachments *NetworkAttachmentDefinitionList, services *corev1.ServiceList,
) {
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		out.Namespaces = append(out.Namespaces, adoption.Object[struct{}, struct{}]{
			Name: n.Name, Owner: ownerShard(n), Deleting: n.DeletionTimestamp != nil,
		})
	}
	for i := range attachments.Items {
		if a := &attachments.Items[i]; a.Name == "default" && ownerShard(a) == "" {
			out.Attachments[a.Namespace] = true
		}
	}
	for i := range services.Items {
		if s := &services.Items[i]; isLoadBalancer(s) {
			out.Balancers = append(out.Balancers, s.Namespace+"/"+s.Name)
		}
	}
}

// readAdoptable converts objects of Kube-OVN.
func readAdoptable[S, T any](items []Object[S, T]) []adoption.Object[S, T] {
	out := make([]adoption.Object[S, T], 0, len(items))
	for i := range items {
		o := &items[i]
		out = append(out, adoption.Object[S, T]{
			Name: o.Name, Owner: ownerShard(o), Deleting: o.DeletionTimestamp != nil,
			Origin: parseOrigin(o.Annotations[ownership.OriginAnnotation]), Spec: o.Spec, Status: o.Status,
		})
	}
	return out
}

// PreviewAdoption returns the objects of a plan as they would be.
func (c *Cluster) PreviewAdoption(ctx context.Context, p *adoption.Plan) ([]client.Object, error) {
	var out []client.Object
	for _, offer := range p.Offers {
		o, err := newObject(offer.Kind)
		if err != nil {
			return nil, err
		}
		if err := c.api.Get(ctx, client.ObjectKey{Namespace: offer.Namespace, Name: offer.Name}, o); err != nil {
			return nil, err
		}
		setEntry(o.GetLabels, o.SetLabels, ownership.AdoptLabel, p.VPC)
		if offer.Kind == intent.Namespace {
			setEntry(o.GetLabels, o.SetLabels, ownership.AdoptCountLabel, strconv.Itoa(p.Count))
		}
		setEntry(o.GetAnnotations, o.SetAnnotations, ownership.OriginAnnotation, formatOrigin(offer.Origin))
		out = append(out, o)
	}
	for _, o := range createdByAdoption(p) {
		o.SetCreationTimestamp(metav1.Now())
		out = append(out, o)
	}
	for i := range p.ChangedFIps {
		out = append(out, p.ChangedFIps[i].DeepCopy())
	}
	return out, nil
}

// setEntry sets an entry of the labels or annotations of an object.
func setEntry(get func() map[string]string, set func(map[string]string), key, value string) {
	all := map[string]string{key: value}
	for k, v := range get() {
		if k != key {
			all[k] = v
		}
	}
	set(all)
}

// createdByAdoption returns copies of the objects that a plan creates, in the order of creation.
func createdByAdoption(p *adoption.Plan) (out []client.Object) {
	if p.NewProject != nil {
		out = append(out, p.NewProject.DeepCopy())
	}
	for i := range p.NewEIps {
		out = append(out, p.NewEIps[i].DeepCopy())
	}
	for i := range p.NewFIps {
		out = append(out, p.NewFIps[i].DeepCopy())
	}
	return out
}

// ApplyAdoption carries out a plan. The namespace is offered last: until then the controller refuses the Project and does
// nothing, so an adoption that is interrupted can be repeated.
func (c *Cluster) ApplyAdoption(ctx context.Context, p *adoption.Plan) error {
	for _, offer := range p.Offers {
		if offer.Kind != intent.Namespace {
			if err := c.offerObject(ctx, p.VPC, offer); err != nil {
				return err
			}
		}
	}
	for _, o := range createdByAdoption(p) {
		if err := c.api.Create(ctx, o, client.FieldOwner(adoptionManager)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %T %s: %w", o, client.ObjectKeyFromObject(o), err)
		}
	}
	for i := range p.ChangedFIps {
		if err := c.changeFIP(ctx, &p.ChangedFIps[i]); err != nil {
			return err
		}
	}
	for _, f := range p.Finalizers {
		if err := c.removeFinalizers(ctx, f); err != nil {
			return err
		}
	}
	if err := c.waitUntilSeen(ctx, p.ChangedFIps); err != nil {
		return err
	}
	for _, offer := range p.Offers {
		if offer.Kind == intent.Namespace {
			return c.offerNamespace(ctx, p, offer)
		}
	}
	return nil
}

// offerNamespace offers the namespace, with the number of objects that the controller must see first.
func (c *Cluster) offerNamespace(ctx context.Context, p *adoption.Plan, offer adoption.Offer) error {
	o := &corev1.Namespace{}
	o.SetName(offer.Name)
	return c.patchMetadata(ctx, o, map[string]any{
		"labels":      map[string]string{ownership.AdoptLabel: p.VPC, ownership.AdoptCountLabel: strconv.Itoa(p.Count)},
		"annotations": map[string]string{ownership.OriginAnnotation: formatOrigin(offer.Origin)},
	})
}

// waitUntilSeen waits until the controller has written about FIps that changed.
func (c *Cluster) waitUntilSeen(ctx context.Context, fips []kubedcv1.FIp) error {
	for i := range fips {
		key := client.ObjectKeyFromObject(&fips[i])
		err := wait.PollUntilContextCancel(ctx, time.Second/5, true, func(ctx context.Context) (bool, error) {
			var f kubedcv1.FIp
			err := c.api.Get(ctx, key, &f)
			accepted := meta.FindStatusCondition(f.Status.Conditions, kubedcv1.ConditionAccepted)
			return accepted != nil && accepted.ObservedGeneration == f.Generation, err
		})
		if err != nil {
			return fmt.Errorf("wait until the controller has seen FIp %s: %w; does it run?", key, err)
		}
	}
	return nil
}

// offerObject lets a project take over an object.
func (c *Cluster) offerObject(ctx context.Context, vpc string, offer adoption.Offer) error {
	o, err := newObject(offer.Kind)
	if err != nil {
		return err
	}
	o.SetNamespace(offer.Namespace)
	o.SetName(offer.Name)
	return c.patchMetadata(ctx, o, map[string]any{
		"labels":      map[string]string{ownership.AdoptLabel: vpc},
		"annotations": map[string]string{ownership.OriginAnnotation: formatOrigin(offer.Origin)},
	})
}

func (c *Cluster) patchMetadata(ctx context.Context, o client.Object, fields map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, body)
	if err := c.api.Patch(ctx, o, patch, client.FieldOwner(adoptionManager)); err != nil {
		return fmt.Errorf("change %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// changeFIP writes the spec of a FIp, unless somebody changed it since the plan was made.
func (c *Cluster) changeFIP(ctx context.Context, f *kubedcv1.FIp) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var now kubedcv1.FIp
		if err := c.api.Get(ctx, client.ObjectKeyFromObject(f), &now); err != nil {
			return err
		}
		if now.Generation != f.Generation {
			return errors.New("somebody has changed it in the meantime")
		}
		now.Spec = f.Spec
		return c.api.Update(ctx, &now, client.FieldOwner(adoptionManager))
	})
	if err != nil {
		return fmt.Errorf("change FIp %s/%s: %w", f.Namespace, f.Name, err)
	}
	return nil
}

// removeFinalizers removes finalizers of the controller that Sallyport replaces.
func (c *Cluster) removeFinalizers(ctx context.Context, f adoption.Finalizers) error {
	o, err := newObject(f.Kind)
	if err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.api.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: f.Name}, o); err != nil {
			return err
		}
		kept := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(name string) bool {
			return slices.Contains(f.Remove, name)
		})
		return c.patchMetadata(ctx, o, map[string]any{"finalizers": kept, "resourceVersion": o.GetResourceVersion()})
	})
}

// PendingAdoption returns what of an adopted VPC is not ready yet, as text.
func (c *Cluster) PendingAdoption(ctx context.Context, p *adoption.Plan) ([]string, error) {
	organization, name, _ := strings.Cut(p.Project, "/")
	var project kubedcv1.Project
	if err := c.api.Get(ctx, client.ObjectKey{Namespace: organization, Name: name}, &project); err != nil {
		return nil, err
	}
	var out []string
	if !project.Status.Ready {
		out = append(out, "Project "+p.Project+describeFalse(project.Status.Conditions))
	}
	for _, offer := range p.Offers {
		ref, key := offer.Origin, client.ObjectKey{Namespace: offer.Origin.Namespace, Name: offer.Origin.Name}
		switch intent.Kind(ref.Kind) {
		case intent.EIp:
			var e kubedcv1.EIp
			if err := c.api.Get(ctx, key, &e); err != nil {
				return nil, err
			} else if !e.Status.Ready {
				out = append(out, "EIp "+key.String()+describeFalse(e.Status.Conditions))
			}
		case intent.FIp:
			var f kubedcv1.FIp
			if err := c.api.Get(ctx, key, &f); err != nil {
				return nil, err
			} else if !f.Status.Ready {
				out = append(out, "FIp "+key.String()+describeFalse(f.Status.Conditions))
			}
		}
	}
	return out, nil
}

// describeFalse returns the first condition that is false, as text.
func describeFalse(conditions []metav1.Condition) string {
	for _, c := range conditions {
		if c.Status == metav1.ConditionFalse {
			return ": " + c.Reason + ": " + c.Message
		}
	}
	return ": not processed yet"
}
