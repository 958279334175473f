// Package v1 is the API for source addresses of pods: EgressIP and EgressService of the group k8s.ovn.org, compatible
// with OVN-Kubernetes. Manifests for OVN-Kubernetes apply unchanged; additional fields are
// optional.
//
// `kubectl explain` prints the comments on types and fields. `make generate` writes the deep copies and the
// CustomResourceDefinitions in config/crd from this package.
//
// +kubebuilder:object:generate=true
// +groupName=k8s.ovn.org
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "k8s.ovn.org", Version: "v1"}

var schemeBuilder = runtime.NewSchemeBuilder(register)

// AddToScheme registers the kinds of this package with a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func register(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &EgressIP{}, &EgressIPList{}, &EgressService{}, &EgressServiceList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
