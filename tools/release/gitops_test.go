package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	"go.yaml.in/yaml/v3"
)

const gitopsDir = "../../examples/gitops"

// states are objects as the controller leaves them, and what both tools are to make of them.
var states = []struct {
	object, argo, flux string
}{
	{`{metadata: {generation: 1}}`, "Progressing", "inProgress"},
	{`{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Accepted, status: "True", reason: Accepted}, {type: Programmed, status: "True", reason: Programmed}]}}`, "Progressing", "inProgress"},
	{`{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [{type: Accepted, status: "True", reason: Accepted}, {type: Programmed, status: "True", reason: Programmed}]}}`, "Healthy", "current"},
	{`{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Accepted, status: "False", reason: QuotaExceeded}, {type: Programmed, status: "False", reason: NotAccepted}]}}`, "Degraded", "failed"},
	{`{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Programmed, status: "False", reason: NotAccepted}, {type: Accepted, status: "False", reason: QuotaExceeded}]}}`, "Degraded", "failed"},
	{`{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Accepted, status: "True", reason: Accepted}, {type: Programmed, status: "False", reason: Programming}]}}`, "Progressing", ""},
	{`{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: ResolvedRefs, status: "False", reason: PodNotFound}]}}`, "Progressing", ""},
	{`{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: ResolvedRefs, status: "False", reason: NetworkNotFound}]}}`, "Degraded", ""},
	{`{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Accepted, status: "True", reason: Accepted}, {type: Programmed, status: "False", reason: PoolExhausted}]}}`, "Degraded", ""},
	// what is about the mode of a network, or a tenant's own pods, is no failure
	{`{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Accepted, status: "True", reason: Accepted}, {type: ReturnPath, status: "False", reason: EngineTooOld}]}}`, "Healthy", "current"},
}

func TestArgoHealth(t *testing.T) {
	var config struct{ Data map[string]string }
	readYAML(t, "argocd/health.yaml", &config)
	var checks map[string]map[string]string
	if err := yaml.Unmarshal([]byte(config.Data["resource.customizations"]), &checks); err != nil || len(checks) != 2 {
		t.Fatalf("%d checks: %v", len(checks), err)
	}
	for group, check := range checks {
		for _, s := range states {
			l := lua.NewState()
			l.SetGlobal("obj", toLua(l, parse(t, s.object)))
			if err := l.DoString(check["health.lua"]); err != nil {
				t.Fatalf("%s: %v", group, err)
			}
			if got := l.GetField(l.Get(-1), "status").String(); got != s.argo {
				t.Errorf("%s: %s, wanted %s: %s", group, got, s.argo, s.object)
			}
			l.Close()
		}
	}
}

// toLua is a value as Argo CD gives it to a check.
func toLua(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		out := l.NewTable()
		for key, value := range v {
			out.RawSetString(key, toLua(l, value))
		}
		return out
	case []any:
		out := l.NewTable()
		for _, value := range v {
			out.Append(toLua(l, value))
		}
		return out
	case int:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	}
	return lua.LNil
}

func TestFluxHealth(t *testing.T) {
	var k struct {
		Spec struct {
			HealthCheckExprs []map[string]string `yaml:"healthCheckExprs"`
		}
	}
	readYAML(t, "flux/tenants.yaml", &k)
	if len(k.Spec.HealthCheckExprs) != 7 {
		t.Fatalf("%d kinds", len(k.Spec.HealthCheckExprs))
	}
	env, err := cel.NewEnv(cel.Variable("status", cel.DynType), cel.Variable("metadata", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range k.Spec.HealthCheckExprs {
		for _, s := range states {
			object := parse(t, s.object)
			if object["status"] == nil {
				object["status"] = map[string]any{}
			}
			got := ""
			for _, state := range []string{"inProgress", "failed", "current"} { // in Flux's order
				if evaluate(t, env, check[state], object) {
					got = state
					break
				}
			}
			if got != s.flux {
				t.Errorf("%s: %q, wanted %q: %s", check["kind"], got, s.flux, s.object)
			}
		}
	}
}

func evaluate(t *testing.T, env *cel.Env, expression string, object map[string]any) bool {
	t.Helper()
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := program.Eval(object)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return out.Value() == true
}

// The examples name the chart that is published, at its version.
func TestExamplesNameTheChart(t *testing.T) {
	var app struct {
		Spec struct {
			Source struct {
				RepoURL        string `yaml:"repoURL"`
				Chart          string
				TargetRevision string `yaml:"targetRevision"`
			}
		}
	}
	readYAML(t, "argocd/sallyport.yaml", &app)
	var chart struct{ Name, Version string }
	if err := yaml.Unmarshal(read(t, "../../charts/sallyport/Chart.yaml"), &chart); err != nil {
		t.Fatal(err)
	}
	if s := app.Spec.Source; s.RepoURL+"/"+s.Chart != "ghcr.io/sallyport/charts/"+chart.Name || s.TargetRevision != chart.Version {
		t.Errorf("%+v", s)
	}
	if flux := string(read(t, filepath.Join(gitopsDir, "flux/sallyport.yaml"))); !strings.Contains(flux, "oci://ghcr.io/sallyport/charts/"+chart.Name+"\n") {
		t.Error("Flux's example names another chart")
	}
}

func readYAML(t *testing.T, path string, out any) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, filepath.Join(gitopsDir, path)), out); err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
