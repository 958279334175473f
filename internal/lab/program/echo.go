package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/lab/program/datagram"
	"github.com/sallyport/sallyport/internal/lab/sctp"
)

// echo is a server that tells clients who it is and who they are.
type echo struct {
	Spec
	ports   []uint16
	streams []net.Listener
	packets []*datagram.Conn
	sctp    *sctp.Listener // nil where raw sockets are not allowed
}

// Echo answers HTTP, plain TCP, UDP and SCTP on each of its ports (--ports or PORTS) with its name and the client's
// address.
func Echo(ctx context.Context, n Net, spec Spec) error {
	flags := spec.options("echo")
	list := flags.String("ports", spec.env("PORTS", "80,8080"), "ports to answer on")
	if err := flags.Parse(spec.Args); err != nil {
		return fmt.Errorf("echo: %w", err)
	}
	ports, err := parsePorts(*list)
	if err != nil {
		return fmt.Errorf("echo: %w", err)
	}
	e := &echo{Spec: spec, ports: ports}
	if err := e.listen(ctx, n); err != nil {
		e.close()
		return fmt.Errorf("echo: %w", err)
	}
	spec.logf("%s answers on ports %s", spec.Name, *list)
	if err := e.serve(ctx); err != nil {
		return fmt.Errorf("echo: %w", err)
	}
	return nil
}

// listen opens all sockets, so that the program answers on all ports or on none.
func (e *echo) listen(ctx context.Context, n Net) (err error) {
	for _, port := range e.ports {
		l, err := n.Listen(ctx, "tcp", wildcard(port))
		if err != nil {
			return err
		}
		e.streams = append(e.streams, l)
		for _, network := range []string{"udp4", "udp6"} {
			if err := e.listenUDP(ctx, n, network, port); err != nil {
				return err
			}
		}
	}
	e.sctp, err = sctp.Listen(ctx, n, e.ports...)
	if errors.Is(err, fs.ErrPermission) {
		e.logf("%s has no SCTP: %v", e.Name, err)
		return nil
	}
	return err
}

func (e *echo) listenUDP(ctx context.Context, n Net, network string, port uint16) error {
	p, err := n.ListenPacket(ctx, network, wildcard(port))
	if network == "udp6" && errors.Is(err, syscall.EAFNOSUPPORT) {
		return nil // booted with ipv6.disable=1
	}
	if err != nil {
		return err
	}
	c, err := datagram.New(p)
	if err != nil {
		_ = p.Close()
		return err
	}
	e.packets = append(e.packets, c)
	return nil
}

func (e *echo) close() {
	for _, l := range e.streams {
		_ = l.Close()
	}
	for _, c := range e.packets {
		_ = c.Close()
	}
	if e.sctp != nil {
		_ = e.sctp.Close()
	}
}

// serve runs every socket until the context ends, or until one of them breaks.
func (e *echo) serve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	web := newHandoff(ctx)
	g.Go(func() error { return serveHTTP(ctx, web, e.routes()) })
	s := switchboard{web: web, name: e.Name}
	for _, l := range e.streams {
		g.Go(func() error { return s.serve(ctx, l) })
	}
	for _, c := range e.packets {
		g.Go(func() error { return e.serveUDP(ctx, c) })
	}
	if e.sctp != nil {
		g.Go(func() error { return e.sctp.Serve(ctx, e.reply) })
	}
	return g.Wait()
}

func (e *echo) serveUDP(ctx context.Context, c *datagram.Conn) error {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer c.Close()
	b := make([]byte, 64<<10)
	for {
		p, err := c.Read(b)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve UDP: %w", err)
		}
		if err := c.Write(e.reply(p.From, p.Payload), p.To, p.From); err != nil {
			e.logf("%s can't answer %s over UDP: %v", e.Name, p.From, err)
		}
	}
}

// reply answers one message. A message that begins with # comes back, so that a client can tell answers apart.
func (e *echo) reply(peer netip.AddrPort, message []byte) []byte {
	text := strings.TrimSuffix(string(message), "\n")
	if !strings.HasPrefix(text, "#") {
		return []byte(saw(e.Name, peer))
	}
	return []byte(strings.TrimSuffix(saw(e.Name, peer), "\n") + " " + text + "\n")
}

// saw is the answer: who was reached, and as whom.
func saw(name string, peer netip.AddrPort) string { return name + " saw " + peer.String() + "\n" }

func (e *echo) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { text(w, saw(e.Name, seen(r.RemoteAddr))) })
	mux.HandleFunc("/name", func(w http.ResponseWriter, _ *http.Request) { text(w, e.Name+"\n") })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, "ok\n") })
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) { stream(w, r, e.Name) })
	mux.HandleFunc("/blob", sendBlob)
	mux.HandleFunc("POST /upload", countUpload)
	return mux
}
