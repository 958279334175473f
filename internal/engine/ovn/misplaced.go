package ovn

import (
	"slices"
	"strings"
	"sync"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Keys of a switch port's external_ids, as Kube-OVN writes them: the pod as NAMESPACE/NAME, and the switch. Tenants
// can't write them; the port's name, POD.NAMESPACE, is half theirs, and is not read for that.
const (
	podIDKey    = "pod"
	switchIDKey = "ls"
)

// misplacedPorts are the ports of pods that are on another switch than that of their namespace's project: by the
// switch, and by the namespace. In the database only a look at all ports would tell.
type misplacedPorts struct {
	mu         sync.Mutex
	uuidsByKey map[string]map[string]bool // "switch NAME" or "namespace NAME" → UUIDs
}

// indexExisting takes the whole copy in. Events of its rows may come later: whoever looks before them must not take a
// port for gone.
func (m *misplacedPorts) indexExisting(s *session) {
	for _, row := range s.tableCache.Table(nb.LogicalSwitchPortTable).RowsShallow() {
		p := row.(*nb.LogicalSwitchPort)
		if port, is := decodeMisplacedPort(p); is {
			m.setMisplaced(p.UUID, port, true)
		}
	}
}

// setMisplaced takes down that a port is misplaced, or is not any more.
func (m *misplacedPorts) setMisplaced(uuid string, port snapshot.PodPort, is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uuidsByKey == nil {
		m.uuidsByKey = map[string]map[string]bool{}
	}
	for _, key := range []string{switchIndexKey(port.Subnet), namespaceIndexKey(port.Namespace)} {
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

// findUUIDs are the UUIDs under some keys.
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

// decodeMisplacedPort reads the port of a pod that is on another switch than that of its namespace's project. Whether
// the namespace has a project, and whether an operator wants it so, is not known here.
func decodeMisplacedPort(p *nb.LogicalSwitchPort) (snapshot.PodPort, bool) {
	namespace, pod, isPod := strings.Cut(p.ExternalIDs[podIDKey], "/")
	out := snapshot.PodPort{Name: p.Name, Namespace: namespace, Pod: pod, Subnet: p.ExternalIDs[switchIDKey]}
	// Ports that Kube-OVN has for itself, such as those of multicast queriers, are of a pod too, but are not called so.
	called := kubeovn.IsPodPort(p.Name, pod, namespace)
	return out, isPod && called && p.Type == "" && out.Subnet != "" && out.Subnet != ownership.VPCSubnetName(namespace)
}

// MisplacedPodPorts are the ports of pods of other namespaces on the switch of a project, and those of its own pods on
// other switches.
func (c *Client) MisplacedPodPorts(shard string) (out []snapshot.PodPort) {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	for _, uuid := range s.misplaced.findUUIDs(switchIndexKey(ownership.VPCSubnetName(shard)),
		namespaceIndexKey(shard)) {
		p, there := rowByUUID[nb.LogicalSwitchPort](s, nb.LogicalSwitchPortTable, uuid)
		if !there {
			continue // its end was not told yet
		}
		if port, is := decodeMisplacedPort(p); is {
			out = append(out, port)
		}
	}
	slices.SortFunc(out, func(a, b snapshot.PodPort) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// trackMisplacedPort notes a port that has come, changed or gone, and tells the project whose switch it is on and the
// one whose pod it is.
func (x *rowIndex) trackMisplacedPort(old, row model.Model) {
	for _, m := range []model.Model{old, row} {
		p, isPort := m.(*nb.LogicalSwitchPort)
		if !isPort {
			continue
		}
		port, is := decodeMisplacedPort(p)
		if !is {
			continue
		}
		x.session.misplaced.setMisplaced(p.UUID, port, m == row)
		x.notify(port.Namespace)
		if shard, ofProject := strings.CutSuffix(port.Subnet, ownership.SubnetSuffix); ofProject {
			x.notify(shard)
		}
	}
}
