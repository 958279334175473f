package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// startFakeAPI starts an API server that knows pods, and answers other requests with a status for their path. Requests
// whose path is "hang" in it are never answered.
func startFakeAPI(t *testing.T, pods []corev1.Pod, statuses map[string]int) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for part, code := range statuses {
			if strings.HasSuffix(r.URL.Path, part) {
				if code == 0 {
					<-r.Context().Done()
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_ = json.NewEncoder(w).Encode(metav1.Status{
					TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
					Code: int32(code), Reason: map[int]metav1.StatusReason{
						http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
					}[code], Message: "no " + part,
				})
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods})
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return &rest.Config{Host: server.URL}
}

func controllerPodObject(phase corev1.PodPhase, port string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one"}, Status: corev1.PodStatus{Phase: phase},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: port, ContainerPort: 1}}}}},
	}
}

// TestRefusedTunnelsSayWhatToDo refuses one request at a time. A refusal is never taken for a missing relay.
func TestRefusedTunnelsSayWhatToDo(t *testing.T) {
	good := []corev1.Pod{controllerPodObject(corev1.PodRunning, relayPort)}
	for name, c := range map[string]struct {
		pods     []corev1.Pod
		statuses map[string]int
		noRelay  bool
		want     string
	}{
		"no controller":      {nil, nil, true, "no pod of the controller runs in namespace sp; check its Deployment"},
		"pending":            {[]corev1.Pod{controllerPodObject(corev1.PodPending, relayPort)}, nil, true, "no pod of the controller runs"},
		"switched off":       {[]corev1.Pod{controllerPodObject(corev1.PodRunning, "metrics")}, nil, true, "ovn.relay of the chart"},
		"pods forbidden":     {nil, map[string]int{"/pods": 403}, false, "--role=sallyport-ovn-reader"},
		"pods fail":          {nil, map[string]int{"/pods": 500}, false, "list the pods of the controller"},
		"forward forbidden":  {good, map[string]int{"/portforward": 403}, false, "forward a port to pod one: no /portforward; ask for the Role"},
		"forward fails":      {good, map[string]int{"/portforward": 502}, false, "forward a port to pod one"},
		"forward never ends": {good, map[string]int{"/portforward": 0}, false, "forward a port to pod one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tunnel, err := NewRelayTunnel(startFakeAPI(t, c.pods, c.statuses), "sp", "relay")
			if err != nil {
				t.Fatal(err)
			}
			defer tunnel.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*connectTimeout)
			defer cancel()
			began := time.Now()
			_, err = tunnel.Dial(ctx)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrNoRelay) != c.noRelay {
				t.Errorf("%v, want %q", err, c.want)
			}
			if took := time.Since(began); took > connectTimeout+3*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestRefusedTokensSayWhatToDo(t *testing.T) {
	for code, want := range map[int]string{
		http.StatusForbidden: "--role=sallyport-ovn-reader", http.StatusNotFound: "upgrade the chart",
		http.StatusInternalServerError: "request a token of ServiceAccount sallyport-ovn-reader",
	} {
		tunnel, err := NewRelayTunnel(startFakeAPI(t, nil, map[string]int{"/token": code}), "sp", "relay")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tunnel.Token(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// TestRefusedDialsNameThePod refuses to forward a port, and never answers.
func TestRefusedDialsNameThePod(t *testing.T) {
	for code, want := range map[int]string{http.StatusForbidden: "no portforward", 0: "timeout"} {
		dialer, err := NewPodDialer(startFakeAPI(t, nil, map[string]int{"portforward": code}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err = dialer.Dial(ctx, client.ObjectKey{Namespace: "a", Name: "b"}, 1)
		if err == nil || !strings.Contains(err.Error(), "pod a/b") || !strings.Contains(err.Error(), want) {
			t.Errorf("status %d: %v", code, err)
		}
	}
}
