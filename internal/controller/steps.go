package controller

import "github.com/sallyport/sallyport/internal/model/state"

// The systems that steps write to: values of a label of sallyport_repairs_total.
const (
	systemKubernetes = "Kubernetes"
	systemOVN        = "OVN"
)

// step is a plan of a shard with its properties. Nothing is derived from its position among the others.
type step struct {
	state.Plan
	system string
	// prepareAgain computes the plan again after it was applied; nil: it is not observed again.
	prepareAgain func() state.Prepared
}

// preparedStep is a step, or the error that prevented it.
type preparedStep struct {
	step
	err error
}

// kubernetesStep returns a step that writes to Kubernetes.
func kubernetesStep(p state.Prepared) preparedStep {
	return preparedStep{step{Plan: p.Plan, system: systemKubernetes}, p.Err}
}

// ovnStep returns a step that writes to the northbound database.
func ovnStep(p state.Prepared) preparedStep {
	return preparedStep{step{Plan: p.Plan, system: systemOVN}, p.Err}
}

// reobservedOVNStep returns a step that writes to the northbound database and is observed again after it was applied.
func reobservedOVNStep(prepare func() state.Prepared) preparedStep {
	out := ovnStep(prepare())
	out.prepareAgain = prepare
	return out
}

// reobservedKubernetesStep returns a step that writes to Kubernetes and is observed again after it was applied.
func reobservedKubernetesStep(prepare func() state.Prepared) preparedStep {
	out := kubernetesStep(prepare())
	out.prepareAgain = prepare
	return out
}

// collectSteps returns the steps, or the first error.
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

// Plans returns the plans of the work in the order in which they are applied.
func (w *Work) Plans() []state.Plan {
	out := make([]state.Plan, 0, len(w.steps))
	for _, s := range w.steps {
		out = append(out, s.Plan)
	}
	return out
}

// changes returns the changes of all steps, without text.
func (w *Work) changes() (out []state.Line) {
	for _, s := range w.steps {
		out = append(out, s.ChangeKeys()...)
	}
	return out
}

// reobserve observes steps again that have written something. Our copy of the system contains it by then. So what was
// just written or repaired counts as present: its absence for some milliseconds is not reported in conditions, and a
// status is written once instead of twice. Whether Kube-OVN has processed an object is not decided here, but by compile.
func (w *Work) reobserve() error {
	for i := range w.steps {
		s := &w.steps[i]
		if s.prepareAgain == nil || len(s.ChangeKeys()) == 0 {
			continue
		}
		w.wroteObjects = w.wroteObjects || s.system == systemKubernetes
		w.wroteRows = w.wroteRows || s.system == systemOVN
		again := s.prepareAgain()
		if again.Err != nil {
			return again.Err
		}
		s.Plan = again.Plan
	}
	return nil
}
