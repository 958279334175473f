package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
)

// Codes of objects that do not get ready, besides the reasons of conditions.
const (
	refused     = "Refused"     // the API server does not accept the object
	noStatus    = "NoStatus"    // the controller has not written a status
	notRunning  = "NotRunning"  // a pod
	notReadable = "NotReadable" // an object of the run
)

// createTimeout limits one request, also after the user has interrupted the run: an object whose creation was requested
// has to exist before the removal looks for it.
const createTimeout = 10 * time.Second

// pendingError says why an object is not ready.
type pendingError struct{ code, text string }

func (e *pendingError) Error() string { return e.text }

// create creates an object.
func (r *run) create(ctx context.Context, o client.Object) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	if err := r.API.Create(ctx, o); err != nil {
		return &pendingError{refused, err.Error()}
	}
	return nil
}

// createPod creates a pod. While namespaces settle, it tries again: a new namespace accepts no pod until its subnet and its
// ServiceAccount exist.
func (r *run) createPod(ctx, settling context.Context, pod *corev1.Pod) error {
	for {
		err := r.create(ctx, pod.DeepCopy())
		if err == nil || !pause(settling) {
			return err
		}
	}
}

// waitFor waits until the function finds nothing that an object lacks, and returns what it lacks in the end. It does not
// wait for an object that lacks the same for a while and will not get it by itself.
func (r *run) waitFor(ctx context.Context, o client.Object, findLack func(client.Object) *pendingError) error {
	var last *pendingError
	var since time.Time
	for {
		lack := &pendingError{}
		if err := r.API.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			lack = &pendingError{notReadable, err.Error()}
		} else if lack = findLack(o); lack == nil {
			return nil
		}
		if last == nil || last.code != lack.code {
			since = r.Now()
		}
		if last == nil || ctx.Err() == nil {
			last = lack
		}
		if isFinal(last.code) && r.Now().Sub(since) >= settledAfter || !pause(ctx) {
			return last
		}
	}
}

// isFinal reports whether an object with this reason does not get ready by itself.
func isFinal(code string) bool {
	return !slices.Contains([]string{noStatus, notRunning, notReadable}, code) && !intent.IsTransientReason(code)
}

// findMissingStatus returns why an object of Sallyport is not Programmed; nil: it is.
func findMissingStatus(o client.Object) *pendingError {
	conditions := conditionsOf(o)
	if meta.IsStatusConditionTrue(conditions, kubedcv1.ConditionProgrammed) {
		return nil
	}
	var first *metav1.Condition // the cause: a consequence only if there is nothing else
	for i := range conditions {
		c := &conditions[i]
		if c.Status == metav1.ConditionFalse && (first == nil || intent.IsConsequence(first.Reason)) {
			first = c
		}
	}
	if first == nil {
		return &pendingError{noStatus, "the controller has written no status"}
	}
	return &pendingError{first.Reason, first.Reason + ": " + first.Message}
}

// conditionsOf returns the conditions of an object.
func conditionsOf(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *kubedcv1.Project:
		return o.Status.Conditions
	case *kubedcv1.FIp:
		return o.Status.Conditions
	case *ovnv1.EgressIP:
		return o.Status.Conditions
	case *corev1.Service:
		return o.Status.Conditions
	default:
		return nil
	}
}

// findPodProblem returns why a pod is not Ready; nil: it is.
func findPodProblem(o client.Object) *pendingError {
	pod := o.(*corev1.Pod)
	var seen []string
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
		if c.Status == corev1.ConditionFalse && c.Type != corev1.PodReady && c.Message != "" {
			seen = append(seen, c.Message)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			seen = append(seen, strings.TrimSpace(w.Reason+" "+w.Message))
		}
	}
	return &pendingError{notRunning, cmp.Or(strings.Join(seen, "; "), "phase "+string(pod.Status.Phase))}
}

// refusedBySettings are reasons of requests that the platform's settings refuse: no faults.
var refusedBySettings = []string{
	intent.QuotaExceeded, intent.NetworkNotAllowed, intent.NetworkNotSupported, intent.NeedsConnectionReturnPath,
}

// failObject reports an object that does not get ready.
func (r *run) failObject(check string, o client.Object, err error) {
	problem := &pendingError{code: notReadable, text: err.Error()}
	errors.As(err, &problem)
	switch name := describe(o); {
	case slices.Contains(refusedBySettings, problem.code):
		r.skip(check, problem.code, "", "%s: %s", name, problem.text)
	case problem.code == refused:
		r.fail(check, refused, "the how-to of the installation lists the permissions that the self-test needs", "%s: %s", name,
			problem.text)
	case problem.code == noStatus:
		r.fail(check, noStatus, "sallyport status", "%s: %s", name, problem.text)
	default:
		r.fail(check, problem.code, r.advise(o), "%s: %s", name, problem.text)
	}
}

// advise returns the command that says more about an object of the run.
func (r *run) advise(o client.Object) string {
	command := fmt.Sprintf("sallyport explain %s -n %s", strings.ToLower(describe(o)), o.GetNamespace())
	switch o.(type) {
	case *corev1.Pod:
		command = fmt.Sprintf("kubectl describe pod %s -n %s", o.GetName(), o.GetNamespace())
	case *ovnv1.EgressIP:
		command = "sallyport explain egressip/" + o.GetName()
	}
	return r.adviseKept(command)
}

// adviseKept returns a command for an object of the run, or how to get such an object.
func (r *run) adviseKept(command string) string {
	if r.Keep {
		return command
	}
	return "sallyport doctor; or run it again with --keep, and then, with the new names: " + command
}

// describe returns kind and name of an object.
func describe(o client.Object) string {
	key, err := kube.KeyOf(o)
	if err != nil {
		return o.GetName()
	}
	return string(key.Kind) + "/" + key.Name
}
