package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/intent"
)

// The node counts as disturbed if repairs were necessary this often within this time.
const (
	disturbedThreshold = 3
	disturbedWindow    = 5 * time.Minute
)

// repairHistory records how often our entries had to be restored.
type repairHistory struct {
	total      int64
	recent     []time.Time
	lastChange string
}

func (r *repairHistory) recordRepair(now time.Time, what []string) {
	r.total++
	r.recent = append(r.recent, now)
	r.lastChange = strings.TrimSpace(strings.TrimLeft(what[0], "+~- "))
}

// isDisturbed reports whether repairs are too frequent.
func (r *repairHistory) isDisturbed(now time.Time) bool {
	r.recent = slices.DeleteFunc(r.recent, func(t time.Time) bool { return now.Sub(t) > disturbedWindow })
	return len(r.recent) >= disturbedThreshold
}

// renderStatus returns the status after a run.
func renderStatus(path *kubedcv1alpha1.NodePath, report *Report, r *repairHistory,
	now time.Time,
) kubedcv1alpha1.NodePathStatus {
	out := kubedcv1alpha1.NodePathStatus{
		ObservedGeneration: path.Generation, Repairs: r.total, Conditions: slices.Clone(path.Status.Conditions),
	}
	problems := report.networkProblems()
	for _, n := range report.Networks {
		out.Networks = append(out.Networks, kubedcv1alpha1.NodeNetworkStatus{
			Name: n.Name, Interface: n.Interface, Entries: report.Entries[n.Name], Problem: problems[n.Name],
		})
	}
	set := func(kind string, wrong bool, reason, message string) {
		c := metav1.Condition{
			Type:               kind,
			Status:             metav1.ConditionTrue,
			Reason:             kind,
			ObservedGeneration: path.Generation,
		}
		if wrong {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, message
		}
		meta.SetStatusCondition(&out.Conditions, c)
	}
	set("ResolvedRefs", report.hasMissingInterface(), intent.InterfaceNotFound, joinProblems(problems))
	reason := intent.WriteFailed
	if len(report.Failures) == 0 {
		reason = intent.NotAccepted
	}
	set("Programmed", len(problems) > 0, reason, joinProblems(problems))
	set("Undisturbed", r.isDisturbed(now), intent.Disturbed, fmt.Sprintf(
		"something on this node removed Sallyport's entries %d times in the last minutes, such as %s; "+
			"the agent restores them each time. "+
			"For systemd-networkd, set ManageForeignRoutingPolicyRules=no and ManageForeignRoutes=no; "+
			"for NetworkManager, make the interface unmanaged; "+
			"a program that loads an nftables ruleset must not flush the whole ruleset",
		len(r.recent), r.lastChange))
	return out
}

func joinProblems(problems map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		out = append(out, name+": "+problems[name])
	}
	return strings.Join(out, "; ")
}
