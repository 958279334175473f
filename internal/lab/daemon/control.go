package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/boot"
	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/proc"
	"github.com/sallyport/sallyport/internal/lab/world"
)

// Status is a lab as it is now.
type Status struct {
	Name      string              `json:"name"`
	Blueprint blueprint.Blueprint `json:"blueprint"`
	Nodes     []NodeState         `json:"nodes"`
	Processes []proc.State        `json:"processes"`
	Doors     []Door              `json:"doors"`
	Steps     []boot.Timing       `json:"steps"`
	Usage     Usage               `json:"usage"`
}

// NodeState is what was done to a node.
type NodeState struct {
	Name  string `json:"name"`
	State string `json:"state"` // up, killed, cut
	// Memory of a real node, in bytes: what its processes use, and what is on its disk and in its /run.
	Memory int64 `json:"memory,omitempty"`
	Disk   int64 `json:"disk,omitempty"`
}

// PodNetwork is the network of a pod of a real node.
type PodNetwork struct {
	Path string `json:"path"` // file of its namespace, as the lab sees it
}

// Failure is the daemon's answer to an order that it could not carry out.
type Failure struct {
	Error string `json:"error"`
}

// serve takes orders on the control socket, which only root can reach.
func (d *Daemon) serve() error {
	listener, err := net.Listen("unix", d.config.path(ControlSocket))
	if err != nil {
		return fmt.Errorf("open control socket: %w", err)
	}
	orders := map[string]func(context.Context, string) error{
		"kill": d.kill, "start": d.revive, "pause": d.pause, "resume": d.resume, "cut": d.cut, "mend": d.mend,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, d.status, nil) })
	mux.HandleFunc("POST /{order}/{target}", func(w http.ResponseWriter, r *http.Request) {
		order := orders[r.PathValue("order")]
		if order == nil {
			http.NotFound(w, r)
			return
		}
		answer(w, d.status, order(r.Context(), r.PathValue("target")))
	})
	mux.HandleFunc("POST /replace/{target}/{version}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, d.status, d.replaceOVN(r.Context(), r.PathValue("target"), r.PathValue("version")))
	})
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		var spec proc.Spec
		err := json.NewDecoder(r.Body).Decode(&spec)
		if err == nil {
			err = d.run(spec)
		}
		answer(w, d.status, err)
	})
	mux.HandleFunc("POST /import", func(w http.ResponseWriter, r *http.Request) {
		var file string
		err := json.NewDecoder(r.Body).Decode(&file)
		if err == nil {
			err = d.importImage(r.Context(), file)
		}
		answer(w, d.status, err)
	})
	mux.HandleFunc("GET /pods/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, func() (PodNetwork, error) {
			return d.findPodNetwork(r.Context(), r.PathValue("namespace"), r.PathValue("pod"))
		}, nil)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return nil
}

func answer[T any](w http.ResponseWriter, status func() (T, error), err error) {
	current, statusErr := status()
	if err := errors.Join(err, statusErr); err != nil {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(Failure{Error: err.Error()})
		return
	}
	_ = json.NewEncoder(w).Encode(current)
}

func (d *Daemon) status() (Status, error) {
	use, err := usage()
	if err != nil {
		return Status{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Status{Name: d.config.Name, Blueprint: d.config.Blueprint, Doors: d.config.Doors, Steps: d.timings, Usage: use}
	for _, n := range d.config.Blueprint.NodeList() {
		state := d.nodes[n.Name]
		if state == "" {
			state = "up"
		}
		node := NodeState{Name: n.Name, State: state}
		if r := d.real[n.Name]; r != nil {
			if node.Memory, node.Disk, err = r.Memory(); err != nil {
				return Status{}, err
			}
		}
		s.Nodes = append(s.Nodes, node)
	}
	for _, p := range d.processes.Processes("") {
		s.Processes = append(s.Processes, p.State())
	}
	return s, nil
}

// run starts a process of somebody else's in the lab. One of the same name is replaced.
func (d *Daemon) run(spec proc.Spec) error {
	if p, err := d.processes.Get(spec.Name); err == nil && p.Running() {
		if err := p.Stop(stopGrace); err != nil {
			return err
		}
	}
	_, err := d.processes.Start(spec)
	return err
}

// stopGrace is how long a process that is replaced may take to end.
const stopGrace = 15 * time.Second

// kill ends a node, with everything on it, or a process, at once.
func (d *Daemon) kill(_ context.Context, target string) error {
	c := d.chassis[target]
	if c == nil {
		return d.onProcess(target, (*proc.Process).Kill)
	}
	defer d.mark(target, killed)
	if n := d.real[target]; n != nil {
		return d.cutPower(n, c)
	}
	err := errors.Join(d.links(c, netns.NS.LinkDown), c.Kill(), d.kubelet.Kill(target))
	if s := d.speakers[target]; s != nil {
		err = errors.Join(err, s.Kill())
	}
	return err
}

// revive boots a killed node, or starts an ended process again.
func (d *Daemon) revive(ctx context.Context, target string) error {
	c := d.chassis[target]
	if c == nil {
		return d.onProcess(target, func(p *proc.Process) error {
			_, err := d.processes.Start(p.Spec)
			return err
		})
	}
	if n := d.real[target]; n != nil {
		defer d.mark(target, "")
		return d.reboot(ctx, n, c)
	}
	if err := d.links(c, netns.NS.LinkUp); err != nil {
		return err
	}
	if err := c.Restart(ctx); err != nil {
		return err
	}
	if s := d.speakers[target]; s != nil {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	defer d.mark(target, "")
	return d.kubelet.Restart(ctx, target)
}

func (d *Daemon) pause(_ context.Context, target string) error {
	return d.onProcess(target, (*proc.Process).Pause)
}

func (d *Daemon) resume(_ context.Context, target string) error {
	return d.onProcess(target, (*proc.Process).Resume)
}

func (d *Daemon) onProcess(name string, do func(*proc.Process) error) error {
	p, err := d.processes.Get(name)
	if err != nil {
		return err
	}
	return do(p)
}

// cut takes every cable of a node out: it runs on, and nobody hears of it.
func (d *Daemon) cut(_ context.Context, target string) error {
	return d.setCut(target, netns.NS.LinkDown, true)
}

// mend puts the cables back.
func (d *Daemon) mend(_ context.Context, target string) error {
	return d.setCut(target, netns.NS.LinkUp, false)
}

func (d *Daemon) setCut(target string, set func(netns.NS, string) error, cut bool) error {
	c := d.chassis[target]
	if c == nil {
		return fmt.Errorf("no node %q; there are node1 to node%d", target, d.config.Blueprint.Nodes)
	}
	d.mark(target, map[bool]string{true: "cut"}[cut])
	if c.Node.Real {
		return d.links(c, set)
	}
	return errors.Join(d.links(c, set), d.kubelet.Silence(target, cut))
}

// links changes the far end of each of a node's cables, in the lab's own namespace.
func (d *Daemon) links(c *engine.Chassis, set func(netns.NS, string) error) error {
	ports := c.Wires()
	for _, s := range d.config.Blueprint.Segments() {
		ports = append(ports, world.PortName(s.Name, c.Node.Name))
	}
	var errs []error
	for _, p := range ports {
		errs = append(errs, set(netns.Own(), p))
	}
	return errors.Join(errs...)
}

// killed is the state of a node without power.
const killed = "killed"

func (d *Daemon) state(node string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[node]
}

func (d *Daemon) mark(node, state string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[node] = state
}
