package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/probe"
)

// askPorts reports whether pods answer on ports. It only sends packets to pods that are plugged into this node's switch.
func (i *inspector) askPorts(ctx context.Context, out *inspectionAnswer, questions []kubedcv1alpha1.PortQuestion) {
	if len(questions) == 0 {
		return
	}
	interfaces, err := i.podInterfaces(ctx)
	if err != nil {
		out.addProblem(fmt.Errorf("ports of pods are unknown: %w", err))
		return
	}
	out.Ports = make([]kubedcv1alpha1.PortAnswer, len(questions))
	var asked []probe.PortQuery
	var indexes []int
	for k, q := range questions {
		query, err := parsePortQuestion(q, interfaces)
		if err != nil {
			out.Ports[k].Problem = err.Error()
			continue
		}
		asked, indexes = append(asked, query), append(indexes, k)
	}
	for n, answer := range probe.FindOpenPorts(ctx, asked) {
		k := indexes[n]
		if out.Ports[k].Result = answer.Result; answer.Err != nil {
			out.Ports[k].Problem = answer.Err.Error()
		}
	}
}

// podInterfaces returns the interfaces of the pods on this node, by logical switch port.
func (i *inspector) podInterfaces(ctx context.Context) (map[string]string, error) {
	if i.vswitch.SwitchDir == "" {
		return nil, errors.New("start the agent with --openvswitch-dir")
	}
	interfaces, err := i.vswitch.PodInterfaces(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := i.kernel.ListPodInterfaces()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(interfaces, func(_, name string) bool { return !pods[name] })
	return interfaces, nil
}

// parsePortQuestion returns the query for a question. The pod must be on this node.
func parsePortQuestion(q kubedcv1alpha1.PortQuestion, interfaces map[string]string) (out probe.PortQuery, err error) {
	by, plugged := interfaces[q.LogicalPort]
	if !plugged {
		return out, fmt.Errorf("no pod of this node has the logical port %q", q.LogicalPort)
	}
	to, badAddress := netip.ParseAddr(q.Address)
	from, badSource := netip.ParseAddr(q.From)
	mac, badMAC := net.ParseMAC(q.MAC)
	if err := errors.Join(badAddress, badSource, badMAC); err != nil {
		return out, err
	}
	return probe.PortQuery{
		Interface: by, MAC: mac, From: from, Protocol: q.Protocol,
		To: netip.AddrPortFrom(to, uint16(q.Port)), //nolint:gosec // the API server allows at most 65535
	}, nil
}
