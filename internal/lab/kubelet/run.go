package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/internal/lab/proc"
	"github.com/sallyport/sallyport/internal/lab/program"
)

const (
	crashCode    = 1
	startCode    = 128              // the exit code of a container that could not be started
	programBound = 10 * time.Second // a built-in program that has not ended by then is left behind
)

// exit is how a container ended.
type exit struct {
	code            int32
	reason, message string
}

// runner runs a container once; its context ends when the container is to stop.
type runner func(context.Context) exit

// runInit runs the init containers, one after the other; false when the pod gets no further.
func (s *sandbox) runInit() bool {
	for _, c := range s.pod.Spec.InitContainers {
		if code, ok := s.keep(c, initPolicy(s.pod.Spec.RestartPolicy)); !ok || code != 0 {
			return false
		}
	}
	return s.term.Err() == nil
}

// runContainers runs the containers until each has ended for good.
func (s *sandbox) runContainers() {
	var all sync.WaitGroup
	for _, c := range s.pod.Spec.Containers {
		all.Go(func() { s.keep(c, s.pod.Spec.RestartPolicy) })
	}
	all.Wait()
}

// keep runs a container, again and again if the policy says so, and returns its last exit code; false when the pod has
// to end first.
func (s *sandbox) keep(c corev1.Container, policy corev1.RestartPolicy) (int32, bool) {
	if over := s.container(c.Name).State.Terminated; over != nil {
		return over.ExitCode, true // ended for good in an earlier sandbox
	}
	run, refusal := s.runnerOf(c)
	if refusal != nil {
		s.set(c.Name, func(st corev1.ContainerStatus) corev1.ContainerStatus {
			return waiting(st, refusal.Reason, refusal.Message)
		})
		<-s.term.Done()
		return 0, false
	}
	for backoff := time.Duration(0); ; {
		began := time.Now()
		e := s.once(c, run)
		if s.term.Err() != nil {
			return e.code, false
		}
		if !restarts(policy, e.code) {
			return e.code, true
		}
		backoff = nextBackoff(backoff, time.Since(began))
		message := fmt.Sprintf("back-off %s restarting container %s", backoff, c.Name)
		s.set(c.Name, func(st corev1.ContainerStatus) corev1.ContainerStatus {
			return waiting(st, "CrashLoopBackOff", message)
		})
		if !s.pause(backoff) {
			return e.code, false
		}
		s.set(c.Name, func(st corev1.ContainerStatus) corev1.ContainerStatus {
			st.RestartCount++
			return st
		})
	}
}

// once runs a container until it ends, with its readiness probe beside it.
func (s *sandbox) once(c corev1.Container, run runner) exit {
	ctx, cancel := context.WithCancel(s.term)
	s.set(c.Name, func(st corev1.ContainerStatus) corev1.ContainerStatus {
		return started(st, s.pod, c.ReadinessProbe == nil, time.Now())
	})
	var probing sync.WaitGroup
	if c.ReadinessProbe != nil {
		probing.Go(func() { s.watchReadiness(ctx, c) })
	}
	e := run(ctx)
	cancel()
	probing.Wait()
	s.set(c.Name, func(st corev1.ContainerStatus) corev1.ContainerStatus { return ended(st, e, time.Now()) })
	return e
}

// runnerOf is how a container is run: one with a command as a process, one without as the built-in program of its
// image. Volumes, hooks other than preStop with sleep, liveness and startup probes, and init containers that never end
// do not exist in a lab.
func (s *sandbox) runnerOf(c corev1.Container) (runner, *corev1.ContainerStateWaiting) {
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return nil, &corev1.ContainerStateWaiting{
			Reason:  "CreateContainerError",
			Message: "a lab has no init containers that never end",
		}
	}
	env, err := environment(c.Env, s.pod, s.observe())
	if err != nil {
		return nil, &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()}
	}
	if len(c.Command) > 0 {
		return s.processOf(c, env), nil
	}
	if p, ok := s.k.Programs(c.Image); ok {
		return s.programOf(c, p, env), nil
	}
	message := fmt.Sprintf("no program for image %q in a lab; there are: %s", c.Image, strings.Join(s.images(), ", "))
	return nil, &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: message}
}

func (s *sandbox) images() []string {
	if s.k.Images == nil {
		return nil
	}
	return s.k.Images()
}

func (s *sandbox) programOf(c corev1.Container, run program.Program, env variables) runner {
	return func(ctx context.Context) exit {
		log, err := s.output()
		if err != nil {
			return exit{startCode, "StartError", err.Error()}
		}
		ns, _ := s.namespace()
		spec := program.Spec{Name: s.pod.Name, Args: env.expandAll(c.Args), Env: env.values, Log: log}
		done := make(chan error, 1)
		go func() { done <- guarded(func() error { return run(ctx, ns, spec) }) }()
		select {
		case err := <-done:
			if err != nil {
				fmt.Fprintf(log, "%s ended: %v\n", c.Name, err)
			}
			return exitOf(err)
		case <-ctx.Done():
		}
		bound, cancel := context.WithTimeout(context.Background(), programBound)
		defer cancel()
		select {
		case <-done: // whatever it says, it ended because it was told to
			return exitOf(nil)
		case <-bound.Done():
			return exit{lostCode, "Error", "the program did not end when it was told to"}
		}
	}
}

// guarded turns a panic of a program into its crash: it must not take the lab with it.
func guarded(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}

func (s *sandbox) processOf(c corev1.Container, env variables) runner {
	return func(ctx context.Context) exit {
		ns, _ := s.namespace()
		p, err := s.k.Processes.Start(proc.Spec{
			Name: s.name + "." + c.Name,
			Argv: append(env.expandAll(c.Command), env.expandAll(c.Args)...),
			Env:  env.list(),
			NS:   ns,
			Dir:  c.WorkingDir,
		})
		if err != nil {
			return exit{startCode, "StartError", err.Error()}
		}
		select {
		case <-p.Done():
		case <-ctx.Done():
			s.end(p)
		}
		return exitOf(p.Err())
	}
}

// end stops a process within the pod's grace, and at once when the power goes.
func (s *sandbox) end(p *proc.Process) {
	s.mu.Lock()
	grace := s.grace
	s.mu.Unlock()
	if s.cut.Err() == nil {
		go func() { _ = p.Stop(grace) }() // ends with the process
	}
	select {
	case <-p.Done():
	case <-s.cut.Done():
		_ = p.Kill() // fails only for a process that is gone
		<-p.Done()
	}
}

func exitOf(err error) exit {
	var status *exec.ExitError
	switch {
	case err == nil:
		return exit{reason: "Completed"}
	case errors.As(err, &status) && status.ExitCode() >= 0:
		return exit{int32(status.ExitCode()), "Error", err.Error()} //nolint:gosec // an exit code has eight bits
	case errors.As(err, &status):
		return exit{lostCode, "Error", err.Error()} // ended by a signal
	}
	return exit{crashCode, "Error", brief(err.Error())}
}

// set changes the status of a container.
func (s *sandbox) set(name string, change func(corev1.ContainerStatus) corev1.ContainerStatus) {
	s.mu.Lock()
	for _, list := range [][]corev1.ContainerStatus{s.seen.Init, s.seen.Containers} {
		for i := range list {
			if list[i].Name == name {
				list[i] = change(list[i])
			}
		}
	}
	s.mu.Unlock()
	s.changed()
}

func (s *sandbox) container(name string) corev1.ContainerStatus {
	o := s.observe()
	for _, c := range append(o.Init, o.Containers...) {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{}
}
