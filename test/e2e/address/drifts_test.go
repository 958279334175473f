package address

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

func (p *driftedProject) objectHandle(kind, namespace, name string) *unstructured.Unstructured {
	gvk := harness.ObjectRef(kind, "", "").GVK
	if kind == "NetworkAttachmentDefinition" {
		gvk = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: kind}
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// nbctl returns a function that runs ovn-nbctl.
func (p *driftedProject) nbctl(args ...string) func() error {
	return func() error {
		_, err := p.tryNbctl(args...)
		return err
	}
}

func (p *driftedProject) tryNbctl(args ...string) (string, error) {
	cmd, err := p.Command("", "lab", append([]string{
		p.Parts.Program("ovn-nbctl"), "--db=unix:" + filepath.Join(p.Dir, "data/ovn/nb1.sock"), harness.ToolTimeout,
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

// changeRows returns a function that sets a column of the project's rows that match a condition.
func (p *driftedProject) changeRows(table, condition, set string) func() error {
	return func() error {
		found, err := p.findRows(table, condition)
		if err != nil {
			return err
		}
		for _, uuid := range found {
			if err := p.nbctl("set", table, uuid, set)(); err != nil {
				return err
			}
		}
		return nil
	}
}

// removeRows returns a function that removes rows that match a condition from their set.
func (p *driftedProject) removeRows(set, table, condition string) func() error {
	return func() error {
		found, err := p.findRows(table, condition)
		if err != nil {
			return err
		}
		return p.nbctl(append(append([]string{"remove"}, strings.Fields(set)...), found...)...)()
	}
}

// findRows returns the UUIDs of the project's rows that match conditions; there must be at least one. Rows that
// Kube-OVN writes are found through the router.
func (p *driftedProject) findRows(table, condition string) (out []string, err error) {
	owned, err := p.tryNbctl("--bare", "--columns=nat,policies", "list", "logical_router", driftVPC)
	if err != nil {
		return nil, err
	}
	found, err := p.tryNbctl(append([]string{"--bare", "--columns=_uuid", "find", table},
		strings.Split(condition, ", ")...)...)
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

// rowDrifts changes our rows, and rows that Kube-OVN writes for our objects.
func (p *driftedProject) rowDrifts(*testing.T) []driftCase {
	return slices.Concat(p.portDrifts(), p.natDrifts(), p.policyDrifts())
}

// portDrifts changes the router, its on-link port and the MAC binding of that.
func (p *driftedProject) portDrifts() []driftCase {
	port, hop := driftVPC+"-onlink", "169.254.90.2"
	return []driftCase{
		{
			what:         "router: learns from every ARP request",
			watchedWords: []string{"Logical_Router ", driftVPC},
			change:       p.nbctl("set", "Logical_Router", driftVPC, "options:always_learn_from_arp_request=true"),
		},
		{
			what:         "router port deleted",
			watchedWords: []string{"Logical_Router_Port ", port},
			change:       p.nbctl("lrp-del", port),
		},
		{
			what:         "router port: another table",
			watchedWords: []string{"Logical_Router_Port ", port},
			change:       p.nbctl("set", "Logical_Router_Port", port, "options:route_table=main"),
		},
		{
			what:         "router port: another MAC address",
			watchedWords: []string{"Logical_Router_Port ", port},
			change:       p.nbctl("set", "Logical_Router_Port", port, `mac="0a:00:00:00:00:01"`),
		},
		{
			what:         "router port: no peer",
			watchedWords: []string{"Logical_Router_Port ", port},
			change:       p.nbctl("clear", "Logical_Router_Port", port, "peer"),
		},
		{
			what:         "MAC binding deleted",
			watchedWords: []string{"Static_MAC_Binding ", port},
			change:       p.nbctl("static-mac-binding-del", port, hop),
		},
		{
			what:         "MAC binding: another address",
			watchedWords: []string{"Static_MAC_Binding ", port},
			change:       p.changeRows("static_mac_binding", "logical_port="+port, `mac="0a:00:00:00:00:01"`),
		},
	}
}

// natDrifts changes the NAT rows of FIps and of the default SNAT.
func (p *driftedProject) natDrifts() []driftCase {
	a, b, within := p.fipAddresses["a"], p.fipAddresses["b"], "10.66.0.0/24"
	nat := func(address string) []string { return []string{"NAT ", fmt.Sprintf("%q", address)} }
	return []driftCase{
		{
			what:          "NAT of a FIp deleted",
			watchedWords:  nat(a),
			change:        p.nbctl("lr-nat-del", driftVPC, "dnat_and_snat", a),
			answeringFIPs: []string{"a"},
		},
		{
			what:          "NAT of a FIp: another target",
			watchedWords:  nat(a),
			change:        p.changeRows("nat", "external_ip="+a, "logical_ip=10.66.0.99"),
			answeringFIPs: []string{"a"},
		},
		{
			what:          "NAT of a FIp on a secondary network deleted",
			watchedWords:  nat(b),
			change:        p.nbctl("lr-nat-del", driftVPC, "dnat_and_snat", b),
			answeringFIPs: []string{"b"},
		},
		{
			what:         "NAT of the way out deleted",
			watchedWords: []string{"NAT ", within},
			change:       p.nbctl("lr-nat-del", driftVPC, "snat", within),
		},
		{
			what:         "NAT of the way out: another address",
			watchedWords: []string{"NAT ", within},
			change:       p.changeRows("nat", "logical_ip="+`"`+within+`"`, "external_ip=100.65.99.99"),
		},
	}
}

// policyDrifts changes router policies, and the addresses that Kube-OVN's switch port announces for the router.
func (p *driftedProject) policyDrifts() []driftCase {
	policy := func(priority string) []string {
		return []string{"Logical_Router_Policy ", `"priority":` + priority, driftVPC}
	}
	peer := "ext-cloud-" + driftVPC // Kube-OVN's port to the router
	announced := []string{"Logical_Switch_Port ", `"` + peer + `"`}
	return []driftCase{
		{
			what:         "policy of the way out deleted",
			watchedWords: policy("1000"),
			change:       p.nbctl("lr-policy-del", driftVPC, "1000"),
		},
		{
			what:         "policy of the way out: another next hop",
			watchedWords: policy("1000"),
			change:       p.changeRows("logical_router_policy", "priority=1000", "nexthops=100.65.0.99"),
		},
		{
			what:         "policy of the way out: another action",
			watchedWords: policy("1000"),
			change:       p.changeRows("logical_router_policy", "priority=1000", "action=drop"),
		},
		{
			what:         "policy for neighbours deleted",
			watchedWords: policy("1010"),
			change:       p.nbctl("lr-policy-del", driftVPC, "1010"),
		},
		{
			what:         "addresses no longer announced",
			watchedWords: announced,
			change:       p.nbctl("remove", "logical_switch_port", peer, "options", "nat-addresses"),
		},
		{what: "another address announced", watchedWords: announced, change: p.nbctl("set", "logical_switch_port", peer,
			`options:nat-addresses="0a:00:00:00:00:01 100.65.0.99"`)},
	}
}

// objectDrifts changes whole objects.
func (p *driftedProject) objectDrifts(*testing.T) []driftCase {
	object := func(kind, name string) []string { return []string{kind + " /" + name + " "} }
	return []driftCase{
		{
			what:          "OvnFip deleted",
			watchedWords:  object("OvnFip", driftVPC+"-a"),
			change:        p.deleteObject("OvnFip", "", driftVPC+"-a"),
			answeringFIPs: []string{"a"},
		},
		{
			what:          "OvnFip of a secondary network deleted",
			watchedWords:  object("OvnFip", driftVPC+"-b"),
			change:        p.deleteObject("OvnFip", "", driftVPC+"-b"),
			answeringFIPs: []string{"b"},
		},
		{
			what:          "OvnEip deleted, in use",
			watchedWords:  object("OvnEip", "eip-"+driftVPC+"-cloud"),
			change:        p.deleteObject("OvnEip", "", "eip-"+driftVPC+"-cloud"),
			answeringFIPs: []string{"a"},
			isChain:       true,
		},
		{
			what:          "OvnEip of a secondary network deleted, in use",
			watchedWords:  object("OvnEip", "eip-"+driftVPC+"-public"),
			change:        p.deleteObject("OvnEip", "", "eip-"+driftVPC+"-public"),
			answeringFIPs: []string{"b"},
			isChain:       true,
		},
		{
			what:         "OvnSnatRule deleted",
			watchedWords: object("OvnSnatRule", driftVPC),
			change:       p.deleteObject("OvnSnatRule", "", driftVPC),
		},
		{
			what:          "OvnEip of the router port deleted",
			watchedWords:  object("OvnEip", driftVPC+"-ext-cloud"),
			change:        p.deleteObject("OvnEip", "", driftVPC+"-ext-cloud"),
			answeringFIPs: []string{"a"},
			isChain:       true,
		},
		{
			what:          "OvnEip of a secondary router port deleted",
			watchedWords:  object("OvnEip", driftVPC+"-ext-public"),
			change:        p.deleteObject("OvnEip", "", driftVPC+"-ext-public"),
			answeringFIPs: []string{"b"},
			isChain:       true,
		},
		{
			what:         "OvnEip of a router port as Kube-OVN itself creates it",
			watchedWords: object("OvnEip", driftVPC+"-ext-public"),
			change: p.patchObject("OvnEip", "", driftVPC+"-ext-public", `{"metadata": {"managedFields": [{}],
				"annotations": {"kube-dc.com/asked-by": null},
				"labels": {"kube-dc.com/vpc": null, "app.kubernetes.io/managed-by": null}}}`),
			answeringFIPs: []string{"b"},
		},
		{
			what:         "OvnEip of a router port as Kube-OVN itself creates it, said to be another VPC's",
			watchedWords: object("OvnEip", driftVPC+"-ext-public"),
			change: p.patchObject("OvnEip", "", driftVPC+"-ext-public", `{"metadata": {"managedFields": [{}],
				"annotations": {"kube-dc.com/asked-by": null},
				"labels": {"kube-dc.com/vpc": "drift-empty", "app.kubernetes.io/managed-by": null}}}`),
			answeringFIPs: []string{"b"},
		},
		{
			what: "attachment deleted", watchedWords: []string{"NetworkAttachmentDefinition " + driftVPC + "/default "},
			change: p.deleteObject("NetworkAttachmentDefinition", driftVPC, "default"),
		},
	}
}

// vpcEntryDrifts changes lists and fields of objects.
func (p *driftedProject) vpcEntryDrifts(*testing.T) []driftCase {
	vpc := []string{"Vpc /" + driftVPC + " "}
	return []driftCase{
		{
			what: "policyRoutes: all of ours removed", watchedWords: vpc,
			change: p.changeVPCList("policyRoutes", func(e any) any {
				if ownership.IsOwnPriority(driftVPC, int(e.(map[string]any)["priority"].(int64))) {
					return nil
				}
				return e
			}), answeringFIPs: []string{"b"},
		},
		{
			what: "policyRoutes: another next hop", watchedWords: vpc,
			change: p.changeVPCList("policyRoutes", func(e any) any {
				if element := e.(map[string]any); element["priority"].(int64) == 1000 {
					element["nextHopIP"] = "100.65.0.99"
				}
				return e
			}),
		},
		{
			what: "staticRoutes: default route removed", watchedWords: vpc,
			change: p.changeVPCList("staticRoutes", func(e any) any {
				if e.(map[string]any)["cidr"] == "0.0.0.0/0" {
					return nil
				}
				return e
			}),
		},
		{
			what: "staticRoutes: another next hop", watchedWords: vpc,
			change: p.changeVPCList("staticRoutes", func(e any) any {
				if element := e.(map[string]any); element["cidr"] == "0.0.0.0/0" {
					element["nextHopIP"] = "100.65.0.99"
				}
				return e
			}),
		},
		{
			what: "extraExternalSubnets: one removed", watchedWords: vpc,
			change: p.changeVPCList("extraExternalSubnets", func(e any) any {
				if e == "ext-public" {
					return nil
				}
				return e
			}), answeringFIPs: []string{"b"}, isChain: true,
		},
		{
			what: "extraExternalSubnets: all removed", watchedWords: vpc,
			change: p.changeVPCList("extraExternalSubnets", func(any) any {
				return nil
			}), answeringFIPs: []string{"a", "b"}, isChain: true,
		},
		{what: "enableExternal: false", watchedWords: vpc, change: p.patchObject("Vpc", "", driftVPC,
			`{"spec":{"enableExternal":false}}`), answeringFIPs: []string{"a", "b"}, isChain: true},
		{
			what:         "Vpc: no namespaces",
			watchedWords: vpc,
			change:       p.patchObject("Vpc", "", driftVPC, `{"spec":{"namespaces":[]}}`),
		},
		{
			what: "Subnet: no namespaces", watchedWords: []string{"Subnet /" + driftVPC + "-default "},
			change: p.patchObject("Subnet", "", driftVPC+"-default", `{"spec":{"namespaces":null}}`),
		},
		{
			what: "Subnet: no addresses kept for legs", watchedWords: []string{"Subnet /" + driftVPC + "-default "},
			change: p.patchObject("Subnet", "", driftVPC+"-default", `{"spec":{"excludeIps":["10.66.0.1"]}}`),
		},
		{
			what: "attachment changed", watchedWords: []string{"NetworkAttachmentDefinition " + driftVPC + "/default "},
			change: p.patchObject("NetworkAttachmentDefinition", driftVPC, "default", `{"spec":{"config":"{}"}}`),
		},
	}
}

// changeVPCList returns a function that rewrites a list of the Vpc: entries for which change returns nil are removed,
// and more entries are added.
func (p *driftedProject) changeVPCList(name string, change func(any) any, more ...any) func() error {
	return p.withTimeout(func(ctx context.Context) error {
		vpc, err := p.Objects.Get(ctx, harness.ObjectRef("Vpc", "", driftVPC))
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
		return p.patchObject("Vpc", "", driftVPC, string(raw))()
	})
}
