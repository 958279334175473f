package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// versions is the output of version.
type versions struct {
	Client     string `json:"client"`
	Controller string `json:"controller,omitempty"` // the image
	Agent      string `json:"agent,omitempty"`      // the image
	Kubernetes string `json:"kubernetes,omitempty"`
	KubeOVN    string `json:"kubeOVN,omitempty"`
	// Problem is why the cluster could not be read.
	Problem string `json:"problem,omitempty"`
}

func versionCommand(version string) *cobra.Command {
	var a clusterAccess
	var o outputFlags
	var clientOnly bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of what runs in the cluster",
		Long: `Print the version of this program, the images of Sallyport's controller and
agents, and the versions of Kubernetes and Kube-OVN. Sallyport publishes no version
of its own in the cluster: its images are what the Deployment and the DaemonSet of
the chart name. Exit codes: 0; 1 if the cluster could not be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{Client: version}
			if !clientOnly {
				v.readServer(cmd, &a)
			}
			v = clusterstate.EscapeControlChars(v)
			if err := o.printResult(cmd, v, v.printText); err != nil {
				return err
			}
			if v.Problem != "" {
				return exitStatus(1)
			}
			return nil
		},
	}
	a.addFlags(cmd)
	o.addFlag(cmd)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not read a cluster")
	return cmd
}

// readServer adds the versions in the cluster.
func (v *versions) readServer(cmd *cobra.Command, a *clusterAccess) {
	config, _, err := kube.LoadConfigContext(a.kubeconfig, a.context)
	if err != nil {
		v.Problem = "load the kubeconfig: " + err.Error()
		return
	}
	found, err := kube.ReadVersions(cmd.Context(), config, a.namespaces)
	if err != nil {
		v.Problem = err.Error()
		return
	}
	v.Controller, v.Agent, v.Kubernetes, v.KubeOVN = found.ControllerImage, found.AgentImage, found.Kubernetes, found.KubeOVN
}

// printText prints one line for each program.
func (v versions) printText(w io.Writer, i colorizer) error {
	t := newTable(w)
	fmt.Fprintf(t, "client\t%s\n", v.Client)
	if v.Kubernetes != "" {
		fmt.Fprintf(t, "controller\t%s%s\n", cmp.Or(v.Controller, "no Deployment"), v.describeSkew(v.Controller, i))
		fmt.Fprintf(t, "agent\t%s%s\n", cmp.Or(v.Agent, "no DaemonSet"), v.describeSkew(v.Agent, i))
		fmt.Fprintf(t, "Kubernetes\t%s\n", v.Kubernetes)
		fmt.Fprintf(t, "Kube-OVN\t%s\n", describeKubeOVN(v.KubeOVN))
	}
	if v.Problem != "" {
		fmt.Fprintf(t, "cluster\t%s\n", i.red(v.Problem))
	}
	return t.Flush()
}

// describeSkew says that an image has another version than this program.
func (v versions) describeSkew(image string, i colorizer) string {
	at := strings.LastIndex(image, ":")
	if at < 0 || strings.Contains(image[at:], "/") || image[at+1:] == v.Client || strings.Contains(image, "@") {
		return ""
	}
	return i.yellow(" (not the version of this program)")
}

// describeKubeOVN says whether tests run with a version.
func describeKubeOVN(text string) string {
	version, known := kubeovn.ParseVersion(text)
	switch {
	case !known:
		return cmp.Or(text, "unknown")
	case version.IsTested():
		return text
	default:
		return text + " (not tested; tests run " + kubeovn.TestedVersion.String() + ")"
	}
}
