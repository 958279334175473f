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

// stormOrganization is where the Projects of a storm are. There is nothing else in it.
const stormOrganization = "storm"

// step is one change that somebody makes.
type step struct {
	object *unstructured.Unstructured
	remove bool
	pause  time.Duration // before it
}

func (s step) ref() manifest.Ref {
	return manifest.Ref{GVK: s.object.GroupVersionKind(), Namespace: s.object.GetNamespace(), Name: s.object.GetName()}
}

// tenant is one project of a storm, with what its people have as the script goes on. Each does one thing after the other; all
// tenants act side by side.
type tenant struct {
	r      *rand.Rand
	number int
	steps  []step

	eips map[string]bool
	lost map[string]bool // EIps that were deleted: they may be there still, while a FIp names them
	fips map[string]fipSpec

	stays bool // at the end
	last  map[string]bool
}

// fipSpec is what a FIp asks for: an EIp by name or, without one, one of its own; an address or a virtual machine.
type fipSpec struct{ eip, address, machine string }

// script is what a tenant does: so many changes at random, and then what makes the end known. The same seed and number give
// the same script.
func script(seed uint64, number, changes int) *tenant {
	n := &tenant{r: rand.New(rand.NewPCG(seed, uint64(number))), number: number, stays: number%5 != 4, last: map[string]bool{}}
	n.begin()
	again := -1
	if number%4 == 1 {
		again = n.r.IntN(changes) // the whole project goes and comes again
	}
	for i := range changes {
		if i == again {
			n.remove("Project", n.project())
			n.begin()
		}
		n.change()
	}
	n.finish()
	return n
}

func (n *tenant) project() string { return fmt.Sprintf("p%d", n.number) }

func (n *tenant) namespace() string { return stormOrganization + "-" + n.project() }

// address is an address in the project.
func (n *tenant) address(host int) string { return fmt.Sprintf("10.%d.0.%d", 50+n.number, host) }

// tiny says whether the tenant uses the network that has hardly more addresses than are asked for.
func (n *tenant) tiny() bool { return n.number%4 == 0 }

func (n *tenant) begin() {
	n.eips, n.lost, n.fips = map[string]bool{}, map[string]bool{}, map[string]fipSpec{}
	network := []string{"cloud", "public"}[n.number%2]
	n.put("Project", n.project(), map[string]any{"cidrBlock": fmt.Sprintf("10.%d.0.0/24", 50+n.number), "egressNetworkType": network})
	n.move("v0", 20)
	n.move("v1", 30)
}

// put and remove write a step.
func (n *tenant) put(kind, name string, spec map[string]any) *unstructured.Unstructured {
	r := harness.Ref(kind, n.namespace(), name)
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(r.GVK)
	o.SetName(name)
	o.SetNamespace(n.namespace())
	if kind == "Project" {
		o.SetNamespace(stormOrganization)
	}
	n.steps = append(n.steps, step{object: o, pause: time.Duration(n.r.Int64N(int64(150 * time.Millisecond)))})
	return o
}

func (n *tenant) remove(kind, name string) {
	n.put(kind, name, nil)
	n.steps[len(n.steps)-1].remove = true
}

// move gives a virtual machine an address.
func (n *tenant) move(machine string, host int) {
	o := n.put("VirtualMachineInstance", machine, map[string]any{})
	o.Object["status"] = map[string]any{"interfaces": []any{map[string]any{"name": "net1", "mac": "0a:00:00:00:00:01", "ipAddress": n.address(host)}}}
}

// eipNames: by type, by default, by name of the network, on a small network, an address of one's own, one that a second
// tenant wants too, and one that the tenant wants twice.
var eipNames = []string{"any-public", "any", "by-name", "tiny", "own", "contended", "twice"}

func (n *tenant) putEIp(name string) {
	spec := map[string]any{}
	switch name {
	case "any-public":
		spec["externalNetworkType"] = "public"
	case "by-name":
		spec["externalNetwork"] = "ext-public"
	case "tiny":
		spec["externalNetworkType"] = n.small()
	case "own", "twice":
		spec["externalNetworkType"], spec["ipAddress"] = "public", fmt.Sprintf("198.18.200.%d", 10+n.number)
	case "contended":
		spec["externalNetworkType"], spec["ipAddress"] = "cloud", fmt.Sprintf("100.65.200.%d", 10+n.number/2)
	}
	n.put("EIp", name, spec)
	n.eips[name] = true
}

func (n *tenant) small() string {
	if n.tiny() {
		return "tiny"
	}
	return "cloud"
}

// named says whether a FIp names an EIp.
func (n *tenant) named(eip string) bool {
	for _, f := range n.fips {
		if f.eip == eip {
			return true
		}
	}
	return false
}

var fipNames = []string{"f0", "f1", "f2", "f3"}

func (n *tenant) putFIp(name string, f fipSpec) {
	spec := map[string]any{}
	if f.eip != "" {
		spec["eip"] = f.eip
	} else if kind := map[string]string{"f0": "public", "f1": "", "f2": n.small(), "f3": "cloud"}[name]; kind != "" {
		spec["externalNetworkType"] = kind
	}
	if f.machine != "" {
		spec["vmTarget"] = map[string]any{"vmName": f.machine}
	} else {
		spec["ipAddress"] = f.address
	}
	n.put("FIp", name, spec)
	n.fips[name] = f
}

// change is one change at random. FIps may come to want what another has, and name EIps that are not there.
func (n *tenant) change() {
	eip, name := oneOf(n.r, eipNames), oneOf(n.r, fipNames)
	f, there := n.fips[name]
	switch kind := n.r.IntN(10); {
	case kind < 3 && n.eips[eip]:
		n.remove("EIp", eip)
		n.eips[eip], n.lost[eip] = false, true
	case kind < 3 && (!n.lost[eip] || !n.named(eip)):
		n.putEIp(eip)
	case kind < 5 && there:
		n.remove("FIp", name)
		delete(n.fips, name)
	case kind < 7:
		f.address, f.machine = n.address(10+n.r.IntN(5)), oneOf(n.r, []string{"", "", "", "v0", "v1"})
		n.putFIp(name, f)
	case kind < 9:
		if f.address == "" {
			f.address = n.address(10 + n.r.IntN(5))
		}
		f.eip = oneOf(n.r, append(slices.Sorted(maps.Keys(n.eips)), ""))
		n.putFIp(name, f)
	default:
		n.move("v0", 20+n.r.IntN(5))
	}
}

func oneOf[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// finish makes what is left known: nobody wants what another has.
func (n *tenant) finish() {
	if !n.stays {
		n.remove("Project", n.project())
		return
	}
	keep := map[string]bool{}
	for _, name := range eipNames {
		keep[name] = n.r.IntN(2) == 0 && name != "twice" && (name != "contended" || n.number%2 == 0)
	}
	for _, name := range fipNames {
		if f, there := n.fips[name]; there && (n.r.IntN(3) == 0 || f.eip != "" && (!keep[f.eip] || !n.eips[f.eip])) {
			n.remove("FIp", name)
			delete(n.fips, name)
		}
	}
	for _, name := range eipNames {
		switch {
		case !keep[name] && n.eips[name]:
			n.remove("EIp", name)
			n.eips[name] = false
		case keep[name] && !n.eips[name]:
			n.putEIp(name)
		}
		n.last["EIp "+name] = keep[name]
	}
	n.finishFIps(slices.Sorted(maps.Keys(n.eips)))
	n.move("v0", 20)
	n.last["Project"] = true
}

func (n *tenant) finishFIps(eips []string) {
	eips = slices.DeleteFunc(eips, func(name string) bool { return !n.eips[name] })
	n.r.Shuffle(len(eips), func(i, j int) { eips[i], eips[j] = eips[j], eips[i] })
	hosts := n.r.Perm(5)
	for i, name := range fipNames {
		_, there := n.fips[name]
		if n.last["FIp "+name] = there || n.r.IntN(2) == 0; !n.last["FIp "+name] {
			continue
		}
		f := fipSpec{address: n.address(10 + hosts[i])}
		if i == 3 {
			f.machine = "v0"
		}
		if i < len(eips) && n.r.IntN(2) == 0 {
			f.eip = eips[i]
		}
		n.putFIp(name, f)
	}
}
