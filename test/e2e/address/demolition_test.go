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

// demolish deletes all projects, each in its way, in random order and side by side. It returns how long each took to go.
func (d *deletion) demolish(t *testing.T) []time.Duration {
	t.Helper()
	ctx := harness.Within(t, 10*time.Minute)
	strokes := d.strokes(d.DirectClient(t, nil))
	d.chance.Shuffle(len(strokes), func(i, j int) { strokes[i], strokes[j] = strokes[j], strokes[i] })
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
		err = d.Objects.Delete(harness.Within(t, time.Minute), "{apiVersion: v1, kind: Namespace, metadata: {name: keep}}")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, d.stuck(t))
	}
	return d.times
}

// stroke does something, and returns what has to be waited for.
type stroke func(context.Context) (wait func() error, err error)

func (d *deletion) strokes(api client.Client) []stroke {
	strokes := []stroke{d.end(api, harness.Ref("Namespace", "", "doomed"))}
	for i, s := range d.sites {
		switch s.way {
		case "pieces":
			for _, o := range s.objects {
				strokes = append(strokes, d.end(api, o))
			}
			strokes = append(strokes, d.end(api, s.project()))
		case "whole":
			strokes = append(strokes, d.end(api, s.project()))
		case "namespace":
			strokes = append(strokes, d.comesBack(api, s))
		case "organization":
			strokes = append(strokes, d.gone(s.project()))
		case "haste":
			strokes = append(strokes, d.haste(api, s, i, time.Duration(d.chance.IntN(3000))*time.Millisecond))
		}
	}
	return strokes
}

// end deletes an object that may be gone already.
func (d *deletion) end(api client.Client, r manifest.Ref) stroke {
	return func(ctx context.Context) (func() error, error) {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(r.GVK)
		o.SetNamespace(r.Namespace)
		o.SetName(r.Name)
		if err := api.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("delete %s: %w", r, err)
		}
		return d.gone(r)(ctx)
	}
}

// gone waits until an object is gone and, if it is a Project, writes down how long that took.
func (d *deletion) gone(r manifest.Ref) stroke {
	return func(ctx context.Context) (func() error, error) {
		begin := time.Now()
		return func() error {
			if err := d.Objects.Wait(ctx, r, manifest.Gone); err != nil {
				return err
			}
			if r.GVK.Kind == "Project" {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.times = append(d.times, time.Since(begin))
			}
			return nil
		}, nil
	}
}

// comesBack deletes a project's namespace, and the project itself when it is in force again.
func (d *deletion) comesBack(api client.Client, s *site) stroke {
	return func(ctx context.Context) (func() error, error) {
		before, err := d.Objects.Get(ctx, harness.Ref("Namespace", "", s.namespace()))
		if err != nil {
			return nil, err
		}
		if _, err := d.end(api, harness.Ref("Namespace", "", s.namespace()))(ctx); err != nil {
			return nil, err
		}
		err = d.Objects.Wait(ctx, harness.Ref("Namespace", "", s.namespace()), func(o *unstructured.Unstructured) bool {
			return o != nil && o.GetUID() != before.GetUID()
		})
		if err == nil {
			err = d.Objects.Wait(ctx, harness.Ref("EIp", s.namespace(), "default-gw"), manifest.True("Programmed"))
		}
		if err == nil {
			err = d.Objects.Wait(ctx, s.project(), manifest.True("Programmed"))
		}
		if err != nil {
			return nil, err
		}
		return d.end(api, s.project())(ctx)
	}
}

// haste makes a project and deletes it a moment later, whatever there is of it by then.
func (d *deletion) haste(api client.Client, s *site, number int, after time.Duration) stroke {
	return func(ctx context.Context) (func() error, error) {
		if err := d.found(ctx, s, number); err != nil { // to its end: a request that is given up may still be carried out
			return nil, err
		}
		moment, stop := context.WithTimeout(ctx, after)
		defer stop()
		if err := d.furnish(moment, s, number); err == nil {
			<-moment.Done()
		}
		return d.end(api, s.project())(ctx)
	}
}

// stuck is what is left of projects, for a person to read.
func (d *deletion) stuck(t *testing.T) string {
	t.Helper()
	left := slices.DeleteFunc(objectLines(t, d.Cluster), func(line string) bool {
		return !strings.Contains(line, "keep") && !strings.Contains(line, "doomed")
	})
	return strings.Join(left, "\n")
}
