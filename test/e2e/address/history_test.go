package address

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	ovsdb "github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// eventJitter is how much later than a status the event of an earlier row may arrive, because the two use different
// connections.
var eventJitter = show.ChooseSize(50*time.Millisecond, 500*time.Millisecond)

// staleness is how long after a row was deleted an object may still report it. The controller reads the row, then
// writes the status; Kube-OVN may delete the row in between, and the next run corrects the status. A row that never
// existed is not excused.
var staleness = show.ChooseSize(2*time.Second, 20*time.Second)

// rowHistory records when each northbound row was added and removed, by content.
type rowHistory struct {
	mu    sync.Mutex
	spans map[string][]span
}

// span is the lifetime of a row; until is zero while the row exists.
type span struct{ since, until time.Time }

func (h *rowHistory) recordAdded(row string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spans[row] = append(h.spans[row], span{since: at})
}

// recordRemoved ends the oldest open span of a row: for a moment there can be two copies of one row.
func (h *rowHistory) recordRemoved(row string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.spans[row] {
		if h.spans[row][i].until.IsZero() {
			h.spans[row][i].until = at
			return
		}
	}
}

// spanAt returns the span of a row at a time.
func (h *rowHistory) spanAt(row string, at time.Time) (span, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.spans[row] {
		if !s.since.After(at.Add(eventJitter)) && (s.until.IsZero() || s.until.After(at.Add(-staleness))) {
			return s, true
		}
	}
	return span{}, false
}

// findEarlyClaims lists the claims that were made while a row was missing.
func (h *rowHistory) findEarlyClaims(claims []claim) (early []string) {
	for _, c := range claims {
		for _, row := range c.rows {
			if _, there := h.spanAt(row, c.at); !there {
				early = append(early, fmt.Sprintf("%s %s says that it is in force, without the row %q", c.kind, c.name,
					row))
			}
		}
	}
	return early
}

// leadTime returns for how long the last row of a claim had existed.
func (h *rowHistory) leadTime(c claim) (time.Duration, bool) {
	var last time.Time
	for _, row := range c.rows {
		s, there := h.spanAt(row, c.at)
		if !there {
			return 0, false
		}
		if s.since.After(last) {
			last = s.since
		}
	}
	return c.at.Sub(last), true
}

// rowTexts returns the texts that identify a row, one for each statement that a claim may depend on. Every row is in a
// set of a router, a switch or a group, because unreferenced rows do not exist.
func rowTexts(m model.Model) []string {
	switch r := m.(type) {
	case *nb.NAT:
		return []string{fmt.Sprintf("%s %s %s", r.Type, r.ExternalIP, r.LogicalIP)}
	case *nb.LogicalRouterPolicy:
		return []string{fmt.Sprintf("%d %s", r.Priority, r.Match)}
	case *nb.LogicalRouterPort:
		return []string{r.Name, r.Name + " with table " + r.Options["route_table"]}
	case *nb.StaticMACBinding:
		return []string{fmt.Sprintf("binding %s %s", r.LogicalPort, r.MAC)}
	case *nb.LogicalSwitchPort:
		return []string{fmt.Sprintf("switch port %s to %s", r.Name, r.Options["router-port"])}
	case *nb.AddressSet:
		out := []string{"set " + r.Name}
		for _, a := range r.Addresses {
			out = append(out, fmt.Sprintf("set %s with %s", r.Name, a))
		}
		return out
	case *nb.PortGroup:
		return []string{fmt.Sprintf("group %s of %d", r.Name, len(r.Ports))}
	case *nb.ACL:
		return []string{fmt.Sprintf("rule %d %s of %s", r.Tier, r.Action, r.ExternalIDs[ownership.RowOwnerKey])}
	case *nb.QoS:
		return []string{fmt.Sprintf("marking %d of %s", r.Priority, r.ExternalIDs[ownership.RowOwnerKey])}
	case *nb.StaticRoute:
		return []string{fmt.Sprintf("route %s %s of %s", r.RouteTable, r.IPPrefix,
			r.ExternalIDs[ownership.RowOwnerKey])}
	default:
		return nil
	}
}

// recordChange records that a row has changed; nil means no row.
func (h *rowHistory) recordChange(old, row model.Model) {
	now, was, is := time.Now(), rowTexts(old), rowTexts(row)
	for _, text := range was {
		if !slices.Contains(is, text) {
			h.recordRemoved(text, now)
		}
	}
	for _, text := range is {
		if !slices.Contains(was, text) {
			h.recordAdded(text, now)
		}
	}
}

// watchRowHistory starts to record rows on a separate connection.
func watchRowHistory(t *testing.T, c *harness.Cluster) *rowHistory {
	t.Helper()
	h := &rowHistory{spans: map[string][]span{}}
	described, err := nb.DatabaseModel()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ovsdb.NewOVSDBClient(described, ovsdb.WithEndpoint(nbEndpoint(t, c)),
		ovsdb.WithTLSConfig(nbTLSConfig(t, c)))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Connect(harness.Within(t, harness.Patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	conn.Cache().AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(_ string, row model.Model) { h.recordChange(nil, row) },
		DeleteFunc: func(_ string, row model.Model) { h.recordChange(row, nil) },
		UpdateFunc: func(_ string, old, row model.Model) { h.recordChange(old, row) },
	})
	if _, err := conn.Monitor(harness.Within(t, harness.Patience), nb.MonitorRequest()); err != nil {
		t.Fatal(err)
	}
	return h
}

// nbEndpoint returns the address of the northbound database from outside.
func nbEndpoint(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	status, err := c.Status(harness.Within(t, harness.Patience))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range status.Doors {
		if d.Name == "nb1" {
			return "ssl:" + d.Outside
		}
	}
	t.Fatal("the lab has no door to the northbound database")
	return ""
}

// nbTLSConfig returns a TLS configuration with the lab's certificates for the OVN databases, which name no host.
func nbTLSConfig(t *testing.T, c *harness.Cluster) *tls.Config {
	t.Helper()
	pki := func(name string) string { return filepath.Join(c.Dir, "pki", name) }
	pair, err := tls.LoadX509KeyPair(pki("ovn.crt"), pki("ovn.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(harness.ReadFile(t, pki("ca.crt"))))
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, InsecureSkipVerify: true} //nolint:gosec // a lab's own database
}
