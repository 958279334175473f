package ui

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sallyport/sallyport/internal/survey"
)

// idle is how long surveys go on after the last one has looked.
const idle = 30 * time.Second

// limit is how long a survey may take.
const limit = 2 * time.Minute

// share is how many times as long as comparing shards has taken it is left alone.
const share = 10

// lookout takes surveys, one at a time and for all who look, while somebody does.
type lookout struct {
	config Config
	now    func() time.Time

	mu sync.Mutex
	// seen is the last survey of a cluster that could be reached, worked out; nil: there is none yet.
	seen *scene
	// problem is why the last one is not newer, and since when that is so.
	problem string
	since   time.Time
	// news is closed when something is new.
	news    chan struct{}
	lookers int
	asked   time.Time     // by somebody, last
	wake    chan struct{} // somebody has come

	// shards are as they were compared last, when, and how long it took. Only run knows them.
	shards   []survey.Shard
	compared time.Time
	took     time.Duration
}

func newLookout(config Config) *lookout {
	return &lookout{config: config, now: time.Now, news: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// run takes surveys until ctx ends.
func (l *lookout) run(ctx context.Context) {
	for l.look(ctx); l.config.Every > 0 && l.pause(ctx); l.look(ctx) {
	}
}

// pause waits for the time of the next survey, and for somebody who wants to see it. It says whether there is one.
func (l *lookout) pause(ctx context.Context) bool {
	timer := time.NewTimer(l.config.Every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	if !l.lonely() {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.wake:
		return true
	}
}

// look takes one survey, and tells if something is new.
func (l *lookout) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s := l.config.Survey(ctx)
	if i := slices.IndexFunc(s.Unread, func(u survey.Unread) bool { return u.System == survey.Kubernetes }); i >= 0 {
		l.tell(nil, s.Unread[i].Problem)
		return
	}
	if l.config.Shards == nil {
		l.tell(newScene(s), "")
		return
	}
	s.Shards = l.shards
	l.tell(newScene(s), "")
	l.compare(ctx, *s)
}

// compare tells the same survey with all shards compared anew. That takes far longer than reading, where there are many: it is done so seldom
// that most of the time is left for surveys.
func (l *lookout) compare(ctx context.Context, s survey.Survey) {
	begun := l.now()
	if begun.Sub(l.compared) < share*l.took {
		return
	}
	shards, err := l.config.Shards(ctx, nil)
	l.compared, l.took = l.now(), l.now().Sub(begun)
	if err != nil {
		return // what it could not read, the survey could not either, and tells
	}
	l.shards, s.Shards = shards, shards
	l.tell(newScene(&s), "")
}

// tell keeps a scene, or why there is none.
func (l *lookout) tell(seen *scene, problem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.seen == nil && seen != nil || seen != nil && seen.revision != l.seen.revision
	if seen != nil {
		l.seen = seen
	}
	if problem != l.problem {
		fresh = true
		if problem == "" || l.problem == "" {
			l.since = l.now()
		}
		l.problem = problem
	}
	if fresh {
		close(l.news)
		l.news = make(chan struct{})
	}
}

// moment is what there is to tell at one moment.
type moment struct {
	seen    *scene
	problem string
	since   time.Time
	news    <-chan struct{}
}

// current is what there is to tell now. Whoever asks keeps surveys going for a while.
func (l *lookout) current() moment {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touch()
	return moment{l.seen, l.problem, l.since, l.news}
}

// first is the same, once there is something to tell.
func (l *lookout) first(ctx context.Context) moment {
	for {
		m := l.current()
		if m.seen != nil || m.problem != "" {
			return m
		}
		select {
		case <-ctx.Done():
			return m
		case <-m.news:
		}
	}
}

func (l *lookout) touch() {
	l.asked = l.now()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// come is somebody who looks all the time, until he goes.
func (l *lookout) come() (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookers++
	l.touch()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lookers--
		l.asked = l.now()
	}
}

// lonely says whether nobody looks any more. A sign of somebody who came before is used up.
func (l *lookout) lonely() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	alone := l.lookers == 0 && l.now().Sub(l.asked) > idle
	if alone {
		select {
		case <-l.wake:
		default:
		}
	}
	return alone
}
