package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// The leases of controllers.
const (
	ControllerLease = "sallyport-controller"
	KubeOVNLease    = "kube-ovn-controller"
)

// attentive is how long the controller may take to say something of an object. At work it takes milliseconds, after a start some seconds.
const attentive = 30 * time.Second

// controlPlane finds controllers that do not run.
func (p *patient) controlPlane() {
	if p.blind(survey.Kubernetes) {
		return
	}
	if why := p.lapsed(ControllerLease); why != "" {
		p.report(ControllerDead, []state.Ref{Platform}, "sallyport-controller does not run: %s; what is in force stays, nothing is changed or put right", why)
	}
	if why := p.lapsed(KubeOVNLease); why != "" {
		p.report(KubeOVNDead, []state.Ref{Platform}, "kube-ovn-controller does not run: %s; new pods and addresses get nothing", why)
	}
}

// lapsed is why nobody holds a lease, or nothing.
func (p *patient) lapsed(name string) string {
	for _, l := range p.Cluster.Leases {
		if l.Name != name {
			continue
		}
		age := p.now.Sub(l.Renewed)
		switch {
		case l.Holder == "":
			return fmt.Sprintf("%s gave up its lease %s ago and nobody took it", name, round(age))
		case age > l.Lasts+l.Lasts/4:
			return fmt.Sprintf("%s last renewed its lease %s ago", l.Holder, round(age))
		}
		return ""
	}
	return "there is no lease " + name
}

func round(d time.Duration) string {
	if d < 2*time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// progress finds what does not carry out changes of the logical network.
func (p *patient) progress() {
	if p.blind(survey.Northbound, survey.Southbound) {
		return
	}
	at := p.Logical.Progress
	if at.Translated < at.Asked {
		p.report(NorthdBehind, []state.Ref{Platform}, "ovn-northd has translated change %d of the logical network, and %d was asked for",
			at.Translated, at.Asked)
		return // chassis can't be further
	}
	for i := range p.Logical.Chassis {
		c := &p.Logical.Chassis[i]
		n := p.nodeOf(c.Name)
		if c.Seen >= at.Asked || n == nil || !n.Ready || p.switchless(n.Name) {
			continue // of a node that is down, or has no switch to change, it is told there
		}
		p.report(ChassisBehind, []state.Ref{n.Ref}, "node %s has carried out change %d of the logical network, and %d was asked for; %s",
			n.Name, c.Seen, at.Asked, p.burden(n))
	}
}

// attention finds objects that the controller has said nothing about.
func (p *patient) attention() {
	if p.blind(survey.Kubernetes) {
		return
	}
	dead := p.lapsed(ControllerLease) != ""
	for _, o := range p.judged() {
		silent := len(o.Conditions) == 0 && !o.Created.IsZero() && p.now.Sub(o.Created) > attentive
		if o.Kind == "NodePath" {
			continue // the agent's business, and told with its node's
		}
		stale := slices.ContainsFunc(o.Conditions, func(c survey.Condition) bool { return c.Generation != 0 && c.Generation < o.Generation })
		switch {
		case dead && len(o.Conditions) == 0:
			p.report(Unattended, []state.Ref{o.Ref}, "nothing was done for %s: sallyport-controller does not run", o.Ref)
		case dead && stale:
			p.report(Unattended, []state.Ref{o.Ref}, "%s was changed, and nothing was done for it: sallyport-controller does not run", o.Ref)
		case silent:
			p.report(Unattended, []state.Ref{o.Ref}, "%s is %s old, and sallyport-controller has said nothing about it", o.Ref, round(p.now.Sub(o.Created)))
		}
	}
}
