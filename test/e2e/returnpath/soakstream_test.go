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
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// streamInterval is the interval between lines of a stream, and between the end of a connection and the next one.
const streamInterval = 100 * time.Millisecond

// traffic is a pair of client and server.
type traffic struct {
	group, network, what string // group: with return ports, without, or outside OVN
	from                 netns.NS
	address              string
}

// soakStream is one stream, or a series of connections, with its results.
type soakStream struct {
	traffic
	protocol string // new: a new TCP connection each time

	mu             sync.Mutex
	lastAnswer     time.Time // or the start of the stream
	longestSilence time.Duration
	silentSince    time.Time // start of the longest silence
	answers        int
	failures       []string // connections that ended or could not be opened
	reportedAt     time.Time
}

func (s *soakStream) String() string {
	return fmt.Sprintf("%s, %s on %s (%s to %s from %s)", s.group, s.what, s.network, s.protocol, s.address,
		s.from.Name)
}

func (s *soakStream) recordAnswer(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers++
	s.updateLongest(now)
	s.lastAnswer = now
}

// updateLongest updates the longest silence.
func (s *soakStream) updateLongest(now time.Time) {
	if d := now.Sub(s.lastAnswer); d > s.longestSilence {
		s.longestSilence, s.silentSince = d, s.lastAnswer
	}
}

// silentFor returns the duration of the current silence.
func (s *soakStream) silentFor(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.lastAnswer)
}

func (s *soakStream) recordFailure(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, time.Now().Format("15:04:05.000 ")+err.Error())
}

// runUntilDone runs the stream until the context ends.
func (s *soakStream) runUntilDone(ctx context.Context) {
	s.mu.Lock()
	s.lastAnswer = time.Now()
	s.mu.Unlock()
	pace := time.NewTicker(streamInterval)
	defer pace.Stop()
	for ctx.Err() == nil {
		err := map[string]func(context.Context, *time.Ticker) error{
			"tcp": s.streamLines,
			"udp": s.streamLines,
			"new": s.connectAndExchange,
		}[s.protocol](ctx, pace)
		if err != nil && ctx.Err() == nil {
			s.recordFailure(err)
			<-pace.C
		}
	}
	s.mu.Lock()
	s.updateLongest(time.Now())
	s.mu.Unlock()
}

// streamLines sends a line at each tick and reads the answers until the connection ends.
func (s *soakStream) streamLines(ctx context.Context, pace *time.Ticker) error {
	conn, err := s.dialTarget(ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close() //nolint:errcheck // it has ended
	ended := make(chan error, 1)
	go func() { ended <- s.readAnswers(conn) }()
	for {
		if _, err := io.WriteString(conn, "hello\n"); err != nil && !isDatagramError(err) {
			return err
		}
		select {
		case <-pace.C:
		case err := <-ended:
			return err
		}
	}
}

func (s *soakStream) readAnswers(conn net.Conn) error {
	in := bufio.NewReader(conn)
	for {
		if _, err := in.ReadString('\n'); err != nil && !isDatagramError(err) {
			return err
		} else if err == nil {
			s.recordAnswer(time.Now())
		}
	}
}

// isDatagramError reports whether an error of a datagram socket concerns a single datagram only.
func isDatagramError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Net == "udp" && !errors.Is(err, net.ErrClosed)
}

// connectAndExchange opens one connection and uses it.
func (s *soakStream) connectAndExchange(ctx context.Context, pace *time.Ticker) error {
	conn, err := s.dialTarget(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer has come
	if err := harness.ExchangeLine(conn, time.Second); err != nil {
		return err
	}
	s.recordAnswer(time.Now())
	for range 3 { // four connections in a second and a bit are enough
		<-pace.C
	}
	return nil
}

// dialTarget opens the connection. A new connection has one second: one SYN may be lost.
func (s *soakStream) dialTarget(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancel()
	return s.from.Dial(ctx, strings.Replace(s.protocol, "new", "tcp", 1), s.address+":80")
}
