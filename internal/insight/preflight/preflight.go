// Package preflight checks whether Sallyport can be installed in a cluster, and what an installation will lack there.
// What is wrong with a running installation is reported by diagnosis.
package preflight

import (
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/internal/model/installation"
)

// State is the result of a check.
type State string

// The states.
const (
	OK         State = "ok"
	NotChecked State = "not checked"
	Warning    State = "warning"
	Failed     State = "failed"
)

// Result is one line of the report.
type Result struct {
	Check string `json:"check"`
	State State  `json:"state"`
	// Code names the fault; empty: there is none.
	Code string `json:"code,omitempty"`
	// Seen is what was found, Next what to do about it.
	Seen string `json:"seen"`
	Next string `json:"next,omitempty"`
}

// Unreadable is the code of a check whose data could not be read.
const Unreadable = "Unreadable"

// check is one check, with the parts of the cluster that it needs.
type check struct {
	name  string
	needs []installation.Part
	run   func(*run)
}

// run is one run of a check.
type run struct {
	*installation.Cluster
	check   string
	results []Result
}

// checks are all of them, in the order of the report.
var checks = []check{
	{"Kubernetes", []installation.Part{installation.Version}, checkKubernetes},
	{"Admission policies", []installation.Part{installation.APIs}, checkAdmission},
	{"Priority and fairness", []installation.Part{installation.APIs}, checkPriority},
	{"Kube-OVN", []installation.Part{installation.Workloads, installation.APIs}, checkEngine},
	{"Kube-OVN's settings", []installation.Part{installation.Workloads}, checkEngineSettings},
	{"Gateway nodes", []installation.Part{installation.Nodes}, checkGatewayNodes},
	{"Gateway settings", []installation.Part{installation.Gateways}, checkGatewayConfig},
	{"External networks", []installation.Part{installation.Subnets}, checkExternalNetworks},
	{"Provider networks", []installation.Part{installation.Subnets, installation.Nodes}, checkProviderNetworks},
	{"OVN's databases", []installation.Part{installation.Databases}, checkDatabases},
	{"TLS", []installation.Part{installation.Workloads}, checkTLS},
	{"Secrets", []installation.Part{installation.Workloads}, checkSecrets},
	{"Definitions", []installation.Part{installation.Definitions}, checkDefinitions},
	{"Namespaces", []installation.Part{installation.Namespaces}, checkNamespaces},
	{"Other installations", []installation.Part{installation.Workloads}, checkNamesakes},
	{"Image", []installation.Part{installation.Workloads, installation.Pods}, checkImage},
	{"Your permissions", []installation.Part{installation.Permissions}, checkPermissions},
}

// Check runs all checks.
func Check(c *installation.Cluster) (out []Result) {
	for _, k := range checks {
		r := &run{Cluster: c, check: k.name}
		if !r.reportUnread(k.needs) {
			k.run(r)
		}
		out = append(out, r.results...)
	}
	return out
}

// reportUnread reports that the check can't run. It returns false if everything was read.
func (r *run) reportUnread(needs []installation.Part) bool {
	for _, part := range needs {
		if problem := r.FailureOf(part); problem != "" {
			r.skip(Unreadable, adviceForReading(problem), "could not read %s: %s", part, problem)
			return true
		}
	}
	return false
}

// adviceForReading says how to make something readable.
func adviceForReading(problem string) string {
	if strings.Contains(problem, "forbidden") {
		return "ask for permission to read it, or let an administrator of the cluster run this command"
	}
	return "check the connection to the API server, and run the command again"
}

// pass reports that nothing is wrong.
func (r *run) pass(format string, args ...any) { r.add(OK, "", "", fmt.Sprintf(format, args...)) }

// skip reports that the check was not done. With a code, it should have been.
func (r *run) skip(code, next, format string, args ...any) {
	r.add(NotChecked, code, next, fmt.Sprintf(format, args...))
}

// warn reports something that an installation may lack.
func (r *run) warn(code, next, format string, args ...any) {
	r.add(Warning, code, next, fmt.Sprintf(format, args...))
}

// fail reports something without which Sallyport does not work.
func (r *run) fail(code, next, format string, args ...any) {
	r.add(Failed, code, next, fmt.Sprintf(format, args...))
}

func (r *run) add(s State, code, next, seen string) {
	r.results = append(r.results, Result{Check: r.check, State: s, Code: code, Seen: seen, Next: next})
}

// passIfClean reports that nothing is wrong, if nothing was reported.
func (r *run) passIfClean(format string, args ...any) {
	if len(r.results) == 0 {
		r.pass(format, args...)
	}
}

// Worst returns the worst state: Failed, Warning or OK. A check that could not be done for want of data is a warning;
// one that does not apply yet is none.
func Worst(results []Result) State {
	worst := OK
	for _, r := range results {
		switch {
		case r.State == Failed:
			return Failed
		case r.State == Warning, r.State == NotChecked && r.Code != "":
			worst = Warning
		}
	}
	return worst
}
