package ui

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// idleTimeout is how long surveys go on after the last one has looked.
const idleTimeout = 30 * time.Second

// surveyTimeout is how long a survey may take.
const surveyTimeout = 2 * time.Minute

// compareBackoffFactor is how many times as long as comparing shards has taken it is left alone.
const compareBackoffFactor = 10

// poller takes surveys, one at a time and for all who look, while somebody does.
type poller struct {
	config Config
	now    func() time.Time

	mu sync.Mutex
	// view is the last survey of a cluster that could be reached, worked out; nil: there is none yet.
	view *viewModel
	// problem is why the last one is not newer, and since when that is so.
	problem      string
	problemSince time.Time
	// changed is closed when something is new.
	changed      chan struct{}
	viewers      int
	lastViewedAt time.Time     // by somebody, last
	wake         chan struct{} // somebody has come

	// shards are as they were compared last, when, and how long it took. Only run knows them.
	shards          []clusterstate.Shard
	comparedAt      time.Time
	compareDuration time.Duration
}

func newPoller(config Config) *poller {
	return &poller{config: config, now: time.Now, changed: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// run takes surveys until ctx ends.
func (l *poller) run(ctx context.Context) {
	for l.pollOnce(ctx); l.config.Interval > 0 && l.waitForNextPoll(ctx); l.pollOnce(ctx) {
	}
}

// waitForNextPoll waits for the time of the next survey, and for somebody who wants to see it. It says whether there is
// one.
func (l *poller) waitForNextPoll(ctx context.Context) bool {
	timer := time.NewTimer(l.config.Interval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	if !l.isUnwatched() {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.wake:
		return true
	}
}

// pollOnce takes one survey, and tells if something is new.
func (l *poller) pollOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	s := l.config.TakeSurvey(ctx)
	if i := slices.IndexFunc(s.Unread, func(u clusterstate.ReadFailure) bool {
		return u.System == clusterstate.Kubernetes
	}); i >= 0 {
		l.publishState(nil, s.Unread[i].Problem)
		return
	}
	if l.config.CompareShards == nil {
		l.publishState(newViewModel(s), "")
		return
	}
	s.Shards = l.shards
	l.publishState(newViewModel(s), "")
	l.compareShards(ctx, *s)
}

// compareShards tells the same survey with all shards compared anew. That takes far longer than reading, where there
// are many: it is done so seldom that most of the time is left for surveys.
func (l *poller) compareShards(ctx context.Context, s clusterstate.State) {
	begun := l.now()
	if begun.Sub(l.comparedAt) < compareBackoffFactor*l.compareDuration {
		return
	}
	shards, err := l.config.CompareShards(ctx, nil)
	l.comparedAt, l.compareDuration = l.now(), l.now().Sub(begun)
	if err != nil {
		return // what it could not read, the survey could not either, and tells
	}
	l.shards, s.Shards = shards, shards
	l.publishState(newViewModel(&s), "")
}

// publishState keeps a scene, or why there is none.
func (l *poller) publishState(seen *viewModel, problem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.view == nil && seen != nil || seen != nil && seen.revision != l.view.revision
	if seen != nil {
		l.view = seen
	}
	if problem != l.problem {
		fresh = true
		if problem == "" || l.problem == "" {
			l.problemSince = l.now()
		}
		l.problem = problem
	}
	if fresh {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// pollState is what there is to tell at one moment.
type pollState struct {
	view         *viewModel
	problem      string
	problemSince time.Time
	changed      <-chan struct{}
}

// currentState is what there is to tell now. Whoever asks keeps surveys going for a while.
func (l *poller) currentState() pollState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markViewed()
	return pollState{l.view, l.problem, l.problemSince, l.changed}
}

// waitForState is the same, once there is something to tell.
func (l *poller) waitForState(ctx context.Context) pollState {
	for {
		m := l.currentState()
		if m.view != nil || m.problem != "" {
			return m
		}
		select {
		case <-ctx.Done():
			return m
		case <-m.changed:
		}
	}
}

func (l *poller) markViewed() {
	l.lastViewedAt = l.now()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// registerViewer is somebody who looks all the time, until he goes.
func (l *poller) registerViewer() (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.viewers++
	l.markViewed()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.viewers--
		l.lastViewedAt = l.now()
	}
}

// isUnwatched says whether nobody looks any more. A sign of somebody who came before is used up.
func (l *poller) isUnwatched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	alone := l.viewers == 0 && l.now().Sub(l.lastViewedAt) > idleTimeout
	if alone {
		select {
		case <-l.wake:
		default:
		}
	}
	return alone
}
