// Package probe is questions on a wire: who has an address there.
//
// They leave no trace in anybody's tables. IPv4 is asked as by a host that is about to take an address (RFC 5227), IPv6
// as in the detection of duplicates (RFC 4862): without a source address. OVN would write down for each of its routers
// who asks otherwise.
package probe

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A frame may be lost, so each question is asked three times, and a slow host has time to answer the last one.
const (
	sendCount    = 3
	sendInterval = 250 * time.Millisecond
	probeTimeout = time.Second
)

// Query asks who has an address on the wire that an interface leads to.
type Query struct {
	Interface string
	VLAN      uint16 // 0: without a tag
	Address   netip.Addr
}

// Result is who has it. More than one: two hosts have the same address.
type Result struct {
	MACs []string // sorted; of many, the first
	Err  error    // why it could not be asked
}

// maxMACs is how many MAC addresses an answer has. Whoever is on the wire can claim an address for as many as frames
// fit into a second.
const maxMACs = 16

// FindNeighbours asks all questions at the same time, and returns the answers in their order. It takes a second.
//
// What asks is the interface, straight to the wire: neither the node's own kernel, nor a switch that has the interface
// as a port hears it.
func FindNeighbours(ctx context.Context, questions []Query) []Result {
	out := make([]Result, len(questions))
	byInterface := map[string][]int{}
	for i, q := range questions {
		byInterface[q.Interface] = append(byInterface[q.Interface], i)
	}
	var wait sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(byInterface)) {
		which := byInterface[name]
		s, err := openSocket(name) // here, because the network namespace is that of the caller's thread
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

// claimKey is what an answer is about.
type claimKey struct {
	vlan    uint16
	address netip.Addr
}

func claimKeyOf(q Query) claimKey { return claimKey{q.VLAN, q.Address} }

// claims are the MAC addresses for which somebody claimed what was asked for.
type claims map[claimKey]map[string]bool

// addClaim notes a claim: only of what was asked for, and not without end.
func (c claims) addClaim(k claimKey, mac net.HardwareAddr) {
	if macs := c[k]; macs != nil && len(macs) < maxMACs {
		macs[mac.String()] = true
	}
}

// runQueries asks some of the questions on one socket, and writes the answers.
func (s *packetSocket) runQueries(ctx context.Context, questions []Query, which []int, out []Result) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	heard := claims{}
	for _, i := range which {
		heard[claimKeyOf(questions[i])] = map[string]bool{}
	}
	ears := errgroup.Group{}
	asked := slices.Collect(maps.Keys(heard))
	ears.Go(func() error {
		return s.receiveClaims(ctx, heard.addClaim)
	})
	err := s.sendQueries(ctx, asked)
	if err != nil {
		cancel()
	}
	if deaf := ears.Wait(); err == nil {
		err = deaf
	}
	for _, i := range which {
		out[i] = Result{MACs: slices.Sorted(maps.Keys(heard[claimKeyOf(questions[i])])), Err: err}
	}
}

// sendQueries asks everything, several times.
func (s *packetSocket) sendQueries(ctx context.Context, asked []claimKey) error {
	again := time.NewTicker(sendInterval)
	defer again.Stop()
	for range sendCount {
		for _, k := range asked {
			if err := s.sendFrame(buildFrame(s.mac, k)); err != nil {
				return fmt.Errorf("ask on %s: %w", s.name, err)
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
