package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// Time limits for the answers of nodes and for the cleanup, and the age at which an Inspection counts as abandoned.
const (
	answerTimeout  = 5 * time.Second
	cleanupTimeout = 5 * time.Second
	abandonedAfter = 5 * time.Minute
)

// InspectNodes sends one Inspection to each node and waits for the answers. The result of a node that does not answer
// contains a problem.
func (s *ClusterReader) InspectNodes(ctx context.Context,
	questions []kubedcv1alpha1.InspectionSpec,
) map[string]clusterstate.NodeInspection {
	if len(questions) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	i := &inspectionRun{created: map[string]*kubedcv1alpha1.Inspection{}, results: map[string]clusterstate.NodeInspection{}}
	// The watch starts before the Inspections are created, so no answer is missed.
	answers, err := s.api.Watch(ctx, &kubedcv1alpha1.InspectionList{})
	if err != nil {
		for _, q := range questions {
			i.results[q.Node] = clusterstate.NodeInspection{Problem: describeAskError(err)}
		}
		return i.results
	}
	defer answers.Stop()
	defer s.deleteInspections(i)
	var group sync.WaitGroup
	for _, q := range questions {
		group.Go(func() { s.createInspection(ctx, i, q) })
	}
	group.Wait()
	i.awaitAnswers(ctx, answers)
	return i.results
}

// inspectionRun holds the created Inspections by name and the results by node.
type inspectionRun struct {
	mu      sync.Mutex
	created map[string]*kubedcv1alpha1.Inspection
	results map[string]clusterstate.NodeInspection
}

func (s *ClusterReader) createInspection(ctx context.Context, i *inspectionRun, q kubedcv1alpha1.InspectionSpec) {
	object := &kubedcv1alpha1.Inspection{ObjectMeta: metav1.ObjectMeta{GenerateName: "inspection-"}, Spec: q}
	before := time.Now()
	err := s.api.Create(ctx, object)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil {
		i.results[q.Node] = clusterstate.NodeInspection{Problem: describeAskError(err)}
		return
	}
	i.created[object.Name] = object
	i.results[q.Node] = clusterstate.NodeInspection{
		Asked:   before.Round(0).UTC(),
		Problem: fmt.Sprintf("no answer within %s; check that sallyport-agent is running on the node", answerTimeout),
	}
}

// describeAskError explains why an Inspection could not be created.
func describeAskError(err error) string {
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return "the kind Inspection is not installed; install the CRDs of this version of Sallyport"
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("%v; querying nodes requires permission to create and watch Inspections", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the API server did not accept the Inspection within %s", answerTimeout)
	default:
		return err.Error()
	}
}

// awaitAnswers waits until all Inspections are answered or the context ends.
func (i *inspectionRun) awaitAnswers(ctx context.Context, answers apiwatch.Interface) {
	for open := len(i.created); open > 0; {
		select {
		case <-ctx.Done():
			return
		case event, more := <-answers.ResultChan():
			if !more {
				return
			}
			answer, is := event.Object.(*kubedcv1alpha1.Inspection)
			if !is || i.created[answer.Name] == nil || answer.Status.Time == nil || event.Type == apiwatch.Deleted {
				continue
			}
			asked := i.results[answer.Spec.Node].Asked
			if !i.results[answer.Spec.Node].Answered.IsZero() {
				continue // a second event for the same answer
			}
			read := readInspection(answer)
			read.Asked, read.Answered = asked, time.Now().Round(0).UTC()
			i.results[answer.Spec.Node] = read
			open--
		}
	}
}

// deleteInspections always deletes the created Inspections, and those that an interrupted earlier run left behind.
func (s *ClusterReader) deleteInspections(i *inspectionRun) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	var now time.Time // by the clock of the API server
	var group sync.WaitGroup
	for _, o := range i.created {
		if o.CreationTimestamp.After(now) {
			now = o.CreationTimestamp.Time
		}
		group.Go(func() { _ = s.api.Delete(ctx, o) }) // the next run deletes what this one cannot
	}
	var left kubedcv1alpha1.InspectionList
	_ = s.api.List(ctx, &left) // the next run cleans up
	for _, o := range left.Items {
		if now.Sub(o.CreationTimestamp.Time) > abandonedAfter {
			group.Go(func() { _ = s.api.Delete(ctx, &o) })
		}
	}
	group.Wait()
}

// readInspection parses the answer of a node.
func readInspection(o *kubedcv1alpha1.Inspection) clusterstate.NodeInspection {
	s := o.Status
	out := clusterstate.NodeInspection{
		Clock: toUTC(metav1.Time{Time: s.Time.Time}), Problems: s.Problems, Settings: s.Settings,
		Switch: clusterstate.OpenVSwitch{
			Version: s.Switch.Version, Controller: s.Switch.Controller, Chassis: s.Switch.Chassis,
			Problem: s.Switch.Problem,
			Tracked: int(s.Switch.Tracked), MaxTracked: int(s.Switch.MaxTracked),
		},
	}
	for _, b := range s.Switch.Bridges {
		out.Switch.Bridges = append(out.Switch.Bridges,
			clusterstate.Bridge{Name: b.Name, Network: b.Network, Interfaces: b.Interfaces, Problem: b.Problem})
	}
	for _, i := range s.Interfaces {
		read := clusterstate.Interface{Name: i.Name, MAC: i.MAC, Up: i.Up, NoCarrier: i.NoCarrier, MTU: int(i.MTU)}
		for _, text := range i.Addresses {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				read.Addresses = append(read.Addresses, prefix)
			}
		}
		out.Interfaces = append(out.Interfaces, read)
	}
	for _, n := range s.Neighbours {
		out.Neighbours = append(out.Neighbours, clusterstate.Neighbour{
			Interface: n.Interface, Vlan: int(n.Vlan), Address: parseAddr(n.Address),
			MACs: slices.Sorted(slices.Values(n.MACs)),
		})
	}
	for i, r := range s.Routes {
		if i >= len(o.Spec.Routes) {
			break
		}
		q := o.Spec.Routes[i]
		out.Routes = append(out.Routes, clusterstate.RouteLookup{
			From: parseAddr(q.From), To: parseAddr(q.To), Input: q.Interface, Mark: uint32(q.Mark), //nolint:gosec // the API server allows 32 bits
			Output: r.Interface, NextHop: parseAddr(r.NextHop), Source: parseAddr(r.Source), Problem: r.Problem,
		})
	}
	out.Ports = readPortAnswers(o)
	for _, c := range s.Connections {
		out.Connection = append(out.Connection, clusterstate.Connection{
			Protocol: c.Protocol, Source: parseAddrPort(c.Source), Destination: parseAddrPort(c.Destination),
			ReplySource: parseAddrPort(c.ReplySource), ReplyDestination: parseAddrPort(c.ReplyDestination),
			State: c.State, Zone: int(c.Zone), ZoneName: c.ZoneName,
		})
	}
	for _, u := range s.Usage {
		out.Usage = append(out.Usage, clusterstate.AddressUsage{
			Address: parseAddr(u.Address), Connections: int(u.Connections), Protocol: u.Protocol,
			To: parseAddrPort(u.To), Ports: int(u.Ports), Of: natPortCount,
		})
	}
	return out
}

// readPortAnswers parses the answers of pods, which are in the order of the questions.
func readPortAnswers(o *kubedcv1alpha1.Inspection) (out []clusterstate.PortAnswer) {
	for i, a := range o.Status.Ports {
		if i >= len(o.Spec.Ports) {
			break
		}
		q := o.Spec.Ports[i]
		out = append(out, clusterstate.PortAnswer{
			LogicalPort: q.LogicalPort, Protocol: q.Protocol, Result: a.Result, Problem: a.Problem,
			Address: netip.AddrPortFrom(parseAddr(q.Address), uint16(q.Port)), //nolint:gosec // the API server allows at most 65535
		})
	}
	return out
}

// natPortCount is the number of ports per address that OVN uses for SNAT: those from 1024 on.
const natPortCount = 65536 - 1024

// parseAddrPort parses an address with an optional port, which is 0 if missing.
func parseAddrPort(text string) netip.AddrPort {
	if s, err := netip.ParseAddrPort(text); err == nil {
		return s
	}
	return netip.AddrPortFrom(parseAddr(text), 0)
}
