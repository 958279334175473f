// Package probe is a search for the hosts on a link that have an address.
//
// The requests leave no entries in neighbour tables. IPv4 uses ARP probes like a host that is about to take an address
// (RFC 5227), IPv6 uses duplicate address detection (RFC 4862): without a source address. With one, OVN would store the
// requester as a neighbour of each of its routers.
package probe

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Frames may be lost, so each request is sent three times. Slow hosts have time to answer the last one.
const (
	sendCount    = 3
	sendInterval = 250 * time.Millisecond
	probeTimeout = time.Second
)

// Query asks which hosts have an address on the link of an interface.
type Query struct {
	Interface string
	VLAN      uint16 // 0: untagged
	Address   netip.Addr
}

// Result has the hosts that answered. More than one: a duplicate address.
type Result struct {
	MACs []string // sorted, at most maxMACs
	Err  error    // why the request failed
}

// maxMACs limits the MAC addresses in a result. Any host on the link can claim an address for as many as fit into a
// second.
const maxMACs = 16

// FindNeighbours sends all queries at the same time, and returns the results in their order. It takes a second.
//
// The frames go directly to the link: neither the node's own kernel nor a switch that has the interface as a port
// receives them.
func FindNeighbours(ctx context.Context, questions []Query) []Result {
	out := make([]Result, len(questions))
	byInterface := map[string][]int{}
	for i, q := range questions {
		byInterface[q.Interface] = append(byInterface[q.Interface], i)
	}
	var wait sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(byInterface)) {
		which := byInterface[name]
		s, err := openSocket(name) // here, because of the network namespace of the caller's thread
		if err != nil {
			for _, i := range which {
				out[i].Err = err
			}
			continue
		}
		wait.Go(func() {
			defer s.close()
			s.runQueries(ctx, questions, which, out)
		})
	}
	wait.Wait()
	return out
}

// claimKey identifies a requested address.
type claimKey struct {
	vlan    uint16
	address netip.Addr
}

func claimKeyOf(q Query) claimKey { return claimKey{q.VLAN, q.Address} }

// claims are the MAC addresses that claimed a requested address.
type claims map[claimKey]map[string]bool

// addClaim records a claim for a requested address, up to the limit.
func (c claims) addClaim(k claimKey, mac net.HardwareAddr) {
	if macs := c[k]; macs != nil && len(macs) < maxMACs {
		macs[mac.String()] = true
	}
}

// runQueries sends some of the queries on one socket and stores the results.
func (s *packetSocket) runQueries(ctx context.Context, questions []Query, which []int, out []Result) {
	heard := claims{}
	for _, i := range which {
		heard[claimKeyOf(questions[i])] = map[string]bool{}
	}
	var frames [][]byte
	for k := range heard {
		frames = append(frames, buildFrame(s.mac, k))
	}
	err := s.exchangeFrames(ctx, frames, func(frame, oob []byte) bool {
		if address, mac, ok := parseClaim(frame); ok {
			heard.addClaim(claimKey{parseVLANTag(oob), address}, mac)
		}
		return false
	})
	for _, i := range which {
		out[i] = Result{MACs: slices.Sorted(maps.Keys(heard[claimKeyOf(questions[i])])), Err: err}
	}
}
