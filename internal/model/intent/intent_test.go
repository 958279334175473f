package intent

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/state"
)

func TestCanonicalIsOneForm(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"keys are sorted": {
			map[string]any{"b": 1, "a": map[string]any{"d": "x", "c": true}},
			`{"a":{"c":true,"d":"x"},"b":1}`,
		},
		"nothing is left out":       {map[string]any{"a": nil, "b": map[string]any{}, "c": []any{}}, `{}`},
		"nothing inside of nothing": {map[string]any{"a": map[string]any{"b": map[string]any{"c": nil}}}, `{}`},
		"zero and false are values": {map[string]any{"a": 0, "b": false, "c": ""}, `{"a":0,"b":false,"c":""}`},
		"a list keeps its order":    {[]any{"b", "a"}, `["b","a"]`},
		"a plain value":             {"ext-public", `"ext-public"`},
		"an address": {
			map[string]any{"hop": netip.MustParseAddr("100.65.0.1")},
			`{"hop":"100.65.0.1"}`,
		},
		"characters of expressions":   {"a && b < c", `"a && b < c"`},
		"large numbers stay readable": {map[string]any{"n": 65000}, `{"n":65000}`},
	} {
		if got := CanonicalJSON(c.value); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestObjectsAreEqualByWhatIsWritten(t *testing.T) {
	a := NewObject(Meta{Labels: map[string]string{"x": "1"}}, map[string]any{"p": 1, "q": nil})
	b := NewObject(Meta{Labels: map[string]string{"x": "1"}, Annotations: map[string]string{}}, map[string]any{"p": 1})
	b.Needs = []ObjectKey{{Kind: Vpc, Name: "v"}}
	if !a.Equal(b) {
		t.Errorf("%s and %s differ", a, b)
	}
	b.Terminating = true
	if a.Equal(b) || !strings.Contains(b.String(), "being deleted") {
		t.Errorf("%s is as good as %s, to which nothing can be written", b, a)
	}
	if c := NewObject(Meta{}, nil); a.Equal(c) || c.Content != "{}" {
		t.Errorf("an object without anything is %s", c)
	}
}

func TestOneKeyHasOneOrigin(t *testing.T) {
	project, fip := state.Ref{Kind: "Project", Name: "p"}, state.Ref{Kind: "FIp", Name: "f"}
	in := New()
	in.AddRow("r", StaticMACBinding{Port: "a"}, project)
	in.AddRow("r", StaticMACBinding{Port: "b"}, fip)
	in.AddRow("r", StaticMACBinding{Port: "a", MAC: "x"}, project) // the same origin again
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	in.AddRow("r", StaticMACBinding{Port: "a"}, fip)
	if err := in.Err(); err == nil || !strings.Contains(err.Error(), "Project p") ||
		!strings.Contains(err.Error(), "FIp f") {
		t.Errorf("two origins share a key, and it says %v", err)
	}
}

// Objects are created after those they need, and deleted in reverse order.
func TestObjectsComeInOrder(t *testing.T) {
	var keys []ObjectKey
	for _, kind := range slices.Backward(Kinds) {
		keys = append(keys, ObjectKey{Kind: kind, Name: "b"}, ObjectKey{Kind: kind, Name: "a"})
	}
	slices.SortFunc(keys, ObjectKey.Compare)
	for _, first := range [][2]Kind{
		{Namespace, NetworkAttachment},
		{Vpc, Subnet},
		{Subnet, OvnSnatRule},
		{OvnEip, OvnSnatRule},
		{OvnEip, OvnFip},
		{Vpc, OvnFip},
	} {
		i := slices.Index(keys, ObjectKey{Kind: first[0], Name: "b"})
		if j := slices.Index(keys, ObjectKey{Kind: first[1], Name: "a"}); i > j {
			t.Errorf("%s comes after %s", first[0], first[1])
		}
	}
}

func TestAfterUsers(t *testing.T) {
	vpc, subnet, free := ObjectKey{Kind: Vpc, Name: "v"}, ObjectKey{Kind: Subnet, Name: "s"},
		ObjectKey{Kind: OvnEip, Name: "free"}
	o := NewObject(Meta{}, map[string]any{"x": 1})
	observed := Objects{
		vpc:    {Value: o},
		subnet: {Value: Object{Content: o.Content, Needs: []ObjectKey{vpc}}},
		free:   {Value: o},
	}
	kept := func(want Objects) (out []string) {
		for _, c := range DeleteAfterUsers(state.Diff(want, observed), observed) {
			out = append(out, c.String()[:2]+c.Key.String())
		}
		return out
	}
	if got, want := kept(Objects{}), []string{"- Subnet s", "- OvnEip free"}; !slices.Equal(got, want) {
		t.Errorf("nothing is wanted, and what goes is %q, want %q: the Vpc goes after the Subnet", got, want)
	}
	delete(observed, subnet)
	if got, want := kept(Objects{}), []string{"- Vpc v", "- OvnEip free"}; !slices.Equal(got, want) {
		t.Errorf("the Subnet is gone, and what goes is %q, want %q", got, want)
	}
	observed[subnet] = state.Entry[Object]{Value: Object{Needs: []ObjectKey{vpc}}}
	changed := NewObject(Meta{}, map[string]any{"x": 2})
	if got, want := kept(Objects{vpc: {Value: changed}, free: {Value: o}, subnet: observed[subnet]}),
		[]string{"~ Vpc v"}; !slices.Equal(got, want) {
		t.Errorf("what is used may be changed: %q, want %q", got, want)
	}
}

// Objects that Kube-OVN is processing are not deleted: an address for some seconds, a NAT for a minute, and without a
// limit once the NAT row exists.
func TestOnceTaken(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		kind  Kind
		have  Object
		stays bool
	}{
		"an address that is given":      {OvnEip, Object{}, false},
		"a new address":                 {OvnEip, Object{PendingSince: now.Add(-5 * time.Second)}, true},
		"an address that takes long":    {OvnEip, Object{PendingSince: now.Add(-20 * time.Second)}, false},
		"a translation that is there":   {OvnFip, Object{InProgress: true}, false},
		"a translation after a restart": {OvnFip, Object{PendingSince: now.Add(-20 * time.Second)}, true},
		"one that nobody takes":         {OvnFip, Object{PendingSince: now.Add(-2 * time.Minute)}, false},
		"one whose row is there already": {
			OvnFip,
			Object{PendingSince: now.Add(-2 * time.Minute), InProgress: true},
			true,
		},
	} {
		key := ObjectKey{Kind: c.kind, Name: "x"}
		observed := Objects{key: {Value: c.have}}
		left := DeleteOnceProcessed(now)(state.Diff(Objects{}, observed), observed)
		if stays := len(left) == 0; stays != c.stays {
			t.Errorf("%s stays: %t, want %t", name, stays, c.stays)
		}
	}
}

func TestOnlyOurs(t *testing.T) {
	fip := state.Ref{Kind: "FIp", Namespace: "acme-prod", Name: "web"}
	ours := DNATAndSNAT{External: netip.MustParseAddr("198.51.100.3"), Logical: netip.MustParseAddr("10.0.0.7")}
	theirs := DNATAndSNAT{External: netip.MustParseAddr("198.51.100.4"), Logical: netip.MustParseAddr("10.0.0.8")}
	lost := SNAT{External: netip.MustParseAddr("100.65.0.2"), Logical: netip.MustParsePrefix("10.0.0.0/24")}
	observed := Rows{ours.Key("r"): {Value: ours, Origin: fip}, theirs.Key("r"): {Value: theirs}}
	var got []string
	for _, c := range KeepForeignRows(state.Diff(Rows{lost.Key("r"): {Value: lost}}, observed), observed) {
		got = append(got, c.String())
	}
	want := []string{"- NAT r [dnat_and_snat 198.51.100.3] 10.0.0.7", "+ NAT r [snat 10.0.0.0/24] 100.65.0.2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q: a row of Kube-OVN's is put back and never taken away", got, want)
	}
}

func TestRowsAreEqualByType(t *testing.T) {
	nat := DNATAndSNAT{External: netip.MustParseAddr("198.51.100.3"), Logical: netip.MustParseAddr("10.0.0.7")}
	if moved := (DNATAndSNAT{External: nat.External, Logical: netip.MustParseAddr("10.0.0.8")}); nat.Equal(moved) ||
		nat.Key("r") != moved.Key("r") {
		t.Error("a translation to another address is the same row, changed")
	}
	if nat.Equal(SNAT{External: nat.External}) ||
		!nat.Equal(DNATAndSNAT{External: nat.External, Logical: nat.Logical}) {
		t.Error("rows of two types are equal, or equal ones are not")
	}
}

func TestMAC(t *testing.T) {
	seen := map[string]bool{}
	for _, words := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"ab"}, {"a b"}, {}} {
		mac := DeriveMAC(words...)
		hardware, err := net.ParseMAC(mac)
		if err != nil || len(hardware) != 6 || hardware[0]&1 != 0 || hardware[0]&2 == 0 {
			t.Errorf("%s of %q is no locally administered address of one host: %v", mac, words, err)
		}
		if seen[mac] || mac != DeriveMAC(words...) {
			t.Errorf("%s of %q is another's, or another one each time", mac, words)
		}
		seen[mac] = true
	}
}

func TestSuffix(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]{5}$`)
	a, b := UIDSuffix("6d0b3a4e-7a3f-4d53-9a80-0f8f3a0e4b11"), UIDSuffix("6d0b3a4e-7a3f-4d53-9a80-0f8f3a0e4b12")
	if !form.MatchString(a) || a == b || a != UIDSuffix("6d0b3a4e-7a3f-4d53-9a80-0f8f3a0e4b11") {
		t.Errorf("%s and %s: five characters of a name that follow from the UID", a, b)
	}
}

func TestDefaultRouteIsOfTheGatewaysFamily(t *testing.T) {
	for gateway, want := range map[string]string{
		"100.65.0.1":  `{"cidr":"0.0.0.0/0","nextHopIP":"100.65.0.1","policy":"policyDst"}`,
		"2001:db8::1": `{"cidr":"::/0","nextHopIP":"2001:db8::1","policy":"policyDst"}`,
	} {
		if _, got := DefaultRoute(netip.MustParseAddr(gateway)).ToVpcEntry("v"); got.Content != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
