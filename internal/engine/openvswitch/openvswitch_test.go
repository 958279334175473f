package openvswitch

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// serveProgram answers requests on a socket, by method. It refuses unknown methods like Open vSwitch does.
func serveProgram(t *testing.T, path string, answers map[string]string) {
	t.Helper()
	on, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = on.Close() })
	go func() {
		for {
			conn, err := on.Accept()
			if err != nil {
				return
			}
			var asked struct {
				Method string
				Params any
			}
			if json.NewDecoder(conn).Decode(&asked) == nil {
				fmt.Fprint(conn, encodeAnswer(answers, asked.Method, asked.Params))
			}
			_ = conn.Close()
		}
	}()
}

func encodeAnswer(answers map[string]string, method string, params any) string {
	answer, known := answers[method]
	switch {
	case !known:
		return fmt.Sprintf(`{"error":%q,"id":0,"result":null}`,
			fmt.Sprintf("%q is not a valid command (%v)\n", method, params))
	case strings.HasPrefix(answer, "["): // of a database
		return `{"id":0,"result":` + answer + `,"error":null}`
	}
	text, _ := json.Marshal(answer)
	return `{"id":0,"result":` + string(text) + `,"error":null}`
}

func contextWithTimeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

const configuredTables = `[
{"rows":[{"external_ids":["map",[["ovn-bridge-mappings","cloud:br-cloud,public:br-public,lost:br-lost"],["system-id","node1"]]]}]},
{"rows":[{"name":"br-cloud","ports":["set",[["uuid","p1"],["uuid","p2"],["uuid","p3"]]]},{"name":"br-public","ports":["uuid","p4"]},{"name":"br-int","ports":["set",[]]}]},
{"rows":[{"_uuid":["uuid","p1"],"interfaces":["uuid","i1"]},{"_uuid":["uuid","p2"],"interfaces":["set",[["uuid","i2"],["uuid","i3"]]]},
 {"_uuid":["uuid","p3"],"interfaces":["uuid","i4"]},{"_uuid":["uuid","p4"],"interfaces":["uuid","i5"]}]},
{"rows":[{"_uuid":["uuid","i1"],"name":"br-cloud","type":"internal","error":["set",[]],"external_ids":["map",[]]},
 {"_uuid":["uuid","i2"],"name":"eth2","type":"","error":["set",[]],"external_ids":["map",[]]},
 {"_uuid":["uuid","i3"],"name":"eth1","type":"","error":"could not open network device eth1 (No such device)","external_ids":["map",[]]},
 {"_uuid":["uuid","i4"],"name":"patch-a","type":"patch","error":["set",[]],"external_ids":["map",[]]},
 {"_uuid":["uuid","i5"],"name":"set","type":"","error":["set",[]],"external_ids":["map",[]]},
 {"_uuid":["uuid","i6"],"name":"pod_h","type":"","error":["set",[]],"external_ids":["map",[["iface-id","web.shop"]]]}]}]`

func TestState(t *testing.T) {
	dir := t.TempDir()
	serveProgram(t, filepath.Join(dir, "ovs-vswitchd.77.ctl"), map[string]string{
		"version": "ovs-vswitchd (Open vSwitch) 3.5.0", "dpctl/dump-dps": "netdev@ovs-netdev\n",
		"dpctl/ct-get-nconns": "12\n", "dpctl/ct-get-maxconns": "3000000",
	})
	serveProgram(t, filepath.Join(dir, "ovn-controller.ctl"),
		map[string]string{"connection-status": "not connected", "ct-zone-list": "web_snat 14\nweb.shop 2\n"})
	serveProgram(t, filepath.Join(dir, "ovn-controller-vtep.9.ctl"),
		map[string]string{"connection-status": "somebody else"})
	serveProgram(t, filepath.Join(dir, "db.sock"), map[string]string{"transact": configuredTables})
	got, failed := Node{dir, dir}.ReadState(contextWithTimeout(t))
	want := State{
		Version: "3.5.0", SBConnection: "not connected", Tracked: 12, MaxTracked: 3000000,
		Configuration: Configuration{Chassis: "node1", PodInterfaces: map[string]bool{"pod_h": true}, Bridges: []Bridge{
			{
				Name:       "br-cloud",
				Network:    "cloud",
				Interfaces: []string{"eth1", "eth2"},
				Problem:    "eth1: could not open network device eth1 (No such device)",
			},
			{Name: "br-public", Network: "public", Interfaces: []string{"set"}},
			{Name: "br-lost", Network: "lost", Problem: "there is no such bridge"},
		}},
	}
	if len(failed) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("it is\n%+v, %v\nwanted\n%+v", got, failed, want)
	}
	zones, err := Node{dir, dir}.ConntrackZones(contextWithTimeout(t))
	if want := map[int]string{14: "web_snat", 2: "web.shop"}; err != nil || !reflect.DeepEqual(zones, want) {
		t.Errorf("the zones are %v, %v, wanted %v", zones, err, want)
	}
}

// Packets are sent to the interfaces of pods only: neither to the node's own port nor to an uplink.
func TestPodInterfaces(t *testing.T) {
	dir := t.TempDir()
	serveProgram(t, filepath.Join(dir, "db.sock"), map[string]string{"transact": `[{"rows":[
{"name":"pod_h","type":"","external_ids":["map",[["iface-id","web.shop"]]]},
{"name":"pod_i","type":"system","external_ids":["map",[["iface-id","db.shop"]]]},
{"name":"ovn0","type":"internal","external_ids":["map",[["iface-id","node-node1"]]]},
{"name":"eth1","type":"","external_ids":["map",[]]}]}]`})
	got, err := Node{SwitchDir: dir}.PodInterfaces(contextWithTimeout(t))
	if want := map[string]string{"web.shop": "pod_h", "db.shop": "pod_i"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("they are %v, %v, wanted %v", got, err, want)
	}
}

// If one program is not running, its error is returned and the other is still queried.
func TestStateOfHalfANode(t *testing.T) {
	dir := t.TempDir()
	serveProgram(t, filepath.Join(dir, "ovn-controller.5.ctl"), map[string]string{"connection-status": "connected"})
	got, failed := Node{dir, dir}.ReadState(contextWithTimeout(t))
	if got.SBConnection != "connected" || len(failed) != 1 ||
		!strings.Contains(failed[0].Error(), "no socket of ovs-vswitchd in "+dir) {
		t.Errorf("it is %+v, %v", got, failed)
	}
}

// The sockets of killed programs, and programs that hang, do not block the query.
func TestSocketsOfTheDead(t *testing.T) {
	dir := t.TempDir()
	serveProgram(t, filepath.Join(dir, "ovs-vswitchd.1.ctl"), map[string]string{"version": "3.5.0"})
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "ovs-vswitchd.2.ctl")})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(filepath.Join(dir, "ovs-vswitchd.2.ctl"), later, later); err != nil {
		t.Fatal(err)
	}
	if text, err := runAppctl(contextWithTimeout(t), dir, vswitchd, "version"); text != "3.5.0" || err != nil {
		t.Errorf("it said %q, %v", text, err)
	}
	if _, err := runAppctl(contextWithTimeout(t), dir, vswitchd, "unheard"); err == nil ||
		!strings.Contains(err.Error(), `"unheard" is not a valid command`) {
		t.Errorf("an order that does not exist: %v", err)
	}
	hangs, err := net.Listen("unix", filepath.Join(dir, "ovn-controller.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := runAppctl(ctx, dir, controller, "version"); !os.IsTimeout(err) &&
		!strings.Contains(fmt.Sprint(err), "timeout") {
		t.Errorf("one that hangs: %v", err)
	}
}

func TestReplies(t *testing.T) {
	for text, want := range map[string]string{
		`{"result":"a\nb\n","id":0,"error":null}`:             "a|b",
		`{ "id": 0, "error": null, "result": "a \"b\"\\\n" }`: `a "b"\`,
		`{"result":"\u0007x\ty","error":null}`:                "?x\ty",
		`{"result":"","error":null}`:                          "",
		`{"result":null,"error":"no\n"}`:                      "error: no",
		`{"result":"a\nb`:                                     "a|error: read the reply: EOF",
		`nonsense`:                                            "error: read the reply: got 'o', want '\"'",
		``:                                                    "error: read the reply: EOF",
	} {
		var got []string
		if err := readReply(bufio.NewReader(strings.NewReader(text)), func(line []byte) {
			got = append(got, string(line))
		}); err != nil {
			got = append(got, "error: "+err.Error())
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s\nis %q, wanted %q", text, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	at := netip.MustParseAddrPort
	for line, want := range map[string]Connection{
		"tcp,orig=(src=100.65.0.2,dst=100.65.0.105,sport=40000,dport=80),reply=(src=10.0.0.5,dst=100.65.0.2,sport=8080,dport=40000),zone=7,mark=2,labels=0x1,protoinfo=(state=ESTABLISHED)": {
			"tcp",
			Tuple{at("100.65.0.2:40000"), at("100.65.0.105:80")},
			Tuple{at("10.0.0.5:8080"), at("100.65.0.2:40000")},
			"ESTABLISHED", 7,
		},
		"udp,orig=(src=fd00::1,dst=fd00::2,sport=1,dport=53),reply=(src=fd00::2,dst=fd00::1,sport=53,dport=1)": {
			"udp", Tuple{at("[fd00::1]:1"), at("[fd00::2]:53")}, Tuple{at("[fd00::2]:53"), at("[fd00::1]:1")}, "", 0,
		},
		"icmp,orig=(src=10.0.0.1,dst=10.0.0.2,id=9,type=8,code=0),reply=(src=10.0.0.2,dst=10.0.0.1,id=9,type=0,code=0),zone=3": {
			"icmp", Tuple{at("10.0.0.1:9"), at("10.0.0.2:9")}, Tuple{at("10.0.0.2:9"), at("10.0.0.1:9")}, "", 3,
		},
		"sctp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=5,dport=6),reply=(src=10.0.0.2,dst=10.0.0.1,sport=6,dport=5),zone=3,protoinfo=(state=COOKIE_WAIT,vtag_orig=1,vtag_reply=2)": {
			"sctp",
			Tuple{at("10.0.0.1:5"), at("10.0.0.2:6")},
			Tuple{at("10.0.0.2:6"), at("10.0.0.1:5")},
			"COOKIE_WAIT",
			3,
		},
	} {
		if got, ok := parseConnection(line); !ok || got != want {
			t.Errorf("%s\nis %+v, %t, wanted\n%+v", line, got, ok, want)
		}
	}
	for _, line := range []string{
		"", "tcp", "tcp,orig=(src=10.0.0.1,dst=10.0.0.2)",
		"tcp,orig=(src=,dst=),reply=(src=,dst=)",
	} {
		if c, ok := parseConnection(line); ok {
			t.Errorf("%q is a connection: %+v", line, c)
		}
	}
}

// writeConnections writes n connections with the same source address, in the format of the switch.
func writeConnections(w io.Writer, n int) {
	fmt.Fprint(w, `{"id":0,"result":"`)
	for i := range n {
		fmt.Fprintf(w, `tcp,orig=(src=10.0.%d.%d,dst=203.0.113.1,sport=%d,dport=443),reply=(src=203.0.113.1,dst=100.65.0.105,sport=443,dport=%d),zone=7,protoinfo=(state=ESTABLISHED)\n`,
			i>>8&255, i&255, 1024+i%60000, 1024+i%60000)
	}
	fmt.Fprint(w, `","error":null}`)
}

// A hundred thousand connections are counted with little memory.
func TestManyConnections(t *testing.T) {
	in, out := io.Pipe()
	go func() { b := bufio.NewWriter(out); writeConnections(b, 100_000); _ = b.Flush(); _ = out.Close() }()
	address := netip.MustParseAddr("100.65.0.105")
	search := NewSearch([]ConnectionFilter{{Client: address}}, []netip.Addr{address})
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most, lines, begun := uint64(0), 0, time.Now()
	if err := readReply(bufio.NewReader(in), func(line []byte) {
		c, _ := parseConnection(string(line))
		search.AddConnection(c)
		if lines++; lines%5000 == 0 {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}); err != nil {
		t.Fatal(err)
	}
	found, more := search.Matches()
	got := fmt.Sprintf("%d connections, %d and more: %d, %+v", lines, len(found), len(more), search.Usage())
	want := "100000 connections, 64 and more: 1, [{Address:100.65.0.105 Connections:60000 Protocol:tcp To:203.0.113.1:443 Ports:60000}]"
	if got != want {
		t.Errorf("%s\nwanted\n%s", got, want)
	}
	used := (most - before.HeapAlloc) >> 20
	t.Logf("%d MiB at most, %v", used, time.Since(begun))
	if used > 64 {
		t.Errorf("it took %d MiB", used)
	}
}

func TestSearch(t *testing.T) {
	lines := []string{
		// A load balancer, in two zones of its router and in that of its backend.
		"tcp,orig=(src=192.0.2.9,dst=100.65.0.105,sport=40000,dport=80),reply=(src=10.0.0.5,dst=192.0.2.9,sport=8080,dport=40000),zone=7,protoinfo=(state=ESTABLISHED)",
		"tcp,orig=(src=192.0.2.9,dst=100.65.0.105,sport=40000,dport=80),reply=(src=10.0.0.5,dst=192.0.2.9,sport=8080,dport=40000),zone=8,protoinfo=(state=ESTABLISHED)",
		"tcp,orig=(src=192.0.2.9,dst=10.0.0.5,sport=40000,dport=8080),reply=(src=10.0.0.5,dst=192.0.2.9,sport=8080,dport=40000),zone=9,protoinfo=(state=ESTABLISHED)",
		// Three that leave with the same address, two of them to one destination.
		"udp,orig=(src=10.0.0.5,dst=192.0.2.53,sport=1,dport=53),reply=(src=192.0.2.53,dst=100.65.0.105,sport=53,dport=5001),zone=7",
		"udp,orig=(src=10.0.0.6,dst=192.0.2.53,sport=1,dport=53),reply=(src=192.0.2.53,dst=100.65.0.105,sport=53,dport=5002),zone=7",
		"tcp,orig=(src=10.0.0.6,dst=192.0.2.53,sport=1,dport=53),reply=(src=192.0.2.53,dst=100.65.0.105,sport=53,dport=5002),zone=7,protoinfo=(state=TIME_WAIT)",
		"not a connection",
	}
	addr := netip.MustParseAddr
	search := NewSearch([]ConnectionFilter{
		{Client: addr("192.0.2.9"), Server: addr("100.65.0.105"), Port: 80},
		{Client: addr("10.0.0.6"), Port: 53},
		{Client: addr("192.0.2.9"), Server: addr("100.65.0.105"), Port: 81},
		{Client: addr("192.0.2.10")},
	}, []netip.Addr{addr("100.65.0.105"), addr("100.65.0.106"), addr("10.0.0.5")})
	for _, l := range lines {
		if c, ok := parseConnection(l); ok {
			search.AddConnection(c)
		}
	}
	found, more := search.Matches()
	var got []string
	for _, c := range found {
		got = append(got, fmt.Sprint(c.Protocol, " ", c.Original.From, " ", c.Original.To, " ", c.Reply.From, " ",
			c.Zone))
	}
	want := []string{
		"tcp 10.0.0.6:1 192.0.2.53:53 192.0.2.53:53 7",
		"tcp 192.0.2.9:40000 100.65.0.105:80 10.0.0.5:8080 7",
		"tcp 192.0.2.9:40000 100.65.0.105:80 10.0.0.5:8080 8",
		"udp 10.0.0.6:1 192.0.2.53:53 192.0.2.53:53 7",
	}
	if !reflect.DeepEqual(got, want) || len(more) > 0 {
		t.Errorf("found %q and more of %v\nwanted %q", got, more, want)
	}
	usage := fmt.Sprint(search.Usage())
	if want := "[{100.65.0.105 4 udp 192.0.2.53:53 2} {100.65.0.106 0  invalid AddrPort 0} {10.0.0.5 1  invalid AddrPort 0}]"; usage != want {
		t.Errorf("usage is\n%s\nwanted\n%s", usage, want)
	}
}
