package view

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestDay3Check checks a real API server and Kube-OVN before an installation, and then with one fault at a time. All faults
// that check knows are named by the unit tests of package preflight, on objects in memory.
func TestDay3Check(t *testing.T) {
	item := dayItems.Item(t, 3)
	c := harness.SharedSallyport(t)
	healthy := problemsOfCheck(t, c)
	// Kube-OVN of the lab does not use TLS, the CRDs are not of Helm, and one network has IPv6.
	known := []string{"DatabasesWithoutTLS", "DefinitionNotOfHelm", "SubnetWithIPv6"}
	for _, p := range healthy {
		if !slices.Contains(known, p.Code) {
			t.Errorf("a cluster without faults: %v", p)
		}
	}
	faults := []checkFault{
		{
			code:   "OtherInstallation",
			make:   []string{"create", "deployment", "sallyport-controller", "--image=none", "--replicas=0", "-n", "default"},
			mended: []string{"delete", "deployment", "sallyport-controller", "-n", "default"},
		},
		{
			code:   "DefinitionOfAnotherRelease",
			make:   []string{"annotate", "crd", "eips.kube-dc.com", "meta.helm.sh/release-name=other", "meta.helm.sh/release-namespace=other"},
			mended: []string{"annotate", "crd", "eips.kube-dc.com", "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-"},
		},
		{code: "NamespaceMissing", args: []string{"--controller-namespace", "day3-none"}},
		{code: "SecretMissing", args: []string{"--ovn-tls-secret", "day3-none"}},
		{code: "KubeOVNNotFound", args: []string{"--kube-ovn-namespace", "day3-none"}},
	}
	if show.IsFullSize() {
		faults = append(faults, otherCheckFaults...)
	}
	for _, f := range faults {
		if f.make != nil {
			kubectl(t, c, f.make...)
		}
		if f.objects != "" {
			c.Apply(t, f.objects)
		}
		if f.settled != nil {
			f.settled(t, c)
		}
		found := problemsOfCheck(t, c, f.args...)
		if f.mended != nil {
			kubectl(t, c, f.mended...)
		}
		if !slices.ContainsFunc(found, func(p checkProblem) bool { return p.Code == f.code && p.Next != "" }) {
			t.Errorf("%s is not named: %v", f.code, found)
		}
	}
	if after := problemsOfCheck(t, c); !slices.Equal(after, healthy) {
		t.Errorf("with all faults mended: %v, and before %v", after, healthy)
	}
	item.AddFigure("%d faults in a lab are named, none without them", len(faults))
}

// checkFault is a fault of a cluster that check names.
type checkFault struct {
	code         string
	make, mended []string // arguments of kubectl
	objects      string   // manifests
	settled      func(*testing.T, *harness.Cluster)
	args         []string // of check
}

// faultySubnet returns a fault of a labelled Subnet.
func faultySubnet(code, labels, spec string) checkFault {
	return checkFault{
		code: code, mended: []string{"delete", "subnet", "day3"},
		objects: fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: day3, labels: "+
			"{network.kube-dc.com/external-network-type: day3%s}}, spec: {%s}}", labels, spec),
	}
}

// secretFault returns a fault of the Secret with the certificates of OVN's databases.
func secretFault(code string, keys ...string) checkFault {
	return checkFault{
		code: code, mended: []string{"delete", "secret", "-n", harness.ChartNamespace, "day3"},
		make: append([]string{"create", "secret", "generic", "-n", harness.ChartNamespace, "day3"}, keys...),
		args: []string{"--ovn-tls-secret", "day3"},
	}
}

// otherCheckFaults are made at full size only.
var otherCheckFaults = []checkFault{
	faultySubnet("SeveralDefaultNetworks", ", network.kube-dc.com/default-external: 'true'", tinySpec),
	faultySubnet("SubnetWithoutVlan", "", "protocol: IPv4, cidrBlock: 198.19.90.0/29, gateway: 198.19.90.1"),
	faultySubnet("VlanMissing", "", "protocol: IPv4, cidrBlock: 198.19.90.0/29, gateway: 198.19.90.1, vlan: day3-none"),
	faultySubnet("SubnetGatewayOutside", "", "protocol: IPv4, cidrBlock: 198.19.90.0/29, gateway: 198.19.91.1, vlan: ext-third"),
	faultySubnet("SubnetWithoutIPv4", "", "protocol: IPv6, cidrBlock: 'fd00:90::/120', gateway: 'fd00:90::1', vlan: ext-third"),
	fullSubnetFault(),
	missingProviderFault(),
	secretFault("SecretIncomplete", "--from-literal=other=x"),
	secretFault("CertificateInvalid", "--from-literal=cacert=x", "--from-literal=cert=x", "--from-literal=key=x"),
}

const tinySpec = "protocol: IPv4, cidrBlock: 198.19.90.0/29, gateway: 198.19.90.1, vlan: ext-third"

// fullSubnetFault returns a Subnet without a free address.
func fullSubnetFault() checkFault {
	out := faultySubnet("SubnetFull", "", tinySpec+", excludeIps: ['198.19.90.1..198.19.90.6']")
	out.settled = func(t *testing.T, c *harness.Cluster) {
		c.WaitForObject(t, "Subnet", "", "day3", manifest.True("Ready"))
	}
	return out
}

// missingProviderFault returns a Subnet on a Vlan whose ProviderNetwork does not exist.
func missingProviderFault() checkFault {
	out := faultySubnet("ProviderNetworkMissing", "", "protocol: IPv4, cidrBlock: 198.19.90.0/29, gateway: 198.19.90.1, vlan: day3")
	out.objects += "\n---\n{apiVersion: kubeovn.io/v1, kind: Vlan, metadata: {name: day3}, spec: {id: 0, provider: day3-none}}"
	out.mended = []string{"delete", "subnet/day3", "vlan/day3"}
	return out
}

// checkProblem is a check that is not ok.
type checkProblem struct{ Check, State, Code, Next string }

// problemsOfCheck runs sallyport check and returns what is not ok. The lab has no Services of OVN's databases.
func problemsOfCheck(t *testing.T, c *harness.Cluster, args ...string) (problems []checkProblem) {
	t.Helper()
	args = append([]string{"check", "-o", "json", "--nb-address", "ssl:192.0.2.1:6641"}, args...)
	cmd := exec.CommandContext(harness.Within(t, harness.Patience), filepath.Join(binDir(t), "sallyport"), args...)
	cmd.Env = []string{"KUBECONFIG=" + c.Kubeconfig(), "TMPDIR=" + os.TempDir()}
	out, err := cmd.Output()
	var report struct{ Checks []checkProblem }
	if json.Unmarshal(out, &report) != nil || len(report.Checks) < 10 {
		t.Fatalf("sallyport %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, p := range report.Checks {
		if p.Code != "" {
			problems = append(problems, p)
		}
	}
	return problems
}
