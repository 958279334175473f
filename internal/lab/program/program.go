// Package program is what runs in a lab's pods: small servers and clients, chosen by image name.
package program

import (
	"context"
	"io"
	"net"
)

// Net is where a program listens and dials: the network namespace of its pod. Addresses are literal.
type Net interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Spec is what a container gives its program.
type Spec struct {
	Name string            // who answers: the pod's name
	Args []string          // the container's args
	Env  map[string]string // the container's env
	Log  io.Writer
}

// Program runs until its context ends or it has finished; a returned error is a crash.
type Program func(ctx context.Context, n Net, spec Spec) error
