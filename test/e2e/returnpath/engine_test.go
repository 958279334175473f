package returnpath

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestEngineTooOld shows that an OVN too old for returnPath Connection is detected and reported, and that returnPath
// Source is used instead. The test stops ovn-northd and sets options:northd_internal_version of NB_Global, which northd
// writes, to an older version.
func TestEngineTooOld(t *testing.T) {
	s := &projectPair{Cluster: harness.SharedSallyport(t)}
	s.CreateOrganization(t, "old")
	ns := s.CreateProject(t, "old", "web", "10.47.0.0/24", "cloud")
	s.RunPod(t, harness.Pod{Namespace: ns, Name: "web"})
	s.setReturnPath(t, "Connection")
	t.Cleanup(func() { s.DeleteAndWait(t, "ExternalNetwork", "", "live") })
	s.CreateFIP(t, ns, "web", "{podTarget: {podName: web}, externalNetworkType: public}")
	const version = "options:northd_internal_version"
	now := s.RunNbctl(t, "get", "nb_global", ".", version)
	s.ControlLab(t, "pause", "ovn-northd")
	back := func() {
		s.RunNbctl(t, "set", "nb_global", ".", version+"="+now)
		s.ControlLab(t, "resume", "ovn-northd")
	}
	defer back()

	s.RunNbctl(t, "set", "nb_global", ".", version+"=24.03.2-20.33.0-74.0")
	s.WaitForObject(t, "ExternalNetwork", "", "live", manifest.Field("Source", "status", "returnPath"))
	s.WaitForObject(t, "FIp", ns, "web", harness.IsUpToDate)
	said := s.ReadField(t, "ExternalNetwork", "", "live", "status", "conditions")
	if !strings.Contains(said, "EngineTooOld") || !strings.Contains(said, "24.03.2") ||
		!strings.Contains(said, "Upgrade OVN") {
		t.Errorf("the conditions do not say what is too old, and what to do: %s", said)
	}
	s.PollUntil(t, "the policies are by source", func() bool {
		routes := s.ReadField(t, "Vpc", "", ns, "spec", "policyRoutes")
		return strings.Contains(routes, "ip4.src ==") && !strings.Contains(routes, "pkt.mark")
	})
	s.RunNbctl(t, "set", "nb_global", ".", version+"="+now)
	s.WaitForObject(t, "ExternalNetwork", "", "live", manifest.Field("Connection", "status", "returnPath"))
	s.PollUntil(t, "the policies are by connection", func() bool {
		return strings.Contains(s.ReadField(t, "Vpc", "", ns, "spec", "policyRoutes"), "pkt.mark")
	})
}
