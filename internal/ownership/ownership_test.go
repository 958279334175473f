package ownership

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/kubeovn"
)

// kubeOVN is the priorities that Kube-OVN 1.16 gives to router policies of its own on a VPC of ours. 30000 is not among them:
// it uses that on its default VPC only, where we claim other bands.
var kubeOVN = []int{29000, 29090, 29100, 29150, 29190, 29200, 29250, 29400, 29500, 30050, 30060, 30100, 31000}

func TestBandsAreApart(t *testing.T) {
	for i, b := range Bands {
		if b.First > b.Last || b.First < 1 || b.Last > 32767 || b.For == "" {
			t.Errorf("%+v is no range of OVN's priorities, or says not what for", b)
		}
		for _, o := range Bands[:i] {
			if b.First <= o.Last && o.First <= b.Last {
				t.Errorf("%+v and %+v overlap", b, o)
			}
		}
		for _, p := range kubeOVN {
			if b.First <= p && p <= b.Last {
				t.Errorf("%+v has %d, which is Kube-OVN's", b, p)
			}
		}
	}
}

func TestPrioritiesAreInBands(t *testing.T) {
	for _, p := range []int{WayOut, WayOutOnLink, ReturnFIP, ReturnFIPLocal, ReturnReply, ReturnLeave, Reach, ReachOnLink, ReturnForged} {
		if !Priority("acme-web", p) {
			t.Errorf("%d is used and not claimed", p)
		}
	}
	for _, p := range append([]int{0, 999, 1011, 29999, 30002, 30009, 30012, 31099, 31101, 32767}, kubeOVN...) {
		if Priority("acme-web", p) {
			t.Errorf("%d is claimed and not used", p)
		}
	}
	for p, ours := range map[int]bool{WayOut: false, ReturnFIP: false, ReturnReply: true, Reach: true, ReturnForged: true} {
		if Priority(kubeovn.ManagementVpc, p) != ours {
			t.Errorf("on Kube-OVN's own VPC %d is claimed: %v", p, !ours)
		}
	}
}

// Kube-OVN's policy for traffic inside the subnets comes before all of ours; what is more special comes before the way out.
func TestPrioritiesAreInOrder(t *testing.T) {
	for i, p := range []int{WayOut, WayOutOnLink, ReturnFIP, ReturnFIPLocal, ReturnReply, ReturnLeave, 31000} {
		if next := []int{WayOutOnLink, ReturnFIP, ReturnFIPLocal, ReturnReply, ReturnLeave, 31000, ReturnForged}[i]; p >= next {
			t.Errorf("%d comes before %d", p, next)
		}
	}
}

// What the API server accepts.
var (
	domain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	word   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

func TestNamesAreValid(t *testing.T) {
	for _, name := range []string{ManagedByLabel, ShardLabel, OriginAnnotation, ReminderAnnotation, Finalizer} {
		prefix, rest, found := strings.Cut(name, "/")
		if !found || !domain.MatchString(prefix) || !word.MatchString(rest) || len(rest) > 63 {
			t.Errorf("%s can't be the name of a label, annotation or finalizer", name)
		}
	}
	if !word.MatchString(ManagedBy) || len(ManagedBy) > 63 {
		t.Errorf("%s can't be the value of a label", ManagedBy)
	}
	for _, manager := range []string{FieldManager, StatusManager} {
		if manager == "" || len(manager) > 128 {
			t.Errorf("%q can't be a field manager", manager)
		}
	}
	if FieldManager == StatusManager {
		t.Error("spec and status have one manager, and each would take the other's fields away")
	}
	if RowOwnerKey == RowShardKey {
		t.Error("two keys of external_ids are one")
	}
}

func TestOurs(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		ours   bool
	}{
		"both labels":          {Labels("acme-web"), true},
		"no labels":            {nil, false},
		"managed by another":   {map[string]string{ManagedByLabel: "helm", ShardLabel: "acme-web"}, false},
		"of no VPC":            {map[string]string{ManagedByLabel: ManagedBy}, false},
		"of a nameless VPC":    {map[string]string{ManagedByLabel: ManagedBy, ShardLabel: ""}, false},
		"and labels of others": {map[string]string{ManagedByLabel: ManagedBy, ShardLabel: "acme-web", "team": "x"}, true},
	} {
		if got := Ours(c.labels); got != c.ours {
			t.Errorf("%s: ours is %t", name, got)
		}
	}
}
