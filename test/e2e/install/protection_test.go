package install

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// protection is something that a tenant must not write.
type protection struct {
	what      string
	attempt   harness.Attempt
	wantWords string
	allowed   harness.Attempt // nil: the only control is the same request by an operator
}

// protections are what a tenant must not write, with words of the error, and for each something similar that is
// allowed.
var protections = []protection{
	{
		"status of an EIp",
		harness.TryPatch("eips/guard-web/mine/status", `{"status":{"ipAddress":"198.51.100.9","ready":true}}`),
		"the status of EIp mine is written by the Sallyport controller: change spec",
		harness.TryPatch("eips/guard-web/mine", `{"metadata":{"labels":{"team":"a"}}}`),
	},
	{
		"status of a FIp",
		harness.TryPatch("fips/guard-web/mine/status", `{"status":{"externalIP":"198.51.100.9"}}`),
		"the status of FIp mine is written by",
		harness.TryPatch("fips/guard-web/mine", `{"spec":{"ipAddress":"10.0.0.8"}}`),
	},
	{
		"status of a Project",
		harness.TryPatch("projects/guard/web/status", `{"status":{"ready":true}}`),
		"the status of Project web is written by",
		harness.TryPatch("projects/guard/web", `{"metadata":{"labels":{"team":"a"}}}`),
	},
	{
		"removing our finalizer",
		harness.TryPatch("eips/guard-web/held", `{"metadata":{"finalizers":null}}`),
		"keep it; when a deletion waits, status.conditions",
		harness.TryPatch("eips/guard-web/held",
			`{"metadata":{"finalizers":["kube-dc.com/sallyport","example.com/own"]}}`),
	},
	{
		"adding our finalizer",
		harness.TryPatch("fips/guard-web/mine", `{"metadata":{"finalizers":["kube-dc.com/sallyport"]}}`),
		"leave it out; the controller adds it itself",
		harness.TryPatch("fips/guard-web/mine", `{"metadata":{"finalizers":["example.com/own"]}}`),
	},
	{
		"creating with our finalizer",
		harness.TryCreate("eips/guard-web/new", `{metadata: {finalizers: [kube-dc.com/sallyport]}, spec: {}}`),
		"leave it out; the controller adds it itself",
		harness.TryCreate("eips/guard-web/new", `{spec: {}}`),
	},
	{
		"changing default-gw",
		harness.TryPatch("eips/guard-web/default-gw", `{"metadata":{"annotations":{"a":"b"}}}`),
		"EIp default-gw belongs to the Sallyport controller: it goes with the Project",
		harness.TryPatch("eips/guard-web/mine", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	// two policies refuse it
	{
		"taking default-gw over", harness.TryPatch("eips/guard-web/default-gw", `{"metadata":{"labels":null}}`),
		"the Sallyport controller", nil,
	},
	{
		"deleting default-gw", harness.TryDelete("eips/guard-web/default-gw"), "EIp default-gw belongs to",
		harness.TryDelete("eips/guard-web/mine"),
	},
	{
		"deleting the EIp of a FIp",
		harness.TryDelete("eips/guard-web/fip-web-abcde"),
		"change or delete the object that it was made for (status.owners)",
		harness.TryDelete("fips/guard-web/mine"),
	},
	{
		"changing the project's attachment",
		harness.TryPatch("network-attachment-definitions/guard-web/default", `{"spec":{"config":"{\"a\":1}"}}`),
		"NetworkAttachmentDefinition default belongs to",
		harness.TryPatch("network-attachment-definitions/guard-web/mine", `{"metadata":{"labels":{"team":"a"}}}`),
	},
	{
		"deleting the project's attachment",
		harness.TryDelete("network-attachment-definitions/guard-web/default"),
		"NetworkAttachmentDefinition default belongs to",
		harness.TryDelete("network-attachment-definitions/guard-web/mine"),
	},
	{
		"an EIp that looks like ours",
		harness.TryCreate("eips/guard-web/new",
			`{metadata: {labels: {app.kubernetes.io/managed-by: sallyport}}, spec: {}}`),
		"app.kubernetes.io/managed-by=sallyport marks objects of the Sallyport controller",
		harness.TryCreate("eips/guard-web/new", `{metadata: {labels: {app.kubernetes.io/managed-by: Helm}}, spec: {}}`),
	},
	{
		"an attachment made ours",
		harness.TryPatch("network-attachment-definitions/guard-web/mine",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport"}}}`),
		"app.kubernetes.io/managed-by=sallyport marks",
		harness.TryPatch("network-attachment-definitions/guard-web/mine",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"Helm"}}}`),
	},
	{
		"another VPC's label",
		harness.TryPatch("fips/guard-web/mine", `{"metadata":{"labels":{"kube-dc.com/vpc":"acme-web"}}}`),
		"the label kube-dc.com/vpc is written by the Sallyport controller",
		harness.TryPatch("fips/guard-web/mine", `{"metadata":{"labels":{"vpc":"acme-web"}}}`),
	},
	{
		"a namespace's VPC",
		harness.TryPatch("namespaces//guard-web", `{"metadata":{"labels":{"kube-dc.com/vpc":"acme-web"}}}`),
		"the label kube-dc.com/vpc is written by",
		harness.TryPatch("namespaces//guard-web", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{
		"a namespace's project",
		harness.TryPatch("namespaces//guard-web", `{"metadata":{"labels":{"kube-dc.com/project":"acme"}}}`),
		"the label kube-dc.com/project makes a namespace part of a project",
		harness.TryPatch("eips/guard-web/mine", `{"metadata":{"labels":{"kube-dc.com/project":"acme"}}}`),
	},
	{
		"a namespace that looks like a project's",
		harness.TryCreate("namespaces//guard-new", `{metadata: {labels: {kube-dc.com/project: acme}}}`),
		"the label kube-dc.com/project makes", harness.TryCreate("namespaces//guard-new", `{}`),
	},
	{
		"a namespace's quota",
		harness.TryPatch("namespaces//guard-web", `{"metadata":{"annotations":{"kube-dc.com/eip-quota":"100"}}}`),
		"the annotation kube-dc.com/eip-quota is for the platform's operators",
		harness.TryPatch("namespaces//guard-web", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{
		"a namespace's quota by its status",
		harness.TryPatch("namespaces//guard-web/status",
			`{"metadata":{"annotations":{"kube-dc.com/eip-quota":"100"}}}`),
		"the annotation kube-dc.com/eip-quota is for",
		nil,
	},
	{
		"a Project's quota",
		harness.TryPatch("projects/guard/web", `{"spec":{"eipQuota":100}}`),
		"eipQuota is for the platform's operators",
		nil,
	},
	{
		"a Project's way out",
		harness.TryPatch("projects/guard/web",
			`{"metadata":{"annotations":{"network.kube-dc.com/egress-allowlist":"0.0.0.0/0"}}}`),
		"the annotation network.kube-dc.com/egress-allowlist is for",
		harness.TryPatch("projects/guard/web", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{
		"the network of a load balancer that has an address",
		harness.TryPatch("services/guard-web/balanced",
			`{"metadata":{"annotations":{"network.kube-dc.com/external-network-type":"third"}}}`),
		"make another Service on the network that you want",
		harness.TryPatch("services/guard-web/waiting",
			`{"metadata":{"annotations":{"network.kube-dc.com/external-network-type":"third"}}}`),
	},
	{
		"a new Project's way in",
		harness.TryCreate("projects/guard/new", `{metadata: {annotations: {network.kube-dc.com/ingress-allowlist: 0.0.0.0/0}},
  spec: {cidrBlock: 10.0.0.0/24, egressNetworkType: cloud}}`),
		"the annotation network.kube-dc.com/ingress-allowlist is for",
		harness.TryCreate("projects/guard/new", `{spec: {cidrBlock: 10.0.0.0/24, egressNetworkType: cloud}}`),
	},
}

// TestChart checks the permissions that the chart promises. It uses a separate lab, because the tests act as the
// controller and no other controller may run.
func TestChart(t *testing.T) {
	b := blueprint.Default()
	b.Nodes, b.Gateways = 1, 1
	c := harness.StartLab(t, "chart", b)
	c.ApplyChart(t)
	c.CreateTenancy(t, "guard", "guard-web")
	t.Run("tenants can't write what is ours", func(t *testing.T) { checkTenantProtections(t, c) })
	t.Run("the system works", func(t *testing.T) { checkSystemControllers(t, c) })
	t.Run("the controller", func(t *testing.T) { checkControllerRights(t, c) })
	t.Run("tenant roles", func(t *testing.T) { checkTenantRoles(t, c) })
}

// checkTenantProtections checks that a tenant with all permissions in the namespaces of an organization and its project
// cannot write what belongs to the controller or the operator, and that the error states what to do instead. Operators
// can.
func checkTenantProtections(t *testing.T, c *harness.Cluster) {
	owner, operator := c.ImpersonateUser(t, "owner"), c.ImpersonateUser(t, "operator")
	master := harness.NewUser(t, "system:masters", harness.LoadConfig(t, c.Kubeconfig()))
	for _, p := range slices.Concat(protections, networkProtections) {
		owner.Cannot(t, p.what, p.attempt, p.wantWords)
		if p.allowed != nil {
			owner.Can(t, "something like "+p.what, p.allowed)
		}
		operator.Can(t, p.what, p.attempt)
		master.Can(t, p.what, p.attempt)
	}
	for _, p := range podProtections {
		for _, who := range []harness.User{owner, operator, master} {
			who.Cannot(t, p.what, p.attempt, p.wantWords)
			who.Can(t, "something like "+p.what, p.allowed)
		}
	}
}

// checkSystemControllers checks that the namespace controller and the garbage collector can delete our objects.
func checkSystemControllers(t *testing.T, c *harness.Cluster) {
	for _, who := range []string{"namespace-controller", "generic-garbage-collector"} {
		system := c.ImpersonateUser(t, "system:serviceaccount:kube-system:"+who)
		for _, path := range []string{
			"services/guard-web/balanced-ext", "endpointslices/guard-web/balanced-ext", "eips/guard-web/default-gw",
			"eips/guard-web/fip-web-abcde", "network-attachment-definitions/guard-web/default",
		} {
			system.Can(t, "delete "+path, harness.TryDelete(path))
		}
	}
}

func checkControllerRights(t *testing.T, c *harness.Cluster) {
	controller := harness.NewUser(t, "the controller", harness.LoadConfig(t, c.ControllerKubeconfig(t)))
	controller.Can(t, "status", harness.TryPatch("eips/guard-web/mine/status", `{"status":{"ready":true}}`))
	controller.Can(t, "its finalizer", harness.TryPatch("fips/guard-web/mine",
		`{"metadata":{"finalizers":["kube-dc.com/sallyport"]}}`))
	controller.Can(t, "an EIp of its own", harness.TryDelete("eips/guard-web/default-gw"))
	// as Kube-OVN creates them; there is no such Subnet, so it leaves them alone
	c.Apply(t, `{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: guard-web-ext-lost}, spec: {type: lrp, externalSubnet: ext-lost}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: guard-web-ext-nat}, spec: {type: nat, externalSubnet: ext-nat}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: guard-offered, labels: {network.kube-dc.com/adopt: guard-web}}, spec: {type: nat, externalSubnet: ext-nat}}
`)
	for _, p := range controllerBounds {
		controller.Cannot(t, p.what, p.attempt, p.wantWords)
		controller.Can(t, "something like "+p.what, p.allowed)
	}
	for what, try := range map[string]harness.Attempt{
		"a FIp of somebody":        harness.TryDelete("fips/guard-web/mine"),
		"the scheduler's lease":    harness.TryPatch("leases/kube-system/kube-scheduler", `{}`),
		"certificates of Kube-OVN": harness.TryPatch("secrets/kube-system/kube-ovn-tls", `{}`),
		"a Project":                harness.TryCreate("projects/guard/new", `{}`),
		"a namespace's status":     harness.TryPatch("namespaces//guard-web/status", `{}`),
	} {
		controller.Cannot(t, what, try, `User "system:serviceaccount:kube-system:sallyport-controller" cannot`)
	}
}

// checkTenantRoles checks that Kubernetes' view and edit roles in a project's namespace include our kinds; Projects
// need a separate role.
func checkTenantRoles(t *testing.T, c *harness.Cluster) {
	viewer, editor, planner := c.ImpersonateUser(t, "viewer"), c.ImpersonateUser(t, "editor"),
		c.ImpersonateUser(t, "planner")
	for _, resource := range []string{"eips", "fips", "projects"} {
		viewer.Can(t, "list "+resource, harness.TryList(resource, "guard-web"))
		editor.Can(t, "list "+resource, harness.TryList(resource, "guard"))
		viewer.Cannot(t, "list "+resource+" elsewhere", harness.TryList(resource, "guard"),
			`User "viewer" cannot list resource`)
	}
	eip := harness.TryCreate("eips/guard-web/new", `{spec: {externalNetworkType: public}}`)
	for what, try := range map[string]harness.Attempt{
		"create EIp": eip,
		"create FIp": harness.TryCreate("fips/guard-web/new",
			`{spec: {ipAddress: 10.0.0.7, externalNetworkType: public}}`),
		"change FIp": harness.TryPatch("fips/guard-web/mine", `{"spec":{"ipAddress":"10.0.0.8"}}`),
		"delete EIp": harness.TryDelete("eips/guard-web/mine"),
		"delete FIp": harness.TryDelete("fips/guard-web/mine"),
	} {
		editor.Can(t, what, try)
		viewer.Cannot(t, what, try, `User "viewer" cannot`)
	}
	project := harness.TryCreate("projects/guard/new", `{spec: {cidrBlock: 10.0.0.0/24, egressNetworkType: cloud}}`)
	editor.Cannot(t, "status", harness.TryPatch("eips/guard-web/mine/status", `{"status":{"ready":true}}`),
		`cannot patch resource "eips/status"`)
	editor.Cannot(t, "create Project", project, `User "editor" cannot create resource "projects"`)
	planner.Can(t, "create Project", project)
	planner.Can(t, "delete Project", harness.TryDelete("projects/guard/web"))
	planner.Cannot(t, "create EIp", eip, `User "planner" cannot create resource "eips"`)
}
