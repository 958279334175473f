package kubelet

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// network is what Kube-OVN writes for one provider.
func network(provider, ip, cidr, gateway string) map[string]string {
	key := func(what string) string { return provider + ".kubernetes.io/" + what }
	return map[string]string{
		key("allocated"):   "true",
		key("routed"):      "true",
		key("ip_address"):  ip,
		key("mac_address"): "02:00:00:00:00:0a",
		key("cidr"):        cidr,
		key("gateway"):     gateway,
	}
}

func merged(maps ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

var (
	v4   = network("ovn", "10.0.0.10", "10.0.0.0/24", "10.0.0.1")
	dual = network("ovn", "10.0.0.10,fd00:1::a", "10.0.0.0/24,fd00:1::/64", "10.0.0.1,fd00:1::1")
	blue = network("blue.tenant.ovn", "172.30.5.7", "172.30.5.0/25", "172.30.5.1")
	red  = network("red.shop.ovn", "172.30.6.7", "172.30.6.0/24", "172.30.6.1")
)

func annotatedPod(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: annotations}}
}

// line writes an attachment as "iface logical-port addresses | routes".
func line(a Attachment) string {
	var out []string
	for _, p := range a.Addresses {
		out = append(out, p.String())
	}
	text := a.Interface + " " + a.LogicalPort + " " + strings.Join(out, " ")
	for _, r := range a.Routes {
		dst := "default"
		if r.Dst.IsValid() {
			dst = r.Dst.String()
		}
		text += " | " + dst + " via " + r.Via.String() + " dev " + r.Dev
	}
	return text
}

func TestAnnotationsBecomePorts(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        []string
	}{
		"one IPv4 address": {v4, []string{"eth0 web.shop 10.0.0.10/24 | default via 10.0.0.1 dev eth0"}},
		"dual stack": {dual, []string{
			"eth0 web.shop 10.0.0.10/24 fd00:1::a/64 | default via 10.0.0.1 dev eth0 | default via fd00:1::1 dev eth0",
		}},
		"an IPv4 address of a dual-stack subnet has no IPv6 way out": {
			network("ovn", "10.0.0.10", "10.0.0.0/24,fd00:1::/64", "10.0.0.1,fd00:1::1"),
			[]string{"eth0 web.shop 10.0.0.10/24 | default via 10.0.0.1 dev eth0"},
		},
		"secondary networks in the order of the pod's list": {
			merged(v4, blue, red, map[string]string{networksAnnotation: "red, tenant/blue"}),
			[]string{
				"eth0 web.shop 10.0.0.10/24 | default via 10.0.0.1 dev eth0",
				"net1 web.shop.red.shop.ovn 172.30.6.7/24",
				"net2 web.shop.blue.tenant.ovn 172.30.5.7/25",
			},
		},
		"a network of another plugin keeps its number": {
			merged(v4, blue, map[string]string{networksAnnotation: `[{"name":"macvlan"},{"name":"blue","namespace":"tenant"}]`}),
			[]string{
				"eth0 web.shop 10.0.0.10/24 | default via 10.0.0.1 dev eth0",
				"net2 web.shop.blue.tenant.ovn 172.30.5.7/25",
			},
		},
		"one network twice, told apart by the interface": {
			merged(v4, network("red.shop.ovn.a", "172.30.6.7", "172.30.6.0/24", ""), network("red.shop.ovn.b", "172.30.6.8", "172.30.6.0/24", ""),
				map[string]string{networksAnnotation: "red@a,red@b"}),
			[]string{
				"eth0 web.shop 10.0.0.10/24 | default via 10.0.0.1 dev eth0",
				"a web.shop.red.shop.ovn.a 172.30.6.7/24",
				"b web.shop.red.shop.ovn.b 172.30.6.8/24",
			},
		},
		"networks that no list names are sorted": {merged(v4, red, blue), []string{
			"eth0 web.shop 10.0.0.10/24 | default via 10.0.0.1 dev eth0",
			"net1 web.shop.blue.tenant.ovn 172.30.5.7/25",
			"net2 web.shop.red.shop.ovn 172.30.6.7/24",
		}},
		"the default route may go out of a secondary network": {
			merged(v4, red, map[string]string{
				networksAnnotation: "red", "ovn.kubernetes.io/default_route": "false", "red.shop.ovn.kubernetes.io/default_route": "true",
			}),
			[]string{"eth0 web.shop 10.0.0.10/24", "net1 web.shop.red.shop.ovn 172.30.6.7/24 | default via 172.30.6.1 dev net1"},
		},
		"another network as eth0": {
			merged(red, map[string]string{defaultNetworkAnnotation: "shop/red"}),
			[]string{"eth0 web.shop.red.shop.ovn 172.30.6.7/24 | default via 172.30.6.1 dev eth0"},
		},
		"a virtual machine's port has the machine's name": {
			merged(v4, map[string]string{"ovn.kubernetes.io/virtualmachine": "vm1"}),
			[]string{"eth0 vm1.shop 10.0.0.10/24 | default via 10.0.0.1 dev eth0"},
		},
		"extra routes": {
			merged(v4, map[string]string{"ovn.kubernetes.io/routes": `[{"dst":"192.168.0.0/16","gw":"10.0.0.254"}]`}),
			[]string{"eth0 web.shop 10.0.0.10/24 | default via 10.0.0.1 dev eth0 | 192.168.0.0/16 via 10.0.0.254 dev eth0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Attachments(annotatedPod(c.annotations))
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, a := range got {
				lines = append(lines, line(a))
				if a.MAC.String() != "02:00:00:00:00:0a" {
					t.Errorf("%s has MAC %s", a.Interface, a.MAC)
				}
			}
			if !reflect.DeepEqual(lines, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestAnnotationsThatMakeNoSenseAreRefused(t *testing.T) {
	if _, err := Attachments(annotatedPod(v4)); err != nil {
		t.Fatalf("control: %v", err)
	}
	for key, value := range map[string]string{
		"mac_address": "nonsense", "ip_address": "10.9.9.9", "cidr": "10.0.0.0", "gateway": "x", "routes": `[{"dst":"x","gw":"10.0.0.1"}]`,
	} {
		if _, err := Attachments(annotatedPod(merged(v4, map[string]string{"ovn.kubernetes.io/" + key: value}))); err == nil {
			t.Errorf("%s: %q is taken", key, value)
		}
	}
}

func TestAPodIsPluggedWhenItsAddressIsRouted(t *testing.T) {
	without := merged(v4)
	delete(without, "ovn.kubernetes.io/routed")
	for name, c := range map[string]struct {
		annotations map[string]string
		pluggable   bool
	}{
		"nothing": {nil, false}, "allocated only": {without, false}, "routed": {v4, true},
	} {
		attached, problem := networkOf(annotatedPod(c.annotations))
		if (problem == "") != c.pluggable || (len(attached) == 1) != c.pluggable {
			t.Errorf("%s: %v, %q", name, attached, problem)
		}
	}
}

func TestANodeJoinsWithRoutesToPodsAndServices(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}
	if _, ok, err := joinPort(node, nil); ok || err != nil {
		t.Fatalf("joins before an address is allocated (%v)", err)
	}
	node.Annotations = merged(network("ovn", "100.64.0.2", "100.64.0.0/16", "100.64.0.1"), map[string]string{"ovn.kubernetes.io/port_name": "node-node1"})
	a, ok, err := joinPort(node, []netip.Prefix{netip.MustParsePrefix("10.16.0.0/16"), netip.MustParsePrefix("10.96.0.0/12")})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	want := "ovn0 node-node1 100.64.0.2/16 | 10.16.0.0/16 via 100.64.0.1 dev ovn0 | 10.96.0.0/12 via 100.64.0.1 dev ovn0"
	if line(a) != want {
		t.Errorf("got  %s\nwant %s", line(a), want)
	}
}
