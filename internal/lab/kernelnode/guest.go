package kernelnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/proc"
	"github.com/sallyport/sallyport/internal/lab/program"
)

// order is what the machine is started with.
type order struct {
	Node      blueprint.Node
	SB        string
	Providers []engine.Provider
	Links     []link
}

// link is a network card of the machine and the name that the node has for it.
type link struct {
	Name string
	MAC  net.HardwareAddr
}

const (
	stateDir    = "/run/node"
	logDir      = "/run/logs"
	controlPort = "9400"
	startLimit  = 3 * time.Minute
	// The kernel's own limit follows from the memory, and a machine this small has a few thousand. This is what a
	// server has.
	conntrackMax = "262144"
)

// guest is the inside of the machine.
type guest struct {
	chassis *engine.Chassis
}

// RunGuest makes the machine a chassis and does what it is told until it is ended.
func RunGuest(args []string) error {
	var o order
	if err := json.Unmarshal([]byte(strings.Join(args, "")), &o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	for _, dir := range []string{stateDir, logDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
	}
	if err := nameLinks(o.Links); err != nil {
		return err
	}
	own := netns.Own()
	if err := own.Sysctl(map[string]string{"netfilter/nf_conntrack_max": conntrackMax}); err != nil {
		return err
	}
	if err := own.AddAddresses(managementLink, o.Node.Management); err != nil {
		return err
	}
	table := proc.NewTable(logDir)
	g := &guest{chassis: &engine.Chassis{
		Shop: engine.Shop{Parts: parts.At("ovn", ovnDir), Processes: table, State: stateDir},
		Node: o.Node, NS: own, SB: o.SB, Providers: o.Providers, Datapath: engine.Kernel,
	}}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := g.chassis.Start(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, table.Tail(o.Node.Name+"-vswitchd"))
	}
	server := &http.Server{
		Addr:    net.JoinHostPort(o.Node.Management.Addr().String(), controlPort),
		Handler: g.routes(), ReadHeaderTimeout: 10 * time.Second,
	}
	return server.ListenAndServe()
}

// nameLinks gives each card its name and brings it up. Nobody has named them: there is no udev.
func nameLinks(links []link) error {
	have, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	byMAC := map[string]netlink.Link{}
	for i, l := range have {
		if l.Type() == "device" && l.Attrs().Flags&net.FlagLoopback == 0 {
			byMAC[l.Attrs().HardwareAddr.String()] = l
			if err := netlink.LinkSetName(l, fmt.Sprintf("card%d", i)); err != nil { // its name may be one of the others
				return fmt.Errorf("name a link: %w", err)
			}
		}
	}
	for _, l := range links {
		card := byMAC[l.MAC.String()]
		if card == nil {
			return fmt.Errorf("there is no network card %s for %s", l.MAC, l.Name)
		}
		if err := errors.Join(netlink.LinkSetName(card, l.Name), netlink.LinkSetUp(card)); err != nil {
			return fmt.Errorf("name %s: %w", l.Name, err)
		}
	}
	return nil
}

// call is what the machine is told to do; only the fields of one kind are set.
type call struct {
	Argv        []string // run a program
	Pod, Target string   // send a request from a pod
	NewPod      *Pod
	Restart     bool // start the switch and ovn-controller again
}

// reply is the machine's answer.
type reply struct {
	Output string
	Answer program.Answer
	Error  string
}

func (g *guest) routes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c call
		var out reply
		err := json.NewDecoder(r.Body).Decode(&c)
		if err == nil {
			err = g.do(r.Context(), c, &out)
		}
		if err != nil {
			out.Error = err.Error()
		}
		_ = json.NewEncoder(w).Encode(out)
	})
}

func (g *guest) do(ctx context.Context, c call, out *reply) (err error) {
	switch {
	case len(c.Argv) > 0:
		out.Output, err = g.run(ctx, c.Argv)
	case c.Restart:
		if err = g.chassis.Kill(); err == nil {
			err = g.chassis.Restart(ctx)
		}
	case c.NewPod != nil:
		err = g.startPod(ctx, *c.NewPod)
	case c.Target != "":
		out.Answer, err = program.Ask(ctx, netns.Named(c.Pod), c.Target)
	}
	return err
}

// run runs one of the programs of Open vSwitch, or reads a file.
func (g *guest) run(ctx context.Context, argv []string) (string, error) {
	if argv[0] == "cat" {
		raw, err := os.ReadFile(argv[1])
		return string(raw), err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(ovnDir, "bin", argv[0]), argv[1:]...) //nolint:gosec // the lab's owner runs what he likes in it
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+filepath.Join(stateDir, g.chassis.Node.Name))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return string(out), nil
}

// startPod makes the namespace of a pod, connects it to the switch and lets it answer as lab/echo does.
func (g *guest) startPod(ctx context.Context, p Pod) error {
	ns, err := netns.Create(p.Name)
	if err != nil {
		return err
	}
	for _, a := range p.Interfaces {
		if err := g.chassis.Plug(ctx, ns, a.Port); err != nil {
			return err
		}
		if err := ns.AddRoutes(a.Routes...); err != nil {
			return err
		}
	}
	log, err := os.Create(filepath.Join(logDir, p.Name+".log"))
	if err != nil {
		return fmt.Errorf("make the log of %s: %w", p.Name, err)
	}
	life := context.WithoutCancel(ctx) // the pod outlives the request
	go func() {
		err := program.Echo(life, ns, program.Spec{Name: p.Name, Log: log})
		fmt.Fprintln(log, "ended:", err)
	}()
	return nil
}
