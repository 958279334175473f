package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kubernetesNode is what Kubernetes runs on every node.
func kubernetesNode() part {
	p := goPart(KubernetesNode, KubernetesVersion, recipe{linker: kubernetesLinker(), programs: []program{
		{"kubelet", "k8s.io/kubernetes/cmd/kubelet"},
		{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"},
	}})
	p.optional = true
	return p
}

const cniConfiguration = "01-kube-ovn.conflist"

// kubeOVNNode is what Kube-OVN runs on every node: its daemon, its CNI plugin, the plugins that its CNI configuration
// names besides, and that configuration. Two of its modules are not in Go's checksum database; their sums are those
// of Kube-OVN's own go.sum.
func kubeOVNNode() part {
	p := goPart(KubeOVNNode, KubeOVNVersion, recipe{linker: kubeOVNLinker, programs: []program{
		{"kube-ovn-daemon", "github.com/kubeovn/kube-ovn/cmd/daemon"},
		{"kube-ovn", "github.com/kubeovn/kube-ovn/cmd/cni"},
		{"loopback", "github.com/containernetworking/plugins/plugins/main/loopback"},
		{"portmap", "github.com/containernetworking/plugins/plugins/meta/portmap"},
	}})
	p.optional = true
	return p.then(func(ctx context.Context, w workshop) error {
		return takeOfKubeOVN(ctx, w, "dist/images", cniConfiguration)
	})
}

// CNIConfiguration is Kube-OVN's configuration of the CNI.
func (s Set) CNIConfiguration() string { return filepath.Join(s.dirs[KubeOVNNode], cniConfiguration) }

// containerd is the container runtime, without the snapshotters that need programs or file systems of their own.
func containerd() part {
	const module = "github.com/containerd/containerd/v2"
	p := goPart(Containerd, ContainerdVersion, recipe{
		linker: "-s -w -X " + module + "/version.Version=" + ContainerdVersion,
		tags:   "no_btrfs,no_devmapper,no_zfs",
		programs: []program{
			{"containerd", module + "/cmd/containerd"},
			{"containerd-shim-runc-v2", module + "/cmd/containerd-shim-runc-v2"},
			{"ctr", module + "/cmd/ctr"},
		},
	})
	p.optional = true
	return p
}

// runc is what makes containers. It starts itself anew as /proc/self/exe, so it can't run through the dynamic loader of
// another suite as programs of Debian do here: it is built as a static program, with the seccomp library of Debian.
func runc() part {
	seccomp := debs{suite: "bookworm", names: []string{"libseccomp-dev"}, proof: "libseccomp-dev"}
	r := recipe{
		linker:   "-s -w -linkmode external -extldflags -static -X main.version=" + RuncVersion,
		tags:     "seccomp,netgo,osusergo",
		programs: []program{{"runc", "github.com/opencontainers/runc"}},
	}
	p := goPart(Runc, RuncVersion, r)
	p.optional = true
	p.inputs = slices.Concat(p.inputs, []byte(seccomp.suite+SeccompVersion))
	p.build = func(ctx context.Context, w workshop) error {
		if err := need("gcc"); err != nil {
			return err
		}
		if err := seccomp.unpack(ctx, w, SeccompVersion); err != nil {
			return err
		}
		pkgConfig, root := filepath.Join(w.dir, "pkg-config"), filepath.Join(w.dir, "root")
		if err := writePkgConfig(pkgConfig, root); err != nil {
			return err
		}
		withLibrary := r
		withLibrary.env = []string{"CGO_ENABLED=1", "PKG_CONFIG=" + pkgConfig}
		if err := goPart(Runc, RuncVersion, withLibrary).build(ctx, w); err != nil {
			return err
		}
		return errors.Join(os.RemoveAll(root), os.Remove(pkgConfig))
	}
	return p
}

// writePkgConfig writes a program that says where the unpacked library is, whatever it is asked.
func writePkgConfig(path, root string) error {
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n*--cflags*) echo -I%[1]s/usr/include ;;\n"+
		"*--libs*) echo -L%[1]s/usr/lib/x86_64-linux-gnu -lseccomp ;;\nesac\n", root)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil { //nolint:gosec // it is run
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// nodeTools are the programs that Kube-OVN's daemon and the kubelet run and that a machine need not have. Debian links
// iptables to one of its two kinds when the package is installed; here it is the one on nftables.
func nodeTools() part {
	iptables := []string{
		"iptables-nft", "iptables-nft-save", "iptables-nft-restore", "ip6tables-nft", "ip6tables-nft-save",
		"ip6tables-nft-restore", "iptables-legacy", "iptables-legacy-save", "iptables-legacy-restore",
		"ip6tables-legacy", "ip6tables-legacy-save", "ip6tables-legacy-restore",
	}
	from := debs{
		suite:    suites[OVNVersion],
		names:    []string{"iptables", "ipset", "ethtool", "conntrack"},
		programs: append(iptables, "ipset", "ethtool", "conntrack"),
		proof:    "iptables",
	}
	return part{
		name: NodeTools, version: IptablesVersion, inputs: fmt.Append(nil, from), optional: true,
		build: func(ctx context.Context, w workshop) error {
			if err := from.unpack(ctx, w, IptablesVersion); err != nil {
				return err
			}
			for _, name := range iptables {
				if alias := strings.Replace(name, "-nft", "", 1); alias != name {
					if err := os.Symlink(name, filepath.Join(w.dir, "bin", alias)); err != nil {
						return fmt.Errorf("name %s: %w", alias, err)
					}
				}
			}
			return nil
		},
	}
}

// XtablesLibraries is where iptables finds its extensions, for the environment variable XTABLES_LIBDIR.
func (s Set) XtablesLibraries() string {
	return filepath.Join(s.Root(NodeTools), "usr/lib/x86_64-linux-gnu/xtables")
}
