// Package v1 is the kinds with which administrators choose the addresses that pods leave with: EgressIP and EgressService of the group
// k8s.ovn.org, as OVN-Kubernetes has them. What is written for OVN-Kubernetes applies unchanged; what we add is optional.
//
// The comments on types and fields are what `kubectl explain` prints. `make generate` makes the deep copies and the
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

// AddToScheme makes the kinds of this package known to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func register(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &EgressIP{}, &EgressIPList{}, &EgressService{}, &EgressServiceList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
