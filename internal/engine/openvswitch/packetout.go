package openvswitch

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
)

// Constants of OpenFlow 1.3. The header of a message is version, type, length and transaction.
const (
	openFlowVersion = 4
	openFlowHeader  = 8

	openFlowHello          = 0
	openFlowError          = 1
	openFlowEchoRequest    = 2
	openFlowEchoReply      = 3
	openFlowPacketOut      = 13
	openFlowBarrierRequest = 20
	openFlowBarrierReply   = 21

	openFlowNoBuffer     = 0xffffffff
	openFlowTable        = 0xfffffff9 // the output port that means: as if it arrived on the ingress port
	openFlowActionOutput = 0
	openFlowActionLength = 16
)

// packetOutLength is the length of a packet-out with one action, without its frame.
const packetOutLength = openFlowHeader + 4 + 4 + 2 + 6 + openFlowActionLength

// defaultIntegrationBridge is the integration bridge of ovn-controller unless external_ids:ovn-bridge names another.
const defaultIntegrationBridge = "br-int"

// LocalnetPort is the end of a patch port at the integration bridge, through which packets of an external network enter
// OVN.
type LocalnetPort struct {
	Bridge string
	Number uint32 // in OpenFlow
}

// FindLocalnetPort returns the patch port that ovn-controller made for a logical port of type localnet.
func (n Node) FindLocalnetPort(ctx context.Context, logicalPort string) (out LocalnetPort, err error) {
	tables, err := n.selectTables(ctx, [][]string{
		{database, "external_ids"},
		{"Bridge", "name", "ports"},
		{"Port", "_uuid", "interfaces", "external_ids"},
		{"Interface", "_uuid", "type", "ofport"},
	})
	if err != nil {
		return out, err
	}
	if len(tables[0]) == 0 {
		return out, errors.New("the database is empty; check that the node is set up")
	}
	out.Bridge = cmp.Or(tables[0][0].mapValue("external_ids")["ovn-bridge"], defaultIntegrationBridge)
	ports, interfaces := indexByUUID(tables[2]), indexByUUID(tables[3])
	for _, b := range tables[1] {
		if b.stringValue("name") != out.Bridge {
			continue
		}
		for _, p := range b.stringValues("ports") {
			if ports[p].mapValue("external_ids")["ovn-localnet-port"] != logicalPort {
				continue
			}
			i := interfaces[ports[p].stringValue("interfaces")]
			if out.Number = i.portNumber(); i.stringValue("type") == "patch" && out.Number != 0 {
				return out, nil
			}
		}
	}
	return out, fmt.Errorf("ovn-controller of this node has no patch port for the logical port %q; "+
		"check the bridge mapping of its network", logicalPort)
}

// portNumber returns the OpenFlow port of an interface, or 0 if it has none.
func (r row) portNumber() uint32 {
	var n int64
	if json.Unmarshal(r["ofport"], &n) != nil || n <= 0 || n > 0xff00 {
		return 0
	}
	return uint32(n)
}

// SendFrame sends a frame into a bridge as if it arrived on a port, and returns when the bridge has taken it. It changes
// no flow.
func (n Node) SendFrame(ctx context.Context, at LocalnetPort, frame []byte) error {
	if strings.ContainsRune(at.Bridge, filepath.Separator) {
		return fmt.Errorf("%q is not the name of a bridge", at.Bridge)
	}
	conn, err := dialUnixSocket(ctx, filepath.Join(n.SwitchDir, at.Bridge+".mgmt"))
	if err != nil {
		return fmt.Errorf("connect to bridge %s: %w", at.Bridge, err)
	}
	defer conn.Close()
	if err := sendPacketOut(conn, at.Number, frame); err != nil {
		return fmt.Errorf("send a packet into bridge %s: %w", at.Bridge, err)
	}
	return nil
}

// sendPacketOut greets the switch, sends a frame, and waits for the answer to a barrier: errors precede it.
func sendPacketOut(conn net.Conn, port uint32, frame []byte) error {
	messages := append(buildMessage(openFlowHello, nil), buildPacketOut(port, frame)...)
	if _, err := conn.Write(append(messages, buildMessage(openFlowBarrierRequest, nil)...)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	for {
		kind, body, err := readMessage(in)
		switch {
		case err != nil:
			return err
		case kind == openFlowError:
			return describeOpenFlowError(body)
		case kind == openFlowBarrierReply:
			return nil
		case kind == openFlowEchoRequest:
			if _, err := conn.Write(buildMessage(openFlowEchoReply, body)); err != nil {
				return err
			}
		}
	}
}

func buildMessage(kind byte, body []byte) []byte {
	out := []byte{openFlowVersion, kind}
	out = binary.BigEndian.AppendUint16(out, uint16(openFlowHeader+len(body))) //nolint:gosec // our own messages are short
	return append(append(out, 0, 0, 0, kind), body...)
}

// buildPacketOut returns a packet-out whose action is the table of flows.
func buildPacketOut(port uint32, frame []byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, openFlowNoBuffer)
	body = binary.BigEndian.AppendUint32(body, port)
	body = append(binary.BigEndian.AppendUint16(body, openFlowActionLength), 0, 0, 0, 0, 0, 0)
	body = binary.BigEndian.AppendUint16(body, openFlowActionOutput)
	body = binary.BigEndian.AppendUint16(body, openFlowActionLength)
	body = binary.BigEndian.AppendUint32(body, openFlowTable)
	body = append(body, 0, 0, 0, 0, 0, 0, 0, 0)
	return buildMessage(openFlowPacketOut, append(body, frame...))
}

// readMessage reads one message. A length of sixteen bits bounds it.
func readMessage(in io.Reader) (kind byte, body []byte, err error) {
	var header [openFlowHeader]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint16(header[2:])
	if length < openFlowHeader {
		return 0, nil, fmt.Errorf("a message of %d bytes", length)
	}
	body = make([]byte, length-openFlowHeader)
	_, err = io.ReadFull(in, body)
	return header[1], body, err
}

// describeOpenFlowError returns an error message as an error.
func describeOpenFlowError(body []byte) error {
	if len(body) < 4 {
		return errors.New("the switch reports an error")
	}
	kind, code := binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:])
	if kind == 0 {
		return errors.New("the bridge does not speak OpenFlow 1.3; add it: ovs-vsctl add bridge BRIDGE protocols OpenFlow13")
	}
	return fmt.Errorf("the switch reports error %d, code %d", kind, code)
}
