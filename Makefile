# Each target's line says after "##" what it does; `make help` prints them. CI runs the same names (.ci/run).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Built tools and the lab's parts are kept outside the tree, keyed by version.
CACHE := $(or $(SALLYPORT_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sallyport)
LINT_VERSION := $(shell awk '$$1 == "github.com/golangci/golangci-lint/v2" {print substr($$2, 2)}' tools/lint/go.mod)
LINT := $(CACHE)/golangci-lint-$(LINT_VERSION)-$(shell sha256sum tools/lint/go.sum | cut -c1-8)/golangci-lint

GENERATOR_VERSION := $(shell awk '$$1 == "sigs.k8s.io/controller-tools" {print substr($$2, 2)}' tools/generate/go.mod)
GENERATOR := $(CACHE)/controller-gen-$(GENERATOR_VERSION)-$(shell sha256sum tools/generate/go.sum | cut -c1-8)/controller-gen
GENERATE := $(GENERATOR) object crd paths=./api/... output:crd:dir=config/crd

HELM_VERSION := $(shell awk '$$1 == "helm.sh/helm/v4" {print substr($$2, 2)}' tools/helm/go.mod)
HELM := $(CACHE)/helm-$(HELM_VERSION)-$(shell sha256sum tools/helm/go.sum | cut -c1-8)/helm

# Only for releases: it is built from some 250 modules, which CI does not fetch.
COSIGN_VERSION := $(shell awk '$$1 == "github.com/sigstore/cosign/v3" {print substr($$2, 2)}' tools/cosign/go.mod)
COSIGN := $(CACHE)/cosign-$(COSIGN_VERSION)-$(shell sha256sum tools/cosign/go.sum | cut -c1-8)/cosign

HUGO_VERSION := $(shell awk '$$1 == "github.com/gohugoio/hugo" {print substr($$2, 2)}' tools/hugo/go.mod)
HUGO := $(CACHE)/hugo-$(HUGO_VERSION)-$(shell sha256sum tools/hugo/go.sum | cut -c1-8)/hugo
# Checks the accessibility of pages; from npm.
AXE_VERSION := 4.14.1
AXE := $(CACHE)/axe-core-$(AXE_VERSION)/package/axe.min.js

TESTSUM_VERSION := $(shell awk '$$1 == "gotest.tools/gotestsum" {print substr($$2, 2)}' tools/testsum/go.mod)
TESTSUM := $(CACHE)/gotestsum-$(TESTSUM_VERSION)-$(shell sha256sum tools/testsum/go.sum | cut -c1-8)/gotestsum

# Prometheus and its promtool are taken from the packages of the machine's own Debian, unpacked and not installed: nothing is started.
PROMETHEUS := $(CACHE)/prometheus-$(shell . /etc/os-release && echo $$VERSION_CODENAME)/usr/bin/prometheus
PROMTOOL := $(dir $(PROMETHEUS))promtool

# The race detector needs a C compiler.
RACE := $(if $(shell command -v gcc),-race)

# Everything is compiled with the same settings, so that what one stage of CI has compiled is used by the next ones: half of the time from empty caches is
# compiling. `make lint` vets the code; `go test` would do it again, for all dependencies.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -buildvcs=false -vet=off)

# What the lab and its tests use of a Debian machine, besides Go: nft, tcpdump, nsenter, ip, curl; gcc for the race detector; xz for kernels; jq and man for the
# how-tos; a browser and its letters for the page of `sallyport ui`.
PACKAGES := ca-certificates chromium codespell curl fonts-liberation gcc git iproute2 jq libc6-dev make man-db nftables openssl tcpdump util-linux xz-utils

##@ Build

.PHONY: build
build: ## Build bin/sallyport (also as bin/kubectl-sallyport), bin/sallyport-controller and bin/sallyport-agent
	go build -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/...
	ln -sf sallyport bin/kubectl-sallyport

.PHONY: parts
parts: build ## Fetch and build the programs that a lab runs, once a version
	bin/sallyport lab parts

.PHONY: generate
generate: $(GENERATOR) ## Write deep copies and CRDs from the types in api/
	rm -f config/crd/*.yaml charts/sallyport/files/crds/*.yaml
	$(GENERATE)
	cp config/crd/*.yaml charts/sallyport/files/crds/

.PHONY: man
man: ## Write the man pages of the programs to bin/man
	rm -rf bin/man
	go test -count=1 ./internal/cli ./cmd/... -run '^TestReferencePage' -man $(CURDIR)/bin/man

.PHONY: packages
packages: ## Install what is needed of Debian (root)
	DEBIAN_FRONTEND=noninteractive apt-get -qq update
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $(PACKAGES)

.PHONY: clean
clean: ## Remove what was built in the tree; the cache stays
	rm -rf bin

.PHONY: chart
chart: $(HELM) ## Check the Helm chart and render it as bin/sallyport.yaml
	$(HELM) lint --strict --quiet charts/sallyport
	HELM=$(HELM) go test -count=1 ./test/chart
	@mkdir -p bin
	$(HELM) template sallyport charts/sallyport --namespace kube-system >bin/sallyport.yaml.new
	$(HELM) template sallyport charts/sallyport --namespace kube-system --set agent.enabled=true,agent.nodePaths=true --show-only templates/agent.yaml >bin/sallyport-agent.yaml
	@mv bin/sallyport.yaml.new bin/sallyport.yaml

.PHONY: image
image: build ## Make the container image bin/sallyport-image.tar (linux/amd64), without a container engine
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) go -C tools/image run . -out $(CURDIR)/bin/sallyport-image.tar -version $(VERSION) -with nft \
		-revision $$(git rev-parse HEAD) -reference ghcr.io/sallyport/sallyport:$(VERSION) $(CURDIR)/bin/sallyport-controller $(CURDIR)/bin/sallyport $(CURDIR)/bin/sallyport-agent
	IMAGE=$(CURDIR)/bin/sallyport-image.tar go -C tools/image test -count=1 ./...
	go -C tools/release test -count=1 ./...

.PHONY: lab-images
lab-images: build ## Make the container images of a lab's real nodes, bin/lab-images/*.tar: pause, and a server for pods; and Sallyport's as bin/sallyport-lab-image.tar
	@mkdir -p bin/lab-images
	go build -ldflags '-s -w' -o bin/lab-images ./internal/lab/realnode/{pause,cat}
	go build -ldflags '-s -w' -o bin/lab-images/echo ./internal/lab/realnode/container
	cd bin/lab-images && go -C $(CURDIR)/tools/image run . -out $$PWD/pause.tar -reference docker.io/lab/pause:latest $$PWD/pause
	cd bin/lab-images && go -C $(CURDIR)/tools/image run . -out $$PWD/echo.tar -reference docker.io/lab/echo:latest $$PWD/echo $$PWD/cat
	go -C tools/image run . -uncompressed -out $(CURDIR)/bin/sallyport-lab-image.tar -version $(VERSION) -with nft \
		-reference ghcr.io/sallyport/sallyport:lab $(CURDIR)/bin/sallyport-controller $(CURDIR)/bin/sallyport $(CURDIR)/bin/sallyport-agent

##@ Documentation

# The folder of the site to build. A released version: make site SITE_VERSION=v1.2.3, in that version's tree.
SITE_VERSION := main
WORDS_OF_OURS := inport,iif,fro

.PHONY: site
site: $(HUGO) ## Build the documentation as a site in bin/site, a folder for each version; any web server can serve it
	@mkdir -p bin/site; rm -rf bin/site/$(SITE_VERSION)
	HUGO_PARAMS_VERSION=$(SITE_VERSION) HUGO_RESOURCEDIR=$(CURDIR)/bin/site-resources $(HUGO) --source site --baseURL /$(SITE_VERSION)/ \
		--destination $(CURDIR)/bin/site/$(SITE_VERSION) --noBuildLock --panicOnWarning --quiet
	cd bin/site; printf '%s\n' */ | sort -rV | jq -R 'rtrimstr("/")' | jq -s . >versions.json
	cd bin/site; printf '<!doctype html><meta http-equiv="refresh" content="0; url=%s/"><title>Sallyport</title>\n' "$$(jq -r '.[0]' versions.json)" >index.html

.PHONY: site-check
site-check: site $(if $(shell command -v npm),$(AXE)) ## Check the site: links, search, versions, accessibility (with npm); and the spelling of all pages
	codespell --ignore-words-list $(WORDS_OF_OURS) --skip '*.svg,*.png' *.md docs examples charts/sallyport/README.md test/e2e/README.md
	SITE=$(CURDIR)/bin/site/$(SITE_VERSION) AXE=$(AXE) go test -count=1 -v ./test/site

##@ Release

# The version of a release: make release RELEASE=1.2.3. Of what is between versions: that of the chart, with the commit.
RELEASE := $(shell awk '$$1 == "version:" {print $$2}' charts/sallyport/Chart.yaml)-dev.g$(shell git rev-parse --short=9 HEAD 2>/dev/null || echo 0)
# The private key to sign with (cosign generate-key-pair), its password in COSIGN_PASSWORD. Without: a key for tests, made for this release.
KEY :=
# Where release-publish publishes: make release-publish REGISTRY=ghcr.io/sallyport KEY=cosign.key. PUBLISH_FLAGS=-plain-http for a registry without TLS.
REGISTRY :=
PUBLISH_FLAGS :=
RELEASE_DIR := $(CURDIR)/bin/release
RELEASE_TOOL = cd tools/release && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) go run .
RELEASE_FLAGS = -version $(RELEASE) -source $(CURDIR) -out $(RELEASE_DIR) -helm $(HELM) -cosign $(COSIGN) $(if $(KEYLESS),-keyless,-key $(or $(KEY),$(TEST_KEY)))
TEST_KEY := $(CURDIR)/bin/release-key/cosign.key

.PHONY: release
release: $(HELM) $(COSIGN) $(if $(KEY)$(KEYLESS),,$(TEST_KEY)) ## Make bin/release: image, chart, manifest, kustomize base, programs, krew manifest, SBOMs, notes, checksums, signature
	for arch in amd64 arm64; do tools/image/debian $$arch $(CURDIR)/bin/debs/$$arch nftables; done
	$(RELEASE_TOOL) build $(RELEASE_FLAGS) -debs $(CURDIR)/bin/debs

.PHONY: release-check
release-check: release ## Publish bin/release to a registry of its own and check it as users get it; changed images are refused
	cd tools/release && KUBECTL=$(firstword $(wildcard $(CACHE)/kubernetes-*/bin/kubectl)) RELEASE=$(RELEASE_DIR) VERSION=$(RELEASE) HELM=$(HELM) COSIGN=$(COSIGN) KEY=$(or $(KEY),$(TEST_KEY)) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
		go test -count=1 -v -run '^TestPublished' ./...

.PHONY: release-publish
release-publish: $(HELM) $(COSIGN) ## Publish bin/release to REGISTRY and sign it
	$(RELEASE_TOOL) publish $(RELEASE_FLAGS) -registry '$(REGISTRY)' $(PUBLISH_FLAGS)

$(TEST_KEY): $(COSIGN)
	mkdir -p $(@D); cd $(@D) && COSIGN_PASSWORD= $(COSIGN) generate-key-pair

##@ Check

UNITS := ./api/... ./config/... ./internal/... ./cmd/... ./test/docs ./test/monitoring ./test/ground/record ./test/show/...
# Packages that start no goroutines (TestPurePackagesStartNoGoroutines): the race detector would only make them five times slower.
SEQUENTIAL := ./internal/architecture ./internal/compile/... ./internal/engine/kubeovn/... \
	$(foreach name,diagnosis explain preflight topology trace usage,./internal/insight/$(name)/...) ./test/docs ./test/monitoring ./test/ground/record ./test/show/...

# Tests that are slow because of their size; with the race detector they would take ten times as long.
LARGE := ^(TestBombsAreRefused|TestLargeClusterIsNoBomb|TestStreamsOfAnOutsiderCostNothing)$$

.PHONY: test
test: ## Run the unit tests (some need root and are skipped without)
	go test $(SEQUENTIAL)
	go test -run '$(LARGE)' ./internal/cli ./internal/controller/nodehealth
	CGO_ENABLED=$(if $(RACE),1,0) go test $(RACE) -skip '$(LARGE)' $$(comm -23 <(go list $(UNITS) | sort) <(go list $(SEQUENTIAL) | sort))

# One theme: make e2e THEME=loadbalancer. One test: make e2e THEME=lab RUN=TestLab3
THEME :=
RUN := .

.PHONY: e2e
e2e: parts chart man $(TESTSUM) $(PROMETHEUS) ## Run the end-to-end tests in labs, at the size of CI; THEME=name runs one theme (root)
	PROMETHEUS=$(PROMETHEUS) $(TESTSUM) --format standard-verbose --raw-command -- test/e2e/run '$(RUN)' $(THEME)

.PHONY: lint
lint: $(LINT) ## Run the linters
	$(LINT) run ./...

.PHONY: monitoring-check
monitoring-check: $(PROMETHEUS) ## Check the alerts and the dashboard: valid, fire when they should, ask for metrics that exist
	PROMTOOL=$(PROMTOOL) go test -count=1 ./test/monitoring

# The Go vulnerability database: a URL, or a directory with OSV files (data/osv of a clone of github.com/golang/vulndb). Without it the database is
# looked for online, at the Go module proxy, and in $(CACHE)/vulndb. VULN_FLAGS=-optional: without a database say so and go on.
VULN_DATABASE ?=
VULN_FLAGS ?=

.PHONY: vuln
vuln: build ## Look for known vulnerabilities in what the programs call, with govulncheck
	go -C tools/vuln test -count=1 ./...
	go -C tools/vuln run . -C $(CURDIR) -database '$(VULN_DATABASE)' -kept $(CACHE)/vulndb $(VULN_FLAGS) \
		./cmd/... $(CURDIR)/bin/sallyport $(CURDIR)/bin/sallyport-controller $(CURDIR)/bin/sallyport-agent

.PHONY: tidy-check
tidy-check: ## Check that go.mod and go.sum are tidy
	printf '%s\n' . tools/{lint,generate,helm,image,release,testsum,vuln} | xargs -P 8 -I '{}' go -C '{}' mod tidy -diff

.PHONY: generate-check
generate-check: $(GENERATOR) ## Check that what is generated is up to date
	@new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT; \
	cp -r go.mod go.sum api config "$$new"; \
	find "$$new/api" "$$new/config" -name 'zz_generated*' -delete -o -path '*/config/crd/*.yaml' -delete; \
	(cd "$$new" && $(GENERATE)); \
	diff -ru api "$$new/api" && diff -ru config "$$new/config" || { echo "generated files differ: run make generate"; exit 1; }

.PHONY: golden
golden: ## Rewrite what tests compare with: the cases of compile, explain and nodepath, and the reference pages (root)
	go test ./internal/compile/golden ./internal/controller ./internal/engine/kubeovn ./internal/insight/diagnosis ./internal/insight/explain ./internal/insight/selftest ./internal/model/intent ./internal/model/nodepath ./internal/insight/topology -update
	go test ./cmd/sallyport-agent ./cmd/sallyport-controller ./config/crd ./internal/cli ./test/docs ./test/monitoring -update
	go test -run '^Test(Balancer(2Conformance|Docs)|Agent5Seed|View3Seed|ViewFaultsPage)$$' ./test/e2e/loadbalancer ./test/e2e/nodes ./test/e2e/view -update
	go test -run '^TestAttacksPage$$' ./test/e2e/tenancy -update
	go test -run '^TestPlatform1Scenarios$$' ./test/e2e/platform -update

.PHONY: pictures
pictures: build ## Make the pictures in docs/pictures anew (root); CI compares them with what the program shows
	go test -count=1 -run '^TestView4Pictures$$' ./test/e2e/view -update

# How long to look with each fuzzer: make fuzz FUZZTIME=10m. One of them: make fuzz FUZZ=FuzzClaim
FUZZTIME := 30s
FUZZ := Fuzz

.PHONY: fuzz
fuzz: ## Look for input that breaks a parser or a promise of compile: every fuzzer for FUZZTIME
	@test/fuzz '$(FUZZ)' $(FUZZTIME)

# Every list at full size. show-ground runs CI itself seven times and is not among them.
LISTS := show-lab show-core show-return show-lb show-egress show-agent show-view show-tenancy show-house show-scale show-platform show-ipv6 show-real show-day

.PHONY: nightly
nightly: ## Run everything at full size and print one table; what fails does not stop the rest (root)
	@mkdir -p bin/nightly; failed=0; \
	for name in fuzz $(LISTS); do \
		begun=$$SECONDS; verdict=PASS; \
		$(MAKE) --no-print-directory $$name FUZZTIME=10m >bin/nightly/$$name.log 2>&1 || { verdict=FAIL; failed=1; }; \
		printf '%-12s %-4s %5d s  bin/nightly/%s.log\n' $$name $$verdict $$((SECONDS - begun)) $$name; \
	done; exit $$failed

.PHONY: sizes
sizes: ## Print how long functions and files are
	go test -count=1 -v -run '^TestSizes$$' ./internal/architecture

.PHONY: ci
ci: ## Do what CI does (root, Debian)
	.ci/run

##@ Lab

# The lab that `make lab` starts: make lab LAB=other
LAB := lab

.PHONY: try
try: build chart ## Show it: a lab, a tenant with addresses on two networks, and answers to a client outside (root)
	@SALLYPORT_LAB=$(LAB) examples/try

.PHONY: lab
lab: build ## Build and start a lab (root)
	bin/sallyport lab up --lab $(LAB)

.PHONY: lab-down
lab-down: build ## End the lab and remove everything of it (root)
	bin/sallyport lab down --lab $(LAB)

.PHONY: show-lab
show-lab: parts ## Show by packets what the lab promises, at full size, a line for each (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 60m -v -run '^TestLab[0-9]' ./test/e2e/lab -show

.PHONY: show-core
show-core: parts chart ## Show by packets what projects and addresses promise, at full size, a line for each (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 120m -v -run '^TestCore[0-9]' ./test/e2e/address -show

.PHONY: show-return
show-return: parts chart ## Show by packets that replies leave by the network they came in on, at full size, a line for each (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 150m -v -run '^TestReturn[0-9]' ./test/e2e/returnpath -show

.PHONY: show-lb
show-lb: parts chart ## Show by packets what load balancers promise, at full size, a line for each (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 120m -v -run '^TestBalancer[0-9]' ./test/e2e/loadbalancer -show

.PHONY: show-egress
show-egress: parts chart ## Show by packets what egress addresses promise, at full size, a line for each (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 90m -v -run '^TestEgress[0-9]' ./test/e2e/egress -show

.PHONY: show-agent
show-agent: parts chart ## Show by packets what the agent does on nodes, at full size, a line for each (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 60m -v -run '^(TestAgent|TestNodeEgress)' ./test/e2e/nodes -show

.PHONY: show-view
show-view: parts chart ## Show what the operator's view promises, at full size, a line for each (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 60m -v -run '^TestView' ./test/e2e/view -show

.PHONY: show-tenancy
show-tenancy: parts chart ## Show that tenants cannot reach each other, at full size, a line for each item (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 120m -v -run '^TestTenancy' ./test/e2e/tenancy -show

# A piece of it, and how many runs of CI to make in this sitting: make show-ground GROUND=TestGround3 RUNS=1
GROUND := ^TestGround[0-9]
RUNS := 5

.PHONY: show-ground
show-ground: build chart ## Show parts from empty caches, the time of CI, five runs in a row and every known defect, a line for each (root)
	HELM=$(HELM) SALLYPORT_SIZE=full go test -count=1 -timeout 12h -v -run '$(GROUND)' ./test/ground -runs $(RUNS) $(if $(filter ^TestGround[0-9],$(GROUND)),-show)

.PHONY: show-house
show-house: parts chart ## Show how the code is named, sized and documented, and that it behaves as before, a line for each (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 30m -v -run '^TestHouse[0-9]' ./internal/architecture -show

.PHONY: show-scale
show-scale: parts chart ## Show what grows with the number of projects, at full size, a line for each item (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 120m -p 1 -v -run '^TestScale' ./test/e2e/scale ./test/e2e/egress -show
	SALLYPORT_SIZE=full go test -count=1 -timeout 120m -v -run '^Test(Balancer5Speed|Scale9Abuse)' ./test/e2e/loadbalancer

.PHONY: show-ipv6
show-ipv6: parts chart ## Show IPv6 on external networks by packets, a line for each; what is not built prints NOT RUN (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 60m -v -run '^TestIPv6' ./test/e2e/ipv6 -show

.PHONY: show-platform
show-platform: parts chart ## Show by packets what Kube-OVN's default VPC promises, at full size, a line for each (root)
	SALLYPORT_SIZE=full go test -count=1 -timeout 60m -v -run '^TestPlatform[0-9]' ./test/e2e/platform ./test/e2e/view -show

.PHONY: show-real
show-real: chart lab-images ## Show nodes as in production, at full size, a line for each (root)
	bin/sallyport lab parts --real-nodes
	SALLYPORT_SIZE=full go test -count=1 -timeout 90m -v -run '^TestReal[0-9]' ./test/e2e/real -show

.PHONY: show-day
show-day: parts chart site $(HELM) $(COSIGN) $(AXE) ## Show a release, and what operators need from day one on, a line for each; items that are not built print NOT RUN (root)
	SITE=$(CURDIR)/bin/site/$(SITE_VERSION) AXE=$(AXE) SALLYPORT_SIZE=full go test -count=1 -timeout 90m -p 1 -v -run '^TestDay[0-9]' ./test/day ./test/e2e/view ./test/e2e/install ./test/e2e/egress ./test/site -show

##@ Help

.PHONY: help
help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "%s%s\n", sep, substr($$0, 5); sep = "\n"} \
		/^[a-z0-9-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# go.sum is part of the path, so a linter of another version is another file.
$(LINT):
	@echo "building golangci-lint $(LINT_VERSION) (once; kept in $(@D))"
	@mkdir -p $(@D); \
	go build -C tools/lint -o $@.building github.com/golangci/golangci-lint/v2/cmd/golangci-lint; \
	mv $@.building $@; \
	echo "built golangci-lint $(LINT_VERSION) in $$SECONDS s"

# The version goes into an annotation of the CRDs. A program that is built as a part of another module doesn't know its own.
$(GENERATOR):
	@echo "building controller-gen $(GENERATOR_VERSION) (once; kept in $(@D))"
	@mkdir -p $(@D); \
	go build -C tools/generate -ldflags '-X sigs.k8s.io/controller-tools/pkg/version.version=v$(GENERATOR_VERSION)' \
		-o $@.building sigs.k8s.io/controller-tools/cmd/controller-gen; \
	mv $@.building $@; \
	echo "built controller-gen $(GENERATOR_VERSION) in $$SECONDS s"

$(HELM):
	@echo "building helm $(HELM_VERSION) (once; kept in $(@D))"
	@mkdir -p $(@D); \
	go build -C tools/helm -o $@.building helm.sh/helm/v4/cmd/helm; \
	mv $@.building $@; \
	echo "built helm $(HELM_VERSION) in $$SECONDS s"

$(HUGO):
	@echo "building hugo $(HUGO_VERSION) (once; kept in $(@D))"
	@mkdir -p $(@D); \
	go build -C tools/hugo -o $@.building github.com/gohugoio/hugo; \
	mv $@.building $@; \
	echo "built hugo $(HUGO_VERSION) in $$SECONDS s"

$(AXE):
	@mkdir -p $(CACHE)/axe-core-$(AXE_VERSION); cd $(CACHE)/axe-core-$(AXE_VERSION); \
	npm pack --silent axe-core@$(AXE_VERSION) >/dev/null; tar xzf axe-core-*.tgz; rm axe-core-*.tgz

$(COSIGN):
	@echo "building cosign $(COSIGN_VERSION) (once; kept in $(@D))"
	@mkdir -p $(@D); \
	go build -C tools/cosign -o $@.building github.com/sigstore/cosign/v3/cmd/cosign; \
	mv $@.building $@; \
	echo "built cosign $(COSIGN_VERSION) in $$SECONDS s"

$(PROMETHEUS):
	@echo "unpacking Debian's prometheus (once; kept in $(CACHE))"
	@dir=$(PROMETHEUS:/usr/bin/prometheus=); mkdir -p $$dir.unpacking; cd $$dir.unpacking; \
	apt-get -qq -o APT::Sandbox::User=root download prometheus; \
	dpkg-deb -x prometheus_*.deb .; rm prometheus_*.deb; \
	rm -rf $$dir; mv $$dir.unpacking $$dir

$(TESTSUM):
	@echo "building gotestsum $(TESTSUM_VERSION) (once; kept in $(@D))"
	@mkdir -p $(@D); \
	go build -C tools/testsum -o $@.building gotest.tools/gotestsum; \
	mv $@.building $@; \
	echo "built gotestsum $(TESTSUM_VERSION) in $$SECONDS s"
