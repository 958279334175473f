package address

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// retargetFIP changes the target of the FIp to another address.
func retargetFIP(t *testing.T, f *harness.ScaleFixture, i int) time.Duration {
	t.Helper()
	begin, namespace := time.Now(), f.NamespaceOf(f.ProbeProject(i))
	err := f.Objects.Apply(harness.Within(t, harness.Patience), fmt.Sprintf(
		"{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {namespace: %s, name: %s}, spec: {eip: %[2]s, ipAddress: 10.0.0.101}}", namespace, harness.ProbeName))
	if err != nil {
		t.Fatal(err)
	}
	f.WaitForObject(t, "FIp", namespace, harness.ProbeName,
		allOf(manifest.True("Programmed"), manifest.Field("10.0.0.101", "status", "resolvedTargetIP")))
	return time.Since(begin)
}

func allOf(a, b manifest.Condition) manifest.Condition {
	return func(o *unstructured.Unstructured) bool { return a(o) && b(o) }
}

// measureKubeOVNChange creates the Kube-OVN objects that correspond to a FIp with a new EIp, and returns the time until
// Kube-OVN reports them ready.
func measureKubeOVNChange(t *testing.T, f *harness.ScaleFixture, i int) time.Duration {
	t.Helper()
	eip := fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: %s}, spec: {externalSubnet: ext-cloud, type: nat}}", harness.ProbeName)
	fip := fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {name: %s}, spec: {ovnEip: %[1]s, vpc: %s, v4Ip: 10.0.0.102}}",
		harness.ProbeName, f.NamespaceOf(f.ProbeProject(i)))
	begin := time.Now()
	for applyUntilReady(t, f, "OvnEip", eip) == "" { // Kube-OVN may report one as ready without an address
		t.Log("Kube-OVN has made an OvnEip without an address; once more")
		deleteManifests(t, f, eip)
		begin = time.Now()
	}
	applyUntilReady(t, f, "OvnFip", fip)
	took := time.Since(begin)
	deleteManifests(t, f, eip+"\n---\n"+fip)
	return took
}

func deleteManifests(t *testing.T, f *harness.ScaleFixture, text string) {
	t.Helper()
	if err := f.Objects.Delete(harness.Within(t, harness.Patience), text); err != nil {
		t.Fatal(err)
	}
}

// applyUntilReady applies a Kube-OVN object, waits until it is ready, and returns the address that it has by then.
func applyUntilReady(t *testing.T, f *harness.ScaleFixture, kind, text string) (address string) {
	t.Helper()
	if err := f.Objects.Apply(harness.Within(t, harness.Patience), text); err != nil {
		t.Fatal(err)
	}
	f.WaitForObject(t, kind, "", harness.ProbeName, func(o *unstructured.Unstructured) bool {
		if !manifest.Field("true", "status", "ready")(o) {
			return false
		}
		address, _, _ = unstructured.NestedString(o.Object, "status", "v4Ip")
		return true
	})
	return address
}
