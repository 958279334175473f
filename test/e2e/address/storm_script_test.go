package address

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// churnOrganization is the organization of the Projects of a storm. It contains nothing else.
const churnOrganization = "storm"

// step is one change by a user.
type step struct {
	object   *unstructured.Unstructured
	isDelete bool
	delay    time.Duration // before it
}

func (s step) objectRef() manifest.Ref {
	return manifest.Ref{GVK: s.object.GroupVersionKind(), Namespace: s.object.GetNamespace(), Name: s.object.GetName()}
}

// tenantScript is one project of a storm and the objects that exist as the script proceeds. The steps of a tenant run
// in order; all tenants run in parallel.
type tenantScript struct {
	rng    *rand.Rand
	number int
	steps  []step

	eips        map[string]bool
	deletedEIPs map[string]bool // deleted EIps, which may still exist while a FIp refers to them
	fips        map[string]fipSpec

	remainsAtEnd  bool
	expectedAtEnd map[string]bool
}

// fipSpec is the spec of a FIp: an EIp by name or, without one, its own; an address or a virtual machine.
type fipSpec struct{ eip, address, vm string }

// generateScript returns the script of a tenant: a number of random changes, followed by steps to a known final state.
// The same seed and number give the same script.
func generateScript(seed uint64, number, changes int) *tenantScript {
	n := &tenantScript{
		rng:           rand.New(rand.NewPCG(seed, uint64(number))),
		number:        number,
		remainsAtEnd:  number%5 != 4,
		expectedAtEnd: map[string]bool{},
	}
	n.addProject()
	again := -1
	if number%4 == 1 {
		again = n.rng.IntN(changes) // the whole project is deleted and recreated
	}
	for i := range changes {
		if i == again {
			n.addDelete("Project", n.projectName())
			n.addProject()
		}
		n.addRandomChange()
	}
	n.addFinalState()
	return n
}

func (n *tenantScript) projectName() string { return fmt.Sprintf("p%d", n.number) }

func (n *tenantScript) namespace() string { return churnOrganization + "-" + n.projectName() }

// podAddress returns an address in the project.
func (n *tenantScript) podAddress(host int) string {
	return fmt.Sprintf("10.%d.0.%d", 50+n.number, host)
}

// usesTinyNetwork reports whether the tenant uses the network that has hardly more addresses than are requested.
func (n *tenantScript) usesTinyNetwork() bool { return n.number%4 == 0 }

func (n *tenantScript) addProject() {
	n.eips, n.deletedEIPs, n.fips = map[string]bool{}, map[string]bool{}, map[string]fipSpec{}
	network := []string{"cloud", "public"}[n.number%2]
	n.addApply("Project", n.projectName(),
		map[string]any{"cidrBlock": fmt.Sprintf("10.%d.0.0/24", 50+n.number), "egressNetworkType": network})
	n.addVMMove("v0", 20)
	n.addVMMove("v1", 30)
}

// addApply adds a step that applies an object.
func (n *tenantScript) addApply(kind, name string, spec map[string]any) *unstructured.Unstructured {
	r := harness.ObjectRef(kind, n.namespace(), name)
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(r.GVK)
	o.SetName(name)
	o.SetNamespace(n.namespace())
	if kind == "Project" {
		o.SetNamespace(churnOrganization)
	}
	n.steps = append(n.steps, step{object: o, delay: time.Duration(n.rng.Int64N(int64(150 * time.Millisecond)))})
	return o
}

func (n *tenantScript) addDelete(kind, name string) {
	n.addApply(kind, name, nil)
	n.steps[len(n.steps)-1].isDelete = true
}

// addVMMove adds a step that changes the address of a virtual machine.
func (n *tenantScript) addVMMove(machine string, host int) {
	o := n.addApply("VirtualMachineInstance", machine, map[string]any{})
	o.Object["status"] = map[string]any{"interfaces": []any{map[string]any{
		"name":      "net1",
		"mac":       "0a:00:00:00:00:01",
		"ipAddress": n.podAddress(host),
	}}}
}

// eipNames are EIps by type, by default, by name of the network, on a small network, with a requested address, with one
// that a second tenant requests too, and with one that the tenant requests twice.
var eipNames = []string{"any-public", "any", "by-name", "tiny", "own", "contended", "twice"}

func (n *tenantScript) addEIP(name string) {
	spec := map[string]any{}
	switch name {
	case "any-public":
		spec["externalNetworkType"] = "public"
	case "by-name":
		spec["externalNetwork"] = "ext-public"
	case "tiny":
		spec["externalNetworkType"] = n.smallNetworkType()
	case "own", "twice":
		spec["externalNetworkType"], spec["ipAddress"] = "public", fmt.Sprintf("198.18.200.%d", 10+n.number)
	case "contended":
		spec["externalNetworkType"], spec["ipAddress"] = "cloud", fmt.Sprintf("100.65.200.%d", 10+n.number/2)
	}
	n.addApply("EIp", name, spec)
	n.eips[name] = true
}

func (n *tenantScript) smallNetworkType() string {
	if n.usesTinyNetwork() {
		return "tiny"
	}
	return "cloud"
}

// isReferencedByFIP reports whether a FIp refers to an EIp.
func (n *tenantScript) isReferencedByFIP(eip string) bool {
	for _, f := range n.fips {
		if f.eip == eip {
			return true
		}
	}
	return false
}

var fipNames = []string{"f0", "f1", "f2", "f3"}

func (n *tenantScript) addFIP(name string, f fipSpec) {
	spec := map[string]any{}
	if f.eip != "" {
		spec["eip"] = f.eip
	} else if kind := map[string]string{
		"f0": "public",
		"f1": "",
		"f2": n.smallNetworkType(),
		"f3": "cloud",
	}[name]; kind != "" {
		spec["externalNetworkType"] = kind
	}
	if f.vm != "" {
		spec["vmTarget"] = map[string]any{"vmName": f.vm}
	} else {
		spec["ipAddress"] = f.address
	}
	n.addApply("FIp", name, spec)
	n.fips[name] = f
}

// addRandomChange adds one random change. FIps may request what another has, and refer to EIps that do not exist.
func (n *tenantScript) addRandomChange() {
	eip, name := pickRandom(n.rng, eipNames), pickRandom(n.rng, fipNames)
	f, there := n.fips[name]
	switch kind := n.rng.IntN(10); {
	case kind < 3 && n.eips[eip]:
		n.addDelete("EIp", eip)
		n.eips[eip], n.deletedEIPs[eip] = false, true
	case kind < 3 && (!n.deletedEIPs[eip] || !n.isReferencedByFIP(eip)):
		n.addEIP(eip)
	case kind < 5 && there:
		n.addDelete("FIp", name)
		delete(n.fips, name)
	case kind < 7:
		f.address, f.vm = n.podAddress(10+n.rng.IntN(5)), pickRandom(n.rng, []string{"", "", "", "v0", "v1"})
		n.addFIP(name, f)
	case kind < 9:
		if f.address == "" {
			f.address = n.podAddress(10 + n.rng.IntN(5))
		}
		f.eip = pickRandom(n.rng, append(slices.Sorted(maps.Keys(n.eips)), ""))
		n.addFIP(name, f)
	default:
		n.addVMMove("v0", 20+n.rng.IntN(5))
	}
}

func pickRandom[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// addFinalState adds steps to a known final state without conflicts.
func (n *tenantScript) addFinalState() {
	if !n.remainsAtEnd {
		n.addDelete("Project", n.projectName())
		return
	}
	keep := map[string]bool{}
	for _, name := range eipNames {
		keep[name] = n.rng.IntN(2) == 0 && name != "twice" && (name != "contended" || n.number%2 == 0)
	}
	for _, name := range fipNames {
		if f, there := n.fips[name]; there && (n.rng.IntN(3) == 0 || f.eip != "" && (!keep[f.eip] || !n.eips[f.eip])) {
			n.addDelete("FIp", name)
			delete(n.fips, name)
		}
	}
	for _, name := range eipNames {
		switch {
		case !keep[name] && n.eips[name]:
			n.addDelete("EIp", name)
			n.eips[name] = false
		case keep[name] && !n.eips[name]:
			n.addEIP(name)
		}
		n.expectedAtEnd["EIp "+name] = keep[name]
	}
	n.addFinalFIPs(slices.Sorted(maps.Keys(n.eips)))
	n.addVMMove("v0", 20)
	n.expectedAtEnd["Project"] = true
}

func (n *tenantScript) addFinalFIPs(eips []string) {
	eips = slices.DeleteFunc(eips, func(name string) bool { return !n.eips[name] })
	n.rng.Shuffle(len(eips), func(i, j int) { eips[i], eips[j] = eips[j], eips[i] })
	hosts := n.rng.Perm(5)
	for i, name := range fipNames {
		_, there := n.fips[name]
		if n.expectedAtEnd["FIp "+name] = there || n.rng.IntN(2) == 0; !n.expectedAtEnd["FIp "+name] {
			continue
		}
		f := fipSpec{address: n.podAddress(10 + hosts[i])}
		if i == 3 {
			f.vm = "v0"
		}
		if i < len(eips) && n.rng.IntN(2) == 0 {
			f.eip = eips[i]
		}
		n.addFIP(name, f)
	}
}
