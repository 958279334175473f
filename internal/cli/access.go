package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
)

// clusterAccess is how a command reaches a cluster: its API server, OVN's databases, and what the controller there was
// told.
type clusterAccess struct {
	kubeconfig, context string
	surveyPath          string   // a survey that was taken before
	surveyLimit         byteSize // of that file
	timeout             time.Duration
	config              controller.Config
	namespaces          kube.Namespaces
	command             *cobra.Command
}

// controllerFlagHelp is what help says of the controller's own settings.
const controllerFlagHelp = "as the controller has it; not given: as its Deployment says"

// addFlags adds the flags to a command. Those for the controller's settings are not in its help: they are found in the
// cluster.
func (a *clusterAccess) addFlags(cmd *cobra.Command) {
	a.command = cmd
	flags := cmd.Flags()
	theirs := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.config.AddFlags(theirs)
	theirs.VisitAll(func(f *pflag.Flag) { f.Usage, f.Hidden = controllerFlagHelp, true })
	for name, usage := range map[string]string{
		"nb-address": "servers of the OVN northbound database; not given: $OVN_NB_DB, or those that Kube-OVN has",
		"sb-address": "servers of the OVN southbound database; not given: $OVN_SB_DB, or those that Kube-OVN has",
		"nb-cert":    "certificate for ssl: servers", "nb-key": "its key",
		"nb-ca": "certificate of the databases' authority",
	} {
		theirs.Lookup(name).Usage, theirs.Lookup(name).Hidden = usage, false
	}
	flags.AddFlagSet(theirs)
	flags.StringVar(&a.namespaces.Controller, "controller-namespace", kube.DefaultNamespaces.Controller,
		"namespace of Sallyport; what has its names elsewhere is ignored")
	flags.StringVar(&a.namespaces.KubeOVN, "kube-ovn-namespace", kube.DefaultNamespaces.KubeOVN,
		"namespace of Kube-OVN, whose Deployment names OVN's databases")
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: $KUBECONFIG, or the usual place")
	flags.StringVar(&a.context, "context", "", "context of the kubeconfig; empty: the one in force")
	flags.StringVar(&a.surveyPath, "survey", "", "file with a survey that was taken before, instead of a cluster")
	a.surveyLimit = clusterstate.DefaultLimit
	flags.Var(&a.surveyLimit, "survey-limit", "how large the survey may be, packed or not, as in 512Mi or 2Gi")
	flags.DurationVar(&a.timeout, "timeout", time.Minute, "how long reading the cluster may take")
}

// takeSurvey takes a survey of the cluster, or reads one from a file.
func (a *clusterAccess) takeSurvey(ctx context.Context, scope collector.Scope) (*clusterstate.State, error) {
	if a.surveyPath != "" {
		return a.readSurveyFile()
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	o, err := a.openObserver(ctx)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return o.Collect(ctx, scope), nil
}

// compareShards compiles shards of the cluster and compares them with what is there, or reads that from a file.
func (a *clusterAccess) compareShards(ctx context.Context, scope collector.Scope) ([]clusterstate.Shard, error) {
	if a.surveyPath != "" {
		s, err := a.readSurveyFile()
		if err != nil {
			return nil, err
		}
		return slices.DeleteFunc(s.Shards, func(shard clusterstate.Shard) bool {
			return !scope.AllShards && !slices.Contains(scope.Shards, shard.Name)
		}), nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	o, err := a.openObserver(ctx)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return o.CollectShards(ctx, scope)
}

func (a *clusterAccess) readSurveyFile() (*clusterstate.State, error) {
	file, err := os.Open(a.surveyPath)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s, err := readSurvey(file, int64(a.surveyLimit))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", a.surveyPath, err)
	}
	return s, nil
}

// openObserver is an observer of the cluster. Close it.
func (a *clusterAccess) openObserver(ctx context.Context) (*collector.Collector, error) {
	config, name, err := kube.LoadConfigContext(a.kubeconfig, a.context)
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w; give --kubeconfig, or --survey with a survey that was taken before", err)
	}
	a.config.Kubernetes = config
	found, err := kube.DiscoverSettings(ctx, config, a.namespaces)
	if err != nil {
		return nil, err
	}
	for _, problem := range append(a.completeConfig(found), warnIgnored(found.IgnoredDeployments)...) {
		fmt.Fprintln(a.command.ErrOrStderr(), "warning:", problem)
	}
	if nb := &a.config.Northbound; nb.NeedsTLS() && nb.CertFile == "" && found.TLSSecret.Name != "" {
		// Who may not read them is told that they are missing.
		nb.Certificates, _ = kube.ReadCertificates(ctx, config, found.TLSSecret)
	}
	a.config.ShareCertificates()
	return collector.Open(collector.Config{
		Cluster:    cmp.Or(name, "in the cluster"),
		Controller: a.config,
		Namespaces: a.namespaces,
	})
}

// maxShownIgnored is how many Deployments that are ignored a warning names: tenants decide how many there are.
const maxShownIgnored = 3

// warnIgnored warns of Deployments that have the platform's names in other namespaces.
func warnIgnored(all []client.ObjectKey) []string {
	if len(all) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Deployments ignored because they are not in the platform's namespaces: %s; if one of them is yours, say "+
		"--controller-namespace or --kube-ovn-namespace", humanize.JoinLimited(humanize.Strings(all), maxShownIgnored))}
}

// completeConfig fills in what was not given: from the environment, and from what was found in the cluster. What can't
// be taken from there is returned as problems: it is one setting that is not known, and no reason to show nothing.
func (a *clusterAccess) completeConfig(found kube.DiscoveredSettings) (problems []string) {
	for _, db := range []struct {
		to          *[]string
		environment string
		found       []string
	}{
		{&a.config.Northbound.Endpoints, "OVN_NB_DB", found.Northbound},
		{&a.config.Southbound.Endpoints, "OVN_SB_DB", found.Southbound},
	} {
		if text := os.Getenv(db.environment); len(*db.to) == 0 && text != "" {
			*db.to = strings.Split(text, ",")
		}
		if len(*db.to) == 0 {
			*db.to = db.found
		}
	}
	var there controller.Config
	theirs := pflag.NewFlagSet("", pflag.ContinueOnError)
	theirs.ParseErrorsAllowlist.UnknownFlags = true
	there.AddFlags(theirs)
	err := theirs.ParseAll(found.ControllerArgs, func(f *pflag.Flag, value string) error {
		if err := a.adoptSetting(f, value); err != nil {
			problems = append(problems, fmt.Sprintf("--%s=%s of the controller's Deployment is ignored: %v", f.Name,
				humanize.Quote(value), err))
		}
		return nil
	})
	if err != nil {
		problems = append(problems, fmt.Sprintf("arguments of the controller's Deployment are ignored: %v", err))
	}
	if len(a.config.Northbound.Endpoints) == 0 {
		a.config.Northbound.Endpoints = there.Northbound.Endpoints
	}
	if len(a.config.Southbound.Endpoints) == 0 {
		a.config.Southbound.Endpoints = there.Southbound.Endpoints
	}
	return problems
}

// adoptSetting takes a setting from the controller, unless the user gave another. Certificates are files of the
// controller's pod.
func (a *clusterAccess) adoptSetting(theirs *pflag.Flag, value string) error {
	if err := theirs.Value.Set(value); err != nil {
		return err
	}
	ours := a.command.Flags()
	if strings.HasPrefix(theirs.Name, "nb-") || theirs.Name == "sb-address" || ours.Changed(theirs.Name) {
		return nil
	}
	return ours.Lookup(theirs.Name).Value.Set(value)
}

// byteSize is a number of bytes, as Kubernetes writes it.
type byteSize int64

func (s *byteSize) String() string {
	return resource.NewQuantity(int64(*s), resource.BinarySI).String()
}

// Type is what help calls it.
func (*byteSize) Type() string { return "size" }

// Set reads it.
func (s *byteSize) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() <= 0 {
		return errors.New("give a number of bytes, as in 512Mi or 2Gi")
	}
	*s = byteSize(q.Value())
	return nil
}
