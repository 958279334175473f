package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	constants "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// serverPort is where the API server reaches a node's kubelet.
const serverPort = 10250

// How long a connection through port-forward may be opened, and how many streams wait for their counterpart.
const (
	forwardTimeout = 10 * time.Second
	maxHalfOpen    = 100
)

// serve answers the API server's requests on a node: port-forward, and nothing else.
func (k *Kubelet) serve(ctx context.Context, m *member) error {
	if k.TLS == nil || m.Switch == nil {
		return nil
	}
	address := netip.AddrPortFrom(m.Management.Addr(), serverPort).String()
	listener, err := m.NS.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for the kubelet of node %s: %w", m.Name, err)
	}
	server := &http.Server{
		ReadHeaderTimeout: forwardTimeout, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Handler:      http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { k.forwardPorts(w, r, m) }),
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // a connection is upgraded: no HTTP/2
	}
	context.AfterFunc(k.ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(tls.NewListener(listener, k.TLS)) }()
	return nil
}

// forwardPorts carries connections to a pod: two streams for each, one for data and one for an error.
func (k *Kubelet) forwardPorts(w http.ResponseWriter, r *http.Request, m *member) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(path) < 3 || path[0] != "portForward" || k.isDead(m) {
		http.NotFound(w, r)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{constants.PortForwardV1Name}); err != nil {
		return // it has answered
	}
	streams := make(chan httpstream.Stream, maxHalfOpen)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return // it has answered
	}
	defer conn.Close() //nolint:errcheck // the other side has gone
	var group sync.WaitGroup
	defer group.Wait()
	waiting := map[string]httpstream.Stream{}
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-conn.CloseChan():
			return
		case s := <-streams:
			id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
			other := waiting[id]
			if other == nil {
				waiting[id] = s
				continue
			}
			delete(waiting, id)
			data, problems := s, other
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				data, problems = other, s
			}
			group.Go(func() {
				if err := k.forwardStream(path[1], path[2], data); err != nil {
					fmt.Fprint(problems, err)
				}
				_ = problems.Close()
				_ = data.Close()
				conn.RemoveStreams(data, problems)
			})
		}
	}
}

// forwardStream connects a stream to a port on the loopback of a pod, and copies until one side ends.
func (k *Kubelet) forwardStream(namespace, pod string, data httpstream.Stream) error {
	ns, running := k.PodNS(namespace, pod)
	if !running {
		return fmt.Errorf("pod %s does not run", pod)
	}
	ctx, cancel := context.WithTimeout(k.ctx, forwardTimeout)
	defer cancel()
	conn, err := ns.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", data.Headers().Get(corev1.PortHeader)))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // both sides have ended
	ended := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(data, conn); ended <- struct{}{} }()
	go func() { _, _ = io.Copy(conn, data); ended <- struct{}{} }()
	select {
	case <-ended:
	case <-k.ctx.Done():
	}
	return nil
}
