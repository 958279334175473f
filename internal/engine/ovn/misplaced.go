package ovn

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Keys in the external_ids of a switch port, written by Kube-OVN: the pod as NAMESPACE/NAME, and the switch. Tenants
// can't write them. They do choose half of the port's name (POD.NAMESPACE), so the name is not used for this.
const (
	podIDKey    = "pod"
	switchIDKey = "ls"
)

// misplacedPorts indexes the ports of pods that are not on the switch of their namespace's project, by switch, by
// namespace and by pod. In the database, finding them would take a scan of all ports.
type misplacedPorts struct {
	mu         sync.Mutex
	uuidsByKey map[string]map[string]bool // "switch NAME", "namespace NAME" or "pod NAMESPACE/NAME" → UUIDs
}

// indexExisting adds all ports in the cache. The events of these rows may arrive later; a reader must not miss a port
// before that.
func (m *misplacedPorts) indexExisting(s *session) {
	for _, row := range s.tableCache.Table(nb.LogicalSwitchPortTable).RowsShallow() {
		p := row.(*nb.LogicalSwitchPort)
		if port, is := s.decodeMisplacedPort(p); is {
			m.setMisplaced(p.UUID, port, true)
		}
	}
}

// setMisplaced records whether a port is misplaced.
func (m *misplacedPorts) setMisplaced(uuid string, port snapshot.PodPort, is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uuidsByKey == nil {
		m.uuidsByKey = map[string]map[string]bool{}
	}
	for _, key := range []string{
		switchIndexKey(port.Subnet), namespaceIndexKey(port.Namespace), podIndexKey(port.Namespace, port.Pod),
	} {
		switch {
		case is && m.uuidsByKey[key] == nil:
			m.uuidsByKey[key] = map[string]bool{uuid: true}
		case is:
			m.uuidsByKey[key][uuid] = true
		default:
			if delete(m.uuidsByKey[key], uuid); len(m.uuidsByKey[key]) == 0 {
				delete(m.uuidsByKey, key)
			}
		}
	}
}

// findUUIDs returns the UUIDs under some keys.
func (m *misplacedPorts) findUUIDs(keys ...string) (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		for uuid := range m.uuidsByKey[key] {
			out = append(out, uuid)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func switchIndexKey(name string) string    { return "switch " + name }
func namespaceIndexKey(name string) string { return "namespace " + name }
func podIndexKey(namespace, name string) string {
	return "pod " + snapshot.PodKey(namespace, name)
}

// decodeMisplacedPort decodes the port of a pod that is not on the switch of its namespace's project. It does not know
// whether the namespace has a project, or whether an operator has allowed this. A Subnet of the management VPC can have
// the name of a project's.
func (s *session) decodeMisplacedPort(p *nb.LogicalSwitchPort) (snapshot.PodPort, bool) {
	namespace, pod, isPod := strings.Cut(p.ExternalIDs[podIDKey], "/")
	out := snapshot.PodPort{
		Name: p.Name, Namespace: namespace, Pod: pod, Subnet: p.ExternalIDs[switchIDKey], Addresses: assignedAddresses(p),
	}
	// Other ports of Kube-OVN, such as those of multicast queriers, also name a pod, but are named differently.
	called := kubeovn.IsPodPort(p.Name, pod, namespace)
	return out, isPod && called && p.Type == "" && out.Subnet != "" &&
		(out.Subnet != ownership.VPCSubnetName(namespace) || s.isManagementSwitch(out.Subnet))
}

// assignedAddresses returns the IP addresses of a port. Kube-OVN writes them after the MAC address.
func assignedAddresses(p *nb.LogicalSwitchPort) (out []netip.Addr) {
	for _, entry := range p.Addresses {
		for field := range strings.FieldsSeq(entry) {
			if a, err := netip.ParseAddr(field); err == nil {
				out = append(out, a)
			}
		}
	}
	return out
}

// MisplacedPodPorts returns the ports of foreign pods on the switch of a project, and those of the project's pods on
// other switches. In the management VPC, which has no namespace of its name, these are all pods of its switches.
func (c *Client) MisplacedPodPorts(shard string) (out []snapshot.PodPort) {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	keys := []string{switchIndexKey(ownership.VPCSubnetName(shard)), namespaceIndexKey(shard)}
	if shard == kubeovn.ManagementVpc {
		for _, port := range s.routerPortNames(shard) {
			if subnet, is := strings.CutPrefix(port, kubeovn.RouterPort(shard, "")); is {
				keys = append(keys, switchIndexKey(subnet))
			}
		}
	}
	return s.readMisplacedPorts(keys...)
}

// ManagementPodPorts returns the ports of a pod on the switches of the management VPC: a part of what MisplacedPodPorts
// returns for it, whose cost does not depend on the rest.
func (c *Client) ManagementPodPorts(namespace, pod string) []snapshot.PodPort {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(s.readMisplacedPorts(podIndexKey(namespace, pod)), func(p snapshot.PodPort) bool {
		return !s.isManagementSwitch(p.Subnet)
	})
}

// readMisplacedPorts returns the ports under some keys, sorted by name.
func (s *session) readMisplacedPorts(keys ...string) (out []snapshot.PodPort) {
	for _, uuid := range s.misplaced.findUUIDs(keys...) {
		p, there := rowByUUID[nb.LogicalSwitchPort](s, nb.LogicalSwitchPortTable, uuid)
		if !there {
			continue // deleted; the event has not arrived yet
		}
		if port, is := s.decodeMisplacedPort(p); is {
			out = append(out, port)
		}
	}
	slices.SortFunc(out, func(a, b snapshot.PodPort) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// trackMisplacedPort records an added, changed or deleted port. It notifies the project of the switch and the project
// of the pod. On a switch of the management VPC, it says which pod.
func (x *rowIndex) trackMisplacedPort(old, row model.Model) {
	for _, m := range []model.Model{old, row} {
		p, isPort := m.(*nb.LogicalSwitchPort)
		if !isPort {
			continue
		}
		port, is := x.session.decodeMisplacedPort(p)
		if !is {
			continue
		}
		x.session.misplaced.setMisplaced(p.UUID, port, m == row)
		x.notify(port.Namespace)
		if x.session.isManagementSwitch(port.Subnet) {
			x.notifyPod(port.Namespace, port.Pod)
		}
		if shard, ofProject := strings.CutSuffix(port.Subnet, ownership.SubnetSuffix); ofProject {
			x.notify(shard)
		}
	}
}

// isManagementSwitch reports whether a switch is connected to the router of the management VPC. Kube-OVN connects a
// switch before it adds the ports of pods to it.
func (s *session) isManagementSwitch(name string) bool {
	return name == kubeovn.ManagementSubnet ||
		s.routerPortByName(kubeovn.RouterPort(kubeovn.ManagementVpc, name)) != nil
}
