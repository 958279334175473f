package sctp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"
)

// cookie is all that a server knows about an association before it is set up. The client carries it, so that an INIT
// costs the server no memory.
type cookie struct {
	mine, theirs       uint32 // tags
	mineTSN, theirsTSN uint32 // first TSN of each direction
	made               time.Time
}

const cookieLen = 24

// secret signs the cookies of one server.
type secret [32]byte

func newSecret() (s secret) {
	_, _ = rand.Read(s[:]) // never fails, says crypto/rand
	return s
}

func (s secret) seal(c cookie, id pair) []byte {
	b := binary.BigEndian.AppendUint32(nil, c.mine)
	b = binary.BigEndian.AppendUint32(b, c.theirs)
	b = binary.BigEndian.AppendUint32(b, c.mineTSN)
	b = binary.BigEndian.AppendUint32(b, c.theirsTSN)
	b = binary.BigEndian.AppendUint64(b, uint64(c.made.UnixNano()))
	return append(b, s.sign(b, id)...)
}

func (s secret) open(b []byte, id pair, now time.Time) (cookie, error) {
	if len(b) < cookieLen || !hmac.Equal(b[cookieLen:], s.sign(b[:cookieLen], id)) {
		return cookie{}, errors.New("cookie is not ours")
	}
	c := cookie{
		mine:      binary.BigEndian.Uint32(b),
		theirs:    binary.BigEndian.Uint32(b[4:]),
		mineTSN:   binary.BigEndian.Uint32(b[8:]),
		theirsTSN: binary.BigEndian.Uint32(b[12:]),
		made:      time.Unix(0, int64(binary.BigEndian.Uint64(b[16:]))), //nolint:gosec // nanoseconds that encode has written
	}
	if now.Sub(c.made) > cookieLife {
		return cookie{}, errors.New("cookie is stale")
	}
	return c, nil
}

// chooseTags returns the tag and the first TSN of the server for a client's tag: as good as random for anybody else, and
// never 0.
func (s secret) chooseTags(theirs uint32, id pair) (tag, tsn uint32) {
	sum := s.sign(binary.BigEndian.AppendUint32(nil, theirs), id)
	return binary.BigEndian.Uint32(sum) | 1, binary.BigEndian.Uint32(sum[4:]) | 1
}

// sign binds a cookie to the two ends it was made for.
func (s secret) sign(b []byte, id pair) []byte {
	h := hmac.New(sha256.New, s[:])
	h.Write(b)
	h.Write([]byte(id.remote.String() + " " + id.local.String()))
	return h.Sum(nil)
}
