package agent

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	apiretry "k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/kernel"
	"github.com/sallyport/sallyport/internal/openvswitch"
)

// So many Inspections are answered at once. One that was there before the agent, and for so long, nobody waits for any more.
const (
	atOnce = 4
	stale  = 2 * time.Minute
)

// desk is where Inspections of this node are answered, each once: a question can't change.
type desk struct {
	inspector *inspector
	api       client.Client
	slots     chan struct{}
	failed    func(error)
}

// inspections answers Inspections until the context ends. It has a cache of its own: NodePaths are carried out where there are no Inspections,
// or not yet, too.
func (a *Agent) inspections(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.answer(ctx); err != nil {
			a.log.Error("Inspections are not answered", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(stale):
		}
	}
}

func (a *Agent) answer(ctx context.Context) error {
	k, err := kernel.Open()
	if err != nil {
		return err
	}
	defer k.Close()
	d := &desk{
		inspector: &inspector{k, openvswitch.Node{Switch: a.config.SwitchDir, Controller: a.config.ControllerDir}}, api: a.api,
		slots: make(chan struct{}, atOnce), failed: func(err error) { a.log.Error("could not answer an Inspection", "error", err) },
	}
	all, err := cache.New(a.config.Kubernetes, cache.Options{Scheme: a.api.Scheme(), ByObject: map[client.Object]cache.ByObject{
		&kubedcv1alpha1.Inspection{}: {Field: fields.OneTermEqualSelector("spec.node", a.config.Node)},
	}})
	if err != nil {
		return err
	}
	informer, err := all.GetInformer(ctx, &kubedcv1alpha1.Inspection{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, before bool) { d.comes(ctx, o.(*kubedcv1alpha1.Inspection), before) },
	}); err != nil {
		return err
	}
	return all.Start(ctx)
}

// comes answers an Inspection.
func (d *desk) comes(ctx context.Context, o *kubedcv1alpha1.Inspection, before bool) {
	if !d.open(o, before) {
		return
	}
	go func() {
		d.slots <- struct{}{}
		defer func() { <-d.slots }()
		if err := d.reply(ctx, o); err != nil && ctx.Err() == nil {
			d.failed(err)
		}
	}()
}

// open says whether an Inspection waits for an answer. The clock of this node may be wrong, which an answer would show, so only those that were
// there before the agent are judged by it.
func (*desk) open(o *kubedcv1alpha1.Inspection, before bool) bool {
	return o.Status.Time == nil && (!before || time.Since(o.CreationTimestamp.Time) < stale)
}

// reply writes the answer. Whoever asked may have stopped waiting and deleted it.
func (d *desk) reply(ctx context.Context, o *kubedcv1alpha1.Inspection) error {
	next := o.DeepCopy()
	next.Status = d.inspector.answer(ctx, o.Spec)
	raw, err := client.MergeFrom(o).Data(next)
	if err != nil {
		return err
	}
	err = apiretry.OnError(apiretry.DefaultBackoff, func(err error) bool { return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) }, func() error {
		return d.api.Status().Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, raw))
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the answer to Inspection %s: %w", o.Name, err)
	}
	return nil
}
