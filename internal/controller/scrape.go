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

// How long the cluster's word on a token is good, how many are remembered, and how often the cluster is asked about tokens that it never
// said yes to: whoever reaches the port may send any, and each would be two requests to the API server.
const (
	allowedFor   = time.Minute
	refusedFor   = 10 * time.Second
	remembered   = 256
	strangerRate = 2 // a second
	strangers    = 10
	longestToken = 16 << 10
	reviewWithin = 5 * time.Second
)

// metricsOptions is how metrics are served: plainly, or by TLS to who may read them.
func (c Config) metricsOptions() metricsserver.Options {
	out := metricsserver.Options{BindAddress: c.MetricsAddress}
	if !c.MetricsSecure {
		return out
	}
	out.SecureServing, out.CertDir, out.FilterProvider = true, c.MetricsCertDir, newScrapers
	out.TLSOpts = []func(*tls.Config){func(t *tls.Config) {
		t.MinVersion, t.NextProtos = tls.VersionTLS12, []string{"http/1.1"} // streams of HTTP/2 are cheap to open and dear to serve
	}}
	return out
}

// scrapers is who may read metrics: whom the cluster knows by a token, and lets get the path.
type scrapers struct {
	review   func(ctx context.Context, token, path string) (bool, error)
	clock    func() time.Time
	stranger flowcontrol.RateLimiter

	mu    sync.Mutex
	known map[[sha256.Size]byte]scraper
}

// scraper is what the cluster said of a token for a path.
type scraper struct {
	allowed bool
	until   time.Time
}

func newScrapers(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	api, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	s := &scrapers{
		review: func(ctx context.Context, token, path string) (bool, error) { return review(ctx, api, token, path) },
		clock:  time.Now, stranger: flowcontrol.NewTokenBucketRateLimiter(strangerRate, strangers), known: map[[sha256.Size]byte]scraper{},
	}
	return func(_ logr.Logger, handler http.Handler) (http.Handler, error) { return s.filter(handler), nil }, nil
}

// filter lets requests through that may.
func (s *scrapers) filter(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, bears := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !bears || token == "" || len(token) > longestToken {
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), reviewWithin)
		defer cancel()
		switch allowed, err := s.allows(ctx, token, r.URL.Path); {
		case err != nil:
			http.Error(w, "the token could not be checked", http.StatusServiceUnavailable)
		case !allowed:
			http.Error(w, "bind the ClusterRole sallyport-metrics-reader to read this", http.StatusForbidden)
		default:
			handler.ServeHTTP(w, r)
		}
	})
}

// allows says whether the cluster lets whoever has a token get a path. Who was let in before does not wait for strangers.
func (s *scrapers) allows(ctx context.Context, token, path string) (bool, error) {
	key := sha256.Sum256([]byte(path + "\x00" + token))
	s.mu.Lock()
	known, now := s.known[key], s.clock()
	s.mu.Unlock()
	if now.Before(known.until) {
		return known.allowed, nil
	}
	if !known.allowed && !s.stranger.TryAccept() {
		return false, fmt.Errorf("too many tokens at once")
	}
	allowed, err := s.review(ctx, token, path)
	if err != nil {
		return false, err
	}
	until := now.Add(refusedFor)
	if allowed {
		until = now.Add(allowedFor)
	}
	s.remember(key, scraper{allowed: allowed, until: until})
	return allowed, nil
}

// remember keeps what was said. Where too much is kept, refusals are forgotten, and then everything.
func (s *scrapers) remember(key [sha256.Size]byte, said scraper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= remembered {
		for k, old := range s.known {
			if !old.allowed {
				delete(s.known, k)
			}
		}
	}
	if len(s.known) >= remembered {
		clear(s.known)
	}
	s.known[key] = said
}

// review asks the cluster who has a token, and whether he may get a path.
func review(ctx context.Context, api kubernetes.Interface, token, path string) (bool, error) {
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
