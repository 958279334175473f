package program

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/lab/sctp"
)

// textLimit is how much of an answer is kept.
const textLimit = 64 << 10

// Answer is what came back.
type Answer struct {
	Text string         // without the newline at its end; of a long answer, the first 64 KiB
	Size int64          // bytes received
	Name string         // who answered, when it was an echo server
	Saw  netip.AddrPort // the client as the echo server saw it; zero when the answer is not an echo
	Took time.Duration
}

// String is the answer as a log shows it.
func (a Answer) String() string {
	took := a.Took.Round(10 * time.Microsecond)
	if a.Size > textLimit {
		return fmt.Sprintf("%d bytes (%s)", a.Size, took)
	}
	return fmt.Sprintf("%s (%s)", a.Text, took)
}

// Ask sends one request to a target, once, over a connection of its own: http://addr[:port]/path, tcp://addr:port,
// udp://addr:port or sctp://addr:port. Addresses are literal, redirects are not followed, and a datagram is not
// repeated.
func Ask(ctx context.Context, n Net, target string) (Answer, error) {
	u, dst, err := parseTarget(target)
	if err != nil {
		return Answer{}, fmt.Errorf("ask %s: %w", target, err)
	}
	began := time.Now()
	var a Answer
	switch u.Scheme {
	case "http":
		a, err = askHTTP(ctx, n, u)
	case "tcp":
		a, err = askTCP(ctx, n, dst)
	case "udp":
		a, err = askUDP(ctx, n, dst)
	case "sctp":
		var b []byte
		b, err = sctp.Exchange(ctx, n, dst, []byte("hello\n"))
		a = Answer{Text: string(b), Size: int64(len(b))}
	}
	a.Took = time.Since(began)
	a.Text = strings.TrimSuffix(a.Text, "\n")
	if err != nil {
		return a, fmt.Errorf("ask %s: %w", target, err)
	}
	a.Name, a.Saw = parseSaw(a.Text)
	return a, nil
}

// CheckTarget says what is wrong with a target that can't be asked at all.
func CheckTarget(target string) error {
	_, _, err := parseTarget(target)
	return err
}

// parseTarget takes a target apart and insists on what can be dialled without looking up a name.
func parseTarget(target string) (*url.URL, netip.AddrPort, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	switch u.Scheme {
	case "http", "tcp", "udp", "sctp":
	default:
		return nil, netip.AddrPort{}, fmt.Errorf("scheme is %q, want http, tcp, udp or sctp", u.Scheme)
	}
	host := u.Host
	if u.Scheme == "http" && u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "80")
	}
	dst, err := netip.ParseAddrPort(host)
	if err != nil {
		return nil, netip.AddrPort{}, fmt.Errorf("want a literal address and port: %w", err)
	}
	return u, dst, nil
}

func askTCP(ctx context.Context, n Net, dst netip.AddrPort) (Answer, error) {
	return converse(ctx, n, "tcp", dst, func(c net.Conn) (string, error) {
		return bufio.NewReader(c).ReadString('\n')
	})
}

// askUDP uses a connected socket: an answer from any other address than the one asked does not count.
func askUDP(ctx context.Context, n Net, dst netip.AddrPort) (Answer, error) {
	return converse(ctx, n, "udp", dst, func(c net.Conn) (string, error) {
		b := make([]byte, textLimit)
		size, err := c.Read(b)
		return string(b[:size]), err
	})
}

// reader takes one answer from a connection.
type reader func(net.Conn) (string, error)

// converse dials, says hello and reads what comes back.
func converse(ctx context.Context, n Net, network string, dst netip.AddrPort, read reader) (Answer, error) {
	conn, err := n.Dial(ctx, network, dst.String())
	if err != nil {
		return Answer{}, err
	}
	c := tie(ctx, conn)
	defer c.Close()
	if _, err := c.Write([]byte("hello\n")); err != nil {
		return Answer{}, because(ctx, err)
	}
	text, err := read(c)
	return Answer{Text: text, Size: int64(len(text))}, because(ctx, err)
}

// because is why a connection broke: when the context ended, that.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// parseSaw reads the answer of an echo server.
func parseSaw(text string) (name string, peer netip.AddrPort) {
	name, rest, ok := strings.Cut(text, " saw ")
	if !ok {
		return "", netip.AddrPort{}
	}
	address, _, _ := strings.Cut(rest, " ")
	peer, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", netip.AddrPort{}
	}
	return name, peer
}
