package cli

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
)

const whereHelp = `WHERE is a pod (set its namespace with -n), a node (node1), a router
(router-NETWORK), a client (client-NETWORK), a host on the external network
(host-NETWORK), internet, or "lab" for the lab's own network namespace.`

func labExecCommand(flags *labFlags) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "exec WHERE -- COMMAND [ARGUMENT...]",
		Short: "Run a command of this machine in the network namespace of a pod, node or host",
		Long:  "Runs a command of this machine in the network namespace of a pod, node or host.\n\n" + whereHelp,
		Example: `  sallyport lab exec internet -- curl -s http://198.51.100.20/
  sallyport lab exec -n test-jump web -- ip address`,
		Args: cobra.MinimumNArgs(2), ValidArgsFunction: completeFirstArg(flags.completeNamespaces),
		RunE: func(_ *cobra.Command, args []string) error {
			return runInNamespace(flags, namespace, args[0], args[1:])
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "Kubernetes namespace of the pod")
	return cmd
}

func labShellCommand(flags *labFlags) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "shell WHERE",
		Short: "Open a shell in the network namespace of a pod, node or host",
		Long:  "Opens a shell in the network namespace of a pod, node or host of the lab.\n\n" + whereHelp,
		Args:  cobra.ExactArgs(1), ValidArgsFunction: completeFirstArg(flags.completeNamespaces),
		RunE: func(_ *cobra.Command, args []string) error {
			return runInNamespace(flags, namespace, args[0], []string{envOrDefault("SHELL", "/bin/sh")})
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "Kubernetes namespace of the pod")
	return cmd
}

func labCaptureCommand(flags *labFlags) *cobra.Command {
	var namespace, link, file string
	var count int
	cmd := &cobra.Command{
		Use:   "capture WHERE [FILTER...]",
		Short: "Capture packets on an interface of a pod, node or host with tcpdump",
		Long:  "Captures packets on an interface of a pod, node or host of the lab with tcpdump.\n\n" + whereHelp,
		Example: `  sallyport lab capture router-ext-public -i lan
  sallyport lab capture node2 -i ext-cloud -w cloud.pcap tcp port 80`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeFirstArg(flags.completeNamespaces),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := exec.LookPath("tcpdump"); err != nil {
				return fmt.Errorf("tcpdump is not in PATH; install it with: apt-get install tcpdump")
			}
			argv := []string{"tcpdump", "-n", "-U", "--immediate-mode", "-i", link}
			if file != "" {
				argv = append(argv, "-w", file)
			}
			if count > 0 {
				argv = append(argv, "-c", fmt.Sprint(count))
			}
			return runInNamespace(flags, namespace, args[0], append(argv, args[1:]...))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&namespace, "namespace", "n", "default", "Kubernetes namespace of the pod")
	f.StringVarP(&link, "interface", "i", "any", "interface to capture on")
	f.StringVarP(&file, "write", "w", "", "write packets to this pcap file instead of printing them")
	f.IntVarP(&count, "count", "c", 0, "stop after this number of packets; 0 means no limit")
	return cmd
}

// runInNamespace runs a command in a network namespace of the lab, on the terminal of this process.
func runInNamespace(flags *labFlags, namespace, where string, argv []string) error {
	l, err := flags.openLab()
	if err != nil {
		return err
	}
	cmd, err := l.Command(namespace, where, argv...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
