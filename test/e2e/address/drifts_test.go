package address

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

func (p *driftedProject) handle(kind, namespace, name string) *unstructured.Unstructured {
	gvk := harness.Ref(kind, "", "").GVK
	if kind == "NetworkAttachmentDefinition" {
		gvk = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: kind}
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// nb does something with ovn-nbctl.
func (p *driftedProject) nb(args ...string) func() error {
	return func() error {
		_, err := p.tells(args...)
		return err
	}
}

// tells runs ovn-nbctl.
func (p *driftedProject) tells(args ...string) (string, error) {
	cmd, err := p.Command("", "lab", append([]string{
		p.Parts.Program("ovn-nbctl"), "--db=unix:" + filepath.Join(p.Dir, "data/ovn/nb1.sock"), "--timeout=30",
	}, args...)...)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("ovn-nbctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// change sets a column of the patient's rows of a table that meet a condition.
func (p *driftedProject) change(table, condition, set string) func() error {
	return func() error {
		found, err := p.find(table, condition)
		if err != nil {
			return err
		}
		for _, uuid := range found {
			if err := p.nb("set", table, uuid, set)(); err != nil {
				return err
			}
		}
		return nil
	}
}

// remove takes rows that meet a condition out of the set that they are in.
func (p *driftedProject) remove(set, table, condition string) func() error {
	return func() error {
		found, err := p.find(table, condition)
		if err != nil {
			return err
		}
		return p.nb(append(append([]string{"remove"}, strings.Fields(set)...), found...)...)()
	}
}

// find is the UUIDs of the patient's rows that meet conditions; there has to be one. The router names those that Kube-OVN makes.
func (p *driftedProject) find(table, condition string) (out []string, err error) {
	owned, err := p.tells("--bare", "--columns=nat,policies", "list", "logical_router", sick)
	if err != nil {
		return nil, err
	}
	found, err := p.tells(append([]string{"--bare", "--columns=_uuid", "find", table}, strings.Split(condition, ", ")...)...)
	if err != nil {
		return nil, err
	}
	for _, uuid := range strings.Fields(found) {
		if table != "nat" && table != "logical_router_policy" || strings.Contains(owned, uuid) {
			out = append(out, uuid)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no row with %s", table, condition)
	}
	return out, nil
}

// rows are what can be done to rows of ours, and to rows that Kube-OVN makes for objects of ours.
func (p *driftedProject) rows(*testing.T) []drift {
	a, b := p.addresses["a"], p.addresses["b"]
	port, hop, within := sick+"-onlink", "169.254.90.2", "10.66.0.0/24"
	nat := func(address string) []string { return []string{"NAT ", fmt.Sprintf("%q", address)} }
	policy := func(priority string) []string {
		return []string{"Logical_Router_Policy ", `"priority":` + priority, sick}
	}
	socket := "ext-cloud-" + sick // Kube-OVN's port to the router
	announced := []string{"Logical_Switch_Port ", `"` + socket + `"`}
	return []drift{
		{what: "router port deleted", about: []string{"Logical_Router_Port ", port}, hand: p.nb("lrp-del", port)},
		{what: "router port: another table", about: []string{"Logical_Router_Port ", port}, hand: p.nb("set", "Logical_Router_Port", port, "options:route_table=main")},
		{what: "router port: another MAC address", about: []string{"Logical_Router_Port ", port}, hand: p.nb("set", "Logical_Router_Port", port, `mac="0a:00:00:00:00:01"`)},
		{what: "router port: no peer", about: []string{"Logical_Router_Port ", port}, hand: p.nb("clear", "Logical_Router_Port", port, "peer")},
		{what: "MAC binding deleted", about: []string{"Static_MAC_Binding ", port}, hand: p.nb("static-mac-binding-del", port, hop)},
		{what: "MAC binding: another address", about: []string{"Static_MAC_Binding ", port}, hand: p.change("static_mac_binding", "logical_port="+port, `mac="0a:00:00:00:00:01"`)},
		{what: "NAT of a FIp deleted", about: nat(a), hand: p.nb("lr-nat-del", sick, "dnat_and_snat", a), answers: []string{"a"}},
		{what: "NAT of a FIp: another target", about: nat(a), hand: p.change("nat", "external_ip="+a, "logical_ip=10.66.0.99"), answers: []string{"a"}},
		{what: "NAT of a FIp on a secondary network deleted", about: nat(b), hand: p.nb("lr-nat-del", sick, "dnat_and_snat", b), answers: []string{"b"}},
		{what: "NAT of the way out deleted", about: []string{"NAT ", within}, hand: p.nb("lr-nat-del", sick, "snat", within)},
		{what: "NAT of the way out: another address", about: []string{"NAT ", within}, hand: p.change("nat", "logical_ip="+`"`+within+`"`, "external_ip=100.65.99.99")},
		{what: "policy of the way out deleted", about: policy("1000"), hand: p.nb("lr-policy-del", sick, "1000")},
		{what: "policy of the way out: another next hop", about: policy("1000"), hand: p.change("logical_router_policy", "priority=1000", "nexthops=100.65.0.99")},
		{what: "policy of the way out: another action", about: policy("1000"), hand: p.change("logical_router_policy", "priority=1000", "action=drop")},
		{what: "policy for neighbours deleted", about: policy("1010"), hand: p.nb("lr-policy-del", sick, "1010")},
		{what: "addresses no longer announced", about: announced, hand: p.nb("remove", "logical_switch_port", socket, "options", "nat-addresses")},
		{what: "another address announced", about: announced, hand: p.nb("set", "logical_switch_port", socket, `options:nat-addresses="0a:00:00:00:00:01 100.65.0.99"`)},
	}
}

// objectDrifts are what can be done to whole objects.
func (p *driftedProject) objectDrifts(*testing.T) []drift {
	const chain = 10 * time.Second
	object := func(kind, name string) []string { return []string{kind + " /" + name + " "} }
	return []drift{
		{what: "OvnFip deleted", about: object("OvnFip", sick+"-a"), hand: p.deletes("OvnFip", "", sick+"-a"), answers: []string{"a"}},
		{what: "OvnFip of a secondary network deleted", about: object("OvnFip", sick+"-b"), hand: p.deletes("OvnFip", "", sick+"-b"), answers: []string{"b"}},
		{what: "OvnEip deleted, in use", about: object("OvnEip", "eip-"+sick+"-cloud"), hand: p.deletes("OvnEip", "", "eip-"+sick+"-cloud"), answers: []string{"a"}, chain: chain},
		{what: "OvnEip of a secondary network deleted, in use", about: object("OvnEip", "eip-"+sick+"-public"), hand: p.deletes("OvnEip", "", "eip-"+sick+"-public"), answers: []string{"b"}, chain: chain},
		{what: "OvnSnatRule deleted", about: object("OvnSnatRule", sick), hand: p.deletes("OvnSnatRule", "", sick)},
		{what: "OvnEip of the router port deleted", about: object("OvnEip", sick+"-ext-cloud"), hand: p.deletes("OvnEip", "", sick+"-ext-cloud"), answers: []string{"a"}, chain: chain},
		{what: "OvnEip of a secondary router port deleted", about: object("OvnEip", sick+"-ext-public"), hand: p.deletes("OvnEip", "", sick+"-ext-public"), answers: []string{"b"}, chain: chain},
		{
			what: "attachment deleted", about: []string{"NetworkAttachmentDefinition " + sick + "/default "},
			hand: p.deletes("NetworkAttachmentDefinition", sick, "default"),
		},
	}
}

// elementDrifts are what can be done to lists and fields of objects.
func (p *driftedProject) elementDrifts(*testing.T) []drift {
	const chain = 10 * time.Second
	vpc := []string{"Vpc /" + sick + " "}
	return []drift{
		{what: "policyRoutes: all of ours removed", about: vpc, hand: p.list("policyRoutes", func(e any) any {
			if ownership.Priority(sick, int(e.(map[string]any)["priority"].(int64))) {
				return nil
			}
			return e
		}), answers: []string{"b"}},
		{what: "policyRoutes: another next hop", about: vpc, hand: p.list("policyRoutes", func(e any) any {
			if element := e.(map[string]any); element["priority"].(int64) == 1000 {
				element["nextHopIP"] = "100.65.0.99"
			}
			return e
		})},
		{what: "staticRoutes: default route removed", about: vpc, hand: p.list("staticRoutes", func(e any) any {
			if e.(map[string]any)["cidr"] == "0.0.0.0/0" {
				return nil
			}
			return e
		})},
		{what: "staticRoutes: another next hop", about: vpc, hand: p.list("staticRoutes", func(e any) any {
			if element := e.(map[string]any); element["cidr"] == "0.0.0.0/0" {
				element["nextHopIP"] = "100.65.0.99"
			}
			return e
		})},
		{what: "extraExternalSubnets: one removed", about: vpc, hand: p.list("extraExternalSubnets", func(e any) any {
			if e == "ext-public" {
				return nil
			}
			return e
		}), answers: []string{"b"}, chain: chain},
		{what: "extraExternalSubnets: all removed", about: vpc, hand: p.list("extraExternalSubnets", func(any) any { return nil }), answers: []string{"a", "b"}, chain: chain},
		{what: "enableExternal: false", about: vpc, hand: p.patch("Vpc", "", sick, `{"spec":{"enableExternal":false}}`), answers: []string{"a", "b"}, chain: chain},
		{what: "Vpc: no namespaces", about: vpc, hand: p.patch("Vpc", "", sick, `{"spec":{"namespaces":[]}}`)},
		{
			what: "Subnet: no namespaces", about: []string{"Subnet /" + sick + "-default "},
			hand: p.patch("Subnet", "", sick+"-default", `{"spec":{"namespaces":null}}`),
		},
		{
			what: "Subnet: no addresses kept for legs", about: []string{"Subnet /" + sick + "-default "},
			hand: p.patch("Subnet", "", sick+"-default", `{"spec":{"excludeIps":["10.66.0.1"]}}`),
		},
		{
			what: "attachment changed", about: []string{"NetworkAttachmentDefinition " + sick + "/default "},
			hand: p.patch("NetworkAttachmentDefinition", sick, "default", `{"spec":{"config":"{}"}}`),
		},
	}
}

// list rewrites a list of the Vpc by hand; an element that becomes nil goes, and more come.
func (p *driftedProject) list(name string, change func(any) any, more ...any) func() error {
	return p.does(func(ctx context.Context) error {
		vpc, err := p.Objects.Get(ctx, harness.Ref("Vpc", "", sick))
		if err != nil || vpc == nil {
			return fmt.Errorf("read the Vpc: %w", err)
		}
		items, _, err := unstructured.NestedSlice(vpc.Object, "spec", name)
		if err != nil {
			return err
		}
		next := []any{}
		for _, e := range items {
			if e = change(e); e != nil {
				next = append(next, e)
			}
		}
		raw, err := json.Marshal(map[string]any{"spec": map[string]any{name: append(next, more...)}})
		if err != nil {
			return err
		}
		return p.patch("Vpc", "", sick, string(raw))()
	})
}
