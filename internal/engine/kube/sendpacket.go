package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// sendTimeout limits sending and counting a packet.
const sendTimeout = 30 * time.Second

// errStoppedCounting is the error of a node that is slow.
var errStoppedCounting = errors.New("had stopped counting before it was known that the packet was sent")

// maxSlowRuns is how often a packet is sent again because a node had stopped counting it.
const maxSlowRuns = 3

// SendPacket makes one node send a marked packet after all nodes have begun to count it, and returns where it was seen.
// A node that does not count, and a packet that was not sent while all of them counted, is an error: nothing must be
// concluded from a packet that nobody looked for.
func (s *ClusterReader) SendPacket(ctx context.Context, send kubedcv1alpha1.SendQuestion, from string,
	counting []string,
) (seen []clusterstate.PacketSighting, err error) {
	for range maxSlowRuns {
		if seen, err = s.trySendPacket(ctx, send, from, counting); !errors.Is(err, errStoppedCounting) {
			return seen, err
		}
	}
	return seen, err
}

func (s *ClusterReader) trySendPacket(ctx context.Context, send kubedcv1alpha1.SendQuestion, from string,
	counting []string,
) ([]clusterstate.PacketSighting, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	events, err := s.api.Watch(ctx, &kubedcv1alpha1.InspectionList{})
	if err != nil {
		return nil, errors.New(describeAskError(err))
	}
	defer events.Stop()
	i := &inspectionRun{created: map[string]*kubedcv1alpha1.Inspection{}, results: map[string]clusterstate.NodeInspection{}}
	defer s.deleteInspections(i)
	var group sync.WaitGroup
	for _, node := range counting {
		group.Go(func() {
			s.createInspection(ctx, i, kubedcv1alpha1.InspectionSpec{
				Node: node, Count: &kubedcv1alpha1.CountQuestion{Mark: send.Mark},
			})
		})
	}
	group.Wait()
	p := packetRun{inspectionRun: i, counting: map[string]bool{}, answers: map[string]*kubedcv1alpha1.Inspection{}}
	if err := p.await(ctx, events, p.allCount); err != nil {
		return nil, err
	}
	s.createInspection(ctx, i, kubedcv1alpha1.InspectionSpec{Node: from, Send: &send})
	if err := p.await(ctx, events, p.allAnswered); err != nil {
		return nil, err
	}
	return p.sightings(), nil
}

// packetRun is the state of the Inspections of one packet.
type packetRun struct {
	*inspectionRun
	counting map[string]bool                       // names of those that count
	answers  map[string]*kubedcv1alpha1.Inspection // by name
	sent     bool
}

// await waits until a condition holds, or an Inspection can't be answered as it should.
func (p *packetRun) await(ctx context.Context, events apiwatch.Interface, done func() bool) error {
	for !done() {
		for node, r := range p.results {
			if r.Asked.IsZero() && r.Problem != "" { // it was not created
				return fmt.Errorf("node %s can't be asked: %s", node, r.Problem)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer of %s; check that sallyport-agent runs there, is of this version, "+
				"and answers Inspections (agent.inspections of the chart)", strings.Join(p.silentNodes(), ", "))
		case event, more := <-events.ResultChan():
			if !more {
				return errors.New("the API server ended the watch of Inspections; run the command again")
			}
			o, is := event.Object.(*kubedcv1alpha1.Inspection)
			if !is || p.created[o.Name] == nil || event.Type == apiwatch.Deleted {
				continue
			}
			if err := p.note(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// note notes the state of an Inspection.
func (p *packetRun) note(o *kubedcv1alpha1.Inspection) error {
	if p.counting[o.Name] = p.counting[o.Name] || o.Status.Counting; o.Status.Time == nil {
		return nil
	}
	p.answers[o.Name] = o
	switch {
	case o.Spec.Send != nil && o.Status.Sent == nil, o.Spec.Count != nil && !o.Status.Counting && len(o.Status.Problems) == 0:
		return fmt.Errorf("the agent of node %s does not know the question; upgrade it", o.Spec.Node)
	case o.Spec.Send != nil && o.Status.Sent.Problem != "":
		return fmt.Errorf("node %s did not send the packet: %s", o.Spec.Node, o.Status.Sent.Problem)
	case o.Spec.Send != nil:
		p.sent = true
	case !o.Status.Counting:
		return fmt.Errorf("node %s: %s", o.Spec.Node, strings.Join(o.Status.Problems, "; "))
	case !p.sent:
		return fmt.Errorf("node %s %w; run the command again", o.Spec.Node, errStoppedCounting)
	}
	return nil
}

func (p *packetRun) allCount() bool {
	return len(p.counting) == len(p.created) && !slices.Contains(slices.Collect(maps.Values(p.counting)), false)
}

func (p *packetRun) allAnswered() bool { return len(p.answers) == len(p.created) }

// silentNodes returns the nodes that did not answer.
func (p *packetRun) silentNodes() (out []string) {
	for name, o := range p.created {
		if p.answers[name] == nil && (!p.counting[name] || o.Spec.Send != nil) && !slices.Contains(out, o.Spec.Node) {
			out = append(out, o.Spec.Node)
		}
	}
	slices.Sort(out)
	return out
}

// sightings returns where the packet was seen.
func (p *packetRun) sightings() (out []clusterstate.PacketSighting) {
	for _, name := range slices.Sorted(maps.Keys(p.answers)) {
		o := p.answers[name]
		for _, a := range o.Status.Packets {
			out = append(out, clusterstate.PacketSighting{
				Node: o.Spec.Node, Place: a.Place, LogicalPort: a.LogicalPort, Network: a.Network, Outgoing: a.Outgoing,
				Kind: a.Kind, Source: parseAddrPort(a.Source), Destination: parseAddrPort(a.Destination), Count: int(a.Count),
			})
		}
	}
	return out
}
