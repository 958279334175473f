package address

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// userMistake is a mistake of a user, the expected message, and the fix.
type userMistake struct {
	what              string
	setup, act        []harness.Action
	object            string // the object with the condition and event
	condition, reason string
	wantWords         []string // the cause and the next step, in the condition and in the event
	mustNotSay        string   // must not be in the message
	fix               []harness.Action
	fixDeletes        bool // the fix deletes the object instead of making it Programmed
}

// deleteAction deletes an object and waits until it is gone.
func deleteAction(object string) harness.Action {
	return func(t *testing.T, c *harness.Cluster) {
		kind, namespace, name := harness.ParseObjectName(object)
		c.DeleteAndWait(t, kind, namespace, name)
	}
}

// deleteInUseAction deletes an object and does not wait.
func deleteInUseAction(object string) harness.Action {
	return func(t *testing.T, c *harness.Cluster) {
		kind, namespace, name := harness.ParseObjectName(object)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		text := fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: %s, metadata: {name: %s, namespace: %s}}", kind, name,
			namespace)
		if err := c.Objects.Delete(ctx, text); err == nil {
			t.Errorf("%s could be deleted while it is in use", object)
		}
	}
}

// checkMistakes makes every mistake, checks the message, and fixes it, with the same controller all the time.
func checkMistakes(t *testing.T, c *harness.Cluster) string {
	c.CreateOrganization(t, "mistakes")
	c.CreateProject(t, "mistakes", "a", "10.62.0.0/24", "cloud")
	c.CreateProject(t, "mistakes", "b", "10.62.0.0/24", "cloud")
	all := slices.Concat(referenceMistakes, addressMistakes, poolMistakes, conflictMistakes, projectMistakes)
	for _, m := range all {
		t.Run(m.what, func(t *testing.T) { checkMistake(t, c, m) })
	}
	expectNoTransientEvents(t, c)
	return fmt.Sprintf("%d mistakes each gave a condition and an event with the cause and the next step, and after the cure all was in force, without a restart", len(all))
}

func checkMistake(t *testing.T, c *harness.Cluster, m userMistake) {
	for _, do := range slices.Concat(m.setup, m.act) {
		do(t, c)
	}
	kind, namespace, name := harness.ParseObjectName(m.object)
	c.WaitForObject(t, kind, namespace, name, func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, m.condition) == m.reason
	})
	expectExplanation(t, c, m)
	for _, do := range m.fix {
		do(t, c)
	}
	if m.fixDeletes {
		c.WaitForObject(t, kind, namespace, name, manifest.Gone)
		return
	}
	c.WaitForObject(t, kind, namespace, name, harness.IsUpToDate)
	c.DeleteAndWait(t, kind, namespace, name) // before the objects that it uses
}

// expectExplanation checks the condition and the event of a mistake.
func expectExplanation(t *testing.T, c *harness.Cluster, m userMistake) {
	t.Helper()
	kind, namespace, name := harness.ParseObjectName(m.object)
	o, err := c.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef(kind, namespace, name))
	if err != nil {
		t.Fatal(err)
	}
	message, _ := harness.FindCondition(o, m.condition)["message"].(string)
	t.Logf("%s=False %s: %s", m.condition, m.reason, message)
	if missing := firstMissing(message, m.wantWords); missing != "" ||
		(m.mustNotSay != "" && strings.Contains(message, m.mustNotSay)) {
		t.Errorf("the condition says %q; it should say %q, and not %q", message, m.wantWords, m.mustNotSay)
	}
	if m.condition != "Programmed" && m.condition != "Deletable" && manifest.True("Programmed")(o) {
		t.Error("it says that it is in force all the same")
	}
	var last corev1.Event
	c.PollUntil(t, "an event "+m.reason+" on "+m.object, func() bool {
		list, err := c.Client.CoreV1().Events(namespace).List(harness.Within(t, harness.Patience),
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list.Items, func(e corev1.Event) bool {
			return e.Reason == m.reason && e.InvolvedObject.UID == o.GetUID()
		})
		if i >= 0 {
			last = list.Items[i]
		}
		return i >= 0
	})
	if missing := firstMissing(last.Message, m.wantWords); missing != "" || last.Type != corev1.EventTypeWarning {
		t.Errorf("the event is %s %q; it should be a warning that says %q", last.Type, last.Message, m.wantWords)
	}
}

// firstMissing returns the first word that a text does not contain.
func firstMissing(text string, words []string) string {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return w
		}
	}
	return ""
}

// expectNoTransientEvents checks that there are no events for the intermediate states that every object passes.
func expectNoTransientEvents(t *testing.T, c *harness.Cluster) {
	t.Helper()
	list, err := c.Client.CoreV1().Events("").List(harness.Within(t, harness.Patience), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	normal := 0
	for _, e := range list.Items {
		if !slices.Contains([]string{"Project", "EIp", "FIp"}, e.InvolvedObject.Kind) {
			continue
		}
		if intent.IsTransientReason(e.Reason) {
			t.Errorf("%s %s/%s has the event %s: %s", e.InvolvedObject.Kind, e.Namespace, e.InvolvedObject.Name,
				e.Reason, e.Message)
		}
		if e.Reason == intent.Programmed && e.Message != "" {
			normal++
		}
	}
	if normal == 0 {
		t.Error("no object has an event that it is in force") // control: events are written
	}
}

// applyVM applies a virtual machine as KubeVirt reports it.
func applyVM(name, interfaces string) harness.Action {
	return harness.ApplyManifest(fmt.Sprintf(
		"{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: %s, namespace: mistakes-a}, status: {interfaces: [%s]}}",
		name, interfaces))
}
