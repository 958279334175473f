package snapshot

import (
	"fmt"
	"strconv"
)

// Limit is how many of something there may be. The zero value: nobody has set one.
type Limit struct {
	IsSet bool
	Max   int
}

// AtMost is a limit that somebody has set.
func AtMost(n int) Limit { return Limit{IsSet: true, Max: n} }

// AllowsMore says whether there may be one more where there are some already.
func (l Limit) AllowsMore(already int) bool { return !l.IsSet || already < l.Max }

// Set reads it, as a flag's value.
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

// String is the number, or none.
func (l *Limit) String() string {
	if !l.IsSet {
		return "none"
	}
	return strconv.Itoa(l.Max)
}

// Type is what help calls such a value.
func (*Limit) Type() string { return "number" }

// Quotas are the limits that hold where nobody has set another.
type Quotas struct {
	// EIps is for each namespace. OrganizationEIps and OrganizationProjects are for all Projects of an organization
	// together.
	EIps, OrganizationEIps, OrganizationProjects Limit
}

// Organization is the Projects of one namespace, which share quotas.
type Organization struct {
	// EIps and Projects are the limits that its namespace sets.
	EIps, Projects Limit
	// Members are its Projects, those of other shards included. They are there only where a limit needs them.
	Members []MemberProject
}

// MemberProject is a Project, as far as its organization's quotas look at it.
type MemberProject struct {
	Meta
	Accepted bool  // it has its namespace
	Quota    Limit // of EIps that it sets itself, or its namespace
	EIps     []MemberEIp
}

// MemberEIp is an EIp, as far as its organization's quota looks at it.
type MemberEIp struct {
	Meta
	Accepted bool
}
