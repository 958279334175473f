package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestLinesAreWrappedBelowTheirLastColumn(t *testing.T) {
	for name, test := range map[string]struct{ line, want string }{
		"short": {"Answered by 10.30.0.2:80", "Answered by 10.30.0.2:80"},
		"prose": {
			"node node2 does not answer, and no other node is labelled",
			"node node2 does not answer, and no other\n  node is labelled",
		},
		"indented": {
			"  Cause: the pod has no address yet, and waits for its node",
			"  Cause: the pod has no address yet, and\n    waits for its node",
		},
		"column of text": {
			"FIp  web  WaitingForEIp  the pool of the network is full",
			"FIp  web  WaitingForEIp  the pool of the\n          network is full",
		},
		"word without a space": {
			"sallyport.example.org/a/very/long/name/of/nothing ends",
			"sallyport.example.org/a/very/long/name/of/nothing\n  ends",
		},
		"colours": {
			"\x1b[31mnot in OVN\x1b[0m: the rows of the floating IP are missing",
			"\x1b[31mnot in OVN\x1b[0m: the rows of the floating IP\n  are missing",
		},
	} {
		if got := wrapLine(test.line, 42); got != test.want {
			t.Errorf("%s: it is\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

func TestWrappedTextHasTheSameWords(t *testing.T) {
	text := "KIND  NAME   MESSAGE\nEIp   first  " + strings.Repeat("one two three ", 20) + "\n\n   " + strings.Repeat("word ", 30)
	for width := narrowestTerminal; width < 120; width++ {
		var out bytes.Buffer
		l := &lineWrapper{out: &out, width: width}
		for _, b := range []byte(text) { // byte by byte
			if n, err := l.Write([]byte{b}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(text), " ") {
			t.Errorf("width %d: other words:\n%s", width, got)
		}
		for line := range strings.Lines(got) {
			if countColumns(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("width %d: too long: %q", width, line)
			}
		}
	}
}

// What is not a terminal gets the lines as they are.
func TestLinesForProgramsAreNotWrapped(t *testing.T) {
	var out bytes.Buffer
	if width := terminalWidth(&out); width != 0 {
		t.Errorf("a buffer has width %d", width)
	}
	l := &lineWrapper{out: &out}
	line := strings.Repeat("word ", 100)
	if _, err := l.Write([]byte(line)); err != nil || out.String() != line {
		t.Errorf("%v, %q", err, out.String())
	}
}
