package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// architectures are those of the image and of the programs, all of Linux: the lab, a part of the CLI, uses what only Linux has.
var architectures = []string{"amd64", "arm64"}

// programs are what is built, in the order in which the image names them: it runs the first.
var programs = []string{"sallyport-controller", "sallyport", "sallyport-agent"}

// name is the name of a file of the release.
func (r release) name(format string, args ...any) string {
	return "sallyport_" + r.version + "_" + fmt.Sprintf(format, args...)
}

func (r release) path(name string) string { return filepath.Join(r.out, name) }

// build makes all files of a release in an empty directory, the checksums of all others last.
func (r release) build() error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "sallyport-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		run  func(work string) error
	}{
		{"programs", r.buildPrograms},
		{"image", r.buildImage},
		{"chart", r.buildChart},
		{"manifests", r.buildManifests},
		{"krew manifest", r.buildKrew},
		{"notes", r.buildNotes},
		{"checksums", func(string) error { return r.writeSums() }},
		{"signature", func(string) error { return r.signer.signFile(r.path(sumsFile)) }},
	} {
		if err := step.run(work); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Println("made", step.what)
	}
	return nil
}

// buildPrograms compiles every program for every architecture and packs each with the license.
func (r release) buildPrograms(work string) error {
	for _, arch := range architectures {
		dir := filepath.Join(work, arch)
		cmd := exec.Command("go", "build", "-C", r.source, "-trimpath", "-buildvcs=false", "-ldflags", "-X main.version="+r.version,
			"-o", dir+"/", "./cmd/...")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if _, err := output(cmd); err != nil {
			return err
		}
		for _, program := range programs {
			files := map[string]string{program: filepath.Join(dir, program), "LICENSE": filepath.Join(r.source, "LICENSE")}
			if err := pack(r.path(r.archiveOf(program, arch)), files, r.created); err != nil {
				return err
			}
		}
	}
	return nil
}

// archiveOf is the archive of a program.
func (r release) archiveOf(program, arch string) string {
	return program + "_" + r.version + "_linux_" + arch + ".tar.gz"
}

// output runs a command and returns what it prints; what it says of a failure is part of the error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}
