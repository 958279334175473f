package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	constants "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pingPeriod is how often the connection to the API server is checked.
const pingPeriod = 10 * time.Second

// maxForwardError limits what a kubelet says about a connection that it can't forward.
const maxForwardError = 4 << 10

// PodDialer connects to the loopback of pods through the API server, with the caller's permission to forward ports.
type PodDialer struct {
	api    kubernetes.Interface
	config *rest.Config
}

// NewPodDialer returns a dialer. It connects on use.
func NewPodDialer(config *rest.Config) (*PodDialer, error) {
	config = rest.CopyConfig(config)
	config.Timeout = connectTimeout
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	return &PodDialer{api: api, config: config}, nil
}

// Dial connects to a port of a pod.
func (d *PodDialer) Dial(ctx context.Context, pod client.ObjectKey, port int32) (net.Conn, error) {
	forward, err := forwardToPod(ctx, d.config, d.api, pod)
	if err != nil {
		return nil, fmt.Errorf("forward a port to pod %s: %w", pod, err)
	}
	conn, err := openForward(forward, port, 1)
	if err != nil {
		_ = forward.Close()
		return nil, err
	}
	return soleConn{Conn: conn, forward: forward}, nil
}

// soleConn is the only connection of a port-forward.
type soleConn struct {
	net.Conn
	forward httpstream.Connection
}

// Close ends the connection and the port-forward.
func (c soleConn) Close() error { return errors.Join(c.Conn.Close(), c.forward.Close()) }

// forwardToPod asks the API server to forward connections to a pod.
func forwardToPod(ctx context.Context, config *rest.Config, api kubernetes.Interface, pod client.ObjectKey,
) (httpstream.Connection, error) {
	where := api.CoreV1().RESTClient().Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		SubResource("portforward").URL()
	where.RawQuery = "" // the timeout of other requests would end the connection
	dialer, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(dialer, holder, request, constants.WebsocketsSPDYTunnelingPortForwardV1)
	if upgrade := new(httpstream.UpgradeFailureError); errors.As(err, &upgrade) {
		return nil, upgrade.Cause
	}
	if err != nil {
		return nil, err
	}
	return spdy.NewClientConnectionWithPings(portforward.NewTunnelingConnection("client", conn), pingPeriod)
}

// openForward opens a connection to a port of the pod: a stream for data, and one for an error of the kubelet.
func openForward(forward httpstream.Connection, port int32, request int) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(request))
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	problems, err := forward.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("forward a connection to the pod: %w", err)
	}
	_ = problems.Close() // our side sends no errors
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := forward.CreateStream(headers)
	if err != nil {
		_ = problems.Reset()
		return nil, fmt.Errorf("forward a connection to the pod: %w", err)
	}
	c := &forwardedConn{Stream: data, problems: problems, forward: forward, problem: make(chan string, 1)}
	go c.readProblem()
	return c, nil
}

// forwardedConn is a connection through port-forward. It has no deadlines: close it instead.
type forwardedConn struct {
	httpstream.Stream
	problems httpstream.Stream
	forward  httpstream.Connection
	problem  chan string // one text when the kubelet has closed its stream; empty: no error
}

func (c *forwardedConn) readProblem() {
	text, _ := io.ReadAll(io.LimitReader(c.problems, maxForwardError))
	c.problem <- strings.TrimSpace(string(text))
}

// problemDelay is how long after the end of the data the kubelet may still say why.
const problemDelay = time.Second

// Read returns the error of the kubelet, if it has ended the connection with one.
func (c *forwardedConn) Read(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	if err == nil || n > 0 {
		return n, err
	}
	select {
	case text := <-c.problem:
		c.problem <- ""
		if text != "" {
			return 0, fmt.Errorf("the node of the pod can't forward the connection: %s", text)
		}
	case <-time.After(problemDelay):
	}
	return 0, err
}

// Close ends the connection in both directions.
func (c *forwardedConn) Close() error {
	err := errors.Join(c.Reset(), c.problems.Reset())
	c.forward.RemoveStreams(c.Stream, c.problems)
	return err
}

// LocalAddr and RemoteAddr return no address: the connection is part of one to the API server.
func (*forwardedConn) LocalAddr() net.Addr  { return &net.UnixAddr{} }
func (*forwardedConn) RemoteAddr() net.Addr { return &net.UnixAddr{} }

// SetDeadline and the two others have no effect.
func (*forwardedConn) SetDeadline(time.Time) error      { return nil }
func (*forwardedConn) SetReadDeadline(time.Time) error  { return nil }
func (*forwardedConn) SetWriteDeadline(time.Time) error { return nil }
