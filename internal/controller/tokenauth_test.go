package controller

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"
)

// newTestAuthorizer returns an authorizer for a cluster that allows one token, and a count of the reviews.
func newTestAuthorizer(asked *int, now *time.Time) *tokenAuthorizer {
	return &tokenAuthorizer{
		reviewToken: func(_ context.Context, token, _ string) (tokenDecision, error) {
			*asked++
			if token == "broken" {
				return tokenDecision{}, errors.New("the API server is away")
			}
			return tokenDecision{user: token, allowed: token == "prometheus"}, nil
		},
		clock: func() time.Time {
			return *now
		}, unknownLimiter: flowcontrol.NewFakeAlwaysRateLimiter(), decisions: map[[sha256.Size]byte]tokenDecision{},
	}
}

// getMetrics requests metrics with a header and returns the status code.
func getMetrics(s *tokenAuthorizer, authorization string) int {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	r, w := httptest.NewRequest(http.MethodGet, "/metrics", nil), httptest.NewRecorder()
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	s.wrapHandler(served).ServeHTTP(w, r)
	return w.Code
}

// Only users who may get the path can read metrics.
func TestWhoReadsMetrics(t *testing.T) {
	asked, now := 0, time.Now()
	s := newTestAuthorizer(&asked, &now)
	for authorization, want := range map[string]int{
		"Bearer prometheus": http.StatusOK, "": http.StatusUnauthorized, "Bearer ": http.StatusUnauthorized,
		"Basic prometheus": http.StatusUnauthorized,
		"Bearer somebody":  http.StatusForbidden, "Bearer broken": http.StatusServiceUnavailable,
		"Bearer " + string(make([]byte, maxTokenLength+1)): http.StatusUnauthorized,
	} {
		if got := getMetrics(s, authorization); got != want {
			t.Errorf("%.30q: %d, want %d", authorization, got, want)
		}
	}
}

// A decision expires, so a user who loses the permission loses access.
func TestTokensAreAskedAboutAgain(t *testing.T) {
	asked, now := 0, time.Now()
	s := newTestAuthorizer(&asked, &now)
	for range 10 {
		getMetrics(s, "Bearer prometheus")
	}
	if asked != 1 {
		t.Errorf("the cluster was asked %d times", asked)
	}
	now = now.Add(2 * allowedTTL)
	if getMetrics(s, "Bearer prometheus"); asked != 2 {
		t.Errorf("a while later it was asked %d times", asked)
	}
}

// A flood of invented tokens causes few requests to the API server and little memory use, and Prometheus can still
// read.
func TestInventedTokensAreFew(t *testing.T) {
	asked, now := 0, time.Now()
	s := newTestAuthorizer(&asked, &now)
	s.unknownLimiter = flowcontrol.NewTokenBucketRateLimiter(unknownTokenRate, unknownTokenBurst)
	if got := getMetrics(s, "Bearer prometheus"); got != http.StatusOK {
		t.Fatal(got)
	}
	for i := range 10 * maxDecisions {
		getMetrics(s, fmt.Sprintf("Bearer %d", i))
	}
	if asked > 2*unknownTokenBurst || len(s.decisions) > maxDecisions {
		t.Errorf("the cluster was asked %d times, and %d tokens are remembered", asked, len(s.decisions))
	}
	now = now.Add(2 * allowedTTL)
	if got := getMetrics(s, "Bearer prometheus"); got != http.StatusOK {
		t.Errorf("under a flood Prometheus gets %d", got)
	}
	s.unknownLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	for i := range 3 * maxDecisions {
		getMetrics(s, fmt.Sprintf("Bearer again %d", i))
	}
	if len(s.decisions) > maxDecisions {
		t.Errorf("%d tokens are remembered", len(s.decisions))
	}
}

// The API server is asked who holds the token, and whether that user may get that path.
func TestReview(t *testing.T) {
	api := fake.NewClientset()
	api.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		r.Status = authenticationv1.TokenReviewStatus{
			Authenticated: r.Spec.Token != "forged",
			User:          authenticationv1.UserInfo{Username: r.Spec.Token},
			Audiences:     slices.DeleteFunc(slices.Clone(r.Spec.Audiences), func(string) bool { return r.Spec.Token != "prometheus" }),
		}
		return true, r, nil
	})
	api.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		at := r.Spec.NonResourceAttributes
		r.Status.Allowed = r.Spec.User == "prometheus" && at.Path == "/metrics" && at.Verb == "get"
		return true, r, nil
	})
	for _, c := range []struct {
		audience, token, path string
		want                  tokenDecision
	}{
		{"", "prometheus", "/metrics", tokenDecision{user: "prometheus", allowed: true}},
		{"", "prometheus", "/debug", tokenDecision{user: "prometheus"}},
		{"", "tenant", "/metrics", tokenDecision{user: "tenant"}},
		{"", "forged", "/metrics", tokenDecision{}},
		{"ours", "prometheus", "/metrics", tokenDecision{user: "prometheus", allowed: true}},
		{"ours", "another audience", "/metrics", tokenDecision{}},
	} {
		if got, err := reviewToken(t.Context(), api, c.audience, c.token, c.path); err != nil || got != c.want {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
}
