package loadbalancer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// showExternal shows that the headless companion Service has one endpoint, the external address, and follows the
// Service.
func showExternal(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{
		Name:  "told",
		Ports: "[{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]",
	})
	harness.Eventually(t, "the endpoint", func() bool {
		return strings.Contains(h.ReadField(t, "EndpointSlice", h.Namespace, "told-ext", "endpoints"), address)
	})
	if ip := h.ReadField(t, "Service", h.Namespace, "told-ext", "spec", "clusterIP"); ip != "None" {
		t.Errorf("told-ext has the cluster address %s", ip)
	}
	for label, want := range map[string]string{
		"kube-dc.com/managed-by": "service-lb-controller", "kube-dc.com/source-service": "told",
		"kube-dc.com/endpoint-type": "external",
	} {
		for _, kind := range []string{"Service", "EndpointSlice"} {
			if got := h.ReadField(t, kind, h.Namespace, "told-ext", "metadata", "labels", label); got != want {
				t.Errorf("%s told-ext has %s=%s, wanted %s", kind, label, got, want)
			}
		}
	}
	return "told-ext with " + address + ", two ports"
}

// showPutRight shows that the row is restored after any change by others, without duplicates, and works.
func showPutRight(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{Name: "drift"})
	name := sharedBalancer(h)
	var took []string
	for what, hand := range map[string][]string{
		"deleted":             {"lb-del", name},
		"without marks":       {"clear", "load_balancer", name, "external_ids"},
		"another backend":     {"set", "load_balancer", name, `vips:"` + address + `:80"="` + h.Pods["cli"] + `:81"`},
		"no refusal":          {"remove", "load_balancer", name, "options", "reject"},
		"not on the router":   {"lr-lb-del", h.Namespace, name},
		"not on the switch":   {"ls-lb-del", h.Namespace + "-default", name},
		"the router has none": {"clear", "logical_router", h.Namespace, "load_balancer"},
	} {
		before := balancerState(t, h, name)
		h.RunNbctl(t, hand...)
		after := harness.Eventually(t, what+": it is as it was", func() bool {
			return balancerState(t, h, name) == before
		})
		took = append(took, fmt.Sprintf("%s %s", what, after.Round(10*time.Millisecond)))
		h.SyncFlows(t)
		h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
		h.ExpectBackends(t, "cli."+h.Namespace, "http://"+address, "", "b1", "b2", "b3")
	}
	slices.Sort(took)
	return "back after: " + strings.Join(took, ", ")
}

// sharedBalancer returns the name of the project's first load balancer for TCP.
func sharedBalancer(h *harness.BackendProject) string { return h.Namespace + "-lb-tcp-0" }

// balancerState returns a load balancer as the database has it, and how often it is in the sets of the project's router
// and switch.
func balancerState(t *testing.T, h *harness.BackendProject, name string) string {
	t.Helper()
	state := h.RunNbctl(t, "--bare", "--columns=vips,options,external_ids,protocol", "find", "Load_Balancer",
		"name="+name)
	return fmt.Sprint(state, strings.Count(h.RunNbctl(t, "lr-lb-list", h.Namespace), name[:16]),
		strings.Count(h.RunNbctl(t, "ls-lb-list", h.Namespace+"-default"), name[:16]))
}

// showBackend shows the Backend of Envoy Gateway with the external address, for either annotation, as long as it is
// requested.
func showBackend(t *testing.T, h *harness.BackendProject) string {
	for name, annotation := range map[string]string{
		"envoy":     "gateway.kube-dc.com/create-backend",
		"envoy-too": "service.nlb.kube-dc.com/create-gateway-backend",
	} {
		w := harness.ServiceSpec{Name: name, Annotations: annotation + `: "true"`}
		address := h.CreateService(t, w)
		want := fmt.Sprintf("[map[ip:map[address:%s port:80]]]", address)
		harness.Eventually(t, "the Backend has "+address, func() bool {
			return h.ReadField(t, "Backend", h.Namespace, name+"-backend", "spec", "endpoints") == want
		})
		w.Annotations = annotation + `: "false"`
		h.ApplyService(t, w)
		harness.Eventually(t, "the Backend goes", func() bool {
			return h.ReadField(t, "Backend", h.Namespace, name+"-backend", "metadata", "name") == ""
		})
	}
	return "by either annotation; it goes with it"
}

// showAutodelete shows that an idle Service with autodelete is deleted with its companion objects, and that Services
// with endpoints or without the annotation are kept.
func showAutodelete(t *testing.T, h *harness.BackendProject) string {
	const ask = `service.nlb.kube-dc.com/autodelete: "true"`
	for _, w := range []harness.ServiceSpec{
		{Name: "auto-gone", Selector: "{app: nobody}", Annotations: ask},
		{Name: "auto-used", Annotations: ask},
		{Name: "auto-not", Selector: "{app: nobody}"},
	} {
		h.ApplyService(t, w)
	}
	h.WaitServiceProgrammed(t, "auto-used") // auto-gone may be deleted before it is seen as Programmed
	h.WaitServiceProgrammed(t, "auto-not")
	h.WaitServiceCondition(t, "auto-not", "HasEndpoints=False NoEndpoints", "connections are refused")
	begun := time.Now()
	harness.Eventually(t, "it goes", func() bool {
		return h.ReadField(t, "Service", h.Namespace, "auto-gone", "metadata", "name") == ""
	})
	took := time.Since(begun)
	for _, name := range []string{"auto-used", "auto-not"} {
		if h.ReadField(t, "Service", h.Namespace, name, "metadata", "name") == "" {
			t.Errorf("%s has gone, too", name)
			continue
		}
		h.DeleteAndWait(t, "Service", h.Namespace, name)
	}
	return fmt.Sprintf("gone after %s, here with --autodelete-after=%s; two others stayed",
		took.Round(100*time.Millisecond), harness.AutodeleteAfter)
}

// showFamilies shows that IPv6 outside is not available and that this is reported; a Service that only prefers IPv6
// gets IPv4.
func showFamilies(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{
		Name:        "prefers",
		ExtraFields: ", ipFamilyPolicy: PreferDualStack",
	})
	h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
	return "PreferDualStack gets " + address
}

// showLeavesNothing shows that nothing of a Service remains after a change to ClusterIP, and after deletion, except
// objects that others created.
func showLeavesNothing(t *testing.T, h *harness.BackendProject) string {
	before := countRows(t, h)
	h.CreateService(t, harness.ServiceSpec{Name: "leaves"})
	if during := countRows(t, h); during != before || balancerVIPs(t, h, "leaves-tcp") == "" {
		t.Errorf("a Service makes %d rows and the VIPs %q", during-before, balancerVIPs(t, h, "leaves-tcp"))
	}
	h.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: leaves, namespace: %s}, spec: {type: ClusterIP, selector: %s, ports: %s}}", h.Namespace, harness.BackendSelector, harness.HTTPPort))
	expectNothingLeft(t, h, before)
	if status := h.ReadField(t, "Service", h.Namespace, "leaves", "status"); status != "map[loadBalancer:map[]]" {
		t.Errorf("as ClusterIP it has the status %s", status)
	}
	h.ApplyService(t, harness.ServiceSpec{Name: "leaves"})
	h.WaitServiceProgrammed(t, "leaves")
	h.DeleteAndWait(t, "Service", h.Namespace, "leaves")
	expectNothingLeft(t, h, before)
	return "1 VIP, 1 EIp and 2 objects come and go"
}

func expectNothingLeft(t *testing.T, h *harness.BackendProject, rows int) {
	t.Helper()
	harness.Eventually(t, "the VIP goes, and no row comes", func() bool {
		return countRows(t, h) == rows && balancerVIPs(t, h, "leaves-tcp") == ""
	})
	harness.Eventually(t, "objects go", func() bool {
		return h.ReadField(t, "Service", h.Namespace, "leaves-ext", "metadata", "name") == "" &&
			h.ReadField(t, "EndpointSlice", h.Namespace, "leaves-ext", "metadata", "name") == ""
	})
}
