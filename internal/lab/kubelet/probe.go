package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// tally counts probe results until they are enough to change the verdict.
type tally struct {
	successes, failures int32 // wanted
	ready               bool
	run                 int32 // how many results in a row speak against the verdict
}

// observe takes one result and says whether the container is ready now.
func (t *tally) observe(ok bool) bool {
	if ok == t.ready {
		t.run = 0
		return t.ready
	}
	t.run++
	wanted := t.failures
	if ok {
		wanted = t.successes
	}
	if t.run >= max(wanted, 1) {
		t.ready, t.run = ok, 0
	}
	return t.ready
}

// watchReadiness probes a container until ctx ends.
func (s *sandbox) watchReadiness(ctx context.Context, c corev1.Container) {
	probe := *c.ReadinessProbe
	t := tally{successes: probe.SuccessThreshold, failures: probe.FailureThreshold}
	delay, period := seconds(probe.InitialDelaySeconds, 0), seconds(probe.PeriodSeconds, 10)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(period)
		err := s.probe(ctx, c, probe)
		if ctx.Err() != nil {
			return
		}
		was := t.ready
		if t.observe(err == nil) != was {
			s.set(c.Name, func(st corev1.ContainerStatus) corev1.ContainerStatus {
				st.Ready = t.ready
				return st
			})
		}
		if err != nil && (was || !said) {
			said = true
			s.event("Unhealthy", fmt.Sprintf("readiness probe of %s: %v", c.Name, err))
		}
	}
}

func seconds(n int32, otherwise time.Duration) time.Duration {
	if n == 0 {
		return otherwise * time.Second
	}
	return time.Duration(n) * time.Second
}

// probe asks a container once, from inside its pod: a lab's probes work whatever the pod's network lets in.
func (s *sandbox) probe(ctx context.Context, c corev1.Container, p corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, seconds(p.TimeoutSeconds, 1))
	defer cancel()
	ns, _ := s.namespace()
	var ip netip.Addr
	if ips := s.observe().IPs; len(ips) > 0 {
		ip = ips[0]
	}
	switch {
	case p.HTTPGet != nil:
		return probeHTTP(ctx, ns, ip, c, p.HTTPGet)
	case p.TCPSocket != nil:
		return probeTCP(ctx, ns, ip, c, p.TCPSocket)
	case p.Exec != nil && len(p.Exec.Command) > 0:
		return probeExec(ctx, ns, p.Exec.Command)
	}
	return fmt.Errorf("a lab knows httpGet, tcpSocket and exec probes only")
}

func probeHTTP(ctx context.Context, ns netns.NS, ip netip.Addr, c corev1.Container, get *corev1.HTTPGetAction) error {
	address, err := target(get.Host, ip, get.Port, c)
	if err != nil {
		return err
	}
	scheme := "http"
	if get.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	url := scheme + "://" + address + "/" + strings.TrimPrefix(get.Path, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	for _, h := range get.HTTPHeaders {
		if strings.EqualFold(h.Name, "Host") {
			request.Host = h.Value
			continue
		}
		request.Header.Add(h.Name, h.Value)
	}
	client := http.Client{
		Transport: &http.Transport{
			DialContext:       ns.Dial,
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a probe asks whether it answers, not who it is
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 10<<10))
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}

func probeTCP(ctx context.Context, ns netns.NS, ip netip.Addr, c corev1.Container,
	socket *corev1.TCPSocketAction,
) error {
	address, err := target(socket.Host, ip, socket.Port, c)
	if err != nil {
		return err
	}
	conn, err := ns.Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func probeExec(ctx context.Context, ns netns.NS, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // what a pod of the lab says
	if err := ns.Do(cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}

// target is the address that a probe asks: the pod's own, unless it names another host.
func target(host string, ip netip.Addr, port intstr.IntOrString, c corev1.Container) (string, error) {
	if host == "" {
		host = ip.String()
	}
	if port.Type == intstr.Int {
		return net.JoinHostPort(host, strconv.Itoa(port.IntValue())), nil
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return net.JoinHostPort(host, strconv.Itoa(int(p.ContainerPort))), nil
		}
	}
	return "", fmt.Errorf("container %s has no port called %q", c.Name, port.StrVal)
}
