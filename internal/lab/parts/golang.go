package parts

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The modules that Go programs are built from. They are kept under other names than go.mod because a directory with a
// go.mod is another module, which can't be embedded; embedded, the one binary can build its parts without a checkout.
//
//go:embed modules
var modules embed.FS

const kubeOVNCRDs = "kube-ovn-crd.yaml"

// program is one Go program of a module: its name and its package.
type program struct{ name, path string }

// recipe is how the Go programs of a part are built.
type recipe struct {
	linker   string // flags of the linker
	tags     string
	env      []string // added to that of go build; programs are static, without C, where it says nothing else
	programs []program
}

func kubernetes() part {
	programs := []program{{"etcd", "go.etcd.io/etcd/server/v3"}}
	for _, name := range []string{"kubectl", "kube-scheduler", "kube-controller-manager", "kube-apiserver"} {
		programs = append(programs, program{name, "k8s.io/kubernetes/cmd/" + name})
	}
	return goPart("kubernetes", KubernetesVersion, recipe{linker: kubernetesLinker(), programs: programs})
}

// kubernetesLinker tells Kubernetes' programs their version.
func kubernetesLinker() string {
	flags := "-s -w"
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		minor := strings.Split(KubernetesVersion, ".")[1]
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=v%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=%[3]s -X %[1]s.gitTreeState=archive",
			p, KubernetesVersion, minor)
	}
	return flags
}

const kubeOVNLinker = "-s -w -X github.com/kubeovn/kube-ovn/versions.VERSION=v" + KubeOVNVersion

func kubeOVN() part {
	p := goPart("kube-ovn", KubeOVNVersion, recipe{linker: kubeOVNLinker, programs: []program{{
		name: "kube-ovn-controller", // it looks at its own name and refuses any other
		path: "github.com/kubeovn/kube-ovn/cmd/controller",
	}}})
	return p.then(func(ctx context.Context, w workshop) error {
		return takeOfKubeOVN(ctx, w, "charts/kube-ovn-v2/crds", kubeOVNCRDs)
	})
}

// then is the part with one more step of its build.
func (p part) then(step func(context.Context, workshop) error) part {
	build := p.build
	p.build = func(ctx context.Context, w workshop) error {
		if err := build(ctx, w); err != nil {
			return err
		}
		return step(ctx, w)
	}
	return p
}

// goPart builds Go programs from the module of the part's name.
func goPart(name, version string, r recipe) part {
	file := "modules/" + strings.ReplaceAll(name, "-", "")
	mod, errMod := modules.ReadFile(file + ".mod")
	sum, errSum := modules.ReadFile(file + ".sum")
	if err := errors.Join(errMod, errSum); err != nil {
		panic(err) // embedded at build time
	}
	return part{
		name:    name,
		version: version,
		inputs:  fmt.Appendf(slices.Concat(mod, sum), "%s%v%s", r.linker, r.programs, r.tags),
		build: func(ctx context.Context, w workshop) error {
			if err := writeModule(w, mod, sum); err != nil {
				return err
			}
			return w.goBuild(ctx, r)
		},
	}
}

func writeModule(w workshop, mod, sum []byte) error {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("the lab builds Kubernetes and Kube-OVN from source and needs Go 1.26 or newer in PATH: %w",
			err)
	}
	if err := os.MkdirAll(w.module(), 0o755); err != nil {
		return fmt.Errorf("make module: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(w.module(), "go.mod"), mod, 0o644),
		os.WriteFile(filepath.Join(w.module(), "go.sum"), sum, 0o644),
	)
}

func (w workshop) module() string { return filepath.Join(w.dir, "module") }

// goBuild builds all programs with one command, so that packages are compiled while others are linked.
func (w workshop) goBuild(ctx context.Context, r recipe) error {
	built := filepath.Join(w.dir, "built") + string(filepath.Separator)
	args := []string{"build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=" + r.linker, "-tags=" + r.tags, "-o", built}
	var names []string
	for _, p := range r.programs {
		names, args = append(names, p.name), append(args, p.path)
	}
	w.report("  building " + strings.Join(names, ", "))
	if err := os.Mkdir(built, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", built, err)
	}
	if _, err := w.goToolWith(ctx, r.env, args...); err != nil {
		return fmt.Errorf("build %s: %w", strings.Join(names, ", "), err)
	}
	for _, p := range r.programs {
		if err := os.Rename(filepath.Join(built, executableName(p.path)),
			filepath.Join(w.dir, "bin", p.name)); err != nil {
			return fmt.Errorf("keep %s: %w", p.name, err)
		}
	}
	return os.Remove(built)
}

// executableName is how go build names the program of a package: by the last element of its path that is not a major
// version.
func executableName(path string) string {
	dir, name := filepath.Split(path)
	if major, found := strings.CutPrefix(name, "v"); found {
		if _, err := strconv.Atoi(major); err == nil {
			return filepath.Base(dir)
		}
	}
	return name
}

func (w workshop) goTool(ctx context.Context, args ...string) (string, error) {
	return w.goToolWith(ctx, nil, args...)
}

func (w workshop) goToolWith(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // words of the list of parts, and no shell
	cmd.Dir = w.module()
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

const backendCRD = "gateway.envoyproxy.io_backends.yaml"

// envoyGateway is the resource definition of Backends, out of Envoy Gateway's module.
func envoyGateway() part {
	const module = "github.com/envoyproxy/gateway"
	sum := []byte(module + " v" + EnvoyVersion + " h1:wfHytSeNoinwu0vCtWT61XK23qJuRmJyU+CPWdIJp2I=\n" +
		module + " v" + EnvoyVersion + "/go.mod h1:jgU4J61wGBqPWzTW14otfLXoSU82qo75xz6CUVLILVc=\n")
	build := func(ctx context.Context, w workshop) error {
		if err := writeModule(w, []byte("module sallyport.invalid/parts\n"), sum); err != nil {
			return err
		}
		out, err := w.goTool(ctx, "mod", "download", "-json", module+"@v"+EnvoyVersion)
		if err != nil {
			return err
		}
		var got struct{ Dir string }
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			return fmt.Errorf("read what was downloaded: %w", err)
		}
		return take(w, filepath.Join(got.Dir, "charts/gateway-helm/crds/generated"), backendCRD)
	}
	return part{name: "envoy-gateway", version: EnvoyVersion, inputs: sum, build: build}
}

// take copies a file of a module into the part.
func take(w workshop, dir, name string) error {
	raw, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // a file in the cache of the lab
	if err != nil {
		return fmt.Errorf("read a file of a module: %w", err)
	}
	return os.WriteFile(filepath.Join(w.dir, name), raw, 0o644) //nolint:gosec // a file in the cache of the lab
}

// takeOfKubeOVN copies a file out of Kube-OVN's module: it is its file, not ours, and follows its version.
func takeOfKubeOVN(ctx context.Context, w workshop, dir, name string) error {
	module, err := w.goTool(ctx, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "github.com/kubeovn/kube-ovn")
	if err != nil {
		return err
	}
	return take(w, filepath.Join(module, dir), name)
}
