package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sync/errgroup"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// The load of a node: UDP flows, each to another Service, with a number of packets in flight; and clients that connect
// repeatedly, each time to a random Service.
const (
	udpFlows        = 8
	packetsInFlight = 64
	tcpClients      = 4
)

// minKeptShare is the share of the packet rate that method Connection must keep.
const minKeptShare = 0.6

// compareThroughput compares forwarding nodes of all methods with a plain one. The machine is noisy, so the nodes
// alternate and each round is compared separately.
func compareThroughput(t *testing.T, item *show.Item) {
	// the second plain node shows the noise
	passages := []*forwardingNode{newForwardingNode(t, "", 1000), newForwardingNode(t, "", 1000)}
	for _, method := range nodeMethods {
		passages = append(passages, newForwardingNode(t, method, 1000))
	}
	if show.IsFullSize() {
		passages = append(passages, newForwardingNode(t, kubedcv1alpha1.NodeMark, 10000),
			newForwardingNode(t, kubedcv1alpha1.NodeSourceRule, 10000))
	}
	for _, p := range passages {
		p.startTraffic(t)
	}
	packets, connections := make([][]float64, len(passages)), make([][]float64, len(passages))
	rounds, of := show.ChooseSize(25, 7), slices.IndexFunc(passages, func(p *forwardingNode) bool {
		return p.method == kubedcv1alpha1.NodeConnection
	})
	// a result below the limit is measured again before it counts
	for n := 0; n < rounds || n < 5*rounds &&
		harness.MedianFloat(harness.SortedRatios(packets[of], packets[0])) < minKeptShare; n++ {
		for _, i := range rand.New(rand.NewPCG(3, uint64(n))).Perm(len(passages)) { // in random order
			p := passages[i]
			packets[i] = append(packets[i], p.measureRate(t, p.sendPackets, udpFlows))
			connections[i] = append(connections[i], p.measureRate(t, p.openConnections, tcpClients))
		}
	}
	item.AddFigure("plain forwarding, with the same translation: %.0f packets there and back and %.0f connections in a second", harness.MedianFloat(packets[0]), harness.MedianFloat(connections[0]))
	for i, p := range passages[1:] {
		item.AddFigure("%s with %d Services: of its packets %s, of its connections %s",
			cmp.Or(p.method, "the same again"), p.services,
			harness.FormatRatioRange(packets[i+1], packets[0]),
			harness.FormatRatioRange(connections[i+1], connections[0]))
		if keeps := harness.MedianFloat(harness.SortedRatios(packets[i+1],
			packets[0])); p.method == kubedcv1alpha1.NodeConnection && keeps < minKeptShare {
			t.Errorf("%s keeps %.2f of the packets, wanted %.2f", p.method, keeps, minKeptShare)
		}
	}
}

// startTraffic starts the server and applies the method. Without the method there is no answer.
func (p *forwardingNode) startTraffic(t *testing.T) {
	t.Helper()
	p.startServers(t)
	if p.method != "" {
		if p.answersWithin(t, 300*time.Millisecond) {
			t.Fatalf("%s: there is an answer without it", p.method)
		}
		p.applyMethod(t, p.services)
	}
	if !p.answersWithin(t, harness.Patience) {
		t.Fatalf("%s: there is no answer", cmp.Or(p.method, "plain"))
	}
}

// serviceOfFlow returns the Service of a flow. Flows are distributed over all Services.
func (p *forwardingNode) serviceOfFlow(flow int) int {
	return (2*flow + 1) * p.services / (2 * udpFlows)
}

// answersWithin reports whether a client gets an answer within the given time.
func (p *forwardingNode) answersWithin(t *testing.T, within time.Duration) bool {
	t.Helper()
	conn, err := p.client.Dial(t.Context(), "udp4", externalAddress(p.serviceOfFlow(0))+":7")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for begun := time.Now(); time.Since(begun) < within; {
		if _, err := conn.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err = conn.Read(make([]byte, 1)); err == nil {
			return true
		}
	}
	return false
}

// startServers answers all flows, and accepts and closes all connections.
func (p *forwardingNode) startServers(t *testing.T) {
	t.Helper()
	for flow := range udpFlows {
		socket, err := p.server.ListenPacket(t.Context(), "udp4", clusterAddress(p.serviceOfFlow(flow))+":7")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = socket.Close() })
		go echoPackets(ipv4.NewPacketConn(socket))
	}
	listener, err := p.server.Listen(t.Context(), "tcp4", "0.0.0.0:80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
}

func echoPackets(socket *ipv4.PacketConn) {
	messages := newSmallPackets()
	for {
		n, err := socket.ReadBatch(messages, 0)
		if err != nil {
			return
		}
		for sent := 0; sent < n; {
			m, err := socket.WriteBatch(messages[sent:n], 0)
			if err != nil {
				return
			}
			sent += m
		}
	}
}

func newSmallPackets() []ipv4.Message {
	out := make([]ipv4.Message, packetsInFlight)
	for i := range out {
		out[i].Buffers = [][]byte{make([]byte, 8)}
	}
	return out
}

// measureRate runs n workers for a while, each on a thread in the client's namespace, and returns the rate per second.
func (p *forwardingNode) measureRate(t *testing.T, each func(context.Context, int) (int64, error), n int) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var all atomic.Int64
	var group errgroup.Group
	begun := time.Now()
	for i := range n {
		group.Go(func() error {
			return p.client.Do(func() error {
				done, err := each(ctx, i)
				all.Add(done)
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("%s: %v", p.method, err)
	}
	// on a machine that is busy with other work it could be zero
	return max(1, float64(all.Load())) / time.Since(begun).Seconds()
}

// sendPackets sends packets, reads the answers, and returns their number.
func (p *forwardingNode) sendPackets(ctx context.Context, flow int) (came int64, _ error) {
	conn, err := net.Dial("udp4", externalAddress(p.serviceOfFlow(flow))+":7")
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	socket, messages := ipv4.NewPacketConn(conn.(*net.UDPConn)), newSmallPackets()
	for ctx.Err() == nil {
		sent, err := socket.WriteBatch(messages, 0)
		if err != nil {
			return came, err
		}
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // later packets count as lost
		for back := 0; back < sent; {
			n, err := socket.ReadBatch(messages, 0)
			if err != nil {
				break
			}
			back += n
			came += int64(n)
		}
	}
	return came, nil
}

// openConnections opens connections that the server closes, one after the other, and returns their number.
func (p *forwardingNode) openConnections(ctx context.Context, _ int) (made int64, _ error) {
	for ctx.Err() == nil {
		to := externalAddress(rand.IntN(p.services)) // a random Service
		conn, err := net.DialTimeout("tcp4", to+":80", 5*time.Second)
		if err != nil {
			return made, err
		}
		_, err = conn.Read(make([]byte, 1))
		_ = conn.(*net.TCPConn).SetLinger(0) // no TIME_WAIT, otherwise ports would run out
		_ = conn.Close()
		if !errors.Is(err, io.EOF) {
			return made, fmt.Errorf("from %s: %w", to, err)
		}
		made++
	}
	return made, nil
}
