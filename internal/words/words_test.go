package words_test

import (
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/internal/words"
)

func TestWords(t *testing.T) {
	addresses := words.Of([]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")})
	for got, want := range map[string]string{
		words.Few(addresses, 3):                  "10.0.0.1, 10.0.0.2, 10.0.0.3",
		words.Few(addresses, 2):                  "10.0.0.1, 10.0.0.2 and 1 more",
		words.Few(nil, 2):                        "",
		words.Count(1, "address", "addresses"):   "1 address",
		words.Count(0, "address", "addresses"):   "0 addresses",
		words.Count(200, "address", "addresses"): "200 addresses",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
