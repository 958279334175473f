package humanize_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/humanize"
)

func TestWords(t *testing.T) {
	addresses := humanize.Strings([]netip.Addr{
		netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"),
		netip.MustParseAddr("10.0.0.3"),
	})
	for got, want := range map[string]string{
		humanize.JoinLimited(addresses, 3):              "10.0.0.1, 10.0.0.2, 10.0.0.3",
		humanize.JoinLimited(addresses, 2):              "10.0.0.1, 10.0.0.2 and 1 more",
		humanize.JoinLimited(nil, 2):                    "",
		humanize.Pluralize(1, "address", "addresses"):   "1 address",
		humanize.Pluralize(0, "address", "addresses"):   "0 addresses",
		humanize.Pluralize(200, "address", "addresses"): "200 addresses",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Characters that control a terminal are escaped. All others, of any script, are unchanged.
func TestHiddenCharactersAreVisible(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"plain, ünï, 漢字, 🛰 and ✗":       "plain, ünï, 漢字, 🛰 and ✗",
		"\x1b[2Jall\x07":                `\u001b[2Jall\u0007`,
		"a\nb\tc\rd\x00":                `a\nb\tc\rd\u0000`,
		"\u009b31m\x7f\u0085":           `\u009b31m\u007f\u0085`,
		"\u202egnp.exe\u2066\u200f":     `\u202egnp.exe\u2066\u200f`,
		"\x9b31m \xe2\x80 \xff":         `\u009b31m \u00e2\u0080 \u00ff`,
		"a real replacement: \ufffd":    `a real replacement: \ufffd`,
		"\u2028 \u061c":                 `\u2028 \u061c`,
		`spelled out \u001b stays so`:   `spelled out \u001b stays so`,
		"two spaces  and \u00a0 a hard": "two spaces  and \u00a0 a hard",
	} {
		if got := humanize.EscapeTerminal(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if again := humanize.EscapeTerminal(humanize.EscapeTerminal(text)); again != want {
			t.Errorf("%q twice: %q", text, again)
		}
	}
	if got, want := humanize.EscapeTerminalLines("a\tb\n\x1bc\r"), "a\tb\n"+`\u001bc\r`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestQuoteIsBounded(t *testing.T) {
	for text, want := range map[string]string{
		"":                        `""`,
		"a\n\x1bb\u202ec":         `"a\n\x1bb\u202ec"`,
		strings.Repeat("ü", 80):   `"` + strings.Repeat("ü", 80) + `"`,
		strings.Repeat("ü", 1000): `"` + strings.Repeat("ü", 80) + `"… (920 more)`,
	} {
		if got := humanize.Quote(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// Valid names of objects are not quoted.
func TestOnlyNamesGoWithoutQuotationMarks(t *testing.T) {
	for text, want := range map[string]string{
		"front": "front", "acme-prod/web.example": "acme-prod/web.example", "": `""`, "Front": `"Front"`,
		"a b": `"a b"`, "x\n0 errors": `"x\n0 errors"`,
		strings.Repeat("a", 254): `"` + strings.Repeat("a", 80) + `"… (174 more)`,
	} {
		if got := humanize.QuoteName(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
