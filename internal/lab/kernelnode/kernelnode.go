// Package kernelnode is a node of a lab in a virtual machine: its Open vSwitch forwards packets with the kernel's module
// and the kernel's tunnels and connection tracking, as on a server.
package kernelnode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"time"

	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/kubelet"
	"github.com/sallyport/sallyport/internal/lab/machine"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/internal/lab/world"
)

// Modules are what the kernel of such a node needs. Nothing in the machine loads a module on demand.
var Modules = []string{
	"virtio_pci", "virtio_net", "veth", "openvswitch", "geneve", "vport-geneve", "vrf", "nf_conntrack", "nf_nat",
	"nf_conntrack_netlink",
	"sch_ingress", "cls_flower", "act_ct", "act_csum", "act_gact", "act_mirred", "act_pedit", "act_police",
	"act_skbedit", "act_tunnel_key", "act_vlan",
}

const (
	managementLink = "eth0"
	tunnelLink     = "ul0"
	memory         = "768M"
)

// Node is a node in a virtual machine.
type Node struct {
	Name   string
	Kernel string

	lab    *lab.Lab
	dir    string
	client http.Client
	url    string
}

// Pod is a pod of the node: its name, and what Kube-OVN has given it.
type Pod struct {
	Name       string
	Interfaces []kubelet.Attachment
}

// Config says which node of a lab the machine is.
type Config struct {
	Lab       *lab.Lab
	Blueprint blueprint.Blueprint
	Node      blueprint.Node // a fake one of the lab: known to all databases, and run by nobody
	Kernel    string         // one of machine.Kernels
	Guest     string         // the built program of package guest
	Dir       string         // an empty directory
	OVN       parts.Set      // the lab's
}

// Start boots the machine as a process of the lab, with a cable to each wire that a node has, and waits until its
// switch runs. Its ovn-controller may still be connecting.
func Start(ctx context.Context, kit machine.Kit, c Config) (*Node, error) {
	o := order{Node: c.Node, SB: engine.Central{Servers: c.Blueprint.ServerAddresses()}.SBPlain()}
	job := machine.Job{Kernel: c.Kernel, Program: c.Guest, Modules: Modules, Memory: memory}
	for i, w := range wires(c.Blueprint) {
		mac := net.HardwareAddr{2, 0x4b, 0, byte(c.Node.Index >> 8), byte(c.Node.Index), byte(i)} //nolint:gosec // small numbers
		tap := fmt.Sprintf("vm%d-%d", c.Node.Index, i)
		if err := c.Lab.OwnNS().DeleteLink(tap); err != nil { // of an earlier machine for this node
			return nil, err
		}
		if err := c.Lab.OwnNS().Tap(tap, w.bridge, w.mtu); err != nil {
			return nil, err
		}
		o.Links = append(o.Links, link{Name: w.link, MAC: mac})
		job.Interfaces = append(job.Interfaces, machine.Interface{Tap: tap, MAC: mac})
	}
	for _, n := range c.Blueprint.Networks {
		o.Providers = append(o.Providers, engine.Provider{Network: n.Name, Interface: n.Name, VLAN: n.VLAN})
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	job.Args = []string{string(raw)}
	if job.Files, err = files(c.OVN); err != nil {
		return nil, err
	}
	argv, err := kit.Command(ctx, c.Dir, job)
	if err != nil {
		return nil, err
	}
	n := &Node{Name: c.Node.Name, Kernel: c.Kernel, lab: c.Lab, dir: c.Dir}
	n.url = "http://" + net.JoinHostPort(c.Node.Management.Addr().String(), controlPort)
	n.client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: c.Lab.OwnNS().Dial}
	if err := c.Lab.Run(ctx, n.process(), argv...); err != nil {
		return nil, err
	}
	return n, n.waitReady(ctx)
}

// wire is a bridge of the lab that the node has a cable to, and the node's name for it.
type wire struct {
	link, bridge string
	mtu          int
}

func wires(b blueprint.Blueprint) []wire {
	out := []wire{
		{managementLink, engine.ManagementWire, blueprint.WireMTU},
		{tunnelLink, engine.TunnelWire, blueprint.UnderlayMTU},
	}
	for _, n := range b.Networks {
		out = append(out, wire{n.Name, world.BridgeName(n.Name), blueprint.WireMTU})
	}
	return out
}

func (n *Node) process() string { return "machine-" + n.Name }

// waitReady waits until the machine answers.
func (n *Node) waitReady(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := n.call(try, call{})
		cancel()
		if err == nil {
			return nil
		}
		status, statusErr := n.lab.Status(ctx)
		for _, p := range status.Processes {
			if p.Name == n.process() && p.State != "running" {
				return fmt.Errorf("the machine has ended: %s\n%s", p.Detail, machine.Said(n.dir))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the machine: %w\n%s", errors.Join(err, statusErr), machine.Said(n.dir))
		}
	}
}

// Stop ends the machine as a power cut would.
func (n *Node) Stop(ctx context.Context) error { return n.lab.Order(ctx, "kill", n.process()) }

// File is the path of a file of the switch in the machine: "db.sock", "ovs-vswitchd.ctl".
func (n *Node) File(name string) string { return path.Join(stateDir, n.Name, name) }

// Log is the path of the log of a process of the node in the machine: "vswitchd", "ovn-controller".
func (n *Node) Log(process string) string { return path.Join(logDir, n.Name+"-"+process+".log") }

// Run runs one of Open vSwitch's programs in the machine and returns its output; "cat" reads a file.
func (n *Node) Run(ctx context.Context, argv ...string) (string, error) {
	out, err := n.call(ctx, call{Argv: argv})
	return out.Output, err
}

// RestartSwitch ends and starts Open vSwitch and ovn-controller, for settings that they read at their start. Pods keep
// their interfaces.
func (n *Node) RestartSwitch(ctx context.Context) error {
	_, err := n.call(ctx, call{Restart: true})
	return err
}

// StartPod starts a pod that answers as lab/echo does.
func (n *Node) StartPod(ctx context.Context, p Pod) error {
	_, err := n.call(ctx, call{NewPod: &p})
	return err
}

// Ask sends a request from a pod of the machine.
func (n *Node) Ask(ctx context.Context, pod, target string) (program.Answer, error) {
	out, err := n.call(ctx, call{Pod: pod, Target: target})
	return out.Answer, err
}

func (n *Node) call(ctx context.Context, c call) (reply, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return reply{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	response, err := n.client.Do(request)
	if err != nil {
		return reply{}, fmt.Errorf("ask machine %s: %w", n.Name, err)
	}
	defer response.Body.Close()
	var out reply
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		return reply{}, fmt.Errorf("read the answer of machine %s: %w", n.Name, err)
	}
	if out.Error != "" {
		return out, fmt.Errorf("machine %s: %s", n.Name, out.Error)
	}
	return out, nil
}
