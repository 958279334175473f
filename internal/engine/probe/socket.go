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
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// packetSocket is a packet socket on an interface. It receives frames before a bridge or Open vSwitch takes them: those
// take frames from sockets bound to a protocol, but not from sockets that receive all protocols.
type packetSocket struct {
	name string
	mac  net.HardwareAddr
	file *os.File
	to   *unix.SockaddrLinklayer
}

// bpfFilter accepts ARP and neighbour advertisements. The kernel has already removed the VLAN tag.
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
	maxFrameLength    = 512 // longer than any answer
	auxdataLength     = 20  // PACKET_AUXDATA of a frame
	auxdataVLANOffset = 16  // offset in it
)

// openSocket opens a socket for ARP and neighbour advertisements on an interface.
func openSocket(name string) (*packetSocket, error) { return openSocketFor(name, bpfFilter) }

// openSocketFor opens a socket on an interface that receives what a filter accepts.
func openSocketFor(name string, filter []bpf.Instruction) (*packetSocket, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("there is no interface %s on this node", name)
	}
	if len(link.HardwareAddr) != len(broadcastMAC) {
		return nil, fmt.Errorf("%s is not an Ethernet interface", name)
	}
	// Protocol 0: the socket receives nothing until it is bound.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket (requires CAP_NET_RAW): %w", err)
	}
	//nolint:gosec // a constant length
	s := &packetSocket{
		name: name,
		mac:  link.HardwareAddr,
		to:   &unix.SockaddrLinklayer{Ifindex: link.Index, Halen: uint8(len(broadcastMAC))},
	}
	if err := s.configureSocket(fd, filter); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	s.file = os.NewFile(uintptr(fd), name)
	return s, nil
}

// attachFilter makes a socket receive only what a filter accepts.
func attachFilter(fd int, filter []bpf.Instruction) error {
	program, err := bpf.Assemble(filter)
	if err != nil {
		return err
	}
	raw := make([]unix.SockFilter, len(program))
	for i, p := range program {
		raw[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	//nolint:gosec // a constant length
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(raw)), Filter: &raw[0]})
}

func (s *packetSocket) configureSocket(fd int, filter []bpf.Instruction) error {
	if err := attachFilter(fd, filter); err != nil {
		return err
	}
	group := &unix.PacketMreq{Ifindex: int32(s.to.Ifindex), Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(allNodesMAC))} //nolint:gosec // of the kernel
	copy(group.Address[:], allNodesMAC)
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1), // has the VLAN tag
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, group),
		unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: s.to.Ifindex, Protocol: htons(unix.ETH_P_ALL)}),
	)
}

// htons converts to network byte order.
func htons(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

func (s *packetSocket) close() { _ = s.file.Close() }

// sendFrame sends a frame unchanged.
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
		return errors.New("the interface is down")
	}
	if errors.Is(failed, unix.ENOBUFS) { // like a loss on the wire: the request is repeated
		return nil
	}
	return errors.Join(err, failed)
}

// exchangeFrames sends frames several times and calls heard for each frame that is received, until heard returns true or the
// time of a probe has passed.
func (s *packetSocket) exchangeFrames(ctx context.Context, frames [][]byte, heard func(frame, oob []byte) bool) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var replies errgroup.Group
	replies.Go(func() error {
		defer cancel()
		return s.receiveFrames(ctx, heard)
	})
	err := s.sendRepeatedly(ctx, frames)
	if err != nil {
		cancel()
	}
	if deaf := replies.Wait(); err == nil {
		err = deaf
	}
	return err
}

// sendRepeatedly sends frames several times, until the context ends.
func (s *packetSocket) sendRepeatedly(ctx context.Context, frames [][]byte) error {
	again := time.NewTicker(sendInterval)
	defer again.Stop()
	for range sendCount {
		for _, frame := range frames {
			if err := s.sendFrame(frame); err != nil {
				return fmt.Errorf("send on %s: %w", s.name, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
	return nil
}

// receiveFrames calls heard for each frame with its control messages, until heard returns true or the context ends.
func (s *packetSocket) receiveFrames(ctx context.Context, heard func(frame, oob []byte) bool) error {
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
			return fmt.Errorf("listen on %s: the interface is down", s.name)
		case err != nil || failed != nil:
			return fmt.Errorf("listen on %s: %w", s.name, errors.Join(err, failed))
		}
		if heard(frame[:n], oob[:more]) {
			return nil
		}
	}
}

// parseVLANTag returns the VLAN tag that the kernel has removed from a frame.
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
