package e2e

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

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// mistake is something that somebody does wrong, what they are told, and what then makes it right.
type mistake struct {
	what              string
	before, wrong     []deed
	on                string // whose condition and event
	condition, reason string
	says              []string // the cause and the next step, in the condition and in the event
	hides             string   // what a tenant must not be told
	cure              []deed
	ends              bool // the cure ends the object instead of bringing it into force
}

// deed is one thing that somebody does.
type deed func(*testing.T, *cluster)

// named is the parts of "Kind namespace/name".
func named(object string) (kind, namespace, name string) {
	kind, rest, _ := strings.Cut(object, " ")
	namespace, name, found := strings.Cut(rest, "/")
	if !found {
		return kind, "", rest
	}
	return kind, namespace, name
}

// put writes an object of ours.
func put(object, spec string) deed {
	return func(t *testing.T, c *cluster) {
		kind, namespace, name := named(object)
		c.write(t, kind, namespace, name, spec)
	}
}

// made writes an object of ours and waits until it is in force.
func made(object, spec string) deed {
	return func(t *testing.T, c *cluster) {
		kind, namespace, name := named(object)
		c.write(t, kind, namespace, name, spec)
		c.wait(t, kind, namespace, name, upToDate)
	}
}

// other writes an object of others.
func other(text string) deed { return func(t *testing.T, c *cluster) { c.apply(t, text) } }

// dropped deletes an object and waits until it is gone.
func dropped(object string) deed {
	return func(t *testing.T, c *cluster) {
		kind, namespace, name := named(object)
		c.remove(t, kind, namespace, name)
	}
}

// dropping deletes an object and does not wait.
func dropping(object string) deed {
	return func(t *testing.T, c *cluster) {
		kind, namespace, name := named(object)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		text := fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: %s, metadata: {name: %s, namespace: %s}}", kind, name, namespace)
		if err := c.objects.Delete(ctx, text); err == nil {
			t.Errorf("%s could be deleted while it is in use", object)
		}
	}
}

// mistakes makes every mistake, reads what it says, and cures it. The controller is the same all the time.
func (c *cluster) mistakes(t *testing.T) string {
	c.organization(t, "mistakes")
	c.project(t, "mistakes", "a", "10.62.0.0/24", "cloud")
	c.project(t, "mistakes", "b", "10.62.0.0/24", "cloud")
	all := slices.Concat(referenceMistakes, addressMistakes, poolMistakes, conflictMistakes, projectMistakes)
	for _, m := range all {
		t.Run(m.what, func(t *testing.T) { c.makes(t, m) })
	}
	c.noPassingEvents(t)
	return fmt.Sprintf("%d mistakes each gave a condition and an event with the cause and the next step, and after the cure all was in force, without a restart", len(all))
}

func (c *cluster) makes(t *testing.T, m mistake) {
	for _, do := range slices.Concat(m.before, m.wrong) {
		do(t, c)
	}
	kind, namespace, name := named(m.on)
	c.wait(t, kind, namespace, name, func(o *unstructured.Unstructured) bool { return reasonOf(o, m.condition) == m.reason })
	c.explains(t, m)
	for _, do := range m.cure {
		do(t, c)
	}
	if m.ends {
		c.wait(t, kind, namespace, name, manifest.Gone)
		return
	}
	c.wait(t, kind, namespace, name, upToDate)
	c.remove(t, kind, namespace, name) // before what it uses
}

// explains checks what the condition and the event of a mistake say.
func (c *cluster) explains(t *testing.T, m mistake) {
	t.Helper()
	kind, namespace, name := named(m.on)
	o, err := c.objects.Get(within(t, time.Minute), ref(kind, namespace, name))
	if err != nil {
		t.Fatal(err)
	}
	message, _ := condition(o, m.condition)["message"].(string)
	t.Logf("%s=False %s: %s", m.condition, m.reason, message)
	if missing := without(message, m.says); missing != "" || (m.hides != "" && strings.Contains(message, m.hides)) {
		t.Errorf("the condition says %q; it should say %q, and not %q", message, m.says, m.hides)
	}
	if m.condition != "Programmed" && m.condition != "Deletable" && manifest.True("Programmed")(o) {
		t.Error("it says that it is in force all the same")
	}
	var last corev1.Event
	c.until(t, "an event "+m.reason+" on "+m.on, func() bool {
		list, err := c.client.CoreV1().Events(namespace).List(within(t, time.Minute), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list.Items, func(e corev1.Event) bool { return e.Reason == m.reason && e.InvolvedObject.UID == o.GetUID() })
		if i >= 0 {
			last = list.Items[i]
		}
		return i >= 0
	})
	if missing := without(last.Message, m.says); missing != "" || last.Type != corev1.EventTypeWarning {
		t.Errorf("the event is %s %q; it should be a warning that says %q", last.Type, last.Message, m.says)
	}
}

// without is the first of some words that a text lacks.
func without(text string, words []string) string {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return w
		}
	}
	return ""
}

// noPassingEvents checks that nobody was bothered with the stages that every object goes through.
func (c *cluster) noPassingEvents(t *testing.T) {
	t.Helper()
	list, err := c.client.CoreV1().Events("").List(within(t, time.Minute), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	normal := 0
	for _, e := range list.Items {
		if !slices.Contains([]string{"Project", "EIp", "FIp"}, e.InvolvedObject.Kind) {
			continue
		}
		if intent.Passing(e.Reason) {
			t.Errorf("%s %s/%s has the event %s: %s", e.InvolvedObject.Kind, e.Namespace, e.InvolvedObject.Name, e.Reason, e.Message)
		}
		if e.Reason == intent.Programmed && e.Message != "" {
			normal++
		}
	}
	if normal == 0 {
		t.Error("no object has an event that it is in force") // control: events do come
	}
}

// tiny makes a subnet of a type on the third network's wire, with three addresses: the operator's work.
func tiny(name, kind, prefix string) deed {
	return func(t *testing.T, c *cluster) {
		c.apply(t, fmt.Sprintf(tinySubnet, name, kind, prefix))
		c.wait(t, "Subnet", "", name, manifest.True("Ready"))
	}
}

// machine writes a virtual machine as KubeVirt reports it.
func machine(name, interfaces string) deed {
	return other(fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: %s, namespace: mistakes-a}, status: {interfaces: [%s]}}",
		name, interfaces))
}
