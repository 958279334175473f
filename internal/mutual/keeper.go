package mutual

import (
	"os"
	"sync"
	"time"
)

// keeper is what files say, read again when they have changed. Whoever connects costs three looks at the file system and no more.
type keeper struct {
	files Files

	mu    sync.Mutex
	seen  stamp // the files when they were read the last time, also when they could not be used
	holds *material
}

// stamp tells one content of the files from the next.
type stamp [3]struct {
	changed time.Time
	size    int64
}

// keep reads the files for the first time.
func (f Files) keep() (*keeper, error) {
	seen := f.stamp()
	texts, err := f.Read()
	if err != nil {
		return nil, err
	}
	holds, err := texts.parse()
	if err != nil {
		return nil, err
	}
	return &keeper{files: f, seen: seen, holds: holds}, nil
}

// current is what the files say. While they can't be used, such as between the writing of one and the other, the last that could be is.
func (k *keeper) current() *material {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.files.stamp()
	if now == k.seen {
		return k.holds
	}
	texts, err := k.files.Read()
	if err != nil {
		return k.holds
	}
	k.seen = now
	if next, err := texts.parse(); err == nil {
		k.holds = next
	}
	return k.holds
}

func (f Files) stamp() (out stamp) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		info, err := os.Stat(name) // of what a link leads to: a mounted Secret is exchanged by one
		if err != nil {
			continue
		}
		out[i].changed, out[i].size = info.ModTime(), info.Size()
	}
	return out
}
