package mtls

import (
	"os"
	"sync"
	"time"
)

// certReloader is what files say, read again when they have changed. Whoever connects costs three looks at the file
// system and no more.
type certReloader struct {
	files Files

	mu        sync.Mutex
	lastStamp fileStamp // the files when they were read the last time, also when they could not be used
	loaded    *tlsMaterial
}

// fileStamp tells one content of the files from the next.
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

// currentMaterial is what the files say. While they can't be used, such as between the writing of one and the other,
// the last that could be is.
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
		info, err := os.Stat(name) // of what a link leads to: a mounted Secret is exchanged by one
		if err != nil {
			continue
		}
		out[i].changed, out[i].size = info.ModTime(), info.Size()
	}
	return out
}
