package explain_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/explain"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

func TestNamesMeanObjects(t *testing.T) {
	s := healthySurvey()
	s.Cluster.Services = append(s.Cluster.Services, clusterstate.Service{Object: plainObject("Service", "beta", "web")})
	for _, c := range []struct {
		text, namespace string
		want            state.Ref
	}{
		{"eip/front", "", frontEIP},
		{"EIP/front", "acme-prod", frontEIP},
		{"eips/front", "", frontEIP},
		{"svc/web", "acme-prod", web},
		{"services/mail", "", mail},
		{"egressip/out", "acme-prod", egress}, // cluster-scoped
		{"egressroutes/partners", "", partners},
		{"project/prod", "", project},
		{"project/acme-prod", "", project},
		{"network/public", "", ref("ExternalNetwork", "", "public")},
		{"subnet/ext-public", "", ref("ExternalNetwork", "", "public")},
		{"network/ext-cloud", "", ref("Subnet", "", "ext-cloud")},
		{"nodepath/node1", "", ref("Node", "", "node1")},
		{"pod/db-0", "", ref("Pod", "acme-prod", "db-0")},
		{"mail", "", mail}, // the name is unique
	} {
		got, err := explain.Resolve(s, c.text, c.namespace)
		if err != nil || got.Object != c.want {
			t.Errorf("%s in %q: %v, %v; want %v", c.text, c.namespace, got.Object, err, c.want)
		}
	}
	for _, text := range []string{"198.51.100.7", "2001:db8::7", "[2001:db8::7]"} {
		if got, err := explain.Resolve(s, text, ""); err != nil || !got.Address.IsValid() {
			t.Errorf("%s: %v, %v; want an address", text, got, err)
		}
	}
}

func TestNamesThatAreWrongSuggestOthers(t *testing.T) {
	s := healthySurvey()
	s.Cluster.Services = append(s.Cluster.Services, clusterstate.Service{Object: plainObject("Service", "beta", "web")})
	for _, c := range []struct {
		text, namespace string
		wants           []string
	}{
		// transposed letters
		{"eip/fornt", "", []string{"there is no eip/fornt;", "eip/front -n acme-prod"}},
		{"eip/frnt", "", []string{"eip/front -n acme-prod"}},                                 // a missing letter
		{"eip/front", "beta", []string{"in namespace beta;", "eip/front -n acme-prod"}},      // in another namespace
		{"svc/web", "", []string{"is ambiguous", "svc/web -n acme-prod", "svc/web -n beta"}}, // in two namespaces
		// the start of its namespace
		{"project/acme", "", []string{"project/prod -n acme"}},
		{"epi/front", "", []string{`no kind "epi"; use eip`}},
		{"volume/front", "", []string{`no kind "volume"; use eip, fip, svc`}},
		{"eip/something-else", "", []string{"kubectl get"}},
	} {
		_, err := explain.Resolve(s, c.text, c.namespace)
		if err == nil {
			t.Errorf("%s in %q means something", c.text, c.namespace)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s in %q: %v; want %q in it", c.text, c.namespace, err, want)
			}
		}
	}
	// only similar names are suggested
	if _, err := explain.Resolve(s, "eip/fornt", ""); strings.Contains(err.Error(), "default-gw") {
		t.Error(err)
	}
}
