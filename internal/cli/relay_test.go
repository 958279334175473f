package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// servedKinds are the kinds of the fake API server.
var servedKinds = map[string]map[string]string{
	"/api/v1": {
		"pods": "Pod", "nodes": "Node", "services": "Service", "namespaces": "Namespace", "events": "Event",
	},
	"/apis/kube-dc.com/v1": {"projects": "Project", "eips": "EIp", "fips": "FIp"},
}

// startRefusingAPI starts an API server without objects that refuses to list a kind, or all if it is empty. It returns a
// kubeconfig for it.
func startRefusingAPI(t *testing.T, refused string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure"}
		parts := strings.Split(r.URL.Path, "/")
		kind := parts[len(parts)-1]
		switch {
		case r.URL.Path == "/version":
			answer = map[string]any{"gitVersion": "v1.35.4"}
		case r.URL.Path == "/api":
			answer = map[string]any{"kind": "APIVersions", "versions": []string{"v1"}}
		case r.URL.Path == "/apis":
			version := map[string]any{"groupVersion": "kube-dc.com/v1", "version": "v1"}
			answer = map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{
				map[string]any{"name": "kube-dc.com", "versions": []any{version}, "preferredVersion": version},
			}}
		case servedKinds[r.URL.Path] != nil:
			var list []any
			for plural, kind := range servedKinds[r.URL.Path] {
				list = append(list, map[string]any{"name": plural, "kind": kind, "namespaced": true, "verbs": []string{"list"}})
			}
			version := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
			answer = map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": list}
		case strings.HasPrefix(r.URL.Path, "/apis/") && len(parts) == 4: // a version that is not served
			w.WriteHeader(http.StatusNotFound)
			answer["reason"], answer["code"] = "NotFound", http.StatusNotFound
		case refused != "" && kind != refused && kind != "token":
			version := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(r.URL.Path, "/"+kind), "/apis/"), "/api/")
			answer = map[string]any{"kind": "List", "apiVersion": version, "items": []any{}}
		default:
			w.WriteHeader(http.StatusForbidden)
			answer["reason"], answer["code"] = "Forbidden", http.StatusForbidden
			answer["message"] = r.URL.Path + ` is forbidden: User "olga" cannot list it`
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["one"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["one"] = &clientcmdapi.Context{Cluster: "one"}
	config.CurrentContext = "one"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRefusedIsNotAbsent runs every command for a user who may not read a kind, or nothing. None says that something does
// not exist, and each fails with what could not be read and what to ask for.
func TestRefusedIsNotAbsent(t *testing.T) {
	for _, kind := range []string{"", "pods", "nodes", "projects", "eips", "fips"} {
		t.Run("refused "+kind, func(t *testing.T) { runRefused(t, startRefusingAPI(t, kind)) })
	}
}

func runRefused(t *testing.T, kubeconfig string) {
	t.Helper()
	t.Setenv("OVN_NB_DB", "")
	t.Setenv("OVN_SB_DB", "")
	for _, args := range [][]string{
		{"status"},
		{"doctor"},
		{"map"},
		{"map", "acme"},
		{"top"},
		{"explain", "eip/front", "-n", "acme"},
		{"explain", "198.51.100.7"},
		{"trace", "203.0.113.9", "198.51.100.7:80"},
		{"trace", "--from", "pod/web", "-n", "acme", "198.51.100.7:80"},
		{"trace", "--from", "node/one", "198.51.100.7:80"},
		{"survey", filepath.Join(t.TempDir(), "survey.json")},
		{"plan"},
		{"plan", "acme"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var out bytes.Buffer
			cmd := New("test")
			cmd.SetArgs(append(args, "--kubeconfig", kubeconfig, "--timeout=20s"))
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			err := cmd.ExecuteContext(t.Context())
			if err == nil || ExitCode(err) == 0 {
				t.Fatalf("it succeeds:\n%s", out.String())
			}
			text := out.String() + err.Error()
			for _, wrong := range []string{"does not exist", "there is no", "not found", "no such", "is not assigned", "nothing is wrong"} {
				if strings.Contains(text, wrong) {
					t.Errorf("it says %q:\n%s", wrong, text)
				}
			}
			if !strings.Contains(text, "forbidden") || !strings.Contains(text, "sallyport-ovn-reader") &&
				!strings.Contains(text, "sallyport-operator") {
				t.Errorf("it does not say what to ask for:\n%s", text)
			}
		})
	}
}

func TestIncompleteErrors(t *testing.T) {
	if err := newIncompleteError(nil); err != nil {
		t.Error(err)
	}
	for system, want := range map[string]string{
		clusterstate.Kubernetes: "ask for the ClusterRole sallyport-operator", clusterstate.Northbound: "may exist",
		clusterstate.Southbound: "could not read OVN southbound database: pods is forbidden",
	} {
		err := newIncompleteError([]clusterstate.ReadFailure{{System: system, Problem: "pods is forbidden"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", system, err)
		}
		s := &clusterstate.State{Unread: []clusterstate.ReadFailure{{System: system, Problem: "pods is forbidden"}}}
		if _, err := renderMap(s, []string{"acme"}, formatText, drawing.Auto); err == nil || strings.Contains(err.Error(), "there is no") {
			t.Errorf("%s: %v", system, err)
		}
	}
	if _, err := renderMap(&clusterstate.State{}, []string{"acme"}, formatText, drawing.Auto); err == nil ||
		!strings.Contains(err.Error(), "there is no project acme") {
		t.Errorf("control: %v", err)
	}
}

// TestRefusalIsNotEvaded checks that servers found in the cluster are used only if there is no relay.
func TestRefusalIsNotEvaded(t *testing.T) {
	found := kube.DiscoveredSettings{Northbound: []string{"tcp:found:1"}, Southbound: []string{"tcp:found:2"}}
	var a clusterAccess
	config, _, err := kube.LoadConfigContext(startRefusingAPI(t, ""), "")
	if err != nil {
		t.Fatal(err)
	}
	a.config.Kubernetes = config
	a.namespaces.Controller = "sp"
	a.connectDatabases(context.Background(), found)
	if a.config.Northbound.Unavailable == nil || len(a.config.Northbound.Endpoints) > 0 ||
		errors.Is(a.config.Southbound.Unavailable, kube.ErrNoRelay) {
		t.Errorf("%v %v", a.config.Northbound, a.config.Southbound.Unavailable)
	}
}
