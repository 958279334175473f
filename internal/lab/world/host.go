package world

import (
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"os"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// families are the address families that a host speaks.
type families struct{ v4, v6 bool }

func familiesOf(prefixes []netip.Prefix) (f families) {
	for _, p := range prefixes {
		f.v4 = f.v4 || p.Addr().Is4()
		f.v6 = f.v6 || p.Addr().Is6()
	}
	return f
}

func (f families) has(a netip.Addr) bool {
	if a.Is4() {
		return f.v4
	}
	return f.v6
}

// part is what a host does with packets that are not for it.
type part bool

const (
	ends     part = false
	forwards part = true
)

// createHost makes a namespace with its settings. They are made before its links: a link takes over what "default"
// holds when the link appears.
func createHost(name string, f families, p part) (netns.NS, error) {
	ns, err := netns.Create(name)
	if err != nil {
		return netns.NS{}, err
	}
	return ns, ns.Sysctl(settings(f, p, kernelSpeaksIPv6()))
}

// settings are those of one host. A setting that has to be off everywhere is written to "all" and to "default": the
// kernel joins the two in a way that differs from setting to setting.
func settings(f families, p part, kernel6 bool) map[string]string {
	out := map[string]string{}
	if f.v4 {
		maps.Copy(out, map[string]string{
			// judging sources is the routers' rules' task
			"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
			"ipv4/conf/all/accept_redirects": "0", "ipv4/conf/default/accept_redirects": "0",
			"ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0",
		})
	}
	if f.v4 && p == forwards {
		out["ipv4/ip_forward"] = "1"
	}
	if !f.v6 && kernel6 { // link-local addresses would chatter on a wire that has no IPv6
		out["ipv6/conf/all/disable_ipv6"], out["ipv6/conf/default/disable_ipv6"] = "1", "1"
	}
	if f.v6 {
		maps.Copy(out, map[string]string{
			"ipv6/conf/all/disable_ipv6": "0", "ipv6/conf/default/disable_ipv6": "0",
			"ipv6/conf/all/accept_redirects": "0", "ipv6/conf/default/accept_redirects": "0",
			"ipv6/conf/all/accept_ra": "0", "ipv6/conf/default/accept_ra": "0",
			// A router asks for neighbours from its link-local address, and can't while that one is being verified.
			"ipv6/conf/all/accept_dad": "0", "ipv6/conf/default/accept_dad": "0",
		})
	}
	if f.v6 && p == forwards {
		out["ipv6/conf/all/forwarding"] = "1"
	}
	return out
}

func kernelSpeaksIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return !errors.Is(err, fs.ErrNotExist)
}
