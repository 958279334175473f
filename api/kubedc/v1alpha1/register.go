// Package v1alpha1 is the newer kinds of the group kube-dc.com: ExternalNetwork, with which administrators
// configure external networks; EgressRoute, with which tenants select one of them by destination; NodePath, through
// which the controller configures nodes; and Inspection, with which operators query nodes.
//
// `kubectl explain` prints the comments on types and fields. `make generate` writes the deep copies and the
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

// AddToScheme registers the kinds of this package with a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func register(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&ExternalNetwork{}, &ExternalNetworkList{},
		&EgressRoute{}, &EgressRouteList{},
		&NodePath{}, &NodePathList{},
		&Inspection{}, &InspectionList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
