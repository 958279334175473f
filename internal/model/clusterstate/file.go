package clusterstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Write writes a survey as JSON, so that somebody else can look at it later.
func (s *State) Write(to io.Writer) error { return json.NewEncoder(to).Encode(s) }

// DefaultLimit is how large a survey may be that is read, in bytes: eight times that of a cluster with a thousand
// projects.
const DefaultLimit = 128 << 20

// Read reads what Write has written, of at most so many bytes. Its texts can be printed as they are, and what surveys
// do not keep today is not in it.
func Read(from io.Reader, limit int64) (*State, error) {
	var out State
	if err := json.NewDecoder(limitJSON(from, limit)).Decode(&out); err != nil {
		if errors.As(err, new(TooLargeError)) {
			return nil, err
		}
		return nil, fmt.Errorf("not a survey: %w", err)
	}
	if out.Taken.IsZero() {
		return nil, errors.New("not a survey: it has no time")
	}
	for _, services := range [][]Service{out.Cluster.Services, out.Cluster.Beside} {
		for i := range services {
			services[i].Annotations = KeepAnnotations(services[i].Annotations)
		}
	}
	out = EscapeControlChars(out)
	return &out, nil
}

// networkAnnotationDomains are the domains of annotations that say something about networks: Sallyport's, Kube-OVN's
// and OVN-Kubernetes'.
var networkAnnotationDomains = []string{"kube-dc.com", "ovn.kubernetes.io", "k8s.ovn.org"}

// KeepAnnotations is the annotations that say something about networks. Those of other programs may be their tokens, or
// a copy of everything that somebody applied; a survey goes to others, and does not have them.
func KeepAnnotations(all map[string]string) map[string]string {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(name, _ string) bool {
		domain, _, _ := strings.Cut(name, "/")
		return !slices.ContainsFunc(networkAnnotationDomains, func(d string) bool {
			return domain == d || strings.HasSuffix(domain, "."+d)
		})
	})
	return out
}
