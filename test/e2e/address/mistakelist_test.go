package address

import (
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// referenceMistakes refer to objects that do not exist yet. The fix creates them.
var referenceMistakes = []userMistake{
	{
		what: "an EIp that does not exist", object: "FIp mistakes-a/f", condition: "ResolvedRefs",
		reason:    "EIpNotFound",
		act:       []harness.Action{harness.Apply("FIp mistakes-a/f", "{ipAddress: 10.62.0.11, eip: nowhere}")},
		wantWords: []string{"EIp nowhere does not exist in namespace mistakes-a", "create it, or name another"},
		fix:       []harness.Action{harness.Apply("EIp mistakes-a/nowhere", "{}")},
	},
	{
		what: "a network that does not exist", object: "EIp mistakes-a/e", condition: "ResolvedRefs",
		reason: "NetworkNotFound",
		act:    []harness.Action{harness.Apply("EIp mistakes-a/e", "{externalNetworkType: gold}")},
		wantWords: []string{
			`no external network of type "gold"`, "use one of the types cloud, dual, public, third",
			"ask the operator",
		},
		fix: []harness.Action{harness.CreateTinySubnet("gold", "gold", "198.19.10")},
	},
	{
		what: "a network with IPv6", object: "EIp mistakes-a/e", condition: "ResolvedRefs",
		reason: "NetworkNotSupported",
		act:    []harness.Action{harness.Apply("EIp mistakes-a/e", "{externalNetworkType: dual}")},
		wantWords: []string{
			"subnet ext-dual has an IPv6 prefix",
			"use another network, or ask the operator for a subnet with IPv4 only",
		},
		fix: []harness.Action{harness.CreateTinySubnet("dual-four", "dual", "198.19.12")},
	},
	{
		what: "an OvnEip that does not exist", object: "EIp mistakes-a/e", condition: "ResolvedRefs",
		reason:    "OvnEipNotFound",
		act:       []harness.Action{harness.Apply("EIp mistakes-a/e", "{childRef: nowhere}")},
		wantWords: []string{`OvnEip "nowhere" does not exist in this project`, "correct spec.childRef"},
		fix: []harness.Action{
			deleteAction("EIp mistakes-a/e"),
			harness.Apply("EIp mistakes-a/e", "{childRef: mistakes-a-ext-cloud}"),
		},
	},
	{
		what: "a pod that does not exist", object: "FIp mistakes-a/f", condition: "ResolvedRefs", reason: "PodNotFound",
		act:       []harness.Action{harness.Apply("FIp mistakes-a/f", "{podTarget: {podName: nobody}}")},
		wantWords: []string{"pod nobody does not exist in namespace mistakes-a", "create it", "follows"},
		fix: []harness.Action{harness.ApplyManifest(
			"{apiVersion: v1, kind: Pod, metadata: {name: nobody, namespace: mistakes-a}, spec: {containers: [{name: main, image: lab/echo}]}}")},
	},
	{
		what: "a virtual machine that does not run", object: "FIp mistakes-a/f", condition: "ResolvedRefs",
		reason:    "VMNotFound",
		act:       []harness.Action{harness.Apply("FIp mistakes-a/f", "{vmTarget: {vmName: halted}}")},
		wantWords: []string{"virtual machine halted is not running in namespace mistakes-a", "start it", "follows"},
		fix:       []harness.Action{applyVM("halted", "{name: net0, ipAddress: 10.62.0.12}")},
	},
	{
		what: "a virtual machine without such an interface", object: "FIp mistakes-a/f", condition: "ResolvedRefs",
		reason: "TargetHasNoAddress",
		setup:  []harness.Action{applyVM("running", "{name: net0, ipAddress: 10.62.0.13}")},
		act: []harness.Action{harness.Apply("FIp mistakes-a/f",
			"{vmTarget: {vmName: running, interfaceName: net1}}")},
		wantWords: []string{
			"virtual machine running reports no IPv4 address on an interface net1", "it has net0",
			"follows",
		},
		fix: []harness.Action{applyVM("running",
			"{name: net0, ipAddress: 10.62.0.13}, {name: net1, ipAddress: 10.62.0.14}")},
	},
}

// addressMistakes request addresses that are not available.
var addressMistakes = []userMistake{
	{
		what: "an address that an EIp of the project has", object: "EIp mistakes-a/second", condition: "Accepted",
		reason: "AddressTaken",
		setup: []harness.Action{harness.Create("EIp mistakes-a/first",
			"{externalNetworkType: cloud, ipAddress: 100.65.77.1}")},
		act: []harness.Action{harness.Apply("EIp mistakes-a/second",
			"{externalNetworkType: cloud, ipAddress: 100.65.77.1}")},
		wantWords: []string{"100.65.77.1 is held by EIp mistakes-a/first", "request another address, or omit it"},
		fix:       []harness.Action{deleteAction("EIp mistakes-a/first")},
	},
	{
		what: "an address that another project has", object: "EIp mistakes-b/second", condition: "Accepted",
		reason: "AddressTaken", mustNotSay: "mistakes-a",
		setup: []harness.Action{harness.Create("EIp mistakes-a/first",
			"{externalNetworkType: cloud, ipAddress: 100.65.77.2}")},
		act: []harness.Action{harness.Apply("EIp mistakes-b/second",
			"{externalNetworkType: cloud, ipAddress: 100.65.77.2}")},
		wantWords: []string{"100.65.77.2 is held by another project", "request another address, or omit it"},
		fix:       []harness.Action{deleteAction("EIp mistakes-a/first")},
	},
	{
		what: "an address of another network", object: "EIp mistakes-a/e", condition: "Accepted",
		reason: "AddressOutsideNetwork",
		act: []harness.Action{harness.Apply("EIp mistakes-a/e",
			"{externalNetworkType: cloud, ipAddress: 192.0.2.9}")},
		wantWords: []string{"192.0.2.9", "ext-cloud has 100.65.0.0/16", "request another address"},
		fix: []harness.Action{
			deleteAction("EIp mistakes-a/e"),
			harness.Apply("EIp mistakes-a/e", "{externalNetworkType: cloud, ipAddress: 100.65.77.3}"),
		},
	},
	{
		what: "a target that is not in the project", object: "FIp mistakes-a/f", condition: "Accepted",
		reason:    "TargetOutsideProject",
		act:       []harness.Action{harness.Apply("FIp mistakes-a/f", "{ipAddress: 192.0.2.7}")},
		wantWords: []string{"192.0.2.7 is not in the project's subnet 10.62.0.0/24", "use an address of"},
		fix:       []harness.Action{harness.Apply("FIp mistakes-a/f", "{ipAddress: 10.62.0.15}")},
	},
}

// poolMistakes request more than there is.
var poolMistakes = []userMistake{
	{
		// The router port has one of the three addresses that can be allocated.
		what: "more addresses than the network has", object: "EIp mistakes-a/third", condition: "Programmed",
		reason: "PoolExhausted",
		setup: []harness.Action{
			harness.CreateTinySubnet("tiny", "tiny", "198.19.8"),
			harness.Create("EIp mistakes-a/first", "{externalNetworkType: tiny}"),
			harness.Create("EIp mistakes-a/second", "{externalNetworkType: tiny}"),
		},
		act:       []harness.Action{harness.Apply("EIp mistakes-a/third", "{externalNetworkType: tiny}")},
		wantWords: []string{"no address is left (tiny: 0 free, 3 in use)", "delete an EIp, or ask the operator"},
		fix:       []harness.Action{deleteAction("EIp mistakes-a/first")},
	},
	{
		what: "more addresses than the project may have", object: "EIp mistakes-few/second", condition: "Accepted",
		reason: "QuotaExceeded",
		setup: []harness.Action{
			harness.Create("Project mistakes/few", "{cidrBlock: 10.63.0.0/24, egressNetworkType: cloud, eipQuota: 1}"),
			harness.Create("EIp mistakes-few/first", "{}"),
		},
		act: []harness.Action{harness.Apply("EIp mistakes-few/second", "{}")},
		wantWords: []string{
			"this project has 1 EIps (quota: 1)",
			"delete one, or ask the operator to raise the quota",
		},
		fix: []harness.Action{harness.Apply("Project mistakes/few",
			"{cidrBlock: 10.63.0.0/24, egressNetworkType: cloud, eipQuota: 2}")},
	},
	{
		// One of eight addresses is reserved.
		what: "more secondary networks than the subnet has ways back", object: "FIp mistakes-small/second",
		condition: "Programmed", reason: "NoWayBack",
		setup: []harness.Action{
			harness.Create("Project mistakes/small", "{cidrBlock: 10.63.1.0/29, egressNetworkType: cloud}"),
			harness.Create("FIp mistakes-small/first", "{ipAddress: 10.63.1.2, externalNetworkType: public}"),
		},
		act: []harness.Action{harness.Apply("FIp mistakes-small/second",
			"{ipAddress: 10.63.1.3, externalNetworkType: third}")},
		wantWords: []string{
			"subnet mistakes-small-default has none of its 1 addresses for return ports left", "network ext-third",
			"use a network that the project already uses",
		},
		fix: []harness.Action{deleteAction("FIp mistakes-small/first")},
	},
}

// conflictMistakes request what another object uses.
var conflictMistakes = []userMistake{
	{
		what: "a target that another FIp leads to", object: "FIp mistakes-a/second", condition: "Accepted",
		reason:    "TargetTaken",
		setup:     []harness.Action{harness.Create("FIp mistakes-a/first", "{ipAddress: 10.62.0.16}")},
		act:       []harness.Action{harness.Apply("FIp mistakes-a/second", "{ipAddress: 10.62.0.16}")},
		wantWords: []string{"FIp first already has target 10.62.0.16", "delete one of the two, or use another network"},
		fix:       []harness.Action{deleteAction("FIp mistakes-a/first")},
	},
	{
		what: "an EIp that another FIp uses", object: "FIp mistakes-a/second", condition: "Accepted",
		reason: "EIpTaken",
		setup: []harness.Action{
			harness.Apply("EIp mistakes-a/e", "{}"),
			harness.Create("FIp mistakes-a/first", "{ipAddress: 10.62.0.17, eip: e}"),
		},
		act:       []harness.Action{harness.Apply("FIp mistakes-a/second", "{ipAddress: 10.62.0.18, eip: e}")},
		wantWords: []string{"EIp e is held by FIp first", "use another EIp, or delete that FIp"},
		fix:       []harness.Action{deleteAction("FIp mistakes-a/first")},
	},
	{
		what: "the EIp of the project's way out", object: "FIp mistakes-a/f", condition: "Accepted", reason: "EIpTaken",
		act:       []harness.Action{harness.Apply("FIp mistakes-a/f", "{ipAddress: 10.62.0.19, eip: default-gw}")},
		wantWords: []string{"EIp default-gw is the project's default egress address", "use another EIp"},
		fix: []harness.Action{
			harness.Apply("EIp mistakes-a/e", "{}"),
			harness.Apply("FIp mistakes-a/f", "{ipAddress: 10.62.0.19, eip: e}"),
		},
	},
	{
		what: "an EIp deleted while it is in use", object: "EIp mistakes-a/e", condition: "Deletable", reason: "InUse",
		setup: []harness.Action{
			harness.Apply("EIp mistakes-a/e", "{}"),
			harness.Create("FIp mistakes-a/f", "{ipAddress: 10.62.0.20, eip: e}"),
		},
		act:       []harness.Action{deleteInUseAction("EIp mistakes-a/e")},
		wantWords: []string{"held by FIp mistakes-a/f", "delete that object, or assign it another EIp"},
		fix:       []harness.Action{deleteAction("FIp mistakes-a/f")}, fixDeletes: true,
	},
}

// projectMistakes concern whole projects.
var projectMistakes = []userMistake{
	{
		what: "a project on a network that does not exist", object: "Project mistakes/nowhere",
		condition: "ResolvedRefs", reason: "NetworkNotFound",
		act: []harness.Action{harness.Apply("Project mistakes/nowhere",
			"{cidrBlock: 10.64.0.0/24, egressNetworkType: silver}")},
		wantWords: []string{
			`no external network of type "silver"`, "use one of the types cloud, dual, public, third",
			"ask the operator",
		},
		fix: []harness.Action{harness.CreateTinySubnet("silver", "silver", "198.19.11")},
	},
	{
		what: "a project whose namespace is somebody's", object: "Project mistakes/squat", condition: "Accepted",
		reason: "NamespaceTaken",
		setup: []harness.Action{harness.ApplyManifest(
			"{apiVersion: v1, kind: Namespace, metadata: {name: mistakes-squat}}")},
		act: []harness.Action{harness.Apply("Project mistakes/squat",
			"{cidrBlock: 10.65.0.0/24, egressNetworkType: cloud}")},
		wantWords: []string{
			"namespace mistakes-squat exists and was not created for this project",
			"choose another name, or delete the namespace",
		},
		fix: []harness.Action{deleteAction("Namespace mistakes-squat")},
	},
	{
		what: "two projects with one namespace", object: "Project mistakes-x/z", condition: "Accepted",
		reason: "NameTaken",
		setup: []harness.Action{
			harness.ApplyManifest("{apiVersion: v1, kind: Namespace, metadata: {name: mistakes-x}}"),
			harness.Create("Project mistakes/x-z", "{cidrBlock: 10.66.0.0/24, egressNetworkType: cloud}"),
		},
		act: []harness.Action{harness.Apply("Project mistakes-x/z",
			"{cidrBlock: 10.67.0.0/24, egressNetworkType: cloud}")},
		wantWords: []string{"already owns namespace mistakes-x-z", "choose another name"},
		fix:       []harness.Action{deleteAction("Project mistakes/x-z")},
	},
	{
		what: "an EIp outside of any project", object: "EIp mistakes/e", condition: "Accepted", reason: "NoProject",
		act:       []harness.Action{harness.Apply("EIp mistakes/e", "{}")},
		wantWords: []string{"namespace mistakes does not belong to a Project", "create the object in a project"},
		fix:       []harness.Action{deleteAction("EIp mistakes/e")}, fixDeletes: true,
	},
}
