package returnpath

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestReturn4Rows shows that the number of rows of the return path does not depend on the number of floating IPs with
// returnPath Connection, and grows with it with returnPath Source.
func TestReturn4Rows(t *testing.T) {
	item := returnItems.Item(t, 4)
	s := &projectPair{Cluster: harness.StartSallyport(t, "wide", harness.LoadTopology(t, "wide.yaml"))}
	s.ApplyWithoutCleanup(t, "{apiVersion: v1, kind: Namespace, metadata: {name: rows}}")
	s.ApplyWithoutCleanup(t, "{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: by-source}, spec: {type: source, subnets: [ext-source], returnPath: Source}}")

	sizes := show.ChooseSize([]int{1, 100, 1000}, []int{1, 5})
	var counted [2][]returnPathSize
	for i, kind := range []string{"conn", "source"} {
		ns := "rows-" + kind
		s.ApplyWithoutCleanup(t, fmt.Sprintf(
			"{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: %s, namespace: rows}, spec: {cidrBlock: 10.%d.0.0/16, egressNetworkType: cloud}}", kind, 42+i))
		s.WaitProgrammed(t, "Project", "rows", kind)
		for _, n := range sizes {
			counted[i] = append(counted[i], s.createFIPsAndCount(t, ns, kind, n))
		}
	}
	item.AddFigure("%-14s %-44s %s", "floating IPs", "by connection: rows, policies, policyRoutes", "by source")
	for i, n := range sizes {
		item.AddFigure("%-14d %-44s %s", n, counted[0][i], counted[1][i])
	}
	first, last := counted[0][0], counted[0][len(sizes)-1]
	if !slices.Equal(first.rows, last.rows) || first.policies != last.policies || first.routes != last.routes {
		t.Errorf("the rows of the way back change with the number of floating IPs:\n%s\n%s",
			strings.Join(first.rows, "\n"), strings.Join(last.rows, "\n"))
	}
	if by := counted[1]; by[len(by)-1].policies <= by[0].policies {
		t.Error("by the pod's address there should be more policies for more floating IPs, or this counts nothing")
	}
}

// returnPathSize is the number of rows and policies of the return path, and the time that the last floating IP took.
type returnPathSize struct {
	rows             []string // of tables other than policies
	policies, routes int
	lastTook         time.Duration
}

func (c returnPathSize) String() string {
	return fmt.Sprintf("%d, %d, %d (the last took %d ms)", len(c.rows), c.policies, c.routes, c.lastTook.Milliseconds())
}

// createFIPsAndCount creates floating IPs up to the given number, the last one separately, and counts rows and
// policies.
func (s *projectPair) createFIPsAndCount(t *testing.T, ns, kind string, n int) (out returnPathSize) {
	t.Helper()
	name := func(i int) string { return fmt.Sprintf("f%d", i) }
	make := func(i int) {
		s.ApplyWithoutCleanup(t, fmt.Sprintf(
			"{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: %s, namespace: %s}, spec: {ipAddress: 10.%s.%d.%d, externalNetworkType: %s}}",
			name(i), ns, map[string]string{"conn": "42", "source": "43"}[kind], 1+i/250, 1+i%250, kind))
	}
	for i := range n - 1 {
		make(i)
	}
	for i := range n - 1 {
		s.waitFIPProgrammed(t, ns, name(i))
	}
	begin := time.Now()
	make(n - 1)
	s.waitFIPProgrammed(t, ns, name(n-1))
	out.lastTook = time.Since(begin)
	out.rows = s.readReturnRows(t, ns)
	for _, row := range s.ReadNBTable(t, "logical_router_policy", "priority,match") {
		if isReturnPolicy(row, ns) {
			out.policies++
		}
	}
	out.routes = strings.Count(s.ReadField(t, "Vpc", "", ns, "spec", "policyRoutes"), "priority:")
	return out
}

// readReturnRows returns the rows of a project's return path without their UUIDs. Addresses in a set do not count as
// rows.
func (s *projectPair) readReturnRows(t *testing.T, vpc string) (out []string) {
	t.Helper()
	for table, columns := range map[string]string{
		"logical_router_port": "name,networks,options", "logical_switch_port": "name,options", "port_group": "name",
		"acl": "match,action,label",
		"qos": "match,action", "logical_router_static_route": "route_table,ip_prefix,nexthop,output_port",
		"address_set": "name",
	} {
		for _, row := range s.ReadNBTable(t, table, "external_ids,"+columns) {
			if ids, _ := row["external_ids"].(map[string]any); ids["sallyport-vpc"] == vpc &&
				strings.HasPrefix(fmt.Sprint(ids["sallyport-owner"]), "ReturnPath/") {
				out = append(out, fmt.Sprint(table, row))
			}
		}
	}
	slices.Sort(out)
	return out
}

// isReturnPolicy reports whether a router policy belongs to the return path. Kube-OVN writes these policies, without
// our marks.
func isReturnPolicy(row map[string]any, vpc string) bool {
	priority, _ := row["priority"].(float64)
	return priority >= 30000 && priority < 31000 && strings.Contains(fmt.Sprint(row["match"]), vpc)
}

// waitFIPProgrammed waits for one FIp among many.
func (s *projectPair) waitFIPProgrammed(t *testing.T, ns, name string) {
	t.Helper()
	if err := s.Objects.Wait(harness.Within(t, 30*time.Minute), harness.ObjectRef("FIp", ns, name),
		harness.IsUpToDate); err != nil {
		t.Fatal(err)
	}
}
