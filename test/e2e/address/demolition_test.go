package address

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// deleteAll deletes all projects, each in its own way, in random order and in parallel. It returns how long each
// deletion took.
func (d *deletionRun) deleteAll(t *testing.T) []time.Duration {
	t.Helper()
	ctx := harness.Within(t, 10*time.Minute)
	strokes := d.deletionSteps(d.NewDirectClient(t, nil))
	d.rng.Shuffle(len(strokes), func(i, j int) { strokes[i], strokes[j] = strokes[j], strokes[i] })
	var group, waits errgroup.Group
	group.SetLimit(16)
	for _, stroke := range strokes {
		group.Go(func() error {
			wait, err := stroke(ctx)
			if wait != nil {
				waits.Go(wait)
			}
			return err
		})
	}
	err := group.Wait()
	if gone := waits.Wait(); err == nil {
		err = gone
	}
	if err == nil {
		err = d.Objects.Delete(harness.Within(t, harness.Patience),
			"{apiVersion: v1, kind: Namespace, metadata: {name: keep}}")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, d.describeLeftovers(t))
	}
	return d.durations
}

// deletionStep performs a step and returns a function that waits for its effect.
type deletionStep func(context.Context) (wait func() error, err error)

func (d *deletionRun) deletionSteps(api client.Client) []deletionStep {
	strokes := []deletionStep{d.deleteStep(api, harness.ObjectRef("Namespace", "", "doomed"))}
	for i, s := range d.projects {
		switch s.deletionMode {
		case "pieces":
			for _, o := range s.objects {
				strokes = append(strokes, d.deleteStep(api, o))
			}
			strokes = append(strokes, d.deleteStep(api, s.projectRef()))
		case "whole":
			strokes = append(strokes, d.deleteStep(api, s.projectRef()))
		case "namespace":
			strokes = append(strokes, d.deleteNamespaceFirst(api, s))
		case "organization":
			strokes = append(strokes, d.waitGoneStep(s.projectRef()))
		case "haste":
			strokes = append(strokes, d.deleteWhileCreating(api, s, i,
				time.Duration(d.rng.IntN(3000))*time.Millisecond))
		}
	}
	return strokes
}

// deleteStep deletes an object that may already be gone.
func (d *deletionRun) deleteStep(api client.Client, r manifest.Ref) deletionStep {
	return func(ctx context.Context) (func() error, error) {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(r.GVK)
		o.SetNamespace(r.Namespace)
		o.SetName(r.Name)
		if err := api.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("delete %s: %w", r, err)
		}
		return d.waitGoneStep(r)(ctx)
	}
}

// waitGoneStep waits until an object is gone and, for a Project, records how long that took.
func (d *deletionRun) waitGoneStep(r manifest.Ref) deletionStep {
	return func(ctx context.Context) (func() error, error) {
		begin := time.Now()
		return func() error {
			if err := d.Objects.Wait(ctx, r, manifest.Gone); err != nil {
				return err
			}
			if r.GVK.Kind == "Project" {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.durations = append(d.durations, time.Since(begin))
			}
			return nil
		}, nil
	}
}

// deleteNamespaceFirst deletes a project's namespace, and the project itself when it is Programmed again.
func (d *deletionRun) deleteNamespaceFirst(api client.Client, s *projectCase) deletionStep {
	return func(ctx context.Context) (func() error, error) {
		before, err := d.Objects.Get(ctx, harness.ObjectRef("Namespace", "", s.namespace()))
		if err != nil {
			return nil, err
		}
		if _, err := d.deleteStep(api, harness.ObjectRef("Namespace", "", s.namespace()))(ctx); err != nil {
			return nil, err
		}
		err = d.Objects.Wait(ctx, harness.ObjectRef("Namespace", "", s.namespace()),
			func(o *unstructured.Unstructured) bool {
				return o != nil && o.GetUID() != before.GetUID()
			})
		if err == nil {
			err = d.Objects.Wait(ctx, harness.ObjectRef("EIp", s.namespace(), "default-gw"),
				manifest.True("Programmed"))
		}
		if err == nil {
			err = d.Objects.Wait(ctx, s.projectRef(), manifest.True("Programmed"))
		}
		if err != nil {
			return nil, err
		}
		return d.deleteStep(api, s.projectRef())(ctx)
	}
}

// deleteWhileCreating creates a project and deletes it a moment later, whatever exists by then.
func (d *deletionRun) deleteWhileCreating(api client.Client, s *projectCase, number int,
	after time.Duration,
) deletionStep {
	return func(ctx context.Context) (func() error, error) {
		// wait for the request: a cancelled request may still be executed
		if err := d.createProject(ctx, s, number); err != nil {
			return nil, err
		}
		moment, stop := context.WithTimeout(ctx, after)
		defer stop()
		if err := d.createAddresses(moment, s, number); err == nil {
			<-moment.Done()
		}
		return d.deleteStep(api, s.projectRef())(ctx)
	}
}

// describeLeftovers formats what remains of projects.
func (d *deletionRun) describeLeftovers(t *testing.T) string {
	t.Helper()
	left := slices.DeleteFunc(listObjectLines(t, d.Cluster), func(line string) bool {
		return !strings.Contains(line, "keep") && !strings.Contains(line, "doomed")
	})
	return strings.Join(left, "\n")
}
