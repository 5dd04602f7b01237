# Every target is safe to repeat. `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# A count, not a duration: go 1.26 may report a spurious failure when a duration
# ends (go.dev/issue/75804).
FUZZTIME ?= 100000x
# For instance: make test TESTFLAGS='-run TestPlan -timeout 20m'
TESTFLAGS ?=
# What bench-peers multiplies; those of run.sh if empty.
SHAPES ?=

.PHONY: help setup build web node demo test test-wgpu test-dawn test-browser check fuzz bench-peers clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## install what the demo and the tests need (quick when nothing is missing)
	@sh scripts/setup.sh

build: ## build the command, bin/wgemm
	go build -trimpath -o bin/wgemm ./cmd/wgemm

web: ## build the page into wasm/dist; make build then puts it into the command
	@sh scripts/web.sh

node: setup ## build the command for Dawn in Node, bin/wgemm.wasm
	GOOS=js GOARCH=wasm go build -trimpath -o bin/wgemm.wasm ./cmd/wgemm
	@echo 'run it with: node --stack-size=8192 tests/dawn/run.mjs bin/wgemm.wasm run|info|demo|bench|verify ...'

demo: setup build ## multiply two small files, check the result, then show the kernels
	./bin/wgemm run testdata/demo/a.npy testdata/demo/b.npy -o bin/demo_c.npy --check
	./bin/wgemm demo

test: setup ## run every test on wgpu-native, Dawn and Chromium; a missing one is a failure
	@go run ./tests/report $(TESTFLAGS)

test-wgpu: setup ## run every test on wgpu-native
	@go run ./tests/report wgpu-native $(TESTFLAGS)

test-dawn: setup ## run the tests of the js/wasm build on Dawn in Node
	@go run ./tests/report dawn $(TESTFLAGS)

test-browser: setup ## run the tests of the js/wasm build in headless Chromium
	@go run ./tests/report chromium $(TESTFLAGS)

check: ## format, vet, static analysis, architecture, go.mod: run before a commit
	@sh scripts/check.sh

fuzz: ## run each fuzz test for a short time (FUZZTIME)
	@pkgs=$$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); \
	for pkg in $$pkgs; do \
	  list=$$(go test -list '^Fuzz' "$$pkg"); \
	  for name in $$(awk '/^Fuzz/' <<<"$$list"); do \
	    echo "== $$pkg $$name"; \
	    go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
	  done; \
	done

bench-peers: setup ## measure wgemm and what others offer, side by side (SHAPES="128 256")
	@sh bench/peers/build.sh
	@sh bin/peers/run.sh $(SHAPES)

clean: ## remove what the other targets built
	rm -rf bin
	find wasm/dist -mindepth 1 ! -name .gitkeep -delete
