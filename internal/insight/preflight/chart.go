package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/installation"
)

// soon is how long before its end a certificate is reported.
const soon = 14 * 24 * time.Hour

func checkDatabases(r *run) {
	if len(r.Databases) == 0 {
		r.skip("", "sallyport status, once the controller runs, says whether they answer",
			"the databases are not those of Services")
		return
	}
	for _, s := range r.Databases {
		switch {
		case !s.Exists:
			r.fail("DatabaseServiceMissing",
				"set ovn.nbAddress and ovn.sbAddress of the chart to the servers of OVN's databases",
				"there is no Service %s", s.Name)
		case s.Ready == 0:
			r.fail("DatabaseWithoutLeader", "check the pods of ovn-central: the Service selects the leader",
				"Service %s has no ready endpoint", s.Name)
		}
	}
	var names []string
	for _, s := range r.Databases {
		names = append(names, s.Name)
	}
	r.passIfClean("Services %s have endpoints", strings.Join(names, " and "))
}

func checkTLS(r *run) {
	switch {
	case r.Engine == nil:
		r.skip("", "", "there is no Deployment kube-ovn-controller")
	case !r.Engine.TLS:
		r.warn("DatabasesWithoutTLS", "start Kube-OVN with ENABLE_SSL=true, and set ovn.tlsSecret of the chart",
			"Kube-OVN does not use TLS for OVN's databases: anyone who reaches them can change every tenant's network")
	case r.Controller != nil && !r.Controller.TLS:
		r.fail("ControllerWithoutTLS", "set ovn.tlsSecret of the chart",
			"OVN's databases require TLS, and the controller connects without")
	default:
		r.pass("OVN's databases require TLS")
	}
}

func checkSecrets(r *run) {
	if len(r.Secrets) == 0 {
		r.skip("", "", "the installation refers to none")
		return
	}
	for _, s := range r.Secrets {
		r.checkSecret(s)
	}
	var names []string
	for _, s := range r.Secrets {
		names = append(names, s.Namespace+"/"+s.Name)
	}
	r.passIfClean("%s", humanize.JoinLimited(names, maxShown))
}

// checkSecret checks one Secret.
func (r *run) checkSecret(s installation.Secret) {
	name := s.Namespace + "/" + s.Name
	replace := "renew the certificate: docs/reference/certificates.md"
	switch {
	case s.Unread != "":
		r.skip(Unreadable, adviceForReading(s.Unread), "could not read Secret %s (%s): %s", name, s.Purpose, s.Unread)
	case !s.Exists:
		r.fail("SecretMissing",
			"create it; a pod can mount only Secrets of its own namespace, so copy Kube-OVN's: docs/howto/install.md",
			"there is no Secret %s (%s)", name, s.Purpose)
	case len(s.MissingKeys) > 0:
		r.fail("SecretIncomplete", fmt.Sprintf("the keys must be %s", strings.Join(s.Wanted, ", ")),
			"Secret %s (%s) lacks %s",
			name, s.Purpose, strings.Join(s.MissingKeys, ", "))
	case s.Invalid != "":
		r.fail("CertificateInvalid", replace, "Secret %s (%s): %s", name, s.Purpose, s.Invalid)
	case s.Expires.IsZero():
	case s.Expires.Before(r.Taken):
		r.fail("CertificateExpired", replace, "the certificate of Secret %s (%s) expired on %s", name, s.Purpose,
			s.Expires.Format(time.DateOnly))
	case s.Expires.Before(r.Taken.Add(soon)):
		r.warn("CertificateExpiresSoon", replace, "the certificate of Secret %s (%s) expires on %s", name, s.Purpose,
			s.Expires.Format(time.DateOnly))
	}
}

// checkDefinitions checks that the CRDs of the cluster are those of the chart, or can become them.
func checkDefinitions(r *run) {
	present := 0
	for _, want := range r.Wanted {
		i := slices.IndexFunc(r.Definitions, func(d installation.Definition) bool { return d.Name == want.Name })
		if i < 0 {
			continue
		}
		present++
		r.checkDefinition(want, r.Definitions[i])
	}
	var foreign []string
	for _, d := range r.Definitions {
		if !d.Labelled && !slices.ContainsFunc(r.Wanted, func(w installation.Definition) bool { return w.Name == d.Name }) {
			foreign = append(foreign, d.Name)
		}
	}
	if len(foreign) > 0 {
		r.warn("KubeDCInstalled", "do not run kube-dc's controller for Projects, EIps and FIps beside Sallyport's",
			"other definitions of our API groups: %s", humanize.JoinLimited(foreign, maxShown))
	}
	if present == 0 {
		r.passIfClean("none of the %d exists; the chart installs them", len(r.Wanted))
		return
	}
	r.passIfClean("%d of %d exist", present, len(r.Wanted))
}

// checkDefinition compares a CRD of the cluster with ours.
func (r *run) checkDefinition(want, found installation.Definition) {
	if problem := describeConflict(want, found); problem != "" && !found.Labelled {
		r.fail("DefinitionConflict",
			"remove the other software with its objects, or install Sallyport in another cluster",
			"CustomResourceDefinition %s is of other software: %s", found.Name, problem)
		return
	}
	expected := r.expectedRelease()
	switch {
	case found.Release == expected:
	case found.Release != installation.Release{}:
		r.fail("DefinitionOfAnotherRelease", "use that release, or add --take-ownership to helm install",
			"CustomResourceDefinition %s belongs to the Helm release %s", found.Name, found.Release)
	case r.Controller == nil || r.Controller.Release != installation.Release{}:
		r.warn("DefinitionNotOfHelm", "add --take-ownership to helm install, or set crds.enabled=false",
			"CustomResourceDefinition %s exists and does not belong to a Helm release", found.Name)
	}
}

// expectedRelease returns the Helm release that the CRDs have to belong to.
func (r *run) expectedRelease() installation.Release {
	if r.Controller != nil {
		return r.Controller.Release
	}
	return r.Release
}

// describeConflict says why a definition can't be an older or a newer one of ours; empty: it can.
func describeConflict(want, found installation.Definition) string {
	if want.Kind != found.Kind || want.Scope != found.Scope {
		return fmt.Sprintf("it defines %s, %s", found.Kind, strings.ToLower(found.Scope))
	}
	for _, v := range want.Versions {
		if !slices.Contains(found.Versions, v) {
			return "it does not serve version " + v
		}
	}
	for _, c := range []struct {
		of, in []string
		text   string
	}{{want.Fields, found.Fields, "it lacks "}, {found.Fields, want.Fields, "it has fields of its own, such as "}} {
		for _, field := range c.of {
			if !slices.Contains(c.in, field) {
				return c.text + field
			}
		}
	}
	return ""
}

func checkNamespaces(r *run) {
	for _, n := range r.Namespaces {
		switch {
		case !n.Exists:
			r.warn("NamespaceMissing", "kubectl create namespace "+n.Name+", and create the Secrets in it",
				"there is no namespace %s", n.Name)
		case n.Agents && (n.Enforce == "baseline" || n.Enforce == "restricted"):
			r.warn("AgentsNotAdmitted", "give agents a namespace of their own (agent.namespace of the chart): "+
				"docs/howto/install.md#pod-security", "namespace %s enforces %s, and agents need privileged", n.Name, n.Enforce)
		}
	}
	var names []string
	for _, n := range r.Namespaces {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	r.passIfClean("%s", strings.Join(slices.Compact(names), ", "))
}

// pullFailures are the reasons with which kubelets say that they can't get an image.
var pullFailures = []string{"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}

func checkImage(r *run) {
	if r.Controller == nil {
		r.skip("", "sallyport check again after the installation; --set image.repository=… selects your own registry",
			"not installed yet: nodes pull the image when the chart is installed")
		return
	}
	for _, w := range []*installation.Workload{r.Controller, r.Agent} {
		if w == nil {
			continue
		}
		for i, p := range w.Waiting {
			if i == maxShown {
				break
			}
			r.reportWaiting(p)
		}
	}
	r.passIfClean("%s: no pod waits for it", r.Controller.Image)
}

// reportWaiting reports a pod that does not start.
func (r *run) reportWaiting(p installation.Waiting) {
	if slices.Contains(pullFailures, p.Reason) {
		r.fail("ImageNotPulled", "set image.repository of the chart to a registry that has it, and imagePullSecrets if it asks who pulls: "+
			"docs/howto/install.md#your-own-registry", "pod %s: %s of %s", p.Pod, p.Reason, p.Image)
		return
	}
	namespace, name, _ := strings.Cut(p.Pod, "/")
	r.warn("PodDoesNotStart", "kubectl -n "+namespace+" logs "+name+" --previous, and sallyport doctor", "pod %s: %s",
		p.Pod, p.Reason)
}
