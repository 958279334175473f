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

// Write writes the state as JSON.
func (s *State) Write(to io.Writer) error { return json.NewEncoder(to).Encode(s) }

// DefaultLimit is the maximum size of a survey that is read, in bytes: eight times that of a cluster with a thousand
// projects.
const DefaultLimit = 128 << 20

// Read reads a survey of at most limit bytes that Write has written. Its strings are escaped, and it contains nothing
// that surveys no longer include.
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

// networkAnnotationDomains are the domains of annotations about networks: those of Sallyport, Kube-OVN and
// OVN-Kubernetes.
var networkAnnotationDomains = []string{"kube-dc.com", "ovn.kubernetes.io", "k8s.ovn.org"}

// KeepAnnotations returns the annotations about networks. Those of other programs may contain tokens, or a copy of an
// applied manifest. A survey is passed on to others, so it does not include them.
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
