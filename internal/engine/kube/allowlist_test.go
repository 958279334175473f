package kube

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// An allow-list is parsed completely or not at all, and a malformed one allows nothing.
func TestAllowLists(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat("192.0.2.1,", snapshot.MaxAllowListEntries+1), ",")
	for text, want := range map[string]string{
		"":                            "[]",
		" ":                           "[]",
		"192.0.2.7":                   "[192.0.2.7/32]",
		"192.0.2.7, 203.0.113.9/24":   "[192.0.2.7/32 203.0.113.0/24]",
		"::ffff:192.0.2.7":            "[192.0.2.7/32]",
		"2001:db8::1":                 "[2001:db8::1/128]",
		"192.0.2.7,":                  "",
		"192.0.2.7;203.0.113.9":       "",
		"192.0.2.0/33":                "",
		"fe80::1%eth0":                "",
		"0.0.0.0/0) || (ip4":          "",
		"$sallyport.acme_web.free":    "",
		"example.com":                 "",
		long:                          "",
		long[:len("192.0.2.1,")*10-1]: "[" + strings.TrimSuffix(strings.Repeat("192.0.2.1/32 ", 10), " ") + "]",
	} {
		o := &kubedcv1.Project{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubedcv1.IngressAllowlistAnnotation: text}}}
		got := readAllowList(o, kubedcv1.IngressAllowlistAnnotation)
		if !got.IsSet || !got.Restricts(ipfamily.V4) || (got.Malformed != "") != (want == "") || want != "" &&
			fmt.Sprint(got.Prefixes) != want {
			t.Errorf("%.40q is read as %v, %q; wanted %s", text, got.Prefixes, got.Malformed, want)
		}
		if got.Malformed != "" && len(got.Prefixes) > 0 {
			t.Errorf("%.40q can't be read and allows %v", text, got.Prefixes)
		}
		if other := readAllowList(o, kubedcv1.EgressAllowlistAnnotation); other.IsSet || other.Restricts(ipfamily.V4) {
			t.Errorf("%.40q restricts the other direction", text)
		}
	}
}

// A list that covers all addresses restricts nothing.
func TestAllowListOfEverybody(t *testing.T) {
	for text, restricts := range map[string]bool{
		"0.0.0.0/0":            false,
		"192.0.2.7,10.0.0.0/0": false,
		"::/0":                 true,
		"0.0.0.0/1":            true,
	} {
		o := &kubedcv1.Project{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubedcv1.EgressAllowlistAnnotation: text}}}
		if got := readAllowList(o, kubedcv1.EgressAllowlistAnnotation).Restricts(ipfamily.V4); got != restricts {
			t.Errorf("%s restricts: %t", text, got)
		}
	}
}
