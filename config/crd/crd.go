// Package crd is the CustomResourceDefinitions of all kinds, as `make generate` writes them.
package crd

import "embed"

// Files are the definitions, a YAML file for each kind.
//
//go:embed *.yaml
var Files embed.FS
