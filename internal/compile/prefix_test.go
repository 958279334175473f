package compile

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

func TestProjectPrefixes(t *testing.T) {
	for prefix, want := range map[string]struct{ reason, words string }{
		"10.0.0.0/8": {}, "10.0.0.0/24": {}, "100.64.0.0/16": {}, "100.66.0.0/16": {}, "172.22.0.0/24": {},
		"203.0.113.0/24": {}, "fd00::/48": {}, "fd00::/64": {},
		"0.0.0.0/0": {intent.Malformed, "too wide"}, "128.0.0.0/1": {intent.Malformed, "too wide"},
		"10.0.0.0/7": {intent.Malformed, "too wide"},
		"::/0":       {intent.Malformed, "too wide"}, "fd00::/47": {intent.Malformed, "too wide"},
		"0.0.0.0/8": {intent.PrefixOverlaps, "0.0.0.0/8"}, "127.1.0.0/16": {intent.PrefixOverlaps, "loopback"},
		"169.254.91.0/24": {intent.PrefixOverlaps, "link-local"}, "239.0.0.0/24": {intent.PrefixOverlaps, "multicast"},
		"240.1.0.0/24": {intent.PrefixOverlaps, "class E"}, "255.255.255.0/24": {intent.PrefixOverlaps, "class E"},
		"::ffff:0:0/96": {intent.PrefixOverlaps, "mapped"}, "fe80::/64": {intent.PrefixOverlaps, "link-local"},
		"ff02::/64":      {intent.PrefixOverlaps, "multicast"},
		"192.0.0.0/16":   {intent.PrefixOverlaps, "external network n"},
		"192.0.0.128/25": {intent.PrefixOverlaps, "Subnet x0"},
		"172.22.0.0/16":  {intent.PrefixOverlaps, "node node1"},
		"100.65.1.0/24":  {intent.PrefixOverlaps, "Subnet join"},
		"10.96.1.0/24":   {}, "11.96.1.0/24": {intent.PrefixOverlaps, "--cluster-prefixes"},
	} {
		w := lbFixture()
		w.Projects[0].Prefixes = []netip.Prefix{netip.MustParsePrefix(prefix)}
		w.PlatformPrefixes = []snapshot.PrefixClaim{
			{Prefix: netip.MustParsePrefix("100.65.0.0/16"), Owner: "Subnet join of Kube-OVN's own VPC"},
			{Prefix: netip.MustParsePrefix("172.22.1.5/32"), Owner: "node node1"},
		}
		w.Config.ClusterPrefixes = snapshot.PrefixList{netip.MustParsePrefix("11.96.0.0/12")}
		for _, begun := range []bool{false, true} {
			w.Namespace = snapshot.Namespace{Exists: begun, Owned: begun}
			in, verdicts := Shard(w)
			got := verdictOn(t, verdicts, intent.Project, "o", "p-q").Accepted
			switch {
			case begun && !got.OK():
				t.Errorf("%s: a project that exists is refused: %s %s", prefix, got.Reason, got.Message)
			case !begun && (got.Reason != want.reason || !strings.Contains(got.Message, want.words)):
				t.Errorf("%s: %q %q, want %q with %q", prefix, got.Reason, got.Message, want.reason, want.words)
			case !got.OK() && len(in.Objects)+len(in.Rows) > 0:
				t.Errorf("%s is refused, and something is made for it", prefix)
			}
		}
	}
}
