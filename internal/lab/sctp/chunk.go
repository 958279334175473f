package sctp

import (
	"encoding/binary"
	"errors"
)

// Chunk types of RFC 9260, section 3.2.
const (
	kindData             = 0
	kindInit             = 1
	kindInitAck          = 2
	kindSack             = 3
	kindHeartbeat        = 4
	kindHeartbeatAck     = 5
	kindAbort            = 6
	kindShutdown         = 7
	kindShutdownAck      = 8
	kindCookieEcho       = 10
	kindCookieAck        = 11
	kindShutdownComplete = 14
)

const (
	flagReflected = 0x01 // T: the tag is the receiver's own, because the sender has no association
	flagWhole     = 0x03 // B and E: a message that is not fragmented
	paramCookie   = 7
	window        = 64 << 10
	streams       = 16
)

var errShort = errors.New("chunk is too short for its type")

// initial is the body of INIT and INIT ACK; no address is listed in it, so that it may pass a NAT.
type initial struct {
	tag    uint32
	tsn    uint32
	cookie []byte // INIT ACK only
}

func (i initial) encode(kind uint8) chunk {
	b := binary.BigEndian.AppendUint32(nil, i.tag)
	b = binary.BigEndian.AppendUint32(b, window)
	b = binary.BigEndian.AppendUint16(b, streams)
	b = binary.BigEndian.AppendUint16(b, streams)
	b = binary.BigEndian.AppendUint32(b, i.tsn)
	if len(i.cookie) > 0 {
		b = binary.BigEndian.AppendUint16(b, paramCookie)
		b = binary.BigEndian.AppendUint16(b, uint16(4+len(i.cookie))) //nolint:gosec // a cookie has a fixed length
		b = append(b, i.cookie...)
	}
	return chunk{kind: kind, body: b}
}

func parseInitial(c chunk) (initial, error) {
	if len(c.body) < 16 {
		return initial{}, errShort
	}
	i := initial{tag: binary.BigEndian.Uint32(c.body), tsn: binary.BigEndian.Uint32(c.body[12:])}
	if i.tag == 0 {
		return initial{}, errors.New("initiate tag is zero")
	}
	for rest := c.body[16:]; len(rest) >= 4; {
		n := int(binary.BigEndian.Uint16(rest[2:]))
		if n < 4 || n > len(rest) {
			return initial{}, errors.New("parameter is longer than its chunk")
		}
		if binary.BigEndian.Uint16(rest) == paramCookie {
			i.cookie = rest[4:n]
		}
		rest = rest[min(len(rest), n+padding(n)):]
	}
	return i, nil
}

// data is the body of DATA.
type data struct {
	tsn     uint32
	stream  uint16
	seq     uint16
	whole   bool
	payload []byte
}

func (d data) encode() chunk {
	b := binary.BigEndian.AppendUint32(nil, d.tsn)
	b = binary.BigEndian.AppendUint16(b, d.stream)
	b = binary.BigEndian.AppendUint16(b, d.seq)
	b = binary.BigEndian.AppendUint32(b, 0) // no payload protocol
	return chunk{kind: kindData, flags: flagWhole, body: append(b, d.payload...)}
}

func parseData(c chunk) (data, error) {
	if len(c.body) <= 12 { // RFC 9260, section 3.3.1: DATA without user data is an error
		return data{}, errShort
	}
	return data{
		tsn:     binary.BigEndian.Uint32(c.body),
		stream:  binary.BigEndian.Uint16(c.body[4:]),
		seq:     binary.BigEndian.Uint16(c.body[6:]),
		whole:   c.flags&flagWhole == flagWhole,
		payload: c.body[12:],
	}, nil
}

// sack says that everything up to tsn has arrived. Gaps are not reported: what comes early is dropped and sent again.
func sack(tsn uint32) chunk {
	b := binary.BigEndian.AppendUint32(nil, tsn)
	b = binary.BigEndian.AppendUint32(b, window)
	return chunk{kind: kindSack, body: append(b, 0, 0, 0, 0)}
}

func shutdown(tsn uint32) chunk {
	return chunk{kind: kindShutdown, body: binary.BigEndian.AppendUint32(nil, tsn)}
}

// acked is the cumulative TSN that a SACK or SHUTDOWN begins with.
func acked(c chunk) (uint32, error) {
	if len(c.body) < 4 {
		return 0, errShort
	}
	return binary.BigEndian.Uint32(c.body), nil
}

// before compares TSNs, which wrap around.
func before(a, b uint32) bool { return int32(a-b) < 0 } //nolint:gosec // serial numbers wrap (RFC 1982)
