// Package observer is the taking of surveys: it reads Kubernetes and OVN's databases, compares them with what is asked for, and asks nodes.
package observer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/internal/kube"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/ovn"
	"github.com/sallyport/sallyport/internal/survey"
)

// syncLimit is how long northd and chassis may take to say that they have carried everything out.
const syncLimit = 3 * time.Second

// Config is what is looked at.
type Config struct {
	// Cluster is its name.
	Cluster string
	// Controller is how the controller reaches everything, and what it was told.
	Controller controller.Config
	// Namespaces are where the platform runs.
	Namespaces kube.Namespaces
}

// Scope is how much of a cluster a survey is to tell.
type Scope struct {
	// Shards are those that are compiled and compared with what is there; All: all that there are; About: those that follow from what was
	// read.
	Shards []string
	All    bool
	About  func(*survey.Survey) []string
	// Sync: northd and chassis are asked for a sign of life first. This writes a number to the northbound database.
	Sync bool
	// Questions are those to nodes, of which each may be asked once. They follow from what was read; nil: nobody is asked.
	Questions func(*survey.Survey) []kubedcv1alpha1.InspectionSpec
}

// Observer takes surveys of one cluster.
type Observer struct {
	config  Config
	cluster *kube.Surveyor

	mu   sync.Mutex
	look *controller.Shards // nil: nobody has asked for shards yet
	end  context.CancelFunc
}

// Open is an observer of a cluster. It connects when it is asked.
func Open(config Config) (*Observer, error) {
	cluster, err := kube.NewSurveyor(config.Controller.Kubernetes, config.Namespaces)
	if err != nil {
		return nil, err
	}
	return &Observer{config: config, cluster: cluster}, nil
}

// Close ends what was begun.
func (o *Observer) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.look != nil {
		o.look.NB.Close()
		o.look.SB.Close()
		o.end()
		o.look = nil
	}
}

// Survey takes a survey. What can't be read is told in it; its texts can be printed as they are.
func (o *Observer) Survey(ctx context.Context, scope Scope) *survey.Survey {
	out := &survey.Survey{}
	if scope.Sync {
		o.sync(ctx)
	}
	out.Taken = time.Now().Round(0).UTC()
	var group sync.WaitGroup
	var kubernetes, engine []survey.Unread
	var problem error
	group.Go(func() { out.Cluster, kubernetes = o.cluster.Cluster(ctx, o.config.Controller.Defaults) })
	group.Go(func() {
		out.Logical, out.Certificates, engine = o.network(ctx)
		if problem = because(engine, survey.Northbound); problem == nil && scope.compiles() {
			out.Shards, problem = o.Shards(ctx, scope)
		}
	})
	group.Wait()
	out.Cluster.Name = o.config.Cluster
	out.Certificates = append(o.certificates(), out.Certificates...)
	out.Unread = slices.Concat(kubernetes, engine)
	if problem != nil {
		out.Shards = unknown(scope, &out.Cluster, problem)
	}
	o.follow(ctx, scope, out)
	shown := survey.Visible(*out)
	return &shown
}

// follow adds what follows from what was read: shards that somebody asks about, and what nodes say.
func (o *Observer) follow(ctx context.Context, scope Scope, out *survey.Survey) {
	var group sync.WaitGroup
	var inspected map[string]survey.Inspected
	if scope.Questions != nil {
		questions := scope.Questions(out)
		group.Go(func() { inspected = o.cluster.Ask(ctx, questions) })
	}
	if scope.About != nil {
		about := Scope{Shards: scope.About(out)}
		problem := because(out.Unread, survey.Northbound)
		if problem == nil && about.compiles() {
			out.Shards, problem = o.Shards(ctx, about)
		}
		if problem != nil {
			out.Shards = unknown(about, &out.Cluster, problem)
		}
	}
	group.Wait()
	out.Inspected = inspected
}

// sync asks northd and chassis for a sign of life. When nobody can be asked, reading says why.
func (o *Observer) sync(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	_ = ovn.Sync(ctx, o.config.Controller.Northbound)
}

// network reads both databases of OVN, and the certificates that their servers show.
func (o *Observer) network(ctx context.Context) (logical.Network, []survey.Certificate, []survey.Unread) {
	var north, south *ovn.Tables
	problems := make([]error, 2)
	var group sync.WaitGroup
	group.Go(func() { north, problems[0] = ovn.ReadNorthbound(ctx, o.config.Controller.Northbound) })
	group.Go(func() { south, problems[1] = ovn.ReadSouthbound(ctx, o.config.Controller.Southbound) })
	group.Wait()
	var shown []survey.Certificate
	var unread []survey.Unread
	for i, system := range []string{survey.Northbound, survey.Southbound} {
		tables := []*ovn.Tables{north, south}[i]
		switch {
		case problems[i] != nil:
			unread = append(unread, survey.Unread{System: system, Problem: oneLine(problems[i])})
		case !tables.Expires.IsZero():
			shown = append(shown, survey.Certificate{For: "clients of the " + system, Expires: tables.Expires})
		}
	}
	return ovn.Network(north, south), shown, unread
}

// certificates are those that we show.
func (o *Observer) certificates() (out []survey.Certificate) {
	for _, c := range []survey.Certificate{
		{For: survey.Kubernetes, Expires: kube.Expires(o.config.Controller.Kubernetes)},
		{For: "OVN's databases", Expires: o.config.Controller.Northbound.Expires()},
	} {
		if !c.Expires.IsZero() {
			out = append(out, c)
		}
	}
	return out
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
