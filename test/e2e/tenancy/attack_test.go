package tenancy

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/world"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// attack is one attempt, with a positive control in the same function: the same with one thing changed works.
type attack struct {
	finding   string   // number in the security review, such as C1; empty: none
	by        identity // the attacker
	what      string   // the attempt, for docs/security/attacks.md
	stoppedBy string   // a policy, the reason of a condition, or a component
	run       func(t *testing.T, f *attackFixture, who actor)
}

// attacks is the list of all attacks. Each area has a file with its own list.
var attacks = slices.Concat(
	heldAttacks,
	admissionAttacks,
	inputAttacks,
	boundsAttacks,
	operatorAttacks,
	poolAttacks,
	ownerAttacks,
)

// findings are the numbers of the security review.
var findings = []string{
	"C1", "C2", "C3", "H1", "H2", "H3", "H4", "H5", "M1", "M2", "M3", "M4", "M5", "M6", "M7",
	"L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9", "L10", "L11", "L12", "L13", "L14",
}

// TestTenancy runs attacks on victims in one lab.
func TestTenancy(t *testing.T) {
	f := newAttackFixture(t)
	t.Run("attacks", func(t *testing.T) { runAttacks(t, f) })
	t.Run("segment", func(t *testing.T) { checkSegmentIsolation(t, f) })
	t.Run("random", func(t *testing.T) { runRandomAttacker(t, f) })
	t.Run("cost", func(t *testing.T) { measureAdmission(t, f) })
}

// runAttacks runs every attack while streams of the victims are open.
func runAttacks(t *testing.T, f *attackFixture) {
	t.Helper()
	perFinding, all := tenancyItems.Item(t, 1), tenancyItems.Item(t, 2)
	streams := f.startStreams(t)
	harness.ResetGaps(streams...)
	shown := map[string]int{}
	stopped := 0
	for _, a := range attacks {
		tried := false // false if -run excludes it
		if t.Run(a.testName(), func(t *testing.T) { tried = true; a.run(t, f, f.actor(t, a.by)) }) && tried {
			stopped++
			shown[a.finding]++
		}
		f.expectNoVictimDrops(t, a.testName())
	}
	silence := harness.ExpectStreamsContinue(t, "the victims' streams", streams...)

	missing := slices.DeleteFunc(slices.Clone(findings), func(n string) bool { return shown[n] > 0 })
	perFinding.AddFigure("%d of %d findings; not shown: %v", len(findings)-len(missing), len(findings), missing)
	all.AddFigure("%d of %d attacks stopped; the victims' streams were never silent for longer than %v", stopped,
		len(attacks), silence.Round(time.Millisecond))
	if show.IsFullSize() && len(missing) > 0 {
		t.Errorf("no attack shows %v", missing)
	}
	if show.IsFullSize() && len(attacks) < 100 {
		t.Errorf("%d attacks; wanted at least 100", len(attacks))
	}
}

// expectNoVictimDrops fails the test if a router outside has dropped a packet of a victim during an attack or its
// cleanup. Packets of attackers may be dropped: the last ones of a project that is being deleted leave untranslated.
func (f *attackFixture) expectNoVictimDrops(t *testing.T, attack string) {
	t.Helper()
	for router, dropped := range f.CountDrops(t) {
		if dropped == 0 {
			continue
		}
		flows := f.ReadDroppedFlows(t, router)
		if len(flows) == 0 || slices.ContainsFunc(flows, f.concernsVictim) {
			t.Errorf("after %s, %s has dropped %d packets: %v", attack, router, dropped, flows)
		} else {
			t.Logf("after %s, %s has dropped %d packets of attackers: %v", attack, router, dropped, flows)
		}
		f.ResetDrops(t)
	}
}

// concernsVictim reports whether an end of a dropped flow is a victim's pod or external address.
func (f *attackFixture) concernsVictim(flow world.DroppedFlow) bool {
	for _, end := range []netip.Addr{flow.Source.Addr(), flow.Destination.Addr()} {
		for _, v := range f.victims {
			if text := end.String(); text == v.fip || text == v.lb || text == v.pod {
				return true
			}
		}
	}
	return false
}

func (a attack) testName() string {
	return strings.TrimSpace(a.finding + " " + string(a.by) + " " + a.what)
}

// expectRefused is an attack that the API server refuses with the given words; the similar request is admitted.
func expectRefused(try harness.Attempt, words string, lookalike harness.Attempt) func(*testing.T, *attackFixture,
	actor) {
	return func(t *testing.T, _ *attackFixture, who actor) {
		t.Helper()
		who.Cannot(t, "the attack", try, words)
		who.Can(t, "the control", lookalike)
	}
}

var updatePage = flag.Bool("update", false, "write docs/security/attacks.md anew")

const attacksPage = "../../../docs/security/attacks.md"

// TestAttacksPage checks that docs/security/attacks.md lists every attack.
func TestAttacksPage(t *testing.T) {
	seen := map[string]bool{}
	var b strings.Builder
	b.WriteString("# Attacks that the tests try\n\n" +
		"Generated from `test/e2e/tenancy`. Each row is a test with a positive control: the same with one thing changed works.\n" +
		"The numbers in the first column are those of the security review; the attackers are described in the\n" +
		"[threat model](threat-model.md).\n\n" +
		"| finding | attacker | attack | stopped by |\n|---|---|---|---|\n")
	for _, a := range attacks {
		if seen[a.testName()] {
			t.Errorf("two attacks are called %q", a.testName())
		}
		seen[a.testName()] = true
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", a.finding, a.by, a.what, a.stoppedBy)
	}
	if *updatePage {
		if err := os.WriteFile(attacksPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := harness.ReadFile(t, attacksPage); got != b.String() {
		t.Error("docs/security/attacks.md is not what the tests try: run make golden")
	}
}
