// Package v1 is the API of tenants for networks and addresses: Project, EIp and FIp of the group kube-dc.com.
//
// `kubectl explain` prints the comments on types and fields. `make generate` writes the deep copies and the
// CustomResourceDefinitions in config/crd from this package.
//
// +kubebuilder:object:generate=true
// +groupName=kube-dc.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "kube-dc.com", Version: "v1"}

var schemeBuilder = runtime.NewSchemeBuilder(register)

// AddToScheme registers the kinds of this package with a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func register(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Project{}, &ProjectList{}, &EIp{}, &EIpList{}, &FIp{}, &FIpList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
