package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	online = "https://vuln.go.dev"
	// module is the repository of the database, which Go module proxies serve as they serve every other repository.
	module = "golang.org/x/vulndb"
	// patience is how long a source may take to say whether it is there. Without a network, DNS alone may take as long.
	patience = 10 * time.Second
)

// errNoDatabase means that nothing was scanned.
var errNoDatabase = errors.New("no Go vulnerability database can be reached")

// database is where govulncheck reads, and what is known of its age.
type database struct {
	url string
	age string
}

func (d database) String() string { return d.url + d.age }

// find returns the database that was given, or else the newest that can be had.
func find(ctx context.Context, given, kept string) (database, error) {
	if strings.Contains(given, "://") {
		return database{url: given}, nil
	}
	if given != "" {
		return fromDirectory(given)
	}
	var tried []error
	for _, source := range []func() (database, error){
		func() (database, error) { return fromURL(ctx, online) },
		func() (database, error) { return fromModule(ctx) },
		func() (database, error) { return fromDirectory(kept) },
	} {
		db, err := source()
		if err == nil {
			return db, nil
		}
		tried = append(tried, err)
	}
	return database{}, fmt.Errorf("%w; set VULN_DATABASE to a URL, or to data/osv of a clone of github.com/golang/vulndb\n%w",
		errNoDatabase, errors.Join(tried...))
}

// fromURL checks that a database is served.
func fromURL(ctx context.Context, url string) (database, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/index/db.json", nil)
	if err != nil {
		return database{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return database{}, err
	}
	defer response.Body.Close()
	var index struct {
		Modified time.Time `json:"modified"`
	}
	if err := json.NewDecoder(response.Body).Decode(&index); err != nil || response.StatusCode != http.StatusOK {
		return database{}, fmt.Errorf("%s: %s: %w", url, response.Status, err)
	}
	return database{url, ", last changed " + index.Modified.Format(time.DateOnly)}, nil
}

// fromModule downloads the database as a module. The module cache keeps it, so it is downloaded once a version.
func fromModule(ctx context.Context) (database, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@latest")
	cmd.Dir = os.TempDir() // outside of any module
	raw, err := cmd.Output()
	var answer struct{ Dir, Version, Error string }
	if wrong := json.Unmarshal(raw, &answer); wrong != nil {
		return database{}, fmt.Errorf("go mod download %s: %w", module, errors.Join(err, wrong))
	}
	if answer.Error != "" || answer.Dir == "" {
		return database{}, fmt.Errorf("go mod download: %s", answer.Error)
	}
	return fromDirectory(filepath.Join(answer.Dir, "data", "osv"))
}

// fromDirectory checks that a directory has OSV files, which govulncheck takes without an index.
func fromDirectory(dir string) (database, error) {
	if dir == "" {
		return database{}, errors.New("no directory with a database is known")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return database{}, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return database{}, err
	}
	if len(files) == 0 {
		return database{}, fmt.Errorf("%s has no OSV files", dir)
	}
	return database{"file://" + filepath.ToSlash(dir), fmt.Sprintf(", %d entries up to %s", len(files), newest(files))}, nil
}

// newest is the highest number of an entry, which are given one after the other in each year: GO-2021-0113.
func newest(files []string) string {
	highest, number := "", [2]int{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		var year, n int
		if _, err := fmt.Sscanf(name, "GO-%d-%d", &year, &n); err == nil && slices.Compare([]int{year, n}, number[:]) > 0 {
			highest, number = name, [2]int{year, n}
		}
	}
	return highest
}
