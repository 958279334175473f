package selftest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/insight/selftest/peer"
	"github.com/sallyport/sallyport/internal/model/humanize"
)

// Names of the checks of a network.
const (
	egressCheck  = "default egress"
	fipCheck     = "FIp"
	serviceCheck = "Service"
)

// Codes of requests.
const (
	noAnswer    = "NoAnswer"    // nothing answers
	wrongServer = "WrongServer" // something else answers
	wrongSource = "WrongSource" // the server sees another address
)

// outsideTimeout limits one run of the user's command.
const outsideTimeout = 10 * time.Second

// target is an address of the server.
type target struct {
	what string
	url  string // empty: the address is not ready
}

func newTarget(what string, a netip.Addr, port int) target {
	if !a.IsValid() {
		return target{what: what}
	}
	return target{what, formatURL(a, port)}
}

func formatURL(a netip.Addr, port int) string {
	return "http://" + net.JoinHostPort(a.String(), strconv.Itoa(port))
}

// checkNetworks requests the addresses of each network.
func (r *run) checkNetworks(ctx context.Context) bool {
	for _, n := range r.cluster.networks {
		if n.problem != "" {
			r.skip(n.check("all"), "", "", "%s", n.problem)
			continue
		}
		r.ShowProgress("requesting addresses of " + n.name)
		n.fip = n.awaitFIP(ctx)
		fip := newTarget(fipCheck, n.fip, peer.ServerPort)
		service := newTarget(serviceCheck, n.awaitService(ctx), servicePort)
		if n.isolated {
			r.skip(n.check("from inside"), "", "", "the network is isolated: projects can't reach each other's addresses")
		} else {
			r.checkFromInside(ctx, n, fip, service)
		}
		r.checkFromOutside(ctx, n, fip, service)
	}
	if len(r.Outside) == 0 {
		r.skip("From outside", "", "name a command with --outside-command", "no host outside is known")
	}
	return true
}

// checkFromInside lets the client of a network request the addresses of the server, which is in another project. The
// server has to see the address of the client's project, at all of its own.
func (r *run) checkFromInside(ctx context.Context, n *network, targets ...target) {
	var first peer.Answer
	for _, to := range targets {
		if to.url == "" {
			continue
		}
		answer, err := r.request(ctx, n, to.url, n.egress)
		if !r.judgeServer(n, n.check(to.what), to.url, answer, err) {
			continue
		}
		if first.Name == "" {
			first = answer
		}
		r.judgeSource(n.check(to.what), to.url+" answers; ", answer, first.Client)
	}
	if first.Name == "" {
		r.skip(n.check(egressCheck), "", "", "no server has answered")
		return
	}
	r.judgeSource(n.check(egressCheck), "", first, n.egress)
}

// request lets the client of a network request a URL until the server sees the wanted address, and returns the last
// answer.
func (r *run) request(ctx context.Context, n *network, url string, source netip.Addr) (peer.Answer, error) {
	ask := func(ctx context.Context) (string, error) { return r.Ask(ctx, n.client, url) }
	return repeat(ctx, ask, func(a peer.Answer) bool { return a.Name == n.server.String() && a.Client == source })
}

// repeat asks until the answer is good or the time is over, and returns the last answer.
func repeat(ctx context.Context, ask func(context.Context) (string, error), isGood func(peer.Answer) bool,
) (last peer.Answer, problem error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		text, err := ask(ctx)
		if ctx.Err() != nil && (problem != nil || last.Name != "") {
			return last, problem // not that of the request that was cut short
		}
		last, problem = peer.Answer{}, err
		if err == nil {
			last, problem = peer.ParseAnswer(text)
		}
		if problem == nil && isGood(last) || !pause(ctx) {
			return last, problem
		}
	}
}

// judgeServer reports an answer that did not come from the server of the network. It returns false in this case.
func (r *run) judgeServer(n *network, check, url string, answer peer.Answer, err error) bool {
	trace := r.adviseKept(fmt.Sprintf("sallyport trace %s %s", n.egress, strings.TrimPrefix(url, "http://")))
	switch {
	case err != nil:
		r.fail(check, noAnswer, trace, "%s from pod %s: %v", url, n.client, err)
	case answer.Name != n.server.String():
		r.fail(check, wrongServer, trace, "%s: %s answers instead of %s", url, humanize.Quote(answer.Name), n.server)
	default:
		return true
	}
	return false
}

// judgeSource reports which address the server has seen.
func (r *run) judgeSource(check, prefix string, answer peer.Answer, wanted netip.Addr) {
	if answer.Client != wanted {
		r.fail(check, wrongSource, "sallyport doctor", "%sthe server sees %s instead of %s", prefix, answer.Client, wanted)
		return
	}
	r.pass(check, "%sthe server sees %s", prefix, wanted)
}

// checkFromOutside requests the addresses of the server with the user's command.
func (r *run) checkFromOutside(ctx context.Context, n *network, targets ...target) {
	for _, to := range targets {
		if len(r.Outside) > 0 && to.url != "" {
			r.requestFromOutside(ctx, n, n.check(to.what+" from outside"), to.url)
		}
	}
}

func (r *run) requestFromOutside(ctx context.Context, n *network, check, url string) {
	argv := append(append([]string(nil), r.Outside...), url)
	ask := func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, outsideTimeout)
		defer cancel()
		return r.RunCommand(ctx, argv)
	}
	answer, err := repeat(ctx, ask, func(a peer.Answer) bool { return a.Name == n.server.String() })
	command := strings.Join(argv, " ")
	switch {
	case err != nil:
		r.fail(check, noAnswer, command, "%s: %v", url, err)
	case answer.Name != n.server.String():
		r.fail(check, wrongServer, command, "%s: %s answers instead of %s", url, humanize.Quote(answer.Name), n.server)
	default:
		r.pass(check, "%s answers; the server sees %s", url, answer.Client)
	}
}

// checkEgressIP gives the client of the first network that works an address of its own.
func (r *run) checkEgressIP(ctx context.Context) bool {
	const check = "EgressIP"
	r.ShowProgress("testing an EgressIP")
	n, address := r.chooseEgress(ctx)
	switch {
	case n == nil:
		r.skip(check, "", "", "no network with a FIp that other projects reach and a free address")
		return true
	case len(r.cluster.assignable) == 0:
		r.skip(check, "", "", "no node that is Ready has the label %s", ovnv1.AssignableLabel)
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	object := r.newEgressIP(n, address)
	err := r.create(ctx, object)
	if err == nil {
		err = r.waitFor(ctx, object, findMissingStatus)
	}
	if err != nil {
		r.failObject(check, object, err)
		return false
	}
	url := formatURL(n.fip, peer.ServerPort)
	answer, err := r.request(ctx, n, url, address)
	if r.judgeServer(n, check, url, answer, err) {
		r.judgeSource(check, "", answer, address)
	}
	return true
}

// chooseEgress returns the first network on which an EgressIP can be tested, with an address for it.
func (r *run) chooseEgress(ctx context.Context) (*network, netip.Addr) {
	for _, n := range r.cluster.networks {
		if !n.fip.IsValid() || n.isolated {
			continue
		}
		if address := r.findFreeAddress(ctx, n); address.IsValid() {
			return n, address
		}
	}
	return nil, netip.Addr{}
}
