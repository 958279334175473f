package returnpath

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// beat is how often a stream says something, and how long a new connection rests after the one before.
const beat = 100 * time.Millisecond

// traffic is who talks to whom.
type traffic struct {
	group, network, what string // group: with legs, without, or outside OVN
	from                 netns.NS
	address              string
}

// soakStream is one stream, or connections one after the other, with what became of them.
type soakStream struct {
	traffic
	protocol string // new: a new TCP connection each time

	mu      sync.Mutex
	last    time.Time // of the last answer, or of the begin
	longest time.Duration
	at      time.Time // when the longest silence began
	answers int
	broken  []string // connections that ended, or were never made
	told    time.Time
}

func (s *soakStream) String() string {
	return fmt.Sprintf("%s, %s on %s (%s to %s from %s)", s.group, s.what, s.network, s.protocol, s.address, s.from.Name)
}

// heard notes an answer.
func (s *soakStream) heard(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers++
	s.pause(now)
	s.last = now
}

// pause notes how long it has been silent by now.
func (s *soakStream) pause(now time.Time) {
	if d := now.Sub(s.last); d > s.longest {
		s.longest, s.at = d, s.last
	}
}

// silence is how long it is silent now.
func (s *soakStream) silence(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.last)
}

// broke notes a connection that failed.
func (s *soakStream) broke(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, time.Now().Format("15:04:05.000 ")+err.Error())
}

// run keeps the stream going until the context ends.
func (s *soakStream) run(ctx context.Context) {
	s.mu.Lock()
	s.last = time.Now()
	s.mu.Unlock()
	pace := time.NewTicker(beat)
	defer pace.Stop()
	for ctx.Err() == nil {
		err := map[string]func(context.Context, *time.Ticker) error{"tcp": s.talk, "udp": s.talk, "new": s.knock}[s.protocol](ctx, pace)
		if err != nil && ctx.Err() == nil {
			s.broke(err)
			<-pace.C
		}
	}
	s.mu.Lock()
	s.pause(time.Now())
	s.mu.Unlock()
}

// talk says a line each beat and hears the answers, until the connection ends.
func (s *soakStream) talk(ctx context.Context, pace *time.Ticker) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close() //nolint:errcheck // it has ended
	ended := make(chan error, 1)
	go func() { ended <- s.hear(conn) }()
	for {
		if _, err := io.WriteString(conn, "hello\n"); err != nil && !passes(err) {
			return err
		}
		select {
		case <-pace.C:
		case err := <-ended:
			return err
		}
	}
}

// hear reads answers.
func (s *soakStream) hear(conn net.Conn) error {
	in := bufio.NewReader(conn)
	for {
		if _, err := in.ReadString('\n'); err != nil && !passes(err) {
			return err
		} else if err == nil {
			s.heard(time.Now())
		}
	}
}

// passes says whether an error of a datagram socket is about one datagram only.
func passes(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Net == "udp" && !errors.Is(err, net.ErrClosed)
}

// knock makes one connection and uses it.
func (s *soakStream) knock(ctx context.Context, pace *time.Ticker) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer has come
	if err := exchange(conn, time.Second); err != nil {
		return err
	}
	s.heard(time.Now())
	for range 3 { // four connections in a second and a bit are enough
		<-pace.C
	}
	return nil
}

// exchange says a line and hears one.
func exchange(conn net.Conn, limit time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return err
	}
	_, err := bufio.NewReader(conn).ReadString('\n')
	return err
}

// dial makes the connection. For a new one a second is all there is: one SYN may be lost.
func (s *soakStream) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancel()
	return s.from.Dial(ctx, strings.Replace(s.protocol, "new", "tcp", 1), s.address+":80")
}
