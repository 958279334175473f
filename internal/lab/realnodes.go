package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/internal/lab/realnode"
)

// cgroupsFile says, in a lab's directory, where the control groups of its real nodes are.
const cgroupsFile = "cgroups"

// claimCgroups finds the control groups below which real nodes have theirs, and notes them for Down.
func claimCgroups(name string) ([]realnode.Hierarchy, error) {
	hierarchies, err := realnode.Hierarchies()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(hierarchies)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dirOf(name), cgroupsFile), raw, 0o600); err != nil {
		return nil, fmt.Errorf("note control groups: %w", err)
	}
	return hierarchies, nil
}

// removeCgroups removes the control groups of a lab that has ended.
func removeCgroups(name string) error {
	raw, err := os.ReadFile(filepath.Join(dirOf(name), cgroupsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no real nodes
	}
	if err != nil {
		return fmt.Errorf("find control groups: %w", err)
	}
	var hierarchies []realnode.Hierarchy
	if err := json.Unmarshal(raw, &hierarchies); err != nil {
		return fmt.Errorf("find control groups: %w", err)
	}
	return realnode.RemoveCgroups(name, hierarchies)
}

// checkImages says what is missing for pods on real nodes.
func (o Options) checkImages() error {
	if o.Blueprint.RealNodes == 0 {
		return nil
	}
	if len(o.Images) == 0 {
		return errors.New("real nodes need container images, at least that of pause; make them with: make lab-images")
	}
	for _, file := range o.Images {
		if err := checkImage(file); err != nil {
			return err
		}
	}
	_, err := realnode.Hierarchies()
	return err
}

func checkImage(file string) error {
	if _, err := os.Stat(file); err != nil || !filepath.IsAbs(file) {
		return fmt.Errorf("image %q is no file with an absolute path", file)
	}
	return nil
}

// ImportImage loads a container image on every real node of the lab. Nodes do not see the machine's /run, /var/lib and
// /var/log.
func (l *Lab) ImportImage(ctx context.Context, file string) error {
	if err := checkImage(file); err != nil {
		return err
	}
	body, err := json.Marshal(file)
	if err != nil {
		return err
	}
	_, err = l.call(ctx, http.MethodPost, "/import", body)
	return err
}

// realPodNetwork is the network namespace of a pod of a real node, as the lab sees it, or empty.
func (l *Lab) realPodNetwork(namespace, pod string) string {
	ctx, cancel := context.WithTimeout(context.Background(), podNetworkTimeout)
	defer cancel()
	var out daemon.PodNetwork
	if err := l.ask(ctx, http.MethodGet, "/pods/"+url.PathEscape(namespace)+"/"+url.PathEscape(pod), nil, &out); err != nil {
		return "" // no such pod
	}
	return out.Path
}

const podNetworkTimeout = 10 * time.Second

// ImagesBeside are the container images that `make lab-images` has put beside a program.
func ImagesBeside(program string) []string {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "lab-images", "*.tar")) // the pattern is valid
	return files
}
