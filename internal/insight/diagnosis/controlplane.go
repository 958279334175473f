package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// The leases of controllers.
const (
	ControllerLease = "sallyport-controller"
	KubeOVNLease    = "kube-ovn-controller"
)

// firstStatusTimeout is how long the controller may take to say something of an object. At work it takes milliseconds,
// after a start some seconds.
const firstStatusTimeout = 30 * time.Second

// checkControlPlane finds controllers that do not run.
func (p *checker) checkControlPlane() {
	if p.isUnreadable(clusterstate.Kubernetes) {
		return
	}
	if why := p.describeLapsedLease(ControllerLease); why != "" {
		p.report(ControllerDead, []state.Ref{ClusterRef},
			"sallyport-controller does not run: %s; what is in force stays, nothing is changed or put right", why)
	}
	if why := p.describeLapsedLease(KubeOVNLease); why != "" {
		p.report(KubeOVNDead, []state.Ref{ClusterRef},
			"kube-ovn-controller does not run: %s; new pods and addresses get nothing", why)
	}
}

// describeLapsedLease is why nobody holds a lease, or nothing.
func (p *checker) describeLapsedLease(name string) string {
	for _, l := range p.Cluster.Leases {
		if l.Name != name {
			continue
		}
		age := p.now.Sub(l.Renewed)
		switch {
		case l.Holder == "":
			return fmt.Sprintf("%s gave up its lease %s ago and nobody took it", name, roundDuration(age))
		case age > l.Lasts+l.Lasts/4:
			return fmt.Sprintf("%s last renewed its lease %s ago", l.Holder, roundDuration(age))
		}
		return ""
	}
	return "there is no lease " + name
}

func roundDuration(d time.Duration) string {
	if d < 2*time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// checkPropagation finds what does not carry out changes of the logical network.
func (p *checker) checkPropagation() {
	if p.isUnreadable(clusterstate.Northbound, clusterstate.Southbound) {
		return
	}
	at := p.Logical.Progress
	if at.Translated < at.Asked {
		p.report(NorthdBehind, []state.Ref{ClusterRef},
			"ovn-northd has translated change %d of the logical network, and %d was asked for",
			at.Translated, at.Asked)
		return // chassis can't be further
	}
	for i := range p.Logical.Chassis {
		c := &p.Logical.Chassis[i]
		n := p.nodeOfChassis(c.Name)
		if c.Seen >= at.Asked || n == nil || !n.Ready || p.isOVSDown(n.Name) {
			continue // of a node that is down, or has no switch to change, it is told there
		}
		p.report(ChassisBehind, []state.Ref{n.Ref},
			"node %s has carried out change %d of the logical network, and %d was asked for; %s",
			n.Name, c.Seen, at.Asked, p.describeNodeLoad(n))
	}
}

// checkUnattended finds objects that the controller has said nothing about.
func (p *checker) checkUnattended() {
	if p.isUnreadable(clusterstate.Kubernetes) {
		return
	}
	dead := p.describeLapsedLease(ControllerLease) != ""
	for _, o := range p.managedObjects() {
		silent := len(o.Conditions) == 0 && !o.Created.IsZero() && p.now.Sub(o.Created) > firstStatusTimeout
		if o.Kind == "NodePath" {
			continue // the agent's business, and told with its node's
		}
		stale := slices.ContainsFunc(o.Conditions, func(c clusterstate.Condition) bool {
			return c.Generation != 0 && c.Generation < o.Generation
		})
		switch {
		case dead && len(o.Conditions) == 0:
			p.report(Unattended, []state.Ref{o.Ref}, "nothing was done for %s: sallyport-controller does not run",
				o.Ref)
		case dead && stale:
			p.report(Unattended, []state.Ref{o.Ref},
				"%s was changed, and nothing was done for it: sallyport-controller does not run", o.Ref)
		case silent:
			p.report(Unattended, []state.Ref{o.Ref}, "%s is %s old, and sallyport-controller has said nothing about it",
				o.Ref, roundDuration(p.now.Sub(o.Created)))
		}
	}
}
