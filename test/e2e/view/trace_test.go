package view

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/show"
)

// TestView2TraceAgreesWithPackets compares traces with packets for random questions in random clusters.
func TestView2TraceAgreesWithPackets(t *testing.T) {
	item := viewItems.Item(t, 2)
	agreed, asked, same, steps := 0, 0, 0, 0
	for i := range show.ChooseSize(5, 1) {
		seed := randomSeed(t, i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newRandomCluster(t, seed)
			riddles := m.randomQuestions(t, show.ChooseSize(200, 150))
			right, kinds := m.compareWithPackets(t, riddles)
			agreed, asked = agreed+right, asked+len(riddles)
			there, all := m.compareWithOVNTrace(t, riddles[:show.ChooseSize(60, 10)])
			same, steps = same+there, steps+all
			if !show.IsFullSize() {
				m.checkDefaultVPC(t, platformItems.Item(t, 5), 40)
			}
			item.AddFigure("seed %d (SALLYPORT_SEED): %d networks, %d projects on %d nodes; %s", seed, len(m.networks),
				len(m.projects), m.Blueprint.Nodes, kinds)
		})
	}
	item.AddFigure("%d of %d questions: verdict, backend, the client's address as the server sees it, and the network of the reply are as packets have them", agreed, asked)
	item.AddFigure("%d of %d steps that ovn-trace was asked about are as OVN's flows have them", same, steps)
}

// randomSeed returns the seed of the ith cluster: i+1, or counted from SALLYPORT_SEED.
func randomSeed(t *testing.T, i int) uint64 {
	t.Helper()
	first := uint64(1)
	if text := os.Getenv("SALLYPORT_SEED"); text != "" {
		var err error
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return first + uint64(i)
}

// compareWithOVNTrace compares each step of some traces with ovn-trace, and returns the number of equal steps and of
// all steps.
func (m *randomCluster) compareWithOVNTrace(t *testing.T, some []traceQuestion) (same, steps int) {
	t.Helper()
	tracer := trace.New(takeSurvey(t, m.Cluster, collector.Scope{}))
	db := []string{"--db=unix:" + filepath.Join(m.Dir, "data/ovn/sb1.sock"), "--no-leader-only"}
	said := map[string]string{}
	for _, q := range some {
		for _, p := range tracer.Trace(q.Query).Paths {
			for _, step := range p.Steps {
				key := strings.Join(step.OVNTraceArgs(), " ")
				if said[key] == "" {
					said[key] = m.RunTool(t, "ovn-trace", slices.Concat(db, step.OVNTraceArgs())...)
				}
				steps++
				if agrees, instead := step.AgreesWithOutput(said[key]); agrees {
					same++
				} else {
					t.Errorf("%s → %s: in %s the rows lead it to %q, and the flows %s\n%s\n%s", q.asker, q.targetURL(),
						step.Datapath, step.Outport, instead, key, said[key])
				}
			}
		}
	}
	return same, steps
}

// traceQuestion is a question for trace and for packets.
type traceQuestion struct {
	trace.Query
	asker    string // host or pod
	paths    []trace.Path
	beyond   map[string][]trace.Path // from a node through which it leaves, to an external address of the cluster
	mismatch string                  // the outcome of packets
}

func (q traceQuestion) targetURL() string { return q.Protocol + "://" + q.Server.String() }

// newTraceQuestion returns a question from a requester to a target.
func newTraceQuestion(from requester, to traceTarget) traceQuestion {
	q := traceQuestion{asker: from.host, Query: trace.Query{
		Pod: from.pod, Node: from.node, Server: to.AddrPort, Protocol: to.protocol,
	}}
	if from.pod == "" && from.node == "" {
		q.Client = netip.AddrPortFrom(from.address, 0)
	}
	return q
}

// requester is a host, pod or node that can send requests.
type requester struct {
	host, pod, node string
	address         netip.Addr
}

// randomQuestions returns random questions from any requester to any target, mostly existing ones.
func (m *randomCluster) randomQuestions(t *testing.T, n int) (out []traceQuestion) {
	t.Helper()
	s := takeSurvey(t, m.Cluster, collector.Scope{})
	tracer := trace.New(s)
	outside, inside := m.findRequesters(s)
	doors, addresses := m.findTargets(s), m.externalAddresses(s)
	seen := map[string]bool{}
	for len(out) < n {
		from := pickOne(m, outside)
		if m.withProbability(25) {
			from = pickOne(m, inside)
		}
		to := pickOne(m, doors)
		switch m.rng.IntN(4) {
		case 0:
			to = traceTarget{
				netip.AddrPortFrom(pickOne(m, addresses), pickOne(m, []uint16{80, 443, 7000, 81})),
				pickOne(m, []string{"tcp", "udp", "sctp"}),
			}
		case 1:
			if from.pod != "" {
				to.AddrPort = netip.AddrPortFrom(pickOne(m, outside).address, 80)
			}
		}
		q := newTraceQuestion(from, to)
		if key := q.asker + q.targetURL(); !seen[key] && from.address != to.Addr() {
			seen[key] = true
			m.traceQuestion(tracer, &q)
			out = append(out, q)
		}
	}
	return out
}

// traceTarget is a target of a request.
type traceTarget struct {
	netip.AddrPort
	protocol string
}

// findTargets returns the ports of load balancers and floating IPs.
func (m *randomCluster) findTargets(s *clusterstate.State) (out []traceTarget) {
	for _, r := range s.Logical.Routers {
		out = append(out, m.findTargetsOf(r)...)
	}
	return out
}

// findTargetsOf returns the VIPs and floating IPs of a router.
func (m *randomCluster) findTargetsOf(r logical.Router) (out []traceTarget) {
	for _, b := range r.Balancers {
		for _, v := range b.VIPs {
			out = append(out, traceTarget{v.Address, b.Protocol})
		}
	}
	for _, n := range r.NATs {
		if n.Type != "snat" {
			out = append(out, traceTarget{
				netip.AddrPortFrom(n.External, pickOne(m, []uint16{80, 80, 8080, 81})),
				pickOne(m, []string{"tcp", "tcp", "udp", "udp", "sctp"}),
			})
		}
	}
	return out
}

// findRequesters returns the hosts outside and the running pods.
func (m *randomCluster) findRequesters(s *clusterstate.State) (outside, inside []requester) {
	for _, x := range m.Blueprint.Segments() {
		if x.Kind != blueprint.External {
			continue // the nodes' uplink
		}
		outside = append(outside, requester{host: x.Client, address: x.ClientSide[0].Peer.Addr()},
			requester{host: x.Neighbour, address: x.Neighbours[0].Addr()})
	}
	outside = append(outside, requester{host: "internet", address: blueprint.InternetAddresses()[0]})
	for _, p := range s.Cluster.Pods {
		if name := p.Namespace + "/" + p.Name; slices.Contains(m.pods, name) {
			inside = append(inside, requester{host: p.Name + "." + p.Namespace, pod: name, address: p.Addresses[0]})
		}
	}
	return outside, inside
}

// externalAddresses returns all external addresses in use, and some unused ones.
func (m *randomCluster) externalAddresses(s *clusterstate.State) (out []netip.Addr) {
	for _, e := range s.Cluster.OvnEips {
		if e.Address.IsValid() {
			out = append(out, e.Address)
		}
	}
	for _, kind := range m.networks {
		for _, nth := range []int{100, 101} {
			out = append(out, netip.MustParseAddr(m.unusedAddress(kind, nth)))
		}
	}
	return out
}

// compareWithPackets sends packets for all questions, first for those that should be answered.
func (m *randomCluster) compareWithPackets(t *testing.T, all []traceQuestion) (right int, kinds string) {
	t.Helper()
	var good, bad []traceQuestion
	for _, q := range all {
		if q.expectsReply() {
			good = append(good, q)
		} else {
			bad = append(bad, q)
		}
	}
	wrong := append(m.askUntilNoDrops(t, good), m.askUntilNoDrops(t, bad)...)
	for _, q := range wrong {
		t.Errorf("%s → %s\n  packets: %s\n%s", q.asker, q.targetURL(), q.mismatch, q.describeTrace())
	}
	return len(all) - len(wrong), summarizeVerdicts(all)
}

// summarizeVerdicts formats the number of questions by verdict, with the codes of those without an answer.
func summarizeVerdicts(all []traceQuestion) string {
	counts, codes := map[string]int{}, map[string]int{}
	for _, q := range all {
		for _, verdict := range q.distinctVerdicts() {
			counts[verdict]++
		}
		if p := q.paths[0]; p.Code != "" {
			codes[p.Code]++
		}
	}
	var words, reasons []string
	for _, verdict := range []string{trace.Delivered, trace.Refused, trace.Dropped, trace.Lost, trace.Unknown} {
		if counts[verdict] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[verdict], strings.ToLower(verdict)))
		}
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		reasons = append(reasons, fmt.Sprintf("%d %s", codes[code], code))
	}
	return fmt.Sprintf("%s (%s)", strings.Join(words, ", "), strings.Join(reasons, ", "))
}

// askUntilNoDrops repeats the questions until no router has dropped packets that trace does not predict: on a busy
// machine gateways move between nodes, and packets in flight are then dropped. A wrong path is wrong every time.
func (m *randomCluster) askUntilNoDrops(t *testing.T, all []traceQuestion) (wrong []traceQuestion) {
	t.Helper()
	var said []string
	for _, q := range all {
		said = append(said, m.expectedDroppers(q)...)
	}
	for range 3 {
		m.ResetDrops(t)
		wrong = m.retraceAndAsk(t, m.askConcurrently(all))
		if len(m.unexpectedDrops(t, said)) == 0 {
			return wrong
		}
	}
	m.reportUnexpectedDrops(t, all)
	return wrong
}

// expectedDroppers returns the outside routers that drop packets of a question according to trace.
func (m *randomCluster) expectedDroppers(q traceQuestion) (out []string) {
	for _, p := range slices.Concat(append(slices.Collect(maps.Values(q.beyond)), q.paths)...) {
		for _, x := range m.Blueprint.Segments() {
			drops := p.Code == trace.LeavesUntranslated || p.Code == trace.ReplyLeavesElsewhere
			if drops && slices.ContainsFunc(p.About, func(r state.Ref) bool { return "ext-"+r.Name == x.Name }) {
				out = append(out, x.Router)
			}
		}
	}
	return out
}

// unexpectedDrops returns the drops of routers that trace does not name.
func (m *randomCluster) unexpectedDrops(t *testing.T, said []string) map[string]uint64 {
	t.Helper()
	out := m.CountDrops(t)
	maps.DeleteFunc(out, func(router string, n uint64) bool { return n == 0 || slices.Contains(said, router) })
	return out
}

// reportUnexpectedDrops repeats the questions one at a time and fails the test with those in which routers drop packets
// against trace three times in a row. One drop may be of an earlier question: a server whose answer was lost sends it
// again for up to a minute.
func (m *randomCluster) reportUnexpectedDrops(t *testing.T, all []traceQuestion) {
	t.Helper()
	for _, q := range all {
		var report []string
		for range 3 {
			m.ResetDrops(t)
			happens := m.comparePackets(q)
			drops := m.unexpectedDrops(t, m.expectedDroppers(q))
			if len(drops) == 0 {
				report = nil
				break
			}
			for router, n := range drops {
				report = append(report, fmt.Sprintf("%s dropped %d packets of %v; %s", router, n,
					m.ReadDroppedFlows(t, router), happens))
			}
		}
		if len(report) > 0 {
			t.Errorf("%s → %s: %s\n%s", q.asker, q.targetURL(), strings.Join(report, "\n"), q.describeTrace())
		}
	}
}

// retraceAndAsk repeats the questions with a different outcome, with a trace of the current cluster state.
func (m *randomCluster) retraceAndAsk(t *testing.T, all []traceQuestion) []traceQuestion {
	t.Helper()
	if len(all) == 0 {
		return nil
	}
	tracer := trace.New(takeSurvey(t, m.Cluster, collector.Scope{}))
	for i := range all {
		m.traceQuestion(tracer, &all[i])
	}
	return m.askConcurrently(all)
}

// distinctVerdicts returns the verdicts of the paths, once each.
func (q traceQuestion) distinctVerdicts() (out []string) {
	for _, p := range q.paths {
		if !slices.Contains(out, p.Verdict) {
			out = append(out, p.Verdict)
		}
	}
	return out
}

// expectsReply reports whether a reply is expected on every path.
func (q traceQuestion) expectsReply() bool {
	for _, v := range q.distinctVerdicts() {
		if v != trace.Delivered && v != trace.Refused {
			return false
		}
	}
	return true
}

// askConcurrently sends packets for questions in parallel, and returns the questions whose outcome differs from trace.
func (m *randomCluster) askConcurrently(all []traceQuestion) (wrong []traceQuestion) {
	var group sync.WaitGroup
	var mu sync.Mutex
	free := make(chan struct{}, 16)
	for _, q := range all {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			if q.mismatch = m.comparePackets(q); q.mismatch != "" {
				mu.Lock()
				wrong = append(wrong, q)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return wrong
}

// describeTrace formats a trace hop by hop.
func (q traceQuestion) describeTrace() string {
	var out strings.Builder
	for _, p := range q.paths {
		fmt.Fprintf(&out, "  trace: %s by %s at %s from %s %s: %s %v\n", p.Verdict, p.Network, p.Server, p.SeenSource,
			p.Code, p.Reason, p.Caveats)
		for _, h := range slices.Concat(p.RequestHops, p.ReplyHops) {
			fmt.Fprintf(&out, "    %s on %s: %s   %s\n", h.About, h.Node, h.Text, h.Packet)
		}
	}
	return out.String()
}

// comparePackets returns how packets differ from trace, or an empty string. A packet can be lost during ARP resolution,
// so a request that should be answered is repeated; a wrong path is wrong every time.
func (m *randomCluster) comparePackets(q traceQuestion) (wrong string) {
	for range 3 {
		a, err := m.SendRequest(q.asker, q.targetURL())
		var happens string
		if happens, wrong = m.judgeAnswer(q, a, err); wrong == "" || happens != outcomeSilence {
			return wrong
		}
	}
	return wrong
}

// Outcomes of packets.
const (
	outcomeSilence = "nobody answers"
	outcomeRefused = "refused"
)

// judgeAnswer compares the outcome with every path of the trace.
func (m *randomCluster) judgeAnswer(q traceQuestion, a program.Answer, err error) (happens, wrong string) {
	happens = fmt.Sprintf("%s answers and saw %s", a.Name, a.Saw.Addr())
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || err != nil && strings.Contains(err.Error(), "aborted by the peer"): // as SCTP has it
		happens = outcomeRefused
	case err != nil:
		happens = outcomeSilence
	}
	for _, p := range q.paths {
		agrees := m.expectedOutcome(p, q) == happens
		if p.Code == trace.LeavesByNode {
			agrees = slices.Contains(m.outcomesThroughNode(p, q), happens)
		}
		if agrees {
			return happens, ""
		}
	}
	if err != nil {
		return happens, fmt.Sprintf("%s (%v)", happens, err)
	}
	return happens, happens
}

// expectedOutcome returns the expected outcome on one path.
func (m *randomCluster) expectedOutcome(p trace.Path, q traceQuestion) string {
	switch p.Verdict {
	case trace.Refused:
		return outcomeRefused
	case trace.Delivered:
		name := m.nameOfAddress(p.Server.Addr(), p)
		listens := p.Server.Port() == 80 || p.Server.Port() == 8080
		if last := p.RequestHops[len(p.RequestHops)-1].About; last.Kind == clusterstate.NodeKind {
			listens = listens && last.Name == m.hostNode
		}
		switch {
		case name == "":
			return outcomeSilence // trace cannot know that no host outside has the address
		case listens:
			return fmt.Sprintf("%s answers and saw %s", name, p.SeenSource)
		case q.Protocol == "sctp":
			return outcomeSilence // the SCTP implementation of the pods is silent on closed ports
		default:
			return outcomeRefused
		}
	default:
		return outcomeSilence
	}
}

// nameOfAddress returns the owner of an address: a host outside, or the pod that the trace names; empty if there is
// none.
func (m *randomCluster) nameOfAddress(a netip.Addr, p trace.Path) string {
	last := p.RequestHops[len(p.RequestHops)-1].About
	switch last.Kind {
	case "Pod":
		return last.Name
	case clusterstate.NodeKind:
		return hostPod // on one of them
	}
	return m.nameOfHost(a)
}

// nameOfHost returns the host outside that has an address; empty if there is none.
func (m *randomCluster) nameOfHost(a netip.Addr) string {
	for _, x := range m.Blueprint.Segments() {
		switch a {
		case x.ClientSide[0].Peer.Addr():
			return x.Client
		case x.Neighbours[0].Addr():
			return x.Neighbour
		}
	}
	if a == blueprint.InternetAddresses()[0] {
		return "internet"
	}
	return ""
}
