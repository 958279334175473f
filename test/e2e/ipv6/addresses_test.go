package ipv6

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// checkAddresses requests addresses that a tenant must not get; of each there is one that it gets.
func (s *lab) checkAddresses(t *testing.T) {
	item := ipv6Items.Item(t, 3)
	other := s.CreateProject(t, "six", "rival", "10.62.0.0/24,fd00:62::/64", "cloud")
	asked := s.CreateEIP(t, s.namespace, "asked", `{ipFamily: IPv6, ipAddress: "2001:db8:18::a:1"}`)
	for name, refused := range map[string]struct{ address, condition, reason string }{
		"taken":   {asked, "Accepted", "AddressTaken"},
		"router":  {s.external6, "Accepted", "AddressReserved"},
		"gateway": {"2001:db8:18::1", "Accepted", "AddressOutsideNetwork"},
		"outside": {"2001:db8:19::a:1", "Accepted", "AddressOutsideNetwork"},
		"zero":    {"2001:db8:18::", "Accepted", "AddressOutsideNetwork"},
	} {
		s.ApplyObject(t, "EIp", other, name, fmt.Sprintf("{ipFamily: IPv6, ipAddress: %q}", refused.address))
		s.WaitForObject(t, "EIp", other, name, func(o *unstructured.Unstructured) bool {
			return harness.FalseReason(o, refused.condition) == refused.reason
		})
	}
	s.CreateEIP(t, other, "free", `{ipFamily: IPv6, ipAddress: "2001:db8:18::a:2"}`)
	s.ApplyObject(t, "EIp", s.namespace, "public", "{ipFamily: IPv6, externalNetworkType: public}")
	s.WaitForObject(t, "EIp", s.namespace, "public", func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "ResolvedRefs") == "NetworkNotSupported"
	})
	capped := s.checkQuota(t)
	// A released address is free for others, and only then.
	s.DeleteAndWait(t, "EIp", s.namespace, "asked")
	s.WaitForObject(t, "EIp", other, "taken", manifest.True("Programmed"))
	refused, full := s.fillRange(t)
	item.AddFigure("6 addresses refused with their reason, the next one given; %s; a released address goes to who asked for it; of 20 EIps "+
		"in a range of 16 addresses %d got one each, %d say that it is full; not reused within neighbour-cache lifetime NOT RUN", capped, full, refused)
}

// checkQuota requests an address too many: each counts, of whatever family.
func (s *lab) checkQuota(t *testing.T) string {
	t.Helper()
	s.Apply(t, `{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: capped, namespace: six}, `+
		`spec: {cidrBlock: "10.64.0.0/24,fd00:64::/64", egressNetworkType: cloud, eipQuota: 2}}`)
	s.WaitForObject(t, "Project", "six", "capped", manifest.True("Programmed"))
	s.CreateEIP(t, "six-capped", "four", "{}")
	s.CreateEIP(t, "six-capped", "six", `{ipFamily: IPv6, ipAddress: "2001:db8:18::a:3"}`)
	s.ApplyObject(t, "EIp", "six-capped", "more", "{ipFamily: IPv6}")
	s.WaitForObject(t, "EIp", "six-capped", "more", func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "Accepted") == "QuotaExceeded" && harness.StringField(o, "status", "ipAddress") == ""
	})
	s.DeleteAndWait(t, "EIp", "six-capped", "more") // it would take its chance when the range changes
	return "of a quota of 2 each family takes one, and the third is refused"
}

// fillRange requests more addresses than a small range has, so that UIDs collide. It returns how many got none and one.
func (s *lab) fillRange(t *testing.T) (refused, given int) {
	t.Helper()
	s.setIPv6(t, fmt.Sprintf(withIPv6, `, range: "2001:db8:18::ff:0/124"`))
	defer s.setIPv6(t, fmt.Sprintf(withIPv6, ""))
	ns := s.CreateProject(t, "six", "full", "10.63.0.0/24,fd00:63::/64", "cloud")
	const count = 20
	for i := range count {
		s.ApplyObject(t, "EIp", ns, fmt.Sprintf("e%d", i), "{ipFamily: IPv6}")
	}
	has := map[string]string{}
	for i := range count {
		name := fmt.Sprintf("e%d", i)
		s.WaitForObject(t, "EIp", ns, name, func(o *unstructured.Unstructured) bool {
			address := harness.StringField(o, "status", "ipAddress")
			if address != "" && manifest.True("Programmed")(o) {
				has[name] = address
				return true
			}
			return harness.FalseReason(o, "Programmed") == "PoolExhausted"
		})
	}
	seen := map[string]string{}
	for name, address := range has {
		if first := seen[address]; first != "" {
			t.Errorf("%s and %s both have %s", first, name, address)
		}
		seen[address] = name
	}
	if len(has) != 16 {
		t.Errorf("%d of the 16 addresses were given", len(has))
	}
	return count - len(has), len(has)
}
