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

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/internal/observer"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/trace"
	"github.com/sallyport/sallyport/test/show"
)

// TestView2TraceAgreesWithPackets asks random questions in random clusters: what trace says of the rows is what packets do.
func TestView2TraceAgreesWithPackets(t *testing.T) {
	item := views.Item(t, 2)
	agreed, asked, same, steps := 0, 0, 0, 0
	for i := range show.Size(5, 1) {
		seed := uint64(i + 1)
		if text := os.Getenv("SALLYPORT_SEED"); text != "" {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			seed = n + uint64(i)
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newRandomCluster(t, seed)
			riddles := m.riddles(t, show.Size(200, 150))
			right, kinds := m.compare(t, riddles)
			agreed, asked = agreed+right, asked+len(riddles)
			there, all := m.live(t, riddles[:show.Size(60, 10)])
			same, steps = same+there, steps+all
			item.Figure("seed %d (SALLYPORT_SEED): %d networks, %d projects on %d nodes; %s", seed, len(m.networks), len(m.projects), m.Blueprint.Nodes, kinds)
		})
	}
	item.Figure("%d of %d questions: verdict, backend, the client's address as the server sees it, and the network of the reply are as packets have them", agreed, asked)
	item.Figure("%d of %d steps that ovn-trace was asked about are as OVN's flows have them", same, steps)
}

// live asks ovn-trace about each step of some questions, and returns how many are as flows have them, of how many.
func (m *randomCluster) live(t *testing.T, some []question) (same, steps int) {
	t.Helper()
	tracer := trace.New(takeSurvey(t, m.Cluster, observer.Scope{}))
	db := []string{"--db=unix:" + filepath.Join(m.Dir, "data/ovn/sb1.sock"), "--no-leader-only"}
	said := map[string]string{}
	for _, q := range some {
		for _, p := range tracer.Trace(q.Query).Paths {
			for _, step := range p.Steps {
				key := strings.Join(step.Arguments(), " ")
				if said[key] == "" {
					said[key] = m.RunTool(t, "ovn-trace", slices.Concat(db, step.Arguments())...)
				}
				steps++
				if agrees, instead := step.Agrees(said[key]); agrees {
					same++
				} else {
					t.Errorf("%s → %s: in %s the rows lead it to %q, and the flows %s\n%s\n%s", q.where, q.target(), step.Datapath, step.Output, instead, key, said[key])
				}
			}
		}
	}
	return same, steps
}

// question is a question to the trace, and to the packets.
type question struct {
	trace.Query
	where string // the host or pod that asks
	paths []trace.Path
	wrong string // what packets did instead
}

func (q question) target() string { return q.Protocol + "://" + q.Server.String() }

// party is somebody who can ask.
type party struct {
	where, pod string
	address    netip.Addr
}

// riddles are random ones: anybody asks for anything, mostly for what is there.
func (m *randomCluster) riddles(t *testing.T, n int) (out []question) {
	t.Helper()
	s := takeSurvey(t, m.Cluster, observer.Scope{})
	tracer := trace.New(s)
	outside, inside := m.parties(s)
	doors, addresses := m.doors(s), m.addresses(s)
	seen := map[string]bool{}
	for len(out) < n {
		from := pickOne(m, outside)
		if m.chance(25) {
			from = pickOne(m, inside)
		}
		to := pickOne(m, doors)
		switch m.rand.IntN(4) {
		case 0:
			to = door{netip.AddrPortFrom(pickOne(m, addresses), pickOne(m, []uint16{80, 443, 7000, 81})), pickOne(m, []string{"tcp", "udp", "sctp"})}
		case 1:
			if from.pod != "" {
				to.AddrPort = netip.AddrPortFrom(pickOne(m, outside).address, 80)
			}
		}
		q := question{where: from.where, Query: trace.Query{Pod: from.pod, Client: netip.AddrPortFrom(from.address, 0), Server: to.AddrPort, Protocol: to.protocol}}
		if from.pod != "" {
			q.Client = netip.AddrPort{}
		}
		if key := q.where + q.target(); !seen[key] && from.address != to.Addr() {
			seen[key] = true
			q.paths = tracer.Trace(q.Query).Paths
			out = append(out, q)
		}
	}
	return out
}

// door is something that can be asked for.
type door struct {
	netip.AddrPort
	protocol string
}

// doors are ports of load balancers and of floating IPs.
func (m *randomCluster) doors(s *survey.Survey) (out []door) {
	for _, r := range s.Logical.Routers {
		for _, b := range r.Balancers {
			for _, v := range b.VIPs {
				out = append(out, door{v.Address, b.Protocol})
			}
		}
		for _, n := range r.NATs {
			if n.Type != "snat" {
				out = append(out, door{netip.AddrPortFrom(n.External, pickOne(m, []uint16{80, 80, 8080, 81})), pickOne(m, []string{"tcp", "tcp", "udp", "udp", "sctp"})})
			}
		}
	}
	return out
}

// parties are the hosts outside and the pods that run.
func (m *randomCluster) parties(s *survey.Survey) (outside, inside []party) {
	for _, x := range m.Blueprint.Segments() {
		outside = append(outside, party{where: x.Client, address: x.ClientSide[0].Peer.Addr()}, party{where: x.Neighbour, address: x.Neighbours[0].Addr()})
	}
	outside = append(outside, party{where: "internet", address: blueprint.InternetAddresses()[0]})
	for _, p := range s.Cluster.Pods {
		if name := p.Namespace + "/" + p.Name; slices.Contains(m.pods, name) {
			inside = append(inside, party{where: p.Name + "." + p.Namespace, pod: name, address: p.Addresses[0]})
		}
	}
	return outside, inside
}

// addresses are all external ones that somebody has, and some that nobody has.
func (m *randomCluster) addresses(s *survey.Survey) (out []netip.Addr) {
	for _, e := range s.Cluster.OvnEips {
		if e.Address.IsValid() {
			out = append(out, e.Address)
		}
	}
	for _, kind := range m.networks {
		for _, nth := range []int{100, 101} {
			out = append(out, netip.MustParseAddr(m.unused(kind, nth)))
		}
	}
	return out
}

// compare asks all questions by packets, those that should be answered first.
func (m *randomCluster) compare(t *testing.T, all []question) (right int, kinds string) {
	t.Helper()
	var good, bad []question
	for _, q := range all {
		if q.hopeful() {
			good = append(good, q)
		} else {
			bad = append(bad, q)
		}
	}
	wrong := append(m.cleanly(t, good), m.cleanly(t, bad)...)
	for _, q := range wrong {
		t.Errorf("%s → %s\n  packets: %s\n%s", q.where, q.target(), q.wrong, q.said())
	}
	return len(all) - len(wrong), kindsOf(all)
}

// kindsOf is how many questions end how, with the codes of those that do not end well.
func kindsOf(all []question) string {
	counts, codes := map[string]int{}, map[string]int{}
	for _, q := range all {
		for _, verdict := range q.verdicts() {
			counts[verdict]++
		}
		if p := q.paths[0]; p.Code != "" {
			codes[p.Code]++
		}
	}
	var words, reasons []string
	for _, verdict := range []string{trace.Answered, trace.Refused, trace.Dropped, trace.Lost, trace.Unknown} {
		if counts[verdict] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[verdict], strings.ToLower(verdict)))
		}
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		reasons = append(reasons, fmt.Sprintf("%d %s", codes[code], code))
	}
	return fmt.Sprintf("%s (%s)", strings.Join(words, ", "), strings.Join(reasons, ", "))
}

// cleanly asks until no router has dropped anything that the trace does not say: on a busy machine gateways change nodes, and what is under
// way is dropped then. What goes a wrong way goes it every time.
func (m *randomCluster) cleanly(t *testing.T, all []question) (wrong []question) {
	t.Helper()
	var said []string
	for _, q := range all {
		said = append(said, m.droppedBy(q)...)
	}
	for range 3 {
		m.ResetDrops(t)
		wrong = m.again(t, m.askAll(all))
		if len(m.unsaid(t, said)) == 0 {
			return wrong
		}
	}
	m.droppers(t, all)
	return wrong
}

// droppedBy are the routers outside of which the trace says that they drop packets of a question.
func (m *randomCluster) droppedBy(q question) (out []string) {
	for _, p := range q.paths {
		for _, x := range m.Blueprint.Segments() {
			drops := p.Code == trace.LeavesUntranslated || p.Code == trace.ReplyLeavesElsewhere
			if drops && slices.ContainsFunc(p.About, func(r state.Ref) bool { return "ext-"+r.Name == x.Name }) {
				out = append(out, x.Router)
			}
		}
	}
	return out
}

// unsaid is what routers have dropped, without those that the trace names.
func (m *randomCluster) unsaid(t *testing.T, said []string) map[string]uint64 {
	t.Helper()
	out := m.CountDrops(t)
	maps.DeleteFunc(out, func(router string, n uint64) bool { return n == 0 || slices.Contains(said, router) })
	return out
}

// droppers fails the test with the questions in which routers drop packets that the trace does not say, asked one after the other.
func (m *randomCluster) droppers(t *testing.T, all []question) {
	t.Helper()
	for _, q := range all {
		m.ResetDrops(t)
		happens := m.differs(q)
		for router, n := range m.unsaid(t, m.droppedBy(q)) {
			t.Errorf("%s → %s: %s dropped %d packets; %s\n%s", q.where, q.target(), router, n, happens, q.said())
		}
	}
}

// again asks once more what came out otherwise, with a trace of the cluster as it is now.
func (m *randomCluster) again(t *testing.T, all []question) []question {
	t.Helper()
	if len(all) == 0 {
		return nil
	}
	tracer := trace.New(takeSurvey(t, m.Cluster, observer.Scope{}))
	for i := range all {
		all[i].paths = tracer.Trace(all[i].Query).Paths
	}
	return m.askAll(all)
}

// verdicts are those of the paths, each once.
func (q question) verdicts() (out []string) {
	for _, p := range q.paths {
		if !slices.Contains(out, p.Verdict) {
			out = append(out, p.Verdict)
		}
	}
	return out
}

// hopeful says whether packets of it come back whichever way they take.
func (q question) hopeful() bool {
	for _, v := range q.verdicts() {
		if v != trace.Answered && v != trace.Refused {
			return false
		}
	}
	return true
}

// askAll asks questions side by side, and returns those in which packets do otherwise than was said.
func (m *randomCluster) askAll(all []question) (wrong []question) {
	var group sync.WaitGroup
	var mu sync.Mutex
	free := make(chan struct{}, 16)
	for _, q := range all {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			if q.wrong = m.differs(q); q.wrong != "" {
				mu.Lock()
				wrong = append(wrong, q)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return wrong
}

// said is what the trace says, hop by hop.
func (q question) said() string {
	var out strings.Builder
	for _, p := range q.paths {
		fmt.Fprintf(&out, "  trace: %s by %s at %s from %s %s: %s %v\n", p.Verdict, p.Network, p.Server, p.Seen, p.Code, p.Reason, p.Doubts)
		for _, h := range slices.Concat(p.There, p.Back) {
			fmt.Fprintf(&out, "    %s on %s: %s   %s\n", h.About, h.Node, h.Text, h.Packet)
		}
	}
	return out.String()
}

// differs is what packets do otherwise than was said; empty: nothing. A packet can be lost while a neighbour is being asked for, so what
// should be answered is asked again; a wrong way stays wrong.
func (m *randomCluster) differs(q question) (wrong string) {
	for range 3 {
		a, err := m.Ask(q.where, q.target())
		var happens string
		if happens, wrong = m.judge(q, a, err); wrong == "" || happens != silence {
			return wrong
		}
	}
	return wrong
}

// What packets do.
const (
	silence = "nobody answers"
	refusal = "refused"
)

// judge compares what happened with every way that was said.
func (m *randomCluster) judge(q question, a program.Answer, err error) (happens, wrong string) {
	happens = fmt.Sprintf("%s answers and saw %s", a.Name, a.Saw.Addr())
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || err != nil && strings.Contains(err.Error(), "aborted by the peer"): // as SCTP has it
		happens = refusal
	case err != nil:
		happens = silence
	}
	for _, p := range q.paths {
		if m.expects(p, q) == happens {
			return happens, ""
		}
	}
	if err != nil {
		return happens, fmt.Sprintf("%s (%v)", happens, err)
	}
	return happens, happens
}

// expects is what packets should do by one way.
func (m *randomCluster) expects(p trace.Path, q question) string {
	switch p.Verdict {
	case trace.Refused:
		return refusal
	case trace.Answered:
		name := m.nameOf(p.Server.Addr(), p)
		switch listens := p.Server.Port() == 80 || p.Server.Port() == 8080; {
		case name == "":
			return silence // trace can't know that nobody outside has the address
		case listens:
			return fmt.Sprintf("%s answers and saw %s", name, p.Seen)
		case q.Protocol == "sctp":
			return silence // the pods' own SCTP says nothing on ports that it does not have
		default:
			return refusal
		}
	default:
		return silence
	}
}

// nameOf is who has an address: a host outside, or the pod that the trace names; empty: nobody.
func (m *randomCluster) nameOf(a netip.Addr, p trace.Path) string {
	last := p.There[len(p.There)-1].About
	if last.Kind == "Pod" {
		return last.Name
	}
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
