package world

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

// Counter is what one of a router's counters holds.
type Counter struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Counters reads a router's counters, by name.
func Counters(router netns.NS) (map[string]Counter, error) {
	return readCounters(context.Background(), router)
}

func readCounters(ctx context.Context, router netns.NS) (map[string]Counter, error) {
	raw, err := nft(ctx, router, "", "-j", "list", "counters", "table", "inet", "edge")
	if err != nil {
		return nil, fmt.Errorf("read counters of %s: %w", router.Name, err)
	}
	counters, err := parseCounters(raw)
	if err != nil {
		return nil, fmt.Errorf("read counters of %s: %w", router.Name, err)
	}
	return counters, nil
}

// parseCounters reads the list that nft -j prints, in which a counter is one kind of entry among others.
func parseCounters(raw []byte) (map[string]Counter, error) {
	var list struct {
		Entries []struct {
			Counter *struct {
				Name string `json:"name"`
				Counter
			} `json:"counter"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("parse the output of nft: %w", err)
	}
	counters := map[string]Counter{}
	for _, e := range list.Entries {
		if e.Counter != nil {
			counters[e.Counter.Name] = e.Counter.Counter
		}
	}
	return counters, nil
}

// ResetCounters sets a router's counters to zero.
func ResetCounters(router netns.NS) error {
	if _, err := nft(context.Background(), router, "", "reset", "counters", "table", "inet", "edge"); err != nil {
		return fmt.Errorf("reset counters of %s: %w", router.Name, err)
	}
	return nil
}

// Drops is how many packets each router of the lab has dropped, by the router's name.
func Drops(ctx context.Context, b blueprint.Blueprint) (map[string]uint64, error) {
	drops := map[string]uint64{}
	for _, seg := range b.Segments() {
		counters, err := readCounters(ctx, netns.Named(seg.Router))
		if err != nil {
			return nil, err
		}
		drops[seg.Router] = counters[Spoofed].Packets + counters[OutOfState].Packets
	}
	return drops, nil
}
