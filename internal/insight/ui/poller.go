package ui

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// idleTimeout is the time after the last request when the poller stops taking surveys.
const idleTimeout = 30 * time.Second

// surveyTimeout limits the duration of a survey.
const surveyTimeout = 2 * time.Minute

// compareBackoffFactor sets the pause after a comparison of all shards: this factor times its duration.
const compareBackoffFactor = 10

// poller takes surveys for all viewers, one at a time, while there are viewers.
type poller struct {
	config Config
	now    func() time.Time

	mu sync.Mutex
	// view is the view model of the last successful survey; nil before the first one.
	view *viewModel
	// problem is the reason why there is no newer survey, since problemSince.
	problem      string
	problemSince time.Time
	// changed is closed on each change.
	changed      chan struct{}
	viewers      int
	lastViewedAt time.Time
	wake         chan struct{} // signals a new viewer

	// shards is the last comparison of all shards, with its time and duration. Only run uses these fields.
	shards          []clusterstate.Shard
	comparedAt      time.Time
	compareDuration time.Duration
}

func newPoller(config Config) *poller {
	return &poller{config: config, now: time.Now, changed: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// run takes surveys until ctx is cancelled.
func (l *poller) run(ctx context.Context) {
	for l.pollOnce(ctx); l.config.Interval > 0 && l.waitForNextPoll(ctx); l.pollOnce(ctx) {
	}
}

// waitForNextPoll waits for the interval, and then until there is a viewer. It returns false if ctx is cancelled.
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

// pollOnce takes one survey and publishes it.
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

// compareShards compares all shards and publishes the same survey with the result. With many shards this takes far
// longer than reading, so it runs rarely and most of the time is left for surveys.
func (l *poller) compareShards(ctx context.Context, s clusterstate.State) {
	begun := l.now()
	if begun.Sub(l.comparedAt) < compareBackoffFactor*l.compareDuration {
		return
	}
	shards, err := l.config.CompareShards(ctx, nil)
	l.comparedAt, l.compareDuration = l.now(), l.now().Sub(begun)
	if err != nil {
		return // the survey reports the same failure
	}
	l.shards, s.Shards = shards, shards
	l.publishState(newViewModel(&s), "")
}

// publishState stores a view model, or the reason why there is none, and notifies viewers of changes.
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

// pollState is the state of the poller at one moment.
type pollState struct {
	view         *viewModel
	problem      string
	problemSince time.Time
	changed      <-chan struct{}
}

// currentState returns the state. Each call counts as a view and keeps the poller running for idleTimeout.
func (l *poller) currentState() pollState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markViewed()
	return pollState{l.view, l.problem, l.problemSince, l.changed}
}

// waitForState waits until there is a survey or a problem and returns the state.
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

// registerViewer adds a permanent viewer. The returned function removes it.
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

// isUnwatched reports whether there are no viewers. If so, it discards a pending wake signal of an earlier viewer.
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
