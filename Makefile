# Every target is safe to repeat. `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# A count, not a duration: go 1.26 may report a spurious failure when a duration
# ends (go.dev/issue/75804).
FUZZTIME ?= 100000x
# For instance: make test TESTFLAGS='-run TestPlan -timeout 20m'
TESTFLAGS ?=

.PHONY: help setup build demo test check fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: ## install what a Vulkan run needs (quick when nothing is missing)
	@sh scripts/setup.sh

build: ## build the command, bin/wgemm
	go build -trimpath -o bin/wgemm ./cmd/wgemm

demo: setup build ## multiply two small files, check the result, then show the kernels
	./bin/wgemm run testdata/demo/a.npy testdata/demo/b.npy -o bin/demo_c.npy --check
	./bin/wgemm demo

# With WGEMM_REQUIRE=wgpu a test that needs the native driver fails where it
# would otherwise be skipped. Results depend on the device, which the test cache
# does not know, hence -count=1.
test: setup ## run every test; a missing native adapter is a failure
	@WGEMM_REQUIRE=wgpu go test -count=1 -v $(TESTFLAGS) ./... | awk "$$SUMMARY"

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

clean: ## remove what the other targets built
	rm -rf bin dist

# Reads `go test -v`: one line for each package, the whole output of those that
# failed, and at the end the counts and the reason of every skipped test.
define SUMMARY
function flush_lines(  i) {
  for (i = 1; i <= lines; i++) if (buf[i] !~ /^(=== |[ ]*--- PASS|PASS$$)/) print buf[i]
}
/^ok[ ]*\t/ { ok++; print; fflush(); lines = 0; next }
/^FAIL\t/ { bad++; failing = failing "\n  " $$2; flush_lines(); print; fflush(); lines = 0; next }
/^FAIL$$/ { next }
/\[no test files\]$$/ { none++; lines = 0; next }
/^[ ]*--- PASS: / { pass++ }
/^[ ]*--- FAIL: / { fail++ }
/^[ ]*--- SKIP: / {
  skip++
  why = last
  sub(/^[ ]+/, "", why)
  skipped = skipped "\n  " $$3 (why == "" ? "" : ": " why)
}
{ last = /^(===|[ ]*---)/ ? (/^=== NAME/ ? last : "") : $$0; buf[++lines] = $$0 }
END {
  flush_lines()
  if (skip) print "skipped:" skipped
  if (bad) print "failed:" failing
  printf "summary: %d packages ok, %d failed, %d without tests; ", ok, bad, none
  printf "%d tests passed, %d failed, %d skipped\n", pass, fail, skip
}
endef
export SUMMARY
