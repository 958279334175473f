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

// clusterAccess holds what a command needs to read a cluster: its API server, the OVN databases and the settings of the
// controller that runs there.
type clusterAccess struct {
	kubeconfig, context string
	surveyPath          string   // a survey file to read instead of a cluster
	surveyLimit         byteSize // maximum size of that file
	timeout             time.Duration
	config              controller.Config
	namespaces          kube.Namespaces
	command             *cobra.Command

	controllerConfig controller.Config // of the running controller
	relay            *databaseAccess   // nil: not needed, or not available
	incomplete       error             // what the command could not read; nil: nothing
}

// controllerFlagHelp is the help of flags for the controller's own settings.
const controllerFlagHelp = "same as the controller flag (default: read from the controller's Deployment)"

// addFlags adds the flags to a command. Flags for the controller's settings are hidden, because the settings are read
// from the cluster.
func (a *clusterAccess) addFlags(cmd *cobra.Command) {
	a.command = cmd
	a.wrapRun(cmd)
	flags := cmd.Flags()
	theirs := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.config.AddFlags(theirs)
	theirs.VisitAll(func(f *pflag.Flag) { f.Usage, f.Hidden = controllerFlagHelp, true })
	for name, usage := range map[string]string{
		"nb-address": "servers of the OVN northbound database (default: $OVN_NB_DB, else through the API server)",
		"sb-address": "servers of the OVN southbound database (default: $OVN_SB_DB, else through the API server)",
		"nb-cert":    "client certificate file for ssl: servers, for both databases",
		"nb-key":     "private key file of the client certificate",
		"nb-ca":      "CA certificate file to verify the database servers",
	} {
		theirs.Lookup(name).Usage, theirs.Lookup(name).Hidden = usage, false
	}
	flags.AddFlagSet(theirs)
	flags.StringVar(&a.namespaces.Controller, "controller-namespace", kube.DefaultNamespaces.Controller,
		"namespace of Sallyport; objects with its names in other namespaces are ignored")
	flags.StringVar(&a.namespaces.Agent, "agent-namespace", "",
		"namespace of Sallyport's agents, agent.namespace of the chart (default: --controller-namespace)")
	flags.StringVar(&a.namespaces.KubeOVN, "kube-ovn-namespace", kube.DefaultNamespaces.KubeOVN,
		"namespace of Kube-OVN; its Deployment holds the addresses of the OVN databases")
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)")
	flags.StringVar(&a.context, "context", "", "kubeconfig context (default: current context)")
	flags.StringVar(&a.surveyPath, "survey", "", "survey or bundle file to read instead of a cluster")
	a.surveyLimit = clusterstate.DefaultLimit
	flags.Var(&a.surveyLimit, "survey-limit", "maximum size of the survey, compressed or not, such as 512Mi or 2Gi")
	flags.DurationVar(&a.timeout, "timeout", time.Minute, "maximum time to read the cluster")
}

// takeSurvey collects the state of the cluster, or reads it from the survey file.
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
	return a.collectState(ctx, o, scope), nil
}

// compareShards compiles shards and compares them with the cluster, or reads the result from the survey file.
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

// openObserver opens a collector for the cluster. The caller must close it.
func (a *clusterAccess) openObserver(ctx context.Context) (*collector.Collector, error) {
	config, name, err := kube.LoadConfigContext(a.kubeconfig, a.context)
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w; set --kubeconfig, or use --survey with a survey file", err)
	}
	a.config.Kubernetes = config
	found, err := kube.DiscoverSettings(ctx, config, a.namespaces)
	if err != nil {
		return nil, err
	}
	for _, problem := range append(a.completeConfig(found), warnIgnored(found.IgnoredDeployments)...) {
		fmt.Fprintln(a.command.ErrOrStderr(), "warning:", problem)
	}
	a.connectDatabases(ctx, found)
	if nb := &a.config.Northbound; nb.NeedsTLS() && nb.CertFile == "" && found.TLSSecret.Name != "" {
		// Without permission to read the Secret, connecting later reports that the certificates are missing.
		nb.Certificates, _ = kube.ReadCertificates(ctx, config, found.TLSSecret)
	}
	a.config.ShareCertificates()
	return collector.Open(collector.Config{
		Cluster:    cmp.Or(name, "in the cluster"),
		Controller: a.config,
		Namespaces: a.namespaces,
		Sync:       a.syncFunc(),
	})
}

// maxShownIgnored limits the ignored Deployments that a warning names, because tenants decide how many exist.
const maxShownIgnored = 3

// warnIgnored returns a warning about Deployments with the platform's names in other namespaces.
func warnIgnored(all []client.ObjectKey) []string {
	if len(all) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Deployments ignored because they are not in the platform's namespaces: %s; "+
		"if one of them belongs to the platform, set --controller-namespace or --kube-ovn-namespace",
		humanize.JoinLimited(humanize.Strings(all), maxShownIgnored))}
}

// completeConfig fills in settings without a flag from the environment and from the settings found in the cluster.
// Settings that cannot be used are returned as problems: one unknown setting must not fail the whole command.
func (a *clusterAccess) completeConfig(found kube.DiscoveredSettings) (problems []string) {
	for _, db := range []struct {
		to          *[]string
		environment string
	}{
		{&a.config.Northbound.Endpoints, "OVN_NB_DB"}, {&a.config.Southbound.Endpoints, "OVN_SB_DB"},
	} {
		if text := os.Getenv(db.environment); len(*db.to) == 0 && text != "" {
			*db.to = strings.Split(text, ",")
		}
	}
	theirs := pflag.NewFlagSet("", pflag.ContinueOnError)
	theirs.ParseErrorsAllowlist.UnknownFlags = true
	a.controllerConfig.AddFlags(theirs)
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
	return problems
}

// adoptSetting uses a setting of the controller unless the user set the flag. Certificates are skipped: they are files
// of the controller's pod.
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

// byteSize is a number of bytes as a Kubernetes quantity.
type byteSize int64

func (s *byteSize) String() string {
	return resource.NewQuantity(int64(*s), resource.BinarySI).String()
}

// Type returns the name of the value in help.
func (*byteSize) Type() string { return "size" }

// Set parses text.
func (s *byteSize) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() <= 0 {
		return errors.New("want a positive number of bytes, such as 512Mi or 2Gi")
	}
	*s = byteSize(q.Value())
	return nil
}
