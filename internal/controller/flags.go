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
		"servers of the OVN northbound database, as in ssl:10.0.0.1:6641,ssl:10.0.0.2:6641")
	f.StringVar(&c.Northbound.CertFile, "nb-cert", "", "our certificate for the northbound database")
	f.StringVar(&c.Northbound.KeyFile, "nb-key", "", "its key")
	f.StringVar(&c.Northbound.CAFile, "nb-ca", "", "certificate of the northbound database's authority")
	f.StringSliceVar(&c.Southbound.Endpoints, "sb-address", nil,
		"servers of the OVN southbound database, which has the same certificates; empty: what OVN does by itself when a node dies is not followed")
	f.StringVar(&c.Defaults.DefaultEIpType, "default-eip-network-type", "",
		"network type of EIps that name none; empty: that of the default external network")
	f.StringVar(&c.Defaults.DefaultFIpType, "default-fip-network-type", "",
		"network type of FIps that name none; empty: that of the default external network")
	f.StringVar(&c.Defaults.DefaultServiceType, "default-service-network-type", "",
		"network type of load balancers that name none; empty: as with EIps")
	f.Var(&c.Defaults.Quotas.EIps, "default-eip-quota",
		"how many EIps a namespace may have when neither its Project nor an annotation of it says")
	f.Var(&c.Defaults.Quotas.OrganizationEIps, "organization-eip-quota",
		"how many EIps all Projects of an organization may have together when the annotation "+
			kubedcv1.EIpQuotaAnnotation+" of its namespace does not say")
	f.Var(&c.Defaults.Quotas.OrganizationProjects, "organization-project-quota",
		"how many Projects an organization may have when the annotation "+kubedcv1.ProjectQuotaAnnotation+
			" of its namespace does not say")
	f.DurationVar(&c.Defaults.RebalanceInterval, "egress-rebalance-every", 0,
		"let one egress address go to a node that holds fewer, at most this often; 0: only on request, by the annotation "+ovnv1.RebalanceAnnotation)
	f.DurationVar(&c.Defaults.BFDInterval, "egress-liveness", 200*time.Millisecond,
		"how often nodes ask each other for a sign of life while there are EgressIPs: three that are missing move addresses; 0: as OVN does")
	f.DurationVar(&c.Defaults.AutodeleteAfter, "autodelete-after", 5*time.Minute,
		"how long a Service with the autodelete annotation may be without endpoints")
	f.Var(&c.Defaults.ClasslessServices, "classless-services",
		"whose Services without a loadBalancerClass are ours: projects, everywhere or nowhere")
	f.StringVar(&c.Defaults.ManagementNetworkType, "management-network-type", "",
		"network type whose hosts pods of the management VPC reach by OVN; empty: none")
	f.Var(&c.Defaults.Isolation, "isolation",
		"what happens to packets of pods on the network of another project, or of none: Enforce drops them, Report only reports the pods")
	c.Defaults.TrustedNamespaces = snapshot.NamespaceList{kubeovn.Namespace}
	f.Var(&c.Defaults.TrustedNamespaces, "trusted-namespaces",
		"namespaces whose pods may be on the network of any project, such as Kube-OVN's own for VPC DNS; tenants must not be able to create pods there")
	f.Var(&c.Defaults.AttachmentNamespaces, "attachment-namespaces",
		"namespaces whose NetworkAttachmentDefinitions pods of all namespaces may use")
	f.Var(&c.Defaults.DefaultReturnPath, "return-path",
		"how replies find back on networks that do not say: Connection, or Source for OVN before 24.09")
	f.Var(&c.Defaults.ClusterPrefixes, "cluster-prefixes",
		"prefixes of the cluster's pods and Services, as in 10.16.0.0/16,10.96.0.0/12: what stays inside where pods leave by an uplink, or its method is VRF")
}

// ShareCertificates makes the southbound database use the certificates of the northbound database.
func (c *Config) ShareCertificates() {
	c.Southbound.CertFile, c.Southbound.KeyFile, c.Southbound.CAFile = c.Northbound.CertFile, c.Northbound.KeyFile,
		c.Northbound.CAFile
	c.Southbound.Certificates = c.Northbound.Certificates
}
