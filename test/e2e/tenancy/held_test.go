package tenancy

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// heldAttacks are the attacks that already failed in the security review. They must still fail.
var heldAttacks = []attack{
	{
		by: tenantEditor, what: "EIp with the gateway's address of an external network",
		stoppedBy: "condition `AddressOutsideNetwork`",
		run: func(t *testing.T, f *attackFixture, who actor) {
			who.MustApply(t, f, eipManifest("evil-x", "gateway",
				"{externalNetworkType: public, ipAddress: 91.224.11.1}"))
			f.expectReason(t, harness.ObjectRef("EIp", "evil-x", "gateway"), "Accepted", "AddressOutsideNetwork")
			who.MustApply(t, f, eipManifest("evil-x", "free", "{externalNetworkType: public, ipAddress: 91.224.11.77}"))
			f.WaitProgrammedOnNodes(t, "EIp", "evil-x", "free")
		},
	},
	{
		by: tenantEditor, what: "EIp with another tenant's address", stoppedBy: "condition `AddressTaken`",
		run: func(t *testing.T, f *attackFixture, who actor) {
			victim := f.victims[0]
			who.MustApply(t, f, eipManifest("evil-x", "taken",
				fmt.Sprintf("{externalNetworkType: public, ipAddress: %s}", victim.fip)))
			f.expectReason(t, harness.ObjectRef("EIp", "evil-x", "taken"), "Accepted", "AddressTaken")
			f.ExpectAnswer(t, f.public.Client, "http://"+victim.fip, "shop", f.public.ClientAddress)
		},
	},
	{
		by: tenantOwner, what: "write the status of an EIp", stoppedBy: "policy `sallyport-status`",
		run: expectRefused(
			harness.TryPatch("eips/evil-x/default-gw/status", `{"status":{"ipAddress":"91.224.11.9"}}`),
			"is written by the Sallyport controller",
			harness.TryCreate("eips/evil-x/new", `{spec: {externalNetworkType: public}}`)),
	},
	{
		by: projectPlanner, what: "raise the quota of a Project", stoppedBy: "policy `sallyport-limits`",
		run: expectRefused(
			harness.TryPatch("projects/evil/x", `{"spec":{"eipQuota":1000}}`),
			"eipQuota is for the platform's operators",
			harness.TryPatch("projects/evil/x", `{"metadata":{"labels":{"team":"a"}}}`)),
	},
	{
		by: nodeAgent, what: "read Secrets of kube-system", stoppedBy: "RBAC of the agent",
		run: expectRefused(harness.TryList("secrets", "kube-system"), "cannot list resource",
			harness.TryList("nodepaths", "")),
	},
	{
		by: nodeAgent, what: "make a node send a packet", stoppedBy: "RBAC of the agent",
		run: expectRefused(harness.TryCreate("inspections//sent", sendInspection), "cannot create",
			harness.TryList("inspections", "")),
	},
	{
		by: tenantOwner, what: "make a node send a packet", stoppedBy: "RBAC: operators only",
		run: expectRefused(harness.TryCreate("inspections//sent", sendInspection), "cannot create",
			harness.TryList("eips", "evil-x")),
	},
	{
		by: tenantOwner, what: "count packets on a node", stoppedBy: "RBAC: operators only",
		run: expectRefused(harness.TryCreate("inspections//counted", "{spec: {node: node1, count: {mark: 7}}}"),
			"cannot create", harness.TryList("eips", "evil-x")),
	},
}

// sendInspection asks a node to send a packet.
const sendInspection = "{spec: {node: node1, send: {logicalPort: localnet.ext-public, mac: '00:00:00:00:00:01', " +
	"from: 91.224.11.9, to: 91.224.11.10, protocol: tcp, port: 80, mark: 7}}}"

func eipManifest(namespace, name, spec string) string {
	return fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: %s, namespace: %s}, spec: %s}", name,
		namespace, spec)
}

// expectReason waits until a condition of an object is False with a reason.
func (f *attackFixture) expectReason(t *testing.T, object manifest.Ref, condition, reason string) {
	t.Helper()
	reached := func(o *unstructured.Unstructured) bool { return harness.FalseReason(o, condition) == reason }
	if err := f.Objects.Wait(harness.Within(t, harness.Patience), object, reached); err != nil {
		t.Fatal(err)
	}
}
