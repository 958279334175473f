package snapshot

import (
	"fmt"
	"strconv"
)

// Limit is a maximum number of objects. The zero value: not set.
type Limit struct {
	IsSet bool
	Max   int
}

// AtMost returns a limit.
func AtMost(n int) Limit { return Limit{IsSet: true, Max: n} }

// AllowsMore reports whether one more object is allowed.
func (l Limit) AllowsMore(already int) bool { return !l.IsSet || already < l.Max }

// Set implements pflag.Value.
func (l *Limit) Set(text string) error {
	if text == "none" {
		*l = Limit{}
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%q: use a number, or none", text)
	}
	*l = AtMost(n)
	return nil
}

// String returns the number, or none.
func (l *Limit) String() string {
	if !l.IsSet {
		return "none"
	}
	return strconv.Itoa(l.Max)
}

// Type implements pflag.Value.
func (*Limit) Type() string { return "number" }

// Quotas are the default limits.
type Quotas struct {
	// EIps is per namespace. OrganizationEIps and OrganizationProjects are for all Projects of an organization
	// together.
	EIps, OrganizationEIps, OrganizationProjects Limit
}

// Organization is the Projects of one namespace, which share quotas.
type Organization struct {
	// EIps and Projects are the limits set on its namespace.
	EIps, Projects Limit
	// Members are its Projects, including those of other shards. They are present only if a limit needs them.
	Members []MemberProject
}

// MemberProject is a Project as its organization's quotas see it.
type MemberProject struct {
	Meta
	Accepted bool  // it owns its namespace
	Quota    Limit // of EIps, set by the Project or its namespace
	EIps     []MemberEIp
}

// MemberEIp is an EIp as its organization's quota sees it.
type MemberEIp struct {
	Meta
	Accepted bool
}
