package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
)

var testFIp = intent.ObjectKey{Kind: intent.FIp, Namespace: "acme-prod", Name: "web"}

// Statuses that are rendered once for several Services are the same as if each were rendered by itself.
func TestSharedStatusesAreEqualToFreshOnes(t *testing.T) {
	wrong := intent.Finding{Reason: "Wrong", Message: "it is wrong; correct it"}
	address := netip.MustParseAddr("192.0.2.1")
	refused := []intent.PortFacts{{Number: 80, Protocol: intent.TCP, Refused: wrong}}
	plain := intent.Verdict{Generation: 1, Facts: intent.ServiceFacts{Address: address}}
	cases := []intent.Verdict{plain, plain}
	for _, change := range []func(*intent.Verdict){
		func(v *intent.Verdict) { v.Generation = 2 },
		func(v *intent.Verdict) { v.Accepted = wrong },
		func(v *intent.Verdict) { v.Resolved = wrong },
		func(v *intent.Verdict) { v.Waiting = wrong },
		func(v *intent.Verdict) { v.Partly = wrong },
		func(v *intent.Verdict) { v.Held = wrong },
		func(v *intent.Verdict) { v.Tolerated = wrong },
		func(v *intent.Verdict) { v.Isolated = wrong },
		func(v *intent.Verdict) { v.Facts = intent.ServiceFacts{} },
		func(v *intent.Verdict) { v.Facts = intent.ServiceFacts{Address: address, Lonely: true} },
		func(v *intent.Verdict) { v.Facts = intent.ServiceFacts{Address: address, Lonely: true, Expires: true} },
		func(v *intent.Verdict) { v.Facts = intent.ServiceFacts{Address: address, Foreign: true} },
		func(v *intent.Verdict) { v.Facts = intent.ServiceFacts{Address: address, Ports: refused} },
		func(v *intent.Verdict) { v.Facts = intent.EIpFacts{Address: address} },
	} {
		v := plain
		change(&v)
		cases = append(cases, v, v)
	}
	for i := range cases {
		cases[i].Object = intent.ObjectKey{Kind: intent.Service, Namespace: "acme-prod", Name: fmt.Sprint("s", i)}
	}
	all, texts := RenderStatuses(cases, Outcome{}), map[string]bool{}
	for _, v := range cases {
		fresh := renderStatus(v, programmedFinding(v, Outcome{}))
		if shared := all[v.Object].Value; shared != fresh {
			t.Errorf("%+v gives %s, by itself %s", v, shared.Content, fresh.Content)
		}
		texts[fresh.Content] = true
	}
	if len(texts) != len(cases)/2-1 { // waiting and partly give the same
		t.Errorf("%d different statuses", len(texts))
	}
}

func TestConditions(t *testing.T) {
	wrong := intent.Finding{Reason: "Wrong", Message: "it is wrong; correct it"}
	for name, c := range map[string]struct {
		verdict         intent.Verdict
		missing, failed []string
		want            []string
		ready           bool
	}{
		"all is well": {
			ready: true,
			want:  []string{"Accepted=True Accepted", "Programmed=True Programmed", "ResolvedRefs=True ResolvedRefs"},
		},
		"refused": {
			verdict: intent.Verdict{Accepted: wrong},
			want:    []string{"Accepted=False Wrong", "Programmed=False NotAccepted", "ResolvedRefs=True ResolvedRefs"},
		},
		"names what is not there": {
			verdict: intent.Verdict{Resolved: wrong},
			want:    []string{"Accepted=True Accepted", "Programmed=False NotResolved", "ResolvedRefs=False Wrong"},
		},
		"waits": {
			verdict: intent.Verdict{Waiting: wrong}, missing: []string{"a row"},
			want: []string{"Accepted=True Accepted", "Programmed=False Wrong", "ResolvedRefs=True ResolvedRefs"},
		},
		"a part can't be had": {
			verdict: intent.Verdict{Partly: wrong},
			want:    []string{"Accepted=True Accepted", "Programmed=False Wrong", "ResolvedRefs=True ResolvedRefs"},
		},
		"the rest was written a moment ago": {
			verdict: intent.Verdict{Partly: wrong}, missing: []string{"a row"},
			want: []string{"Accepted=True Accepted", "Programmed=False Programming", "ResolvedRefs=True ResolvedRefs"},
		},
		"was written a moment ago": {
			missing: []string{"a row", "another row"},
			want: []string{
				"Accepted=True Accepted", "Programmed=False Programming",
				"ResolvedRefs=True ResolvedRefs",
			},
		},
		"could not be written": {
			verdict: intent.Verdict{Waiting: wrong}, missing: []string{"a row"}, failed: []string{"no space left"},
			want: []string{"Accepted=True Accepted", "Programmed=False WriteFailed", "ResolvedRefs=True ResolvedRefs"},
		},
		"refused, and a removal failed": {
			verdict: intent.Verdict{Accepted: wrong}, failed: []string{"no space left"},
			want: []string{"Accepted=False Wrong", "Programmed=False NotAccepted", "ResolvedRefs=True ResolvedRefs"},
		},
		"is being deleted, and works on": {
			verdict: intent.Verdict{Held: wrong}, ready: true,
			want: []string{
				"Accepted=True Accepted", "Deletable=False Wrong", "Programmed=True Programmed",
				"ResolvedRefs=True ResolvedRefs",
			},
		},
	} {
		c.verdict.Object, c.verdict.Facts, c.verdict.Generation = testFIp, intent.FIpFacts{}, 7
		got := renderOne(t, c.verdict, Outcome{
			Missing: map[state.Ref][]string{testFIp.Ref(): c.missing},
			Failed:  map[state.Ref][]string{testFIp.Ref(): c.failed},
		})
		var conditions []string
		for _, x := range got.Conditions {
			conditions = append(conditions, x.Type+"="+x.Status+" "+x.Reason)
			if x.ObservedGeneration != 7 {
				t.Errorf("%s: %s is about generation %d, want 7", name, x.Type, x.ObservedGeneration)
			}
		}
		if !slices.Equal(conditions, c.want) || got.Ready != c.ready {
			t.Errorf("%s: ready is %t with %q, want %q", name, got.Ready, conditions, c.want)
		}
	}
}

type rendered struct {
	Ready      bool
	Conditions []struct {
		Type, Status, Reason, Message string
		ObservedGeneration            int64
	}
}

func renderOne(t *testing.T, v intent.Verdict, outcome Outcome) rendered {
	t.Helper()
	var out rendered
	if err := json.Unmarshal([]byte(RenderStatuses([]intent.Verdict{v}, outcome)[v.Object].Value.Content),
		&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The message has the first missing entry and the number of further ones. A long message is cut between characters.
func TestMessageIsShort(t *testing.T) {
	long := strings.Repeat("x", 499) + "→ 100.65.0.1"
	got := renderOne(t, intent.Verdict{Object: testFIp, Facts: intent.FIpFacts{}},
		Outcome{Missing: map[state.Ref][]string{testFIp.Ref(): {long, "b", "c"}}})
	for _, c := range got.Conditions {
		if c.Type != "Programmed" {
			continue
		}
		if !strings.HasSuffix(c.Message, "x… (and 2 more)") || strings.ContainsRune(c.Message, utf8.RuneError) ||
			len(c.Message) > 600 {
			t.Errorf("%q", c.Message)
		}
	}
}

// A user's text in a message can't add lines, control a terminal, or make the API server refuse the status.
func TestMessageIsOneVisibleLine(t *testing.T) {
	hostile := "EIp x\x1b[2J\u009b\u202e\n0 errors is not ready " + strings.Repeat("y", 100_000)
	got := renderOne(t, intent.Verdict{
		Object:   testFIp,
		Facts:    intent.FIpFacts{},
		Resolved: intent.Finding{Reason: intent.EIpNotFound, Message: hostile},
	}, Outcome{})
	for _, c := range got.Conditions {
		if c.Type == "ResolvedRefs" && (!strings.HasPrefix(c.Message,
			`EIp x\u001b[2J\u009b\u202e\n0 errors is not ready yyy`) || len(c.Message) > 1024) {
			t.Errorf("%d bytes: %q", len(c.Message), c.Message)
		}
	}
}

func TestFields(t *testing.T) {
	address := netip.MustParseAddr
	for name, c := range map[string]struct {
		facts any
		want  string
	}{
		"a project": {
			intent.ProjectFacts{
				Namespace:  "acme-prod",
				Vpc:        "acme-prod",
				Subnet:     "acme-prod-default",
				ExternalIP: address("100.65.0.2"),
				EIpsUsed:   2,
				EIpQuota:   8,
			},
			`{"eips":"2/8","eipsUsed":2,"externalIP":"100.65.0.2","namespace":"acme-prod","observedGeneration":7,"ready":true,` +
				`"subnet":"acme-prod-default","vpc":"acme-prod"}`,
		},
		"an address that nobody uses": {
			intent.EIpFacts{Address: address("198.51.100.3"), OvnEip: "eip-acme-prod-web", Network: "ext-public"},
			`{"externalNetwork":"ext-public","ipAddress":"198.51.100.3","observedGeneration":7,"ovnEIpRef":"eip-acme-prod-web",` +
				`"ownershipType":"Released","ready":true}`,
		},
		"an address that a FIp made for itself, before it has one": {
			intent.EIpFacts{OvnEip: "eip-acme-prod-web", Holders: []intent.ObjectKey{testFIp}, MadeForOwner: true},
			`{"deleteReleased":true,"observedGeneration":7,"ovnEIpRef":"eip-acme-prod-web","owners":[{"ownerRef":"web","type":"FIp"}],` +
				`"ownershipType":"Exclusive","ready":true,"usedBy":"FIp web"}`,
		},
		"a floating IP": {
			intent.FIpFacts{
				EIp:      "web",
				External: address("198.51.100.3"),
				OvnFip:   "acme-prod-web",
				Target:   address("10.0.0.7"),
			},
			`{"eip":"web","externalIP":"198.51.100.3","observedGeneration":7,"ovnFip":"acme-prod-web","ready":true,"resolvedTargetIP":"10.0.0.7"}`,
		},
		"a floating IP of a virtual machine": {
			intent.FIpFacts{VM: &intent.VMInterface{
				VM: "db", Interface: "main", InGuest: "eth0", MAC: "02:00:00:00:00:07", Address: address("10.0.0.7"),
			}},
			`{"eip":"","externalIP":"","observedGeneration":7,"ovnFip":"","ready":true,` +
				`"targetVMInterface":{"interfaceName":"main","ipAddress":"10.0.0.7","mac":"02:00:00:00:00:07","vmName":"db"}}`,
		},
		"an external network": {
			intent.NetworkFacts{Subnets: []intent.SubnetFacts{
				{
					Name:    "a",
					Prefix:  netip.MustParsePrefix("198.51.100.0/24"),
					Gateway: address("198.51.100.1"),
					Free:    10,
					Used:    3,
				},
				{Name: "b", Prefix: netip.MustParsePrefix("192.0.2.0/24"), Free: 5},
			}},
			`{"available":15,"observedGeneration":7,"subnets":[{"available":10,"cidr":"198.51.100.0/24","gateway":"198.51.100.1","name":"a","used":3},` +
				`{"available":5,"cidr":"192.0.2.0/24","name":"b","used":0}],"used":3}`,
		},
	} {
		body := map[string]any{}
		text := RenderStatuses([]intent.Verdict{{Object: testFIp, Generation: 7, Facts: c.facts}},
			Outcome{})[testFIp].Value.Content
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatal(err)
		}
		delete(body, "conditions")
		if got := intent.CanonicalJSON(body); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
	}
}

// A partial problem is reported even if the rest is not programmed.
func TestPartlyIsSaidWhateverElseIs(t *testing.T) {
	v := intent.Verdict{Partly: intent.Finding{Reason: "Part", Message: "pod x is not served"}}
	for name, c := range map[string]struct {
		waiting intent.Finding
		missing []string
	}{
		"nothing else":  {},
		"it waits":      {waiting: intent.Finding{Reason: "Waits", Message: "no node"}},
		"not yet there": {missing: []string{"a row"}},
	} {
		v.Waiting = c.waiting
		got := programmedFinding(v, Outcome{Missing: map[state.Ref][]string{v.Object.Ref(): c.missing}})
		if !strings.HasSuffix(got.Message, "pod x is not served") ||
			!strings.HasPrefix(got.Message, c.waiting.Message) {
			t.Errorf("%s: %s %q", name, got.Reason, got.Message)
		}
	}
}

// Entries to add or update are missing. Entries to remove and those of others are not.
func TestObserve(t *testing.T) {
	row := func(last byte) intent.DNATAndSNAT {
		return intent.DNATAndSNAT{
			External: netip.AddrFrom4([4]byte{198, 51, 100, last}),
			Logical:  netip.AddrFrom4([4]byte{10, 0, 0, last}),
		}
	}
	other := state.Ref{Kind: "FIp", Namespace: "acme-prod", Name: "other"}
	target := &statetest.MemoryTarget[intent.RowKey, intent.Row]{}
	target.Apply(t.Context(), []state.Change[intent.RowKey, intent.Row]{rowChange(row(1)), rowChange(row(2))})
	moved := row(2)
	moved.Logical = netip.MustParseAddr("10.0.0.99")
	plan, err := state.PreparePlan(t.Context(), state.Target[intent.RowKey, intent.Row](target), intent.Rows{
		moved.Key("r"): {Value: moved, Origin: testFIp.Ref()}, row(3).Key("r"): {Value: row(3), Origin: testFIp.Ref()},
	})
	if err != nil {
		t.Fatal(err)
	}
	outcome := NewOutcome([]state.Plan{plan},
		[]state.Failure{{Scope: "rows", Key: "NAT", Origin: other, Err: errors.New("no space left")}})
	if got := outcome.Missing[testFIp.Ref()]; len(got) != 2 || len(outcome.Missing) != 1 {
		t.Errorf("missing are %q, want the row that changes and the row that comes", outcome.Missing)
	}
	if got := outcome.Failed[other]; !slices.Equal(got, []string{"rows: NAT: no space left"}) ||
		len(outcome.Failed) != 1 {
		t.Errorf("failed are %q", outcome.Failed)
	}
}

func rowChange(n intent.DNATAndSNAT) state.Change[intent.RowKey, intent.Row] {
	row := intent.Row(n)
	return state.Change[intent.RowKey, intent.Row]{Key: n.Key("r"), After: &row}
}

// CountConditions counts the conditions that are written. An object that is no longer ours has none.
func TestCount(t *testing.T) {
	wrong := intent.Finding{Reason: "Wrong"}
	of := func(name string) intent.ObjectKey {
		return intent.ObjectKey{Kind: intent.FIp, Namespace: "acme-prod", Name: name}
	}
	verdicts := []intent.Verdict{
		{Object: of("a"), Facts: intent.FIpFacts{}},
		{Object: of("b"), Facts: intent.FIpFacts{}},
		{Object: of("c"), Facts: intent.FIpFacts{}, Resolved: wrong},
		{Object: intent.ObjectKey{Kind: intent.Service, Name: "gone"}, Facts: intent.ServiceFacts{Foreign: true}},
	}
	outcome := Outcome{Failed: map[state.Ref][]string{of("b").Ref(): {"no space left"}}}
	want := map[ConditionKey]int{
		{"FIp", "Accepted", "True", "Accepted"}:         3,
		{"FIp", "ResolvedRefs", "True", "ResolvedRefs"}: 2, {"FIp", "ResolvedRefs", "False", "Wrong"}: 1,
		{"FIp", "Programmed", "True", "Programmed"}: 1, {"FIp", "Programmed", "False", "WriteFailed"}: 1,
		{"FIp", "Programmed", "False", "NotResolved"}: 1,
	}
	if got := CountConditions(verdicts, outcome); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// A Project reports that packets are dropped once they are, and has the condition only while there is a misplaced pod.
func TestIsolated(t *testing.T) {
	key := intent.ObjectKey{Kind: intent.Project, Namespace: "acme", Name: "web"}
	ref := intent.IsolationRef("acme-web")
	foreign := intent.Finding{Reason: intent.ForeignPod, Message: "packets are dropped"}
	for what, c := range map[string]struct {
		finding intent.Finding
		outcome Outcome
		want    string
	}{
		"nothing": {},
		"dropped": {finding: foreign, want: "packets are dropped"},
		"not yet": {
			finding: foreign,
			outcome: Outcome{Missing: map[state.Ref][]string{ref: {"a row"}}},
			want:    "packets are not dropped yet; packets are dropped",
		},
		"another's rows": {
			finding: foreign,
			outcome: Outcome{Missing: map[state.Ref][]string{intent.IsolationRef("acme-pay"): {"a row"}}},
			want:    "packets are dropped",
		},
		"it failed": {
			finding: foreign, outcome: Outcome{Failed: map[state.Ref][]string{ref: {"no"}}},
			want: "packets are not dropped, because a write failed: no; packets are dropped",
		},
	} {
		v := intent.Verdict{Object: key, Facts: intent.ProjectFacts{Namespace: "acme-web"}, Isolated: c.finding}
		var body struct{ Conditions []condition }
		if err := json.Unmarshal([]byte(RenderStatuses([]intent.Verdict{v}, c.outcome)[key].Value.Content),
			&body); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, x := range body.Conditions {
			if x.Type == "Isolated" && x.Status == "False" && x.Reason == intent.ForeignPod {
				got = x.Message
			}
			if x.Type == "Programmed" && x.Status != "True" {
				t.Errorf("%s: the Project is not programmed: %s", what, x.Message)
			}
		}
		if got != c.want {
			t.Errorf("%s: says %q, want %q", what, got, c.want)
		}
	}
}
