package intent

import (
	"encoding/json"
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Finding is why something is not as wanted. The zero value means no problem.
type Finding struct{ Reason, Message string }

// OK reports whether there is no problem.
func (f Finding) OK() bool { return f.Reason == "" }

// Verdict is what compile decided about one API object.
type Verdict struct {
	Object     ObjectKey
	Generation int64
	// Accepted: whether the object is valid and allowed. Resolved: whether its references exist. Waiting: why its
	// intent is not complete yet.
	Accepted, Resolved, Waiting Finding
	// Partly is what a part of the object does not get. The rest may work.
	Partly Finding
	// Tolerated is what the object has but would no longer get.
	Tolerated Finding
	// Held is why the deletion is blocked. Only for objects that are being deleted.
	Held Finding
	// Isolated is why the pods of a project are not isolated from others, or only by dropping packets.
	Isolated Finding
	// Through are the shared entries that the object depends on.
	Through []state.Ref
	// Facts are the fields of its status that are not conditions: a ProjectFacts, EIpFacts, FIpFacts, ServiceFacts,
	// NetworkFacts, EgressIPFacts or EgressPolicyFacts.
	Facts any
}

// OK reports whether the object is accepted, resolved and complete.
func (v Verdict) OK() bool { return v.Accepted.OK() && v.Resolved.OK() && v.Waiting.OK() }

// UnmarshalJSON decodes a verdict. The kind of the object determines the type of the facts.
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
	EIpQuota               int // 0: none
	// Misplaced is the number of pods on networks where they do not belong.
	Misplaced int
}

// EIpFacts is the status of an EIp.
type EIpFacts struct {
	Address netip.Addr
	OvnEip  string
	Network string      // the external subnet it is on
	Holders []ObjectKey // the objects that use it
	// MadeForOwner: a FIp or Service created it for itself. It is deleted with its owner.
	MadeForOwner bool
}

// FIpFacts is the status of a FIp.
type FIpFacts struct {
	EIp      string
	External netip.Addr
	Network  string // the external subnet that External is on
	OvnFip   string
	Target   netip.Addr
	VM       *VMInterface
	// Translated: the address is translated. Outbound: connections of the target use it as well.
	Translated, Outbound bool
}

// ServiceFacts is the status of a Service of type LoadBalancer.
type ServiceFacts struct {
	// Foreign: we are no longer responsible for it, and what we have written is deleted.
	Foreign bool
	Address netip.Addr
	// SecondAddress is the address of the other family; invalid: none.
	SecondAddress netip.Addr
	Ports         []PortFacts
	// Lonely: it has no endpoints. Expires: it will be deleted for that reason.
	Lonely, Expires bool
}

// PortFacts is a port of a Service, and why the Service can't have it.
type PortFacts struct {
	Number   int
	Protocol Protocol
	Refused  Finding
}

// NetworkFacts is the status of an ExternalNetwork.
type NetworkFacts struct {
	Subnets []SubnetFacts
	Return  string // the return path mode
	// Obsolete is why the mode differs from the configured one.
	Obsolete Finding
}

// EgressIPFacts is the status of an EgressIP.
type EgressIPFacts struct {
	Items      []EgressIPAssignment
	Leveled    bool   // an address was moved to a node that holds fewer
	Rebalanced string // the last completed request for rebalancing
}

// EgressIPAssignment is an address and the node that holds it.
type EgressIPAssignment struct {
	Node    string
	Address netip.Addr
}

// EgressPolicyFacts is the status of an EgressRoute or EgressService.
type EgressPolicyFacts struct {
	Network string // the external subnet through which pods leave
	Address netip.Addr
	Pods    int
}

// SubnetFacts is the usage of a subnet of an external network.
type SubnetFacts struct {
	Name       string
	Prefix     netip.Prefix
	Gateway    netip.Addr
	Free, Used int
}

// VMInterface is the interface of a virtual machine that a floating IP targets.
type VMInterface struct {
	VM        string
	Interface string // name in the spec of the virtual machine
	InGuest   string // name in the guest
	MAC       string
	Address   netip.Addr
}
