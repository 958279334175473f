// Package v1alpha1 is the younger kinds of the group kube-dc.com: ExternalNetwork, which administrators write for the networks outside, and
// EgressRoute, with which tenants choose one of them by destination; NodePath and Inspection, by which the controller and operators talk with nodes.
//
// The comments on types and fields are what `kubectl explain` prints. `make generate` makes the deep copies and the
// CustomResourceDefinitions in config/crd from this package.
//
// +kubebuilder:object:generate=true
// +groupName=kube-dc.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "kube-dc.com", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(register)

// AddToScheme makes the kinds of this package known to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func register(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ExternalNetwork{}, &ExternalNetworkList{}, &EgressRoute{}, &EgressRouteList{}, &NodePath{}, &NodePathList{},
		&Inspection{}, &InspectionList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
