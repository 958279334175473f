package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// traceMismatch is the first hop where OVN's flows or a node differ from the rows.
type traceMismatch struct {
	Back bool   `json:"back,omitempty"`
	Hop  int    `json:"hop"` // of that direction, from 0
	Text string `json:"text"`
}

// hopIndex returns the index of the hop in a direction, or -1 if the mismatch is in the other direction or is nil.
func (d *traceMismatch) hopIndex(back bool) int {
	if d == nil || d.Back != back {
		return -1
	}
	return d.Hop
}

// isBefore reports whether the mismatch precedes other. A nil other counts as later.
func (d *traceMismatch) isBefore(other *traceMismatch) bool {
	return other == nil || !d.Back && other.Back || d.Back == other.Back && d.Hop < other.Hop
}

// compareLive compares each path with OVN's flows and with the findings about its nodes.
func (v *traceResult) compareLive(ctx context.Context, db ovn.Config) {
	steps, err := v.traceFlows(ctx, db)
	for k := range v.Paths {
		if d := v.Paths[k].findNodeMismatch(); d != nil && d.isBefore(v.Paths[k].Mismatch) {
			v.Paths[k].Mismatch = d
		}
		agrees := v.Paths[k].Mismatch == nil
		v.Delivered, v.Answered = v.Delivered && agrees, v.Answered && agrees
	}
	v.LiveSummary = v.summarizeLive(steps, err)
}

// traceFlows runs ovn-trace for each step of each path until one differs. It returns the number of steps that it ran
// ovn-trace for.
func (v *traceResult) traceFlows(ctx context.Context, db ovn.Config) (steps int, err error) {
	program, err := exec.LookPath("ovn-trace")
	if err != nil {
		return 0, errors.New("ovn-trace is not in PATH; it is part of OVN and of the ovn-central image")
	}
	if len(db.Endpoints) == 0 {
		return 0, errors.New("the address of the OVN southbound database is unknown; set --sb-address")
	}
	options, done, err := ovnTraceOptions(db)
	if err != nil {
		return 0, err
	}
	defer done()
	said := map[string]string{} // paths share their first steps
	for k := range v.Paths {
		for _, s := range v.Paths[k].Steps {
			question := strings.Join(s.OVNTraceArgs(), " ")
			if _, asked := said[question]; !asked {
				if said[question], err = runOVNTrace(ctx, program,
					append(slices.Clone(options), s.OVNTraceArgs()...)); err != nil {
					return len(said), err
				}
			}
			if agrees, instead := s.AgreesWithOutput(said[question]); !agrees {
				v.Paths[k].Mismatch = newFlowMismatch(v.Paths[k].Path, s, instead)
				break
			}
		}
	}
	return len(said), nil
}

// summarizeLive returns the results of --live, one sentence each.
func (v *traceResult) summarizeLive(steps int, err error) (out []string) {
	for _, w := range v.Paths {
		if w.Mismatch != nil && !slices.Contains(out, "✗ "+w.Mismatch.Text) {
			out = append(out, "✗ "+w.Mismatch.Text)
		}
	}
	switch {
	case err != nil:
		out = append(out, fmt.Sprintf("OVN's flows were not checked: %v", err))
	case len(out) > 0:
	case steps == 0:
		out = append(out, "no step of this trace can be checked with ovn-trace")
	default:
		out = append(out, fmt.Sprintf("OVN's flows do the same in all steps that ovn-trace can be asked about (%d)",
			steps))
	}
	return out
}

func newFlowMismatch(p trace.Path, s trace.DatapathStep, instead string) *traceMismatch {
	hops, rows := p.RequestHops, "to port "+s.Outport
	if s.IsReply {
		hops = p.ReplyHops
	}
	if s.Outport == "" {
		rows = "nowhere"
	}
	return &traceMismatch{Back: s.IsReply, Hop: max(0, min(s.HopsBefore, len(hops)-1)), Text: fmt.Sprintf(
		"here the rows of %s lead it %s, and its flows %s; check that ovn-northd runs and is up to date",
		s.Datapath, rows, instead)}
}

// findNodeMismatch returns the first hop on a node with a finding that differs from the verdict, or nil.
func (x *tracedPath) findNodeMismatch() *traceMismatch {
	for _, back := range []bool{false, true} {
		hops := x.RequestHops
		if back {
			hops = x.ReplyHops
		}
		for k, h := range hops {
			for _, f := range x.Causes {
				if h.Node != "" && f.Code != x.Code && slices.Contains(f.About, clusterstate.NodeRef(h.Node)) {
					return &traceMismatch{Back: back, Hop: k, Text: fmt.Sprintf("here %s: %s", f.Code, f.Message)}
				}
			}
		}
	}
	return nil
}

// ovnTraceOptions returns the options of ovn-trace for a database. ovn-trace needs certificates as files; done deletes
// them.
func ovnTraceOptions(db ovn.Config) (options []string, done func(), err error) {
	options, done = []string{"--db=" + strings.Join(db.Endpoints, ","), "--no-leader-only"}, func() {}
	if !db.NeedsTLS() {
		return options, done, nil
	}
	if db.CertFile == "" {
		if done, err = writeCertificates(&db); err != nil {
			return nil, nil, err
		}
	}
	return append(options, "--private-key="+db.KeyFile, "--certificate="+db.CertFile, "--ca-cert="+db.CAFile), done, nil
}

// writeCertificates writes the certificates of a database to files that only this user can read.
func writeCertificates(db *ovn.Config) (done func(), err error) {
	dir, err := os.MkdirTemp("", "sallyport-")
	if err != nil {
		return nil, err
	}
	done = func() { _ = os.RemoveAll(dir) }
	db.CertFile, db.KeyFile, db.CAFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"),
		filepath.Join(dir, "ca.pem")
	for name, text := range map[string][]byte{
		db.CertFile: db.Certificates.Cert,
		db.KeyFile:  db.Certificates.Key,
		db.CAFile:   db.Certificates.CA,
	} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			done()
			return nil, err
		}
	}
	return done, nil
}

func runOVNTrace(ctx context.Context, program string, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // ovn-trace, without a shell
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
