package intent

import (
	"encoding/json"
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Finding is why something is not as it should be. The zero value says that all is well.
type Finding struct{ Reason, Message string }

// OK says whether all is well.
func (f Finding) OK() bool { return f.Reason == "" }

// Verdict is what compile thinks of one API object.
type Verdict struct {
	Object     ObjectKey
	Generation int64
	// Accepted: we took it. Resolved: what it names exists. Waiting: why its intent is not complete yet.
	Accepted, Resolved, Waiting Finding
	// Partly is what a part of it will not get. The rest may be in force.
	Partly Finding
	// Tolerated is what it has and would not get any more.
	Tolerated Finding
	// Held is why its deletion has to wait. Only for objects that are being deleted.
	Held Finding
	// Isolated is why the pods of a project and those of others are not kept apart, or only by dropping packets.
	Isolated Finding
	// Through is what it shares with others and can't work without.
	Through []state.Ref
	// Facts are the fields of its status that are not conditions: a ProjectFacts, EIpFacts, FIpFacts, ServiceFacts,
	// NetworkFacts, EgressIPFacts or EgressPolicyFacts.
	Facts any
}

// OK says whether nothing stands in the way.
func (v Verdict) OK() bool { return v.Accepted.OK() && v.Resolved.OK() && v.Waiting.OK() }

// UnmarshalJSON reads a verdict that was written as JSON: the kind of the object says which facts there are.
func (v *Verdict) UnmarshalJSON(raw []byte) error {
	type plain Verdict
	var body struct {
		plain
		Facts json.RawMessage
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	*v = Verdict(body.plain)
	var err error
	switch v.Object.Kind {
	case Project:
		v.Facts, err = decodeFacts[ProjectFacts](body.Facts)
	case EIp:
		v.Facts, err = decodeFacts[EIpFacts](body.Facts)
	case FIp:
		v.Facts, err = decodeFacts[FIpFacts](body.Facts)
	case Service:
		v.Facts, err = decodeFacts[ServiceFacts](body.Facts)
	case ExternalNetwork:
		v.Facts, err = decodeFacts[NetworkFacts](body.Facts)
	case EgressIP:
		v.Facts, err = decodeFacts[EgressIPFacts](body.Facts)
	case EgressService, EgressRoute:
		v.Facts, err = decodeFacts[EgressPolicyFacts](body.Facts)
	}
	return err
}

func decodeFacts[F any](raw json.RawMessage) (any, error) {
	var out F
	err := json.Unmarshal(raw, &out)
	return out, err
}

// ProjectFacts is the status of a Project.
type ProjectFacts struct {
	Namespace, Vpc, Subnet string
	ExternalIP             netip.Addr
	EIpsUsed               int
	// Misplaced is how many pods are on networks where they do not belong.
	Misplaced int
}

// EIpFacts is the status of an EIp.
type EIpFacts struct {
	Address netip.Addr
	OvnEip  string
	Network string      // the external subnet it is on
	Holders []ObjectKey // who uses it
	// MadeForOwner: a FIp or Service made it for itself, and it goes with its owner.
	MadeForOwner bool
}

// FIpFacts is the status of a FIp.
type FIpFacts struct {
	EIp      string
	External netip.Addr
	OvnFip   string
	Target   netip.Addr
	VM       *VMInterface
}

// ServiceFacts is the status of a Service of type LoadBalancer.
type ServiceFacts struct {
	// Foreign: it is not ours any more, and what we have written goes.
	Foreign bool
	Address netip.Addr
	Ports   []PortFacts
	// Lonely: it has no endpoints. Expires: for that it will be deleted.
	Lonely, Expires bool
}

// PortFacts is one port of a Service, and why it can't have it.
type PortFacts struct {
	Number   int
	Protocol Protocol
	Refused  Finding
}

// NetworkFacts is the status of an ExternalNetwork.
type NetworkFacts struct {
	Subnets []SubnetFacts
	Return  string // how replies find back
	// Obsolete is why not as somebody asked for.
	Obsolete Finding
}

// EgressIPFacts is the status of an EgressIP.
type EgressIPFacts struct {
	Items      []EgressIPAssignment
	Leveled    bool   // an address went to a node that holds fewer
	Rebalanced string // the request for that which was carried out last
}

// EgressIPAssignment is an address that a node holds.
type EgressIPAssignment struct {
	Node    string
	Address netip.Addr
}

// EgressPolicyFacts is the status of an EgressRoute or EgressService.
type EgressPolicyFacts struct {
	Network string // the external subnet by which pods leave
	Address netip.Addr
	Pods    int
}

// SubnetFacts is how many addresses a subnet of an external network has.
type SubnetFacts struct {
	Name       string
	Prefix     netip.Prefix
	Gateway    netip.Addr
	Free, Used int
}

// VMInterface is the interface of a virtual machine that a floating IP leads to.
type VMInterface struct {
	VM        string
	Interface string // as the virtual machine's spec calls it
	InGuest   string // as the guest calls it
	MAC       string
	Address   netip.Addr // IPv4
}
