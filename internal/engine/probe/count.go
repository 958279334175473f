package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// MarkedCount is how often a marked packet was seen at an interface.
type MarkedCount struct {
	Interface int // index
	Outgoing  bool
	Tunnel    bool   // within a packet between nodes
	Kind      string // MarkedRequest, MarkedReply or MarkedRefusal
	From, To  netip.AddrPort
	Count     int
}

// maxMarkedCounts limits the different sightings. A packet and its reply have a few on one node.
const maxMarkedCounts = 64

// MarkCounter counts packets with a mark on all interfaces of a node.
type MarkCounter struct {
	mark uint32
	file *os.File
}

// NewMarkCounter opens a packet socket on all interfaces in the network namespace of the caller's thread. From then on no
// packet is missed.
func NewMarkCounter(mark uint32) (*MarkCounter, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket (requires CAP_NET_RAW): %w", err)
	}
	if err := attachFilter(fd, buildMarkFilter(mark)); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("filter packets: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL)}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listen on all interfaces: %w", err)
	}
	return &MarkCounter{mark, os.NewFile(uintptr(fd), "all interfaces")}, nil
}

// Close releases the socket.
func (c *MarkCounter) Close() { _ = c.file.Close() }

// Count counts until the context ends, and returns the sightings in the order of the first of each.
func (c *MarkCounter) Count(ctx context.Context) (out []MarkedCount, err error) {
	defer context.AfterFunc(ctx, func() { _ = c.file.SetReadDeadline(time.Now()) })()
	raw, err := c.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	frame := make([]byte, maxFrameLength)
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), frame, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return out, nil
		case errors.Is(failed, unix.ENETDOWN): // one of the interfaces
			continue
		case err != nil || failed != nil:
			return out, fmt.Errorf("listen on all interfaces: %w", errors.Join(err, failed))
		}
		if at, is := from.(*unix.SockaddrLinklayer); is {
			out = c.addFrame(out, at, frame[:n])
		}
	}
}

// addFrame adds a frame to the counts.
func (c *MarkCounter) addFrame(to []MarkedCount, at *unix.SockaddrLinklayer, frame []byte) []MarkedCount {
	seen, ok := parseMarked(frame, c.mark)
	if !ok {
		return to
	}
	add := MarkedCount{
		Interface: at.Ifindex, Outgoing: at.Pkttype == unix.PACKET_OUTGOING, Tunnel: seen.tunnel,
		Kind: seen.kind, From: seen.from, To: seen.to,
	}
	i := slices.IndexFunc(to, func(o MarkedCount) bool { o.Count = 0; return o == add })
	switch {
	case i >= 0:
		to[i].Count++
	case len(to) < maxMarkedCounts:
		add.Count = 1
		to = append(to, add)
	}
	return to
}

// buildMarkFilter returns a filter that accepts frames in which one of the words that may be the mark is the mark, so
// that a busy node does not keep the agent busy. parseMarked decides. A filter rejects a frame that is shorter than the
// word it loads, so the words are in the order of their offsets.
func buildMarkFilter(mark uint32) (out []bpf.Instruction) {
	type candidate struct{ offset, value uint32 }
	var all []candidate
	const encapsulation = udpHeaderLength + geneveHeaderLength + 8 + ipOffset // OVN has one option of 8 bytes
	for _, link := range []uint32{ipOffset, ipOffset + vlanTagLength} {
		for _, outer := range []uint32{0, ipv4HeaderLength + encapsulation, ipv6HeaderLength + encapsulation} {
			for _, header := range []uint32{ipv4HeaderLength, ipv6HeaderLength} {
				at := link + outer + header
				quoted := at + icmpHeaderLength + header
				all = append(all, candidate{at + 4, mark}, candidate{at + 8, mark + 1}, candidate{at + 16, mark},
					candidate{quoted + 4, mark}, candidate{quoted + 16, mark})
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.value, b.value))
	})
	for _, c := range slices.Compact(all) {
		out = append(out, bpf.LoadAbsolute{Off: c.offset, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: c.value, SkipTrue: 1}, bpf.RetConstant{Val: maxFrameLength})
	}
	return append(out, bpf.RetConstant{Val: 0})
}
