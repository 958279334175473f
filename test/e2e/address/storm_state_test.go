package address

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// stateLines is the final state of a storm as lines that do not depend on the order of events: an address chosen by
// Kube-OVN, or by us for a return port, is replaced by the name of its holder.
type stateLines []string

// diff formats the differences between two states.
func (w stateLines) diff(o stateLines) string {
	var out []string
	count := map[string]int{}
	for _, line := range w {
		count[line]++
	}
	for _, line := range o {
		count[line]--
	}
	for _, line := range slices.Sorted(maps.Keys(count)) {
		for ; count[line] > 0; count[line]-- {
			out = append(out, "- "+line)
		}
		for ; count[line] < 0; count[line]++ {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}

// collectState reads Kubernetes and the northbound database.
func collectState(t *testing.T, c *harness.Cluster) stateLines {
	t.Helper()
	objects := listProjectObjects(t, c)
	names := map[string]string{}
	for _, o := range objects {
		nameOvnEIPAddress(o, names)
	}
	nextHops := nameReturnPorts(t, c, names)
	var out stateLines
	for _, o := range objects {
		out = append(out, normalizeObject(o))
	}
	out = append(out, readProjectRows(t, c)...)
	for i := range out {
		if strings.HasPrefix(out[i], "Subnet ") {
			continue // it reserves addresses for return ports, in any order
		}
		router := projectPattern.FindString(out[i])
		out[i] = ipv4Pattern.ReplaceAllStringFunc(out[i], func(a string) string {
			if who := cmp.Or(nextHops[router][a], names[a]); who != "" {
				return "<" + who + ">"
			}
			return a
		})
		out[i] = ownEIPSuffix.ReplaceAllString(out[i], "$1-*")
	}
	slices.Sort(out)
	return out
}

var (
	// a project's router, also at the beginning of the names of its ports
	projectPattern = regexp.MustCompile(`\b` + churnOrganization + `-p\d+`)
	ipv4Pattern    = regexp.MustCompile(`\b(\d{1,3}\.){3}\d{1,3}\b`)
	// suffix of EIps that FIps create, derived from the UID
	ownEIPSuffix = regexp.MustCompile(`\b(fip-f\d)-[0-9a-v]{5}\b`)
)

// nameOvnEIPAddress maps an address that Kube-OVN chose to the name of its OvnEip. Requested addresses are kept.
func nameOvnEIPAddress(o *unstructured.Unstructured, names map[string]string) {
	address, _, _ := unstructured.NestedString(o.Object, "status", "v4Ip")
	if o.GetKind() != "OvnEip" || strings.Contains(address, ".200.") {
		return
	}
	names[address] = o.GetName()
}

// projectResources are the kinds of a project: requests, and what they are compiled to.
var projectResources = []schema.GroupVersionResource{
	{Group: "kube-dc.com", Version: "v1", Resource: "projects"},
	{Group: "kube-dc.com", Version: "v1", Resource: "eips"},
	{Group: "kube-dc.com", Version: "v1", Resource: "fips"},
	{Version: "v1", Resource: "namespaces"},
	{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"},
	{Group: "kubeovn.io", Version: "v1", Resource: "vpcs"},
	{Group: "kubeovn.io", Version: "v1", Resource: "subnets"},
	{Group: "kubeovn.io", Version: "v1", Resource: "ovn-eips"},
	{Group: "kubeovn.io", Version: "v1", Resource: "ovn-fips"},
	{Group: "kubeovn.io", Version: "v1", Resource: "ovn-snat-rules"},
}

// listProjectObjects returns the Projects and all objects of their shards.
func listProjectObjects(t *testing.T, c *harness.Cluster) (out []*unstructured.Unstructured) {
	t.Helper()
	api, err := dynamic.NewForConfig(c.RESTConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range projectResources {
		list, err := api.Resource(where).List(harness.Within(t, harness.Patience), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			here := o.GetNamespace() == churnOrganization ||
				strings.HasPrefix(o.GetNamespace()+o.GetName(), churnOrganization+"-")
			if here || ownership.IsManagedObject(o.GetLabels()) {
				out = append(out, o)
			}
		}
	}
	return out
}

// normalizeObject formats an object without values that differ each time: times, versions, MAC addresses, field
// managers.
func normalizeObject(o *unstructured.Unstructured) string {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	switch o.GetKind() {
	case "Subnet":
		status = map[string]any{"conditions": status["conditions"]}
	case "OvnEip":
		delete(status, "nat") // Kube-OVN does not keep it up to date
	}
	current := status["observedGeneration"] == nil || status["observedGeneration"] == o.GetGeneration()
	labels := o.GetLabels()
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return !strings.Contains(key, "kube-dc.com") && key != ownership.ManagedByLabel
	})
	// Kube-OVN does not restore its own after a restart
	finalizers := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool {
		return f != ownership.Finalizer
	})
	return fmt.Sprintf("%s %s/%s labels=%v asked-by=%s finalizers=%v leaving=%t spec=%s status=%s current=%t",
		o.GetKind(), o.GetNamespace(), o.GetName(),
		labels, o.GetAnnotations()[ownership.OriginAnnotation], finalizers, o.GetDeletionTimestamp() != nil,
		normalizeValue(spec), normalizeValue(status), current)
}

// normalizeValue formats a value as JSON, with sorted lists and without values that differ each time.
func normalizeValue(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var out []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch key {
			case "lastTransitionTime", "lastUpdateTime", "observedGeneration", "macAddress", "mac":
				continue
			}
			if v[key] != "" { // Kube-OVN also writes unset fields when it writes an object
				out = append(out, key+":"+normalizeValue(v[key]))
			}
		}
		return "{" + strings.Join(out, " ") + "}"
	case []any:
		var out []string
		for _, item := range v {
			out = append(out, normalizeValue(item))
		}
		slices.Sort(out)
		return "[" + strings.Join(out, " ") + "]"
	default:
		return fmt.Sprint(v)
	}
}

// setValues returns the values of a set of any size: OVSDB writes a set with a single value as that value.
func setValues(v any) []any {
	if many, ok := v.([]any); ok {
		return many
	}
	if v == nil {
		return nil
	}
	return []any{v}
}
