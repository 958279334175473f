package ovn

import "testing"

// Versions as written by ovn-northd: year and month decide.
func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{
		"24.03.2-20.33.0-74.0": true, "23.09.0-20.29.0-70.0": true, "22.12.3-20.27.0-68.2": true,
		"24.09.0-20.37.0-77.0": false, "25.03.0-20.41.0-77.6": false, "26.03.1": false,
		"": false, "unknown": false, "24": false,
	} {
		if isOlderVersion(version, firstNorthdWithLabels) != want {
			t.Errorf("%q: wanted older to be %t", version, want)
		}
	}
}
