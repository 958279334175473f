package view

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// sourceAddressCase is a row of the overview's table of source addresses: the rule, and the resulting address.
type sourceAddressCase struct {
	manifest, kind, name string
	address              func() string
}

// followOverview checks the example of the page and its table of source addresses. The first rule that applies wins, so
// the rules are added from the end of the table to its beginning.
func (r *docReader) followOverview(t *testing.T, page []harness.CodeBlock) {
	const tenant = "initech-site"
	r.runBlocks(t, page[:1])
	r.WaitProgrammed(t, "Project", "initech", "site")
	r.runBlocks(t, page[1:])
	r.WaitProgrammed(t, "FIp", tenant, "web")
	r.WaitProgrammed(t, "Service", tenant, "web")
	front := r.serviceIngress(t, tenant, "web")
	r.ExpectAnswer(t, "internet", "http://"+r.ReadStatusField(t, "FIp", tenant, "web", "externalIP"), "web",
		"203.0.113.10")
	r.ExpectAnswer(t, "internet", "http://"+front+":443", "web", "203.0.113.10")

	seen := func(kind, name string) func() string {
		return func() string { return r.ReadStatusField(t, kind, tenant, name, "externalIP") }
	}
	for _, d := range []sourceAddressCase{
		{address: func() string { return r.ReadStatusField(t, "Project", "initech", "site", "externalIP") }},
		{
			`{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: cloud, namespace: initech-site}, spec: {externalNetworkType: cloud, podTarget: {podName: web}}}`,
			"FIp", "cloud", seen("FIp", "cloud"),
		},
		{
			`{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: site}, spec: {egressIPs: [198.51.100.201],
			namespaceSelector: {matchLabels: {kube-dc.com/project: site}}}}`, "EgressIP", "site", func() string { return "198.51.100.201" },
		},
		{
			`{apiVersion: k8s.ovn.org/v1, kind: EgressService, metadata: {name: web, namespace: initech-site}, spec: {sourceIPBy: LoadBalancerIP}}`,
			"EgressService", "web", func() string { return front },
		},
		{
			`{apiVersion: kube-dc.com/v1alpha1, kind: EgressRoute, metadata: {name: internet, namespace: initech-site},
			spec: {destinations: [203.0.113.0/24], externalNetworkType: public}}`, "EgressRoute", "internet", seen("EgressRoute", "internet"),
		},
	} {
		if d.manifest != "" {
			if err := r.Objects.Apply(harness.Within(t, harness.Patience), d.manifest); err != nil {
				t.Fatal(err)
			}
			namespace := tenant
			if d.kind == "EgressIP" {
				namespace = ""
			}
			r.WaitProgrammed(t, d.kind, namespace, d.name)
		}
		r.SyncFlows(t)
		r.ExpectAnswer(t, "web."+tenant, "http://203.0.113.10", "internet", d.address())
	}
}
