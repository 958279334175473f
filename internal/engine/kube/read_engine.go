package kube

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// readExternalSubnets returns the external subnets: those of ExternalNetworks, and those with the label.
func (in *Inputs) readExternalSubnets() []snapshot.ExternalSubnet {
	out := map[string]snapshot.ExternalSubnet{}
	for name, s := range in.subnets {
		if kind := s.Labels[kubedcv1.ExternalNetworkTypeLabel]; kind != "" {
			x := readExternalSubnet(s)
			x.Network, x.Type, x.Default = name, kind, s.Labels[kubedcv1.DefaultExternalLabel] == "true"
			out[name] = x
		}
	}
	admitted := map[string]snapshot.Admitted{}
	for _, n := range in.networks {
		admitted[n.Name] = in.readAdmitted(n)
	}
	// A subnet belongs to one network. If two networks name it, the first by name gets it.
	for _, n := range slices.SortedFunc(slices.Values(in.networks), func(a, b *kubedcv1alpha1.ExternalNetwork) int {
		return strings.Compare(b.Name, a.Name)
	}) {
		for _, name := range n.Spec.Subnets {
			if s := in.subnets[name]; s != nil {
				x := readExternalSubnet(s)
				x.Network, x.Type, x.Default, x.ReturnPath = n.Name, string(n.Spec.Type), n.Spec.Default,
					snapshot.ReturnPath(n.Spec.ReturnPath)
				x.Admitted, x.Isolated, x.SharedAddresses = admitted[n.Name],
					n.Spec.Isolation == kubedcv1alpha1.IsolateTenants, readSharedAddresses(n)
				if second, asked := readSecondPrefix(n); asked && len(n.Spec.Subnets) == 1 {
					_ = x.AddSecond(second) // the network's condition says what is wrong
				}
				out[name] = x
			}
		}
	}
	list := make([]snapshot.ExternalSubnet, 0, len(out))
	for _, x := range out {
		if x.Unsupported || (x.Prefix.IsValid() && x.Gateway.IsValid()) { // compile refuses those that are not supported
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b snapshot.ExternalSubnet) int { return strings.Compare(a.Subnet, b.Subnet) })
	return list
}

// readSecondPrefix returns what a network says about IPv6, and whether it says anything.
func readSecondPrefix(n *kubedcv1alpha1.ExternalNetwork) (out snapshot.SecondPrefix, asked bool) {
	if n.Spec.IPv6 == nil {
		return out, false
	}
	out.Gateway = parseSecond(netip.ParseAddr(n.Spec.IPv6.Gateway))
	out.Prefix, _ = netip.ParsePrefix(n.Spec.IPv6.CIDR)
	out.Pool, _ = netip.ParsePrefix(n.Spec.IPv6.Range)
	if ipfamily.Of(out.Prefix.Addr()) == kubeovn.ExternalFamily {
		out.Prefix = netip.Prefix{}
	}
	return out, true
}

// parseSecond returns an address of IPv6 without a zone; invalid: it is none.
func parseSecond(a netip.Addr, err error) netip.Addr {
	if err != nil || a.Zone() != "" || ipfamily.Of(a) == kubeovn.ExternalFamily {
		return netip.Addr{}
	}
	return a
}

// readIPv6Owners returns which EIp has each IPv6 address, by their statuses: of several, the oldest.
func (in *Inputs) readIPv6Owners() map[netip.Addr]snapshot.Meta {
	if !slices.ContainsFunc(in.eips, isIPv6EIp) {
		return nil
	}
	out := map[netip.Addr]snapshot.Meta{}
	for _, e := range in.ipv6EIps {
		a := parseSecond(netip.ParseAddr(e.Status.IPAddress))
		m := readMeta(e.ObjectMeta)
		if has, taken := out[a]; a.IsValid() && (!taken || m.IsEarlier(has)) {
			out[a] = m
		}
	}
	return out
}

// isIPv6EIp reports whether an EIp asks for an IPv6 address.
func isIPv6EIp(e *kubedcv1.EIp) bool { return e.Spec.IPFamily == kubedcv1.IPv6 }

// readSharedAddresses returns which namespace may use which address of a network that all projects reach.
func readSharedAddresses(n *kubedcv1alpha1.ExternalNetwork) map[netip.Addr]string {
	if len(n.Spec.SharedAddresses) == 0 {
		return nil
	}
	out := make(map[netip.Addr]string, len(n.Spec.SharedAddresses))
	for _, s := range n.Spec.SharedAddresses {
		if a := parseAddr(s.Address); a.IsValid() {
			out[a] = s.Namespace
		}
	}
	return out
}

func readExternalSubnet(s *Subnet) snapshot.ExternalSubnet {
	x := snapshot.ExternalSubnet{
		Subnet: s.Name, Ready: s.Status.IsReady(), Free: int(s.Status.V4AvailableIPs), Used: int(s.Status.V4UsingIPs),
	}
	isSupported := func(a netip.Addr) bool { return ipfamily.Of(a) == kubeovn.ExternalFamily }
	for part := range strings.SplitSeq(s.Spec.CIDRBlock, ",") {
		prefix, err := netip.ParsePrefix(part)
		switch {
		case err != nil:
		case isSupported(prefix.Addr()):
			x.Prefix = prefix.Masked()
		default:
			x.Unsupported = true
		}
	}
	if len(s.Status.Conditions) == 0 && x.Prefix.IsValid() { // not processed by Kube-OVN yet: nothing is assigned
		x.Free = 1<<min(x.Prefix.Addr().BitLen()-x.Prefix.Bits(), 32) - 3
	}
	for part := range strings.SplitSeq(s.Spec.Gateway, ",") {
		if a, err := netip.ParseAddr(part); err == nil && isSupported(a) {
			x.Gateway = a
		}
	}
	x.ReservedRanges = parseAddressRanges(s.Spec.ExcludeIps, "..")
	return x
}

// ReadTakenAddresses returns the prefix of an external Subnet, and which of its addresses are reserved or, as Kube-OVN has
// reported, used.
func ReadTakenAddresses(s *Subnet) (netip.Prefix, []snapshot.AddressRange) {
	x := readExternalSubnet(s)
	taken := append(x.ReservedRanges, parseAddressRanges(strings.Split(s.Status.V4UsingIPRange, ","), "-")...)
	return x.Prefix, append(taken, snapshot.AddressRange{First: x.Gateway, Last: x.Gateway})
}

// parseAddressRanges parses addresses and ranges as Kube-OVN writes them: 10.0.0.9, and 10.0.0.2-10.0.0.5 in a status
// or 10.0.0.2..10.0.0.5 in a spec.
func parseAddressRanges(parts []string, between string) (out []snapshot.AddressRange) {
	for _, part := range parts {
		first, last, several := strings.Cut(part, between)
		if !several {
			last = first
		}
		r := snapshot.AddressRange{First: parseAddr(strings.TrimSpace(first)), Last: parseAddr(strings.TrimSpace(last))}
		if r.First.IsValid() && r.Last.IsValid() {
			out = append(out, r)
		}
	}
	return out
}

// neverGetsAddress reports whether an OvnEip will never have an address.
func (in *Inputs) neverGetsAddress(o *OvnEip, holders map[netip.Addr]snapshot.AddressOwner) bool {
	return o.Status.Ready && o.Status.MacAddress == "" || isAddressPending(o) &&
		holders[parseAddr(o.Spec.External())].OvnEip != o.Name ||
		in.hasFreeAddress(o.Spec.ExternalSubnet) && in.isStuck(o)
}

// hasFreeAddress reports whether a subnet has a free address. If it has none, Kube-OVN retries by itself.
func (in *Inputs) hasFreeAddress(subnet string) bool {
	s := in.subnets[subnet]
	return s != nil && s.Status.V4AvailableIPs > 0
}

func readObservedState(m metav1.ObjectMeta, ready bool) snapshot.ObjectState {
	s := snapshot.ObjectState{Exists: true, Ready: ready, Deleting: m.DeletionTimestamp != nil}
	if s.Deleting {
		s.DeletedAt = m.DeletionTimestamp.Time
	}
	return s
}

func (in *Inputs) readKubeOVNState(ports []string) snapshot.Engine {
	e := snapshot.Engine{
		OvnEips: map[string]snapshot.OvnEip{}, OvnFips: map[string]snapshot.OvnFip{}, ForeignOvnFips: map[string]bool{},
		OwnedObjects: in.ownedObjects, MisplacedPorts: in.readMisplacedPorts(),
	}
	if v := in.vpc; v != nil {
		// Kube-OVN creates Vpcs for routers that have none, such as those of deleted Vpcs.
		e.ForeignVpc = !in.belongs(v) && v.Labels[kubeovn.ExternalVpcLabel] != "true"
		e.Vpc = snapshot.Vpc{
			ObjectState:      readObservedState(v.ObjectMeta, v.Status.Standby && v.Status.Router != ""),
			RequestedSubnets: toStringSet(v.Spec.ExtraExternalSubnets),
			AttachedSubnets:  toStringSet(v.Status.ExtraExternalSubnets),
			LastEditedAt:     lastEditedAt(v.ManagedFields), StatusWrittenAt: statusWrittenAt(v.ManagedFields),
		}
	}
	if s := in.subnets[ownership.VPCSubnetName(in.Shard.Name)]; s != nil {
		e.Subnet, e.ForeignSubnet = readObservedState(s.ObjectMeta, s.Status.IsReady()), !in.belongs(s)
		e.UsedIPs, e.UsedIPRanges = int(s.Status.V4UsingIPs+s.Status.V6UsingIPs),
			parseAddressRanges(strings.Split(s.Status.V4UsingIPRange, ","), "-")
	}
	holders := in.readAddressHolders()
	for name, o := range in.ovnEips {
		address, _ := netip.ParseAddr(o.Status.External())
		e.OvnEips[name] = snapshot.OvnEip{
			ObjectState: readObservedState(o.ObjectMeta, o.Status.Ready && address.IsValid() &&
				o.Status.MacAddress != ""),
			Subnet: o.Spec.ExternalSubnet, Type: o.Spec.Type, Address: address,
			RequestedAddress: parseAddr(o.Spec.External()),
			Owned:            in.belongs(o),
			Adopted: in.belongs(o) && ownerShard(o) == "" && !hasLostLabels(o) &&
				!isOfferedTo(o, in.Shard.Name),
			FailedWithoutAddress: in.neverGetsAddress(o, holders),
			Origin:               parseOrigin(o.Annotations[ownership.OriginAnnotation]),
		}
	}
	for name, o := range in.ovnFips {
		if !in.belongs(o) {
			e.ForeignOvnFips[name] = true
			continue
		}
		external, _ := netip.ParseAddr(o.Status.V4Eip)
		target, _ := netip.ParseAddr(o.Status.External())
		e.OvnFips[name] = snapshot.OvnFip{
			ObjectState: readObservedState(o.ObjectMeta, o.Status.Ready && external.IsValid()), OvnEip: o.Spec.OvnEip,
			ExternalIP: external, TargetIP: target,
			Stuck:  in.isStuck(o),
			Origin: parseOrigin(o.Annotations[ownership.OriginAnnotation]),
		}
	}
	if in.snatRule != nil {
		e.SnatRule = in.readSNATRule(in.snatRule)
	}
	if ports != nil {
		e.RouterPorts = toStringSet(ports)
	}
	return e
}

func (in *Inputs) readSNATRule(o *OvnSnatRule) snapshot.OvnSnatRule {
	external, _ := netip.ParseAddr(o.Status.V4Eip)
	inside, _ := netip.ParsePrefix(o.Status.V4IpCidr)
	return snapshot.OvnSnatRule{
		Name:        o.Name,
		ObjectState: readObservedState(o.ObjectMeta, o.Status.Ready && external.IsValid()), OvnEip: o.Spec.OvnEip,
		ExternalIP: external, InternalPrefix: inside,
		Stuck: in.isStuck(o),
	}
}

// isAddressPending reports whether an OvnEip has an address in its spec but not in its status. Kube-OVN writes the spec
// first. If it restarts in between, it no longer knows the address is taken and may assign it to another object.
func isAddressPending(o *OvnEip) bool { return o.Spec.External() != "" && o.Status.External() == "" }

func parseAddr(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}

func toStringSet(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

// lastEditedAt returns when we last wrote to a list of a Vpc.
func lastEditedAt(fields []metav1.ManagedFieldsEntry) time.Time {
	return latestEntryTime(fields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == ownership.FieldManager && f.Operation == metav1.ManagedFieldsOperationUpdate
	})
}

// statusWrittenAt returns when the status of a Vpc was last written. Only Kube-OVN writes it.
func statusWrittenAt(fields []metav1.ManagedFieldsEntry) time.Time {
	return latestEntryTime(fields, func(f metav1.ManagedFieldsEntry) bool { return f.Subresource == "status" })
}

func latestEntryTime(fields []metav1.ManagedFieldsEntry, fits func(metav1.ManagedFieldsEntry) bool) (at time.Time) {
	for _, f := range fields {
		if fits(f) && f.Time != nil && f.Time.After(at) {
			at = f.Time.Time
		}
	}
	return at
}

// readAddressHolders returns which OvnEip among the inputs holds each address.
func (in *Inputs) readAddressHolders() map[netip.Addr]snapshot.AddressOwner {
	out := map[netip.Addr]snapshot.AddressOwner{}
	for _, name := range slices.Sorted(maps.Keys(in.ovnEips)) {
		o := in.ovnEips[name]
		for _, text := range []string{o.Spec.External(), o.Status.External()} {
			if a, err := netip.ParseAddr(text); err == nil && (text == o.Status.External() || out[a].OvnEip == "") {
				out[a] = snapshot.AddressOwner{OvnEip: name, Shard: cmp.Or(ownerShard(o), offeredShard(o))}
			}
		}
	}
	return out
}

func (in *Inputs) readVMs() map[string][]intent.VMInterface {
	out := map[string][]intent.VMInterface{}
	for key, vm := range in.vms {
		out[key] = nil
		for _, i := range vm.Status.Interfaces {
			found := intent.VMInterface{VM: vm.Name, Interface: i.Name, InGuest: i.InterfaceName, MAC: i.MAC}
			second := found
			for _, text := range append([]string{i.IP}, i.IPs...) {
				a, err := netip.ParseAddr(text)
				switch {
				case err != nil:
				case ipfamily.Of(a) == kubeovn.ExternalFamily && !found.Address.IsValid():
					found.Address = a
				case ipfamily.Of(a) != kubeovn.ExternalFamily && !second.Address.IsValid() && !a.IsLinkLocalUnicast():
					second.Address = a
				}
			}
			out[key] = append(out[key], found)
			if second.Address.IsValid() {
				out[key] = append(out[key], second)
			}
		}
	}
	return out
}
