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

	"github.com/sallyport/sallyport/internal/ovn"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/trace"
)

// disagreement is the first hop at which OVN's flows or a node do otherwise than the rows say.
type disagreement struct {
	Back bool   `json:"back,omitempty"`
	Hop  int    `json:"hop"` // of that direction, from 0
	Text string `json:"text"`
}

// at is the number of the hop in a direction; -1: it is of the other, or there is none.
func (d *disagreement) at(back bool) int {
	if d == nil || d.Back != back {
		return -1
	}
	return d.Hop
}

// before says whether it comes before another one, or there is no other.
func (d *disagreement) before(other *disagreement) bool {
	return other == nil || !d.Back && other.Back || d.Back == other.Back && d.Hop < other.Hop
}

// compare checks each way, step by step: what flows do, and what is known of nodes.
func (v *ways) compare(ctx context.Context, db ovn.Config) {
	steps, err := v.follow(ctx, db)
	for k := range v.Ways {
		if d := v.Ways[k].node(); d != nil && d.before(v.Ways[k].Live) {
			v.Ways[k].Live = d
		}
		v.Answered = v.Answered && v.Ways[k].Live == nil
	}
	v.Live = v.summary(steps, err)
}

// follow asks ovn-trace about each step of each way until one is done otherwise, and returns how many it was asked about.
func (v *ways) follow(ctx context.Context, db ovn.Config) (steps int, err error) {
	program, err := exec.LookPath("ovn-trace")
	if err != nil {
		return 0, errors.New("ovn-trace is not in the PATH; it comes with OVN, and is in the image of ovn-central")
	}
	if len(db.Endpoints) == 0 {
		return 0, errors.New("no endpoint of the southbound database is known; give --sb-address")
	}
	options, done, err := connection(db)
	if err != nil {
		return 0, err
	}
	defer done()
	said := map[string]string{} // ways begin alike
	for k := range v.Ways {
		for _, s := range v.Ways[k].Steps {
			question := strings.Join(s.Arguments(), " ")
			if _, asked := said[question]; !asked {
				if said[question], err = runProgram(ctx, program, append(slices.Clone(options), s.Arguments()...)); err != nil {
					return len(said), err
				}
			}
			if agrees, instead := s.Agrees(said[question]); !agrees {
				v.Ways[k].Live = disagree(v.Ways[k].Path, s, instead)
				break
			}
		}
	}
	return len(said), nil
}

// summary is what was found out, a sentence each.
func (v *ways) summary(steps int, err error) (out []string) {
	for _, w := range v.Ways {
		if w.Live != nil && !slices.Contains(out, "✗ "+w.Live.Text) {
			out = append(out, "✗ "+w.Live.Text)
		}
	}
	switch {
	case err != nil:
		out = append(out, fmt.Sprintf("OVN's flows were not asked: %v", err))
	case len(out) > 0:
	case steps == 0:
		out = append(out, "there is no step that ovn-trace can be asked about")
	default:
		out = append(out, fmt.Sprintf("OVN's flows do the same in all steps that ovn-trace can be asked about (%d)", steps))
	}
	return out
}

func disagree(p trace.Path, s trace.Step, instead string) *disagreement {
	hops, rows := p.There, "to port "+s.Output
	if s.Back {
		hops = p.Back
	}
	if s.Output == "" {
		rows = "nowhere"
	}
	return &disagreement{Back: s.Back, Hop: max(0, min(s.Hops, len(hops)-1)), Text: fmt.Sprintf(
		"here the rows of %s lead it %s, and its flows %s: is ovn-northd alive, and up to date?", s.Datapath, rows, instead)}
}

// node is the first hop on a node that does not do as the rows say; nil: none is known.
func (x *way) node() *disagreement {
	for _, back := range []bool{false, true} {
		hops := x.There
		if back {
			hops = x.Back
		}
		for k, h := range hops {
			for _, f := range x.Causes {
				if h.Node != "" && f.Code != x.Code && slices.Contains(f.About, survey.NodeRef(h.Node)) {
					return &disagreement{Back: back, Hop: k, Text: fmt.Sprintf("here %s: %s", f.Code, f.Message)}
				}
			}
		}
	}
	return nil
}

// connection is how programs of OVN are told of a database. They want certificates as files, which are there until done is called.
func connection(db ovn.Config) (options []string, done func(), err error) {
	options, done = []string{"--db=" + strings.Join(db.Endpoints, ","), "--no-leader-only"}, func() {}
	if !db.Secret() {
		return options, done, nil
	}
	if db.CertFile == "" {
		if done, err = files(&db); err != nil {
			return nil, nil, err
		}
	}
	return append(options, "--private-key="+db.KeyFile, "--certificate="+db.CertFile, "--ca-cert="+db.CAFile), done, nil
}

// files writes the certificates of a database, for nobody else to read.
func files(db *ovn.Config) (done func(), err error) {
	dir, err := os.MkdirTemp("", "sallyport-")
	if err != nil {
		return nil, err
	}
	done = func() { _ = os.RemoveAll(dir) }
	db.CertFile, db.KeyFile, db.CAFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	for name, text := range map[string][]byte{db.CertFile: db.Secrets.Cert, db.KeyFile: db.Secrets.Key, db.CAFile: db.Secrets.CA} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			done()
			return nil, err
		}
	}
	return done, nil
}

// runProgram runs a program and returns what it says.
func runProgram(ctx context.Context, program string, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // ovn-trace, with arguments that are values and not a shell's words
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
