package vrf

import (
	"context"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/engine/kernel"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
)

// isolated puts the test into a namespace of its own. Its thread ends with the test.
func isolated(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

// Links that are made, go, and become others.
func contract(t *testing.T) {
	isolated(t)
	own := netns.Own()
	ip(t, own, `link set lo up
		link add eth1 type veth peer name eth2
		link set eth1 up
		link set eth2 up
		addr add 192.0.2.2/24 dev eth1
		link add red type vrf table 5
		link add blue type veth peer name green
		link set blue master red
		addr add 192.0.2.9/24 dev blue`)
	k, err := kernel.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	set := func(pairs ...any) nodepath.Links {
		out := nodepath.Links{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i].(nodepath.LinkKey)] = state.Entry[nodepath.Link]{
				Value:  pairs[i+1].(nodepath.Link),
				Origin: nodepath.NetworkRef("net"),
			}
		}
		return out
	}
	one, two := nodepath.LinkKey{Name: "sp-vrf-1"}, nodepath.LinkKey{Name: "sp-vrf-2"}
	leg := nodepath.LinkKey{Name: "sp-leg-1"}
	address := nodepath.LinkKey{Aspect: nodepath.LinkAddresses, Name: "sp-leg-1"}
	master, master2 := nodepath.LinkKey{Aspect: nodepath.LinkMaster, Name: "eth1"},
		nodepath.LinkKey{Aspect: nodepath.LinkMaster, Name: "eth2"}
	ours := regexp.MustCompile(`sp-|eth1|eth2|l3mdev`)
	statetest.CheckContract(t, statetest.Case[nodepath.LinkKey, nodepath.Link]{
		Target: k.Links(t.TempDir()),
		First: set(one, nodepath.Link{VRF: 9101}, leg, nodepath.Link{Peer: "sp-far-1"}, master,
			nodepath.Link{Master: "sp-vrf-1"},
			nodepath.LinkKey{Aspect: nodepath.LinkMaster, Name: "sp-far-1"}, nodepath.Link{Master: "sp-vrf-1"},
			address, nodepath.Link{Addresses: "169.254.92.5/30 fdfe:5a11:9070::1:1/126"}),
		Second: set(one, nodepath.Link{VRF: 9101}, two, nodepath.Link{VRF: 9102}, leg, nodepath.Link{Peer: "sp-far-1"},
			master, nodepath.Link{Master: "sp-vrf-2"}, master2, nodepath.Link{Master: "sp-vrf-1"},
			address, nodepath.Link{Addresses: "169.254.92.9/30"}),
		DumpForeign: func(context.Context) (string, error) {
			var out []string
			for line := range strings.Lines(ip(t, own, "-o link show\n-o addr show\nrule show\nroute show table 5")) {
				if !ours.MatchString(line) {
					out = append(out, line)
				}
			}
			return strings.Join(out, ""), nil
		},
	})
}

// Why the kernel's rule is left where it is when our VRF goes: who makes a VRF after that would not get one.
func onlyOnce(t *testing.T) {
	isolated(t)
	own := netns.Own()
	rules := func() bool { return strings.Contains(ip(t, own, "rule show"), "l3mdev-table") }
	if rules() {
		t.Error("there is a rule before there is a VRF")
	}
	ip(t, own, "link add red type vrf table 5")
	if !rules() {
		t.Error("the first VRF has no rule")
	}
	ip(t, own, "link del red")
	if !rules() {
		t.Error("the rule goes with the VRF: it is not ours to leave or to take")
	}
	ip(t, own, "rule del pref 1000")
	ip(t, own, "link add red type vrf table 5")
	if rules() {
		t.Error("the kernel makes the rule again: it could be taken away with our last VRF")
	}
}
