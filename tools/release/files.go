package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// sumsFile has the checksums of all other files, as sha256sum reads them.
const sumsFile = "SHA256SUMS"

// pack writes a compressed archive of files, by their names in it: in the order of names, owned by root, of one time.
func pack(path string, files map[string]string, created time.Time) error {
	return write(path, func(w io.Writer) error {
		compressed := gzip.NewWriter(w) // without a name and a time
		if err := packFiles(compressed, files, created); err != nil {
			return err
		}
		return compressed.Close()
	})
}

// packDir writes an archive of a directory, which is not compressed: what is in an image is.
func packDir(path, dir string, created time.Time) error {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		inside, err := filepath.Rel(dir, name)
		files[filepath.ToSlash(inside)] = name
		return err
	})
	if err != nil {
		return err
	}
	return write(path, func(w io.Writer) error { return packFiles(w, files, created) })
}

func packFiles(w io.Writer, files map[string]string, created time.Time) error {
	archive := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(files[name])
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if bytes.HasPrefix(content, []byte("\x7fELF")) {
			mode = 0o755
		}
		header := &tar.Header{Name: name, Mode: mode, Size: int64(len(content)), ModTime: created, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}

func write(path string, content func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := content(file); err != nil {
		_ = file.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return file.Close()
}

// setTimes gives all files of a directory one time.
func setTimes(dir string, at time.Time) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, at, at)
	})
}

// sum is the checksum of a file.
func sum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// writeSums writes the checksums of everything in the release.
func (r release) writeSums() error {
	entries, err := os.ReadDir(r.out) // in the order of names
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, e := range entries {
		hash, err := sum(r.path(e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", hash, e.Name())
	}
	return os.WriteFile(r.path(sumsFile), out.Bytes(), 0o644)
}
