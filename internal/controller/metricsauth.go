package controller

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// How long decisions about tokens are cached, how many, and how often the API server is asked about tokens that it
// never allowed. Anyone who reaches the port can send any token, and each costs two requests to the API server.
const (
	allowedTTL        = time.Minute
	deniedTTL         = 10 * time.Second
	maxDecisions      = 256
	unknownTokenRate  = 2 // a second
	unknownTokenBurst = 10
	maxTokenLength    = 16 << 10
	reviewTimeout     = 5 * time.Second
)

// metricsOptions returns how metrics are served: over plain HTTP, or over TLS to authorized users.
func (c Config) metricsOptions() metricsserver.Options {
	out := metricsserver.Options{BindAddress: c.MetricsAddress}
	if !c.MetricsSecure {
		return out
	}
	out.SecureServing, out.CertDir, out.FilterProvider = true, c.MetricsCertDir, newMetricsFilter
	out.TLSOpts = []func(*tls.Config){func(t *tls.Config) {
		// HTTP/2 streams are cheap to open and expensive to serve
		t.MinVersion, t.NextProtos = tls.VersionTLS12, []string{"http/1.1"}
	}}
	return out
}

// metricsAuthorizer decides who may read metrics: users with a token that the cluster authorizes to get the path.
type metricsAuthorizer struct {
	reviewToken    func(ctx context.Context, token, path string) (bool, error)
	clock          func() time.Time
	unknownLimiter flowcontrol.RateLimiter

	mu        sync.Mutex
	decisions map[[sha256.Size]byte]tokenDecision
}

// tokenDecision is the API server's decision about a token and a path.
type tokenDecision struct {
	allowed    bool
	validUntil time.Time
}

func newMetricsFilter(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	api, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	s := &metricsAuthorizer{
		reviewToken: func(ctx context.Context, token, path string) (bool, error) {
			return reviewToken(ctx, api, token, path)
		},
		clock: time.Now, unknownLimiter: flowcontrol.NewTokenBucketRateLimiter(unknownTokenRate,
			unknownTokenBurst), decisions: map[[sha256.Size]byte]tokenDecision{},
	}
	return func(_ logr.Logger, handler http.Handler) (http.Handler, error) { return s.wrapHandler(handler), nil }, nil
}

// wrapHandler passes authorized requests to the handler.
func (s *metricsAuthorizer) wrapHandler(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, bears := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !bears || token == "" || len(token) > maxTokenLength {
			http.Error(w, "bearer token required", http.StatusUnauthorized)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
		defer cancel()
		switch allowed, err := s.isAllowed(ctx, token, r.URL.Path); {
		case err != nil:
			http.Error(w, "the token could not be checked", http.StatusServiceUnavailable)
		case !allowed:
			http.Error(w, "forbidden: bind the ClusterRole sallyport-metrics-reader to this user", http.StatusForbidden)
		default:
			handler.ServeHTTP(w, r)
		}
	})
}

// isAllowed reports whether the holder of a token may get a path. Tokens that were allowed before are not limited by
// the rate limit for unknown ones.
func (s *metricsAuthorizer) isAllowed(ctx context.Context, token, path string) (bool, error) {
	key := sha256.Sum256([]byte(path + "\x00" + token))
	s.mu.Lock()
	known, now := s.decisions[key], s.clock()
	s.mu.Unlock()
	if now.Before(known.validUntil) {
		return known.allowed, nil
	}
	if !known.allowed && !s.unknownLimiter.TryAccept() {
		return false, fmt.Errorf("too many unknown tokens")
	}
	allowed, err := s.reviewToken(ctx, token, path)
	if err != nil {
		return false, err
	}
	until := now.Add(deniedTTL)
	if allowed {
		until = now.Add(allowedTTL)
	}
	s.cacheDecision(key, tokenDecision{allowed: allowed, validUntil: until})
	return allowed, nil
}

// cacheDecision caches a decision. If the cache is full, it drops denials first, then everything.
func (s *metricsAuthorizer) cacheDecision(key [sha256.Size]byte, said tokenDecision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.decisions) >= maxDecisions {
		for k, old := range s.decisions {
			if !old.allowed {
				delete(s.decisions, k)
			}
		}
	}
	if len(s.decisions) >= maxDecisions {
		clear(s.decisions)
	}
	s.decisions[key] = said
}

// reviewToken asks the API server who holds a token, and whether that user may get a path.
func reviewToken(ctx context.Context, api kubernetes.Interface, token, path string) (bool, error) {
	who, err := api.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil || !who.Status.Authenticated {
		return false, err
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := api.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return may.Status.Allowed, nil
}
