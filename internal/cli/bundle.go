package cli

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// bundleSurveyName is the file name of the survey in a bundle.
const bundleSurveyName = "survey.json"

// writeBundle writes the survey and the findings to an archive. It contains no credentials: a survey has no Secrets,
// tokens or keys, and only those annotations that are about networks (KeepAnnotations in clusterstate).
func writeBundle(path string, s *clusterstate.State, r doctorReport) error {
	return writePrivateFile(path, func(w io.Writer) error {
		packed := gzip.NewWriter(w)
		archive := tar.NewWriter(packed)
		for _, p := range bundleFiles(s, r) {
			if err := p.addToArchive(archive, r.Taken); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return errors.Join(archive.Close(), packed.Close())
	})
}

type bundleFile struct {
	name  string
	write func(io.Writer) error
}

// addToArchive writes the file to an archive. Its modification time is the time of the survey.
func (p bundleFile) addToArchive(archive *tar.Writer, taken time.Time) error {
	var content bytes.Buffer
	if err := p.write(&content); err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{
		Name:    "sallyport/" + p.name,
		Mode:    0o600,
		Size:    int64(content.Len()),
		ModTime: taken,
	}); err != nil {
		return err
	}
	_, err := archive.Write(content.Bytes())
	return err
}

func bundleFiles(s *clusterstate.State, r doctorReport) []bundleFile {
	return []bundleFile{
		{bundleSurveyName, s.Write},
		{"findings.json", func(w io.Writer) error {
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			return encoder.Encode(r)
		}},
		{"findings.txt", func(w io.Writer) error { return r.printText(w, false) }},
		{"versions.txt", func(w io.Writer) error { return writeVersions(w, s, r) }},
		{"plan.txt", func(w io.Writer) error { return writeDifferences(w, s) }},
		{"conditions.txt", func(w io.Writer) error { return writeConditions(w, s) }},
		{"events.txt", func(w io.Writer) error { return writeEvents(w, s) }},
	}
}

func writeVersions(w io.Writer, s *clusterstate.State, r doctorReport) error {
	lines := []string{
		"sallyport " + r.Checked.Sallyport, "Kubernetes " + r.Checked.Kubernetes,
		"OVN northd " + r.Checked.OVN,
	}
	for _, n := range s.Cluster.Nodes {
		lines = append(lines, fmt.Sprintf("node %s: Linux %s, Open vSwitch %s", n.Name, n.Kernel,
			s.Inspected[n.Name].Switch.Version))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

func writeDifferences(w io.Writer, s *clusterstate.State) error {
	for _, shard := range s.Shards {
		if _, err := fmt.Fprintf(w, "%s %s\n", shard.Name, shard.Problem); err != nil {
			return err
		}
		for _, d := range shard.Differs {
			if _, err := fmt.Fprintf(w, "  %s    # %s\n", d.Text, d.Origin); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeConditions(w io.Writer, s *clusterstate.State) error {
	t := newTable(w)
	for _, o := range s.Cluster.Objects() {
		for _, c := range o.Conditions {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", o.Ref, c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return t.Flush()
}

func writeEvents(w io.Writer, s *clusterstate.State) error {
	t := newTable(w)
	for _, e := range s.Cluster.Events {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", e.Last.UTC().Format("2006-01-02 15:04:05"), e.About, e.Reason, e.Message)
	}
	return t.Flush()
}

// maxArchiveFiles limits the files of an archive that readSurvey looks at.
const maxArchiveFiles = 100

// readSurvey reads a survey, or the survey in a bundle. The limit in bytes applies both before and after decompression:
// a bundle may come from an untrusted source, and a compressed megabyte can need a gigabyte of memory.
func readSurvey(from io.Reader, limit int64) (*clusterstate.State, error) {
	begin := bufio.NewReader(clusterstate.LimitBytes(from, limit))
	magic, err := begin.Peek(2)
	if err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return clusterstate.Read(begin, limit)
	}
	packed, err := gzip.NewReader(begin)
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(clusterstate.LimitBytes(packed, limit))
	for range maxArchiveFiles {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("not a bundle: the archive has no %s; create one with sallyport doctor --bundle",
				bundleSurveyName)
		}
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(header.Name, "/"+bundleSurveyName) {
			return clusterstate.Read(archive, limit)
		}
	}
	return nil, fmt.Errorf("not a bundle: none of the first %d files of the archive is %s; "+
		"create one with sallyport doctor --bundle", maxArchiveFiles, bundleSurveyName)
}
