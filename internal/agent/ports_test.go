package agent

import (
	"strings"
	"testing"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kernel"
)

// A question about a port is for a pod of this node, and has addresses that can be parsed.
func TestPortQuestionsOfOthers(t *testing.T) {
	interfaces := map[string]string{"web.shop": "pod_h"}
	good := kubedcv1alpha1.PortQuestion{
		LogicalPort: "web.shop", MAC: "02:00:00:00:00:07", Address: "10.0.0.7", From: "10.0.0.1", Protocol: "tcp", Port: 80,
	}
	if q, err := parsePortQuestion(good, interfaces); err != nil || q.Interface != "pod_h" || q.To.String() != "10.0.0.7:80" ||
		q.From.String() != "10.0.0.1" || q.MAC.String() != good.MAC || q.Protocol != "tcp" {
		t.Errorf("%+v, %v", q, err)
	}
	for what, change := range map[string]func(*kubedcv1alpha1.PortQuestion){
		"a pod of another node": func(q *kubedcv1alpha1.PortQuestion) { q.LogicalPort = "db.bank" },
		"an interface's name":   func(q *kubedcv1alpha1.PortQuestion) { q.LogicalPort = "pod_h" },
		"no address":            func(q *kubedcv1alpha1.PortQuestion) { q.Address = "shop" },
		"no source":             func(q *kubedcv1alpha1.PortQuestion) { q.From = "" },
		"no MAC address":        func(q *kubedcv1alpha1.PortQuestion) { q.MAC = "*" },
	} {
		q := good
		change(&q)
		if got, err := parsePortQuestion(q, interfaces); err == nil {
			t.Errorf("%s: accepted as %+v", what, got)
		}
	}
}

// Without Open vSwitch it is not known which interfaces are pods', so nothing is sent.
func TestPortsWithoutOpenVSwitch(t *testing.T) {
	k, err := kernel.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	got := (&inspector{kernel: k}).answerInspection(t.Context(), kubedcv1alpha1.InspectionSpec{
		Ports: []kubedcv1alpha1.PortQuestion{{LogicalPort: "lo", Address: "127.0.0.1", From: "127.0.0.2", Protocol: "tcp"}},
	})
	if len(got.Ports) > 0 || len(got.Problems) != 1 || !strings.Contains(got.Problems[0], "--openvswitch-dir") {
		t.Errorf("the answer is %+v", got)
	}
}
