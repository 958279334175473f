// Package peer is the program of the self-test's pods: a server that says who asked it, and a client for the tester.
package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Ports of a pod. On ClientPort it requests what it is told to. That port is on loopback: only a port-forward reaches it.
const (
	ServerPort = 8080
	ClientPort = 8081
)

// Limits of a request.
const (
	requestTimeout = 3 * time.Second
	maxAnswerBytes = 4 << 10
)

// Answer is what a server says.
type Answer struct {
	Name   string     // of the server
	Client netip.Addr // as the server saw it
}

// String is the answer as it is sent.
func (a Answer) String() string { return a.Name + " saw " + a.Client.String() }

// ParseAnswer parses an answer.
func ParseAnswer(text string) (Answer, error) {
	name, client, found := strings.Cut(strings.TrimSpace(text), " saw ")
	address, err := netip.ParseAddr(client)
	if !found || name == "" || err != nil {
		return Answer{}, errors.New("the answer is not of a pod of this test")
	}
	return Answer{Name: name, Client: address}, nil
}

// Serve runs server and client until the context ends.
func Serve(ctx context.Context, name string) error {
	group, ctx := errgroup.WithContext(ctx)
	for address, handler := range map[string]http.Handler{
		net.JoinHostPort("", strconv.Itoa(ServerPort)):          answerAs(name),
		net.JoinHostPort("127.0.0.1", strconv.Itoa(ClientPort)): http.HandlerFunc(forwardRequest),
	} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return err
		}
		group.Go(func() error { return serve(ctx, listener, handler) })
	}
	return group.Wait()
}

func serve(ctx context.Context, on net.Listener, handler http.Handler) error {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: requestTimeout, WriteTimeout: 2 * requestTimeout}
	s.SetKeepAlivesEnabled(false) // each request is a connection of its own
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(on); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answerAs returns a handler that says its name and the address of the client.
func answerAs(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, Answer{Name: name, Client: client.Addr().Unmap()})
	})
}

// forwardRequest requests the URL in the query and returns the answer. If there is none, the status is 502 and the text
// says why.
func forwardRequest(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	status, text, err := get(ctx, &net.Dialer{}, r.URL.Query().Get("url"))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the answer has status %d", status)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		text = err.Error()
	}
	_, _ = io.WriteString(w, text) //nolint:gosec // plain text
}

// Ask lets the pod behind a connection to its ClientPort request a URL, and returns the text of the answer.
func Ask(ctx context.Context, dial func(context.Context) (net.Conn, error), target string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	ask := url.URL{
		Scheme: "http", Host: net.JoinHostPort("localhost", strconv.Itoa(ClientPort)), Path: "/",
		RawQuery: url.Values{"url": {target}}.Encode(),
	}
	status, text, err := get(ctx, dialFunc(dial), ask.String())
	if err == nil && status != http.StatusOK {
		err = errors.New(text)
	}
	return text, err
}

// dialer opens connections.
type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// dialFunc opens connections to one place, whatever the address.
type dialFunc func(context.Context) (net.Conn, error)

// DialContext opens a connection.
func (d dialFunc) DialContext(ctx context.Context, _, _ string) (net.Conn, error) { return d(ctx) }

// get requests a URL once, without proxies and redirects.
func get(ctx context.Context, d dialer, target string) (status int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody) //nolint:gosec // only a port-forward can ask for it
	if err != nil {
		return 0, "", err
	}
	c := http.Client{
		Transport:     &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := c.Do(request) //nolint:gosec // as above
	if err != nil {
		return 0, "", errors.Unwrap(err) // without the URL
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	return response.StatusCode, string(raw), err
}
