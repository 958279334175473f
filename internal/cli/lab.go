package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/internal/lab/parts"
)

const labHelp = `A lab is a real cluster on this machine, without Docker: a Kubernetes API server, Kube-OVN's
controller, OVN and Open vSwitch on several nodes, external networks with routers that drop the same packets as
routers in a data centre, and clients behind them.

All processes run in private namespaces. No packet can leave the lab, and "lab down" removes it completely. Labs
require Linux and root. The first "lab up" builds Kubernetes and Kube-OVN from source, which takes some minutes.`

// labFlags holds the flags of every lab command.
type labFlags struct{ name string }

func (f *labFlags) openLab() (*lab.Lab, error) { return lab.Open(f.name) }

func labCommand() *cobra.Command {
	flags := &labFlags{}
	cmd := &cobra.Command{Use: "lab", Short: "Run a real cluster with external networks on this machine", Long: labHelp}
	cmd.PersistentFlags().StringVar(&flags.name, "lab", envOrDefault("SALLYPORT_LAB", "lab"),
		"name of the lab; several labs can run at the same time (env SALLYPORT_LAB)")
	cmd.AddCommand(
		labUpCommand(flags), labDownCommand(flags), labListCommand(), labPartsCommand(), labInstallCommand(flags),
		labStatusCommand(flags), labKubeconfigCommand(flags), labEnvCommand(flags), labLogsCommand(flags),
		labExecCommand(flags), labShellCommand(flags), labCaptureCommand(flags), labAnnounceCommand(flags),
		labImportCommand(flags), labReplaceCommand(flags),
	)
	cmd.AddCommand(labOrderCommands(flags)...)
	if err := cmd.RegisterFlagCompletionFunc("lab", completeFirstArg(completeLabs)); err != nil {
		panic(err) // the flag does not exist
	}
	return cmd
}

func envOrDefault(key, otherwise string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	return otherwise
}

func labUpCommand(flags *labFlags) *cobra.Command {
	var topology string
	var timeout time.Duration
	var keep bool
	var images []string
	asked := blueprint.Default()
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a lab and wait until it is usable",
		Example: `  sallyport lab up
  sallyport lab up --nodes 5 --ovn-raft 3
  sallyport lab up --topology my-networks.yaml
  sallyport lab up --real-nodes 2
  sallyport lab up --nodes 0 --fake-nodes 500 --fake-pods 5000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := resolveBlueprint(cmd, topology, asked)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout,
				fmt.Errorf("not usable after %s (--timeout)", timeout))
			defer cancel()
			cmd.SetContext(ctx)
			o := lab.Options{Name: flags.name, Blueprint: b, KeepFailed: keep, Images: images}
			if b.RealNodes > 0 && len(images) == 0 {
				o.Images = lab.ImagesBeside(os.Args[0])
			}
			return startLab(cmd, o)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&timeout, "timeout", 30*time.Minute, "maximum time until the lab is usable, including builds")
	f.BoolVar(&keep, "keep-failed", false, "keep a lab that fails to start, so that its logs can be read")
	f.StringVar(&topology, "topology", "", "topology file with nodes, networks and uplinks (see docs/howto/lab.md)")
	f.IntVar(&asked.Nodes, "nodes", asked.Nodes, "number of nodes with a data plane")
	f.IntVar(&asked.RealNodes, "real-nodes", 0,
		"number of nodes, counted from the first, with containerd, a kubelet and Kube-OVN's daemon; without --nodes, of all nodes")
	f.StringArrayVar(&images, "image", nil,
		"container image (tar file) for real nodes; may be repeated (default: lab-images/*.tar beside this program)")
	f.IntVar(&asked.Gateways, "gateways", asked.Gateways,
		"number of nodes, counted from the last, that may hold external gateways")
	f.IntVar(&asked.Raft, "ovn-raft", asked.Raft, "number of servers of each OVN database; 3 for a Raft cluster")
	f.IntVar(&asked.FakeNodes, "fake-nodes", 0,
		"number of nodes that exist only in the APIs, for control-plane benchmarks")
	f.IntVar(&asked.FakePods, "fake-pods", 0, "number of pods on the fake nodes, with addresses from Kube-OVN")
	return cmd
}

// resolveBlueprint returns the topology file, or the default topology, with the flags that the user set applied.
func resolveBlueprint(cmd *cobra.Command, topology string, asked blueprint.Blueprint) (blueprint.Blueprint, error) {
	b := blueprint.Default()
	if topology != "" {
		loaded, err := blueprint.Load(topology)
		if err != nil {
			return b, err
		}
		b = loaded
	}
	for name, field := range map[string][2]*int{
		"nodes": {&b.Nodes, &asked.Nodes}, "real-nodes": {&b.RealNodes, &asked.RealNodes}, "gateways": {&b.Gateways, &asked.Gateways},
		"ovn-raft":   {&b.Raft, &asked.Raft},
		"fake-nodes": {&b.FakeNodes, &asked.FakeNodes}, "fake-pods": {&b.FakePods, &asked.FakePods},
	} {
		if cmd.Flags().Changed(name) {
			*field[0] = *field[1]
		}
	}
	if cmd.Flags().Changed("real-nodes") && !cmd.Flags().Changed("nodes") {
		b.Nodes = b.RealNodes
	}
	if !cmd.Flags().Changed("gateways") {
		b.Gateways = min(b.Gateways, b.Nodes)
	}
	return b, nil
}

func startLab(cmd *cobra.Command, o lab.Options) error {
	out := cmd.OutOrStdout()
	begun := time.Now()
	var usage daemon.Usage
	o.Progress = func(line string) { fmt.Fprintln(out, line) }
	o.Event = func(e daemon.Event) {
		if e.Step != nil {
			fmt.Fprintf(out, "%6.2fs  %-22s took %5.2fs\n", e.Step.End.Seconds(), e.Step.Name,
				(e.Step.End - e.Step.Begin).Seconds())
		}
		if e.Usage != nil {
			usage = *e.Usage
		}
	}
	if _, err := lab.Up(cmd.Context(), o); err != nil {
		return err
	}
	name, b := o.Name, o.Blueprint
	fmt.Fprintf(out, "lab %q is up after %.1fs: %d nodes, %d fake nodes, %d fake pods, %d networks; %d processes, %d MiB\n\n",
		name, time.Since(begun).Seconds(), b.Nodes, b.FakeNodes, b.FakePods, len(b.Networks), usage.Processes,
		usage.Memory>>20)
	fmt.Fprintf(out, "  eval \"$(sallyport lab env%s)\"    # environment for kubectl, ovn-nbctl and ovn-sbctl\n",
		labFlagSuffix(name))
	fmt.Fprintf(out, "  sallyport lab down%s               # remove the lab\n", labFlagSuffix(name))
	return nil
}

func labFlagSuffix(name string) string {
	if name == "lab" {
		return ""
	}
	return " --lab " + name
}

func labDownCommand(flags *labFlags) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a lab and remove everything of it, even if it has crashed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !all {
				return stopLab(cmd, flags.name)
			}
			labs, err := lab.List()
			if err != nil {
				return err
			}
			for _, l := range labs {
				if err := stopLab(cmd, l.Name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove every lab on this machine")
	return cmd
}

func stopLab(cmd *cobra.Command, name string) error {
	begun := time.Now()
	if err := lab.Down(cmd.Context(), name); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "lab %q is down after %.1fs\n", name, time.Since(begun).Seconds())
	return nil
}

func labListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the labs on this machine",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			labs, err := lab.List()
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 3, ' ', 0)
			fmt.Fprintln(table, "NAME\tSTATE\tPID")
			for _, l := range labs {
				state := "crashed"
				if l.Up {
					state = "up"
				}
				fmt.Fprintf(table, "%s\t%s\t%d\n", l.Name, state, l.PID)
			}
			return table.Flush()
		},
	}
}

func labPartsCommand() *cobra.Command {
	var realNodes bool
	cmd := &cobra.Command{
		Use:   "parts",
		Short: "Build or unpack the programs that a lab runs, and print their directories",
		Long: `Builds Kubernetes and Kube-OVN from source and unpacks OVN and Open vSwitch,
once for each version, into a cache ($SALLYPORT_CACHE, by default sallyport/ in
your cache directory). "lab up" does the same automatically. This command also
unpacks FRR, which only labs with BGP need, and QEMU and the kernels of the
virtual machines for tests.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) }
			optional := []string{parts.FRR}
			if realNodes {
				optional = append(optional, parts.RealNode()...)
			}
			set, err := parts.Ensure(cmd.Context(), report, optional...)
			if err != nil {
				return err
			}
			machine, err := parts.EnsureMachine(cmd.Context(), report)
			if err != nil {
				return err
			}
			report(strings.ReplaceAll(set.Bin()+":"+machine.Bin(), ":", "\n"))
			return nil
		},
	}
	cmd.Flags().BoolVar(&realNodes, "real-nodes", false,
		"also build what only real nodes need: containerd, runc, the kubelet, Kube-OVN's daemon")
	return cmd
}

// labOrderCommands returns the commands that act on a node or a process.
func labOrderCommands(flags *labFlags) []*cobra.Command {
	var out []*cobra.Command
	for _, o := range []struct{ order, target, short string }{
		{"kill", "NODE|PROCESS", "Power off a node, or kill a process"},
		{"start", "NODE|PROCESS", "Start a node or process again after it was killed or has exited"},
		{"pause", "PROCESS", "Suspend a process"},
		{"resume", "PROCESS", "Resume a suspended process"},
		{"cut", "NODE", "Disconnect all links of a node; the node keeps running"},
		{"mend", "NODE", "Reconnect the links of a node"},
	} {
		out = append(out, &cobra.Command{
			Use:   o.order + " " + o.target,
			Short: o.short,
			Long:  o.short + ".\n\n\"sallyport lab status\" lists nodes and processes.",
			Args:  cobra.ExactArgs(1), ValidArgsFunction: completeFirstArg(flags.completeTargets),
			RunE: func(cmd *cobra.Command, args []string) error {
				return sendOrder(cmd.Context(), flags, o.order, args[0])
			},
		})
	}
	return out
}

func sendOrder(ctx context.Context, flags *labFlags, order, target string) error {
	l, err := flags.openLab()
	if err != nil {
		return err
	}
	return l.Order(ctx, order, target)
}
