// Package agent is the wiring of the node agent: it applies the node's NodePath and answers Inspections.
package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kube/event"
	"github.com/sallyport/sallyport/internal/model/nodepath"
)

// A run starts burstDelay after the first event of a burst, and retryDelay after a failure.
const (
	burstDelay = 20 * time.Millisecond
	retryDelay = 5 * time.Second
)

// Config holds the operator's settings.
type Config struct {
	Kubernetes *rest.Config
	Node       string
	// NodePaths: apply the NodePath of the node. StateDir stores previous sysctl values, SysctlRoot is a writable
	// /proc/sys of the node.
	NodePaths            bool
	StateDir, SysctlRoot string
	// TableNamesDir is a directory from which iproute2 reads names of routing tables; empty: tables have no names.
	TableNamesDir string
	// Inspections: answer Inspections. SwitchDir and ControllerDir contain the sockets of Open vSwitch and
	// ovn-controller; empty: they are not queried.
	Inspections              bool
	SwitchDir, ControllerDir string
}

// Agent runs on one node.
type Agent struct {
	config    Config
	applier   *Applier
	nodePaths cache.Cache
	api       client.Client
	recorder  *event.Recorder
	log       *slog.Logger

	trigger chan struct{}
	// lastApplied is the wanted kernel state that the last run applied completely; nil: it did not.
	lastApplied *nodepath.Kernel
	repairs     repairHistory
}

// Run runs the agent until the context ends. The kernel state is kept.
func Run(ctx context.Context, c Config, logger *slog.Logger) error {
	scheme := runtime.NewScheme()
	if err := kubedcv1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	api, err := client.New(c.Kubernetes, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	a := &Agent{config: c, api: api, log: logger, trigger: make(chan struct{}, 1)}
	if c.Inspections {
		go a.runInspections(ctx)
	}
	if c.NodePaths {
		return a.runNodePath(ctx)
	}
	<-ctx.Done()
	return nil
}

// runNodePath applies the NodePath until the context ends.
func (a *Agent) runNodePath(ctx context.Context) error {
	applier, err := NewApplier(a.config.StateDir, a.config.SysctlRoot, a.config.TableNamesDir)
	if err != nil {
		return err
	}
	defer applier.Close()
	a.applier = applier
	if err := applier.kernel.Watch(ctx, a.triggerRun); err != nil {
		return err
	}
	if err := a.startNodePathCache(ctx); err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	a.triggerRun()
	for a.waitForTrigger(ctx) {
		if err := a.reconcile(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("failed to apply the NodePath", "error", err)
			time.AfterFunc(retryDelay, a.triggerRun)
		}
	}
	return nil
}

// triggerRun requests a run.
func (a *Agent) triggerRun() {
	select {
	case a.trigger <- struct{}{}:
	default: // already requested
	}
}

// waitForTrigger waits for a request, and then for the rest of the burst.
func (a *Agent) waitForTrigger(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-a.trigger:
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(burstDelay):
		return true
	}
}

// startNodePathCache watches the NodePath of this node only.
func (a *Agent) startNodePathCache(ctx context.Context) (err error) {
	a.nodePaths, err = cache.New(a.config.Kubernetes,
		cache.Options{Scheme: a.api.Scheme(), ByObject: map[client.Object]cache.ByObject{
			&kubedcv1alpha1.NodePath{}: {Field: fields.OneTermEqualSelector("metadata.name", a.config.Node)},
		}})
	if err != nil {
		return err
	}
	informer, err := a.nodePaths.GetInformer(ctx, &kubedcv1alpha1.NodePath{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) {
			a.triggerRun()
		}, UpdateFunc: func(any, any) { a.triggerRun() }, DeleteFunc: func(any) { a.triggerRun() },
	}); err != nil {
		return err
	}
	if err := a.startEventRecorder(ctx); err != nil {
		return err
	}
	go func() { _ = a.nodePaths.Start(ctx) }() // it fails only if it is started twice
	if !a.nodePaths.WaitForCacheSync(ctx) {
		return fmt.Errorf("read the NodePath: %w", context.Cause(ctx))
	}
	return nil
}

// reconcile brings the kernel to the wanted state and writes the status.
func (a *Agent) reconcile(ctx context.Context) error {
	path := &kubedcv1alpha1.NodePath{}
	err := a.nodePaths.Get(ctx, client.ObjectKey{Name: a.config.Node}, path)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	report, err := a.applier.Apply(ctx, path.Spec)
	if err != nil {
		return err
	}
	if len(report.Changes) > 0 {
		a.recordChanges(report)
	}
	a.lastApplied = nil
	if len(report.Failures) == 0 {
		a.lastApplied = report.Want
	}
	if path.Name != "" {
		err = a.writeStatus(ctx, path, report)
	}
	if err == nil && len(report.Failures) > 0 {
		err = report.Failures[0]
	}
	return err
}

// recordChanges records what changed. If the wanted state is the same as last time, someone else removed our entries.
func (a *Agent) recordChanges(report *Report) {
	a.log.Info("changed the kernel state", "changes", len(report.Changes), "first", report.Changes[0])
	if reflect.DeepEqual(a.lastApplied, report.Want) {
		a.repairs.recordRepair(time.Now(), report.Changes)
		time.AfterFunc(disturbedWindow, a.triggerRun) // it may be undisturbed again by then
	}
}

// writeStatus writes the status, and an Event for each changed condition.
func (a *Agent) writeStatus(ctx context.Context, path *kubedcv1alpha1.NodePath, report *Report) error {
	status := renderStatus(path, report, &a.repairs, time.Now())
	if equality.Semantic.DeepEqual(status, path.Status) {
		return nil
	}
	next := path.DeepCopy()
	next.Status = status
	if err := a.api.Status().Patch(ctx, next, client.MergeFrom(path)); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	for _, c := range status.Conditions {
		before := meta.FindStatusCondition(path.Status.Conditions, c.Type)
		if before != nil && before.Status == c.Status && before.Reason == c.Reason || before == nil &&
			c.Status == "True" {
			continue
		}
		kind := corev1.EventTypeNormal
		if c.Status != "True" {
			kind = corev1.EventTypeWarning
		}
		a.recorder.Record(path, kind, c.Reason, "Carry", cmp.Or(c.Message, c.Type+" is "+string(c.Status)))
	}
	return nil
}

func (a *Agent) startEventRecorder(ctx context.Context) error {
	set, err := kubernetes.NewForConfig(a.config.Kubernetes)
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: set.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	a.recorder = event.New(broadcaster.NewRecorder(a.api.Scheme(), "sallyport-agent"), a.api.Scheme(), time.Now)
	return nil
}
