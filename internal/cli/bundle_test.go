package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
)

// buildArchive returns a gzip-compressed tar archive.
func buildArchive(t *testing.T, write func(*tar.Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(packed)
	write(archive)
	if err := errors.Join(archive.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type repeatedContent struct {
	prefix, text string
	times        int
}

func addArchiveFile(t *testing.T, archive *tar.Writer, name string, content repeatedContent) {
	t.Helper()
	begin, repeated, times := content.prefix, content.text, content.times
	err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(begin) + len(repeated)*times)})
	if err == nil {
		_, err = io.WriteString(archive, begin)
	}
	block := strings.Repeat(repeated, 10_000)
	for n := 0; n < times && err == nil; n += 10_000 {
		_, err = io.WriteString(archive, block[:len(repeated)*min(10_000, times-n)])
	}
	if err != nil {
		t.Fatal(err)
	}
}

// allocatedMiB returns the memory that a function allocates in total, in MiB, including memory freed in between.
func allocatedMiB(what func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	what()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

// A file of a megabyte that unpacks to gigabytes is rejected before it uses much memory, however it is made.
func TestBombsAreRefused(t *testing.T) {
	const limit = 64 << 20
	packed := func(name string, content repeatedContent) []byte {
		return buildArchive(t, func(a *tar.Writer) { addArchiveFile(t, a, name, content) })
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"blanks": {packed("sallyport/survey.json",
			repeatedContent{`{"Taken": "2030-01-01T00:00:00Z"`, "        ", 20 << 20}), "bytes"},
		"empty entries": {
			packed("sallyport/survey.json", repeatedContent{`{"Cluster": {"Pods": [{}`, ",{}", 15 << 20}),
			"entries",
		},
		"empty texts": {packed("sallyport/survey.json",
			repeatedContent{`{"Cluster": {"Absent": [""`, `,""`, 15 << 20}), "entries"},
		"fields": {
			packed("sallyport/survey.json", repeatedContent{`{"Inspected": {"":{}`, `,"":1`, 10 << 20}),
			"fields",
		},
		"another file": {packed("sallyport/zeros", repeatedContent{"", "00000000", 20 << 20}), "bytes"},
		"many files":   {buildArchive(t, func(a *tar.Writer) { addEmptyFiles(t, a, 5000) }), "first 100 files"},
		"not packed":   {bytes.Repeat([]byte(" "), limit+1), "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			used := allocatedMiB(func() { _, err = readSurvey(bytes.NewReader(c.file), limit) })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d bytes: %v, want %q", len(c.file), err, c.want)
			}
			if used > 400 {
				t.Errorf("%d bytes took %d MiB", len(c.file), used)
			}
		})
	}
}

func addEmptyFiles(t *testing.T, a *tar.Writer, n int) {
	t.Helper()
	for i := range n {
		addArchiveFile(t, a, fmt.Sprintf("sallyport/%d", i), repeatedContent{})
	}
}

// The survey of a cluster with a thousand projects is far below the limit.
func TestLargeClusterIsNoBomb(t *testing.T) {
	var file bytes.Buffer
	if err := clusterstatetest.GenerateCluster(1000).Write(&file); err != nil {
		t.Fatal(err)
	}
	if _, err := readSurvey(bytes.NewReader(file.Bytes()), clusterstate.DefaultLimit/3); err != nil {
		t.Errorf("%d bytes: %v", file.Len(), err)
	}
}

// Surveys and bundles do not contain annotations of other programs.
func TestAnnotationsOfOthersAreLeftOut(t *testing.T) {
	all := map[string]string{
		"service.nlb.kube-dc.com/bind-on-eip": "front", "kube-dc.com/x": "1", "ovn.kubernetes.io/logical_switch": "s",
		"k8s.ovn.org/egress-service":                       "{}",
		"kubectl.kubernetes.io/last-applied-configuration": "{secret}", "token.example/key": "secret",
		"evil-kube-dc.com/x": "secret", "plain": "secret",
		"kube-dc.com.evil.example/x": "secret",
	}
	if got := clusterstate.KeepAnnotations(all); len(got) != 4 || len(all) != 9 ||
		strings.Contains(fmt.Sprint(got), "secret") {
		t.Errorf("kept %v", got)
	}
	s := clusterstatetest.GenerateCluster(1)
	s.Cluster.Services[0].Annotations = all
	var file bytes.Buffer
	if err := s.Write(&file); err != nil {
		t.Fatal(err)
	}
	again, err := readSurvey(&file, clusterstate.DefaultLimit) // written by a version that kept them
	if err != nil || strings.Contains(fmt.Sprint(again.Cluster.Services[0].Annotations), "secret") {
		t.Errorf("%v: %v", err, again.Cluster.Services[0].Annotations)
	}
}
