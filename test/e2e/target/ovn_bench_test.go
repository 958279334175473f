package target

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// rowsFixture is a router in real databases with a real northd, and the client under test.
type rowsFixture struct {
	*harness.Cluster
	client         *ovn.Client
	rows           state.Target[intent.RowKey, intent.Row]
	changedRouters chan string // names of changed routers
}

// dialNB returns the client, connected over TLS through the lab's forwards.
func dialNB(t *testing.T, c *harness.Cluster) *ovn.Client {
	t.Helper()
	pki := func(name string) string { return filepath.Join(c.Dir, "pki", name) }
	config := ovn.Config{CertFile: pki("ovn.crt"), KeyFile: pki("ovn.key"), CAFile: pki("ca.crt")}
	status, err := c.Status(harness.Within(t, harness.Patience))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range status.Doors {
		if strings.HasPrefix(d.Name, "nb") {
			config.Endpoints = append(config.Endpoints, "ssl:"+d.Outside)
		}
	}
	client, err := ovn.Dial(harness.Within(t, harness.Patience), config, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// waitUntil waits until a condition holds for the client's copy, and checks it after each change.
func (b *rowsFixture) waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.After(harness.Patience)
	for !holds() {
		select {
		case <-b.changedRouters:
		case <-limit:
			t.Fatalf("not within %s: %s", harness.Patience, what)
		}
	}
}

// converge applies the wanted rows, as the controller does.
func (b *rowsFixture) converge(want intent.Rows) error {
	plan, err := state.PreparePlan(context.Background(), b.rows, want, intent.KeepForeignRows)
	if err != nil {
		return err
	}
	var failed []error
	for _, f := range state.Run(context.Background(), plan) {
		failed = append(failed, f)
	}
	return errors.Join(failed...)
}

func (b *rowsFixture) mustConverge(t *testing.T, want intent.Rows) {
	t.Helper()
	if err := b.converge(want); err != nil {
		t.Fatal(err)
	}
}
