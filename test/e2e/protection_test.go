package e2e

import (
	"testing"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
)

// protections are what a tenant must not write, with words of the answer, and beside each something like it that is allowed.
var protections = []struct {
	what  string
	try   tried
	words string
	like  tried // nil: the same thing by an operator is the only control
}{
	{
		"status of an EIp",
		patch("eips/guard-web/mine/status", `{"status":{"ipAddress":"198.51.100.9","ready":true}}`),
		"the status of EIp mine is written by the Sallyport controller: change spec",
		patch("eips/guard-web/mine", `{"metadata":{"labels":{"team":"a"}}}`),
	},
	{
		"status of a FIp",
		patch("fips/guard-web/mine/status", `{"status":{"externalIP":"198.51.100.9"}}`),
		"the status of FIp mine is written by",
		patch("fips/guard-web/mine", `{"spec":{"ipAddress":"10.0.0.8"}}`),
	},
	{
		"status of a Project",
		patch("projects/guard/web/status", `{"status":{"ready":true}}`),
		"the status of Project web is written by",
		patch("projects/guard/web", `{"metadata":{"labels":{"team":"a"}}}`),
	},
	{
		"removing our finalizer",
		patch("eips/guard-web/held", `{"metadata":{"finalizers":null}}`),
		"keep it; when a deletion waits, status.conditions",
		patch("eips/guard-web/held", `{"metadata":{"finalizers":["kube-dc.com/sallyport","example.com/own"]}}`),
	},
	{
		"adding our finalizer",
		patch("fips/guard-web/mine", `{"metadata":{"finalizers":["kube-dc.com/sallyport"]}}`),
		"leave it out; the controller adds it itself",
		patch("fips/guard-web/mine", `{"metadata":{"finalizers":["example.com/own"]}}`),
	},
	{
		"creating with our finalizer",
		create("eips/guard-web/new", `{metadata: {finalizers: [kube-dc.com/sallyport]}, spec: {}}`),
		"leave it out; the controller adds it itself",
		create("eips/guard-web/new", `{spec: {}}`),
	},
	{
		"changing default-gw",
		patch("eips/guard-web/default-gw", `{"metadata":{"annotations":{"a":"b"}}}`),
		"EIp default-gw belongs to the Sallyport controller: it goes with the Project",
		patch("eips/guard-web/mine", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{"taking default-gw over", patch("eips/guard-web/default-gw", `{"metadata":{"labels":null}}`), "the Sallyport controller", nil}, // two policies refuse it
	{"deleting default-gw", remove("eips/guard-web/default-gw"), "EIp default-gw belongs to", remove("eips/guard-web/mine")},
	{
		"deleting the EIp of a FIp",
		remove("eips/guard-web/fip-web-abcde"),
		"change or delete the object that it was made for (status.owners)",
		remove("fips/guard-web/mine"),
	},
	{
		"changing the project's attachment",
		patch("network-attachment-definitions/guard-web/default", `{"spec":{"config":"{\"a\":1}"}}`),
		"NetworkAttachmentDefinition default belongs to",
		patch("network-attachment-definitions/guard-web/mine", `{"spec":{"config":"{\"a\":1}"}}`),
	},
	{
		"deleting the project's attachment",
		remove("network-attachment-definitions/guard-web/default"),
		"NetworkAttachmentDefinition default belongs to",
		remove("network-attachment-definitions/guard-web/mine"),
	},
	{
		"an EIp that looks like ours",
		create("eips/guard-web/new", `{metadata: {labels: {app.kubernetes.io/managed-by: sallyport}}, spec: {}}`),
		"app.kubernetes.io/managed-by=sallyport marks objects of the Sallyport controller",
		create("eips/guard-web/new", `{metadata: {labels: {app.kubernetes.io/managed-by: Helm}}, spec: {}}`),
	},
	{
		"an attachment made ours",
		patch("network-attachment-definitions/guard-web/mine", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport"}}}`),
		"app.kubernetes.io/managed-by=sallyport marks",
		patch("network-attachment-definitions/guard-web/mine", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"Helm"}}}`),
	},
	{
		"another VPC's label",
		patch("fips/guard-web/mine", `{"metadata":{"labels":{"kube-dc.com/vpc":"acme-web"}}}`),
		"the label kube-dc.com/vpc is written by the Sallyport controller",
		patch("fips/guard-web/mine", `{"metadata":{"labels":{"vpc":"acme-web"}}}`),
	},
	{
		"a namespace's VPC",
		patch("namespaces//guard-web", `{"metadata":{"labels":{"kube-dc.com/vpc":"acme-web"}}}`),
		"the label kube-dc.com/vpc is written by",
		patch("namespaces//guard-web", `{"metadata":{"labels":{"team":"a"}}}`),
	},
	{
		"a namespace's project",
		patch("namespaces//guard-web", `{"metadata":{"labels":{"kube-dc.com/project":"acme"}}}`),
		"the label kube-dc.com/project makes a namespace part of a project",
		patch("eips/guard-web/mine", `{"metadata":{"labels":{"kube-dc.com/project":"acme"}}}`),
	},
	{
		"a namespace that looks like a project's",
		create("namespaces//guard-new", `{metadata: {labels: {kube-dc.com/project: acme}}}`),
		"the label kube-dc.com/project makes", create("namespaces//guard-new", `{}`),
	},
	{
		"a namespace's quota",
		patch("namespaces//guard-web", `{"metadata":{"annotations":{"kube-dc.com/eip-quota":"100"}}}`),
		"the annotation kube-dc.com/eip-quota is for the platform's operators",
		patch("namespaces//guard-web", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{
		"a namespace's quota by its status",
		patch("namespaces//guard-web/status", `{"metadata":{"annotations":{"kube-dc.com/eip-quota":"100"}}}`),
		"the annotation kube-dc.com/eip-quota is for",
		nil,
	},
	{
		"a Project's quota",
		patch("projects/guard/web", `{"spec":{"eipQuota":100}}`),
		"eipQuota is for the platform's operators",
		nil,
	},
	{
		"a Project's way out",
		patch("projects/guard/web", `{"metadata":{"annotations":{"network.kube-dc.com/egress-allowlist":"0.0.0.0/0"}}}`),
		"the annotation network.kube-dc.com/egress-allowlist is for",
		patch("projects/guard/web", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{
		"the network of a load balancer that has an address",
		patch("services/guard-web/balanced", `{"metadata":{"annotations":{"network.kube-dc.com/external-network-type":"third"}}}`),
		"make another Service on the network that you want",
		patch("services/guard-web/waiting", `{"metadata":{"annotations":{"network.kube-dc.com/external-network-type":"third"}}}`),
	},
	{
		"a new Project's way in",
		create("projects/guard/new", `{metadata: {annotations: {network.kube-dc.com/ingress-allowlist: 0.0.0.0/0}},
  spec: {cidrBlock: 10.0.0.0/24, egressNetworkType: cloud}}`),
		"the annotation network.kube-dc.com/ingress-allowlist is for",
		create("projects/guard/new", `{spec: {cidrBlock: 10.0.0.0/24, egressNetworkType: cloud}}`),
	},
}

// What the chart promises about people. In a lab of its own: the tests play the controller, and nobody else may.
func TestChart(t *testing.T) {
	b := blueprint.Default()
	b.Nodes, b.Gateways = 1, 1
	c := own(t, "chart", b)
	c.install(t)
	c.tenancy(t, "guard", "guard-web")
	t.Run("tenants can't write what is ours", c.tenantsAreKeptOff)
	t.Run("the system works", c.systemIsNotStopped)
	t.Run("the controller", c.controllerHasItsRights)
	t.Run("tenant roles", c.tenantsHaveRoles)
}

// A tenant with every right in the namespaces of an organization and its project can't write what is the controller's or the
// operator's, and is told what to do instead. Operators can.
func (c *cluster) tenantsAreKeptOff(t *testing.T) {
	owner, operator := c.user(t, "owner"), c.user(t, "operator")
	master := someone(t, "system:masters", configFrom(t, c.Kubeconfig()))
	for _, p := range protections {
		owner.cannot(t, p.what, p.try, p.words)
		if p.like != nil {
			owner.can(t, "something like "+p.what, p.like)
		}
		operator.can(t, p.what, p.try)
		master.can(t, p.what, p.try)
	}
}

// Those who empty namespaces and who collect garbage can delete what is ours.
func (c *cluster) systemIsNotStopped(t *testing.T) {
	for _, who := range []string{"namespace-controller", "generic-garbage-collector"} {
		system := c.user(t, "system:serviceaccount:kube-system:"+who)
		for _, path := range []string{"eips/guard-web/default-gw", "eips/guard-web/fip-web-abcde", "network-attachment-definitions/guard-web/default"} {
			system.can(t, "delete "+path, remove(path))
		}
	}
}

func (c *cluster) controllerHasItsRights(t *testing.T) {
	controller := someone(t, "the controller", configFrom(t, c.controllerKubeconfig(t)))
	controller.can(t, "status", patch("eips/guard-web/mine/status", `{"status":{"ready":true}}`))
	controller.can(t, "its finalizer", patch("fips/guard-web/mine", `{"metadata":{"finalizers":["kube-dc.com/sallyport"]}}`))
	controller.can(t, "an EIp of its own", remove("eips/guard-web/default-gw"))
	for what, try := range map[string]tried{
		"a FIp of somebody":        remove("fips/guard-web/mine"),
		"the scheduler's lease":    patch("leases/kube-system/kube-scheduler", `{}`),
		"certificates of Kube-OVN": patch("secrets/kube-system/kube-ovn-tls", `{}`),
		"a Project":                create("projects/guard/new", `{}`),
		"a namespace's status":     patch("namespaces//guard-web/status", `{}`),
	} {
		controller.cannot(t, what, try, `User "system:serviceaccount:kube-system:sallyport-controller" cannot`)
	}
}

// Who has Kubernetes' own view or edit in a project's namespace has ours with it; Projects need a role of their own.
func (c *cluster) tenantsHaveRoles(t *testing.T) {
	viewer, editor, planner := c.user(t, "viewer"), c.user(t, "editor"), c.user(t, "planner")
	for _, resource := range []string{"eips", "fips", "projects"} {
		viewer.can(t, "list "+resource, lists(resource, "guard-web"))
		editor.can(t, "list "+resource, lists(resource, "guard"))
		viewer.cannot(t, "list "+resource+" elsewhere", lists(resource, "guard"), `User "viewer" cannot list resource`)
	}
	eip := create("eips/guard-web/new", `{spec: {externalNetworkType: public}}`)
	for what, try := range map[string]tried{
		"create EIp": eip,
		"create FIp": create("fips/guard-web/new", `{spec: {ipAddress: 10.0.0.7, externalNetworkType: public}}`),
		"change FIp": patch("fips/guard-web/mine", `{"spec":{"ipAddress":"10.0.0.8"}}`),
		"delete EIp": remove("eips/guard-web/mine"),
		"delete FIp": remove("fips/guard-web/mine"),
	} {
		editor.can(t, what, try)
		viewer.cannot(t, what, try, `User "viewer" cannot`)
	}
	project := create("projects/guard/new", `{spec: {cidrBlock: 10.0.0.0/24, egressNetworkType: cloud}}`)
	editor.cannot(t, "status", patch("eips/guard-web/mine/status", `{"status":{"ready":true}}`), `cannot patch resource "eips/status"`)
	editor.cannot(t, "create Project", project, `User "editor" cannot create resource "projects"`)
	planner.can(t, "create Project", project)
	planner.can(t, "delete Project", remove("projects/guard/web"))
	planner.cannot(t, "create EIp", eip, `User "planner" cannot create resource "eips"`)
}
