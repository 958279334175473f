package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the chart calls the parts of the relay.
const (
	relayRole     = "sallyport-ovn-reader" // who may read OVN's databases through the API server
	relayAccount  = "sallyport-ovn-reader" // the ServiceAccount whose tokens the relay accepts
	relayPort     = "relay"                // the port of the controller's container
	controllerPod = "app.kubernetes.io/name=sallyport,app.kubernetes.io/component=controller"
)

// tokenLifetime is how long a token for the relay is valid: the minimum of Kubernetes. tokenReserve before its end, a
// new one is requested.
const (
	tokenLifetime = 10 * time.Minute
	tokenReserve  = time.Minute
)

// ErrNoRelay is returned if the controller offers no relay: it does not run, or the relay is switched off.
var ErrNoRelay = errors.New("no relay")

// RelayTunnel leads to the relay of the controller through the API server, with the caller's permissions: to list pods,
// to forward ports to them, and to request a token of the ServiceAccount whose tokens the relay accepts.
type RelayTunnel struct {
	api       kubernetes.Interface
	config    *rest.Config
	namespace string
	audience  string

	mu       sync.Mutex
	forward  httpstream.Connection // nil: not connected
	port     int32
	requests int
	token    string
	renewAt  time.Time
}

// NewRelayTunnel returns a tunnel to the controller in a namespace. It connects on first use.
func NewRelayTunnel(config *rest.Config, namespace, audience string) (*RelayTunnel, error) {
	config = rest.CopyConfig(config)
	config.Timeout = connectTimeout
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	return &RelayTunnel{api: api, config: config, namespace: namespace, audience: audience}, nil
}

// Close ends all connections.
func (t *RelayTunnel) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.forward != nil {
		_ = t.forward.Close()
		t.forward = nil
	}
}

// Token returns a token for the relay. It is worth nothing elsewhere.
func (t *RelayTunnel) Token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Now().Before(t.renewAt) {
		return t.token, nil
	}
	seconds := int64(tokenLifetime / time.Second)
	issued, err := t.api.CoreV1().ServiceAccounts(t.namespace).CreateToken(ctx, relayAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{t.audience}, ExpirationSeconds: &seconds,
		}}, metav1.CreateOptions{})
	if err != nil {
		return "", t.explainRefusal("request a token of ServiceAccount "+relayAccount, err)
	}
	t.token, t.renewAt = issued.Status.Token, issued.Status.ExpirationTimestamp.Add(-tokenReserve)
	return t.token, nil
}

// Dial opens a connection to the relay.
func (t *RelayTunnel) Dial(ctx context.Context) (net.Conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.forward != nil {
		select {
		case <-t.forward.CloseChan():
			t.forward = nil
		default:
		}
	}
	if t.forward == nil {
		if err := t.connect(ctx); err != nil {
			return nil, err
		}
	}
	t.requests++
	return openForward(t.forward, t.port, t.requests)
}

// connect forwards to the first pod of the controller that accepts it.
func (t *RelayTunnel) connect(ctx context.Context) error {
	pods, err := t.api.CoreV1().Pods(t.namespace).List(ctx, metav1.ListOptions{LabelSelector: controllerPod})
	if err != nil {
		return t.explainRefusal("list the pods of the controller", err)
	}
	running := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil
	})
	if len(running) == 0 {
		return fmt.Errorf("%w: no pod of the controller runs in namespace %s; check its Deployment, or set "+
			"--controller-namespace", ErrNoRelay, t.namespace)
	}
	var failed []error
	for _, p := range running {
		port := findRelayPort(&p)
		if port == 0 {
			continue
		}
		forward, err := forwardToPod(ctx, t.config, t.api, client.ObjectKeyFromObject(&p))
		if err == nil {
			t.forward, t.port = forward, port
			return nil
		}
		failed = append(failed, t.explainRefusal("forward a port to pod "+p.Name, err))
		if apierrors.IsForbidden(err) || ctx.Err() != nil {
			break
		}
	}
	if len(failed) == 0 {
		return fmt.Errorf("%w: the controller in namespace %s does not serve one (ovn.relay of the chart)", ErrNoRelay,
			t.namespace)
	}
	return errors.Join(failed...)
}

// findRelayPort returns the port of the relay in a pod, or 0.
func findRelayPort(p *corev1.Pod) int32 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == relayPort {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// explainRefusal adds the next step to an error of the API server.
func (t *RelayTunnel) explainRefusal(operation string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w; ask for the Role %s: kubectl -n %s create rolebinding NAME --role=%s --user=USER",
			operation, err, relayRole, t.namespace, relayRole)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: %w; upgrade the chart, with ovn.relay", operation, err)
	default:
		return fmt.Errorf("%s: %w", operation, err)
	}
}
