package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/insight/preflight"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// checkOptions holds the flags of check.
type checkOptions struct {
	outputFlags
	kubeconfig, context string
	timeout             time.Duration
	installation        kube.InstallationOptions
	nbAddress           string
	selftest            selftestOptions
}

func checkCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether Sallyport can be installed in a cluster, and test an installation",
		Long: `Check whether Sallyport can be installed in a cluster. The command needs a
kubeconfig only, and changes nothing. Run it before helm install, and again if pods
do not start. It reads the versions and settings of Kubernetes and Kube-OVN, nodes
with gateways, external networks and their provider networks, the Services of OVN's
databases, Secrets and their certificates, CRDs of other software or releases, images
that can't be pulled, and your permissions. Problems of a running installation are
found by sallyport doctor.

With --run, the command instead tests an installation with packets. It creates
Projects, pods on two nodes, and a floating IP and a Service for each type of external
network. Pods of other projects request them, and with --outside-command a host
outside does. The report says who answered, and which source address the server saw:
that of the project's default egress, or that of an EgressIP. At the end everything is
removed, also when you interrupt the command; a second interrupt ends it at once. What
a killed run has left is removed by --clean, and by a run after the time of the killed
one is over. With --keep nothing is removed, for sallyport explain and trace.

A check has one of four results: ok, warning, failed, or not checked. Exit codes:
0 no problems; 1 warnings, or something could not be read; 2 failures.`,
		Example: `  sallyport check
  sallyport check --controller-namespace sallyport --agent-namespace sallyport-agents
  sallyport check -o json
  sallyport check --run --outside-command "ssh HOST curl"
  sallyport check --clean`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.selftest.checkFlags(cmd); err != nil {
				return err
			}
			if o.selftest.run || o.selftest.clean {
				return o.runSelftest(cmd)
			}
			return o.runPreflight(cmd)
		},
	}
	o.addFlags(cmd)
	o.selftest.addFlags(cmd)
	return cmd
}

func (o *checkOptions) addFlags(cmd *cobra.Command) {
	o.addFlag(cmd)
	f, where := cmd.Flags(), &o.installation
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&o.context, "context", "", "kubeconfig context (default: current context)")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "maximum time to read the cluster; with --run, of the test without the removal (then the default is 5m)")
	f.StringVar(&where.Controller, "controller-namespace", kube.DefaultNamespaces.Controller,
		"namespace that Sallyport is or will be installed in")
	f.StringVar(&where.Agent, "agent-namespace", "",
		"namespace of Sallyport's agents, agent.namespace of the chart (default: --controller-namespace)")
	f.StringVar(&where.KubeOVN, "kube-ovn-namespace", kube.DefaultNamespaces.KubeOVN, "namespace of Kube-OVN")
	f.StringVar(&where.Release, "release", "sallyport", "name of the Helm release")
	f.StringVar(&where.TLSSecret, "ovn-tls-secret", "",
		"ovn.tlsSecret of the chart (default: that of the installation, else kube-ovn-tls if Kube-OVN uses TLS)")
	f.StringVar(&o.nbAddress, "nb-address", "",
		"ovn.nbAddress of the chart; if set, Kube-OVN's Services of the databases are not checked")
}

func (o *checkOptions) runPreflight(cmd *cobra.Command) error {
	config, name, err := kube.LoadConfigContext(o.kubeconfig, o.context)
	if err != nil {
		return fmt.Errorf("load the kubeconfig: %w; set --kubeconfig", err)
	}
	o.installation.CustomDatabases = o.nbAddress != ""
	reader, err := kube.NewInstallationReader(config, o.installation)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	done := showProgress(cmd, "reading the cluster")
	found, err := reader.Read(ctx)
	done()
	if err != nil {
		return err
	}
	return o.printReport(cmd, checkReport{Cluster: name, Taken: found.Taken, Checks: preflight.Check(found)})
}

func (o *checkOptions) printReport(cmd *cobra.Command, report checkReport) error {
	report = clusterstate.EscapeControlChars(report)
	if err := o.printResult(cmd, report, report.printText); err != nil {
		return err
	}
	return report.exitError()
}

// checkReport is the output of check.
type checkReport struct {
	Cluster string             `json:"cluster"`
	Taken   time.Time          `json:"taken"`
	Checks  []preflight.Result `json:"checks"`
}

// exitError returns the exit status for the results: 2 with failures, 1 with warnings, else none.
func (r checkReport) exitError() error {
	switch preflight.Worst(r.Checks) {
	case preflight.Failed:
		return exitStatus(2)
	case preflight.Warning:
		return exitStatus(1)
	default:
		return nil
	}
}

// printText prints the results as a table, each problem with the next step below it, and a summary.
func (r checkReport) printText(w io.Writer, c colorizer) error {
	dye := map[preflight.State]func(string) string{
		preflight.Failed: c.red, preflight.Warning: c.yellow, preflight.NotChecked: c.faint,
		preflight.OK: func(text string) string { return text },
	}
	t := newTable(w)
	fmt.Fprintln(t, "CHECK\tSTATE\tSEEN")
	count, last := map[preflight.State]int{}, ""
	for _, k := range r.Checks {
		count[k.State]++
		name := k.Check
		if name == last {
			name = ""
		}
		last = k.Check
		fmt.Fprintf(t, "%s\t%s\t%s\n", name, k.State, dye[k.State](k.Seen))
		if k.Next != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", k.Next)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d ok, %d %s, %d failed, %d not checked\n", count[preflight.OK], count[preflight.Warning],
		pluralize("warning", count[preflight.Warning]), count[preflight.Failed], count[preflight.NotChecked])
	return err
}
