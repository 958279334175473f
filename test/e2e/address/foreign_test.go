package address

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// labelAndStatusDrifts changes labels, finalizers and statuses.
func (p *driftedProject) labelAndStatusDrifts(*testing.T) []driftCase {
	var out []driftCase
	for _, o := range []struct{ kind, namespace, name string }{
		{"Namespace", "", driftVPC},
		{"Vpc", "", driftVPC},
		{"Subnet", "", driftVPC + "-default"},
		{"EIp", driftVPC, "default-gw"},
		{"OvnEip", "", "eip-" + driftVPC + "-cloud"},
		{"OvnEip", "", driftVPC + "-ext-cloud"},
		{"OvnFip", "", driftVPC + "-a"},
		{"OvnSnatRule", "", driftVPC},
		{"NetworkAttachmentDefinition", driftVPC, "default"},
	} {
		about := []string{fmt.Sprintf("%s %s/%s ", o.kind, o.namespace, o.name)}
		for what, labels := range map[string]string{
			"labels removed":       `{"kube-dc.com/vpc":null,"app.kubernetes.io/managed-by":null}`,
			"said to be of nobody": `{"app.kubernetes.io/managed-by":null}`,
			"said to be Helm's":    `{"app.kubernetes.io/managed-by":"Helm"}`,
			// an existing shard, which would delete what it does not need
			"said to be another VPC's": `{"kube-dc.com/vpc":"drift-empty"}`,
		} {
			out = append(out, driftCase{
				what:         o.kind + " " + o.name + " " + what,
				watchedWords: about,
				change:       p.patchObject(o.kind, o.namespace, o.name, `{"metadata":{"labels":`+labels+`}}`),
			})
		}
	}
	for _, o := range []struct{ kind, namespace, name, status string }{
		{"Project", "drift", "web", `{"externalIP":"192.0.2.1","ready":false,"conditions":[]}`},
		{"EIp", driftVPC, "cloud", `{"ipAddress":"192.0.2.1","ready":false,"owners":[]}`},
		{"FIp", driftVPC, "a", `{"externalIP":"192.0.2.1","ready":false,"conditions":null}`},
	} {
		about := []string{fmt.Sprintf("%s %s/%s ", o.kind, o.namespace, o.name)}
		out = append(out,
			driftCase{
				what:         "finalizer of a " + o.kind + " removed",
				watchedWords: about,
				change:       p.patchObject(o.kind, o.namespace, o.name, `{"metadata":{"finalizers":null}}`),
			},
			driftCase{
				what:         "status of a " + o.kind + " changed",
				watchedWords: about,
				change:       p.patchStatus(o.kind, o.namespace, o.name, `{"status":`+o.status+`}`),
			})
	}
	slices.SortFunc(out, func(a, b driftCase) int { return strings.Compare(a.what, b.what) })
	return out
}

// foreignNeighbour is an address with a MAC binding that belongs to others.
const foreignNeighbour = "10.66.0.99"

// foreignRowCommands returns commands that create rows of others, on a router of theirs and on the project's.
func foreignRowCommands() []string {
	return []string{
		"lr-add foreign", "lrp-add foreign foreign-port 00:00:00:00:99:01 10.99.0.1/24",
		"lr-nat-add foreign snat 203.0.113.77 10.99.0.0/24",
		"lr-policy-add foreign 1000 ip4.dst==10.99.0.0/24 drop", "lr-route-add foreign 10.98.0.0/24 10.99.0.2",
		"static-mac-binding-add foreign-port 10.99.0.2 00:00:00:00:99:02",
		"lr-nat-add " + driftVPC + " snat 100.65.250.78 10.99.0.0/24",
		"lr-nat-add " + driftVPC + " dnat_and_snat 100.65.250.79 10.99.0.5",
		"lr-route-add " + driftVPC + " 10.98.0.0/24 10.66.0.201",
		"--route-table=" + returnRouteTable + " lr-route-add " + driftVPC + " 10.98.1.0/24 91.224.11.1",
		"--route-table=foreign lr-route-add " + driftVPC + " 10.98.2.0/24 91.224.11.1",
		"static-mac-binding-add " + driftRouterPort + " " + foreignNeighbour + " 00:00:00:00:99:03",
		"lsp-add " + driftSubnet + " foreign-lsp", "pg-add foreign_group b." + driftVPC,
		"create address_set name=foreign_set addresses=10.99.0.7",
		"acl-add foreign_group to-lport 1000 ip4.src==10.99.0.0/24 drop",
		"--tier=1 acl-add foreign_group to-lport 100 ip4.src==10.99.1.0/24 allow-related",
		"qos-add " + driftSubnet + " from-lport 1000 ip4.src==10.99.0.0/24 mark=7",
		"qos-add " + driftSubnet + " to-lport 100 ip4.src==10.99.0.0/24 rate=1000",
	}
}

// createForeign creates rows and objects that belong to others close to ours, and returns them.
func (p *driftedProject) createForeign(t *testing.T) stateDump {
	t.Helper()
	c := p.Cluster
	c.CreateProject(t, "drift", "empty", "10.67.0.0/24", "cloud")
	c.Apply(t, fmt.Sprintf(`
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: foreign-eip}, spec: {externalSubnet: ext-cloud, type: nat}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: foreign, namespace: %[1]s}, data: {a: b}}
---
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: foreign, namespace: %[1]s}, spec: {config: "{}"}}`, driftVPC))
	c.WaitForObject(t, "OvnEip", "", "foreign-eip", manifest.Field("true", "status", "ready"))
	c.Apply(t, fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {name: foreign-fip}, spec: {ovnEip: foreign-eip, vpc: %s, v4Ip: 10.66.0.77}}", driftVPC))
	c.WaitForObject(t, "OvnFip", "", "foreign-fip", manifest.Field("true", "status", "ready"))
	for _, command := range foreignRowCommands() {
		p.RunNbctl(t, strings.Fields(command)...)
	}
	all := func(e any) any { return e }
	for _, hand := range []func() error{
		p.changeVPCList("policyRoutes", all,
			map[string]any{"priority": 500, "match": "ip4.dst == 10.99.1.0/24", "action": "drop"},
			map[string]any{
				"priority":  20000,
				"match":     "ip4.dst == 10.99.2.0/24",
				"action":    "reroute",
				"nextHopIP": "10.66.0.202",
			}),
		p.changeVPCList("staticRoutes", all,
			map[string]any{"cidr": "10.97.0.0/24", "nextHopIP": "10.66.0.203", "policy": "policyDst"}),
		p.patchObject("Vpc", "", driftVPC,
			`{"metadata":{"labels":{"foreign":"label"},"annotations":{"foreign":"annotation"}}}`),
	} {
		if err := hand(); err != nil {
			t.Fatal(err)
		}
	}
	p.addForeignCondition(t)
	waitQuiet(t, c)
	return p.collectForeign(t)
}

// addForeignCondition writes a condition of another manager into the status of an EIp.
func (p *driftedProject) addForeignCondition(t *testing.T) {
	t.Helper()
	o := p.objectHandle("EIp", driftVPC, "cloud")
	o.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "foreign", "status": "True", "reason": "Seen", "message": "",
		"lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
	err := p.api.Status().Apply(harness.Within(t, harness.Patience), client.ApplyConfigurationFromUnstructured(o),
		client.FieldOwner("auditor"))
	if err != nil {
		t.Fatal(err)
	}
}

// collectForeign returns the current state of what belongs to others: their rows and objects, and their fields of ours.
func (p *driftedProject) collectForeign(t *testing.T) stateDump {
	t.Helper()
	words := []string{"foreign", "10.97.", "10.98.", "10.99.", "203.0.113.7", "100.65.250.", "00:00:00:00:99:"}
	out := takeSnapshot(t, p.Cluster).filter(func(line string) bool {
		ours := strings.HasPrefix(line, "Vpc /"+driftVPC) || strings.HasPrefix(line, "EIp "+driftVPC) ||
			strings.HasPrefix(line, "OVN_Southbound")
		adopted := strings.Contains(line, "vpc_external") // Kube-OVN adopts it within a minute
		return !ours && !adopted && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) })
	})
	read := func(kind, namespace, name string) *unstructured.Unstructured {
		o, err := p.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef(kind, namespace, name))
		if err != nil || o == nil {
			t.Fatalf("%s %s: %v", kind, name, err)
		}
		return o
	}
	vpc := read("Vpc", "", driftVPC)
	parts := []any{vpc.GetLabels()["foreign"], vpc.GetAnnotations()["foreign"]}
	for _, path := range [][]string{{"spec", "policyRoutes"}, {"spec", "staticRoutes"}} {
		list, _, _ := unstructured.NestedSlice(vpc.Object, path...)
		parts = append(parts, list...)
	}
	conditions, _, _ := unstructured.NestedSlice(read("EIp", driftVPC, "cloud").Object, "status", "conditions")
	for _, part := range append(parts, conditions...) {
		if line := fmt.Sprint(part); slices.ContainsFunc(words, func(w string) bool {
			return strings.Contains(line, w)
		}) {
			out["part of ours: "+line]++
		}
	}
	return out
}
