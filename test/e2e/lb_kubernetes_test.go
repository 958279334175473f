package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// external: the headless Service has one endpoint, the external address, and follows the Service.
func (h *hall) external(t *testing.T) string {
	address := h.serve(t, wish{name: "told", ports: "[{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]"})
	eventually(t, "the endpoint", func() bool {
		return strings.Contains(h.field(t, "EndpointSlice", h.ns, "told-ext", "endpoints"), address)
	})
	if ip := h.field(t, "Service", h.ns, "told-ext", "spec", "clusterIP"); ip != "None" {
		t.Errorf("told-ext has the cluster address %s", ip)
	}
	for label, want := range map[string]string{
		"kube-dc.com/managed-by": "service-lb-controller", "kube-dc.com/source-service": "told", "kube-dc.com/endpoint-type": "external",
	} {
		for _, kind := range []string{"Service", "EndpointSlice"} {
			if got := h.field(t, kind, h.ns, "told-ext", "metadata", "labels", label); got != want {
				t.Errorf("%s told-ext has %s=%s, wanted %s", kind, label, got, want)
			}
		}
	}
	return "told-ext with " + address + ", two ports"
}

// putRight: whatever somebody does to the row, it is as it was, once, and answers.
func (h *hall) putRight(t *testing.T) string {
	address := h.serve(t, wish{name: "drift"})
	name := h.ns + "-drift-tcp"
	var took []string
	for what, hand := range map[string][]string{
		"deleted":             {"lb-del", name},
		"without marks":       {"clear", "load_balancer", name, "external_ids"},
		"another backend":     {"set", "load_balancer", name, `vips:"` + address + `:80"="` + h.pods["cli"] + `:81"`},
		"no refusal":          {"remove", "load_balancer", name, "options", "reject"},
		"not on the router":   {"lr-lb-del", h.ns, name},
		"not on the switch":   {"ls-lb-del", h.ns + "-default", name},
		"the router has none": {"clear", "logical_router", h.ns, "load_balancer"},
	} {
		before := h.balancerState(t, name)
		h.nbctl(t, hand...)
		after := eventually(t, what+": it is as it was", func() bool { return h.balancerState(t, name) == before })
		took = append(took, fmt.Sprintf("%s %s", what, after.Round(10*time.Millisecond)))
		h.sync(t)
		h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3")
		h.spread(t, "cli."+h.ns, "http://"+address, "", "b1", "b2", "b3")
	}
	slices.Sort(took)
	return "back after: " + strings.Join(took, ", ")
}

// balancerState is a load balancer as the database has it, and how often it is in the sets of the project's router and switch.
func (h *hall) balancerState(t *testing.T, name string) string {
	t.Helper()
	state := h.nbctl(t, "--bare", "--columns=vips,options,external_ids,protocol", "find", "Load_Balancer", "name="+name)
	return fmt.Sprint(state, strings.Count(h.nbctl(t, "lr-lb-list", h.ns), name[:16]), strings.Count(h.nbctl(t, "ls-lb-list", h.ns+"-default"), name[:16]))
}

// backend: Envoy Gateway finds the external address in a Backend, by either annotation, as long as it is asked for.
func (h *hall) backend(t *testing.T) string {
	for name, annotation := range map[string]string{"envoy": "gateway.kube-dc.com/create-backend", "envoy-too": "service.nlb.kube-dc.com/create-gateway-backend"} {
		w := wish{name: name, annotations: annotation + `: "true"`}
		address := h.serve(t, w)
		want := fmt.Sprintf("[map[ip:map[address:%s port:80]]]", address)
		eventually(t, "the Backend has "+address, func() bool { return h.field(t, "Backend", h.ns, name+"-backend", "spec", "endpoints") == want })
		w.annotations = annotation + `: "false"`
		h.ask4(t, w)
		eventually(t, "the Backend goes", func() bool { return h.field(t, "Backend", h.ns, name+"-backend", "metadata", "name") == "" })
	}
	return "by either annotation; it goes with it"
}

// autodelete: without endpoints it goes, and with it what it made; one with endpoints stays, and so does one that did not ask.
func (h *hall) autodelete(t *testing.T) string {
	const ask = `service.nlb.kube-dc.com/autodelete: "true"`
	for _, w := range []wish{
		{name: "auto-gone", selector: "{app: nobody}", annotations: ask}, {name: "auto-used", annotations: ask}, {name: "auto-not", selector: "{app: nobody}"},
	} {
		h.ask4(t, w)
	}
	h.inForce(t, "auto-used") // auto-gone may be gone before it would be seen in force
	h.inForce(t, "auto-not")
	h.says(t, "auto-not", "HasEndpoints=False NoEndpoints", "connections are refused")
	begun := time.Now()
	eventually(t, "it goes", func() bool { return h.field(t, "Service", h.ns, "auto-gone", "metadata", "name") == "" })
	took := time.Since(begun)
	for _, name := range []string{"auto-used", "auto-not"} {
		if h.field(t, "Service", h.ns, name, "metadata", "name") == "" {
			t.Errorf("%s has gone, too", name)
			continue
		}
		h.remove(t, "Service", h.ns, name)
	}
	return fmt.Sprintf("gone after %s, here with --autodelete-after=%s; two others stayed", took.Round(100*time.Millisecond), lonely)
}

// families: IPv6 outside can't be had, which is said; who only prefers it gets IPv4.
func (h *hall) families(t *testing.T) string {
	address := h.serve(t, wish{name: "prefers", more: ", ipFamilyPolicy: PreferDualStack"})
	h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3")
	return "PreferDualStack gets " + address
}

// leavesNothing: after a change to ClusterIP, and after deletion, nothing of the Service is left but what others made.
func (h *hall) leavesNothing(t *testing.T) string {
	before := h.countRows(t)
	h.serve(t, wish{name: "leaves"})
	if during := h.countRows(t); during != before+1 {
		t.Errorf("a Service makes %d rows", during-before)
	}
	h.apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: leaves, namespace: %s}, spec: {type: ClusterIP, selector: %s, ports: %s}}", h.ns, backends, web))
	h.leftNothing(t, before)
	if status := h.field(t, "Service", h.ns, "leaves", "status"); status != "map[loadBalancer:map[]]" {
		t.Errorf("as ClusterIP it has the status %s", status)
	}
	h.ask4(t, wish{name: "leaves"})
	h.inForce(t, "leaves")
	h.remove(t, "Service", h.ns, "leaves")
	h.leftNothing(t, before)
	return "1 row, 1 EIp and 2 objects come and go"
}

func (h *hall) leftNothing(t *testing.T, rows int) {
	t.Helper()
	eventually(t, "rows go", func() bool { return h.countRows(t) == rows })
	eventually(t, "objects go", func() bool {
		return h.field(t, "Service", h.ns, "leaves-ext", "metadata", "name") == "" && h.field(t, "EndpointSlice", h.ns, "leaves-ext", "metadata", "name") == ""
	})
}
