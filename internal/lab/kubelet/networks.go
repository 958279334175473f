package kubelet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// selection is one element of the networks annotation, as the Network Plumbing Working Group defines it.
type selection struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Interface string `json:"interface"`
}

func (s selection) provider() string { return s.Name + "." + s.Namespace + "." + defaultProvider }

// selections reads a networks annotation: JSON, or a list like "tenant/blue@net1,green".
func selections(raw, namespace string) ([]selection, error) {
	var out []selection
	if strings.ContainsAny(raw, `[{"`) {
		if err := json.Unmarshal([]byte(raw), &out); err != nil {
			return nil, fmt.Errorf("%s: %w", networksAnnotation, err)
		}
	} else {
		out, _ = split(raw, func(item string) (selection, error) {
			var s selection
			item, s.Interface, _ = strings.Cut(item, "@")
			s.Name = item
			if ns, name, ok := strings.Cut(item, "/"); ok {
				s.Namespace, s.Name = ns, name
			}
			return s, nil
		})
	}
	for i := range out {
		if out[i].Namespace == "" {
			out[i].Namespace = namespace
		}
	}
	return out, nil
}

// clusterNetwork is the provider of eth0.
func clusterNetwork(pod *corev1.Pod) (provider, error) {
	p := provider{name: defaultProvider, iface: "eth0"}
	other := pod.Annotations[defaultNetworkAnnotation]
	if other == "" {
		return p, nil
	}
	selected, err := selections(other, pod.Namespace)
	if err != nil {
		return p, err
	}
	if len(selected) == 1 {
		p.name = selected[0].provider()
	}
	return p, nil
}

// providersOf lists the networks of a pod that Kube-OVN has allocated, eth0's first, then in the order of the networks
// annotation.
func providersOf(pod *corev1.Pod) ([]provider, error) {
	first, err := clusterNetwork(pod)
	if err != nil {
		return nil, err
	}
	selected, err := selections(pod.Annotations[networksAnnotation], pod.Namespace)
	if err != nil {
		return nil, err
	}
	uses := map[string]int{}
	for _, s := range selected {
		uses[s.provider()]++
	}
	out := []provider{first}
	for i, s := range selected {
		p := provider{name: s.provider(), iface: s.Interface}
		if uses[p.name] > 1 && s.Interface != "" {
			p.name += "." + s.Interface // two interfaces of one network: Kube-OVN tells them apart so
		}
		if p.iface == "" {
			p.iface = fmt.Sprintf("net%d", i+1) // networks of other plugins count too
		}
		if p.read(pod.Annotations, "allocated") == "true" {
			out = append(out, p)
		}
	}
	return appendUnlisted(out, len(selected), pod.Annotations), nil
}

// appendUnlisted adds networks that are allocated and that no annotation lists, in the order of their names.
func appendUnlisted(known []provider, taken int, annotations map[string]string) []provider {
	for _, key := range sortedKeys(annotations) {
		name, ok := strings.CutSuffix(key, annotationGroup+"allocated")
		if !ok || annotations[key] != "true" || !strings.Contains(name+".", "."+defaultProvider+".") {
			continue
		}
		if slices.ContainsFunc(known, func(p provider) bool { return p.name == name }) {
			continue
		}
		taken++
		known = append(known, provider{name: name, iface: fmt.Sprintf("net%d", taken)})
	}
	return known
}
