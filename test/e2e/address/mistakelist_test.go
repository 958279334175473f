package address

import (
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// referenceMistakes name what is not there. It comes later.
var referenceMistakes = []mistake{
	{
		what: "an EIp that does not exist", on: "FIp mistakes-a/f", condition: "ResolvedRefs", reason: "EIpNotFound",
		wrong: []harness.Action{harness.Apply("FIp mistakes-a/f", "{ipAddress: 10.62.0.11, eip: nowhere}")},
		says:  []string{"EIp nowhere does not exist in namespace mistakes-a", "create it, or name another"},
		cure:  []harness.Action{harness.Apply("EIp mistakes-a/nowhere", "{}")},
	},
	{
		what: "a network that does not exist", on: "EIp mistakes-a/e", condition: "ResolvedRefs", reason: "NetworkNotFound",
		wrong: []harness.Action{harness.Apply("EIp mistakes-a/e", "{externalNetworkType: gold}")},
		says:  []string{`no external network of type "gold"`, "use one of the types cloud, dual, public, third", "ask the operator"},
		cure:  []harness.Action{harness.Tiny("gold", "gold", "198.19.10")},
	},
	{
		what: "a network with IPv6", on: "EIp mistakes-a/e", condition: "ResolvedRefs", reason: "NetworkNotSupported",
		wrong: []harness.Action{harness.Apply("EIp mistakes-a/e", "{externalNetworkType: dual}")},
		says:  []string{"subnet ext-dual has an IPv6 prefix", "use another network, or ask the operator for a subnet with IPv4 only"},
		cure:  []harness.Action{harness.Tiny("dual-four", "dual", "198.19.12")},
	},
	{
		what: "an OvnEip that does not exist", on: "EIp mistakes-a/e", condition: "ResolvedRefs", reason: "OvnEipNotFound",
		wrong: []harness.Action{harness.Apply("EIp mistakes-a/e", "{childRef: nowhere}")},
		says:  []string{`OvnEip "nowhere" does not exist in this project`, "correct spec.childRef"},
		cure:  []harness.Action{dropped("EIp mistakes-a/e"), harness.Apply("EIp mistakes-a/e", "{childRef: mistakes-a-ext-cloud}")},
	},
	{
		what: "a pod that does not exist", on: "FIp mistakes-a/f", condition: "ResolvedRefs", reason: "PodNotFound",
		wrong: []harness.Action{harness.Apply("FIp mistakes-a/f", "{podTarget: {podName: nobody}}")},
		says:  []string{"pod nobody does not exist in namespace mistakes-a", "create it", "follows"},
		cure:  []harness.Action{harness.Other("{apiVersion: v1, kind: Pod, metadata: {name: nobody, namespace: mistakes-a}, spec: {containers: [{name: main, image: lab/echo}]}}")},
	},
	{
		what: "a virtual machine that does not run", on: "FIp mistakes-a/f", condition: "ResolvedRefs", reason: "VMNotFound",
		wrong: []harness.Action{harness.Apply("FIp mistakes-a/f", "{vmTarget: {vmName: halted}}")},
		says:  []string{"virtual machine halted does not run in namespace mistakes-a", "start it", "follows"},
		cure:  []harness.Action{machine("halted", "{name: net0, ipAddress: 10.62.0.12}")},
	},
	{
		what: "a virtual machine without such an interface", on: "FIp mistakes-a/f", condition: "ResolvedRefs", reason: "TargetHasNoAddress",
		before: []harness.Action{machine("running", "{name: net0, ipAddress: 10.62.0.13}")},
		wrong:  []harness.Action{harness.Apply("FIp mistakes-a/f", "{vmTarget: {vmName: running, interfaceName: net1}}")},
		says:   []string{"virtual machine running reports no IPv4 address on an interface net1", "it has net0", "follows"},
		cure:   []harness.Action{machine("running", "{name: net0, ipAddress: 10.62.0.13}, {name: net1, ipAddress: 10.62.0.14}")},
	},
}

// addressMistakes ask for addresses that can't be had.
var addressMistakes = []mistake{
	{
		what: "an address that an EIp of the project has", on: "EIp mistakes-a/second", condition: "Accepted", reason: "AddressTaken",
		before: []harness.Action{harness.Create("EIp mistakes-a/first", "{externalNetworkType: cloud, ipAddress: 100.65.77.1}")},
		wrong:  []harness.Action{harness.Apply("EIp mistakes-a/second", "{externalNetworkType: cloud, ipAddress: 100.65.77.1}")},
		says:   []string{"100.65.77.1 is held by EIp mistakes-a/first", "ask for another address, or for any"},
		cure:   []harness.Action{dropped("EIp mistakes-a/first")},
	},
	{
		what: "an address that another project has", on: "EIp mistakes-b/second", condition: "Accepted", reason: "AddressTaken", hides: "mistakes-a",
		before: []harness.Action{harness.Create("EIp mistakes-a/first", "{externalNetworkType: cloud, ipAddress: 100.65.77.2}")},
		wrong:  []harness.Action{harness.Apply("EIp mistakes-b/second", "{externalNetworkType: cloud, ipAddress: 100.65.77.2}")},
		says:   []string{"100.65.77.2 is held by another project", "ask for another address, or for any"},
		cure:   []harness.Action{dropped("EIp mistakes-a/first")},
	},
	{
		what: "an address of another network", on: "EIp mistakes-a/e", condition: "Accepted", reason: "AddressOutsideNetwork",
		wrong: []harness.Action{harness.Apply("EIp mistakes-a/e", "{externalNetworkType: cloud, ipAddress: 192.0.2.9}")},
		says:  []string{"192.0.2.9", "ext-cloud has 100.65.0.0/16", "ask for another address"},
		cure:  []harness.Action{dropped("EIp mistakes-a/e"), harness.Apply("EIp mistakes-a/e", "{externalNetworkType: cloud, ipAddress: 100.65.77.3}")},
	},
	{
		what: "a target that is not in the project", on: "FIp mistakes-a/f", condition: "Accepted", reason: "TargetOutsideProject",
		wrong: []harness.Action{harness.Apply("FIp mistakes-a/f", "{ipAddress: 192.0.2.7}")},
		says:  []string{"192.0.2.7 is not in the project's subnet 10.62.0.0/24", "use an address of"},
		cure:  []harness.Action{harness.Apply("FIp mistakes-a/f", "{ipAddress: 10.62.0.15}")},
	},
}

// poolMistakes ask for more than there is.
var poolMistakes = []mistake{
	{
		// Of the three addresses that can be given, one is the router port's.
		what: "more addresses than the network has", on: "EIp mistakes-a/third", condition: "Programmed", reason: "PoolExhausted",
		before: []harness.Action{
			harness.Tiny("tiny", "tiny", "198.19.8"),
			harness.Create("EIp mistakes-a/first", "{externalNetworkType: tiny}"), harness.Create("EIp mistakes-a/second", "{externalNetworkType: tiny}"),
		},
		wrong: []harness.Action{harness.Apply("EIp mistakes-a/third", "{externalNetworkType: tiny}")},
		says:  []string{"no address is left (tiny: 0 free, 3 in use)", "delete an EIp, or ask the operator"},
		cure:  []harness.Action{dropped("EIp mistakes-a/first")},
	},
	{
		what: "more addresses than the project may have", on: "EIp mistakes-few/second", condition: "Accepted", reason: "QuotaExceeded",
		before: []harness.Action{
			harness.Create("Project mistakes/few", "{cidrBlock: 10.63.0.0/24, egressNetworkType: cloud, eipQuota: 1}"), harness.Create("EIp mistakes-few/first", "{}"),
		},
		wrong: []harness.Action{harness.Apply("EIp mistakes-few/second", "{}")},
		says:  []string{"the project has 1 EIps and may have 1", "delete one, or ask the operator to raise the quota"},
		cure:  []harness.Action{harness.Apply("Project mistakes/few", "{cidrBlock: 10.63.0.0/24, egressNetworkType: cloud, eipQuota: 2}")},
	},
	{
		// Of eight addresses one is kept.
		what: "more secondary networks than the subnet has ways back", on: "FIp mistakes-small/second", condition: "Programmed", reason: "NoWayBack",
		before: []harness.Action{
			harness.Create("Project mistakes/small", "{cidrBlock: 10.63.1.0/29, egressNetworkType: cloud}"),
			harness.Create("FIp mistakes-small/first", "{ipAddress: 10.63.1.2, externalNetworkType: public}"),
		},
		wrong: []harness.Action{harness.Apply("FIp mistakes-small/second", "{ipAddress: 10.63.1.3, externalNetworkType: third}")},
		says:  []string{"subnet mistakes-small-default keeps 1 addresses", "none left for ext-third", "use a network that the project uses already"},
		cure:  []harness.Action{dropped("FIp mistakes-small/first")},
	},
}

// conflictMistakes want what somebody else uses.
var conflictMistakes = []mistake{
	{
		what: "a target that another FIp leads to", on: "FIp mistakes-a/second", condition: "Accepted", reason: "TargetTaken",
		before: []harness.Action{harness.Create("FIp mistakes-a/first", "{ipAddress: 10.62.0.16}")},
		wrong:  []harness.Action{harness.Apply("FIp mistakes-a/second", "{ipAddress: 10.62.0.16}")},
		says:   []string{"FIp first leads to 10.62.0.16 already", "delete one of the two, or use another network"},
		cure:   []harness.Action{dropped("FIp mistakes-a/first")},
	},
	{
		what: "an EIp that another FIp uses", on: "FIp mistakes-a/second", condition: "Accepted", reason: "EIpTaken",
		before: []harness.Action{harness.Apply("EIp mistakes-a/e", "{}"), harness.Create("FIp mistakes-a/first", "{ipAddress: 10.62.0.17, eip: e}")},
		wrong:  []harness.Action{harness.Apply("FIp mistakes-a/second", "{ipAddress: 10.62.0.18, eip: e}")},
		says:   []string{"EIp e is held by FIp first", "use another EIp, or delete that FIp"},
		cure:   []harness.Action{dropped("FIp mistakes-a/first")},
	},
	{
		what: "the EIp of the project's way out", on: "FIp mistakes-a/f", condition: "Accepted", reason: "EIpTaken",
		wrong: []harness.Action{harness.Apply("FIp mistakes-a/f", "{ipAddress: 10.62.0.19, eip: default-gw}")},
		says:  []string{"EIp default-gw is the project's way out", "use another EIp"},
		cure:  []harness.Action{harness.Apply("EIp mistakes-a/e", "{}"), harness.Apply("FIp mistakes-a/f", "{ipAddress: 10.62.0.19, eip: e}")},
	},
	{
		what: "an EIp deleted while it is in use", on: "EIp mistakes-a/e", condition: "Deletable", reason: "InUse",
		before: []harness.Action{harness.Apply("EIp mistakes-a/e", "{}"), harness.Create("FIp mistakes-a/f", "{ipAddress: 10.62.0.20, eip: e}")},
		wrong:  []harness.Action{dropping("EIp mistakes-a/e")},
		says:   []string{"held by FIp mistakes-a/f", "delete that, or let it use another EIp"},
		cure:   []harness.Action{dropped("FIp mistakes-a/f")}, ends: true,
	},
}

// projectMistakes are about whole projects.
var projectMistakes = []mistake{
	{
		what: "a project on a network that does not exist", on: "Project mistakes/nowhere", condition: "ResolvedRefs", reason: "NetworkNotFound",
		wrong: []harness.Action{harness.Apply("Project mistakes/nowhere", "{cidrBlock: 10.64.0.0/24, egressNetworkType: silver}")},
		says:  []string{`no external network of type "silver"`, "use one of the types cloud, dual, public, third", "ask the operator"},
		cure:  []harness.Action{harness.Tiny("silver", "silver", "198.19.11")},
	},
	{
		what: "a project whose namespace is somebody's", on: "Project mistakes/squat", condition: "Accepted", reason: "NamespaceTaken",
		before: []harness.Action{harness.Other("{apiVersion: v1, kind: Namespace, metadata: {name: mistakes-squat}}")},
		wrong:  []harness.Action{harness.Apply("Project mistakes/squat", "{cidrBlock: 10.65.0.0/24, egressNetworkType: cloud}")},
		says:   []string{"namespace mistakes-squat exists and was not made for this project", "choose another name, or delete the namespace"},
		cure:   []harness.Action{dropped("Namespace mistakes-squat")},
	},
	{
		what: "two projects with one namespace", on: "Project mistakes-x/z", condition: "Accepted", reason: "NameTaken",
		before: []harness.Action{
			harness.Other("{apiVersion: v1, kind: Namespace, metadata: {name: mistakes-x}}"),
			harness.Create("Project mistakes/x-z", "{cidrBlock: 10.66.0.0/24, egressNetworkType: cloud}"),
		},
		wrong: []harness.Action{harness.Apply("Project mistakes-x/z", "{cidrBlock: 10.67.0.0/24, egressNetworkType: cloud}")},
		says:  []string{"has namespace mistakes-x-z already", "choose another name"},
		cure:  []harness.Action{dropped("Project mistakes/x-z")},
	},
	{
		what: "an EIp outside of any project", on: "EIp mistakes/e", condition: "Accepted", reason: "NoProject",
		wrong: []harness.Action{harness.Apply("EIp mistakes/e", "{}")},
		says:  []string{"namespace mistakes belongs to no Project", "create this in a project's namespace"},
		cure:  []harness.Action{dropped("EIp mistakes/e")}, ends: true,
	},
}
