package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// nftablesGroup is the multicast group for nftables events.
const nftablesGroup = 7

// Watch calls changed after any relevant change: links, addresses, routes, rules, sysctls of interfaces, nftables. It
// runs until the context ends.
func (k *Kernel) Watch(ctx context.Context, changed func()) error {
	routing, err := nl.Subscribe(unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
		unix.RTNLGRP_IPV6_ROUTE,
		unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF)
	if err != nil {
		return fmt.Errorf("watch routing: %w", err)
	}
	filtering, err := nl.Subscribe(unix.NETLINK_NETFILTER, nftablesGroup)
	if err != nil {
		routing.Close()
		return fmt.Errorf("watch nftables: %w", err)
	}
	sockets := []*nl.NetlinkSocket{routing, filtering}
	for _, socket := range sockets {
		if err := socket.SetReceiveTimeout(&unix.Timeval{Sec: 1}); err != nil { // to notice the end of the context
			routing.Close()
			filtering.Close()
			return fmt.Errorf("watch: %w", err)
		}
	}
	for _, socket := range sockets {
		go receiveEvents(ctx, socket, changed)
	}
	return nil
}

// receiveEvents calls changed for each event. If the buffer overflowed, something changed.
func receiveEvents(ctx context.Context, socket *nl.NetlinkSocket, changed func()) {
	defer socket.Close()
	for ctx.Err() == nil {
		_, _, err := socket.Receive()
		switch {
		case err == nil || errors.Is(err, unix.ENOBUFS):
			changed()
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		default:
			return
		}
	}
}
