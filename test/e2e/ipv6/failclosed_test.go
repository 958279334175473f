package ipv6

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// checkFailClosed shows that an EgressIP that fails closed stops what pods of its projects send in IPv6: it has IPv4
// addresses only. Replies to clients outside and packets between pods pass. One that fails open stops nothing.
func (s *lab) checkFailClosed(t *testing.T) {
	item := ipv6Items.Item(t, 4)
	six := s.CreateFIP(t, s.namespace, "closed-6", "{podTarget: {podName: c}, ipFamily: IPv6}")
	pod := "a." + s.namespace
	setPolicy := func(policy string) {
		t.Helper()
		s.ApplyWithoutCleanup(t, fmt.Sprintf(`{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: closed}, spec: {
  egressIPs: [100.65.200.1], failurePolicy: %s, podSelector: {matchLabels: {role: other}},
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}}`, policy, s.namespace))
	}
	isSilent := func() bool {
		_, err := s.SendRequest(pod, "http://"+internet6)
		return err != nil
	}
	s.ResetDrops(t)
	s.ExpectAnswers(t, pod, internet6, "internet", s.external6)
	setPolicy("Closed")
	harness.Eventually(t, "pods open no IPv6 connections to the outside", isSilent)
	s.ExpectAnswers(t, s.wire.Client, bracket(six), "c", s.client6)
	s.ExpectAnswers(t, pod, "[fd00:60::12]", "b", "fd00:60::11")
	s.ExpectAnswers(t, pod, harness.InternetAddress, "internet", s.external4) // the selector does not match the pod
	setPolicy("Open")
	harness.Eventually(t, "pods open IPv6 connections again", func() bool { return !isSilent() })
	setPolicy("Closed")
	harness.Eventually(t, "pods open no IPv6 connections to the outside again", isSilent)
	s.DeleteAndWait(t, "EgressIP", "", "closed")
	harness.Eventually(t, "pods open IPv6 connections without the EgressIP", func() bool { return !isSilent() })
	s.ExpectAnswers(t, pod, internet6, "internet", s.external6)
	s.ExpectNoDrops(t)
	item.AddFigure("EgressIPs have no IPv6 addresses; one that fails closed stops IPv6 connections to the outside of its projects' " +
		"pods; replies to clients outside and IPv4 pass; selection and failover NOT RUN")
}
