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

// dump is rows of both OVN databases and Kubernetes objects as lines, with how often each is there: without UUIDs, two rows
// can be one line.
type dump map[string]int

// minus is the lines that are there more often than in another dump, each once.
func (d dump) minus(o dump) (out []string) {
	for line, n := range d {
		if n > o[line] {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

// differs is what came (+) and went (-) since an earlier dump, in at most so many lines; empty: nothing.
func (d dump) differs(since dump, most int) string {
	var out []string
	for _, line := range d.minus(since) {
		out = append(out, "+ "+line)
	}
	for _, line := range since.minus(d) {
		out = append(out, "- "+line)
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	for i := range len(out) - 1 { // often a line has become another: where?
		if same := common(out[i][2:], out[i+1][2:]); same > 60 {
			out[i] += "\n    here: " + out[i][2+same-20:min(len(out[i]), 2+same+100)] + "\n    next: " + out[i+1][2+same-20:min(len(out[i+1]), 2+same+100)]
		}
	}
	if len(out) > most {
		out = append(out[:most], fmt.Sprintf("and %d more", len(out)-most))
	}
	return strings.Join(out, "\n")
}

// common is how long two lines are the same.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// only is the lines that are chosen.
func (d dump) only(chosen func(line string) bool) dump {
	out := maps.Clone(d)
	maps.DeleteFunc(out, func(line string, _ int) bool { return !chosen(line) })
	return out
}

// snapshot reads everything once.
func snapshot(t *testing.T, c *harness.Cluster) dump {
	t.Helper()
	out := dump{}
	for _, db := range []struct{ socket, name string }{{"nb1", "OVN_Northbound"}, {"sb1", "OVN_Southbound"}} {
		text := c.RunTool(t, "ovsdb-client", "-f", "json", "dump", "unix:"+filepath.Join(c.Dir, "data/ovn", db.socket+".sock"), db.name)
		for table := range strings.Lines(text) {
			for _, line := range rowLines(t, table) {
				out[db.name+" "+line]++
			}
		}
	}
	for _, line := range objectLines(t, c) {
		out[line]++
	}
	return out
}

// What changes without anybody's doing: counters and times of OVN's synchronisation, keys of tunnels, and what was learned
// from the wire, which OVN forgets after five minutes.
var (
	restlessColumns = []string{
		"_uuid", "tunnel_key", "nb_cfg", "nb_cfg_timestamp", "sb_cfg", "sb_cfg_timestamp", "hv_cfg", "hv_cfg_timestamp", "timestamp",
	}
	restlessTables = []string{"MAC_Binding", "FDB", "Connection"}
	restlessFields = []string{"resourceVersion", "managedFields", "generation", "lastHeartbeatTime", "lastTransitionTime", "lastUpdateTime"}
	restlessKinds  = []string{"Event", "Lease", "ComponentStatus"}

	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hints = regexp.MustCompile(`"stage-hint","[0-9a-f]{8}"`) // the beginning of a UUID
)

// rowLines is the rows of one table, as ovsdb-client prints it, in normal form.
func rowLines(t *testing.T, table string) (out []string) {
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
	if slices.Contains(restlessTables, name) {
		return nil
	}
	for _, row := range content.Data {
		kept := map[string]any{}
		for i, column := range content.Headings {
			if !slices.Contains(restlessColumns, column) {
				kept[column] = row[i]
			}
		}
		raw, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, name+" "+hints.ReplaceAllString(uuids.ReplaceAllString(string(raw), "…"), `"stage-hint"`))
	}
	return out
}

// objectLines is every object of every kind that can be listed, in normal form. An object that was deleted and made again is
// another one: its UID is kept.
func objectLines(t *testing.T, c *harness.Cluster) (out []string) {
	t.Helper()
	config := harness.LoadConfig(t, c.Kubeconfig())
	config.WarningHandler = rest.NoWarnings{} // of kinds that nobody should use any more
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
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(restlessKinds, resource.Kind) {
				continue
			}
			gv, err := schema.ParseGroupVersion(group.GroupVersion)
			if err != nil {
				t.Fatal(err)
			}
			list, err := client.Resource(gv.WithResource(resource.Name)).List(harness.Within(t, time.Minute), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("list %s: %v", resource.Name, err)
			}
			for _, o := range list.Items {
				out = append(out, objectLine(t, &o))
			}
		}
	}
	return out
}

func objectLine(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	raw, err := json.Marshal(stripped(o.Object, restlessFields))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s/%s %s", o.GetKind(), o.GetNamespace(), o.GetName(), raw)
}

// stripped is a value without fields of these names, at any depth.
func stripped(v any, fields []string) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, inner := range v {
			if !slices.Contains(fields, name) {
				out[name] = stripped(inner, fields)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = stripped(v[i], fields)
		}
		return out
	default:
		return v
	}
}

// quiet reads everything until it is twice the same: Kube-OVN is still busy with its own networks when a lab is ready.
func quiet(t *testing.T, c *harness.Cluster) dump {
	t.Helper()
	const pause = 2 * time.Second
	c.Until(t, "the port with which Kube-OVN's own work ends: nothing changes before that begins, either", func() bool {
		return c.RunNbctl(t, "--bare", "--columns=_uuid", "find", "logical_router_port", "name=ovn-cluster-ext-cloud") != ""
	})
	before := snapshot(t, c)
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		<-time.After(pause)
		now := snapshot(t, c)
		if now.differs(before, 1) == "" {
			return now
		}
		before = now
	}
	t.Fatal("the lab does not come to rest")
	return nil
}

// settles fails the test unless the lab becomes what it was; it returns how long that took.
func settles(t *testing.T, c *harness.Cluster, before dump, limit time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		c.SyncFlows(t) // northd has done its part, so that the southbound database is as the northbound one
		differs := snapshot(t, c).differs(before, 40)
		took := time.Since(begin)
		if differs == "" {
			return took
		}
		if took > limit {
			t.Fatalf("%v later the dumps still differ from those before:\n%s", limit, differs)
		}
		<-tick.C
	}
}
