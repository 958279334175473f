package mtls

import (
	"os"
	"sync"
	"time"
)

// certReloader holds the content of the files, and reads them again when they have changed. A connection costs three
// calls of stat, and no more.
type certReloader struct {
	files Files

	mu        sync.Mutex
	lastStamp fileStamp // of the last read, even if the files were unusable
	loaded    *tlsMaterial
}

// fileStamp identifies a version of the files.
type fileStamp [3]struct {
	changed time.Time
	size    int64
}

// newReloader reads the files for the first time.
func (f Files) newReloader() (*certReloader, error) {
	seen := f.statFiles()
	texts, err := f.ReadPEM()
	if err != nil {
		return nil, err
	}
	holds, err := texts.parseMaterial()
	if err != nil {
		return nil, err
	}
	return &certReloader{files: f, lastStamp: seen, loaded: holds}, nil
}

// currentMaterial returns the content of the files. While they are unusable, for example between the writes of two
// files, it returns the last usable content.
func (k *certReloader) currentMaterial() *tlsMaterial {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.files.statFiles()
	if now == k.lastStamp {
		return k.loaded
	}
	texts, err := k.files.ReadPEM()
	if err != nil {
		return k.loaded
	}
	k.lastStamp = now
	if next, err := texts.parseMaterial(); err == nil {
		k.loaded = next
	}
	return k.loaded
}

func (f Files) statFiles() (out fileStamp) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		info, err := os.Stat(name) // follows links: a mounted Secret is replaced by changing one
		if err != nil {
			continue
		}
		out[i].changed, out[i].size = info.ModTime(), info.Size()
	}
	return out
}
