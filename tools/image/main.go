// Command image is a container image made of static programs and of programs of the machine, without a container engine.
package main

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ExitOnError)
	out := flags.String("out", "image.tar", "the `file` to write")
	reference := flags.String("reference", "sallyport:dev", "the image's `name` and tag when it is loaded")
	version := flags.String("version", "unknown", "what the image says of its version")
	revision := flags.String("revision", "", "the `commit` that it was built from")
	plain := flags.Bool("uncompressed", false, "do not compress layers: a larger file that is imported sooner")
	arch := flags.String("arch", "amd64", "the `architecture` of the programs, amd64 or arm64")
	debs := flags.String("debs", "", "a `directory` of Debian packages to take programs from instead of this machine: nothing of them is executed")
	var with system
	flags.Var(&with, "with", "a `program` of this machine to put into the image with its libraries; may be given several times")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: image [flags] PROGRAM...\nPrograms are static and written in Go; the image runs the first. "+
			"SOURCE_DATE_EPOCH is when it was made.\nIts bill of materials (SPDX) is in the image, and beside it.")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return fmt.Errorf("name the programs to put into the image")
	}
	created, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	p, err := platformOf(*arch)
	if err != nil {
		return err
	}
	unpacked, err := os.MkdirTemp("", "sallyport-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(unpacked) }()
	files, err := collect(with, p, *debs, unpacked)
	if err != nil {
		return err
	}
	r := recipe{
		binaries: flags.Args(), system: files, labels: labels(*version, *revision, with), version: *version, created: created,
		plain: *plain, arch: p.goName,
	}
	if err := r.check(p); err != nil {
		return err
	}
	sbom, err := billOfMaterials(r)
	if err != nil {
		return err
	}
	image, err := build(r, sbom)
	if err != nil {
		return err
	}
	if err := errors.Join(save(image, *reference, *out), os.WriteFile(besides(*out), sbom, 0o644)); err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Println(*out, digest)
	return nil
}

// collect finds the programs of the system and what they need, installed on this machine or in Debian packages.
func collect(with system, p platform, debs, below string) ([]file, error) {
	if debs == "" {
		if p.goName != runtime.GOARCH && len(with) > 0 {
			return nil, fmt.Errorf("this machine is no %s: give the packages of %s as -debs (tools/image/debian downloads them)", p.goName, with.String())
		}
		return with.files()
	}
	t, err := unpackDebs(debs, below, p)
	if err != nil {
		return nil, err
	}
	return t.files(with)
}

// check refuses programs of another architecture: nothing would start them.
func (r recipe) check(p platform) error {
	for _, binary := range r.binaries {
		f, err := elf.Open(binary)
		if err != nil {
			return fmt.Errorf("read %s: %w", binary, err)
		}
		machine := f.Machine
		_ = f.Close()
		if machine != p.machine {
			return fmt.Errorf("%s is for %s, the image for %s", binary, machine, p.goName)
		}
	}
	return nil
}

// sourceDate is the time of what the image is built from, so that the same source gives the same image.
func sourceDate(epoch string) (time.Time, error) {
	if epoch == "" {
		epoch = "0"
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH must be seconds since 1970, it is %q", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func labels(version, revision string, with system) map[string]string {
	out := map[string]string{
		"org.opencontainers.image.title":       "sallyport",
		"org.opencontainers.image.description": "External addresses, floating IPs and ways out for a Kubernetes cluster on Kube-OVN",
		"org.opencontainers.image.source":      "https://github.com/sallyport/sallyport",
		"org.opencontainers.image.licenses":    strings.Join(append([]string{"Apache-2.0"}, with.licenses()...), " AND "),
		"org.opencontainers.image.version":     version,
	}
	if revision != "" {
		out["org.opencontainers.image.revision"] = revision
	}
	return out
}
