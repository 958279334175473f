// Package world is the outside of a lab: wires, routers that drop what a data centre's routers drop, clients,
// neighbours and one internet host.
package world

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

// Internet is the namespace of the internet host, which also carries packets between the routers.
const Internet = "internet"

// Build makes the outside of the lab. The wires are bridges of the calling process's own namespace, so that is to be a
// namespace of the lab's own; a failed build is cleared away with it.
func Build(ctx context.Context, b blueprint.Blueprint) error {
	if err := wiresDoNotFilter(); err != nil {
		return err
	}
	segments := b.Segments()
	if err := placeInternet(segments); err != nil {
		return fmt.Errorf("build the internet host: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, seg := range segments {
		group.Go(func() error {
			if err := buildSegment(ctx, seg); err != nil {
				return fmt.Errorf("build segment %s: %w", seg.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func buildSegment(ctx context.Context, seg blueprint.Segment) error {
	if err := layWire(seg); err != nil {
		return err
	}
	if err := placeRouter(ctx, seg); err != nil {
		return err
	}
	if err := placeClient(seg); err != nil {
		return err
	}
	if err := placeNeighbour(seg); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return connectInternet(seg)
}

func placeInternet(segments []blueprint.Segment) error {
	var every []netip.Prefix
	for _, seg := range segments {
		every = append(every, seg.Prefixes...)
	}
	ns, err := createHost(Internet, familiesOf(every), forwards)
	if err != nil {
		return err
	}
	var addresses []netip.Prefix
	for _, a := range blueprint.InternetAddresses() {
		if familiesOf(every).has(a) {
			addresses = append(addresses, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return ns.AddAddresses("lo", addresses...)
}

// placeRouter loads the rules before there is a cable, so that no packet passes unseen.
func placeRouter(ctx context.Context, seg blueprint.Segment) error {
	ns, err := createHost(seg.Router, familiesOf(seg.Prefixes), forwards)
	if err != nil {
		return err
	}
	if err := guard(ctx, ns); err != nil {
		return err
	}
	return Attach(seg, netns.End{NS: ns, Name: lanSide, Addresses: seg.Gateways}, blueprint.WireMTU)
}

func placeClient(seg blueprint.Segment) error {
	ns, err := createHost(seg.Client, familiesOf(seg.Prefixes), ends)
	if err != nil {
		return err
	}
	router := netns.End{NS: netns.Named(seg.Router), Name: clientSide}
	client := netns.End{NS: ns, Name: "eth0"}
	var routes []netns.Route
	for _, pair := range seg.ClientSide {
		router.Addresses = append(router.Addresses, pair.Router)
		client.Addresses = append(client.Addresses, pair.Peer)
		routes = append(routes, netns.Route{Via: pair.Router.Addr(), Dev: client.Name})
	}
	if err := netns.Veth(router, client, blueprint.WireMTU); err != nil {
		return err
	}
	return ns.AddRoutes(routes...)
}

func placeNeighbour(seg blueprint.Segment) error {
	ns, err := createHost(seg.Neighbour, familiesOf(seg.Prefixes), ends)
	if err != nil {
		return err
	}
	if err := Attach(seg, netns.End{NS: ns, Name: "eth0", Addresses: seg.Neighbours}, blueprint.WireMTU); err != nil {
		return err
	}
	var routes []netns.Route
	for _, gateway := range seg.Gateways {
		routes = append(routes, netns.Route{Via: gateway.Addr(), Dev: "eth0"})
	}
	return ns.AddRoutes(routes...)
}

// connectInternet gives the internet host one address for all networks: it says the same source whichever router it
// comes in by, so that a reply that leaves by another network's router is a reply to the same host.
func connectInternet(seg blueprint.Segment) error {
	router := netns.End{NS: netns.Named(seg.Router), Name: wanSide}
	internet := netns.End{NS: netns.Named(Internet), Name: seg.Name}
	var up, down []netns.Route
	for i, pair := range seg.WideArea {
		router.Addresses = append(router.Addresses, pair.Router)
		internet.Addresses = append(internet.Addresses, pair.Peer)
		up = append(up, netns.Route{Via: pair.Peer.Addr(), Dev: router.Name})
		for _, dst := range []netip.Prefix{seg.Prefixes[i], seg.ClientSide[i].Router.Masked()} {
			route := netns.Route{Dst: dst, Via: pair.Router.Addr(), Dev: internet.Name, Src: internetAddress(dst)}
			down = append(down, route)
		}
	}
	if err := netns.Veth(router, internet, blueprint.WireMTU); err != nil {
		return err
	}
	if err := router.NS.AddRoutes(up...); err != nil {
		return err
	}
	return internet.NS.AddRoutes(down...)
}

// internetAddress is the internet host's address of p's family.
func internetAddress(p netip.Prefix) netip.Addr {
	for _, a := range blueprint.InternetAddresses() {
		if a.BitLen() == p.Addr().BitLen() {
			return a
		}
	}
	return netip.Addr{}
}
