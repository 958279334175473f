package explain

import (
	"testing"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

func TestDescribeDirection(t *testing.T) {
	for want, f := range map[string]clusterstate.FIp{
		"both ways":             {Direction: "Both", Outbound: true},
		"for connections to it": {Direction: "Inbound"},
		"both ways, but at present only for connections to it": {Direction: "Inbound", Outbound: true},
	} {
		if got := describeDirection(&f); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}
