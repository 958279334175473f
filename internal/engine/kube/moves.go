package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
)

// describeMoves returns what a new status moves to another place, from the one in the object as it was read. Conditions
// do not change with it, and later nobody could tell that it happened.
func describeMoves(o client.Object, status map[string]any) (out []string) {
	switch o := o.(type) {
	case *ovnv1.EgressIP:
		was := map[string]string{}
		for _, i := range o.Status.Items {
			was[i.EgressIP] = i.Node
		}
		items, _, _ := unstructured.NestedSlice(status, "items")
		for _, item := range items {
			now, _ := item.(map[string]any)
			address, _ := now["egressIP"].(string)
			node, _ := now["node"].(string)
			if before := was[address]; before != "" && node != "" && before != node {
				out = append(out, fmt.Sprintf("%s moved from %s to %s", address, before, node))
			}
		}
	case *kubedcv1.FIp:
		was := o.Status.ResolvedTargetIP
		if is, _, _ := unstructured.NestedString(status, "resolvedTargetIP"); was != "" && is != "" && was != is {
			out = append(out, fmt.Sprintf("the target of %s moved from %s to %s", o.Status.ExternalIP, was, is))
		}
	}
	return out
}
