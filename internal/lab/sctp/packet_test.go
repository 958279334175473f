package sctp

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"reflect"
	"testing"
	"time"
)

func TestPacketSurvivesTheWire(t *testing.T) {
	for name, chunks := range map[string][]chunk{
		"init":     {initial{tag: 7, tsn: 8}.encode(kindInit)},
		"init ack": {initial{tag: 7, tsn: 8, cookie: []byte("odd cookie.")}.encode(kindInitAck)},
		"bundle":   {sack(41), data{tsn: 42, stream: 1, seq: 2, payload: []byte("hello")}.encode()},
		"bodiless": {{kind: kindCookieAck}, {kind: kindShutdownComplete, flags: flagReflected}},
		"shutdown": {shutdown(1 << 31)},
	} {
		want := packet{src: 80, dst: 50000, tag: 0xdeadbeef, chunks: chunks}
		wire := want.encode()
		if len(wire)%4 != 0 {
			t.Errorf("%s: %d bytes on the wire, want a multiple of four", name, len(wire))
		}
		got, err := parse(wire)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range want.chunks { // nil and empty are the same body
			want.chunks[i].body = append([]byte{}, want.chunks[i].body...)
			got.chunks[i].body = append([]byte{}, got.chunks[i].body...)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestBodiesSurviveTheWire(t *testing.T) {
	i := initial{tag: 1, tsn: 2, cookie: []byte("cookie")}
	if got, err := parseInitial(i.encode(kindInitAck)); err != nil || !reflect.DeepEqual(got, i) {
		t.Errorf("INIT ACK: %+v, %v", got, err)
	}
	d := data{tsn: 1, stream: 2, seq: 3, whole: true, payload: []byte("x")}
	if got, err := parseData(d.encode()); err != nil || !reflect.DeepEqual(got, d) {
		t.Errorf("DATA: %+v, %v", got, err)
	}
	if got, err := acked(sack(9)); err != nil || got != 9 {
		t.Errorf("SACK: %d, %v", got, err)
	}
	if !before(0xffffffff, 0) || before(0, 0xffffffff) {
		t.Error("TSN 0 must come after TSN 2³²-1")
	}
}

// The vectors are those of RFC 3720, appendix B.4, for CRC32c; the check value of "123456789" is from the CRC
// catalogue.
func TestChecksumIsCRC32c(t *testing.T) {
	for in, want := range map[string]uint32{
		string(make([]byte, 32)):               0x8a9136aa,
		string(bytes.Repeat([]byte{0xff}, 32)): 0x62a8ab43,
		"123456789":                            0xe3069283,
	} {
		if got := crc32.Checksum([]byte(in), castagnoli); got != want {
			t.Errorf("CRC32c of %x is %08x, want %08x", in, got, want)
		}
	}
	// A packet of 32 zero bytes has the first vector's sum, and carries it with the lowest byte first.
	zero := make([]byte, 32)
	if got := checksum(zero); got != 0x8a9136aa {
		t.Errorf("checksum of a zero packet is %08x", got)
	}
	wire := packet{chunks: []chunk{{body: make([]byte, 16)}}}.encode()
	wire[14], wire[15] = 0, 0
	binary.LittleEndian.PutUint32(wire[8:], 0)
	if !bytes.Equal(wire, zero) {
		t.Fatalf("packet is % x, want only zeroes", wire)
	}
	copy(wire[8:], []byte{0xaa, 0x36, 0x91, 0x8a})
	if _, err := parse(wire); err == nil || err.Error() != "chunk of 20 bytes has length 0" {
		t.Errorf("a right checksum must be taken and the chunk refused: %v", err)
	}
}

func TestDamagedPacketIsRefused(t *testing.T) {
	wire := packet{src: 1, dst: 2, tag: 3, chunks: []chunk{sack(1)}}.encode()
	if _, err := parse(wire); err != nil {
		t.Fatalf("whole packet: %v", err)
	}
	for i := range wire {
		wire[i] ^= 0x10
		if _, err := parse(wire); err == nil {
			t.Errorf("packet with byte %d damaged was taken", i)
		}
		wire[i] ^= 0x10
	}
}

// FuzzParse feeds anything to the parser, and what it takes to both state machines in all their states.
func FuzzParse(f *testing.F) {
	f.Add(packet{src: 1, dst: 80, chunks: []chunk{initial{tag: 7, tsn: 8}.encode(kindInit)}}.encode())
	f.Add(packet{src: 1, dst: 80, tag: 9, chunks: []chunk{{kind: kindCookieEcho, body: make([]byte, 60)}}}.encode())
	f.Add(packet{src: 1, dst: 80, tag: 9, chunks: []chunk{data{payload: []byte("x")}.encode(), shutdown(1)}}.encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headerLen {
			binary.LittleEndian.PutUint32(b[checksumAt:], checksum(b)) // or nothing would get past it
		}
		p, err := parse(b)
		if err != nil {
			return
		}
		p.src, p.dst, p.tag = 80, 80, 9
		id := pair{remote: netip.MustParseAddrPort("192.0.2.1:80"), local: netip.MustParseAddrPort("192.0.2.2:80")}
		s := newServer([]uint16{80}, func(netip.AddrPort, []byte) []byte { return []byte("answer") })
		s.associations[id] = &association{mine: 9, unacked: []data{{tsn: 5}}}
		for _, reply := range s.handle(p, id, time.Now()) {
			if _, err := parse(reply.encode()); err != nil {
				t.Errorf("server answers % x with a bad packet: %v", b, err)
			}
		}
		for phase := greeting; phase <= gone; phase++ {
			c := client{src: 80, dst: 80, mine: 9, phase: phase, question: []byte("?")}
			for _, reply := range c.handle(p) {
				if _, err := parse(reply.encode()); err != nil {
					t.Errorf("client answers % x with a bad packet: %v", b, err)
				}
			}
		}
	})
}
