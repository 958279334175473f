package returnpath

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// matrixLab is the project of the matrix: a pod with a floating IP on a secondary network and a load balancer on the default one,
// both to the same port; two pods behind load balancers on both networks; and one without anything.
type matrixLab struct {
	*projectPair
	floating, external            string // of web, and of the project
	publicLB, cloudLB, cloudLBWeb string
	pods                          map[string]string // their addresses
}

// matrix18 is the 18 kinds of traffic of the return path, each by itself.
func (s *projectPair) matrix18(t *testing.T) int {
	t.Helper()
	e := s.eighteen(t)
	rows := []struct {
		what string
		run  func(*testing.T)
	}{
		{"internet → floating IP on a secondary network", func(t *testing.T) { e.repeats(t, "internet", e.floating+":80", "web", harness.InternetAddress) }},
		{"internet → load balancer of the default network, same pod and port", func(t *testing.T) { e.repeats(t, "internet", e.cloudLBWeb+":80", "web", harness.InternetAddress) }},
		{"internet → load balancer of the secondary network", func(t *testing.T) { e.balanced(t, "internet", e.publicLB, harness.InternetAddress) }},
		{"internet → load balancer of the default network, same pods", func(t *testing.T) { e.balanced(t, "internet", e.cloudLB, harness.InternetAddress) }},
		{"client of the secondary network → its load balancer", func(t *testing.T) {
			e.balanced(t, "client-ext-public", e.publicLB, e.Network(t, "public").ClientAddress)
		}},
		{"client of the default network → its load balancer", func(t *testing.T) {
			e.balanced(t, "client-ext-cloud", e.cloudLB, e.Network(t, "cloud").ClientAddress)
		}},
		{"the pod with the floating IP → internet", func(t *testing.T) {
			e.repeats(t, "web."+e.cloud, harness.InternetAddress+":80", "internet", e.external)
		}},
		{"a pod behind load balancers → internet", func(t *testing.T) {
			e.repeats(t, "b13."+e.cloud, harness.InternetAddress+":80", "internet", e.external)
		}},
		{"a pod behind load balancers, on a gateway's node → internet", func(t *testing.T) {
			e.repeats(t, "b14."+e.cloud, harness.InternetAddress+":80", "internet", e.external)
		}},
		{"a pod without anything → internet", func(t *testing.T) {
			e.repeats(t, "cli."+e.cloud, harness.InternetAddress+":80", "internet", e.external)
		}},
		{"streams by both networks to one pod, and a new connection of its own", e.streamsAtOnce},
		{"UDP to the floating IP", func(t *testing.T) {
			e.ExpectAnswer(t, "internet", "udp://"+e.floating+":80", "web", harness.InternetAddress)
		}},
		{"ping to the floating IP", func(t *testing.T) { ping(t, e.Cluster, "internet", e.floating) }},
		{"pod → pod on another node", func(t *testing.T) { e.repeats(t, "cli."+e.cloud, e.pods["web"]+":80", "web", e.pods["cli"]) }},
		{"pod → load balancer of the default network", func(t *testing.T) { e.balanced(t, "cli."+e.cloud, e.cloudLB, e.pods["cli"]) }},
		{"pod → load balancer of the secondary network", func(t *testing.T) { e.balanced(t, "cli."+e.cloud, e.publicLB, e.pods["cli"]) }},
		{"8 MiB from the floating IP", func(t *testing.T) { e.Download(t, "internet", e.floating, 8) }},
		{"a closed UDP port of the floating IP is refused", func(t *testing.T) { expectRefused(t, e.Cluster, "internet", e.floating+":9999") }},
	}
	s.ResetDrops(t)
	for i, r := range rows {
		t.Run(fmt.Sprintf("%d %s", i+1, r.what), r.run)
	}
	s.ExpectNoDrops(t)
	return len(rows)
}

// eighteen makes the project. Load balancers of routers are Kube-OVN's OvnDnatRules, those of switches its SwitchLBRules.
func (s *projectPair) eighteen(t *testing.T) *matrixLab {
	t.Helper()
	e := &matrixLab{projectPair: &projectPair{Cluster: s.Cluster}, pods: map[string]string{}}
	e.cloud = s.CreateProject(t, "return", "eighteen", "10.46.0.0/24", "cloud")
	e.external = s.ReadField(t, "Project", "return", "eighteen", "status", "externalIP")
	for name, node := range map[string]string{"web": "node1", "b13": "node1", "b14": "node3", "cli": "node2"} {
		e.pods[name] = e.RunPod(t, harness.Pod{Namespace: e.cloud, Name: name, Node: node})
	}
	e.floating = s.CreateFIP(t, e.cloud, "web", "{podTarget: {podName: web}, externalNetworkType: public}")
	e.publicLB, e.cloudLB, e.cloudLBWeb = e.balancer(t, "lb-public", "public"), e.balancer(t, "lb-cloud", "cloud"), e.balancer(t, "lb-web", "cloud")
	// Kube-OVN takes an address for what it thinks are health checks of a SwitchLBRule, and does not give it back: the Subnet would stay.
	t.Cleanup(func() { e.Remove(t, "Vip", "", e.cloud+"-default") })
	for _, lb := range []string{"lb-public", "lb-cloud"} {
		e.forward(t, lb, 81, "b13")
		e.forward(t, lb, 82, "b14")
	}
	e.forward(t, "lb-web", 80, "web")
	s.SyncFlows(t)
	return e
}

// balancer is an address for a load balancer.
func (e *matrixLab) balancer(t *testing.T, name, kind string) string {
	t.Helper()
	return e.CreateEIP(t, e.cloud, name, "{externalNetworkType: "+kind+"}")
}

// forward leads a port of an address to a pod, from outside and from inside.
func (e *matrixLab) forward(t *testing.T, eip string, port int, to string) {
	t.Helper()
	name := fmt.Sprintf("%s-%s-%d", e.cloud, eip, port)
	balance(t, e.Cluster, dnat{name: name, ovnEip: "eip-" + e.cloud + "-" + eip, vpc: e.cloud, target: e.pods[to], port: port})
	e.Apply(t, fmt.Sprintf(`
apiVersion: kubeovn.io/v1
kind: SwitchLBRule
metadata: {name: %s}
spec:
  vip: %s
  namespace: %s
  endpoints: [%s]
  selector: []
  ports: [{name: web, port: %d, targetPort: 80, protocol: TCP}]`,
		name, e.ReadField(t, "EIp", e.cloud, eip, "status", "ipAddress"), e.cloud, e.pods[to], port))
	t.Cleanup(func() {
		e.Remove(t, "SwitchLBRule", "", name)
		e.Remove(t, "OvnDnatRule", "", name)
	})
}

// dnat is a load balancer of a VPC's router, as Kube-OVN makes it: it leads a port of an OvnEip to port 80 of a pod.
type dnat struct {
	name, ovnEip, vpc, target string
	port                      int
}

// balance makes a load balancer.
func balance(t *testing.T, c *harness.Cluster, d dnat) {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: kubeovn.io/v1
kind: OvnDnatRule
metadata: {name: %s}
spec: {ovnEip: %s, vpc: %s, v4Ip: %s, internalPort: "80", externalPort: "%d", protocol: tcp}`, d.name, d.ovnEip, d.vpc, d.target, d.port))
	c.Wait(t, "OvnDnatRule", "", d.name, manifest.Field("true", "status", "ready"))
}

// repeats asks five times.
func (e *matrixLab) repeats(t *testing.T, where, target, name, saw string) {
	t.Helper()
	for range 5 {
		e.ExpectAnswer(t, where, "http://"+target, name, saw)
	}
}

// balanced asks both pods behind an address.
func (e *matrixLab) balanced(t *testing.T, where, address, saw string) {
	t.Helper()
	e.repeats(t, where, address+":81", "b13", saw)
	e.repeats(t, where, address+":82", "b14", saw)
}

// streamsAtOnce holds a stream by each network while the pod asks somebody.
func (e *matrixLab) streamsAtOnce(t *testing.T) {
	streams := []*harness.Stream{e.StartStream(t, "internet", e.floating), e.StartStream(t, "internet", e.cloudLBWeb)}
	e.repeats(t, "web."+e.cloud, harness.InternetAddress+":80", "internet", e.external)
	if silent := harness.ExpectSurvival(t, "both", 10*time.Second, streams...); silent > time.Second {
		t.Errorf("a stream was silent for %v", silent)
	}
}

// expectRefused sends to a port that nobody listens on, and wants to be told so.
func expectRefused(t *testing.T, c *harness.Cluster, where, target string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := c.NS(where).Dial(ctx, "udp", target)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing to lose
	_ = conn.SetDeadline(time.Now().Add(harness.AnswerTimeout))
	if _, err = conn.Write([]byte("hello")); err == nil {
		_, err = conn.Read(make([]byte, 64))
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%s → %s: %v; wanted it to be refused", where, target, err)
	}
}

// ping sends an echo request and waits for the answer.
func ping(t *testing.T, c *harness.Cluster, where, address string) {
	t.Helper()
	err := c.NS(where).Do(func() error {
		conn, err := net.Dial("ip4:icmp", address)
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // nothing to lose
		_ = conn.SetDeadline(time.Now().Add(harness.AnswerTimeout))
		request := []byte{8, 0, 0, 0, 0x53, 0x50, 0, 1}
		sum := ^(uint32(8)<<8 + 0x5350 + 1)
		request[2], request[3] = byte(sum>>8), byte(sum)
		if _, err := conn.Write(request); err != nil {
			return err
		}
		answer := make([]byte, 128)
		n, err := conn.Read(answer)
		if err == nil && (n < 8 || answer[n-8] != 0 || !bytes.Equal(answer[n-4:n], request[4:])) {
			err = fmt.Errorf("got % x", answer[:n])
		}
		return err
	})
	if err != nil {
		t.Errorf("%s → ping %s: %v", where, address, err)
	}
}
