package guest

import (
	"errors"
	"strings"
	"testing"
)

func TestEndingIsReadAsItWasSaid(t *testing.T) {
	for _, output := range []string{"", "one", "two\nlines\n", "\n", ended(7), "machine: status 0"} {
		for _, status := range []int{0, 3, 137} {
			got, code, err := Ending(output + ended(status))
			if got != output || code != status || err != nil {
				t.Errorf("%q with status %d is read as %q, %d, %v", output, status, got, code, err)
			}
		}
		got, _, err := Ending(output + failed(errors.New("no\nsuch \"module\"")))
		if got != output || err == nil || !strings.HasSuffix(err.Error(), "no\nsuch \"module\"") {
			t.Errorf("%q and a failure is read as %q, %v", output, got, err)
		}
	}
}

func TestMachineThatBreaksOffHasNoEnding(t *testing.T) {
	whole := "ok\n" + ended(0)
	for cut := range len(whole) {
		if got, _, err := Ending(whole[:cut]); !errors.Is(err, ErrNoEnding) || got != whole[:cut] {
			t.Errorf("%q is read as %q, %v", whole[:cut], got, err)
		}
	}
	if _, _, err := Ending(whole + "later\n"); !errors.Is(err, ErrNoEnding) {
		t.Errorf("the mark is not the last line: %v", err)
	}
}
