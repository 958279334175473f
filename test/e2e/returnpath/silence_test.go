package returnpath

import (
	"flag"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

var soakDuration = flag.String("soak", "", "how long to soak, instead of what the size says")

// arpLog is the last ARP packets that the router of a network has seen on its wire.
type arpLog struct {
	mu    sync.Mutex
	lines []string
}

const arpLogLimit = 40

// captureARP captures ARP packets at a router until the test ends. It shows an OVN router port that sends from the
// wrong node, which makes the switches of the wire send its packets there.
func captureARP(t *testing.T, c *harness.Cluster, router string) *arpLog {
	t.Helper()
	g := &arpLog{}
	c.CaptureFrames(t, router, "lan", unix.ETH_P_ARP, func(b []byte, _ bool) {
		if len(b) >= 42 {
			g.record(b)
		}
	})
	return g
}

// record stores a packet.
func (g *arpLog) record(b []byte) {
	from, _ := netip.AddrFromSlice(b[28:32])
	about, _ := netip.AddrFromSlice(b[38:42])
	line := fmt.Sprintf("%s %s → %s: %s (%s) %s %s", time.Now().Format("15:04:05.000"), net.HardwareAddr(b[6:12]),
		net.HardwareAddr(b[0:6]),
		from, net.HardwareAddr(b[22:28]), map[byte]string{1: "asks for", 2: "answers"}[b[21]], about)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lines = append(g.lines, line)
	g.lines = g.lines[max(0, len(g.lines)-arpLogLimit):]
}

func (g *arpLog) lastLines(n int) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.lines[max(0, len(g.lines)-n):])
}

// findSilentStreams finds streams that have been silent for too long and collects evidence of the cause, once for each
// silence.
func (k *soakFixture) findSilentStreams(t *testing.T, now time.Time) {
	t.Helper()
	var silent []*soakStream
	for _, s := range k.streams {
		if s.silentFor(now) > maxSilence && now.Sub(s.reportedAt) > 30*time.Second {
			s.reportedAt = now
			silent = append(silent, s)
		}
	}
	if len(silent) == 0 {
		return
	}
	networks := map[string]bool{}
	for _, s := range silent {
		k.addEvidence("silent for %s: %s", s.silentFor(now).Round(time.Millisecond), s)
		networks[s.network] = networks[s.network] || s.group != groupOutside
	}
	for _, kind := range harness.NetworkTypes {
		if networks[kind] {
			k.collectEvidence(t, kind)
		}
	}
}

// collectEvidence records the state of a network's wire and of OVN.
func (k *soakFixture) collectEvidence(t *testing.T, kind string) {
	t.Helper()
	sbctl := []string{
		k.Parts.Program("ovn-sbctl"), "--no-leader-only", harness.ToolTimeout,
		"--db=unix:" + filepath.Join(k.Dir, "data/ovn/sb1.sock"), "--bare",
	}
	sb := func(args ...string) string {
		return strings.Join(strings.Fields(k.runAt("lab", append(slices.Clone(sbctl), args...)...)), " ")
	}
	k.addEvidence("ARP at the router of %s:\n    %s", kind, strings.Join(k.arpLogs[kind].lastLines(15), "\n    "))
	macs := k.RunNbctl(t, "--format=csv", "--no-headings", "--columns=name,mac", "list", "logical_router_port")
	ports := k.runAt("lab", "bridge", "fdb", "show")
	for _, ns := range k.projects {
		port := ns + "-ext-" + kind
		for line := range strings.SplitSeq(macs, "\n") {
			name, mac, _ := strings.Cut(line, ",")
			mac = strings.Trim(mac, `"`)
			if name != port {
				continue
			}
			chassis := sb("--columns=chassis", "find", "port_binding", "logical_port=cr-"+port)
			k.addEvidence("%s has %s, its gateway is on %s, the wire's bridge has it at: %s", port, mac,
				sb("--columns=hostname", "list", "chassis", chassis), linesWith(ports, mac))
			k.addEvidence("its MAC bindings: %s",
				sb("--columns=ip,mac,timestamp", "find", "mac_binding", "logical_port="+port))
		}
	}
	k.addEvidence("neighbours of the router: %s", k.runAt("router-ext-"+kind, "ip", "neigh", "show", "dev", "lan"))
}

func linesWith(text, part string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if part != "" && strings.Contains(strings.ToLower(line), strings.ToLower(part)) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "; ")
}

// runAt runs a program of the machine in the network namespace of a host.
func (k *soakFixture) runAt(where string, argv ...string) string {
	cmd, err := k.Command("", where, argv...)
	if err != nil {
		return err.Error()
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprint(string(out), err)
	}
	return string(out)
}
