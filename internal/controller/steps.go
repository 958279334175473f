package controller

import "github.com/sallyport/sallyport/internal/state"

// The systems that steps write to, as sallyport_repairs_total names them.
const (
	systemKubernetes = "Kubernetes"
	systemOVN        = "OVN"
)

// step is a plan of a shard's work, with what has to be known of it: nothing is told from its place among the others.
type step struct {
	state.Plan
	system string
	again  func() state.Prepared // prepares the plan anew; nil: it is not looked at again after it was carried out
}

// attempt is a step, or why there is none.
type attempt struct {
	step
	err error
}

// inKubernetes is a step that writes to Kubernetes.
func inKubernetes(p state.Prepared) attempt {
	return attempt{step{Plan: p.Plan, system: systemKubernetes}, p.Err}
}

// inOVN is a step that writes to the northbound database.
func inOVN(p state.Prepared) attempt {
	return attempt{step{Plan: p.Plan, system: systemOVN}, p.Err}
}

// inOVNObserved is a step that writes to the northbound database and is looked at again when it was carried out.
func inOVNObserved(prepare func() state.Prepared) attempt {
	out := inOVN(prepare())
	out.again = prepare
	return out
}

// inSteps is the steps, or why one of them is missing.
func inSteps(attempts ...attempt) ([]step, error) {
	out := make([]step, 0, len(attempts))
	for _, a := range attempts {
		if a.err != nil {
			return nil, a.err
		}
		out = append(out, a.step)
	}
	return out, nil
}

// Plans are the plans of the work, in the order in which they are carried out.
func (w *Work) Plans() []state.Plan {
	out := make([]state.Plan, 0, len(w.steps))
	for _, s := range w.steps {
		out = append(out, s.Plan)
	}
	return out
}

// look looks at the rows again when some were written. Our copy of the database has them by then, so a row that was only put right
// is in force: nobody has to be told that it was not for some milliseconds.
func (w *Work) look() error {
	for i := range w.steps {
		s := &w.steps[i]
		if s.again == nil || len(s.Changes()) == 0 {
			continue
		}
		again := s.again()
		if again.Err != nil {
			return again.Err
		}
		s.Plan = again.Plan
	}
	return nil
}
