package controller

import (
	"time"

	"github.com/spf13/pflag"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// AddFlags adds the flags that decide what is written where. Commands that compute the same plan need them too.
func (c *Config) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&c.Northbound.Endpoints, "nb-address", nil,
		"servers of the OVN northbound database, such as ssl:10.0.0.1:6641,ssl:10.0.0.2:6641")
	f.StringVar(&c.Northbound.CertFile, "nb-cert", "", "file with the client certificate for the OVN databases")
	f.StringVar(&c.Northbound.KeyFile, "nb-key", "", "file with the key of the client certificate")
	f.StringVar(&c.Northbound.CAFile, "nb-ca", "", "file with the CA certificate of the OVN databases")
	f.StringSliceVar(&c.Southbound.Endpoints, "sb-address", nil,
		"servers of the OVN southbound database, with the same certificates as the northbound database; "+
			"if empty, the controller does not follow OVN's failover when a node dies, and does not correct nodes after a "+
			"gateway moved (ADR 47)")
	f.StringVar(&c.Defaults.DefaultEIpType, "default-eip-network-type", "",
		"network type of EIps that set none (default: the type of the default external network)")
	f.StringVar(&c.Defaults.DefaultFIpType, "default-fip-network-type", "",
		"network type of FIps that set none (default: the type of the default external network)")
	f.StringVar(&c.Defaults.DefaultServiceType, "default-service-network-type", "",
		"network type of load balancers that set none (default: as for EIps)")
	f.Var(&c.Defaults.Quotas.EIps, "default-eip-quota",
		"maximum number of EIps in a namespace if neither its Project nor an annotation sets one")
	f.Var(&c.Defaults.Quotas.OrganizationEIps, "organization-eip-quota",
		"maximum number of EIps in all Projects of an organization together if its namespace has no annotation "+
			kubedcv1.EIpQuotaAnnotation)
	f.Var(&c.Defaults.Quotas.OrganizationProjects, "organization-project-quota",
		"maximum number of Projects in an organization if its namespace has no annotation "+
			kubedcv1.ProjectQuotaAnnotation)
	f.DurationVar(&c.Defaults.RebalanceInterval, "egress-rebalance-every", 0,
		"minimum interval between moves of an egress address to a node with fewer addresses; "+
			"0: move only on request, by the annotation "+ovnv1.RebalanceAnnotation)
	f.DurationVar(&c.Defaults.BFDInterval, "egress-liveness", 200*time.Millisecond,
		"BFD interval between nodes while EgressIPs exist; addresses fail over after three missed packets; "+
			"0: use OVN's settings")
	f.DurationVar(&c.Defaults.AutodeleteAfter, "autodelete-after", 5*time.Minute,
		"delete a Service with the autodelete annotation after this time without endpoints")
	f.Var(&c.Defaults.ClasslessServices, "classless-services",
		"where to serve Services without a loadBalancerClass: projects, everywhere or nowhere")
	f.StringVar(&c.Defaults.ManagementNetworkType, "management-network-type", "",
		"network type whose hosts pods of the management VPC reach through OVN (default: none)")
	f.Var(&c.Defaults.Isolation, "isolation",
		"policy for pods on the network of another project, or of no project: "+
			"Enforce drops their packets, Report only reports the pods")
	c.Defaults.TrustedNamespaces = snapshot.NamespaceList{kubeovn.Namespace}
	f.Var(&c.Defaults.TrustedNamespaces, "trusted-namespaces",
		"namespaces whose pods may be on the network of any project, such as Kube-OVN's own for VPC DNS; "+
			"tenants must not be able to create pods there")
	f.Var(&c.Defaults.AttachmentNamespaces, "attachment-namespaces",
		"namespaces whose NetworkAttachmentDefinitions may be used by pods of all namespaces")
	f.Var(&c.Defaults.DefaultReturnPath, "return-path",
		"return-path mode of networks that do not set one: Connection, or Source for OVN before 24.09")
	f.Var(&c.Defaults.ClusterPrefixes, "cluster-prefixes",
		"prefixes of the cluster's pods and Services, such as 10.16.0.0/16,10.96.0.0/12; traffic to them stays in the "+
			"cluster if pods have egress through an uplink or, in the management VPC, an EgressIP, or if an uplink uses "+
			"method VRF")
}

// ShareCertificates makes the southbound database use the certificates of the northbound database.
func (c *Config) ShareCertificates() {
	c.Southbound.CertFile, c.Southbound.KeyFile, c.Southbound.CAFile = c.Northbound.CertFile, c.Northbound.KeyFile,
		c.Northbound.CAFile
	c.Southbound.Certificates = c.Northbound.Certificates
}
