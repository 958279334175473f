package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

const (
	plugTimeout   = time.Minute
	unplugTimeout = 30 * time.Second
)

// connect gives the pod its network, however often it has to be tried; false when the pod is to end meanwhile.
func (s *sandbox) connect() bool {
	for wait := time.Duration(0); s.term.Err() == nil; {
		err := s.tryConnect()
		if err == nil {
			return true
		}
		if s.term.Err() != nil {
			return false
		}
		s.problem(err.Error())
		s.event("FailedCreatePodSandBox", err.Error())
		s.disconnect()
		wait = nextBackoff(wait, 0)
		s.pause(wait)
	}
	return false
}

func (s *sandbox) tryConnect() error {
	if s.pod.Spec.HostNetwork {
		s.connected(s.node.NS, []netip.Addr{s.node.Management.Addr()})
		return nil
	}
	ctx, cancel := context.WithTimeout(s.term, plugTimeout)
	defer cancel()
	ns, err := netns.Create(s.name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.ns, s.hasNS = ns, true
	s.mu.Unlock()
	if err := refuseAdvertisements(ns); err != nil {
		return err
	}
	if err := plug(ctx, s.node.Switch, ns, s.attached); err != nil {
		return err
	}
	s.connected(ns, addressesOf(s.attached))
	return nil
}

func (s *sandbox) connected(ns netns.NS, ips []netip.Addr) {
	s.mu.Lock()
	s.ns, s.hasNS = ns, true
	s.seen.Connected, s.seen.Problem, s.seen.IPs = true, "", ips
	s.mu.Unlock()
	s.changed()
}

func (s *sandbox) problem(message string) {
	s.mu.Lock()
	s.seen.Connected, s.seen.Problem = false, message
	s.mu.Unlock()
	s.changed()
}

// disconnect takes the network away. A switch that does not answer is asked again: until the port is gone the pod has
// not ended. After a power cut nobody is there to ask, and the port is left behind.
func (s *sandbox) disconnect() {
	ns, ok := s.namespace()
	if !ok || s.pod.Spec.HostNetwork {
		s.mu.Lock()
		s.hasNS = false
		s.mu.Unlock()
		return
	}
	left := s.attached
	for wait := time.Duration(0); len(left) > 0 && s.cut.Err() == nil; {
		if err := s.unplug(left[0]); err != nil {
			s.event("FailedKillPod", err.Error())
			wait = nextBackoff(wait, 0)
			s.waitPowered(wait)
			continue
		}
		left = left[1:]
	}
	for _, a := range left {
		s.left = append(s.left, a.Port)
	}
	s.mu.Lock()
	s.hasNS, s.seen.Connected = false, false
	s.mu.Unlock()
	if err := ns.Delete(); err != nil {
		s.k.Log.Warn("namespace of a pod is left over", "pod", s.name, "error", err)
	}
}

func (s *sandbox) unplug(a Attachment) error {
	ctx, cancel := context.WithTimeout(s.cut, unplugTimeout)
	defer cancel()
	if err := s.node.Switch.Unplug(ctx, a.Port); err != nil {
		return fmt.Errorf("unplug %s: %w", a.LogicalPort, err)
	}
	return nil
}

func (s *sandbox) waitPowered(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.cut, d)
	defer cancel()
	<-ctx.Done()
}

// plug connects a namespace to a switch: all interfaces at once, since each waits for ovn-controller, then the routes.
func plug(ctx context.Context, s Switch, ns netns.NS, attached []Attachment) error {
	all, each := errgroup.WithContext(ctx)
	for _, a := range attached {
		all.Go(func() error {
			if err := s.Plug(each, ns, a.Port); err != nil {
				return fmt.Errorf("plug %s as %s: %w", a.LogicalPort, a.Interface, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, a := range attached {
		if err := ns.AddRoutes(a.Routes...); err != nil {
			return err
		}
	}
	return nil
}

// refuseAdvertisements keeps a namespace's addresses and routes as Kube-OVN gave them. It comes before the interfaces,
// which inherit it. A kernel without IPv6 has no such setting.
func refuseAdvertisements(ns netns.NS) error {
	err := ns.Sysctl(map[string]string{"ipv6/conf/all/accept_ra": "0", "ipv6/conf/default/accept_ra": "0"})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
