// Command machine is what TestMachine runs in a virtual machine: it makes links and rules and prints them, or exits
// with the status that it is given, or breaks the kernel.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "panic" {
		fmt.Println(os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0))
	}
	if len(os.Args) > 1 {
		status, _ := strconv.Atoi(os.Args[1])
		os.Exit(status)
	}
	if err := show(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func show() error {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	fmt.Printf("kernel %s", release)
	vrf := &netlink.Vrf{LinkAttrs: netlink.LinkAttrs{Name: "vrf-one"}, Table: 1001}
	if err := netlink.LinkAdd(vrf); err != nil {
		return fmt.Errorf("make a VRF: %w", err)
	}
	member := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "in-one", MasterIndex: vrf.Index}}
	if err := netlink.LinkAdd(member); err != nil {
		return fmt.Errorf("make a member: %w", err)
	}
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "left"}, PeerName: "right"}
	if err := netlink.LinkAdd(cable); err != nil {
		return fmt.Errorf("make a cable: %w", err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, l := range links {
		fmt.Println(l.Type(), l.Attrs().Name, l.Attrs().Flags)
	}
	write := exec.Command("nft", "-f", "-")
	write.Stdin = strings.NewReader("table inet t {\nchain c {\ntype filter hook input priority 0;\nct state established accept\n}\n}\n")
	for _, cmd := range []*exec.Cmd{write, exec.Command("nft", "list", "ruleset")} {
		out, err := cmd.CombinedOutput()
		fmt.Printf("%s", out)
		if err != nil {
			return err
		}
	}
	return nil
}
