package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/insight/trace"
)

// sentResult is the result of --send.
type sentResult struct {
	Packet string `json:"packet,omitempty"` // empty: none was sent
	trace.SentPacket
}

// Source ports of sent packets: those that hosts use for connections.
const (
	firstSendPort = 49152
	sendPorts     = 16384
)

// sendAttempts is how often a packet is sent that does not do what the trace says.
const sendAttempts = 2

// checkSend returns why a packet of a query can't be sent.
func (t *traceOptions) checkSend(q trace.Query) error {
	switch {
	case !t.send:
		return nil
	case t.surveyPath != "":
		return errors.New("--send needs the running cluster and cannot be combined with --survey")
	case t.skipNodes:
		return errors.New("--send asks the agents of nodes and cannot be combined with --no-nodes")
	case q.Pod != "" || q.Node != "":
		return errors.New("--send sends packets of clients outside only; for a pod, send one from the pod: kubectl exec")
	}
	return nil
}

// sendPacket sends the packet of the trace, and compares what nodes count with the trace.
func (t *traceOptions) sendPacket(ctx context.Context, v *traceResult) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	var paths []trace.Path
	for _, p := range v.Paths {
		paths = append(paths, p.Path)
	}
	if _, enters := paths[0].SendQuestion(v.Query, 0, 0); !enters {
		v.Sent = &sentResult{SentPacket: trace.SentPacket{
			Agrees: true, Text: "No packet was sent: nothing answers for the address, so that none can enter.",
		}}
		return nil
	}
	o, err := t.openObserver(ctx)
	if err != nil {
		return err
	}
	defer o.Close()
	for range sendAttempts {
		mark := 1 + rand.Uint32N(1<<32-2)                                                         //nolint:gosec // it need not be a secret
		q, _ := paths[0].SendQuestion(v.Query, firstSendPort+uint16(rand.UintN(sendPorts)), mark) //nolint:gosec // any port
		seen, err := o.SendPacket(ctx, q, paths[0].Entry.Node, trace.CountingNodes(paths))
		if err != nil {
			return fmt.Errorf("send a packet: %w", err)
		}
		v.Sent = &sentResult{Packet: formatSent(q, paths[0]), SentPacket: trace.CompareSent(v.Query, paths, seen)}
		if v.Sent.Agrees {
			break
		}
	}
	return nil
}

func formatSent(q kubedcv1alpha1.SendQuestion, p trace.Path) string {
	from, to := q.From, q.To
	if q.Protocol != "icmp" {
		from, to = joinHostPort(q.From, q.FromPort), joinHostPort(q.To, q.Port)
	}
	return fmt.Sprintf("%s → %s %s, into OVN at %s on %s", from, to, q.Protocol, p.Entry.Network, p.Entry.Node)
}

func joinHostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// printText prints the points of the packet's path, with the number of times it was seen, and what it did.
func (s *sentResult) printText(w io.Writer, i colorizer) error {
	if s.Packet == "" {
		fmt.Fprintf(w, "\n%s\n", s.Text)
		return nil
	}
	fmt.Fprintf(w, "\n%s  %s\n", i.faint("Sent"), s.Packet)
	rows := newTable(w)
	for _, p := range s.Points {
		mark, seen := "✓", fmt.Sprintf("seen %d×", p.Seen)
		if p.Seen == 0 {
			mark, seen = "✗", "not seen"
		}
		fmt.Fprintf(rows, "  %s %s\t%s\t%s\n", mark, p.Node, p.Text, seen)
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	if s.Agrees {
		fmt.Fprintf(w, "%s: %s\n", i.green("As traced"), s.Text)
		return nil
	}
	fmt.Fprintf(w, "%s: %s\n  → %s\n", i.red("Not as traced"), s.Text, s.Remediation)
	return nil
}
