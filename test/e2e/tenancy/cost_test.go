package tenancy

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// podsBinding enables the policy for pods.
const podsBinding = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: sallyport-pods}}`

// measureAdmission compares the time to admit a pod with and without the policy for pods, alternately and several
// times.
func measureAdmission(t *testing.T, f *attackFixture) {
	t.Helper()
	item := tenancyItems.Item(t, 5)
	who := f.actor(t, tenantEditor)
	hostile, own := tryPod("evil-x", logicalSwitchKey, "ovn-default"),
		tryPod("evil-x", logicalSwitchKey, "evil-x-default")
	var p50, p99 []float64
	for range show.ChooseSize(5, 2) {
		who.Cannot(t, "a pod in another subnet", hostile, msgChoosesNetwork)
		with := measureAdmissionTimes(t, who, own)
		if err := f.Objects.Delete(harness.Within(t, harness.Patience), podsBinding); err != nil {
			t.Fatal(err)
		}
		who.Can(t, "the same without the policy", hostile) // control: the policy refused it
		without := measureAdmissionTimes(t, who, own)
		f.ApplyChart(t)
		p50 = append(p50, harness.PercentileMillis(with, 50)/harness.PercentileMillis(without, 50))
		p99 = append(p99, harness.PercentileMillis(with, 99)/harness.PercentileMillis(without, 99))
	}
	who.Cannot(t, "a pod in another subnet", hostile, msgChoosesNetwork)
	item.AddFigure("admission of a pod with the policies takes %s of the time without (median of pods), %s (99th percentile); %d pods each, %d rounds",
		formatRatios(p50), formatRatios(p99), show.ChooseSize(500, 100), len(p50))
}

// measureAdmissionTimes returns the sorted times to admit a pod in dry runs.
func measureAdmissionTimes(t *testing.T, who actor, try harness.Attempt) (out []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for range show.ChooseSize(500, 100) {
		begun := time.Now()
		if err := who.Try(ctx, try); err != nil {
			t.Fatal(err)
		}
		out = append(out, time.Since(begun))
	}
	slices.Sort(out)
	return out
}

// formatRatios formats the median of ratios, with the smallest and the largest.
func formatRatios(of []float64) string {
	sorted := slices.Sorted(slices.Values(of))
	return fmt.Sprintf("%.2f (%.2f to %.2f)", sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1])
}
