// Package trace is the way of a packet through a cluster and of its reply, worked out from a survey, in the words of the API.
package trace

import (
	"net/netip"

	"github.com/sallyport/sallyport/internal/state"
)

// Query is the packet that is asked about: a connection's first.
type Query struct {
	// Pod it is sent from, as namespace/name; empty: it comes from outside, from Client.
	Pod string `json:"pod,omitempty"`
	// Client is the source. Port 0: any.
	Client netip.AddrPort `json:"client"`
	// Server is the destination, and Protocol tcp, udp, sctp or icmp.
	Server   netip.AddrPort `json:"server"`
	Protocol string         `json:"protocol"`
	// Size of the largest packets in bytes; 0: small ones.
	Size int `json:"size,omitempty"`
}

// Trace is what becomes of it. Where connections are spread over several backends, each is a Path.
type Trace struct {
	Query Query  `json:"query"`
	Paths []Path `json:"paths"`
}

// Path is one way there, and the way back.
type Path struct {
	There []Hop `json:"there"`
	Back  []Hop `json:"back,omitempty"`
	// Verdict is one of the constants below, and Reason why, in words. About is what it is because of.
	Verdict string      `json:"verdict"`
	Reason  string      `json:"reason,omitempty"`
	About   []state.Ref `json:"about,omitempty"`
	// Server is who gets the packet: the pod's address and port; and Seen is the source address that it sees.
	Server netip.AddrPort `json:"server"`
	Seen   netip.Addr     `json:"seen"`
}

// The verdicts.
const (
	Answered = "Answered" // the packet arrives, and its reply finds back to the client
	Dropped  = "Dropped"  // on its way there
	Refused  = "Refused"  // somebody answers that nobody is there
	Lost     = "Lost"     // the reply does not find back, or by another network
	Unknown  = "Unknown"  // the address is none of the cluster's
)

// Hop is a step on the way.
type Hop struct {
	// About is the object of the API, or the Network, Router, Node or Pod, that the step is about.
	About state.Ref `json:"about"`
	Text  string    `json:"text"` // what happens there
	Node  string    `json:"node,omitempty"`
	// Row is the row of OVN that makes it happen, as somebody would look it up, and Packet the packet after it.
	Row    string `json:"row,omitempty"`
	Packet string `json:"packet,omitempty"`
}
