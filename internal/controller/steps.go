package controller

import "github.com/sallyport/sallyport/internal/model/state"

// The systems that steps write to, as sallyport_repairs_total names them.
const (
	systemKubernetes = "Kubernetes"
	systemOVN        = "OVN"
)

// step is a plan of a shard's work, with what has to be known of it: nothing is told from its place among the others.
type step struct {
	state.Plan
	system string
	// prepares the plan anew; nil: it is not looked at again after it was carried out
	prepareAgain func() state.Prepared
}

// preparedStep is a step, or why there is none.
type preparedStep struct {
	step
	err error
}

// kubernetesStep is a step that writes to Kubernetes.
func kubernetesStep(p state.Prepared) preparedStep {
	return preparedStep{step{Plan: p.Plan, system: systemKubernetes}, p.Err}
}

// ovnStep is a step that writes to the northbound database.
func ovnStep(p state.Prepared) preparedStep {
	return preparedStep{step{Plan: p.Plan, system: systemOVN}, p.Err}
}

// reobservedOVNStep is a step that writes to the northbound database and is looked at again when it was carried out.
func reobservedOVNStep(prepare func() state.Prepared) preparedStep {
	out := ovnStep(prepare())
	out.prepareAgain = prepare
	return out
}

// collectSteps is the steps, or why one of them is missing.
func collectSteps(attempts ...preparedStep) ([]step, error) {
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

// reobserveRows looks at the rows again when some were written. Our copy of the database has them by then, so a row
// that was only put right is in force: nobody has to be told that it was not for some milliseconds.
func (w *Work) reobserveRows() error {
	for i := range w.steps {
		s := &w.steps[i]
		if s.prepareAgain == nil || len(s.ChangeLines()) == 0 {
			continue
		}
		again := s.prepareAgain()
		if again.Err != nil {
			return again.Err
		}
		s.Plan = again.Plan
	}
	return nil
}
