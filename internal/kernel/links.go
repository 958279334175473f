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

	"github.com/sallyport/sallyport/internal/nodepath"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
)

// Links is the links with names of ours, their addresses, and what is in our VRFs.
type Links struct {
	kernel *Kernel
	lost   notes[string, []lostRoute] // by interface
}

// Links is a target. Routes that interfaces lose are written down in a directory of ours below /run.
func (k *Kernel) Links(dir string) Links {
	return Links{k, notes[string, []lostRoute](filepath.Join(dir, "routes.json"))}
}

// Scope says which links are ours.
func (Links) Scope() string {
	return fmt.Sprintf("links %s…, %s… and %s…, and what is in such a VRF", ownership.NodeVRFs, ownership.NodeLegs, ownership.NodeFarLegs)
}

// Observe returns our links. An interface that has lost routes to a VRF and is in none now is still to be looked after.
func (t Links) Observe(context.Context) (nodepath.Links, error) {
	lost, err := t.lost.read()
	if err != nil {
		return nil, err
	}
	links, err := t.kernel.links()
	if err != nil {
		return nil, err
	}
	addresses, err := t.kernel.addresses()
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
		put(nodepath.ItsMaster, name, nodepath.Link{})
	}
	for _, l := range links {
		a := l.Attrs()
		if master := names[a.MasterIndex]; strings.HasPrefix(master, ownership.NodeVRFs) {
			put(nodepath.ItsMaster, a.Name, nodepath.Link{Master: master})
		}
		switch l := l.(type) {
		case *netlink.Vrf:
			if ours(a.Name) {
				put(nodepath.ItsBeing, a.Name, nodepath.Link{VRF: int(l.Table)})
			}
		case *netlink.Veth:
			if strings.HasPrefix(a.Name, ownership.NodeLegs) { // the other end comes and goes with it
				put(nodepath.ItsBeing, a.Name, nodepath.Link{Peer: names[a.ParentIndex]})
			}
			if has := addresses[a.Index]; len(has) > 0 && ours(a.Name) {
				put(nodepath.ItsAddress, a.Name, nodepath.Link{Addresses: inOrder(has)})
			}
		}
	}
	return out, nil
}

// inOrder is addresses with spaces between.
func inOrder(list []netip.Prefix) string {
	slices.SortFunc(list, netip.Prefix.Compare)
	var out []string
	for _, p := range list {
		out = append(out, p.String())
	}
	return strings.Join(out, " ")
}

// Apply makes links, and takes them away.
func (t Links) Apply(_ context.Context, changes []state.Change[nodepath.LinkKey, nodepath.Link]) map[nodepath.LinkKey]error {
	failed := map[nodepath.LinkKey]error{}
	for _, c := range changes {
		if c.After == nil {
			continue
		}
		if err := t.make(c); err != nil {
			failed[c.Key] = err
		}
	}
	for _, c := range slices.Backward(changes) {
		if c.After == nil {
			if err := t.remove(c.Key); err != nil && !gone(err) {
				failed[c.Key] = err
			}
		}
	}
	return failed
}

func (t Links) make(c state.Change[nodepath.LinkKey, nodepath.Link]) error {
	switch c.Key.Aspect {
	case nodepath.ItsBeing:
		return t.create(c)
	case nodepath.ItsMaster:
		return t.enslave(c.Key.Name, c.After.Master)
	default:
		return t.address(c.Key.Name, c.After.Addresses)
	}
}

// create makes a link; one that is another goes before.
func (t Links) create(c state.Change[nodepath.LinkKey, nodepath.Link]) error {
	if c.Before != nil && *c.Before != *c.After {
		if err := t.remove(c.Key); err != nil && !gone(err) {
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
		return fmt.Errorf("this kernel can't make it (%w); load the module vrf, or choose another method", err)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	for _, name := range names {
		if err := t.up(name); err != nil {
			return err
		}
	}
	return nil
}

func (t Links) up(name string) error {
	l, err := t.kernel.handle.LinkByName(name)
	if err != nil {
		return err
	}
	return t.kernel.handle.LinkSetUp(l)
}

// enslave puts a link into a VRF of ours. The kernel takes it down and up for that, and routes by it go.
func (t Links) enslave(name, master string) error {
	l, err := t.kernel.handle.LinkByName(name)
	if err != nil {
		return err
	}
	m, err := t.kernel.handle.LinkByName(master)
	if err != nil {
		return err
	}
	if l.Attrs().MasterIndex == 0 && !ours(name) {
		if err := t.leave(l); err != nil {
			return fmt.Errorf("write down its routes: %w", err)
		}
	}
	return t.kernel.handle.LinkSetMaster(l, m)
}

// release takes a link out of a VRF of ours, and puts back what it lost to that.
func (t Links) release(name string) error {
	l, err := t.kernel.handle.LinkByName(name)
	if err == nil && l.Attrs().MasterIndex != 0 {
		var m netlink.Link
		if m, err = t.kernel.handle.LinkByIndex(l.Attrs().MasterIndex); err == nil && ours(m.Attrs().Name) {
			err = t.kernel.handle.LinkSetNoMaster(l)
		}
	}
	if err != nil && !gone(err) {
		return err
	}
	return t.back(name)
}

// address gives a link its addresses.
func (t Links) address(name, addresses string) error {
	l, err := t.kernel.handle.LinkByName(name)
	if err != nil {
		return err
	}
	for text := range strings.FieldsSeq(addresses) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		if err := t.kernel.handle.AddrReplace(l, &netlink.Addr{IPNet: netOf(p), Flags: unix.IFA_F_NODAD}); err != nil {
			return err
		}
	}
	have, err := t.kernel.addresses()
	if err != nil {
		return err
	}
	for _, p := range have[l.Attrs().Index] {
		if !slices.Contains(strings.Fields(addresses), p.String()) {
			if err := t.kernel.handle.AddrDel(l, &netlink.Addr{IPNet: netOf(p)}); err != nil && !gone(err) {
				return err
			}
		}
	}
	return nil
}

func (t Links) remove(key nodepath.LinkKey) error {
	if key.Aspect == nodepath.ItsMaster {
		return t.release(key.Name)
	}
	l, err := t.kernel.handle.LinkByName(key.Name)
	if err != nil {
		return err
	}
	if key.Aspect == nodepath.ItsBeing {
		return t.kernel.handle.LinkDel(l)
	}
	return t.address(key.Name, "")
}
