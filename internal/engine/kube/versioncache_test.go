package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// A value is read again for another version, for another object of the same name, and after the object was deleted.
func TestMemoKnowsVersions(t *testing.T) {
	var m versionCache[int]
	reads := 0
	key := intent.ObjectKey{Kind: intent.Service, Namespace: "a", Name: "b"}
	look := func(uid, version string) int {
		o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
		value, err := m.getOrRead(key, o, func() (int, error) { reads++; return reads, nil })
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	for i, step := range []struct {
		uid, version string
		want         int
	}{{"u", "1", 1}, {"u", "1", 1}, {"u", "2", 2}, {"v", "2", 3}, {"v", "", 4}, {"v", "", 5}, {"v", "2", 3}} {
		if got := look(step.uid, step.version); got != step.want {
			t.Errorf("step %d: read %d, wanted %d", i, got, step.want)
		}
	}
	m.evict(key)
	if got := look("v", "2"); got != 6 {
		t.Errorf("after it was forgotten: read %d, wanted 6", got)
	}
}
