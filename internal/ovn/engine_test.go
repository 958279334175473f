package ovn

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/ovn/nb"
)

// Versions as ovn-northd writes them: year and month decide.
func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{
		"24.03.2-20.33.0-74.0": true, "23.09.0-20.29.0-70.0": true, "22.12.3-20.27.0-68.2": true,
		"24.09.0-20.37.0-77.0": false, "25.03.0-20.41.0-77.6": false, "26.03.1": false,
		"": false, "unknown": false, "24": false,
	} {
		if older(version, firstWithLegs) != want {
			t.Errorf("%q: wanted older to be %t", version, want)
		}
	}
}

// A schema without a column of legs is found out by its name, and our models then fit without it.
func TestMissing(t *testing.T) {
	full, err := nb.Model(true)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(schema(t, full))
	if err != nil {
		t.Fatal(err)
	}
	if missing, err := nb.Missing(string(raw)); err != nil || missing != "" {
		t.Errorf("of a schema with everything, %q is missing, %v", missing, err)
	}
	old := strings.Replace(string(raw), `"tier":`, `"years":`, 1)
	if missing, err := nb.Missing(old); err != nil || missing != "ACL.tier" {
		t.Errorf("of a schema without tiers %q is missing, %v", missing, err)
	}
	without, err := nb.Model(false)
	if err != nil {
		t.Fatal(err)
	}
	if _, has := without.Types()[nb.ACLTable]; has {
		t.Error("the model for an old engine has ACLs")
	}
	if _, err := nb.Missing("{"); err == nil {
		t.Error("a schema that can't be read is taken")
	}
}
