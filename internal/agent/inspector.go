package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kernel"
	"github.com/sallyport/sallyport/internal/engine/openvswitch"
	"github.com/sallyport/sallyport/internal/engine/probe"
)

// answerTimeout limits the time for an answer. Whatever is missing by then is reported as a problem.
const answerTimeout = 3 * time.Second

// inspector answers Inspections.
type inspector struct {
	kernel  *kernel.Kernel
	vswitch openvswitch.Node
	sends   *rate.Limiter // of marked packets
}

// inspectionAnswer is an answer that several goroutines write to. Each has its own fields, and all may add problems.
type inspectionAnswer struct {
	kubedcv1alpha1.InspectionStatus
	podInterfaces map[string]bool // interfaces of pods

	mu sync.Mutex
}

func (a *inspectionAnswer) addProblem(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Problems = append(a.Problems, err.Error())
}

// answerInspection answers all questions in parallel.
func (i *inspector) answerInspection(ctx context.Context,
	spec kubedcv1alpha1.InspectionSpec,
) kubedcv1alpha1.InspectionStatus {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var out inspectionAnswer
	var wait sync.WaitGroup
	wait.Go(func() { i.inspectKernel(&out) })
	wait.Go(func() { i.lookupRoutes(&out, spec.Routes) })
	wait.Go(func() { probeNeighbours(ctx, &out, spec.Neighbours) })
	if i.vswitch.SwitchDir != "" {
		wait.Go(func() { i.inspectSwitch(ctx, &out) })
	}
	wait.Go(func() { i.findConnections(ctx, &out, spec) })
	wait.Go(func() { i.askPorts(ctx, &out, spec.Ports) })
	wait.Go(func() { i.sendPacket(ctx, &out, spec.Send) })
	wait.Wait()
	out.Interfaces = slices.DeleteFunc(out.Interfaces, func(x kubedcv1alpha1.InterfaceAnswer) bool {
		return out.podInterfaces[x.Name] && len(x.Addresses) == 0
	})
	slices.Sort(out.Problems)
	out.Problems = slices.Compact(out.Problems)
	now := metav1.NowMicro()
	out.Time = &now
	return out.InspectionStatus
}

// inspectKernel reports interfaces and settings.
func (i *inspector) inspectKernel(out *inspectionAnswer) {
	all, err := i.kernel.ListInterfaces()
	if err != nil {
		out.addProblem(err)
	}
	var addressed []string
	for _, x := range all {
		//nolint:gosec // of the kernel, which has 32 bits for it
		answer := kubedcv1alpha1.InterfaceAnswer{
			Name: x.Name, MAC: x.MAC, Up: x.Up && x.Carrier, NoCarrier: x.Up && !x.Carrier, MTU: int32(x.MTU),
		}
		for _, p := range x.Addresses {
			answer.Addresses = append(answer.Addresses, p.String())
		}
		if len(x.Addresses) > 0 {
			addressed = append(addressed, x.Name)
		}
		out.Interfaces = append(out.Interfaces, answer)
	}
	if out.Settings, err = i.kernel.ReadSysctls(addressed); err != nil {
		out.addProblem(err)
	}
}

// lookupRoutes reports where the kernel sends packets.
func (i *inspector) lookupRoutes(out *inspectionAnswer, questions []kubedcv1alpha1.RouteQuestion) {
	for _, q := range questions {
		way, err := i.lookupRoute(q)
		answer := kubedcv1alpha1.RouteAnswer{
			Interface: way.Interface,
			NextHop:   formatAddr(way.NextHop),
			Source:    formatAddr(way.Source),
		}
		if err != nil {
			answer.Problem = err.Error()
		}
		out.Routes = append(out.Routes, answer)
	}
}

func (i *inspector) lookupRoute(q kubedcv1alpha1.RouteQuestion) (kernel.RouteResult, error) {
	p := kernel.RouteQuery{Interface: q.Interface, Mark: uint32(q.Mark)} //nolint:gosec // the API server allows 32 bits
	var err, other error
	if p.To, err = netip.ParseAddr(q.To); q.From != "" {
		p.From, other = netip.ParseAddr(q.From)
	}
	if err := errors.Join(err, other); err != nil {
		return kernel.RouteResult{}, err
	}
	return i.kernel.LookupRoute(p)
}

// formatAddr formats an address, or returns an empty string if there is none.
func formatAddr(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// probeNeighbours reports which MACs have addresses on a link. If a question could not be sent, it is a problem and not
// an empty answer, which would mean that nobody replied.
func probeNeighbours(ctx context.Context, out *inspectionAnswer, questions []kubedcv1alpha1.NeighbourQuestion) {
	var asked []probe.Query
	for _, q := range questions {
		a, err := netip.ParseAddr(q.Address)
		if err != nil {
			out.addProblem(fmt.Errorf("neighbour question: %w", err))
			continue
		}
		asked = append(asked, probe.Query{Interface: q.Interface, VLAN: uint16(q.Vlan), Address: a}) //nolint:gosec // the API server allows at most 4094
	}
	if len(asked) == 0 {
		return
	}
	for i, answer := range probe.FindNeighbours(ctx, asked) {
		if answer.Err != nil {
			out.addProblem(answer.Err)
			continue
		}
		q := asked[i]
		out.Neighbours = append(out.Neighbours, kubedcv1alpha1.NeighbourAnswer{
			Interface: q.Interface, Vlan: int32(q.VLAN), Address: q.Address.String(), MACs: answer.MACs,
		})
	}
}

// inspectSwitch reports the state of Open vSwitch and ovn-controller.
func (i *inspector) inspectSwitch(ctx context.Context, out *inspectionAnswer) {
	is, failed := i.vswitch.ReadState(ctx)
	out.podInterfaces = is.PodInterfaces
	out.Switch = kubedcv1alpha1.SwitchAnswer{
		Version: is.Version, Controller: is.SBConnection, Chassis: is.Chassis,
		Tracked: int32(is.Tracked), MaxTracked: int32(is.MaxTracked), //nolint:gosec // connections of one node
	}
	for _, b := range is.Bridges {
		out.Switch.Bridges = append(out.Switch.Bridges, kubedcv1alpha1.BridgeAnswer(b))
	}
	var problems []string
	for _, err := range failed {
		problems = append(problems, err.Error())
	}
	out.Switch.Problem = strings.Join(problems, "; ")
}

// findConnections reports matching connections, and how many use each address. Open vSwitch has to list all
// connections, which keeps it busy for a moment, so this is done once, and only on request.
func (i *inspector) findConnections(ctx context.Context, out *inspectionAnswer, spec kubedcv1alpha1.InspectionSpec) {
	var questions []openvswitch.ConnectionFilter
	for _, q := range spec.Connections {
		asked, err := parseConnectionQuestion(q)
		if err != nil {
			out.addProblem(fmt.Errorf("connection question: %w", err))
			continue
		}
		questions = append(questions, asked)
	}
	var addresses []netip.Addr
	for _, u := range spec.Usage {
		a, err := netip.ParseAddr(u)
		if err != nil {
			out.addProblem(fmt.Errorf("usage question: %w", err))
			continue
		}
		addresses = append(addresses, a)
	}
	search := openvswitch.NewSearch(questions, addresses)
	if search.IsEmpty() {
		return
	}
	if i.vswitch.SwitchDir == "" {
		out.addProblem(errors.New("connections are unknown: start the agent with --openvswitch-dir"))
		return
	}
	if err := i.vswitch.DumpConntrack(ctx, search.AddConnection); err != nil {
		out.addProblem(err)
		return
	}
	zones := map[int]string{}
	if i.vswitch.ControllerDir != "" {
		var err error
		if zones, err = i.vswitch.ConntrackZones(ctx); err != nil {
			out.addProblem(err)
		}
	}
	addConnections(out, search, zones)
}

func parseConnectionQuestion(q kubedcv1alpha1.ConnectionQuestion) (out openvswitch.ConnectionFilter, err error) {
	var other error
	out.Port = uint16(q.Port) //nolint:gosec // the API server allows at most 65535
	if out.Client, err = netip.ParseAddr(q.Client); q.Server != "" {
		out.Server, other = netip.ParseAddr(q.Server)
	}
	return out, errors.Join(err, other)
}

func addConnections(out *inspectionAnswer, search *openvswitch.Search, zones map[int]string) {
	found, more := search.Matches()
	for _, c := range found {
		out.Connections = append(out.Connections, kubedcv1alpha1.ConnectionAnswer{
			Protocol: c.Protocol, Source: c.Original.From.String(), Destination: c.Original.To.String(),
			ReplySource: c.Reply.From.String(), ReplyDestination: c.Reply.To.String(), State: c.State,
			Zone: int32(c.Zone), ZoneName: zones[c.Zone], //nolint:gosec // a zone has sixteen bits
		})
	}
	for _, q := range more {
		out.addProblem(fmt.Errorf("only the first %d connections of %s are listed", openvswitch.MaxMatches, q.Client))
	}
	for _, u := range search.Usage() {
		//nolint:gosec // a number of connections of one node
		answer := kubedcv1alpha1.UsageAnswer{
			Address:     u.Address.String(),
			Connections: int32(u.Connections),
			Protocol:    u.Protocol,
			Ports:       int32(u.Ports),
		}
		if u.Ports > 0 {
			answer.To = u.To.String()
		}
		out.Usage = append(out.Usage, answer)
	}
}
