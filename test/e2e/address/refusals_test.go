package address

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestAPIRefusesWhatCannotWork checks that invalid specs are refused with the next step in the message, and that a
// similar valid spec is accepted.
func TestAPIRefusesWhatCannotWork(t *testing.T) {
	c := harness.SharedLab(t)
	c.InstallCRDs(t)
	const namespace = "refusals"
	c.CreateNamespace(t, namespace, "")
	for i, r := range slices.Concat(projectCases, eipCases, fipCases, networkCases) {
		// control
		if err := c.Objects.Trying().Apply(harness.Within(t, harness.Patience),
			r.manifestOf(namespace, fmt.Sprintf("good-%d", i), r.validSpec)); err != nil {
			t.Error(err)
		}
		expectRefusal(t, c, r.manifestOf(namespace, fmt.Sprintf("bad-%d", i), r.invalidSpec), r.refusal)
	}
}

// TestAPIRefusesChanges checks that changes of immutable fields are refused.
func TestAPIRefusesChanges(t *testing.T) {
	c := harness.SharedLab(t)
	c.InstallCRDs(t)
	const namespace = "changes"
	c.CreateNamespace(t, namespace, "")
	for i, r := range updateCases {
		name := fmt.Sprintf("fixed-%d", i)
		c.Apply(t, r.manifestOf(namespace, name, r.validSpec))
		if r.refusal == "" { // control: this may change
			c.Apply(t, r.manifestOf(namespace, name, r.invalidSpec))
			continue
		}
		expectRefusal(t, c, r.manifestOf(namespace, name, r.invalidSpec), r.refusal)
	}
}

// TestAPIRefusesNames checks the length limits of names that become parts of longer names.
func TestAPIRefusesNames(t *testing.T) {
	c := harness.SharedLab(t)
	c.InstallCRDs(t)
	const namespace = "names"
	c.CreateNamespace(t, namespace, "")
	project := validationCase{
		kind:      "Project",
		validSpec: "{cidrBlock: 10.0.0.0/24, egressNetworkType: cloud}",
		refusal:   "choose one of at most 53",
	}
	eip := validationCase{kind: "EIp", validSpec: "{}", refusal: "choose one of at most 185"}
	fip := validationCase{kind: "FIp", validSpec: "{ipAddress: 10.0.0.7}", refusal: "choose one of at most 175"}
	for _, n := range []struct {
		validationCase
		longest int
	}{{project, 53}, {eip, 185}, {fip, 175}} {
		c.Apply(t, n.manifestOf(namespace, strings.Repeat("x", n.longest), n.validSpec)) // control
		expectRefusal(t, c, n.manifestOf(namespace, strings.Repeat("x", n.longest+1), n.validSpec), n.refusal)
	}
	expectRefusal(t, c, project.manifestOf(namespace, "a.b", project.validSpec), project.refusal)
}

const (
	cloudProject = "{cidrBlock: 10.0.0.0/24, egressNetworkType: cloud}"
	dualProject  = `{cidrBlock: "10.0.0.0/24,fd00:10::/64", egressNetworkType: cloud}`
)

var projectCases = []validationCase{
	{"Project", cloudProject, "{egressNetworkType: cloud}", "spec.cidrBlock: Required"},
	{"Project", cloudProject, "{cidrBlock: 10.0.0.0/24}", "spec.egressNetworkType: Required"},
	{"Project", cloudProject, "{cidrBlock: 10.0.0.0, egressNetworkType: cloud}", "must be a CIDR such as 10.0.0.0/24"},
	{
		"Project", dualProject, `{cidrBlock: "10.0.0.0/24, fd00:10::/64", egressNetworkType: cloud}`,
		"with a comma and no space between",
	},
	{
		"Project", dualProject, `{cidrBlock: "10.0.0.0/24,10.1.0.0/24", egressNetworkType: cloud}`,
		"one CIDR of each family",
	},
	{
		"Project", dualProject, `{cidrBlock: "10.0.0.0/24,fd00:10::/64,fd00::/64", egressNetworkType: cloud}`,
		"one CIDR of each family",
	},
	{
		"Project", "{cidrBlock: 223.255.255.0/24, egressNetworkType: cloud}",
		"{cidrBlock: 224.0.0.0/24, egressNetworkType: cloud}", "must be unicast",
	},
	{
		"Project", "{cidrBlock: 10.0.0.0/30, egressNetworkType: cloud}",
		"{cidrBlock: 10.0.0.0/31, egressNetworkType: cloud}", "at most 30 bits",
	},
	{
		"Project", "{cidrBlock: 10.0.0.0/8, egressNetworkType: cloud}",
		"{cidrBlock: 10.0.0.0/7, egressNetworkType: cloud}", "too wide",
	},
	{
		"Project", "{cidrBlock: 'fd00::/48', egressNetworkType: cloud}",
		"{cidrBlock: 'fd00::/47', egressNetworkType: cloud}", "48 bits",
	},
	{
		"Project", "{cidrBlock: 'fd00::/126', egressNetworkType: cloud}",
		"{cidrBlock: 'fd00::/127', egressNetworkType: cloud}", "126 bits",
	},
	{
		"Project", "{cidrBlock: 10.0.0.0/24, egressNetworkType: gold.v2_x-1}",
		"{cidrBlock: 10.0.0.0/24, egressNetworkType: a b}",
		"a type of network is a word",
	},
	{"Project", cloudProject, "{cidrBlock: 10.0.0.0/24, egressNetworkType: ''}", "at least 1 chars"},
	{
		"Project", "{cidrBlock: 10.0.0.0/24, egressNetworkType: cloud, gwLanIp: 10.0.0.254}",
		"{cidrBlock: 10.0.0.0/24, egressNetworkType: cloud, gwLanIp: 10.0.1.1}", "must be an address inside cidrBlock",
	},
	{
		"Project", `{cidrBlock: "10.0.0.0/24,fd00:10::/64", egressNetworkType: cloud, gwLanIp: "10.0.0.1,fd00:10::1"}`,
		`{cidrBlock: "10.0.0.0/24,fd00:10::/64", egressNetworkType: cloud, gwLanIp: "10.0.0.1,fd00:11::1"}`,
		"must be an address inside cidrBlock",
	},
	{
		"Project", "{cidrBlock: 10.0.0.0/24, egressNetworkType: cloud, eipQuota: 0}",
		"{cidrBlock: 10.0.0.0/24, egressNetworkType: cloud, eipQuota: -1}", "spec.eipQuota",
	},
}

var eipCases = []validationCase{
	{"EIp", "{externalNetwork: ext-cloud}", "{externalNetwork: ext cloud}", "externalNetwork is the name of an object"},
	{"EIp", "{childRef: eip-a.b}", "{childRef: eip=a}", "childRef is the name of an object"},
	{
		"EIp", "{externalNetwork: ext-cloud}", "{externalNetwork: ext-cloud, childRef: x}",
		"keep the one that says where the address comes from",
	},
	{
		"EIp", "{externalNetworkType: cloud}", "{externalNetworkType: cloud, childRef: x}",
		"keep the one that says where the address comes from",
	},
	{
		"EIp", "{externalNetworkType: cloud, externalNetwork: ''}",
		"{externalNetworkType: cloud, externalNetwork: ext-cloud}",
		"keep the one that says where the address comes from",
	},
	{"EIp", "{childRef: x}", "{childRef: x, ipAddress: 100.65.0.9}", "childRef and ipAddress exclude each other"},
	{
		"EIp", "{externalNetworkType: cloud, ipAddress: 100.65.0.9}", "{ipAddress: 100.65.0.9/16}",
		"without a prefix length",
	},
	{"EIp", "{ipAddress: '2001:db8::9'}", "{ipAddress: 100.65.0.256}", "must be one address"},
	{"EIp", "{}", "{externalNetworkType: a b}", "a type of network is a word"},
	{"EIp", "{ipFamily: IPv6, ipAddress: '2001:db8::9'}", "{ipFamily: Dual}", "Unsupported value"},
	{"EIp", "{childRef: x, ipFamily: IPv4}", "{childRef: x, ipFamily: IPv6}", "childRef and ipFamily IPv6 exclude each other"},
}

var fipCases = []validationCase{
	{"FIp", "{ipAddress: 10.0.0.7, eip: web}", `{ipAddress: 10.0.0.7, eip: 'web"'}`, "eip is the name of an object"},
	{"FIp", "{podTarget: {podName: web-0}}", "{podTarget: {podName: web_0}}", "podName is the name of an object"},
	{"FIp", "{vmTarget: {vmName: web}}", "{vmTarget: {vmName: Web}}", "vmName is the name of an object"},
	{
		"FIp", "{vmTarget: {vmName: web, interfaceName: eth0.7}}", "{vmTarget: {vmName: web, interfaceName: eth 0}}",
		"interfaceName is a word",
	},
	{"FIp", "{ipAddress: 10.0.0.7}", "{}", "exactly one target"},
	{
		"FIp", "{vmTarget: {vmName: a}, externalNetworkType: third}", "{externalNetworkType: third}",
		"exactly one target",
	},
	{"FIp", "{vmTarget: {vmName: a}}", "{vmTarget: {vmName: a}, ipAddress: 10.0.0.7}", "exactly one target"},
	{"FIp", "{podTarget: {podName: a}}", "{podTarget: {podName: a}, vmTarget: {vmName: a}}", "exactly one target"},
	{"FIp", "{podTarget: {podName: a}}", "{podTarget: {}}", "spec.podTarget.podName: Required"},
	{
		"FIp", "{vmTarget: {vmName: a, interfaceName: net1}}", "{vmTarget: {interfaceName: net1}}",
		"spec.vmTarget.vmName: Required",
	},
	{
		"FIp", "{ipAddress: 10.0.0.7, eip: a}", "{ipAddress: 10.0.0.7, eip: a, externalNetworkType: cloud}",
		"eip and externalNetworkType exclude each other",
	},
	{"FIp", "{ipAddress: 'fd00:10::7'}", "{ipAddress: web}", "must be one address"},
	{
		"FIp", "{ipAddress: 'fd00:10::7', ipFamily: IPv6}", "{ipAddress: 'fd00:10::7', ipFamily: IPv6, eip: a}",
		"eip and ipFamily exclude each other",
	},
}

var networkCases = []validationCase{
	{
		"ExternalNetwork", "{type: cloud, subnets: [a, b], default: true}", "{type: cloud, subnets: []}",
		"needs subnets, nodes or both",
	},
	{
		"ExternalNetwork", "{type: cloud, nodes: {interface: eth1, gateways: [192.0.2.1]}}", "{type: cloud}",
		"needs subnets, nodes or both",
	},
	{
		"ExternalNetwork", "{type: cloud, nodes: {mac: '52:54:00:00:00:01', gateways: [192.0.2.1]}}",
		"{type: cloud, nodes: {gateways: [192.0.2.1]}}", "name the interface once",
	},
	{
		"ExternalNetwork", "{type: cloud, nodes: {interface: eth1, gateways: ['2001:db8::1']}}",
		"{type: cloud, nodes: {interface: eth1, gateways: [router]}}", "must be an IP address",
	},
	{
		"ExternalNetwork", "{type: cloud, nodes: {interface: eth1, gateways: [192.0.2.1], method: Static, clients: [198.51.100.0/24]}}",
		"{type: cloud, nodes: {interface: eth1, gateways: [192.0.2.1], method: Static}}", "method Static needs clients",
	},
	{
		"ExternalNetwork", "{type: cloud, nodes: {interface: eth1, gateways: [192.0.2.1], method: Mark, addresses: [198.51.100.0/24]}}",
		"{type: cloud, nodes: {interface: eth1, gateways: [192.0.2.1], method: Mark}}", "need addresses",
	},
	{
		"ExternalNetwork", "{type: cloud, nodes: {interface: eth1, gateways: [192.0.2.1], method: VRF, legs: true, addresses: [198.51.100.0/24]}}",
		"{type: cloud, nodes: {interface: eth1, gateways: [192.0.2.1], legs: true}}", "legs are of method VRF",
	},
	{
		"ExternalNetwork", "{type: cloud, subnets: [a], ipv6: {cidr: '2001:db8::/64', gateway: '2001:db8::1'}}",
		"{type: cloud, subnets: [a], ipv6: {cidr: 192.0.2.0/24, gateway: '2001:db8::1'}}", "cidr must be an IPv6 prefix",
	},
	{
		"ExternalNetwork", "{type: cloud, subnets: [a], ipv6: {cidr: '2001:db8::/64', gateway: '2001:db8::1', range: '2001:db8::1:0/112'}}",
		"{type: cloud, subnets: [a], ipv6: {cidr: '2001:db8::/64', gateway: 192.0.2.1}}", "gateway must be an IPv6 address",
	},
	{
		"ExternalNetwork", "{type: cloud, subnets: [a], ipv6: {cidr: '2001:db8::/64', gateway: '2001:db8::1', range: ''}}",
		"{type: cloud, subnets: [a], ipv6: {cidr: '2001:db8::/64', gateway: '2001:db8::1', range: '2001:db8::1'}}",
		"range must be an IPv6 prefix",
	},
	{"ExternalNetwork", "{type: cloud, subnets: [a]}", "{subnets: [a]}", "spec.type: Required"},
	{"ExternalNetwork", "{type: cloud, subnets: [a]}", "{type: '', subnets: [a]}", "type must not be empty"},
	{"ExternalNetwork", "{type: cloud, subnets: [a, b]}", "{type: cloud, subnets: [a, a]}", "uplicate"},
}

// updateCases are changes from the valid to the invalid spec. Cases without a refusal are accepted.
var updateCases = []validationCase{
	{"Project", cloudProject, "{cidrBlock: 10.1.0.0/24, egressNetworkType: cloud}", "cidrBlock can't be changed"},
	{
		"Project", cloudProject, "{cidrBlock: 10.0.0.0/24, egressNetworkType: public}",
		"egressNetworkType can't be changed",
	},
	{
		"Project", cloudProject, "{cidrBlock: 10.0.0.0/24, egressNetworkType: cloud, gwLanIp: 10.0.0.9}",
		"gwLanIp can't be changed",
	},
	{
		"Project", "{cidrBlock: 10.0.0.0/24, egressNetworkType: cloud, gwLanIp: 10.0.0.9}", cloudProject,
		"gwLanIp can't be changed",
	},
	{"Project", cloudProject, "{cidrBlock: 10.0.0.0/24, egressNetworkType: cloud, gwLanIp: '', eipQuota: 3}", ""},

	{"EIp", "{externalNetworkType: cloud}", "{externalNetworkType: public}", "externalNetworkType can't be changed"},
	{"EIp", "{externalNetworkType: cloud}", "{}", "externalNetworkType can't be changed"},
	{"EIp", "{}", "{externalNetworkType: cloud}", "externalNetworkType can't be changed"},
	{"EIp", "{externalNetwork: a}", "{externalNetwork: b}", "externalNetwork can't be changed"},
	{"EIp", "{childRef: a}", "{childRef: b}", "childRef can't be changed"},
	{"EIp", "{ipAddress: 100.65.0.9}", "{ipAddress: 100.65.0.10}", "ipAddress can't be changed"},
	{"EIp", "{}", "{externalNetworkType: '', childRef: ''}", ""},
	{"EIp", "{}", "{ipFamily: IPv4}", ""},
	{"EIp", "{}", "{ipFamily: IPv6}", "ipFamily can't be changed"},
	{"EIp", "{ipFamily: IPv6}", "{}", "ipFamily can't be changed"},
	{"FIp", "{ipAddress: 'fd00:10::7', ipFamily: IPv6}", "{ipAddress: 'fd00:10::7'}", "ipFamily can't be changed"},

	{
		"FIp", "{ipAddress: 10.0.0.7, externalNetworkType: cloud}",
		"{ipAddress: 10.0.0.7, externalNetworkType: public}",
		"externalNetworkType can't be changed",
	},
	{
		"FIp", "{ipAddress: 10.0.0.7, externalNetworkType: cloud}", "{ipAddress: 10.0.0.7}",
		"externalNetworkType can't be changed",
	},
	{
		"FIp", "{ipAddress: 10.0.0.7}", "{ipAddress: 10.0.0.7, externalNetworkType: cloud}",
		"externalNetworkType can't be changed",
	},
	{"FIp", "{ipAddress: 10.0.0.7, externalNetworkType: cloud}", "{ipAddress: 10.0.0.7, eip: mine}", ""},
	{"FIp", "{ipAddress: 10.0.0.7, eip: mine}", "{ipAddress: 10.0.0.7, externalNetworkType: public}", ""},
	{"FIp", "{ipAddress: 10.0.0.7, eip: a}", "{ipAddress: 10.0.0.7, eip: b}", ""},
	{
		"FIp", "{ipAddress: 10.0.0.7, externalNetworkType: cloud}",
		"{podTarget: {podName: web}, externalNetworkType: cloud}", "",
	},
}
