package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/usage"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
)

// FuzzBundle: any archive is a bundle or an error, and commands look at whatever is in it without panic.
func FuzzBundle(f *testing.F) {
	s := clusterstatetest.GenerateCluster(1)
	for _, p := range bundleFiles(s, doctorReport{Taken: s.Taken}) {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		if err := p.addToArchive(w, s.Taken); err != nil {
			f.Fatal(err)
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Bytes())
	}
	f.Add([]byte(`{"Taken":"2030-01-02T03:04:05Z","Cluster":{"EIps":[{}],"Services":[{}],"Nodes":[{}]},"Shards":[{}],"Inspected":{"x":{}}}`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, raw := range [][]byte{data, gzipArchive(t, data)} {
			s, err := readSurvey(bytes.NewReader(raw), 1<<20)
			if err != nil {
				continue
			}
			diagnosis.CheckCluster(s)
			usage.Summarize(s)
			for _, p := range bundleFiles(s, doctorReport{Taken: time.Unix(0, 0)}) {
				_ = p.write(io.Discard)
			}
		}
	})
}

// gzipArchive is an archive as bundles are compressed.
func gzipArchive(t *testing.T, archive []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(archive); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
