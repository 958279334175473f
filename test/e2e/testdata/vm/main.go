// Command vm is what runs in the virtual machine of a tenant: it answers as lab/echo does, and sends to a host outside.
//
//	vm PREFIX GATEWAY MTU HOST
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/program"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if err := connect(args[0], args[1], args[2]); err != nil {
		return err
	}
	ctx := context.Background()
	go send(ctx, args[3])
	return program.Echo(ctx, netns.Own(), program.Spec{Name: "vm", Log: os.Stdout})
}

// connect gives the network card its address and its route.
func connect(prefix, gateway, mtu string) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	own := netns.Own()
	for _, l := range links {
		if l.Type() != "device" || l.Attrs().Flags&net.FlagLoopback != 0 {
			continue
		}
		size, err := strconv.Atoi(mtu)
		name := l.Attrs().Name
		return errors.Join(err, own.SetMTU(name, size), own.LinkUp("lo"),
			own.AddAddresses(name, netip.MustParsePrefix(prefix)), own.LinkUp(name),
			own.AddRoutes(netns.Route{Via: netip.MustParseAddr(gateway), Dev: name}))
	}
	return errors.New("there is no network card")
}

// send sends a line every 100 ms on one connection: how many others it has opened, and how many of these failed.
func send(ctx context.Context, host string) {
	var opened, failed atomic.Int64
	go func() {
		for range time.Tick(200 * time.Millisecond) {
			limited, cancel := context.WithTimeout(ctx, 2*time.Second)
			_, err := program.Ask(limited, netns.Own(), "http://"+host)
			cancel()
			if opened.Add(1); err != nil {
				failed.Add(1)
			}
		}
	}()
	for {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, "9500"), time.Second) //nolint:gosec // the host of the test
		if err != nil {
			continue
		}
		for range time.Tick(100 * time.Millisecond) {
			if _, err := fmt.Fprintln(conn, opened.Load(), failed.Load()); err != nil {
				break // a new connection: the test counts them
			}
		}
	}
}
