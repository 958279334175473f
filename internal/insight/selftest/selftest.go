// Package selftest tries an installation with packets: it creates projects with pods and addresses on every external
// network, requests the addresses, and removes everything.
package selftest

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/insight/preflight"
)

// Limits. A test has one of its own besides (Options.Timeout).
const (
	stepTimeout    = time.Minute      // until the objects of a step are ready
	settledAfter   = 10 * time.Second // an object with the same problem for so long is not waited for
	requestTimeout = 20 * time.Second // until an address answers; nodes apply new rows one by one
	removalTimeout = 2 * time.Minute
	pollInterval   = 250 * time.Millisecond
)

// Tester tests clusters.
type Tester struct {
	API client.Client
	// Ask lets a pod of a test request a URL, and returns the text of the answer.
	Ask func(ctx context.Context, pod client.ObjectKey, url string) (string, error)
	// RunCommand runs a command on this machine and returns its output.
	RunCommand func(ctx context.Context, argv []string) (string, error)
	// ShowProgress tells the user what is being done.
	ShowProgress func(doing string)
	NewID        func() string // of a run: letters and digits
	Now          func() time.Time
}

// Options are what the user chooses for a run.
type Options struct {
	Image   string        // of the pods; it has the program sallyport-agent
	Nodes   []string      // that run the pods; empty: two of those that can
	Outside []string      // command that requests a URL, which is appended; empty: nothing is requested from outside
	Timeout time.Duration // without the removal
	Keep    bool          // do not remove the objects
}

// run is one test.
type run struct {
	*Tester
	Options
	id          string
	cluster     *cluster
	interrupted func() bool
	results     []preflight.Result
}

// Run tests a cluster. When the context ends it only removes what it has created.
func (t *Tester) Run(ctx context.Context, o Options) []preflight.Result {
	r := &run{Tester: t, Options: o, id: t.NewID(), interrupted: func() bool { return ctx.Err() != nil }}
	r.removeEarlierRuns(ctx)
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	for _, step := range []func(context.Context) bool{
		r.readCluster, r.createProjects, r.startPods, r.createAddresses, r.checkNetworks, r.checkEgressIP,
	} {
		if limited.Err() != nil || !step(limited) {
			break
		}
	}
	r.interrupted = func() bool { return false }
	switch {
	case ctx.Err() != nil:
		r.skip("Run", "Interrupted", "run it again", "interrupted; what is not in this list was not checked")
	case limited.Err() != nil:
		r.skip("Run", "TimedOut", "run it again with a longer --timeout",
			"not done after %s; what is not in this list was not checked", o.Timeout)
	}
	r.removeOwnObjects(context.WithoutCancel(ctx))
	return r.results
}

// removeOwnObjects removes what this run has created, unless the user wants to keep it.
func (r *run) removeOwnObjects(ctx context.Context) {
	if r.Keep {
		r.skip(removal, "", "sallyport check --clean", "kept: the Projects of namespace %s, and EgressIP %s", r.organization(),
			r.organization())
		return
	}
	r.results = append(r.results, r.remove(ctx, removal, []string{r.id})...)
}

// pass reports that nothing is wrong.
func (r *run) pass(check, format string, args ...any) {
	r.add(preflight.Result{Check: check, State: preflight.OK, Seen: fmt.Sprintf(format, args...)})
}

// skip reports that a check was not done. With a code, it should have been.
func (r *run) skip(check, code, next, format string, args ...any) {
	r.add(preflight.Result{
		Check: check, State: preflight.NotChecked, Code: code, Next: next, Seen: fmt.Sprintf(format, args...),
	})
}

// fail reports that something does not work.
func (r *run) fail(check, code, next, format string, args ...any) {
	r.add(preflight.Result{Check: check, State: preflight.Failed, Code: code, Next: next, Seen: fmt.Sprintf(format, args...)})
}

// add adds a result. What fails because the user has interrupted the run says nothing about the cluster.
func (r *run) add(result preflight.Result) {
	if !r.interrupted() {
		r.results = append(r.results, result)
	}
}

// since formats the time since a moment.
func (r *run) since(begun time.Time) string {
	return r.Now().Sub(begun).Round(100 * time.Millisecond).String()
}

// pause waits for a moment. It returns false if the context has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pollInterval):
		return true
	}
}
