package kube

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// readNetworks returns the external networks: ExternalNetworks, and labelled Subnets that belong to none of them.
func (e *clusterDump) readNetworks(settings snapshot.Config) []clusterstate.Network {
	var nodes []*corev1.Node
	for i := range e.nodes.Items {
		nodes = append(nodes, &e.nodes.Items[i])
	}
	own := slices.DeleteFunc(slices.Clone(e.networks.Items), func(n kubedcv1alpha1.ExternalNetwork) bool {
		return isGeneratedNetwork(&n)
	})
	out := readSorted(own, func(o *kubedcv1alpha1.ExternalNetwork) clusterstate.Network {
		n := clusterstate.Network{
			Object: readObjectMeta(string(intent.ExternalNetwork), o, o.Status.Conditions), Type: string(o.Spec.Type),
			Default: o.Spec.Default,
			Return: cmp.Or(string(o.Status.ReturnPath), string(o.Spec.ReturnPath),
				settings.DefaultReturnPath.String()),
			Subnets: o.Spec.Subnets,
		}
		if o.Spec.Nodes != nil {
			u := readUplink(o, nodes)
			n.Interface, n.Method, n.Gateways, n.Addresses = cmp.Or(u.Interface, u.MAC), u.Method, u.Gateways,
				u.ServicePrefixes
			n.OnNodes = slices.Sorted(slices.Values(u.Nodes))
		}
		return n
	})
	for _, s := range readSorted(e.subnets.Items, func(o *Subnet) *Subnet { return o }) {
		if x, is := e.externals[s.Name]; is && x.Network == s.Name &&
			s.Labels[kubedcv1.ExternalNetworkTypeLabel] != "" {
			out = append(out, clusterstate.Network{
				Object: readObjectMeta(string(intent.Subnet), s, nil), Type: x.Type, Default: x.Default,
				Return: settings.DefaultReturnPath.String(), Subnets: []string{s.Name},
			})
		}
	}
	return out
}

func (e *clusterDump) readSubnets() []clusterstate.Subnet {
	vlans, providers := map[string]*Vlan{}, map[string]*ProviderNetwork{}
	for i := range e.vlans.Items {
		vlans[e.vlans.Items[i].Name] = &e.vlans.Items[i]
	}
	for i := range e.providers.Items {
		providers[e.providers.Items[i].Name] = &e.providers.Items[i]
	}
	return readSorted(e.subnets.Items, func(o *Subnet) clusterstate.Subnet {
		s := clusterstate.Subnet{
			Object: readObjectMeta(string(intent.Subnet), o, subnetConditions(o.Status.Conditions)), Vpc: o.Spec.Vpc,
			Excluded:   o.Spec.ExcludeIps,
			Namespaces: o.Spec.Namespaces, Provider: o.Spec.Provider, Ready: o.Status.IsReady(), Vlan: o.Spec.Vlan,
			MTU:  o.Spec.MTU,
			Free: int(o.Status.V4AvailableIPs), Used: int(o.Status.V4UsingIPs), Network: e.externals[o.Name].Network,
			NatOutgoing: o.Spec.NatOutgoing,
		}
		for part := range strings.SplitSeq(o.Spec.CIDRBlock, ",") {
			if prefix, err := netip.ParsePrefix(part); err == nil {
				s.Prefixes = append(s.Prefixes, prefix)
			}
		}
		s.Gateways = ParseAddresses(strings.Split(o.Spec.Gateway, ","))
		if second := e.externals[o.Name].Second; second != nil { // on the same wire
			s.Prefixes, s.Gateways = append(s.Prefixes, second.Prefix), append(s.Gateways, second.Gateway)
		}
		if vlan := vlans[o.Spec.Vlan]; vlan != nil {
			s.Tag, s.Provider = vlan.Spec.ID, vlan.Spec.Provider // the provider of a Subnet with a Vlan is "ovn"
			if provider := providers[vlan.Spec.Provider]; provider != nil {
				s.Interface, s.Interfaces = provider.Spec.DefaultInterface, customInterfaces(provider.Spec)
			}
		}
		return s
	})
}

// customInterfaces returns the interfaces of nodes that do not use the default interface.
func customInterfaces(p kubeovn.ProviderNetworkSpec) map[string]string {
	var out map[string]string
	for _, custom := range p.CustomInterfaces {
		for _, node := range custom.Nodes {
			if out == nil {
				out = map[string]string{}
			}
			out[node] = custom.Interface
		}
	}
	return out
}

func subnetConditions(list []kubeovn.Condition) (out []metav1.Condition) {
	for _, c := range list {
		out = append(out, metav1.Condition{
			Type:    c.Type,
			Status:  metav1.ConditionStatus(c.Status),
			Reason:  c.Reason,
			Message: c.Message,
		})
	}
	return out
}

func (e *clusterDump) readVpcs() []clusterstate.Vpc {
	return readSorted(e.vpcs.Items, func(o *Vpc) clusterstate.Vpc {
		external := append(slices.Clone(o.Spec.ExtraExternalSubnets), o.Status.ExtraExternalSubnets...)
		slices.Sort(external)
		return clusterstate.Vpc{
			Object: readObjectMeta(string(intent.Vpc), o, nil), Namespaces: o.Spec.Namespaces,
			External: slices.Compact(external), Ready: o.Status.Standby,
		}
	})
}

func (e *clusterDump) readNamespaces() []clusterstate.Namespace {
	return readSorted(e.namespaces.Items, func(o *corev1.Namespace) clusterstate.Namespace {
		return clusterstate.Namespace{
			Object: readObjectMeta(string(intent.Namespace), o, nil),
			Shard:  e.shards[o.Name],
			Subnet: podSubnet(o),
		}
	})
}

func (e *clusterDump) readOvnEips() []clusterstate.OvnEip {
	return readSorted(e.ovnEips.Items, func(o *OvnEip) clusterstate.OvnEip {
		return clusterstate.OvnEip{
			Object: readObjectMeta(string(intent.OvnEip), o, nil), Subnet: o.Spec.ExternalSubnet,
			Type:    cmp.Or(o.Status.Type, o.Spec.Type),
			Address: parseAddr(cmp.Or(o.Status.External(), o.Spec.External())), Ready: o.Status.Ready,
		}
	})
}

// readServiceCIDRs returns the prefixes of the cluster IPs of Services.
func (e *clusterDump) readServiceCIDRs() (out []netip.Prefix) {
	for i := range e.serviceCIDRs.Items {
		for _, text := range e.serviceCIDRs.Items[i].Spec.CIDRs {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				out = append(out, prefix)
			}
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}
