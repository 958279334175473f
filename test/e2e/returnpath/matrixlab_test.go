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

// matrixFixture is the project of the matrix: a pod with a floating IP on a secondary network and a load balancer on
// the default network, both for the same port; two pods behind load balancers on both networks; and one pod with
// neither.
type matrixFixture struct {
	*projectPair
	fipAddress, projectAddress    string // of the pod web and of the project
	publicLB, cloudLB, cloudLBWeb string
	podAddresses                  map[string]string // by name
}

// checkMatrix tests the 18 kinds of traffic of the return path, one at a time.
func (s *projectPair) checkMatrix(t *testing.T) int {
	t.Helper()
	e := s.newMatrixFixture(t)
	rows := []struct {
		what string
		run  func(*testing.T)
	}{
		{"internet → floating IP on a secondary network", func(t *testing.T) {
			e.expectRepeated(t, "internet", e.fipAddress+":80", "web", harness.InternetAddress)
		}},
		{"internet → load balancer of the default network, same pod and port", func(t *testing.T) {
			e.expectRepeated(t, "internet", e.cloudLBWeb+":80", "web", harness.InternetAddress)
		}},
		{"internet → load balancer of the secondary network", func(t *testing.T) {
			e.expectBalanced(t, "internet", e.publicLB, harness.InternetAddress)
		}},
		{"internet → load balancer of the default network, same pods", func(t *testing.T) {
			e.expectBalanced(t, "internet", e.cloudLB, harness.InternetAddress)
		}},
		{"client of the secondary network → its load balancer", func(t *testing.T) {
			e.expectBalanced(t, "client-ext-public", e.publicLB, e.Network(t, "public").ClientAddress)
		}},
		{"client of the default network → its load balancer", func(t *testing.T) {
			e.expectBalanced(t, "client-ext-cloud", e.cloudLB, e.Network(t, "cloud").ClientAddress)
		}},
		{"the pod with the floating IP → internet", func(t *testing.T) {
			e.expectRepeated(t, "web."+e.cloud, harness.InternetAddress+":80", "internet", e.projectAddress)
		}},
		{"a pod behind load balancers → internet", func(t *testing.T) {
			e.expectRepeated(t, "b13."+e.cloud, harness.InternetAddress+":80", "internet", e.projectAddress)
		}},
		{"a pod behind load balancers, on a gateway's node → internet", func(t *testing.T) {
			e.expectRepeated(t, "b14."+e.cloud, harness.InternetAddress+":80", "internet", e.projectAddress)
		}},
		{"a pod without anything → internet", func(t *testing.T) {
			e.expectRepeated(t, "cli."+e.cloud, harness.InternetAddress+":80", "internet", e.projectAddress)
		}},
		{"streams by both networks to one pod, and a new connection of its own", e.checkStreamsAtOnce},
		{"UDP to the floating IP", func(t *testing.T) {
			e.ExpectAnswer(t, "internet", "udp://"+e.fipAddress+":80", "web", harness.InternetAddress)
		}},
		{"ping to the floating IP", func(t *testing.T) { expectPing(t, e.Cluster, "internet", e.fipAddress) }},
		{"pod → pod on another node", func(t *testing.T) {
			e.expectRepeated(t, "cli."+e.cloud, e.podAddresses["web"]+":80", "web", e.podAddresses["cli"])
		}},
		{"pod → load balancer of the default network", func(t *testing.T) {
			e.expectBalanced(t, "cli."+e.cloud, e.cloudLB, e.podAddresses["cli"])
		}},
		{"pod → load balancer of the secondary network", func(t *testing.T) {
			e.expectBalanced(t, "cli."+e.cloud, e.publicLB, e.podAddresses["cli"])
		}},
		{"8 MiB from the floating IP", func(t *testing.T) { e.Download(t, "internet", e.fipAddress, 8) }},
		{"a closed UDP port of the floating IP is refused", func(t *testing.T) {
			expectRefused(t, e.Cluster, "internet", e.fipAddress+":9999")
		}},
	}
	s.ResetDrops(t)
	for i, r := range rows {
		t.Run(fmt.Sprintf("%d %s", i+1, r.what), r.run)
	}
	s.ExpectNoDrops(t)
	return len(rows)
}

// newMatrixFixture creates the project. Load balancers of routers are Kube-OVN's OvnDnatRules, those of switches its
// SwitchLBRules.
func (s *projectPair) newMatrixFixture(t *testing.T) *matrixFixture {
	t.Helper()
	e := &matrixFixture{projectPair: &projectPair{Cluster: s.Cluster}, podAddresses: map[string]string{}}
	e.cloud = s.CreateProject(t, "return", "eighteen", "10.46.0.0/24", "cloud")
	e.projectAddress = s.ReadField(t, "Project", "return", "eighteen", "status", "externalIP")
	for name, node := range map[string]string{"web": "node1", "b13": "node1", "b14": "node3", "cli": "node2"} {
		e.podAddresses[name] = e.RunPod(t, harness.Pod{Namespace: e.cloud, Name: name, Node: node})
	}
	e.fipAddress = s.CreateFIP(t, e.cloud, "web", "{podTarget: {podName: web}, externalNetworkType: public}")
	e.publicLB, e.cloudLB, e.cloudLBWeb = e.createLBAddress(t, "lb-public", "public"),
		e.createLBAddress(t, "lb-cloud", "cloud"), e.createLBAddress(t, "lb-web", "cloud")
	// Kube-OVN allocates an address for health checks of a SwitchLBRule and does not release it. The Subnet could not
	// be deleted.
	t.Cleanup(func() { e.DeleteAndWait(t, "Vip", "", e.cloud+"-default") })
	for _, lb := range []string{"lb-public", "lb-cloud"} {
		e.forwardPort(t, lb, 81, "b13")
		e.forwardPort(t, lb, 82, "b14")
	}
	e.forwardPort(t, "lb-web", 80, "web")
	s.SyncFlows(t)
	return e
}

// createLBAddress creates an EIp for a load balancer and returns its address.
func (e *matrixFixture) createLBAddress(t *testing.T, name, kind string) string {
	t.Helper()
	return e.CreateEIP(t, e.cloud, name, "{externalNetworkType: "+kind+"}")
}

// forwardPort forwards a port of an address to a pod, for clients outside and inside.
func (e *matrixFixture) forwardPort(t *testing.T, eip string, port int, to string) {
	t.Helper()
	name := fmt.Sprintf("%s-%s-%d", e.cloud, eip, port)
	createDNATRule(t, e.Cluster, dnatRule{
		name: name, ovnEip: "eip-" + e.cloud + "-" + eip, vpc: e.cloud, target: e.podAddresses[to], port: port,
	})
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
		name, e.ReadField(t, "EIp", e.cloud, eip, "status", "ipAddress"), e.cloud, e.podAddresses[to], port))
	t.Cleanup(func() {
		e.DeleteAndWait(t, "SwitchLBRule", "", name)
		e.DeleteAndWait(t, "OvnDnatRule", "", name)
	})
}

// dnatRule is a load balancer of a VPC's router as Kube-OVN creates it: it forwards a port of an OvnEip to port 80 of a
// pod.
type dnatRule struct {
	name, ovnEip, vpc, target string
	port                      int
}

// createDNATRule creates an OvnDnatRule.
func createDNATRule(t *testing.T, c *harness.Cluster, d dnatRule) {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: kubeovn.io/v1
kind: OvnDnatRule
metadata: {name: %s}
spec: {ovnEip: %s, vpc: %s, v4Ip: %s, internalPort: "80", externalPort: "%d", protocol: tcp}`, d.name, d.ovnEip, d.vpc, d.target, d.port))
	c.WaitForObject(t, "OvnDnatRule", "", d.name, manifest.Field("true", "status", "ready"))
}

// expectRepeated runs ExpectAnswer five times.
func (e *matrixFixture) expectRepeated(t *testing.T, where, target, name, saw string) {
	t.Helper()
	for range 5 {
		e.ExpectAnswer(t, where, "http://"+target, name, saw)
	}
}

// expectBalanced checks that both pods behind an address answer.
func (e *matrixFixture) expectBalanced(t *testing.T, where, address, saw string) {
	t.Helper()
	e.expectRepeated(t, where, address+":81", "b13", saw)
	e.expectRepeated(t, where, address+":82", "b14", saw)
}

// checkStreamsAtOnce keeps a stream open through each network while the pod sends requests of its own.
func (e *matrixFixture) checkStreamsAtOnce(t *testing.T) {
	streams := []*harness.Stream{e.StartStream(t, "internet", e.fipAddress), e.StartStream(t, "internet", e.cloudLBWeb)}
	control := e.StartStream(t, "client-ext-cloud", harness.InternetAddress) // its gaps are the machine's
	e.expectRepeated(t, "web."+e.cloud, harness.InternetAddress+":80", "internet", e.projectAddress)
	silent := harness.ExpectStreamsContinue(t, "both", streams...)
	if machine := control.LongestGap(); silent > harness.TimeLimit(time.Second)+machine {
		t.Errorf("a stream was silent for %v; one that does not cross OVN for %v", silent, machine)
	}
}

// expectRefused sends to a closed port and expects an ICMP error.
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

// expectPing sends an echo request and waits for the reply.
func expectPing(t *testing.T, c *harness.Cluster, where, address string) {
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
