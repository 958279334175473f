package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Links are the links with our names, their addresses, and the members of our VRFs.
type Links struct {
	kernel     *Kernel
	lostRoutes backupFile[string, []lostRoute] // by interface
}

// Links returns the target for links. It saves routes that interfaces lose in our directory below /run.
func (k *Kernel) Links(dir string) Links {
	return Links{k, backupFile[string, []lostRoute](filepath.Join(dir, "routes.json"))}
}

// Scope describes which links are ours.
func (Links) Scope() string {
	return fmt.Sprintf("links %s…, %s… and %s…, and the members of such a VRF", ownership.NodeVRFPrefix,
		ownership.NodeVethPrefix, ownership.NodeVethPeerPrefix)
}

// Observe returns our links. They include interfaces that lost routes to a VRF and are in none now: the routes still
// have to be restored.
func (t Links) Observe(context.Context) (nodepath.Links, error) {
	lost, err := t.lostRoutes.read()
	if err != nil {
		return nil, err
	}
	links, err := t.kernel.listLinks()
	if err != nil {
		return nil, err
	}
	addresses, err := t.kernel.listAddresses()
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	out := nodepath.Links{}
	put := func(aspect nodepath.LinkAspect, name string, v nodepath.Link) {
		out[nodepath.LinkKey{Aspect: aspect, Name: name}] = state.Entry[nodepath.Link]{Value: v}
	}
	for name := range lost {
		put(nodepath.LinkMaster, name, nodepath.Link{})
	}
	for _, l := range links {
		a := l.Attrs()
		if master := names[a.MasterIndex]; strings.HasPrefix(master, ownership.NodeVRFPrefix) {
			put(nodepath.LinkMaster, a.Name, nodepath.Link{Master: master})
		}
		switch l := l.(type) {
		case *netlink.Vrf:
			if isOwnLinkName(a.Name) {
				put(nodepath.LinkDevice, a.Name, nodepath.Link{VRF: int(l.Table)})
			}
		case *netlink.Veth:
			if strings.HasPrefix(a.Name, ownership.NodeVethPrefix) { // the other end is created and deleted with it
				put(nodepath.LinkDevice, a.Name, nodepath.Link{Peer: names[a.ParentIndex]})
			}
			if has := addresses[a.Index]; len(has) > 0 && isOwnLinkName(a.Name) {
				put(nodepath.LinkAddresses, a.Name, nodepath.Link{Addresses: joinPrefixes(has)})
			}
		}
	}
	return out, nil
}

// joinPrefixes returns addresses separated by spaces.
func joinPrefixes(list []netip.Prefix) string {
	slices.SortFunc(list, netip.Prefix.Compare)
	var out []string
	for _, p := range list {
		out = append(out, p.String())
	}
	return strings.Join(out, " ")
}

// Apply creates, updates and deletes links.
func (t Links) Apply(_ context.Context, changes []state.Change[nodepath.LinkKey,
	nodepath.Link],
) map[nodepath.LinkKey]error {
	failed := map[nodepath.LinkKey]error{}
	for _, c := range changes {
		if c.After == nil {
			continue
		}
		if err := t.applyAspect(c); err != nil {
			failed[c.Key] = err
		}
	}
	for _, c := range slices.Backward(changes) {
		if c.After == nil {
			if err := t.removeAspect(c.Key); err != nil && !isNotFound(err) {
				failed[c.Key] = err
			}
		}
	}
	return failed
}

func (t Links) applyAspect(c state.Change[nodepath.LinkKey, nodepath.Link]) error {
	switch c.Key.Aspect {
	case nodepath.LinkDevice:
		return t.createLink(c)
	case nodepath.LinkMaster:
		return t.setMaster(c.Key.Name, c.After.Master)
	default:
		return t.setAddresses(c.Key.Name, c.After.Addresses)
	}
}

// createLink creates a link. It deletes an existing one of another type first.
func (t Links) createLink(c state.Change[nodepath.LinkKey, nodepath.Link]) error {
	if c.Before != nil && *c.Before != *c.After {
		if err := t.removeAspect(c.Key); err != nil && !isNotFound(err) {
			return err
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = c.Key.Name
	var link netlink.Link = &netlink.Veth{LinkAttrs: attrs, PeerName: c.After.Peer}
	names := []string{c.Key.Name, c.After.Peer}
	if c.After.VRF != 0 {
		link, names = &netlink.Vrf{LinkAttrs: attrs, Table: uint32(c.After.VRF)}, names[:1] //nolint:gosec // of our tables
	}
	err := t.kernel.handle.LinkAdd(link)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("this kernel does not support the link type (%w); load the kernel module vrf, or choose "+
			"another method", err)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	for _, name := range names {
		if err := t.setLinkUp(name); err != nil {
			return err
		}
	}
	return nil
}

func (t Links) setLinkUp(name string) error {
	l, err := t.kernel.handle.LinkByName(name)
	if err != nil {
		return err
	}
	return t.kernel.handle.LinkSetUp(l)
}

// setMaster adds a link to one of our VRFs. The kernel sets the link down and up for that, and deletes its routes.
func (t Links) setMaster(name, master string) error {
	l, err := t.kernel.handle.LinkByName(name)
	if err != nil {
		return err
	}
	m, err := t.kernel.handle.LinkByName(master)
	if err != nil {
		return err
	}
	if l.Attrs().MasterIndex == 0 && !isOwnLinkName(name) {
		if err := t.saveRoutes(l); err != nil {
			return fmt.Errorf("save its routes: %w", err)
		}
	}
	return t.kernel.handle.LinkSetMaster(l, m)
}

// clearMaster removes a link from one of our VRFs and restores the routes it lost.
func (t Links) clearMaster(name string) error {
	l, err := t.kernel.handle.LinkByName(name)
	if err == nil && l.Attrs().MasterIndex != 0 {
		var m netlink.Link
		if m, err = t.kernel.handle.LinkByIndex(l.Attrs().MasterIndex); err == nil && isOwnLinkName(m.Attrs().Name) {
			err = t.kernel.handle.LinkSetNoMaster(l)
		}
	}
	if err != nil && !isNotFound(err) {
		return err
	}
	return t.restoreRoutes(name)
}

// setAddresses sets the addresses of a link.
func (t Links) setAddresses(name, addresses string) error {
	l, err := t.kernel.handle.LinkByName(name)
	if err != nil {
		return err
	}
	for text := range strings.FieldsSeq(addresses) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		if err := t.kernel.handle.AddrReplace(l,
			&netlink.Addr{IPNet: ipNetFromPrefix(p), Flags: unix.IFA_F_NODAD}); err != nil {
			return err
		}
	}
	have, err := t.kernel.listAddresses()
	if err != nil {
		return err
	}
	for _, p := range have[l.Attrs().Index] {
		if !slices.Contains(strings.Fields(addresses), p.String()) {
			if err := t.kernel.handle.AddrDel(l, &netlink.Addr{IPNet: ipNetFromPrefix(p)}); err != nil &&
				!isNotFound(err) {
				return err
			}
		}
	}
	return nil
}

func (t Links) removeAspect(key nodepath.LinkKey) error {
	if key.Aspect == nodepath.LinkMaster {
		return t.clearMaster(key.Name)
	}
	l, err := t.kernel.handle.LinkByName(key.Name)
	if err != nil {
		return err
	}
	if key.Aspect == nodepath.LinkDevice {
		return t.kernel.handle.LinkDel(l)
	}
	return t.setAddresses(key.Name, "")
}
