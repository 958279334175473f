package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

// KubeOVN is what Kube-OVN's controller has to know of the lab.
type KubeOVN struct {
	NB, SB    string // remotes of the OVN databases
	Blueprint blueprint.Blueprint
}

// Kinds of Kube-OVN that the lab waits for.
var subnetKind = schema.GroupVersionKind{Group: "kubeovn.io", Version: "v1", Kind: "Subnet"}

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// definitions are Kube-OVN's resource definitions and the one of network attachments.
func (c *Cluster) definitions() (string, error) {
	text := networkAttachments
	for _, path := range []string{c.Parts.KubeOVNCRDs(), c.Parts.BackendCRD()} {
		raw, err := os.ReadFile(path) //nolint:gosec // a file that the lab has written or that the cache has
		if err != nil {
			return "", fmt.Errorf("read resource definitions: %w", err)
		}
		text += "\n---\n" + string(raw)
	}
	return text, nil
}

// restore puts the resource definitions into etcd if an earlier lab has stored them.
func (c *Cluster) restore(ctx context.Context) error {
	text, err := c.definitions()
	if err != nil {
		return err
	}
	c.restored, err = c.storeFor(text).restore(ctx)
	return err
}

func (c *Cluster) storeFor(definitions string) store {
	return storeFor(filepath.Dir(c.Parts.Dir("kubernetes")), definitions)
}

// Define installs the resource definitions, unless they were restored, and waits until they can be used.
func (c *Cluster) Define(ctx context.Context, client *manifest.Client) error {
	text, err := c.definitions()
	if err != nil {
		return err
	}
	if !c.restored {
		if err := client.ApplyAll(ctx, text); err != nil {
			return err
		}
	}
	objects, err := manifest.Parse(text)
	if err != nil {
		return err
	}
	for _, o := range objects {
		ref := manifest.Ref{GVK: crdKind, Name: o.GetName()}
		if err := client.Wait(ctx, ref, manifest.True("Established")); err != nil {
			return err
		}
	}
	if c.restored {
		return client.WaitServed(ctx, objects)
	}
	return c.storeFor(text).keep(ctx)
}

// Describe writes the lab's external networks as Kube-OVN objects.
func (k KubeOVN) Describe(ctx context.Context, client *manifest.Client) error {
	return client.Apply(ctx, k.objects())
}

// StartKubeOVN starts Kube-OVN's controller.
func (c *Cluster) StartKubeOVN(k KubeOVN) error {
	if err := os.MkdirAll("/var/log/kube-ovn", 0o755); err != nil { // it ends at once where this is missing
		return fmt.Errorf("make Kube-OVN's log directory: %w", err)
	}
	external := "external"
	if n := k.Blueprint.DefaultNetwork(); n != nil {
		external = n.Name
	}
	_, err := c.Processes.Start(proc.Spec{
		Name: "kube-ovn-controller",
		Argv: []string{
			c.Parts.Program("kube-ovn-controller"), "--kubeconfig=" + c.kubeconfig(), "--ovn-nb-addr=" + k.NB,
			"--ovn-sb-addr=" + k.SB,
			"--default-cidr=" + k.Blueprint.PodRange().String(), "--default-gateway=" + first(k.Blueprint.PodRange()),
			"--node-switch-cidr=" + k.Blueprint.JoinRange().String(),
			"--service-cluster-ip-range=" + k.Blueprint.ServiceRanges(),
			"--network-type=geneve", "--default-gateway-check=false",
			"--enable-lb=true", "--enable-np=true", "--enable-eip-snat=true",
			// without it, it deletes logical routers and switches that are no Vpc and no Subnet
			"--enable-external-vpc=true",
			"--external-gateway-switch=" + external, "--external-gateway-net=" + external, "--logtostderr=true",
			"--worker-num=8",
		},
		// Without POD_NAME and POD_NAMESPACE its leader election fails; a client of its own reads KUBECONFIG whatever
		// the flag says; the rest keeps its metrics on loopback.
		Env: []string{
			"KUBECONFIG=" + c.kubeconfig(),
			"POD_NAME=kube-ovn-controller-0", "POD_NAMESPACE=kube-system", "KUBE_NAMESPACE=kube-system",
			"KUBE_NODE_NAME=node1",
			"NODE_NAME=node1", "POD_IP=127.0.0.1", "POD_IPS=127.0.0.1", "ENABLE_BIND_LOCAL_IP=true",
		},
		Restart: time.Second, // it ends if a step of its start fails
	})
	return err
}

// WaitKubeOVN waits until Kube-OVN has its own subnets and the external ones in the northbound database.
func (c *Cluster) WaitKubeOVN(ctx context.Context, client *manifest.Client, k KubeOVN) error {
	names := []string{"ovn-default", "join"}
	for _, n := range k.Blueprint.Networks {
		names = append(names, n.Name)
	}
	for _, name := range names {
		if err := client.Wait(ctx, manifest.Ref{GVK: subnetKind, Name: name}, manifest.True("Ready")); err != nil {
			return fmt.Errorf("%w\n%s", err, c.Processes.Tail("kube-ovn-controller"))
		}
	}
	return nil
}

// objects are Kube-OVN's default Vpc, the external networks, and the ConfigMap without which every start of Kube-OVN
// takes the gateway label off its nodes again.
func (k KubeOVN) objects() string {
	var gateways []string
	for _, n := range k.Blueprint.NodeList() {
		if n.Gateway {
			gateways = append(gateways, n.Name)
		}
	}
	docs := []string{defaultVpc, fmt.Sprintf(controllerDeployment, parts.KubeOVNVersion)}
	if len(gateways) > 0 {
		docs = append(docs, fmt.Sprintf(gatewayConfig, strings.Join(gateways, ",")))
	}
	for i := range k.Blueprint.Networks {
		n := &k.Blueprint.Networks[i]
		docs = append(docs, networkObjects(n, n.Name == k.Blueprint.DefaultNetwork().Name))
	}
	return strings.Join(docs, "\n---\n")
}

func networkObjects(n *blueprint.Network, isDefault bool) string {
	var prefixes, gateways, reserved []string
	known := slices.DeleteFunc(slices.Clone(n.Prefixes), func(p netip.Prefix) bool { return n.IPv4Subnet && !p.Addr().Is4() })
	protocol := map[bool]string{true: "IPv4", false: "IPv6"}[known[0].Addr().Is4()]
	if len(known) == 2 {
		protocol = "Dual"
	}
	for _, p := range known {
		prefixes = append(prefixes, p.String())
		gateways = append(gateways, first(p))
		reserved = append(reserved, fmt.Sprintf("%q", n.ReservedRange(p)))
	}
	return fmt.Sprintf(externalNetwork, n.Name, strings.TrimPrefix(n.Name, "ext-"), isDefault, protocol,
		strings.Join(prefixes, ","), strings.Join(gateways, ","), strings.Join(reserved, ", "), n.VLAN)
}

func first(p netip.Prefix) string { return p.Masked().Addr().Next().String() }

// controllerDeployment is the Deployment that an installation of Kube-OVN has. Its image tells the version; the lab runs the
// controller as a process, so it has no replicas.
const controllerDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: kube-ovn-controller, namespace: kube-system, labels: {app: kube-ovn-controller}}
spec:
  replicas: 0
  selector: {matchLabels: {app: kube-ovn-controller}}
  template:
    metadata: {labels: {app: kube-ovn-controller}}
    spec:
      containers: [{name: kube-ovn-controller, image: "docker.io/kubeovn/kube-ovn:v%s"}]`

// Kube-OVN makes its default Vpc at start and then marks it ready for subnets. A worker that still sees the Vpc without
// the mark writes the whole status back and takes it off again; the subnets then wait for the Vpc and the Vpc for the
// subnets, for ever. A Vpc that has the mark from the beginning has no such moment.
const defaultVpc = `
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: ovn-cluster}
status: {standby: true, default: true, router: ovn-cluster, defaultLogicalSwitch: ovn-default}`

const gatewayConfig = `
apiVersion: v1
kind: ConfigMap
metadata: {name: ovn-external-gw-config, namespace: kube-system}
data: {enable-external-gw: "true", external-gw-nodes: %q, type: centralized}`

// The labels say what kind of network it is, in the words that tenants use.
const externalNetwork = `
apiVersion: kubeovn.io/v1
kind: ProviderNetwork
metadata: {name: "%[1]s"}
spec: {defaultInterface: "%[1]s"}
---
apiVersion: kubeovn.io/v1
kind: Vlan
metadata: {name: "%[1]s"}
spec: {id: %[8]d, provider: "%[1]s"}
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata:
  name: "%[1]s"
  labels:
    network.kube-dc.com/external-network-type: "%[2]s"
    network.kube-dc.com/default-external: "%[3]t"
spec:
  protocol: %[4]s
  cidrBlock: "%[5]s"
  gateway: "%[6]s"
  vlan: "%[1]s"
  excludeIps: [%[7]s]`

const networkAttachments = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: network-attachment-definitions.k8s.cni.cncf.io}
spec:
  group: k8s.cni.cncf.io
  scope: Namespaced
  names: {plural: network-attachment-definitions, singular: network-attachment-definition, kind: NetworkAttachmentDefinition, shortNames: [net-attach-def]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              config: {type: string}`
