package kube

import (
	"cmp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Objects that others created are taken over if an operator offers them to a VPC with a label. An offer alone changes
// nothing: an object is only written when its VPC has a Project that wants an object of this name.

// offeredShard returns the shard that an object of others is offered to, or an empty string. Users can label their own
// objects, so a namespaced object can only be offered to the VPC of its namespace, and no object to a VPC that can't
// have a Project.
func offeredShard(o client.Object) string {
	vpc := o.GetLabels()[ownership.AdoptLabel]
	if vpc == "" || ownership.IsReservedVPC(vpc) || ownerShard(o) != "" {
		return ""
	}
	if in := o.GetNamespace(); in != "" && in != vpc {
		return ""
	}
	return vpc
}

// isOfferedTo reports whether an object of others is offered to a shard.
func isOfferedTo(o client.Object, shard string) bool { return shard != "" && offeredShard(o) == shard }

// noteOffer records an object that AdoptCountLabel counts: one of the shard, or an EIp or FIp in its namespace.
func (in *Inputs) noteOffer(o client.Object) {
	switch o.(type) {
	case *corev1.Namespace:
		return
	case *kubedcv1.EIp, *kubedcv1.FIp:
		if o.GetNamespace() != in.Shard.Name {
			return
		}
	default:
		if cmp.Or(ownerShard(o), offeredShard(o)) != in.Shard.Name {
			return
		}
	}
	if key, err := KeyOf(o); err == nil {
		in.offers[key] = true
	}
}

// seesAllOffers reports whether everything that is offered with a namespace is among the inputs. Once the namespace is
// taken over, the label has no meaning.
func (in *Inputs) seesAllOffers(ns *corev1.Namespace) bool {
	if ownerShard(ns) != "" || hasLostLabels(ns) {
		return true
	}
	want, err := strconv.Atoi(ns.Labels[ownership.AdoptCountLabel])
	return err == nil && len(in.offers) >= want
}

// belongs reports whether an object belongs to the shard. What is offered belongs to it once all of it is seen: until then
// it is an object of others.
func (in *Inputs) belongs(o client.Object) bool {
	if !isOfferedTo(o, in.Shard.Name) {
		return belongsToShard(o, in.Shard.Name)
	}
	ns := in.namespaces[in.Shard.Name]
	return ns != nil && belongsToShard(ns, in.Shard.Name) && in.seesAllOffers(ns)
}
