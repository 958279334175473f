package install

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// prometheus is a real Prometheus with the chart's alerts that scrapes the controller every second.
type prometheus struct{ address string }

// TestMonitoringInPrometheus checks that a real Prometheus has data for every query of the dashboard, and that its
// alerts detect a stopped controller.
func TestMonitoringInPrometheus(t *testing.T) {
	c := harness.SharedSallyport(t)
	c.CreateCountedObjects(t)
	p := startPrometheus(t, harness.SharedController.MetricsAddress)
	harness.Eventually(t, "a controller that leads", func() bool { return p.countSeries(t, "sallyport_leading") == 1 })
	asked := 0
	for _, question := range dashboardQueries(t) {
		harness.Eventually(t, "an answer to "+question, func() bool { return p.countSeries(t, question) > 0 })
		asked++
	}
	if p.isAlertActive(t, "SallyportNotRunning") {
		t.Error("the controller is said not to run, and does")
	}
	harness.SharedController.Stop(syscall.SIGTERM)
	defer harness.SharedController.Start(t)
	harness.Eventually(t, "the alert", func() bool { return p.isAlertActive(t, "SallyportNotRunning") })
	t.Logf("%d questions of the dashboard have an answer", asked)
}

// startPrometheus starts Debian's Prometheus and stops it at the end of the test.
func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	program := os.Getenv("PROMETHEUS")
	if program == "" {
		t.Skip("PROMETHEUS is not set; run make e2e")
	}
	rules, err := filepath.Abs("../../../charts/sallyport/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir, p := t.TempDir(), &prometheus{address: harness.FreeAddress(t)}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("{global: {scrape_interval: 1s, evaluation_interval: 1s}, rule_files: [%q], scrape_configs: [{job_name: sallyport, static_configs: [{targets: [%q]}]}]}",
		rules, target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = cmd.Wait() })
	return p
}

// countSeries returns the number of series that a query returns.
func (p *prometheus) countSeries(t *testing.T, question string) int {
	t.Helper()
	var answer struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	request, err := http.NewRequestWithContext(harness.Within(t, 10*time.Second), http.MethodGet,
		"http://"+p.address+"/api/v1/query?query="+neturl.QueryEscape(question), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0 // it is still starting
	}
	defer response.Body.Close() //nolint:errcheck // read to the end
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0
	}
	if answer.Status == "error" {
		t.Errorf("%s: %s", question, answer.Error)
	}
	return len(answer.Data.Result)
}

// isAlertActive reports whether an alert is pending or firing.
func (p *prometheus) isAlertActive(t *testing.T, name string) bool {
	t.Helper()
	return p.countSeries(t, fmt.Sprintf("ALERTS{alertname=%q}", name)) > 0
}

// dashboardQueries returns the queries of the chart's dashboard, with Grafana's variables replaced.
func dashboardQueries(t *testing.T) (out []string) {
	t.Helper()
	var file struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(harness.ReadFile(t, "../../../charts/sallyport/monitoring/dashboard.json")),
		&file); err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Panels {
		for _, q := range p.Targets {
			out = append(out, strings.ReplaceAll(q.Expr, "$__rate_interval", "10s"))
		}
	}
	return out
}
