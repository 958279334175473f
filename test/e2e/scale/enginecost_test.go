package scale

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// costPage is the page that the test writes.
const costPage = "../../../docs/reference/engine-cost.md"

var update = flag.Bool("update", false, "write docs/reference/engine-cost.md")

// How northd handles a change.
const (
	incremental = "incremental" // only what the change concerns
	lflowOnly   = "all flows"   // all logical flows again, from tables that are updated incrementally
	full        = "everything"  // all tables and all logical flows again
)

// engineChange is a change of a row type that Sallyport writes, made by hand on the router R of a project.
type engineChange struct {
	what, handling string
	command        string // of ovn-nbctl
}

// engineChanges are the changes. Each is undone by a later one.
var engineChanges = []engineChange{
	{"Load_Balancer: created, in no set", incremental, `lb-add cost 192.0.2.9:80 10.0.0.5:80,10.0.0.6:80`},
	{"Load_Balancer: added to a router and a switch", incremental, `-- lr-lb-add R cost -- ls-lb-add R-default cost`},
	{"Load_Balancer: another backend", incremental, `set load_balancer cost vips:"192.0.2.9:80"="10.0.0.5:80"`},
	{"Load_Balancer: another VIP", incremental, `set load_balancer cost vips:"192.0.2.9:81"="10.0.0.5:80"`},
	{"Load_Balancer: a VIP removed", incremental, `remove load_balancer cost vips "192.0.2.9:81"`},
	{"Load_Balancer: another option", incremental, `set load_balancer cost options:affinity_timeout=60`},
	{
		"Load_Balancer_Health_Check: added", full, `-- --id=@h create load_balancer_health_check vip="192.0.2.9:80" ` +
			`-- add load_balancer cost health_check @h`,
	},
	{
		"Load_Balancer with health checks: another backend", full,
		`set load_balancer cost vips:"192.0.2.9:80"="10.0.0.6:80"`,
	},
	{
		"Load_Balancer_Health_Check: removed", full, `clear load_balancer cost health_check`,
	},
	{"Load_Balancer: removed", full, `lb-del cost`},
	{"NAT: added", incremental, `lr-nat-add R dnat_and_snat 100.65.200.7 10.0.0.77`},
	{"NAT: removed", incremental, `lr-nat-del R dnat_and_snat 100.65.200.7`},
	{"Logical_Router_Policy: added", full, `lr-policy-add R 29001 ip4.src==10.0.0.9 drop`},
	{"Logical_Router_Policy: removed", full, `lr-policy-del R 29001`},
	{"Logical_Router_Static_Route: added", full, `--route-table=cost lr-route-add R 203.0.113.0/25 100.65.0.1`},
	{"Logical_Router_Static_Route: removed", full, `--route-table=cost lr-route-del R 203.0.113.0/25`},
	{"Logical_Router_Port: added", full, `lrp-add R cost-port 0a:00:00:00:00:77 169.254.77.1/24`},
	{
		"Logical_Switch_Port of type router: added", full, `-- lsp-add R-default cost-link ` +
			`-- set logical_switch_port cost-link type=router options:router-port=cost-port addresses=router`,
	},
	{"Static_MAC_Binding: added", full, `static-mac-binding-add cost-port 169.254.77.2 0a:00:00:00:00:78`},
	{"Static_MAC_Binding: removed", full, `static-mac-binding-del cost-port 169.254.77.2`},
	{"Logical_Router_Port: another option", full, `set logical_router_port cost-port options:route_table=cost`},
	{"Logical_Switch_Port of type router: removed", full, `lsp-del cost-link`},
	{"Gateway_Chassis: added", full, `lrp-set-gateway-chassis cost-port cost 10`},
	{"Gateway_Chassis: another priority", full, `lrp-set-gateway-chassis cost-port cost 20`},
	{"Gateway_Chassis: removed", full, `lrp-del-gateway-chassis cost-port cost`},
	{
		"HA_Chassis_Group: created, in no port", incremental, `-- ha-chassis-group-add cost ` +
			`-- ha-chassis-group-add-chassis cost cost 10 -- ha-chassis-group-add-chassis cost cost2 5`,
	},
	{
		"HA_Chassis_Group: added to a port", full, `-- --id=@g get ha_chassis_group cost ` +
			`-- set logical_router_port cost-port ha_chassis_group=@g`,
	},
	{"HA_Chassis_Group: another priority", full, `ha-chassis-group-add-chassis cost cost 3`},
	{"HA_Chassis_Group: removed from a port", full, `clear logical_router_port cost-port ha_chassis_group`},
	{"HA_Chassis_Group: removed", incremental, `ha-chassis-group-del cost`},
	{"Logical_Router_Port: removed", full, `lrp-del cost-port`},
	{"Logical_Router: another option", full, `set logical_router R options:cost=1`},
	{"Logical_Router: option removed", full, `remove logical_router R options cost`},
	{"NB_Global: another option", incremental, `set nb_global . options:cost=1`},
	{"NB_Global: option removed", incremental, `remove nb_global . options cost`},
	{"Address_Set: created", incremental, `create address_set name=cost addresses=10.0.0.8`},
	{"Address_Set: another address", incremental, `add address_set cost addresses 10.0.0.9`},
	{"Address_Set: removed", incremental, `destroy address_set cost`},
	{"QoS: added", full, `qos-add R-default to-lport 99 ip4.src==10.0.0.9 dscp=5`},
	{"QoS: removed", full, `qos-del R-default to-lport 99 ip4.src==10.0.0.9`},
	{"Port_Group with an ACL: added", lflowOnly, `-- pg-add cost -- acl-add cost to-lport 77 ip4.src==10.0.0.9 drop`},
	{"ACL: added", lflowOnly, `acl-add cost to-lport 78 ip4.src==10.0.0.10 drop`},
	{"Port_Group with its ACLs: removed", lflowOnly, `pg-del cost`},
	{
		"a pod's port: added", incremental,
		`-- lsp-add R-default cost-pod -- lsp-set-addresses cost-pod 0a:00:00:00:01:01`,
	},
	{"a pod's port: removed", incremental, `lsp-del cost-pod`},
}

// TestScale1EngineCost makes each change on a real northd and compares how northd handles it with the table above. The
// layout of our rows depends on it.
func TestScale1EngineCost(t *testing.T) {
	item := scaleItems.Item(t, 1)
	f := harness.NewScaleFixture(t)
	north := newNorthd(t, f)
	sizes, cost := show.ChooseSize([]int{50, 200, 500}, []int{5, 20}), map[string][]time.Duration{}
	for _, size := range sizes {
		f.GrowTo(t, size)
		f.WaitIdle(t)
		f.Controller.Stop(syscall.SIGTERM) // it would undo the changes
		for _, c := range engineChanges {
			handling, cpu := north.measureChange(t, strings.Fields(strings.ReplaceAll(c.command, "R", f.NamespaceOf(0))))
			if cost[c.what] = append(cost[c.what], cpu); handling != c.handling {
				t.Errorf("%s: northd computes %s, the table says %s", c.what, handling, c.handling)
			}
		}
		f.Controller.Start(t)
		f.WaitIdle(t)
	}
	for _, handling := range []string{incremental, lflowOnly, full} {
		var kinds []string
		total := make([]time.Duration, len(sizes))
		for _, c := range engineChanges {
			if c.handling == handling {
				kinds = append(kinds, c.what)
				for i := range sizes {
					total[i] += cost[c.what][i]
				}
			}
		}
		var texts []string
		for i, size := range sizes {
			texts = append(texts, fmt.Sprintf("%d projects %.0f ms", size,
				harness.Milliseconds(total[i])/float64(len(kinds))))
		}
		item.AddFigure("%s: %d of %d changes; CPU of northd for one: %s", handling, len(kinds), len(engineChanges),
			strings.Join(texts, ", "))
	}
	if *update {
		writeCostPage(t, north.version, sizes, cost)
	}
}

// The page has been written with the same table.
func TestCostPageHasEveryChange(t *testing.T) {
	page := harness.ReadFile(t, costPage)
	for _, c := range engineChanges {
		if !strings.Contains(page, fmt.Sprintf("| %s | %s |", c.what, c.handling)) {
			t.Errorf("%s does not have %q as %s: make show-scale, with -update", costPage, c.what, c.handling)
		}
	}
	n := 0
	for _, handling := range []string{incremental, lflowOnly, full} { // other tables of the page have no such column
		n += strings.Count(page, " | "+handling+" | ")
	}
	if n != len(engineChanges) {
		t.Errorf("%s has %d changes, the table %d", costPage, n, len(engineChanges))
	}
}

// northd is the lab's ovn-northd.
type northd struct {
	*harness.Cluster
	control, stat string // its control socket and its file in /proc
	version       string
}

// newNorthd finds the process.
func newNorthd(t *testing.T, f *harness.ScaleFixture) *northd {
	t.Helper()
	n := &northd{Cluster: f.Cluster, control: filepath.Join(f.Dir, "data/ovn/northd.ctl")}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range processes {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), n.control) &&
			!strings.Contains(string(line), "--monitor") {
			n.stat = filepath.Join(filepath.Dir(file), "stat")
		}
	}
	if n.stat == "" {
		t.Fatalf("no process has %s", n.control)
	}
	n.version = strings.Fields(f.RunTool(t, "ovn-appctl", "-t", n.control, "version"))[1]
	// the fixture makes northd pause between runs
	f.RunNbctl(t, "remove", "NB_Global", ".", "options", "northd-backoff-interval-ms")
	return n
}

// cpuTime returns the processor time that northd has used.
func (n *northd) cpuTime(t *testing.T) time.Duration {
	t.Helper()
	return harness.ParseCPUTime(t, harness.ReadFile(t, n.stat))
}

// engineNode recognizes a node of northd's engine and how often it was computed from its whole input.
var engineNode = regexp.MustCompile(`Node: (\w+)\n- recompute:\s+(\d+)`)

// measureChange makes a change, and returns how northd handles it and the CPU time of that.
func (n *northd) measureChange(t *testing.T, command []string) (handling string, cpu time.Duration) {
	t.Helper()
	return n.measureAction(t, func() { n.RunNbctl(t, command...) })
}

// measureAction does the same for changes that others make.
func (n *northd) measureAction(t *testing.T, act func()) (handling string, cpu time.Duration) {
	t.Helper()
	n.RunNbctl(t, "--wait=sb", "sync")
	n.RunTool(t, "ovn-appctl", "-t", n.control, "inc-engine/clear-stats")
	before := n.cpuTime(t)
	act()
	n.RunNbctl(t, "--wait=sb", "sync")
	cpu = n.cpuTime(t) - before
	recomputed := map[string]bool{}
	found := engineNode.FindAllStringSubmatch(n.RunTool(t, "ovn-appctl", "-t", n.control, "inc-engine/show-stats"), -1)
	for _, node := range found {
		recomputed[node[1]] = node[2] != "0"
	}
	switch _, known := recomputed["lflow"]; {
	case !known:
		t.Fatalf("northd does not tell about the node lflow: %v", found)
		return "", 0
	case recomputed["northd"]:
		return full, cpu
	case recomputed["lflow"]:
		return lflowOnly, cpu
	default:
		return incremental, cpu
	}
}

// writeCostPage writes the table of the reference page. Sections after the table are written by hand and kept.
func writeCostPage(t *testing.T, version string, sizes []int, cost map[string][]time.Duration) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `# What a change costs northd

Each change of the northbound database makes ovn-northd compute something again: only what the change concerns
(incremental), all logical flows, or everything. Rows that we write often should be of a kind that is handled
incrementally.

`+"`make show-scale`"+` makes each change on a real northd and fails if it is handled differently. CPU time of northd for one
change, with OVN %s, one run on a shared and busy machine; the resolution is 10 ms. The projects have three addresses
each and no Services. OVN 26.03 and 1,000 projects were not measured.

| change | northd computes |`, version)
	for _, size := range sizes {
		fmt.Fprintf(&b, " %d projects |", size)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(sizes)) + "\n")
	for _, c := range engineChanges {
		fmt.Fprintf(&b, "| %s | %s |", c.what, c.handling)
		for _, cpu := range cost[c.what] {
			fmt.Fprintf(&b, " %d ms |", cpu.Milliseconds())
		}
		b.WriteString("\n")
	}
	if _, sections, found := strings.Cut(harness.ReadFile(t, costPage), "\n## "); found {
		b.WriteString("\n## " + sections)
	}
	if err := os.WriteFile(costPage, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
