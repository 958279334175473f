// Package openvswitch is what the Open vSwitch and the ovn-controller of a node say of themselves.
//
// They are asked on their control sockets, as ovs-appctl does, and only for what changes nothing.
package openvswitch

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The programs that are asked.
const (
	vswitchd   = "ovs-vswitchd"
	controller = "ovn-controller"
)

// Node is the two programs of a node, by the directories in which they have their sockets: /run/openvswitch and
// /run/ovn, mostly.
type Node struct{ SwitchDir, ControllerDir string }

// State is how they are doing.
type State struct {
	Version      string // of Open vSwitch
	SBConnection string // its connection to the southbound database: connected, or what ovn-controller says instead
	// Tracked is how many connections there are, of at most MaxTracked. 0: the datapath does not say.
	Tracked, MaxTracked int
	Configuration
}

var versionPattern = regexp.MustCompile(`[0-9]+\.[0-9]+\S*`)

// ReadState asks both. What could not be asked is among the errors, and the rest is there.
func (n Node) ReadState(ctx context.Context) (out State, failed []error) {
	fails := func(what string, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", what, err))
		}
	}
	text, err := runAppctl(ctx, n.SwitchDir, vswitchd, "version")
	fails("ask for the version of Open vSwitch", err)
	out.Version = versionPattern.FindString(text)
	if err == nil {
		out.Configuration, err = n.readConfiguration(ctx)
		fails("read the configuration of Open vSwitch", err)
		out.Tracked, out.MaxTracked = n.countConnections(ctx)
	}
	if n.ControllerDir != "" {
		out.SBConnection, err = runAppctl(ctx, n.ControllerDir, controller, "connection-status")
		fails("ask ovn-controller for its connection", err)
	}
	return out, failed
}

// countConnections counts the connections of all datapaths. That of the kernel has no limit of its own, and says so by
// an error.
func (n Node) countConnections(ctx context.Context) (are, most int) {
	paths, err := n.listDatapaths(ctx)
	if err != nil {
		return 0, 0
	}
	number := func(command, path string) int {
		text, err := runAppctl(ctx, n.SwitchDir, vswitchd, command, path)
		if err != nil {
			return 0
		}
		out, _ := strconv.Atoi(text) // no number: it does not say
		return out
	}
	for _, p := range paths {
		are += number("dpctl/ct-get-nconns", p)
		most += number("dpctl/ct-get-maxconns", p)
	}
	return are, most
}

// listDatapaths are those that the switch has, such as system@ovs-system or netdev@ovs-netdev.
func (n Node) listDatapaths(ctx context.Context) (out []string, err error) {
	err = streamAppctl(ctx, n.SwitchDir, func(line []byte) {
		out = append(out, string(line))
	}, vswitchd, "dpctl/dump-dps")
	return out, err
}

// DumpConntrack calls back for each connection that the switch tracks. None of them is kept: there may be a million.
func (n Node) DumpConntrack(ctx context.Context, each func(Connection)) error {
	paths, err := n.listDatapaths(ctx)
	if err != nil {
		return fmt.Errorf("list the datapaths of Open vSwitch: %w", err)
	}
	for _, p := range paths {
		if err := streamAppctl(ctx, n.SwitchDir, func(line []byte) {
			if c, ok := parseConnection(string(line)); ok {
				each(c)
			}
		}, vswitchd, "dpctl/dump-conntrack", p); err != nil {
			return fmt.Errorf("list the connections of %s: %w", p, err)
		}
	}
	return nil
}

// ConntrackZones are the names of what ovn-controller tracks connections for, by the number of the zone.
func (n Node) ConntrackZones(ctx context.Context) (map[int]string, error) {
	out := map[int]string{}
	err := streamAppctl(ctx, n.ControllerDir, func(line []byte) {
		name, number, _ := strings.Cut(string(line), " ")
		if zone, err := strconv.Atoi(number); err == nil {
			out[zone] = name
		}
	}, controller, "ct-zone-list")
	if err != nil {
		return nil, fmt.Errorf("ask ovn-controller for the names of zones: %w", err)
	}
	return out, nil
}
