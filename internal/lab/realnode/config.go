package realnode

import (
	"fmt"
	"strings"
	"time"
)

// PauseImage holds the namespaces of a pod.
const PauseImage = "docker.io/lab/pause:latest"

const runtimeSocket = "/run/containerd/containerd.sock"

// containerdConfig has nothing pulled: images are loaded. Without CAP_SYS_RESOURCE a container's OOM score can't be
// lowered.
func containerdConfig(runc, plugins string) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = %q
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = %q
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [%q]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = %q
      SystemdCgroup = false
`, runtimeSocket, PauseImage, plugins, runc)
}

// kubeletConfig evicts nothing for want of memory or disk, which are the machine's, and changes no setting of the
// machine's kernel.
func kubeletConfig(ca string, lease time.Duration) string {
	return strings.Join([]string{
		"apiVersion: kubelet.config.k8s.io/v1beta1",
		"kind: KubeletConfiguration",
		"failCgroupV1: false", // it refuses version 1 otherwise
		"cgroupDriver: cgroupfs",
		"containerRuntimeEndpoint: unix://" + runtimeSocket,
		"failSwapOn: false",
		"authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: " + ca + "}}",
		"authorization: {mode: Webhook}",
		"nodeStatusUpdateFrequency: 2s",
		fmt.Sprintf("nodeLeaseDurationSeconds: %d", lease/time.Second),
		"imageGCHighThresholdPercent: 100",
		`evictionHard: {memory.available: "0%", nodefs.available: "0%", imagefs.available: "0%"}`,
		"protectKernelDefaults: true",
		"oomScoreAdj: 0",
		"maxOpenFiles: 20000",
		`resolvConf: ""`,
		"volumePluginDir: /var/lib/kubelet/volumeplugins",
		"logging: {verbosity: 2}",
	}, "\n") + "\n"
}

// proxyConfig leaves the connection tracker's settings alone, which are the machine's.
func proxyConfig(node, kubeconfig, pods string) string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: %q}
hostnameOverride: %q
clusterCIDR: %q
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
`, kubeconfig, node, pods)
}
