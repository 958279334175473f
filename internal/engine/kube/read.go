package kube

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

func readMeta(m metav1.ObjectMeta) snapshot.Meta {
	out := snapshot.Meta{
		Namespace: m.Namespace, Name: m.Name, UID: string(m.UID), Generation: m.Generation,
		Created: m.CreationTimestamp.Time, Deleting: m.DeletionTimestamp != nil,
	}
	if out.Deleting {
		out.DeletedAt = m.DeletionTimestamp.Time
	}
	return out
}

// parser parses addresses and keeps the first error. The API server has validated them, but not in objects that come
// from a file or were stored with an older schema.
type parser struct{ malformed snapshot.Malformed }

func (p *parser) readAddr(field, text string) netip.Addr {
	if text == "" {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		p.setMalformed(field, text, "an address")
	}
	return a.Unmap()
}

func (p *parser) readPrefix(field, text string) netip.Prefix {
	prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		p.setMalformed(field, text, "a prefix such as 10.0.0.0/16")
		return netip.Prefix{}
	}
	return prefix.Masked()
}

// readName parses the name of an object. An invalid name is reported and not used.
func (p *parser) readName(field, text string) string {
	if text != "" && len(validation.IsDNS1123Subdomain(text)) > 0 {
		p.setMalformed(field, text, "a valid object name; use lowercase letters, digits, '-' and '.'")
		return ""
	}
	return text
}

// readNetworkType parses a network type, which is a label value.
func (p *parser) readNetworkType(field, text string) string {
	if len(validation.IsValidLabelValue(text)) > 0 {
		p.setMalformed(field, text, "a valid network type of at most 63 letters, digits, '-', '_' and '.'; "+
			"use the type of an ExternalNetwork, such as cloud or public")
		return ""
	}
	return text
}

func (p *parser) setMalformed(field, text, want string) {
	if p.malformed == "" {
		p.malformed = snapshot.Malformed(fmt.Sprintf("%s %s is not %s", field, humanize.Quote(text), want))
	}
}

func readProject(o *kubedcv1.Project) snapshot.Project {
	var p parser
	out := snapshot.Project{
		Meta:        readMeta(o.ObjectMeta),
		NetworkType: p.readNetworkType("spec.egressNetworkType", string(o.Spec.EgressNetworkType)),
	}
	for part := range strings.SplitSeq(o.Spec.CIDRBlock, ",") {
		if prefix := p.readPrefix("spec.cidrBlock", part); prefix.IsValid() {
			out.Prefixes = append(out.Prefixes, prefix)
		}
	}
	if len(out.Prefixes) == 2 && ipfamily.Same(out.Prefixes[0].Addr(), out.Prefixes[1].Addr()) || len(out.Prefixes) > 2 {
		p.setMalformed("spec.cidrBlock", o.Spec.CIDRBlock, "one prefix, or one of each family")
	}
	for part := range strings.SplitSeq(o.Spec.GwLanIP, ",") {
		gateway := p.readAddr("spec.gwLanIp", part)
		if !gateway.IsValid() {
			continue
		}
		if !slices.ContainsFunc(out.Prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(gateway) }) {
			p.setMalformed("spec.gwLanIp", part, "an address in spec.cidrBlock")
		}
		out.Gateways = append(out.Gateways, gateway)
	}
	if o.Spec.EIpQuota != nil {
		out.EIpQuota = snapshot.AtMost(int(*o.Spec.EIpQuota))
	}
	out.Accepted = isAcceptedProject(o)
	out.IngressAllowList, out.EgressAllowList = readAllowList(o, kubedcv1.IngressAllowlistAnnotation),
		readAllowList(o, kubedcv1.EgressAllowlistAnnotation)
	out.Malformed = p.malformed
	return out
}

// readAllowList parses the allow-list of an annotation. A malformed list allows nothing: only operators write it, and
// traffic that they meant to block must not get in.
func readAllowList(o *kubedcv1.Project, annotation string) (out snapshot.AllowList) {
	text, there := o.Annotations[annotation]
	if out.IsSet = there; strings.TrimSpace(text) == "" {
		return out
	}
	var p parser
	parts := strings.SplitN(text, ",", snapshot.MaxAllowListEntries+1)
	if len(parts) > snapshot.MaxAllowListEntries {
		return snapshot.AllowList{IsSet: true, Malformed: snapshot.Malformed(fmt.Sprintf(
			"annotation %s has more than %d entries", annotation, snapshot.MaxAllowListEntries))}
	}
	for _, part := range parts {
		if a, err := netip.ParseAddr(strings.TrimSpace(part)); err == nil && a.Zone() == "" {
			out.Prefixes = append(out.Prefixes, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
		} else if prefix := p.readPrefix("annotation "+annotation, part); prefix.IsValid() {
			out.Prefixes = append(out.Prefixes, prefix)
		}
	}
	if p.malformed != "" {
		return snapshot.AllowList{IsSet: true, Malformed: p.malformed}
	}
	return out
}

func readEIp(o *kubedcv1.EIp) snapshot.EIp {
	var p parser
	out := snapshot.EIp{
		Meta: readMeta(o.ObjectMeta), Type: p.readNetworkType("spec.externalNetworkType",
			string(o.Spec.ExternalNetworkType)),
		Network:        p.readName("spec.externalNetwork", o.Spec.ExternalNetwork),
		ExistingOvnEip: p.readName("spec.childRef", o.Spec.ChildRef),
		Address:        p.readAddr("spec.ipAddress", o.Spec.IPAddress),
		Family:         ipfamily.Parse(string(o.Spec.IPFamily)),
	}
	p.checkFamily("spec.ipAddress", out.Address, out.Family)
	for _, namespace := range o.Spec.SharedWith {
		out.SharedWith = append(out.SharedWith, string(namespace))
	}
	out.Malformed = p.malformed
	out.StatusAddress, _ = netip.ParseAddr(o.Status.IPAddress)
	out.Accepted = isAcceptedEIp(o)
	return out
}

func readFIp(o *kubedcv1.FIp) snapshot.FIp {
	var p parser
	out := snapshot.FIp{
		Meta: readMeta(o.ObjectMeta), EIp: p.readName("spec.eip", o.Spec.EIp),
		Type:    p.readNetworkType("spec.externalNetworkType", string(o.Spec.ExternalNetworkType)),
		Address: p.readAddr("spec.ipAddress", o.Spec.IPAddress), Outbound: o.Spec.Outbound,
		Family: ipfamily.Parse(string(o.Spec.IPFamily)),
	}
	targets := 0
	if out.Address.IsValid() {
		targets++
	}
	if o.Spec.PodTarget != nil {
		out.Pod = p.readName("spec.podTarget.podName", o.Spec.PodTarget.PodName)
		targets++
	}
	if o.Spec.VMTarget != nil {
		out.VM, out.Interface = p.readName("spec.vmTarget.vmName", o.Spec.VMTarget.VMName),
			o.Spec.VMTarget.InterfaceName
		targets++
	}
	if targets != 1 && p.malformed == "" {
		p.malformed = "set exactly one of spec.ipAddress, spec.podTarget and spec.vmTarget"
	}
	if out.EIp == "" {
		p.checkFamily("spec.ipAddress", out.Address, out.Family)
	}
	out.Malformed = p.malformed
	return out
}

func (in *Inputs) readNamespace() snapshot.Namespace {
	ns := in.namespaces[in.Shard.Name]
	if ns == nil || in.Shard.Name == kubeovn.ManagementVpc {
		return snapshot.Namespace{}
	}
	out := snapshot.Namespace{
		Exists: true, Deleting: ns.DeletionTimestamp != nil,
		Owned: belongsToShard(ns, in.Shard.Name) && in.seesAllOffers(ns),
	}
	out.PodSubnet = podSubnet(ns)
	out.RemainingContent = readRemaining(ns)
	out.Quota = readQuota(ns, kubedcv1.EIpQuotaAnnotation)
	return out
}

// maxRemainingLen limits how much of that text is reported, because tenants choose the names of finalizers.
const maxRemainingLen = 400

// readRemaining returns what blocks the deletion of a namespace, as reported by Kubernetes: the remaining kinds and
// their finalizers.
func readRemaining(ns *corev1.Namespace) string {
	var out []string
	for _, c := range ns.Status.Conditions {
		if (c.Type == corev1.NamespaceContentRemaining || c.Type == corev1.NamespaceFinalizersRemaining) &&
			c.Status == corev1.ConditionTrue {
			out = append(out, c.Message)
		}
	}
	text := strings.Join(out, "; ")
	return text[:min(len(text), maxRemainingLen)]
}

// belongsToShard reports whether an object belongs to a shard: it has our labels; it lost them but still has fields
// that we applied; an operator offered it to the shard; or it is the OvnEip of a port of the shard's router, which
// Kube-OVN creates when it connects a subnet and finds none.
func belongsToShard(o client.Object, shard string) bool {
	if ownerShard(o) != "" {
		return ownerShard(o) == shard
	}
	if isOfferedTo(o, shard) {
		return true
	}
	eip, isOvnEip := o.(*OvnEip)
	return hasLostLabels(o) || isOvnEip && shard != kubeovn.ManagementVpc && eip.Spec.Type == "lrp" &&
		eip.Name == kubeovn.RouterPort(shard, eip.Spec.ExternalSubnet)
}

// hasLostLabels reports whether an object without our labels is ours nevertheless: someone removed the labels, and
// fields that we applied are left. Treating it as foreign would take the project down.
func hasLostLabels(o client.Object) bool {
	return ownerShard(o) == "" && slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return isAppliedBy(e, ownership.FieldManager) && e.Subresource == ""
	})
}

// isPodFinished reports whether a pod has terminated. Its address may already belong to another pod.
func isPodFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (in *Inputs) readPods() map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for _, pod := range in.pods {
		if isPodFinished(pod) {
			continue
		}
		name := snapshot.PodKey(pod.Namespace, pod.Name)
		out[name] = nil
		for _, ip := range pod.Status.PodIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil {
				out[name] = append(out[name], a)
			}
		}
	}
	return out
}
