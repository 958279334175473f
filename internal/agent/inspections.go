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
	"github.com/sallyport/sallyport/internal/engine/kernel"
	"github.com/sallyport/sallyport/internal/engine/openvswitch"
)

// How many Inspections are answered at the same time. An Inspection that is older than staleAfter when the agent starts
// is not answered: nobody waits for it any more.
const (
	maxConcurrentAnswers = 4
	staleAfter           = 2 * time.Minute
)

// inspectionServer answers the Inspections of this node, each once: their spec is immutable.
type inspectionServer struct {
	inspector *inspector
	api       client.Client
	slots     chan struct{}
	onError   func(error)
}

// runInspections answers Inspections until the context ends. It has its own cache, so that NodePaths are applied even
// if the kind Inspection is not installed, or not yet.
func (a *Agent) runInspections(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.serveInspections(ctx); err != nil {
			a.log.Error("failed to serve Inspections", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(staleAfter):
		}
	}
}

func (a *Agent) serveInspections(ctx context.Context) error {
	k, err := kernel.Open()
	if err != nil {
		return err
	}
	defer k.Close()
	d := &inspectionServer{
		inspector: &inspector{k, openvswitch.Node{
			SwitchDir:     a.config.SwitchDir,
			ControllerDir: a.config.ControllerDir,
		}, newSendLimiter()}, api: a.api,
		slots: make(chan struct{}, maxConcurrentAnswers), onError: func(err error) {
			a.log.Error("failed to answer an Inspection", "error", err)
		},
	}
	all, err := cache.New(a.config.Kubernetes,
		cache.Options{Scheme: a.api.Scheme(), ByObject: map[client.Object]cache.ByObject{
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
		AddFunc: func(o any, before bool) { d.handleInspection(ctx, o.(*kubedcv1alpha1.Inspection), before) },
	}); err != nil {
		return err
	}
	return all.Start(ctx)
}

func (d *inspectionServer) handleInspection(ctx context.Context, o *kubedcv1alpha1.Inspection, before bool) {
	if !d.needsAnswer(o, before) {
		return
	}
	go func() {
		d.slots <- struct{}{}
		defer func() { <-d.slots }()
		if err := d.writeAnswer(ctx, o); err != nil && ctx.Err() == nil {
			d.onError(err)
		}
	}()
}

// needsAnswer reports whether an Inspection waits for an answer. The clock of this node may be wrong, and an answer
// would show that, so the age only matters for Inspections that existed before the agent started.
func (*inspectionServer) needsAnswer(o *kubedcv1alpha1.Inspection, before bool) bool {
	return o.Status.Time == nil && (!before || time.Since(o.CreationTimestamp.Time) < staleAfter)
}

// writeAnswer writes the answer. If packets are to be counted, it first writes that the node counts, so that the client
// knows when to send one.
func (d *inspectionServer) writeAnswer(ctx context.Context, o *kubedcv1alpha1.Inspection) error {
	next := o.DeepCopy()
	packets := d.inspector.startCount(ctx, o.Spec.Count)
	if packets != nil && packets.problem == nil {
		next.Status.Counting = true
		if err := d.patchStatus(ctx, o, next); err != nil {
			packets.counter.Close()
			return err
		}
	}
	next.Status = d.inspector.answerInspection(ctx, o.Spec)
	packets.addTo(ctx, &next.Status)
	return d.patchStatus(ctx, o, next)
}

// patchStatus writes the status of an Inspection. The client may have stopped waiting and deleted it.
func (d *inspectionServer) patchStatus(ctx context.Context, o, next *kubedcv1alpha1.Inspection) error {
	raw, err := client.MergeFrom(o).Data(next)
	if err != nil {
		return err
	}
	err = apiretry.OnError(apiretry.DefaultBackoff, func(err error) bool {
		return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)
	}, func() error {
		return d.api.Status().Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, raw))
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the answer to Inspection %s: %w", o.Name, err)
	}
	return nil
}
