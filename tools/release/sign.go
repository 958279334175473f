package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// signer signs with cosign: with a key and nothing else, or without one, with the identity of a workflow and Sigstore's public services.
type signer struct {
	program, key string
	keyless      bool
}

// noServices is the signing configuration for a key alone: no log, no time stamps. cosign's own default names Sigstore's.
const noServices = `{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json","rekorTlogConfig":{},"tsaConfig":{}}`

// signFile writes the signature of a file beside it. Without a key nothing is signed: a build for oneself needs none.
func (s signer) signFile(path string) error {
	if s.key == "" && !s.keyless {
		return nil
	}
	return s.sign("sign-blob", "--bundle", path+".sigstore.json", path)
}

// signImage writes the signature of an image or a chart to its registry. What is published is signed.
func (s signer) signImage(digest string, plain bool) error {
	if s.key == "" && !s.keyless {
		return errors.New("what is published must be signed: give a key")
	}
	if plain {
		return s.sign("sign", "--allow-http-registry", digest)
	}
	return s.sign("sign", digest)
}

func (s signer) sign(command string, args ...string) error {
	all := []string{command, "--yes"}
	if s.key != "" {
		dir, err := os.MkdirTemp("", "sallyport-sign-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		config := filepath.Join(dir, "services.json")
		if err := os.WriteFile(config, []byte(noServices), 0o600); err != nil {
			return err
		}
		all = append(all, "--key", s.key, "--signing-config", config)
	}
	_, err := output(exec.Command(s.program, append(all, args...)...))
	return err
}
