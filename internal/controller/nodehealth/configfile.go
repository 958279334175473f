package nodehealth

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// featureSection is the section of OVN-Kubernetes' configuration file that has the settings of health checks.
const featureSection = "ovnkubernetesfeature"

// sharedSettings are the settings that have the same names as in OVN-Kubernetes. A program may lack one.
var sharedSettings = []string{"egressip-reachability-total-timeout", "egressip-node-healthcheck-port"}

// AddConfigFileFlag adds the flag for a configuration file.
func AddConfigFileFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "config-file", "", "configuration file of OVN-Kubernetes; "+strings.Join(sharedSettings, " and ")+
		" of its section ["+featureSection+"] are used unless they are given as flags")
}

// ApplyConfigFile sets flags that were not given from the configuration file of OVN-Kubernetes. The file has settings of
// many programs; all others are ignored. An empty path means that there is no file.
func ApplyConfigFile(path string, f *pflag.FlagSet) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return fmt.Errorf("--config-file: %w", err)
	}
	values := parseFeatureSection(string(text))
	for _, name := range sharedSettings {
		value, set := values[name]
		flag := f.Lookup(name)
		if !set || flag == nil || flag.Changed {
			continue
		}
		if err := f.Set(name, value); err != nil {
			return fmt.Errorf("--config-file %s: [%s] %s=%s: %w", path, featureSection, name, value, err)
		}
	}
	return nil
}

// parseFeatureSection returns the settings of the section. A line is a section, a setting, or a comment.
func parseFeatureSection(text string) map[string]string {
	out, inside := map[string]string{}, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			inside = strings.EqualFold(strings.Trim(line, "[] \t"), featureSection)
			continue
		}
		name, value, isSetting := strings.Cut(line, "=")
		if inside && isSetting && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			out[strings.TrimSpace(name)] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return out
}
