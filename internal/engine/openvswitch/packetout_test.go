package openvswitch

import (
	"bytes"
	"encoding/binary"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// bridgeSocket is a bridge that answers a packet-out as told. It returns the messages that it received.
func bridgeSocket(t *testing.T, dir string, answers ...[]byte) chan [][]byte {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(dir, "br-int.mgmt"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	out := make(chan [][]byte, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var got [][]byte
		for len(got) < 3 {
			kind, body, err := readMessage(conn)
			if err != nil {
				break
			}
			got = append(got, append([]byte{kind}, body...))
		}
		_, _ = conn.Write(bytes.Join(answers, nil))
		out <- got
	}()
	return out
}

// A frame is sent as one packet-out at the port, between a greeting and a barrier.
func TestSendFrame(t *testing.T) {
	dir, frame := t.TempDir(), []byte("a frame of some bytes")
	got := bridgeSocket(t, dir, buildMessage(openFlowHello, nil), buildMessage(openFlowBarrierReply, nil))
	if err := (Node{SwitchDir: dir}).SendFrame(t.Context(), LocalnetPort{"br-int", 7}, frame); err != nil {
		t.Fatal(err)
	}
	all := <-got
	if len(all) != 3 || all[0][0] != openFlowHello || all[2][0] != openFlowBarrierRequest {
		t.Fatalf("it sent % x", all)
	}
	out := all[1]
	if out[0] != openFlowPacketOut || binary.BigEndian.Uint32(out[5:]) != 7 || !bytes.HasSuffix(out, frame) ||
		len(out) != packetOutLength-openFlowHeader+1+len(frame) {
		t.Errorf("it sent % x", out)
	}
}

// Errors of the switch are reported, with what to do if it does not speak the version.
func TestSendFrameIsRefused(t *testing.T) {
	for want, answer := range map[string][]byte{
		"does not speak OpenFlow 1.3": buildMessage(openFlowError, []byte{0, 0, 0, 0}),
		"error 1, code 4":             buildMessage(openFlowError, []byte{0, 1, 0, 4}),
		"reports an error":            buildMessage(openFlowError, nil),
		"a message of 3 bytes":        {openFlowVersion, openFlowHello, 0, 3, 0, 0, 0, 0},
		"EOF":                         {openFlowVersion},
	} {
		dir := t.TempDir()
		bridgeSocket(t, dir, answer)
		err := (Node{SwitchDir: dir}).SendFrame(t.Context(), LocalnetPort{"br-int", 7}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, wanted %q", err, want)
		}
	}
	if err := (Node{}).SendFrame(t.Context(), LocalnetPort{"../x", 7}, nil); err == nil {
		t.Error("a bridge may be a path")
	}
}
