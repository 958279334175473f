package controller

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
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

// credentialIDKey is the attribute of a user with the id of the token. The audit log of the API server has the same id
// where the token was issued, with the user who asked for it.
const credentialIDKey = "authentication.kubernetes.io/credential-id"

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

// tokenAuthorizer decides who may get a path: users with a token that the cluster authorizes to get it.
type tokenAuthorizer struct {
	reviewToken    func(ctx context.Context, token, path string) (tokenDecision, error)
	clock          func() time.Time
	unknownLimiter flowcontrol.RateLimiter

	mu        sync.Mutex
	decisions map[[sha256.Size]byte]tokenDecision
}

// tokenDecision is the API server's decision about a token and a path.
type tokenDecision struct {
	user       string // who holds it; empty: the token is not valid
	credential string // the token's name in the audit log of the API server
	allowed    bool
	validUntil time.Time
}

func newMetricsFilter(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	api, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	s := newTokenAuthorizer(api, "")
	return func(_ logr.Logger, handler http.Handler) (http.Handler, error) { return s.wrapHandler(handler), nil }, nil
}

// newTokenAuthorizer returns an authorizer for tokens with an audience. Without one, they are tokens for the API server.
func newTokenAuthorizer(api kubernetes.Interface, audience string) *tokenAuthorizer {
	return &tokenAuthorizer{
		reviewToken: func(ctx context.Context, token, path string) (tokenDecision, error) {
			return reviewToken(ctx, api, audience, token, path)
		},
		clock: time.Now, unknownLimiter: flowcontrol.NewTokenBucketRateLimiter(unknownTokenRate,
			unknownTokenBurst), decisions: map[[sha256.Size]byte]tokenDecision{},
	}
}

// wrapHandler passes authorized requests to the handler.
func (s *tokenAuthorizer) wrapHandler(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, bears := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !bears || token == "" || len(token) > maxTokenLength {
			http.Error(w, "bearer token required", http.StatusUnauthorized)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
		defer cancel()
		switch decision, err := s.decide(ctx, token, r.URL.Path); {
		case err != nil:
			http.Error(w, "the token could not be checked", http.StatusServiceUnavailable)
		case !decision.allowed:
			http.Error(w, "forbidden: bind the ClusterRole sallyport-metrics-reader to this user", http.StatusForbidden)
		default:
			handler.ServeHTTP(w, r)
		}
	})
}

// decide returns whether the holder of a token may get a path. Tokens that were allowed before are not limited by the rate
// limit for unknown ones.
func (s *tokenAuthorizer) decide(ctx context.Context, token, path string) (tokenDecision, error) {
	key := sha256.Sum256([]byte(path + "\x00" + token))
	s.mu.Lock()
	known, now := s.decisions[key], s.clock()
	s.mu.Unlock()
	if now.Before(known.validUntil) {
		return known, nil
	}
	if !known.allowed && !s.unknownLimiter.TryAccept() {
		return tokenDecision{}, fmt.Errorf("too many unknown tokens")
	}
	decision, err := s.reviewToken(ctx, token, path)
	if err != nil {
		return tokenDecision{}, err
	}
	decision.validUntil = now.Add(deniedTTL)
	if decision.allowed {
		decision.validUntil = now.Add(allowedTTL)
	}
	s.cacheDecision(key, decision)
	return decision, nil
}

// cacheDecision caches a decision. If the cache is full, it drops denials first, then everything.
func (s *tokenAuthorizer) cacheDecision(key [sha256.Size]byte, said tokenDecision) {
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

// reviewToken asks the API server who holds a token, and whether that user may get a path. With an audience, tokens that
// were issued for something else are not valid.
func reviewToken(ctx context.Context, api kubernetes.Interface, audience, token, path string) (out tokenDecision, err error) {
	asked := authenticationv1.TokenReviewSpec{Token: token}
	if audience != "" {
		asked.Audiences = []string{audience}
	}
	who, err := api.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: asked},
		metav1.CreateOptions{})
	// an authenticator that knows no audiences returns none, and the token is one for the API server
	if err != nil || !who.Status.Authenticated ||
		audience != "" && !slices.Contains(who.Status.Audiences, audience) {
		return tokenDecision{}, err
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
		return tokenDecision{}, err
	}
	return tokenDecision{
		user: user.Username, credential: strings.Join(user.Extra[credentialIDKey], ","), allowed: may.Status.Allowed,
	}, nil
}
