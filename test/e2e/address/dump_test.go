package address

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// stateDump is the rows of both OVN databases and Kubernetes objects as lines, with a count each: without UUIDs, two
// rows can be the same line.
type stateDump map[string]int

// extraLines returns the lines that occur more often than in another dump, once each.
func (d stateDump) extraLines(o stateDump) (out []string) {
	for line, n := range d {
		if n > o[line] {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

// diff formats the lines that were added (+) and removed (-) since an earlier dump, limited to a number of lines. It is
// empty if there are none.
func (d stateDump) diff(since stateDump, most int) string {
	var out []string
	for _, line := range d.extraLines(since) {
		out = append(out, "+ "+line)
	}
	for _, line := range since.extraLines(d) {
		out = append(out, "- "+line)
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	for i := range len(out) - 1 { // show where a changed line differs
		if same := commonPrefixLength(out[i][2:], out[i+1][2:]); same > 60 {
			out[i] += "\n    here: " + out[i][2+same-20:min(len(out[i]), 2+same+100)] + "\n    next: " +
				out[i+1][2+same-20:min(len(out[i+1]), 2+same+100)]
		}
	}
	if len(out) > most {
		out = append(out[:most], fmt.Sprintf("and %d more", len(out)-most))
	}
	return strings.Join(out, "\n")
}

func commonPrefixLength(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// filter returns the lines for which chosen is true.
func (d stateDump) filter(chosen func(line string) bool) stateDump {
	out := maps.Clone(d)
	maps.DeleteFunc(out, func(line string, _ int) bool { return !chosen(line) })
	return out
}

// takeSnapshot reads the whole state once.
func takeSnapshot(t *testing.T, c *harness.Cluster) stateDump {
	t.Helper()
	out := stateDump{}
	for _, db := range []struct{ socket, name string }{{"nb1", "OVN_Northbound"}, {"sb1", "OVN_Southbound"}} {
		text := c.RunTool(t, "ovsdb-client", "-f", "json", "dump",
			"unix:"+filepath.Join(c.Dir, "data/ovn", db.socket+".sock"), db.name)
		for table := range strings.Lines(text) {
			for _, line := range formatTableRows(t, table) {
				out[db.name+" "+line]++
			}
		}
	}
	for _, line := range listObjectLines(t, c) {
		out[line]++
	}
	return out
}

// Values that change on their own: counters and times of OVN's synchronisation, tunnel keys, and entries learnt from
// the wire, which OVN removes after five minutes.
var (
	volatileColumns = []string{
		"_uuid", "tunnel_key", "nb_cfg", "nb_cfg_timestamp", "sb_cfg", "sb_cfg_timestamp", "hv_cfg", "hv_cfg_timestamp",
		"timestamp",
	}
	volatileTables = []string{"MAC_Binding", "FDB", "Connection"}
	volatileFields = []string{
		"resourceVersion", "managedFields", "generation", "lastHeartbeatTime",
		"lastTransitionTime", "lastUpdateTime",
		"ovn.kubernetes.io/eip_v6_ip", // Kube-OVN writes the IPv4 address here when it changes labels, not when it adds them
	}
	// The reason of a Subnet's conditions is Kube-OVN's last step, which a status that it has read earlier can overwrite.
	subnetVolatileFields = []string{"reason"}
	volatileKinds        = []string{"Event", "Lease", "ComponentStatus"}

	uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// of a localnet port: northd removes it when it computes everything again (ADR 47)
	reevaluatedPattern = regexp.MustCompile(`,?\["sallyport-reevaluated","[^"]*"\]`)
	stageHintPattern   = regexp.MustCompile(`"stage-hint","[0-9a-f]{8}"`) // the first digits of a UUID
	// Kube-OVN writes the ACLs of nodes up to a minute after the first NetworkPolicy, which here is the controller's.
	nodePolicyPattern = regexp.MustCompile(`\["parent","node\.|\["np","node/`)
)

// formatTableRows returns the rows of one table of ovsdb-client's output in normal form.
func formatTableRows(t *testing.T, table string) (out []string) {
	t.Helper()
	var content struct {
		Caption  string
		Headings []string
		Data     [][]any
	}
	if err := json.Unmarshal([]byte(table), &content); err != nil {
		t.Fatalf("read the dump: %v", err)
	}
	name := strings.TrimSuffix(content.Caption, " table")
	if slices.Contains(volatileTables, name) {
		return nil
	}
	for _, row := range content.Data {
		kept := map[string]any{}
		for i, column := range content.Headings {
			if !slices.Contains(volatileColumns, column) {
				kept[column] = row[i]
			}
		}
		raw, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		if nodePolicyPattern.Match(raw) {
			continue
		}
		line := uuidPattern.ReplaceAllString(string(raw), "…")
		line = stageHintPattern.ReplaceAllString(line, `"stage-hint"`)
		out = append(out, name+" "+reevaluatedPattern.ReplaceAllString(line, ""))
	}
	return out
}

// listObjectLines returns every object of every kind that can be listed in normal form. The UID is kept, so that a
// recreated object differs.
func listObjectLines(t *testing.T, c *harness.Cluster) (out []string) {
	t.Helper()
	config := harness.LoadConfig(t, c.Kubeconfig())
	config.WarningHandler = rest.NoWarnings{} // about deprecated kinds
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := c.Client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(volatileKinds, resource.Kind) {
				continue
			}
			gv, err := schema.ParseGroupVersion(group.GroupVersion)
			if err != nil {
				t.Fatal(err)
			}
			list, err := client.Resource(gv.WithResource(resource.Name)).List(harness.Within(t, harness.Patience),
				metav1.ListOptions{})
			if err != nil {
				t.Fatalf("list %s: %v", resource.Name, err)
			}
			for _, o := range list.Items {
				out = append(out, formatObject(t, &o))
			}
		}
	}
	return out
}

func formatObject(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	content := stripFields(o.Object, volatileFields)
	if o.GetKind() == "Subnet" {
		content = stripFields(content, subnetVolatileFields)
	}
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s/%s %s", o.GetKind(), o.GetNamespace(), o.GetName(), raw)
}

// stripFields returns a value without fields of the given names, at any depth.
func stripFields(v any, fields []string) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, inner := range v {
			if !slices.Contains(fields, name) {
				out[name] = stripFields(inner, fields)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = stripFields(v[i], fields)
		}
		return out
	default:
		return v
	}
}

// waitQuiet reads the state until it does not change between two reads: Kube-OVN is still busy with its own networks
// when a lab is ready.
func waitQuiet(t *testing.T, c *harness.Cluster) stateDump {
	t.Helper()
	const pause = 2 * time.Second
	c.PollUntil(t, "the port with which Kube-OVN's own work ends: nothing changes before that begins, either",
		func() bool {
			return c.RunNbctl(t, "--bare", "--columns=_uuid", "find", "logical_router_port",
				"name=ovn-cluster-ext-cloud") != ""
		})
	before := takeSnapshot(t, c)
	for begin := time.Now(); time.Since(begin) < harness.Patience; {
		<-time.After(pause)
		now := takeSnapshot(t, c)
		if now.diff(before, 1) == "" {
			return now
		}
		before = now
	}
	t.Fatal("the lab does not come to rest")
	return nil
}

// waitRestored fails the test unless the lab returns to an earlier state, and returns how long that took.
func waitRestored(t *testing.T, c *harness.Cluster, before stateDump) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		c.SyncFlows(t) // so that the southbound database corresponds to the northbound one
		differs := takeSnapshot(t, c).diff(before, 40)
		took := time.Since(begin)
		if differs == "" {
			return took
		}
		if took > harness.Patience {
			t.Fatalf("%v later the dumps still differ from those before:\n%s", harness.Patience, differs)
		}
		<-tick.C
	}
}
