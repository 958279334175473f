package target

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

const putbackProject = `
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: putback}
spec:
  namespaces: [putback]
  enableExternal: true
  extraExternalSubnets: [ext-cloud]
  policyRoutes: [{priority: 1000, match: "ip4.src == 10.77.0.0/24", action: reroute, nextHopIP: 100.65.0.1}]`

const putbackAddresses = `
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: putback-fip}, spec: {externalSubnet: ext-cloud, type: nat, v4Ip: 100.65.0.177}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: putback-snat}, spec: {externalSubnet: ext-cloud, type: nat, v4Ip: 100.65.0.178}}
---
{apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {name: putback}, spec: {ovnEip: putback-fip, vpc: putback, v4Ip: 10.77.0.7}}
---
{apiVersion: kubeovn.io/v1, kind: OvnSnatRule, metadata: {name: putback}, spec: {ovnEip: putback-snat, vpcSubnet: putback-net}}`

// TestRowPutBackIsTakenByKubeOVN checks that Kube-OVN accepts a restored NAT row as its own. Kube-OVN never restores a
// deleted NAT row, and then cannot delete the object it was written for.
func TestRowPutBackIsTakenByKubeOVN(t *testing.T) {
	c := harness.SharedLab(t)
	c.Apply(t, putbackProject+`
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: putback-net}
spec: {vpc: putback, protocol: IPv4, cidrBlock: 10.77.0.0/24, namespaces: [putback]}`)
	c.WaitForObject(t, "Subnet", "", "putback-net", manifest.True("Ready"))
	c.Apply(t, putbackAddresses)
	c.WaitForObject(t, "OvnFip", "", "putback", manifest.Field("true", "status", "ready"))
	c.WaitForObject(t, "OvnSnatRule", "", "putback", manifest.Field("true", "status", "ready"))
	client := dialNB(t, c)
	rows := client.RowTarget("putback")
	want := wantedOn("putback", fipRow("100.65.0.177", "10.77.0.7"), snatRow("100.65.0.178", "10.77.0.0/24"),
		policyRow(ownership.DefaultEgress, "ip4.src == 10.77.0.0/24", "100.65.0.1"))
	converge := func() {
		t.Helper()
		plan, err := state.PreparePlan(t.Context(), rows, want, intent.KeepForeignRows)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range state.Run(t.Context(), plan) {
			t.Fatal(f)
		}
	}
	converge()
	if client.WriteCount() != 0 {
		t.Errorf("%d transactions were written although Kube-OVN has made all rows", client.WriteCount())
	}

	before := listRouterRows(t, c)
	changed := make(chan struct{}, 1000)
	client.WatchRouters(func(string) { changed <- struct{}{} })
	c.RunNbctl(t, "lr-nat-del", "putback", "--", "lr-policy-del", "putback", "1000")
	if left := listRouterRows(t, c); len(left) != 0 {
		t.Fatalf("the rows are not deleted: %q", left)
	}
	for held := 3; held > 0; {
		select {
		case <-changed:
		case <-time.After(harness.Patience):
			t.Fatal("the client does not see that the rows are deleted")
		}
		now, err := rows.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = len(now)
	}
	converge()
	if after := listRouterRows(t, c); !slices.Equal(after, before) {
		t.Errorf("the rows are\n%q\nwanted\n%q", after, before)
	}

	forceVPCReconcile(t, c, putbackProject)
	if after := listRouterRows(t, c); !slices.Equal(after, before) {
		t.Errorf("after Kube-OVN looked at the Vpc the rows are\n%q\nwanted\n%q", after, before)
	}
	if err := c.Objects.Delete(harness.Within(t, harness.Patience), putbackAddresses); err != nil {
		t.Errorf("Kube-OVN can't delete what the rows were made for: %v", err)
	}
	if left := c.RunNbctl(t, "lr-nat-list", "putback"); left != "" {
		t.Errorf("NAT rows are left:\n%s", left)
	}
}

// listRouterRows prints the NAT rows and our policies of the router, without UUIDs and owners.
func listRouterRows(t *testing.T, c *harness.Cluster) (out []string) {
	t.Helper()
	for _, kind := range [][3]string{
		{"nat", "nat", "type,external_ip,logical_ip,external_mac,logical_port,gateway_port,options"},
		{"policies", "logical_router_policy", "priority,match,action,nexthop,nexthops,options,bfd_sessions"},
	} {
		set := strings.Trim(c.RunNbctl(t, "get", "logical_router", "putback", kind[0]), "[]")
		for uuid := range strings.SplitSeq(set, ", ") {
			if uuid == "" {
				continue
			}
			row := c.RunNbctl(t, "--format=csv", "--no-headings", "--columns="+kind[2], "list", kind[1], uuid)
			if kind[0] == "nat" || strings.HasPrefix(row, "1000,") {
				out = append(out, row)
			}
		}
	}
	slices.Sort(out)
	return out
}

// forceVPCReconcile makes Kube-OVN process the Vpc by adding an entry, and waits for the result.
func forceVPCReconcile(t *testing.T, c *harness.Cluster, project string) {
	t.Helper()
	more := `[{priority: 900, match: "ip4.src == 10.77.0.0/24", action: drop}, `
	if err := c.Objects.Apply(harness.Within(t, harness.Patience),
		strings.Replace(project, "policyRoutes: [", "policyRoutes: "+more, 1)); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(harness.Patience)
	for !strings.Contains(c.RunNbctl(t, "lr-policy-list", "putback"), "drop") {
		if time.Now().After(deadline) {
			t.Fatal("Kube-OVN did not look at the Vpc")
		}
	}
}
