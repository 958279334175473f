package sctp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Sizes of RFC 9260, section 3.
const (
	headerLen      = 12
	chunkHeaderLen = 4
	checksumAt     = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// packet is an SCTP packet: the common header and its chunks.
type packet struct {
	src, dst uint16
	tag      uint32
	chunks   []chunk
}

// chunk is one chunk without its padding.
type chunk struct {
	kind  uint8
	flags uint8
	body  []byte
}

// encode is the packet on the wire.
func (p packet) encode() []byte {
	b := make([]byte, headerLen, 128)
	binary.BigEndian.PutUint16(b[0:], p.src)
	binary.BigEndian.PutUint16(b[2:], p.dst)
	binary.BigEndian.PutUint32(b[4:], p.tag)
	for _, c := range p.chunks {
		b = append(b, c.kind, c.flags)
		b = binary.BigEndian.AppendUint16(b, uint16(chunkHeaderLen+len(c.body))) //nolint:gosec // a chunk fits into a packet
		b = append(b, c.body...)
		b = append(b, make([]byte, padding(len(c.body)))...)
	}
	binary.LittleEndian.PutUint32(b[checksumAt:], checksum(b))
	return b
}

// parse reads a packet from the wire. The chunks share b's memory.
func parse(b []byte) (packet, error) {
	if len(b) < headerLen {
		return packet{}, errors.New("packet is shorter than its header")
	}
	if got, want := binary.LittleEndian.Uint32(b[checksumAt:]), checksum(b); got != want {
		return packet{}, fmt.Errorf("checksum is %08x, not %08x", got, want)
	}
	p := packet{
		src: binary.BigEndian.Uint16(b[0:]),
		dst: binary.BigEndian.Uint16(b[2:]),
		tag: binary.BigEndian.Uint32(b[4:]),
	}
	for rest := b[headerLen:]; len(rest) > 0; {
		c, n, err := parseChunk(rest)
		if err != nil {
			return packet{}, err
		}
		p.chunks = append(p.chunks, c)
		rest = rest[n:]
	}
	return p, nil
}

// parseChunk reads the first chunk of b and says how many bytes it takes there.
func parseChunk(b []byte) (chunk, int, error) {
	if len(b) < chunkHeaderLen {
		return chunk{}, 0, errors.New("chunk is shorter than its header")
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	if n < chunkHeaderLen || n > len(b) {
		return chunk{}, 0, fmt.Errorf("chunk of %d bytes has length %d", len(b), n)
	}
	c := chunk{kind: b[0], flags: b[1], body: b[chunkHeaderLen:n]}
	return c, min(len(b), n+padding(n)), nil // the padding of the last chunk may be missing
}

// padding is how many zero bytes follow n bytes to end on a multiple of four.
func padding(n int) int { return -n & 3 }

// checksum is the CRC32c of the packet with its checksum field zero. RFC 9260, appendix A, puts it on the wire with
// the least significant byte first, unlike all other fields.
func checksum(b []byte) uint32 {
	sum := crc32.Update(0, castagnoli, b[:checksumAt])
	sum = crc32.Update(sum, castagnoli, make([]byte, 4))
	return crc32.Update(sum, castagnoli, b[headerLen:])
}
