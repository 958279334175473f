package world

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// Counter is what one of a router's counters holds.
type Counter struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Counters reads a router's counters, by name.
func Counters(router netns.NS) (map[string]Counter, error) {
	return readList(router, "counters", parseCounters)
}

// readList reads a kind of objects of a router's table and parses what nft -j prints.
func readList[T any](router netns.NS, objects string, parse func([]byte) (T, error)) (out T, err error) {
	raw, err := nft(context.Background(), router, "", "-j", "list", objects, "table", "inet", "edge")
	if err == nil {
		out, err = parse(raw)
	}
	if err != nil {
		return out, fmt.Errorf("read %s of %s: %w", objects, router.Name, err)
	}
	return out, nil
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

// ResetCounters sets a router's counters to zero and forgets the flows it has dropped.
func ResetCounters(router netns.NS) error {
	if _, err := nft(context.Background(), router, "", "reset", "counters", "table", "inet", "edge"); err != nil {
		return fmt.Errorf("reset counters of %s: %w", router.Name, err)
	}
	for _, family := range []string{"ip", "ip6"} {
		_, err := nft(context.Background(), router, "", "flush", "set", "inet", "edge", droppedSet(family))
		if err != nil {
			return fmt.Errorf("forget dropped flows of %s: %w", router.Name, err)
		}
	}
	return nil
}

// Dropped is how many packets a router has dropped since its counters were reset.
func Dropped(router netns.NS) (uint64, error) {
	counters, err := Counters(router)
	return counters[Spoofed].Packets + counters[OutOfState].Packets, err
}
