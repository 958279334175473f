// Package openvswitch is a reader for the state of Open vSwitch and ovn-controller on a node.
//
// It queries their control sockets, like ovs-appctl, with commands that change nothing.
package openvswitch

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The programs.
const (
	vswitchd   = "ovs-vswitchd"
	controller = "ovn-controller"
)

// Node is the two programs of a node, by the directories of their sockets: usually /run/openvswitch and /run/ovn.
type Node struct{ SwitchDir, ControllerDir string }

// State is the state of both programs.
type State struct {
	Version      string // of Open vSwitch
	SBConnection string // connection to the southbound database: connected, or what ovn-controller reports instead
	// Tracked is the number of tracked connections, MaxTracked their limit. 0: the datapath does not report it.
	Tracked, MaxTracked int
	Configuration
}

var versionPattern = regexp.MustCompile(`[0-9]+\.[0-9]+\S*`)

// ReadState queries both programs. It returns an error for each failed query, and the results of the others.
func (n Node) ReadState(ctx context.Context) (out State, failed []error) {
	fails := func(what string, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", what, err))
		}
	}
	text, err := runAppctl(ctx, n.SwitchDir, vswitchd, "version")
	fails("query the version of Open vSwitch", err)
	out.Version = versionPattern.FindString(text)
	if err == nil {
		out.Configuration, err = n.readConfiguration(ctx)
		fails("read the configuration of Open vSwitch", err)
		out.Tracked, out.MaxTracked = n.countConnections(ctx)
	}
	if n.ControllerDir != "" {
		out.SBConnection, err = runAppctl(ctx, n.ControllerDir, controller, "connection-status")
		fails("query the connection of ovn-controller", err)
	}
	return out, failed
}

// countConnections counts the connections of all datapaths. The kernel datapath has no limit of its own and returns an
// error for it.
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
		out, _ := strconv.Atoi(text) // not a number: not reported
		return out
	}
	for _, p := range paths {
		are += number("dpctl/ct-get-nconns", p)
		most += number("dpctl/ct-get-maxconns", p)
	}
	return are, most
}

// listDatapaths returns the datapaths of the switch, such as system@ovs-system or netdev@ovs-netdev.
func (n Node) listDatapaths(ctx context.Context) (out []string, err error) {
	err = streamAppctl(ctx, n.SwitchDir, func(line []byte) {
		out = append(out, string(line))
	}, vswitchd, "dpctl/dump-dps")
	return out, err
}

// DumpConntrack calls each for every tracked connection. It keeps none of them: there may be a million.
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

// ConntrackZones returns the names of ovn-controller's conntrack zones by number.
func (n Node) ConntrackZones(ctx context.Context) (map[int]string, error) {
	out := map[int]string{}
	err := streamAppctl(ctx, n.ControllerDir, func(line []byte) {
		name, number, _ := strings.Cut(string(line), " ")
		if zone, err := strconv.Atoi(number); err == nil {
			out[zone] = name
		}
	}, controller, "ct-zone-list")
	if err != nil {
		return nil, fmt.Errorf("query the conntrack zones of ovn-controller: %w", err)
	}
	return out, nil
}
