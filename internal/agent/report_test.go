package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/state"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// conditionLines returns the conditions of a status, one per line: type, status, reason, and the message if there is
// one.
func conditionLines(status kubedcv1alpha1.NodePathStatus) string {
	var out []string
	for _, c := range status.Conditions {
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message), ": "))
	}
	return strings.Join(out, "\n")
}

func networkFailure(network, key, why string) state.Failure {
	return state.Failure{Scope: "rules", Key: key, Origin: nodepath.NetworkRef(network), Err: errors.New(why)}
}

func TestRender(t *testing.T) {
	const fine = "\nUndisturbed True Undisturbed"
	networks := func(list ...nodepath.NetworkResult) []nodepath.NetworkResult { return list }
	for name, c := range map[string]struct {
		report Report
		want   string
	}{
		"all is well": {
			Report{Networks: networks(nodepath.NetworkResult{Name: "a", Interface: "eth1"})},
			"ResolvedRefs True ResolvedRefs\nProgrammed True Programmed" + fine,
		},
		"nothing is asked for": {Report{}, "ResolvedRefs True ResolvedRefs\nProgrammed True Programmed" + fine},
		"no interface": {
			Report{Networks: networks(nodepath.NetworkResult{Name: "b", Problem: "no eth2", Missing: true},
				nodepath.NetworkResult{Name: "a"})},
			"ResolvedRefs False InterfaceNotFound: b: no eth2\nProgrammed False NotAccepted: b: no eth2" + fine,
		},
		"a gateway elsewhere": {
			Report{Networks: networks(nodepath.NetworkResult{
				Name:      "a",
				Interface: "eth1",
				Problem:   "gateway elsewhere",
			})},
			"ResolvedRefs True ResolvedRefs\nProgrammed False NotAccepted: a: gateway elsewhere" + fine,
		},
		"one failure": {
			Report{
				Networks: networks(nodepath.NetworkResult{Name: "a"}),
				Failures: []state.Failure{networkFailure("a", "rule 1110", "not permitted")},
			},
			"ResolvedRefs True ResolvedRefs\nProgrammed False WriteFailed: a: rule 1110: not permitted" + fine,
		},
		"several failures": {
			Report{
				Networks: networks(nodepath.NetworkResult{Name: "a"}, nodepath.NetworkResult{Name: "b"},
					nodepath.NetworkResult{Name: "c"}),
				Failures: []state.Failure{
					networkFailure("b", "rule 1", "no"), networkFailure("a", "rule 2", "no"),
					networkFailure("b", "rule 3", "never"), networkFailure("b", "rule 4", "never"),
				},
			},
			"ResolvedRefs True ResolvedRefs\nProgrammed False WriteFailed: a: rule 2: no; b: rule 1: no, and 2 more" +
				fine,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := &kubedcv1alpha1.NodePath{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
			status := renderStatus(path, &c.report, &repairHistory{}, noon)
			if got := conditionLines(status); got != c.want {
				t.Errorf("the conditions are\n%s\nwanted\n%s", got, c.want)
			}
			for _, condition := range status.Conditions {
				if condition.ObservedGeneration != 7 || status.ObservedGeneration != 7 {
					t.Errorf("%s is of generation %d, the status of %d, wanted 7", condition.Type,
						condition.ObservedGeneration, status.ObservedGeneration)
				}
			}
		})
	}
}

// Each network has its interface, its entries and its problem, in the order of the report.
func TestRenderTellsOfNetworks(t *testing.T) {
	report := &Report{
		Networks: []nodepath.NetworkResult{
			{Name: "a", Interface: "eth1"},
			{Name: "b", Problem: "no eth2", Missing: true},
			{Name: "c", Interface: "eth3"},
		},
		Entries: map[string]int64{"a": 9, "c": 4}, Failures: []state.Failure{networkFailure("c", "rule 1", "no")},
	}
	got := fmt.Sprintf("%+v", renderStatus(&kubedcv1alpha1.NodePath{}, report, &repairHistory{}, noon).Networks)
	want := "[{Name:a Interface:eth1 Entries:9 Problem:} {Name:b Interface: Entries:0 Problem:no eth2} {Name:c Interface:eth3 Entries:4 Problem:rule 1: no}]"
	if got != want {
		t.Errorf("the networks are\n%s\nwanted\n%s", got, want)
	}
}

// Undisturbed is false after three repairs in five minutes, and true again when that time has passed.
func TestDisturbed(t *testing.T) {
	path, r := &kubedcv1alpha1.NodePath{}, &repairHistory{}
	at := func(after time.Duration) *metav1.Condition {
		path.Status = renderStatus(path, &Report{}, r, noon.Add(after))
		return meta.FindStatusCondition(path.Status.Conditions, "Undisturbed")
	}
	for i, step := range []struct {
		after  time.Duration
		repair bool
		want   metav1.ConditionStatus
	}{
		{0, false, "True"},
		{time.Minute, true, "True"},
		{2 * time.Minute, true, "True"},
		{6*time.Minute + 30*time.Second, true, "True"}, // the first was more than five minutes ago: two are left
		{6*time.Minute + 40*time.Second, true, "False"},
		{7 * time.Minute, false, "False"},
		{7*time.Minute + time.Second, false, "True"},
	} {
		if step.repair {
			r.recordRepair(noon.Add(step.after), []string{"+ rule 1110 lookup 9101", "- something else"})
		}
		c := at(step.after)
		if c.Status != step.want {
			t.Errorf("step %d, after %s: it is %s, wanted %s (%s)", i, step.after, c.Status, step.want, c.Message)
		}
		if says := strings.Contains(c.Message,
			"such as rule 1110 lookup 9101; the agent restores them each time"); says != (step.want == "False") {
			t.Errorf("step %d, after %s: the message is %q", i, step.after, c.Message)
		}
	}
	if path.Status.Repairs != 4 {
		t.Errorf("there were %d repairs, wanted 4", path.Status.Repairs)
	}
}

// An unchanged status is rendered identically, so nothing is written to Kubernetes.
func TestRenderIsStable(t *testing.T) {
	path, report := &kubedcv1alpha1.NodePath{},
		&Report{Networks: []nodepath.NetworkResult{{Name: "a", Problem: "no eth2", Missing: true}}}
	path.Status = renderStatus(path, report, &repairHistory{}, noon)
	again := renderStatus(path, report, &repairHistory{}, noon.Add(time.Hour))
	if got, want := fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", path.Status); got != want {
		t.Errorf("an hour later it is\n%s\nwanted\n%s", got, want)
	}
}
