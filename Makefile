# Each target's line says after "##" what it does; `make help` prints them. CI runs the same names (.ci/run).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Built tools and the lab's parts are kept outside the tree, keyed by version.
CACHE := $(or $(SALLYPORT_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sallyport)
LINT_VERSION := $(shell awk '$$1 == "github.com/golangci/golangci-lint/v2" {print substr($$2, 2)}' tools/lint/go.mod)
LINT := $(CACHE)/golangci-lint-$(LINT_VERSION)-$(shell sha256sum tools/lint/go.sum | cut -c1-8)/golangci-lint

# The race detector needs a C compiler.
RACE := $(if $(shell command -v gcc),-race)

# What the lab and its tests use of a Debian machine, besides Go: nft, tcpdump, nsenter, ip, curl; gcc for the race detector.
PACKAGES := ca-certificates curl gcc git iproute2 libc6-dev make nftables tcpdump util-linux

##@ Build

.PHONY: build
build: ## Build bin/sallyport
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/...

.PHONY: parts
parts: build ## Fetch and build the programs that a lab runs, once a version
	bin/sallyport lab parts

.PHONY: packages
packages: ## Install what is needed of Debian (root)
	DEBIAN_FRONTEND=noninteractive apt-get -qq update
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $(PACKAGES)

.PHONY: clean
clean: ## Remove what was built in the tree; the cache stays
	rm -rf bin

##@ Check

.PHONY: test
test: ## Run the unit tests (some need root and are skipped without)
	go test $(RACE) ./internal/... ./cmd/... ./test/show/...

.PHONY: e2e
e2e: parts ## Run the end-to-end tests in labs, at the size of CI (root)
	go test -count=1 -timeout 40m -v ./test/e2e

.PHONY: lint
lint: $(LINT) ## Run the linters
	$(LINT) run ./...

.PHONY: tidy-check
tidy-check: ## Check that go.mod and go.sum are tidy
	go mod tidy -diff
	go -C tools/lint mod tidy -diff

.PHONY: sizes
sizes: ## Print how long functions and files are
	go test -count=1 -v -run '^TestSizes$$' ./internal/architecture

.PHONY: ci
ci: ## Do what CI does (root, Debian)
	.ci/run

##@ Lab

# The lab that `make lab` starts: make lab LAB=other
LAB := lab

.PHONY: lab
lab: build ## Build and start a lab (root)
	bin/sallyport lab up --lab $(LAB)

.PHONY: lab-down
lab-down: build ## End the lab and remove everything of it (root)
	bin/sallyport lab down --lab $(LAB)

.PHONY: show-lab
show-lab: parts ## Show by packets what the lab promises, at full size, a line for each (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 60m -v -run '^TestLab[0-9]' ./test/e2e -show

##@ Help

.PHONY: help
help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "%s%s\n", sep, substr($$0, 5); sep = "\n"} \
		/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# go.sum is part of the path, so a linter of another version is another file.
$(LINT):
	@echo "building golangci-lint $(LINT_VERSION) (once; kept in $(@D))"
	@mkdir -p $(@D); \
	CGO_ENABLED=0 go build -C tools/lint -trimpath -o $@.building github.com/golangci/golangci-lint/v2/cmd/golangci-lint; \
	mv $@.building $@; \
	echo "built golangci-lint $(LINT_VERSION) in $$SECONDS s"
