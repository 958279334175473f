package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Names of the controllers' leases.
const (
	ControllerLease = "sallyport-controller"
	KubeOVNLease    = "kube-ovn-controller"
)

// firstStatusTimeout is how long the controller may take to write conditions for an object. Normally it takes
// milliseconds, after a start some seconds.
const firstStatusTimeout = 30 * time.Second

// checkControlPlane finds controllers that do not run.
func (p *checker) checkControlPlane() {
	if p.isUnreadable(clusterstate.Kubernetes) {
		return
	}
	if why := p.describeLapsedLease(ControllerLease); why != "" {
		p.report(ControllerDead, []state.Ref{ClusterRef},
			"sallyport-controller does not run: %s; existing configuration stays, but changes are not processed "+
				"and drift is not repaired", why)
	}
	if why := p.describeLapsedLease(KubeOVNLease); why != "" {
		p.report(KubeOVNDead, []state.Ref{ClusterRef},
			"kube-ovn-controller does not run: %s; new pods and addresses are not configured", why)
	}
}

// leaseTolerance is how long a lease may have lapsed before nobody is said to hold it: clocks differ, another replica may
// be about to acquire it, and reading a cluster takes time.
const leaseTolerance = 5 * time.Second

// describeLapsedLease returns why nobody holds a lease, or "" if somebody does.
func (p *checker) describeLapsedLease(name string) string {
	for _, l := range p.Cluster.Leases {
		if l.Name != name {
			continue
		}
		age := p.now.Sub(l.Renewed)
		switch {
		case l.Holder == "":
			return fmt.Sprintf("%s gave up its lease %s ago and nobody has acquired it", name, roundDuration(age))
		case age > l.Lasts+max(l.Lasts/4, leaseTolerance):
			return fmt.Sprintf("%s last renewed its lease %s ago", l.Holder, roundDuration(age))
		}
		return ""
	}
	return "lease " + name + " does not exist"
}

func roundDuration(d time.Duration) string {
	if d < 2*time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// checkSwitches finds Subnets without a logical switch. Kube-OVN says that they are ready after the database was lost, too.
func (p *checker) checkSwitches() {
	if p.isUnreadable(clusterstate.Kubernetes, clusterstate.Northbound) {
		return
	}
	var missing []state.Ref
	total := 0
	for i := range p.Cluster.Subnets {
		s := &p.Cluster.Subnets[i]
		if !s.Ready || s.Deleting || !hasSwitch(s) {
			continue
		}
		total++
		if p.Logical.Switch(s.Name) == nil {
			missing = append(missing, s.Ref)
		}
	}
	if len(missing) == 0 {
		return
	}
	names := make([]string, len(missing))
	for i, s := range missing {
		names[i] = s.Name
	}
	about, lost := missing, ""
	if len(missing) == total {
		about, lost = []state.Ref{ClusterRef}, "; the database seems to be new"
	}
	p.report(LogicalSwitchMissing, about, "OVN's northbound database has no logical switch for %d of %d Subnets (%s)%s", len(missing),
		total, joinLimited(names, 3), lost)
}

// hasSwitch reports whether Kube-OVN makes a logical switch for a Subnet when it is ready. The providers of others are
// plugins that need no switch; a Subnet with a VLAN waits for its provider network.
func hasSwitch(s *clusterstate.Subnet) bool {
	return s.Vlan == "" && (s.Provider == "" || s.Provider == kubeovn.Provider || strings.HasSuffix(s.Provider, ".ovn"))
}

// checkPropagation finds northd and chassis that lag behind the northbound database.
func (p *checker) checkPropagation() {
	if p.isUnreadable(clusterstate.Northbound, clusterstate.Southbound) {
		return
	}
	at := p.Logical.Progress
	if at.Translated < at.Asked {
		p.report(NorthdBehind, []state.Ref{ClusterRef},
			"ovn-northd has processed nb_cfg %d, but the northbound database has %d",
			at.Translated, at.Asked)
		return // chassis can't be ahead of northd
	}
	for i := range p.Logical.Chassis {
		c := &p.Logical.Chassis[i]
		n := p.nodeOfChassis(c.Name)
		if c.Seen >= at.Asked || n == nil || !n.Ready || p.isOVSDown(n.Name) {
			continue // a node that is down or whose Open vSwitch is down has its own finding
		}
		p.report(ChassisBehind, []state.Ref{n.Ref},
			"ovn-controller of node %s has processed nb_cfg %d, but the northbound database has %d; %s",
			n.Name, c.Seen, at.Asked, p.describeNodeLoad(n))
	}
}

// checkUnattended finds objects that the controller has not processed.
func (p *checker) checkUnattended() {
	if p.isUnreadable(clusterstate.Kubernetes) {
		return
	}
	dead := p.describeLapsedLease(ControllerLease) != ""
	for _, o := range p.managedObjects() {
		silent := len(o.Conditions) == 0 && !o.Created.IsZero() && p.now.Sub(o.Created) > firstStatusTimeout
		if o.Kind == "NodePath" {
			continue // processed by the agent, and reported with its node
		}
		stale := slices.ContainsFunc(o.Conditions, func(c clusterstate.Condition) bool {
			return c.Generation != 0 && c.Generation < o.Generation
		})
		switch {
		case dead && len(o.Conditions) == 0:
			p.report(Unattended, []state.Ref{o.Ref}, "%s was not processed: sallyport-controller does not run",
				o.Ref)
		case dead && stale:
			p.report(Unattended, []state.Ref{o.Ref},
				"the change of %s was not processed: sallyport-controller does not run", o.Ref)
		case silent:
			p.report(Unattended, []state.Ref{o.Ref},
				"%s is %s old, but sallyport-controller has not written its conditions",
				o.Ref, roundDuration(p.now.Sub(o.Created)))
		}
	}
}
