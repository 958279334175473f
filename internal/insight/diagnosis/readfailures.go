package diagnosis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// minKubernetesMinor is the oldest supported Kubernetes 1.x: admission policies are stable from there on.
const minKubernetesMinor = 30

// certificateRenewalWindow is how long before its expiry a certificate should be renewed.
const certificateRenewalWindow = 14 * 24 * time.Hour

// checkReadFailures reports what could not be read. Then nothing can be concluded from what is missing.
func (p *checker) checkReadFailures() {
	unreachable := map[string]string{
		clusterstate.Kubernetes: KubernetesUnreachable, clusterstate.Northbound: NorthboundUnreachable,
		clusterstate.Southbound: SouthboundUnreachable,
	}
	for _, u := range p.Unread {
		code := unreachable[u.System]
		if code == "" {
			code = NotRead
		}
		p.report(code, []state.Ref{ClusterRef}, "%s can't be read: %s", withArticle(u.System), u.Problem)
	}
	for _, kind := range p.Cluster.Absent {
		p.report(KindMissing, []state.Ref{ClusterRef}, "the kind %s is not installed in Kubernetes", kind)
	}
	if minor, known := parseMinorVersion(p.Cluster.Version); known && minor < minKubernetesMinor {
		p.report(KubernetesTooOld, []state.Ref{ClusterRef}, "Kubernetes is %s", p.Cluster.Version)
	}
	for _, s := range p.Shards {
		if s.Problem != "" && !p.isUnreadable(clusterstate.Kubernetes, clusterstate.Northbound) {
			p.report(NotWorkedOut, append(p.projectsOfShard(s.Name), clusterstate.RouterRef(s.Name)),
				"the intent of %s can't be computed: %s", s.Name, s.Problem)
		}
	}
}

func withArticle(system string) string {
	if strings.Contains(system, " ") {
		return "the " + system
	}
	return system
}

// projectsOfShard returns the Projects of a shard.
func (p *checker) projectsOfShard(shard string) (refs []state.Ref) {
	for _, x := range p.Cluster.Projects {
		if x.Shard == shard {
			refs = append(refs, x.Ref)
		}
	}
	return refs
}

// parseMinorVersion returns the second number of a version such as v1.35.4.
func parseMinorVersion(version string) (int, bool) {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 || parts[0] != "1" {
		return 0, false
	}
	minor, err := strconv.Atoi(strings.TrimRight(parts[1], "+"))
	return minor, err == nil
}

// checkCertificates finds certificates that expire soon.
func (p *checker) checkCertificates() {
	for _, c := range p.Certificates {
		left := c.Expires.Sub(p.Taken)
		if left > certificateRenewalWindow {
			continue
		}
		f := p.report(CertificateExpires, []state.Ref{ClusterRef}, "the certificate for %s expires in %s, on %s", c.For,
			formatDays(left),
			c.Expires.UTC().Format(time.DateOnly))
		if left <= 0 {
			f.Severity, f.Message = Error,
				fmt.Sprintf("the certificate for %s expired on %s", c.For, c.Expires.UTC().Format(time.DateOnly))
		}
	}
}

func formatDays(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Hour).String()
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
