package harness

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// CountConnections returns how many TCP connections were opened, used for one request and closed.
func CountConnections(from netns.NS, address string, length time.Duration) (float64, error) {
	const workers = 4
	begun := time.Now()
	made, errs := make([]int, workers), make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			// one thread for all connections: entering the namespace costs more than connecting
			errs[i] = from.Do(func() error {
				for time.Since(begun) < length {
					if err := connectOnce(address); err != nil {
						return err
					}
					made[i]++
				}
				return nil
			})
		})
	}
	all.Wait()
	sum := 0
	for i := range workers {
		if errs[i] != nil {
			return 0, errs[i]
		}
		sum += made[i]
	}
	return float64(sum), nil
}

// connectOnce opens one connection, sends a request and closes it.
func connectOnce(address string) error {
	conn, err := net.DialTimeout("tcp", address+":80", 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer has come
	return ExchangeLine(conn, 5*time.Second)
}

// MeasureDownload returns the MB received from a pod.
func MeasureDownload(from netns.NS, address string, length time.Duration) (float64, error) {
	return transferBulk(from, address, length, "GET /blob?mb=4096 HTTP/1.1\r\nHost: x\r\n\r\n",
		func(conn net.Conn, b []byte) (int, error) {
			return conn.Read(b)
		})
}

// MeasureUpload returns the MB sent to a pod.
func MeasureUpload(from netns.NS, address string, length time.Duration) (float64, error) {
	return transferBulk(from, address, length, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 4294967296\r\n\r\n",
		func(conn net.Conn, b []byte) (int, error) { return conn.Write(b) })
}

// transferBulk reads or writes as much as possible in the given time.
func transferBulk(from netns.NS, address string, length time.Duration, request string,
	move func(net.Conn, []byte) (int, error),
) (float64, error) {
	var conn net.Conn
	err := from.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", address+":80", 5*time.Second)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // it is cut in its middle
	if err := conn.SetDeadline(time.Now().Add(length + 5*time.Second)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, err
	}
	sum, b, begun := 0, make([]byte, 256<<10), time.Now()
	for time.Since(begun) < length {
		n, err := move(conn, b)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return float64(sum) / 1e6, nil
}

// ExchangeLine sends a line and reads one.
func ExchangeLine(conn net.Conn, limit time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return err
	}
	_, err := bufio.NewReader(conn).ReadString('\n')
	return err
}
