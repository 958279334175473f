// Package agent is Sallyport on a node: it carries out the node's NodePath, and answers questions about the node.
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
	"github.com/sallyport/sallyport/internal/event"
	"github.com/sallyport/sallyport/internal/nodepath"
)

// A burst of events is one run: it begins so long after the first. What failed is tried again after a time.
const (
	burst = 20 * time.Millisecond
	retry = 5 * time.Second
)

// Config is what the operator chooses.
type Config struct {
	Kubernetes *rest.Config
	Node       string
	// NodePaths says whether the node's is carried out. Dir is where former settings are written down, and Sysctl where the node's settings are
	// files that can be written.
	NodePaths   bool
	Dir, Sysctl string
	// Inspections says whether they are answered. SwitchDir and ControllerDir are where Open vSwitch and ovn-controller have their sockets;
	// empty: they are not asked.
	Inspections              bool
	SwitchDir, ControllerDir string
}

// Agent does what there is to do on one node.
type Agent struct {
	config  Config
	carrier *Carrier
	paths   cache.Cache
	api     client.Client
	record  *event.Recorder
	log     *slog.Logger

	wake chan struct{}
	// settled is what the kernel should hold, and did after the last run; nil: it did not.
	settled *nodepath.Kernel
	repairs repairs
}

// Run does what the operator chose until the context ends. What the kernel holds by then stays.
func Run(ctx context.Context, c Config, logger *slog.Logger) error {
	scheme := runtime.NewScheme()
	if err := kubedcv1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	api, err := client.New(c.Kubernetes, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	a := &Agent{config: c, api: api, log: logger, wake: make(chan struct{}, 1)}
	if c.Inspections {
		go a.inspections(ctx)
	}
	if c.NodePaths {
		return a.carryOut(ctx)
	}
	<-ctx.Done()
	return nil
}

// carryOut carries the NodePath out.
func (a *Agent) carryOut(ctx context.Context) error {
	carrier, err := NewCarrier(a.config.Dir, a.config.Sysctl)
	if err != nil {
		return err
	}
	defer carrier.Close()
	a.carrier = carrier
	if err := carrier.kernel.Watch(ctx, a.ask); err != nil {
		return err
	}
	if err := a.connect(ctx); err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	a.ask()
	for a.wait(ctx) {
		if err := a.run(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("could not carry out the NodePath", "error", err)
			time.AfterFunc(retry, a.ask)
		}
	}
	return nil
}

// ask asks for a run.
func (a *Agent) ask() {
	select {
	case a.wake <- struct{}{}:
	default: // it is asked for already
	}
}

// wait waits until a run is asked for, and for what comes with it.
func (a *Agent) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-a.wake:
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(burst):
		return true
	}
}

// connect follows the NodePath of this node, and no other.
func (a *Agent) connect(ctx context.Context) (err error) {
	a.paths, err = cache.New(a.config.Kubernetes, cache.Options{Scheme: a.api.Scheme(), ByObject: map[client.Object]cache.ByObject{
		&kubedcv1alpha1.NodePath{}: {Field: fields.OneTermEqualSelector("metadata.name", a.config.Node)},
	}})
	if err != nil {
		return err
	}
	informer, err := a.paths.GetInformer(ctx, &kubedcv1alpha1.NodePath{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { a.ask() }, UpdateFunc: func(any, any) { a.ask() }, DeleteFunc: func(any) { a.ask() },
	}); err != nil {
		return err
	}
	if err := a.events(ctx); err != nil {
		return err
	}
	go func() { _ = a.paths.Start(ctx) }() // it fails only when it is started twice
	if !a.paths.WaitForCacheSync(ctx) {
		return fmt.Errorf("the NodePath could not be read: %w", context.Cause(ctx))
	}
	return nil
}

// run brings the kernel to what is asked for, and reports.
func (a *Agent) run(ctx context.Context) error {
	path := &kubedcv1alpha1.NodePath{}
	err := a.paths.Get(ctx, client.ObjectKey{Name: a.config.Node}, path)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	report, err := a.carrier.Carry(ctx, path.Spec)
	if err != nil {
		return err
	}
	if len(report.Changes) > 0 {
		a.changed(report)
	}
	a.settled = nil
	if len(report.Failures) == 0 {
		a.settled = report.Want
	}
	if path.Name != "" {
		err = a.report(ctx, path, report)
	}
	if err == nil && len(report.Failures) > 0 {
		err = report.Failures[0]
	}
	return err
}

// changed notes what was done. Where nothing else was wanted than the last time, somebody else has taken it away.
func (a *Agent) changed(report *Report) {
	a.log.Info("the kernel was changed", "changes", len(report.Changes), "first", report.Changes[0])
	if reflect.DeepEqual(a.settled, report.Want) {
		a.repairs.happened(time.Now(), report.Changes)
		time.AfterFunc(within, a.ask) // then it may be undisturbed again
	}
}

// report writes the status, and an event for each condition that is another than before.
func (a *Agent) report(ctx context.Context, path *kubedcv1alpha1.NodePath, report *Report) error {
	status := render(path, report, &a.repairs, time.Now())
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
		if before != nil && before.Status == c.Status && before.Reason == c.Reason || before == nil && c.Status == "True" {
			continue
		}
		kind := corev1.EventTypeNormal
		if c.Status != "True" {
			kind = corev1.EventTypeWarning
		}
		a.record.Record(path, kind, c.Reason, "Carry", cmp.Or(c.Message, c.Type+" is "+string(c.Status)))
	}
	return nil
}

// events tells of what changes.
func (a *Agent) events(ctx context.Context) error {
	set, err := kubernetes.NewForConfig(a.config.Kubernetes)
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: set.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	a.record = event.New(broadcaster.NewRecorder(a.api.Scheme(), "sallyport-agent"), a.api.Scheme(), time.Now)
	return nil
}
