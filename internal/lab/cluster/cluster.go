// Package cluster is the Kubernetes control plane of a lab, with Kube-OVN's controller on top.
package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sallyport/sallyport/internal/engine/mtls"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/pki"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

// Cluster is the control plane's processes and the credentials to talk to them.
type Cluster struct {
	Parts     parts.Set
	Processes *proc.Table
	State     string
	CA        *pki.Authority
	Address   netip.Addr   // where nodes find the API server
	Services  netip.Prefix // the addresses of Services
	// ServiceRanges are these, and those of the other family if there are any.
	ServiceRanges string
	Grace         time.Duration // how long a node may be silent before it is NotReady
	Reachable     bool          // the Service "kubernetes" leads pods to the API server

	admin    pki.Files
	issuing  sync.Mutex
	restored bool // the resource definitions were in etcd before the API server started
}

const (
	etcdClient = "http://127.0.0.1:2379"
	etcdPeer   = "http://127.0.0.1:2380"
	adminName  = "admin"
	// APIPort is where the API server listens inside the lab.
	APIPort = 6443
)

// lessGC trades memory for time: an API server with an almost empty store collects garbage for a third of its start,
// and keeps 100 MiB more instead.
const lessGC = "GOGC=400"

// StartAPI starts etcd and the API server and waits until it is ready.
func (c *Cluster) StartAPI(ctx context.Context) error {
	serving, err := c.credentials()
	if err != nil {
		return err
	}
	if err := c.start("etcd", "--data-dir="+filepath.Join(c.State, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+etcdClient, "--advertise-client-urls="+etcdClient, "--listen-peer-urls="+etcdPeer,
		"--initial-advertise-peer-urls="+etcdPeer, "--initial-cluster=default="+etcdPeer,
		"--quota-backend-bytes=8589934592"); err != nil {
		return err
	}
	if err := c.restore(ctx); err != nil {
		return err
	}
	reconciler := "none"
	if c.Reachable {
		reconciler = "lease"
	}
	if err := c.start("kube-apiserver", "--etcd-servers="+etcdClient, fmt.Sprintf("--secure-port=%d", APIPort),
		"--bind-address=0.0.0.0", "--advertise-address="+c.Address.String(), "--endpoint-reconciler-type="+reconciler,
		"--kubelet-client-certificate="+c.admin.Cert, "--kubelet-client-key="+c.admin.Key,
		"--kubelet-preferred-address-types=InternalIP",
		"--tls-cert-file="+serving.Cert, "--tls-private-key-file="+serving.Key, "--client-ca-file="+serving.CA,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.CA.Path("service-accounts.key"),
		"--service-account-signing-key-file="+c.CA.Path("service-accounts.key"), "--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range="+c.ServiceRanges, "--allow-privileged=true", "--profiling=false"); err != nil {
		return err
	}
	return c.waitReady(ctx)
}

// credentials issues what the control plane and its users need.
func (c *Cluster) credentials() (serving pki.Files, err error) {
	if _, err := c.CA.Key("service-accounts"); err != nil {
		return pki.Files{}, err
	}
	c.admin, err = c.CA.Issue(pki.Subject{Name: adminName, Groups: []string{"system:masters"}})
	if err != nil {
		return pki.Files{}, err
	}
	if err := c.WriteKubeconfig(c.kubeconfig(), c.localURL()); err != nil {
		return pki.Files{}, err
	}
	return c.CA.Issue(pki.Subject{Name: "kube-apiserver", Hosts: []string{
		"localhost", "127.0.0.1", "::1", c.Address.String(), "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", first(c.Services),
	}})
}

// KubeletTLS is how kubelets serve the API server, and nobody else.
func (c *Cluster) KubeletTLS() (*tls.Config, error) {
	files, err := c.CA.Issue(pki.Subject{Name: "kubelet"})
	if err != nil {
		return nil, err
	}
	out, err := mtls.Files{Cert: files.Cert, Key: files.Key, CA: files.CA}.ServerConfig()
	if err != nil {
		return nil, err
	}
	verify := out.VerifyConnection
	out.VerifyConnection = func(s tls.ConnectionState) error {
		if err := verify(s); err != nil {
			return err
		}
		if name := s.PeerCertificates[0].Subject.CommonName; name != adminName {
			return fmt.Errorf("%s may not use kubelets", name)
		}
		return nil
	}
	return out, nil
}

func (c *Cluster) localURL() string { return fmt.Sprintf("https://127.0.0.1:%d", APIPort) }

func (c *Cluster) kubeconfig() string { return filepath.Join(c.State, "kubeconfig") }

// WriteKubeconfig writes an administrator's kubeconfig, complete in itself, for the API server at url.
func (c *Cluster) WriteKubeconfig(path, url string) error {
	return writeKubeconfig(path, url, adminName, c.admin)
}

// NodeKubeconfig writes a kubeconfig for somebody on a node, and returns its path.
func (c *Cluster) NodeKubeconfig(s pki.Subject) (string, error) {
	c.issuing.Lock() // several nodes may ask for the same
	defer c.issuing.Unlock()
	files, err := c.CA.Issue(s)
	if err != nil {
		return "", err
	}
	// KUBECONFIG is a list with colons between its files
	path := filepath.Join(c.State, strings.ReplaceAll(s.Name, ":", "-")+".kubeconfig")
	return path, writeKubeconfig(path, fmt.Sprintf("https://%s:%d", c.Address, APIPort), s.Name, files)
}

func writeKubeconfig(path, url, user string, credentials pki.Files) error {
	var blobs [3][]byte
	for i, file := range []string{credentials.CA, credentials.Cert, credentials.Key} {
		raw, err := os.ReadFile(file) //nolint:gosec // a file that the lab has written or that the cache has
		if err != nil {
			return fmt.Errorf("read credentials: %w", err)
		}
		blobs[i] = raw
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: blobs[0]}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: blobs[1], ClientKeyData: blobs[2]}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: user}
	config.CurrentContext = "lab"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// Config reaches the API server from inside the lab, without a client-side rate limit: the lab is its only user.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{
		Host:            c.localURL(),
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.admin.CA, CertFile: c.admin.Cert, KeyFile: c.admin.Key},
		QPS:             -1,
	}
}

// waitReady asks /readyz until it says yes. The API server offers no event for this; asking costs it nothing.
func (c *Cluster) waitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for kube-apiserver: %w\n%s", context.Cause(ctx), c.Processes.Tail("kube-apiserver"))
		}
	}
}

// The controllers that would fight with the lab or Kube-OVN, or that have nothing to do here.
const leaveOut = "*,-node-ipam-controller,-node-route-controller,-service-lb-controller,-cloud-node-lifecycle-controller," +
	"-persistentvolume-binder-controller,-persistentvolume-attach-detach-controller,-persistentvolume-expander-controller"

// StartControllers starts the controller manager and the scheduler.
func (c *Cluster) StartControllers() error {
	if err := c.start("kube-controller-manager", "--kubeconfig="+c.kubeconfig(), "--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file="+c.CA.Path("service-accounts.key"), "--root-ca-file="+c.admin.CA,
		"--controllers="+leaveOut, "--allocate-node-cidrs=false", "--kube-api-qps=500", "--kube-api-burst=1000",
		"--node-monitor-period=1s", "--node-monitor-grace-period="+c.Grace.String()); err != nil {
		return err
	}
	return c.start("kube-scheduler", "--kubeconfig="+c.kubeconfig(), "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=500", "--kube-api-burst=1000")
}

func (c *Cluster) start(program string, args ...string) error {
	_, err := c.Processes.Start(proc.Spec{
		Name: program,
		Argv: append([]string{c.Parts.Program(program)}, args...),
		Env:  []string{lessGC},
	})
	return err
}

// APIAddress is the API server inside the lab, as host and port.
func APIAddress() string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(APIPort)) }
