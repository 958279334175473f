package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// packetSocket is a packet socket on an interface. It hears whatever comes in by it, before a bridge or an Open vSwitch
// takes it away: those take everything from protocols of their own, and nothing from who listens to all.
type packetSocket struct {
	name string
	mac  net.HardwareAddr
	file *os.File
	to   *unix.SockaddrLinklayer
}

// bpfFilter lets ARP and neighbour advertisements through. The kernel has taken a tag off before.
var bpfFilter = []bpf.Instruction{
	bpf.LoadAbsolute{Off: etherTypeOffset, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_ARP, SkipTrue: 5},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IPV6, SkipTrue: 5},
	bpf.LoadAbsolute{Off: nextHeaderOffset, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_ICMPV6, SkipTrue: 3},
	bpf.LoadAbsolute{Off: icmpOffset, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: neighbourAdvertisement, SkipTrue: 1},
	bpf.RetConstant{Val: maxFrameLength},
	bpf.RetConstant{Val: 0},
}

const (
	maxFrameLength    = 512 // more than any answer has
	auxdataLength     = 20  // what the kernel says about a frame
	auxdataVLANOffset = 16  // in that
)

// openSocket opens a socket on an interface.
func openSocket(name string) (*packetSocket, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("there is no interface %s on this node", name)
	}
	if len(link.HardwareAddr) != len(broadcastMAC) {
		return nil, fmt.Errorf("%s is no Ethernet interface", name)
	}
	// Without a protocol it hears nothing until it is set up.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket; is CAP_NET_RAW missing? %w", err)
	}
	//nolint:gosec // a constant length
	s := &packetSocket{
		name: name,
		mac:  link.HardwareAddr,
		to:   &unix.SockaddrLinklayer{Ifindex: link.Index, Halen: uint8(len(broadcastMAC))},
	}
	if err := s.configureSocket(fd); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	s.file = os.NewFile(uintptr(fd), name)
	return s, nil
}

func (s *packetSocket) configureSocket(fd int) error {
	program, err := bpf.Assemble(bpfFilter)
	if err != nil {
		return err
	}
	raw := make([]unix.SockFilter, len(program))
	for i, p := range program {
		raw[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	//nolint:gosec // a constant length
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(raw)), Filter: &raw[0]}); err != nil {
		return err
	}
	group := &unix.PacketMreq{Ifindex: int32(s.to.Ifindex), Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(allNodesMAC))} //nolint:gosec // of the kernel
	copy(group.Address[:], allNodesMAC)
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1), // has the tag
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, group),
		unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: s.to.Ifindex, Protocol: htons(unix.ETH_P_ALL)}),
	)
}

// htons is a number of two bytes in the order of networks.
func htons(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

func (s *packetSocket) close() { _ = s.file.Close() }

// sendFrame sends a frame as it is.
func (s *packetSocket) sendFrame(frame []byte) error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		failed = unix.Sendto(int(fd), frame, 0, s.to)
		return !errors.Is(failed, unix.EAGAIN)
	})
	if errors.Is(failed, unix.ENETDOWN) {
		return errors.New("it is down")
	}
	if errors.Is(failed, unix.ENOBUFS) { // as good as lost on the wire: it is asked again
		return nil
	}
	return errors.Join(err, failed)
}

// receiveClaims calls back for each address that somebody claims, until the context ends.
func (s *packetSocket) receiveClaims(ctx context.Context, heard func(claimKey, net.HardwareAddr)) error {
	defer context.AfterFunc(ctx, func() { _ = s.file.SetReadDeadline(time.Now()) })()
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	frame, oob := make([]byte, maxFrameLength), make([]byte, 256)
	for {
		var n, more int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, more, _, _, failed = unix.Recvmsg(int(fd), frame, oob, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(failed, unix.ENETDOWN):
			return fmt.Errorf("listen on %s: it is down", s.name)
		case err != nil || failed != nil:
			return fmt.Errorf("listen on %s: %w", s.name, errors.Join(err, failed))
		}
		if address, mac, ok := parseClaim(frame[:n]); ok {
			heard(claimKey{parseVLANTag(oob[:more]), address}, mac)
		}
	}
}

// parseVLANTag is the VLAN of a frame, which the kernel has taken off.
func parseVLANTag(oob []byte) uint16 {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < auxdataLength {
			continue
		}
		if binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID != 0 {
			return binary.NativeEndian.Uint16(m.Data[auxdataVLANOffset:]) & 0x0fff
		}
	}
	return 0
}
