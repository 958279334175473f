package e2e

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// An engine that is too old for the way back by the connection is found out, said, and served by the pod's address. ovn-northd is
// stopped, and an older version written where it writes its own.
func TestEngineTooOld(t *testing.T) {
	s := &stage{cluster: sallyport(t)}
	s.organization(t, "old")
	ns := s.project(t, "old", "web", "10.47.0.0/24", "cloud")
	s.run(t, pod{namespace: ns, name: "web"})
	s.returnsBy(t, "Connection")
	t.Cleanup(func() { s.remove(t, "ExternalNetwork", "", "live") })
	s.fip(t, ns, "web", "{podTarget: {podName: web}, externalNetworkType: public}")
	const version = "options:northd_internal_version"
	now := s.nbctl(t, "get", "nb_global", ".", version)
	s.order(t, "pause", "ovn-northd")
	back := func() {
		s.nbctl(t, "set", "nb_global", ".", version+"="+now)
		s.order(t, "resume", "ovn-northd")
	}
	defer back()

	s.nbctl(t, "set", "nb_global", ".", version+"=24.03.2-20.33.0-74.0")
	s.wait(t, "ExternalNetwork", "", "live", manifest.Field("Source", "status", "returnPath"))
	s.wait(t, "FIp", ns, "web", upToDate)
	said := s.field(t, "ExternalNetwork", "", "live", "status", "conditions")
	if !strings.Contains(said, "EngineTooOld") || !strings.Contains(said, "24.03.2") || !strings.Contains(said, "Upgrade OVN") {
		t.Errorf("the conditions do not say what is too old, and what to do: %s", said)
	}
	s.until(t, "the policies are by source", func() bool {
		routes := s.field(t, "Vpc", "", ns, "spec", "policyRoutes")
		return strings.Contains(routes, "ip4.src ==") && !strings.Contains(routes, "pkt.mark")
	})
	s.nbctl(t, "set", "nb_global", ".", version+"="+now)
	s.wait(t, "ExternalNetwork", "", "live", manifest.Field("Connection", "status", "returnPath"))
	s.until(t, "the policies are by connection", func() bool {
		return strings.Contains(s.field(t, "Vpc", "", ns, "spec", "policyRoutes"), "pkt.mark")
	})
}
