package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// publish writes image and chart to a registry and signs both by digest. The credentials are those of `docker login`.
func (r release) publish(registry string, plain bool) error {
	if registry == "" {
		return errors.New("name a registry, such as ghcr.io/sallyport")
	}
	if err := r.checkSums(); err != nil {
		return err
	}
	var options []name.Option
	if plain {
		options = append(options, name.Insecure)
	}
	image, err := name.NewTag(registry+"/sallyport:"+r.version, options...)
	if err != nil {
		return err
	}
	chart, err := name.NewTag(registry+"/charts/sallyport:"+r.version, options...)
	if err != nil {
		return err
	}
	if err := r.pushImage(image); err != nil {
		return err
	}
	if err := r.pushChart(registry, plain); err != nil {
		return err
	}
	for _, tag := range []name.Tag{image, chart} {
		got, err := remote.Head(tag, remote.WithAuthFromKeychain(authn.DefaultKeychain))
		if err != nil {
			return fmt.Errorf("read %s: %w", tag, err)
		}
		digest := tag.Context().Digest(got.Digest.String())
		if err := r.signer.signImage(digest.Name(), plain); err != nil {
			return err
		}
		fmt.Println(tag.Name(), got.Digest)
	}
	return nil
}

// checkSums refuses to publish files that are not those of the release.
func (r release) checkSums() error {
	cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet", sumsFile)
	cmd.Dir = r.out
	_, err := output(cmd)
	return err
}

func (r release) pushImage(to name.Tag) error {
	work, err := os.MkdirTemp("", "sallyport-publish-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	index, err := openIndex(r.path(r.imageFile()), filepath.Join(work, "layout"))
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(to, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", to, err)
	}
	return nil
}

func (r release) pushChart(registry string, plain bool) error {
	args := []string{"push", r.path(r.chartFile()), "oci://" + registry + "/charts"}
	if plain {
		args = append(args, "--plain-http")
	}
	_, err := output(exec.Command(r.helm, args...))
	return err
}
