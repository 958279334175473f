package address

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// repoint leads the FIp to another address.
func repoint(t *testing.T, f *harness.Fleet, i int) time.Duration {
	t.Helper()
	begin, namespace := time.Now(), f.Space(f.Chosen(i))
	err := f.Objects.Apply(harness.Within(t, time.Minute), fmt.Sprintf(
		"{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {namespace: %s, name: %s}, spec: {eip: %[2]s, ipAddress: 10.0.0.101}}", namespace, harness.Visitor))
	if err != nil {
		t.Fatal(err)
	}
	f.Wait(t, "FIp", namespace, harness.Visitor, both(manifest.True("Programmed"), manifest.Field("10.0.0.101", "status", "resolvedTargetIP")))
	return time.Since(begin)
}

func both(a, b manifest.Condition) manifest.Condition {
	return func(o *unstructured.Unstructured) bool { return a(o) && b(o) }
}

// changeByHand makes what a FIp with a new EIp becomes, as Kube-OVN's objects, and returns after how long Kube-OVN says it is ready.
func changeByHand(t *testing.T, f *harness.Fleet, i int) time.Duration {
	t.Helper()
	eip := fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: %s}, spec: {externalSubnet: ext-cloud, type: nat}}", harness.Visitor)
	fip := fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {name: %s}, spec: {ovnEip: %[1]s, vpc: %s, v4Ip: 10.0.0.102}}",
		harness.Visitor, f.Space(f.Chosen(i)))
	begin := time.Now()
	for readyByHand(t, f, "OvnEip", eip) == "" { // Kube-OVN sometimes calls one ready that never gets an address
		t.Log("Kube-OVN has made an OvnEip without an address; once more")
		undo(t, f, eip)
		begin = time.Now()
	}
	readyByHand(t, f, "OvnFip", fip)
	took := time.Since(begin)
	undo(t, f, eip+"\n---\n"+fip)
	return took
}

func undo(t *testing.T, f *harness.Fleet, text string) {
	t.Helper()
	if err := f.Objects.Delete(harness.Within(t, time.Minute), text); err != nil {
		t.Fatal(err)
	}
}

// readyByHand makes an object of Kube-OVN's, waits until it is ready, and returns the address that it has by then.
func readyByHand(t *testing.T, f *harness.Fleet, kind, text string) (address string) {
	t.Helper()
	if err := f.Objects.Apply(harness.Within(t, time.Minute), text); err != nil {
		t.Fatal(err)
	}
	f.Wait(t, kind, "", harness.Visitor, func(o *unstructured.Unstructured) bool {
		if !manifest.Field("true", "status", "ready")(o) {
			return false
		}
		address, _, _ = unstructured.NestedString(o.Object, "status", "v4Ip")
		return true
	})
	return address
}
