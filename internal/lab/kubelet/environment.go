package kubelet

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// variables are a container's environment.
type variables struct{ values map[string]string }

// reference is how Kubernetes writes a variable in commands, arguments and later variables; "$$" stands for one "$".
var reference = regexp.MustCompile(`\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)`)

// environment resolves a container's env. A lab has plain values and the pod's own fields.
func environment(env []corev1.EnvVar, pod *corev1.Pod, o observation) (variables, error) {
	v := variables{values: map[string]string{}}
	for _, e := range env {
		if e.ValueFrom == nil {
			v.values[e.Name] = v.expand(e.Value)
			continue
		}
		if e.ValueFrom.FieldRef == nil {
			return v, fmt.Errorf("variable %s: a lab knows values and fieldRef only", e.Name)
		}
		value, err := field(e.ValueFrom.FieldRef.FieldPath, pod, o)
		if err != nil {
			return v, fmt.Errorf("variable %s: %w", e.Name, err)
		}
		v.values[e.Name] = value
	}
	return v, nil
}

func field(path string, pod *corev1.Pod, o observation) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return o.Host.String(), nil
	case "status.podIP":
		return joined(o.IPs[:min(1, len(o.IPs))]), nil
	case "status.podIPs":
		return joined(o.IPs), nil
	}
	return "", fmt.Errorf("a lab does not know field %s", path)
}

func joined(ips []netip.Addr) string {
	var out []string
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return strings.Join(out, ",")
}

// expand puts variables in; an unknown one stays as it is written.
func (v variables) expand(s string) string {
	return reference.ReplaceAllStringFunc(s, func(match string) string {
		if match == "$$" {
			return "$"
		}
		if value, ok := v.values[match[2:len(match)-1]]; ok {
			return value
		}
		return match
	})
}

func (v variables) expandAll(list []string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, v.expand(s))
	}
	return out
}

// list is the environment as a process gets it.
func (v variables) list() []string {
	var out []string
	for _, name := range sortedKeys(v.values) {
		out = append(out, name+"="+v.values[name])
	}
	return out
}
