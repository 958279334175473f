// Package netns is one named network namespace: made, entered, wired and removed.
package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dir is where named namespaces are bound, as iproute2 expects it; inside a lab it is a mount of the lab's own.
const Dir = "/run/netns"

// NS is a network namespace that can be opened by path. The zero value is the caller's own namespace.
type NS struct {
	Name string
	path string
}

// Create makes a namespace called name, with its loopback up, and binds it under Dir.
func Create(name string) (NS, error) {
	ns := NS{Name: name, path: filepath.Join(Dir, name)}
	if err := os.MkdirAll(Dir, 0o755); err != nil {
		return NS{}, fmt.Errorf("make %s: %w", Dir, err)
	}
	f, err := os.OpenFile(ns.path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return NS{}, fmt.Errorf("bind namespace %s: %w", name, err)
	}
	_ = f.Close()
	if err := onThread(func() error { return unshareAndBind(ns.path) }); err != nil {
		_ = os.Remove(ns.path)
		return NS{}, fmt.Errorf("make namespace %s: %w", name, err)
	}
	if err := ns.LinkUp("lo"); err != nil {
		return NS{}, errors.Join(err, ns.Delete())
	}
	return ns, nil
}

func unshareAndBind(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "none", unix.MS_BIND, "")
}

// At is the namespace bound at path, wherever that is.
func At(path string) NS { return NS{Name: filepath.Base(path), path: path} }

// Named is the namespace that Create bound under name.
func Named(name string) NS { return At(filepath.Join(Dir, name)) }

// Own is the namespace of the calling process.
func Own() NS { return NS{} }

// Exists says whether the namespace is bound.
func (n NS) Exists() bool {
	_, err := os.Stat(n.path)
	return n.path == "" || err == nil
}

// Path is the file that a process enters to be in this namespace; empty for the caller's own.
func (n NS) Path() string { return n.path }

// Delete unbinds the namespace; the kernel frees it, and the links in it, with its last process or socket.
func (n NS) Delete() error {
	err := unix.Unmount(n.path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unbind namespace %s: %w", n.Name, err)
	}
	if err := os.Remove(n.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove namespace %s: %w", n.Name, err)
	}
	return nil
}

// Do runs fn on a thread that is in the namespace. A process that fn starts, or a socket that it opens, stays in it.
func (n NS) Do(fn func() error) error {
	if n.path == "" {
		return fn()
	}
	return onThread(func() error {
		f, err := os.Open(n.path)
		if err != nil {
			return fmt.Errorf("open namespace %s: %w", n.Name, err)
		}
		defer f.Close()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter namespace %s: %w", n.Name, err)
		}
		return fn()
	})
}

// onThread runs fn on an OS thread of its own and discards the thread, so that no namespace change outlives fn.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The runtime can't end the process's first thread, and /proc/self would go on showing what fn made of it.
			done <- onThread(fn)
			runtime.UnlockOSThread()
			return
		}
		done <- fn() // the thread is never unlocked: the runtime ends it with the goroutine
	}()
	return <-done
}

// Dial connects from inside the namespace. The address is literal: there are no names to look up in a lab.
func (n NS) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return n.DialFrom(ctx, &net.Dialer{}, network, address)
}

// DialFrom is Dial with a dialer of the caller's (local address, timeout, socket options).
func (n NS) DialFrom(ctx context.Context, d *net.Dialer, network, address string) (conn net.Conn, err error) {
	err = n.Do(func() (err error) {
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens for streams inside the namespace.
func (n NS) Listen(ctx context.Context, network, address string) (l net.Listener, err error) {
	err = n.Do(func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(ctx, network, address)
		return err
	})
	return l, err
}

// ListenPacket listens for packets inside the namespace; network may be "udp" or a raw "ip4:132".
func (n NS) ListenPacket(ctx context.Context, network, address string) (p net.PacketConn, err error) {
	err = n.Do(func() (err error) {
		p, err = (&net.ListenConfig{}).ListenPacket(ctx, network, address)
		return err
	})
	return p, err
}

// Sysctl writes net/… settings of the namespace, given as path below /proc/sys/net and value.
func (n NS) Sysctl(settings map[string]string) error {
	return n.Do(func() error {
		for key, value := range settings {
			if err := os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0); err != nil {
				return fmt.Errorf("set net/%s in %s: %w", key, n.Name, err)
			}
		}
		return nil
	})
}
