// Package browser is a headless Chromium for tests, driven by its debugging protocol through a pipe. It needs no other
// software.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// chromiumFlags restrict the browser to the pages that a test opens: it resolves no names and contacts no other server.
var chromiumFlags = []string{
	"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check",
	"--disable-background-networking",
	"--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions",
	"--disable-dev-shm-usage", "--mute-audio",
	"--hide-scrollbars", "--force-color-profile=srgb", "--font-render-hinting=none",
	"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe",
}

// callTimeout limits each call to the browser.
const callTimeout = 4 * time.Minute

// Browser is a running Chromium.
type Browser struct {
	cmd         *exec.Cmd
	commandPipe io.WriteCloser

	mu           sync.Mutex
	lastID       int
	pendingCalls map[int]chan callResult
	pages        map[string]*Page // by session
	err          error
}

// message is a protocol message in either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

type callResult struct {
	result json.RawMessage
	err    error
}

// Start starts a browser and stops it at the end of the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium: run make packages")
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &Browser{commandPipe: to, pendingCalls: map[int]chan callResult{}, pages: map[string]*Page{}}
	b.cmd = exec.Command(program, append(chromiumFlags, "--user-data-dir="+t.TempDir(), "about:blank")...)
	b.cmd.ExtraFiles = []*os.File{in, out} // descriptors 3 and 4, as the protocol expects
	if err := b.cmd.Start(); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	_, _ = in.Close(), out.Close() // the browser has its own descriptors
	go b.readMessages(from)
	t.Cleanup(func() { b.shutDown(t) })
	return b
}

// shutDown asks the browser to close, so that it removes its files, and kills it if it does not.
func (b *Browser) shutDown(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = b.callMethod(ctx, "", "Browser.close", nil, nil) // it may exit before it answers
	force := time.AfterFunc(5*time.Second, func() { _ = b.cmd.Process.Kill() })
	defer force.Stop()
	if err := b.cmd.Wait(); err != nil {
		t.Logf("chromium: %v", err)
	}
}

// readMessages dispatches messages of the browser until it exits.
func (b *Browser) readMessages(from *os.File) {
	defer from.Close()
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		raw, err := r.ReadBytes(0)
		if err != nil {
			b.failPendingCalls(errors.New("chromium has ended"))
			return
		}
		var m message
		if err := json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &m); err != nil {
			b.failPendingCalls(fmt.Errorf("chromium says what is no JSON: %w", err))
			return
		}
		b.dispatchMessage(m)
	}
}

func (b *Browser) dispatchMessage(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.ID == 0 {
		if p := b.pages[m.Session]; p != nil {
			p.recordEvent(m)
		}
		return
	}
	a := callResult{result: m.Result}
	if m.Error != nil {
		a.err = errors.New(m.Error.Message)
	}
	if c := b.pendingCalls[m.ID]; c != nil {
		delete(b.pendingCalls, m.ID)
		c <- a
	}
}

func (b *Browser) failPendingCalls(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	for id, c := range b.pendingCalls {
		delete(b.pendingCalls, id)
		c <- callResult{err: err}
	}
}

// callMethod calls a method of the browser, or of one page, and waits for the result.
func (b *Browser) callMethod(ctx context.Context, session, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	c := make(chan callResult, 1)
	b.mu.Lock()
	if b.err != nil {
		b.mu.Unlock()
		return b.err
	}
	b.lastID++
	b.pendingCalls[b.lastID] = c
	text, err := json.Marshal(message{ID: b.lastID, Session: session, Method: method, Params: raw})
	if err == nil {
		_, err = b.commandPipe.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	case a := <-c:
		if a.err != nil {
			return fmt.Errorf("%s: %w", method, a.err)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(a.result, result)
	}
}
