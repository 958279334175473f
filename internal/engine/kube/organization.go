package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// readQuota returns the limit in an annotation of a namespace. A value that is not a number sets no limit, and the
// default applies.
func readQuota(ns *corev1.Namespace, annotation string) snapshot.Limit {
	if ns == nil {
		return snapshot.Limit{}
	}
	limit, err := strconv.Atoi(ns.Annotations[annotation])
	if err != nil || limit < 0 {
		return snapshot.Limit{}
	}
	return snapshot.AtMost(limit)
}

// readOrganizationQuotas returns the quotas in the namespace of an organization.
func readOrganizationQuotas(ns *corev1.Namespace) snapshot.Organization {
	return snapshot.Organization{
		EIps:     readQuota(ns, kubedcv1.EIpQuotaAnnotation),
		Projects: readQuota(ns, kubedcv1.ProjectQuotaAnnotation),
	}
}

// isAcceptedEIp reports whether an EIp has condition Accepted. Only the controller writes it.
func isAcceptedEIp(e *kubedcv1.EIp) bool {
	return apimeta.IsStatusConditionTrue(e.Status.Conditions, kubedcv1.ConditionAccepted)
}

// isAcceptedProject reports whether the status of a Project names its namespace. Only the controller writes it.
func isAcceptedProject(p *kubedcv1.Project) bool {
	return p.Status.Namespace == snapshot.ProjectShard(p.Namespace, p.Name)
}

// gatherOrganizations adds the namespaces of the organizations whose Projects use this shard. Their other Projects are
// added only while something is not yet accepted and a quota decides about it. In steady state, the cost of a shard
// does not grow with its organization.
func (c *Cluster) gatherOrganizations(ctx context.Context, in *Inputs, defaults snapshot.Quotas) error {
	for _, p := range in.projects {
		ns, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: p.Namespace})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read Namespace %s: %w", p.Namespace, err)
		}
		if err == nil {
			in.Add(ns)
		}
		limits := readOrganizationQuotas(in.knownNamespaces[p.Namespace])
		eips := cmp.Or(limits.EIps, defaults.OrganizationEIps).IsSet && slices.ContainsFunc(in.eips, isPendingEIp)
		projects := cmp.Or(limits.Projects, defaults.OrganizationProjects).IsSet && !isAcceptedProject(p)
		if eips || projects {
			if err := c.gatherMembers(ctx, in, p.Namespace, eips); err != nil {
				return err
			}
		}
	}
	return nil
}

// isPendingEIp reports whether an EIp counts against quotas and is not accepted.
func isPendingEIp(e *kubedcv1.EIp) bool { return e.Spec.ChildRef == "" && !isAcceptedEIp(e) }

// gatherMembers adds the Projects of an organization and, if eips is set, their EIps.
func (c *Cluster) gatherMembers(ctx context.Context, in *Inputs, organization string, eips bool) error {
	var projects kubedcv1.ProjectList
	if err := c.reader.List(ctx, &projects, client.InNamespace(organization),
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Projects of %s: %w", organization, err)
	}
	for i := range projects.Items {
		p := &projects.Items[i]
		shard := snapshot.ProjectShard(p.Namespace, p.Name)
		if shard == in.Shard.Name {
			continue // already added
		}
		in.Add(p)
		if !eips || !isAcceptedProject(p) {
			continue
		}
		if ns, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: shard}); err == nil {
			in.Add(ns)
		}
		if err := c.listInto(ctx, in, &kubedcv1.EIpList{}, []client.ListOption{client.InNamespace(shard)}); err != nil {
			return err
		}
	}
	return nil
}

// readOrganizations parses the organizations whose Projects use this shard.
func (in *Inputs) readOrganizations() map[string]snapshot.Organization {
	out := map[string]snapshot.Organization{}
	for _, p := range in.projects {
		out[p.Namespace] = readOrganizationQuotas(in.knownNamespaces[p.Namespace])
	}
	for _, of := range [][]*kubedcv1.Project{in.projects, in.otherProjects} {
		for _, p := range of {
			if o, wanted := out[p.Namespace]; wanted {
				o.Members = append(o.Members, in.readMember(p))
				out[p.Namespace] = o
			}
		}
	}
	return out
}

func (in *Inputs) readMember(p *kubedcv1.Project) snapshot.MemberProject {
	shard := snapshot.ProjectShard(p.Namespace, p.Name)
	out := snapshot.MemberProject{
		Meta: readMeta(p.ObjectMeta), Accepted: isAcceptedProject(p),
		Quota: cmp.Or(readProject(p).EIpQuota, readQuota(in.knownNamespaces[shard], kubedcv1.EIpQuotaAnnotation)),
	}
	for _, e := range in.otherEIps[shard] {
		if e.Spec.ChildRef == "" {
			out.EIps = append(out.EIps, snapshot.MemberEIp{Meta: readMeta(e.ObjectMeta), Accepted: isAcceptedEIp(e)})
		}
	}
	return out
}

// isRefusedByQuota reports whether an EIp is refused by a quota and waits for others to be deleted.
func isRefusedByQuota(o client.Object) bool {
	accepted := apimeta.FindStatusCondition(o.(*kubedcv1.EIp).Status.Conditions, kubedcv1.ConditionAccepted)
	return accepted != nil && accepted.Reason == intent.QuotaExceeded
}

// handleFreedQuota enqueues the shards with EIps refused by a quota when an EIp is deleted or is no longer accepted:
// its organization may use the free place for another.
func (w *eventMapper) handleFreedQuota(ctx context.Context, was, is client.Object) {
	before, had := was.(*kubedcv1.EIp)
	if now, has := is.(*kubedcv1.EIp); !had || has && (isAcceptedEIp(now) || !isAcceptedEIp(before)) {
		return
	}
	w.enqueueRefusedByQuota(ctx)
}

// enqueueRefusedByQuota enqueues the shards with EIps that a quota refuses.
func (w *eventMapper) enqueueRefusedByQuota(ctx context.Context) {
	var eips kubedcv1.EIpList
	if err := w.cluster.reader.List(ctx, &eips,
		append(w.cluster.matchIndex(quotaIndex, "true"), client.UnsafeDisableDeepCopy)...); err != nil {
		return // the cache is not synced yet; every object will be an event
	}
	asked := map[string]bool{}
	for i := range eips.Items {
		if in := eips.Items[i].Namespace; isRefusedByQuota(&eips.Items[i]) && !asked[in] {
			asked[in] = true
			w.enqueueNamespace(ctx, in)
		}
	}
}

// enqueueOrganization enqueues the Projects of an organization: all, or those that are not accepted.
func (w *eventMapper) enqueueOrganization(ctx context.Context, namespace string, all bool) {
	var projects kubedcv1.ProjectList
	if err := w.cluster.reader.List(ctx, &projects, client.InNamespace(namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is not synced yet; every object will be an event
	}
	for i := range projects.Items {
		if p := &projects.Items[i]; all || !isAcceptedProject(p) {
			w.enqueueNamed(snapshot.ProjectShard(p.Namespace, p.Name))
		}
	}
}

// handleQuotaChange enqueues the Projects of an organization when the quotas in its namespace change.
func (w *eventMapper) handleQuotaChange(ctx context.Context, was, is client.Object) {
	before, _ := was.(*corev1.Namespace)
	now, _ := is.(*corev1.Namespace)
	if a, b := readOrganizationQuotas(before), readOrganizationQuotas(now); a.EIps != b.EIps ||
		a.Projects != b.Projects {
		w.enqueueOrganization(ctx, cmp.Or(now, before).Name, true)
		w.enqueueRefusedByQuota(ctx)
	}
}
