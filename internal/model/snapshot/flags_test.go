package snapshot

import "testing"

// Invalid values are refused: somebody could create a trusted namespace that does not exist.
func TestIsolationFlags(t *testing.T) {
	for text, want := range map[string]string{"kube-system, dns": "kube-system,dns", "": "", " , ": ""} {
		var l NamespaceList
		if err := l.Set(text); err != nil || l.String() != want {
			t.Errorf("%q gives %q (%v), want %q", text, l.String(), err, want)
		}
	}
	for _, text := range []string{"*", "a b", "a/b", "A", "-a", "kube-system;x", "a.b"} {
		if err := new(NamespaceList).Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	var i Isolation
	if i.String() != "Enforce" || i.Set("Report") != nil || i != IsolationReport {
		t.Errorf("isolation is %s", i)
	}
	for _, text := range []string{"", "enforce", "Off"} {
		if err := i.Set(text); err == nil {
			t.Errorf("isolation %q is taken", text)
		}
	}
}
