package program

import (
	"maps"
	"slices"
	"strings"
)

// images are the programs by the name of their image.
var images = map[string]Program{
	"lab/blob":   Blob,
	"lab/client": Client,
	"lab/echo":   Echo,
	"lab/idle":   Idle,
}

// Lookup finds the program of an image. Registry "docker.io", tag and digest don't matter: a lab has one version of
// each.
func Lookup(image string) (Program, bool) {
	name := strings.TrimPrefix(image, "docker.io/")
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	p, ok := images[name]
	return p, ok
}

// Images lists the names that Lookup knows.
func Images() []string { return slices.Sorted(maps.Keys(images)) }
