package daemon

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// openDoors serves the listeners that the lab was started with. They were opened outside and stay there: a socket
// belongs to the namespace it was made in.
func openDoors(doors []Door) error {
	for i, door := range doors {
		listener, err := net.FileListener(os.NewFile(uintptr(firstDoorFD+i), door.Name))
		if err != nil {
			return fmt.Errorf("open door %s: %w", door.Name, err)
		}
		go serveDoor(listener, door.Inside)
	}
	return nil
}

func serveDoor(l net.Listener, inside string) {
	for {
		guest, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			host, err := net.Dial("tcp", inside)
			if err != nil {
				_ = guest.Close()
				return
			}
			join(guest, host)
		}()
	}
}

// join passes bytes both ways until both sides have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			if half, ok := way[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
	_ = a.Close()
	_ = b.Close()
}
