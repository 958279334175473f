package world

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

// BridgeName is the bridge that is the segment's wire.
func BridgeName(segment string) string { return "l2-" + segment }

// PortName is the wire's end of the cable to a namespace: what to take down to pull that cable. It begins with the
// namespace's name, for people; the hash tells cables of one namespace apart. Linux allows 15 characters.
func PortName(segment, namespace string) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%s", segment, namespace)
	return fmt.Sprintf("%.6s-%08x", namespace, h.Sum32())
}

// Attach lays a cable from the segment's wire to an end in some namespace, which has one cable to a wire.
func Attach(seg blueprint.Segment, end netns.End, mtu int) error {
	port := netns.End{NS: netns.Own(), Name: PortName(seg.Name, end.NS.Name), Bridge: BridgeName(seg.Name)}
	if err := netns.Veth(port, end, mtu); err != nil {
		return fmt.Errorf("attach %s to %s: %w", end.NS.Name, seg.Name, err)
	}
	return silence(port.Name)
}

func layWire(seg blueprint.Segment) error {
	name := BridgeName(seg.Name)
	if err := netns.Own().Bridge(name, blueprint.WireMTU); err != nil {
		return err
	}
	return silence(name)
}

// silence keeps a part of a wire from being a host: Linux would give it a link-local address, and it would solicit
// routers and report multicast groups.
func silence(link string) error {
	if !kernelSpeaksIPv6() {
		return nil
	}
	return netns.Own().Sysctl(map[string]string{filepath.Join("ipv6/conf", link, "disable_ipv6"): "1"})
}

// wiresDoNotFilter keeps frames on a bridge from the IP hooks of the bridge's namespace. Where br_netfilter is loaded,
// for instance by a container engine, each new namespace starts with them connected.
func wiresDoNotFilter() error {
	for _, key := range []string{
		"bridge/bridge-nf-call-iptables", "bridge/bridge-nf-call-ip6tables",
		"bridge/bridge-nf-call-arptables",
	} {
		if _, err := os.Stat(filepath.Join("/proc/sys/net", key)); err != nil {
			continue
		}
		if err := netns.Own().Sysctl(map[string]string{key: "0"}); err != nil {
			return err
		}
	}
	return nil
}
