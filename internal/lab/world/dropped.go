package world

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// DroppedFlow is a flow of which a router has dropped a packet since its counters were reset.
type DroppedFlow struct {
	Source, Destination netip.AddrPort // an ICMP message has its type, code and identifier where ports would be
	Protocol            string
	Age                 time.Duration // since the first drop, in whole seconds
}

// String is the flow as a line of a report.
func (f DroppedFlow) String() string {
	return fmt.Sprintf("%s %s > %s, %v ago", f.Protocol, f.Source, f.Destination, f.Age)
}

// DroppedFlows reads the flows that a router has dropped packets of; at most 64 per family.
func DroppedFlows(router netns.NS) ([]DroppedFlow, error) {
	return readList(router, "sets", parseDroppedFlows)
}

// parseDroppedFlows reads the sets that nft -j prints.
func parseDroppedFlows(raw []byte) ([]DroppedFlow, error) {
	var list struct {
		Entries []struct {
			Set struct {
				Elements []struct {
					Element struct {
						Value struct {
							Concat []any `json:"concat"`
						} `json:"val"`
						Expires int `json:"expires"`
					} `json:"elem"`
				} `json:"elem"`
			} `json:"set"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("parse the output of nft: %w", err)
	}
	var flows []DroppedFlow
	for _, entry := range list.Entries {
		for _, e := range entry.Set.Elements {
			key := e.Element.Value.Concat
			if len(key) != 5 {
				return nil, fmt.Errorf("parse the output of nft: a flow has 5 parts, not %v", key)
			}
			source, err := parseEnd(key[0], key[3])
			if err != nil {
				return nil, err
			}
			destination, err := parseEnd(key[1], key[4])
			if err != nil {
				return nil, err
			}
			age := droppedSetAge - time.Duration(e.Element.Expires)*time.Second
			flows = append(flows, DroppedFlow{source, destination, fmt.Sprint(key[2]), age})
		}
	}
	return flows, nil
}

// parseEnd reads an address and a port of a flow.
func parseEnd(address, port any) (netip.AddrPort, error) {
	text, isText := address.(string)
	number, isNumber := port.(float64)
	if !isText || !isNumber {
		return netip.AddrPort{}, fmt.Errorf("parse the output of nft: no address and port: %v, %v", address, port)
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("parse the output of nft: %w", err)
	}
	return netip.AddrPortFrom(a, uint16(number)), nil
}
