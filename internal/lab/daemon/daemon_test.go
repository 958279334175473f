package daemon

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/parts"
)

func TestHeartbeatIsCalmInLargeLabs(t *testing.T) {
	for _, c := range []struct {
		nodes, fakes int
		want         time.Duration
	}{
		{3, 0, quickGrace},
		{49, 0, quickGrace},
		{0, 49, quickGrace},
		{50, 0, calmGrace},
		{3, 47, calmGrace},
		{0, 500, calmGrace},
	} {
		config := Config{}
		config.Blueprint.Nodes, config.Blueprint.FakeNodes = c.nodes, c.fakes
		if lease, grace := config.heartbeat(); grace != c.want || lease >= grace {
			t.Errorf("%d nodes and %d fake nodes: lease %s, grace %s, want %s", c.nodes, c.fakes, lease, grace, c.want)
		}
	}
}

func TestOnlyALabWithBGPNeedsFRR(t *testing.T) {
	b := blueprint.Default()
	if got := OptionalParts(b); len(got) != 0 {
		t.Errorf("the usual lab needs %v", got)
	}
	b.Uplinks[1].BGP = true
	if got := OptionalParts(b); len(got) != 1 || got[0] != parts.FRR {
		t.Errorf("a lab with BGP needs %v, want FRR", got)
	}
}

func TestOnlyALabWithRealNodesNeedsTheirParts(t *testing.T) {
	b := blueprint.Default()
	b.RealNodes = 1
	if got := OptionalParts(b); !slices.Equal(got, parts.RealNode()) {
		t.Errorf("a lab with a real node needs %v, want %v", got, parts.RealNode())
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// enter goes through a door.
func enter(t *testing.T, door net.Listener) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTCP("tcp", nil, door.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

// A client that has said all still hears the answer: the end of one direction is not the end of the other.
func TestDoorPassesBothDirectionsAndTheirEnds(t *testing.T) {
	inside, door := listen(t), listen(t)
	go serveDoor(door, inside.Addr().String())
	question := bytes.Repeat([]byte("0123456789"), 100_000)
	for range 2 { // a door stays open
		guest := enter(t, door)
		host, err := inside.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = host.Write([]byte("welcome "))
			all, _ := io.ReadAll(host) // until the guest's half has ended
			_, _ = host.Write(all)
			_ = host.Close()
		}()
		_, errWrite := guest.Write(question)
		errClose := guest.CloseWrite()
		answer, err := io.ReadAll(guest)
		if errWrite != nil || errClose != nil || err != nil || string(answer) != "welcome "+string(question) {
			t.Errorf("%d bytes came back; %v, %v, %v", len(answer), errWrite, errClose, err)
		}
	}
}

func TestDoorWithNobodyBehindItIsClosed(t *testing.T) {
	nobody, door := listen(t), listen(t)
	_ = nobody.Close()
	go serveDoor(door, nobody.Addr().String())
	if n, err := enter(t, door).Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v; want the end", n, err)
	}
}
