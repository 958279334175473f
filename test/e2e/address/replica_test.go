package address

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// stateMirror is a live copy of the northbound database and of the objects that the product writes: lines without
// values that differ in a recreated row or object (UUIDs, times, MAC addresses that Kube-OVN generates).
type stateMirror struct {
	mu          sync.Mutex
	lines       map[string]string // by table and UUID, or kind and name
	activeWatch *lineWatch
}

// lineWatch watches some lines: whether they change, and when they are restored.
type lineWatch struct {
	words       []string // words that select the lines
	want        stateDump
	differsNow  bool      // whether they differ now
	everChanged bool      // whether they have ever differed
	restoredAt  time.Time // time of the restoration
	updates     chan struct{}
}

// newStateMirror follows a lab until the test ends.
func newStateMirror(t *testing.T, c *harness.Cluster) *stateMirror {
	t.Helper()
	r := &stateMirror{lines: map[string]string{}}
	r.watchRows(t, c)
	r.watchObjects(t, c)
	return r
}

// linesWith returns the lines that contain all given words.
func (r *stateMirror) linesWith(about ...string) stateDump {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.matchingLines(about)
}

func (r *stateMirror) matchingLines(words []string) stateDump {
	out := stateDump{}
	for _, line := range r.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			out[line]++
		}
	}
	return out
}

// updateLine processes a change; an empty line means that the row or object is gone.
func (r *stateMirror) updateLine(key, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines[key] = line
	if line == "" {
		delete(r.lines, key)
	}
	v := r.activeWatch
	if v == nil {
		return
	}
	before := v.differsNow
	v.differsNow = r.matchingLines(v.words).diff(v.want, 1) != ""
	v.everChanged = v.everChanged || v.differsNow
	if before && !v.differsNow {
		v.restoredAt = time.Now()
	}
	select {
	case v.updates <- struct{}{}:
	default:
	}
}

// watchLines starts to watch the lines that contain all given words.
func (r *stateMirror) watchLines(about ...string) *lineWatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.activeWatch = &lineWatch{words: about, want: r.matchingLines(about), updates: make(chan struct{}, 1)}
	return r.activeWatch
}

// errNoChangeSeen means that no change was seen: none was made, or it was undone before the server's next update.
var errNoChangeSeen = errors.New("nothing was ever changed")

// waitLinesRestored waits until the lines have changed, are restored, and remain so for a while. It returns the time of
// the restoration. A change that is not seen until changeLimit will not be seen any more.
func (r *stateMirror) waitLinesRestored(v *lineWatch, changeLimit, limit time.Duration) (time.Time, error) {
	const still = 300 * time.Millisecond
	begun := time.Now()
	for {
		r.mu.Lock()
		changed, differs, back, difference := v.everChanged, v.differsNow, v.restoredAt,
			r.matchingLines(v.words).diff(v.want, 20)
		r.mu.Unlock()
		switch waited := time.Since(begun); {
		case changed && !differs && time.Since(back) >= still:
			return back, nil
		case !changed && waited > changeLimit:
			return back, fmt.Errorf("%w about %q", errNoChangeSeen, v.words)
		case waited > limit:
			return back, fmt.Errorf("after %v it is not what it was:\n%s", limit, difference)
		}
		select {
		case <-v.updates:
		case <-time.After(still):
		}
	}
}

var (
	macPattern = regexp.MustCompile(`[0-9a-f]{2}(:[0-9a-f]{2}){5}`)
	// A port on a secondary network gets any address, which is not visible outside. Kube-OVN adds its finalizer only to
	// OvnEips whose address it chose.
	secondaryPort = regexp.MustCompile(`-ext-(public|third)\b`)
	// not the gateway, which is the first, nor the prefix
	portAddress = regexp.MustCompile(`\b(91\.224\.11|198\.19\.7)\.\d\d+\b`)
	// A return port gets the next free reserved address of the subnet when its network is added.
	returnPortAddress = regexp.MustCompile(`\b10\.66\.0\.2(4[7-9]|5[0-4])\b`)
	regeneratedFields = append([]string{
		"uid", "creationTimestamp", "deletionTimestamp", "observedGeneration", "v4usingIPrange", "v4availableIPrange",
		// Kube-OVN's notes on an OvnEip and its count of a Subnet's addresses, from a cache that may be late: a wrong count
		// stays until another address of the Subnet changes. TestCore2 compares the counts.
		"ovn.kubernetes.io/vpc_nat", "ovn.kubernetes.io/vpc", "nat", "v4usingIPs", "v4availableIPs",
	}, volatileFields...)
	// A row that we put back says so in its external_ids; Kube-OVN's own does not.
	// The status of a port is which gateway holds it; up is what northd says of it.
	regeneratedColumns = append([]string{"_version", "external_ids", "status", "up"}, volatileColumns...)
	watchedTables      = []string{
		"Logical_Router", "Logical_Router_Port", "Static_MAC_Binding", "NAT", "Logical_Router_Policy",
		"Logical_Router_Static_Route",
		"Logical_Switch", "Logical_Switch_Port", "Port_Group", "ACL", "QoS", "Address_Set",
	}
)

// watchRows reads the output of ovsdb-client.
func (r *stateMirror) watchRows(t *testing.T, c *harness.Cluster) {
	t.Helper()
	cmd, err := c.Command("", "lab", c.Parts.Program("ovsdb-client"), "-f", "json", "monitor",
		"unix:"+filepath.Join(c.Dir, "data/ovn/nb1.sock"), "OVN_Northbound", "ALL")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	go r.readRowEvents(out)
	c.PollUntil(t, "the rows are known", func() bool {
		return len(r.linesWith("Logical_Router ", `"ovn-cluster"`)) > 0
	})
}

func (r *stateMirror) readRowEvents(from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		var table struct {
			Caption  string
			Headings []string
			Data     [][]any
		}
		if json.Unmarshal([]byte(text), &table) != nil || !slices.Contains(watchedTables, table.Caption) {
			continue
		}
		var key string
		for _, row := range table.Data {
			if row[0] != "" { // only the old version of a changed row has the id
				key = fmt.Sprint(table.Caption, " ", row[0])
			}
			switch row[1] {
			case "delete":
				r.updateLine(key, "")
			case "initial", "insert", "new":
				r.updateLine(key, table.Caption+" "+formatRow(table.Headings, row))
			}
		}
	}
}

func formatRow(headings []string, row []any) string {
	kept := map[string]any{}
	for i, column := range headings {
		// the first two columns are the row and the action
		if i > 1 && !slices.Contains(regeneratedColumns, column) {
			kept[column] = row[i]
		}
	}
	raw, _ := json.Marshal(kept) // it was JSON before
	return maskRegenerated(uuidPattern.ReplaceAllString(string(raw), "…"))
}

// maskRegenerated masks generated values in a text.
func maskRegenerated(text string) string {
	if secondaryPort.MatchString(text) {
		text = portAddress.ReplaceAllString(text, "…")
	}
	return macPattern.ReplaceAllStringFunc(returnPortAddress.ReplaceAllString(text, "<leg>"), func(mac string) string {
		if strings.HasPrefix(mac, ownership.MACPrefix) {
			return mac // ours are derived and never change
		}
		return "…"
	})
}

// watchObjects watches every kind that the product writes.
func (r *stateMirror) watchObjects(t *testing.T, c *harness.Cluster) {
	t.Helper()
	client, err := dynamic.NewForConfig(harness.LoadConfig(t, c.Kubeconfig()))
	if err != nil {
		t.Fatal(err)
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	for _, resource := range projectResources {
		take := func(o any) { r.recordObject(o.(*unstructured.Unstructured), false) }
		informer := factory.ForResource(resource).Informer()
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: take, UpdateFunc: func(_, o any) { take(o) },
			DeleteFunc: func(o any) {
				if o, known := o.(*unstructured.Unstructured); known {
					r.recordObject(o, true)
				}
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
}

// sortLists returns a value with sorted lists and without empty strings: restored entries are appended to a list, and
// Kube-OVN adds the fields that it knows.
func sortLists(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if v[name] = sortLists(inner); inner == "" {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = sortLists(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return v
}

// recordObject processes an object. An object that is being deleted counts as changed.
func (r *stateMirror) recordObject(o *unstructured.Unstructured, gone bool) {
	if o.GetLabels()["ovn.kubernetes.io/vpc_external"] == "true" {
		return // Kube-OVN adopts every router of others as a Vpc within a minute
	}
	key := fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
	if gone {
		r.updateLine(key, "")
		return
	}
	content := stripFields(o.Object, regeneratedFields)
	if o.GetKind() == "Subnet" {
		content = stripFields(content, subnetVolatileFields)
	}
	raw, _ := json.Marshal(sortLists(content)) // it was JSON before
	line := maskRegenerated(key + " " + string(raw))
	if o.GetKind() == "OvnEip" {
		line = strings.ReplaceAll(line, `"finalizers":["kubeovn.io/kube-ovn-controller"],`, "")
	}
	if o.GetDeletionTimestamp() != nil {
		line += " being deleted"
	}
	r.updateLine(key, line)
}
