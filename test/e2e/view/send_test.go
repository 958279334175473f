package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// sentAnswer is what `trace --send -o json` prints of a question.
type sentAnswer struct {
	Ways []struct{ Verdict, Code string }
	Sent struct {
		Packet, Text string
		Agrees       bool
		Points       []trace.SentPoint
	}
}

// sendQuestion runs `trace --send` and returns its answer.
func sendQuestion(t *testing.T, c *harness.Cluster, q trace.Query) (out sentAnswer, said string) {
	t.Helper()
	to := q.Server.String()
	if q.Protocol == "icmp" {
		to = q.Server.Addr().String()
	}
	said, _ = runCommand(t, c, "trace", "--send", "-o", "json", "--proto", q.Protocol, q.Client.Addr().String(), to)
	begin := strings.Index(said, "{")
	if begin < 0 || json.NewDecoder(strings.NewReader(said[begin:])).Decode(&out) != nil || len(out.Ways) == 0 {
		t.Errorf("%s to %s: %s", q.Client.Addr(), to, said)
	}
	return out, said
}

// sendResults is the outcome of questions.
type sendResults struct {
	asked, agreed, sent int
	verdicts            map[string]int
}

// addFigure says what the questions showed.
func (r sendResults) addFigure(item *show.Item) {
	var words []string
	for _, v := range slices.Sorted(maps.Keys(r.verdicts)) {
		words = append(words, fmt.Sprintf("%d %s", r.verdicts[v], strings.ToLower(v)))
	}
	item.AddFigure("trace --send agrees with trace in %d of %d questions (%s)", r.agreed, r.sent, strings.Join(words, ", "))
}

// compareSent asks questions until a number of them have been answered with a packet, four at a time.
func compareSent(t *testing.T, c *harness.Cluster, all []trace.Query, want int) sendResults {
	t.Helper()
	out := sendResults{verdicts: map[string]int{}}
	var group sync.WaitGroup
	var mu sync.Mutex
	free := make(chan struct{}, 4)
	enough := func() bool { mu.Lock(); defer mu.Unlock(); return out.sent >= want }
	for _, q := range all {
		free <- struct{}{}
		if enough() {
			<-free
			break
		}
		group.Go(func() {
			defer func() { <-free }()
			a, said := sendQuestion(t, c, q)
			mu.Lock()
			defer mu.Unlock()
			out.asked++
			if len(a.Ways) == 0 || a.Sent.Packet == "" {
				return
			}
			out.sent++
			out.verdicts[a.Ways[0].Verdict]++
			if a.Sent.Agrees {
				out.agreed++
				return
			}
			t.Errorf("%s %s → %s: %s\n%s", q.Protocol, q.Client, q.Server, a.Sent.Text, said)
		})
	}
	group.Wait()
	if out.sent < want {
		t.Errorf("only %d of %d questions were answered with a packet, wanted %d", out.sent, out.asked, want)
	}
	return out
}

// TestDay4SendInRandomClusters compares `trace --send` with `trace` for random questions of clients in random clusters.
func TestDay4SendInRandomClusters(t *testing.T) {
	if !show.IsFullSize() {
		t.Skip("at full size; TestDay4Verdicts asks some questions")
	}
	item := dayItems.Item(t, 4)
	for i := range 2 {
		seed := randomSeed(t, i)
		m := newRandomCluster(t, seed)
		installAgents(t, m.Cluster)
		var all []trace.Query
		for _, q := range m.randomQuestions(t, 300) {
			if q.Pod == "" && q.Node == "" {
				all = append(all, q.Query)
			}
		}
		compareSent(t, m.Cluster, all, 100).addFigure(item)
	}
}

// checkSend compares `trace --send` with `trace` in the lab of faults, whose answers are known: also packets that are
// refused or dropped.
func (w *faultFixture) checkSend(t *testing.T) sendResults {
	t.Helper()
	outside := netip.MustParseAddr(harness.InternetAddress)
	shop, desk := netip.MustParseAddr(shopAddress), netip.MustParseAddr(deskAddress)
	ask := func(protocol string, to netip.Addr, port uint16) trace.Query {
		return trace.Query{
			Client: netip.AddrPortFrom(outside, 0), Server: netip.AddrPortFrom(to, port), Protocol: protocol,
		}
	}
	all := []trace.Query{
		ask("tcp", shop, 80), ask("udp", shop, 80), ask("tcp", shop, 81), ask("tcp", desk, 80), ask("udp", desk, 80),
		ask("sctp", desk, 80), ask("icmp", desk, 0), ask("tcp", desk, 81), ask("icmp", shop, 0), ask("sctp", desk, 81),
	}
	return compareSent(t, w.Cluster, all, len(all))
}

// checkBrokenHop breaks a hop behind the back of the rows that trace reads: a flow of the node on which the pod is. The
// packet must be missing at the pod, and the place be named.
func (w *faultFixture) checkBrokenHop(t *testing.T) string {
	t.Helper()
	q := trace.Query{
		Client: netip.AddrPortFrom(netip.MustParseAddr(harness.InternetAddress), 0), Protocol: "tcp",
		Server: netip.MustParseAddrPort(deskAddress + ":80"),
	}
	if a, said := sendQuestion(t, w.Cluster, q); !a.Sent.Agrees {
		t.Fatalf("before the hop is broken: %s", said)
	}
	const drop = "cookie=0x5a11,table=65,priority=60000,tcp,tp_dst=80"
	bridge := "unix:" + filepath.Join(w.Dir, "data/node2/br-int.mgmt")
	w.RunTool(t, "ovs-ofctl", "add-flow", bridge, drop+",actions=drop")
	defer w.RunTool(t, "ovs-ofctl", "del-flows", bridge, "cookie=0x5a11/-1")
	a, said := sendQuestion(t, w.Cluster, q)
	if want := "node2 (Pod hall-ward/b2)"; a.Sent.Agrees || !strings.Contains(a.Sent.Text, "lost between") ||
		!strings.HasSuffix(a.Sent.Text, want) {
		t.Errorf("with a flow of node2 that drops it, wanted that it is lost before %s:\n%s", want, said)
	}
	return a.Sent.Text
}
