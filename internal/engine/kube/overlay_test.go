package kube

import (
	"context"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
)

// listReader is a reader with two EIps.
type listReader struct{ client.Reader }

func (listReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if eips, is := list.(*kubedcv1.EIpList); is {
		for _, name := range []string{"kept", "replaced"} {
			eips.Items = append(eips.Items, kubedcv1.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}})
		}
	}
	return nil
}

func TestOverlayReplacesAndAddsWhatTheOptionsSelect(t *testing.T) {
	eip := func(namespace, name, address string) *kubedcv1.EIp {
		return &kubedcv1.EIp{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"l": name}},
			Spec:       kubedcv1.EIpSpec{IPAddress: address},
		}
	}
	c := (&Cluster{reader: listReader{}}).WithObjects([]client.Object{
		eip("a", "replaced", "192.0.2.1"), eip("b", "added", "192.0.2.2"), &corev1.Namespace{},
	})
	for name, want := range map[string]struct {
		by    []client.ListOption
		names map[string]string
	}{
		"all":       {nil, map[string]string{"kept": "", "replaced": "192.0.2.1", "added": "192.0.2.2"}},
		"namespace": {[]client.ListOption{client.InNamespace("a")}, map[string]string{"kept": "", "replaced": "192.0.2.1"}},
		"index":     {[]client.ListOption{client.MatchingFields{addressIndex: "192.0.2.2"}}, map[string]string{"kept": "", "added": "192.0.2.2"}},
		"label":     {[]client.ListOption{client.MatchingLabels{"l": "replaced"}}, map[string]string{"kept": "", "replaced": "192.0.2.1"}},
	} {
		var list kubedcv1.EIpList
		if err := c.reader.List(t.Context(), &list, want.by...); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, e := range list.Items {
			got[e.Name] = e.Spec.IPAddress
		}
		if !reflect.DeepEqual(got, want.names) { // the reader below ignores options: kept is its answer
			t.Errorf("%s: %v, want %v", name, got, want.names)
		}
	}
	if err := c.reader.List(t.Context(), &kubedcv1.EIpList{}, client.MatchingFields{"none": "x"}); err == nil {
		t.Error("an index that does not exist selects")
	}
}

func TestChangedFieldsNamePaths(t *testing.T) {
	before := map[string]any{"spec": map[string]any{"a": "1", "gone": true, "same": []any{1}}}
	after := map[string]any{"spec": map[string]any{"a": "2", "new": "x", "same": []any{1}}}
	if got := changedFields("", before, after); !reflect.DeepEqual(got, []string{"spec.a", "spec.gone", "spec.new"}) {
		t.Errorf("got %v", got)
	}
}
