// Command vuln is govulncheck with a database that it finds itself: online, through the Go module proxy, or in a directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"golang.org/x/vuln/scan"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("vuln", flag.ContinueOnError)
	dir := flags.String("C", ".", "the `directory` of the module")
	given := flags.String("database", "", "the database: a `URL`, or a directory with OSV files. Without it the database is looked for")
	kept := flags.String("kept", "", "a `directory` with OSV files for when no newer database can be had")
	optional := flags.Bool("optional", false, "report a missing database and succeed")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: vuln [flags] PACKAGE|PROGRAM...\n"+
			"Fails if a package calls, or a program contains, a function with a known vulnerability.")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	packages, programs := split(flags.Args())
	if len(packages)+len(programs) == 0 {
		return errors.New("name the packages or programs to scan")
	}
	db, err := find(ctx, *given, *kept)
	if errors.Is(err, errNoDatabase) && *optional {
		fmt.Fprintln(out, "NOT SCANNED:", err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "database:", db)
	return scanAll(ctx, out, target{db: db, dir: *dir, packages: packages, programs: programs})
}

// split tells files, which are programs, from patterns of packages.
func split(args []string) (packages, programs []string) {
	for _, arg := range args {
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			programs = append(programs, arg)
		} else {
			packages = append(packages, arg)
		}
	}
	return packages, programs
}

// target is what is scanned, and with which database.
type target struct {
	db       database
	dir      string
	packages []string
	programs []string
}

// scanAll scans packages from source, where it can tell which functions are called, and then each program as it was built.
func scanAll(ctx context.Context, out io.Writer, t target) error {
	var failed []error
	if len(t.packages) > 0 {
		fmt.Fprintln(out, "\npackages", t.packages)
		args := append([]string{"-db", t.db.url, "-C", t.dir}, t.packages...)
		failed = append(failed, govulncheck(ctx, out, args))
	}
	for _, program := range t.programs {
		fmt.Fprintln(out, "\nprogram", program)
		err := govulncheck(ctx, out, []string{"-db", t.db.url, "-mode", "binary", program})
		if err != nil {
			err = fmt.Errorf("%s: %w", program, err)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func govulncheck(ctx context.Context, out io.Writer, args []string) error {
	cmd := scan.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start govulncheck: %w", err)
	}
	return cmd.Wait()
}
