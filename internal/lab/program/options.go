package program

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// options begins the command line of a program.
func (s Spec) options(program string) *flag.FlagSet {
	f := flag.NewFlagSet(program, flag.ContinueOnError)
	f.SetOutput(io.Discard) // the error says it all, and the caller has it
	return f
}

// env is the value of a variable, or what it is without.
func (s Spec) env(key, without string) string {
	if v, ok := s.Env[key]; ok {
		return v
	}
	return without
}

// logf writes a line for whoever reads the container's log.
func (s Spec) logf(format string, args ...any) {
	if s.Log != nil {
		_, _ = fmt.Fprintf(s.Log, format+"\n", args...)
	}
}

// parsePorts reads "80,8080".
func parsePorts(list string) (ports []uint16, err error) {
	for part := range strings.SplitSeq(list, ",") {
		port, err := strconv.ParseUint(strings.TrimSpace(part), 10, 16)
		if err != nil || port == 0 {
			return nil, fmt.Errorf("ports %q: %q is not a port", list, part)
		}
		ports = append(ports, uint16(port))
	}
	return ports, nil
}

// wildcard is a port on all addresses of both families.
func wildcard(port uint16) string { return ":" + strconv.Itoa(int(port)) }

// seen is an address as the log and the answers show it; an IPv4 client of a dual stack socket is an IPv4 client.
func seen(address string) netip.AddrPort {
	p, _ := netip.ParseAddrPort(address)
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
