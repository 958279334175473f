// Command release is what is published of a version: image, chart, manifests, programs, checksums and signatures.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// release is what a release is made from and where it goes.
type release struct {
	version string // as in Chart.yaml, without v
	source  string // the repository
	out     string
	debs    string // directories of Debian packages, one for each architecture
	helm    string
	signer  signer
	created time.Time
}

// versionForm is that of Semantic Versioning without build metadata: a tag of an image has no "+".
var versionForm = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// maxVersion fits into a label of Kubernetes after the chart's name.
const maxVersion = 40

func run(args []string) error {
	if len(args) == 0 || args[0] != "build" && args[0] != "publish" {
		return errors.New("usage: release build|publish [flags]")
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ExitOnError)
	var r release
	flags.StringVar(&r.version, "version", "", "the `version`, such as 1.2.3")
	flags.StringVar(&r.source, "source", "../..", "the `directory` of the repository")
	flags.StringVar(&r.out, "out", "", "the `directory` of the release")
	flags.StringVar(&r.debs, "debs", "", "a `directory` with Debian packages in amd64/ and arm64/")
	flags.StringVar(&r.helm, "helm", "helm", "the `program` Helm")
	flags.StringVar(&r.signer.program, "cosign", "cosign", "the `program` cosign")
	flags.StringVar(&r.signer.key, "key", "", "the `file` with the private key to sign with, its password in COSIGN_PASSWORD")
	flags.BoolVar(&r.signer.keyless, "keyless", false, "sign with the identity of a workflow, in Sigstore's public log")
	registry := flags.String("registry", "", "where to publish, such as ghcr.io/sallyport")
	plain := flags.Bool("plain-http", false, "the registry has no TLS: for tests")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if !versionForm.MatchString(r.version) || len(r.version) > maxVersion {
		return fmt.Errorf("%q is no version such as 1.2.3 or 1.2.3-rc.1 of at most %d characters", r.version, maxVersion)
	}
	if r.signer.key != "" && r.signer.keyless {
		return errors.New("sign with -key or with -keyless, not with both")
	}
	var err error
	if r.created, err = sourceDate(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	for _, path := range []*string{&r.source, &r.out, &r.debs} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if args[0] == "publish" {
		return r.publish(*registry, *plain)
	}
	return r.build()
}

// sourceDate is the time of the commit, so that the same source gives the same files.
func sourceDate(epoch string) (time.Time, error) {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH must be seconds since 1970, it is %q", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
