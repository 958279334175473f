package sctp

import "time"

// next is when tick has something to do; zero when there is nothing.
func (s *server) next() (t time.Time) {
	for _, a := range s.associations {
		if !a.resend.IsZero() && (t.IsZero() || a.resend.Before(t)) {
			t = a.resend
		}
	}
	return t
}

// tick sends again what was not acknowledged in time, and gives up on peers that stay silent.
func (s *server) tick(now time.Time) (out []outgoing) {
	for id, a := range s.associations {
		if a.resend.IsZero() || now.Before(a.resend) {
			continue
		}
		if a.tries++; a.tries > resendTries {
			delete(s.associations, id)
			out = append(out, a.outgoing(id, chunk{kind: kindAbort})...)
			continue
		}
		a.arm(now)
		out = append(out, a.outgoing(id, a.again()...)...)
	}
	return out
}

// end aborts every association, as a kernel does for a process that is killed.
func (s *server) end() (out []outgoing) {
	for id, a := range s.associations {
		out = append(out, a.outgoing(id, chunk{kind: kindAbort})...)
	}
	clear(s.associations)
	return out
}
