#!/bin/sh
# Everything that must hold before a commit and needs no GPU. Each step prints
# one line; a failing step prints its output and what to do, and the others
# still run. The exit status is 1 when any step failed.
set -u
cd "$(dirname "$0")/.." || exit 1

failed=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

# step NAME ADVICE COMMAND...: runs the command, which fails by its status.
step() {
  name=$1 advice=$2
  shift 2
  if "$@" >"$tmp/out" 2>&1; then
    printf 'ok    %s\n' "$name"
  else
    failed=$((failed + 1))
    printf 'FAIL  %s\n' "$name"
    sed 's/^/      /' "$tmp/out"
    printf '      -> %s\n' "$advice"
  fi
}

# The tracked and the new files with their changes, to see what this check did.
state() {
  git status --porcelain && git diff --no-ext-diff &&
    git ls-files --others --exclude-standard -z | xargs -0 -r cksum
}

# go_files runs its arguments on every .go file of the tree that git does not ignore.
go_files() {
  git ls-files --cached --others --exclude-standard -z -- '*.go' | xargs -0 -r sh -c '
    for f; do
      shift
      if [ -e "$f" ]; then set -- "$@" "$f"; fi
    done
    if [ $# -gt 0 ]; then exec '"$*"' "$@"; fi' sh
}

# empty fails if the command fails or prints anything.
empty() {
  "$@" >"$tmp/list" 2>&1
  status=$?
  cat "$tmp/list"
  [ "$status" -eq 0 ] && [ ! -s "$tmp/list" ]
}

native() { env CGO_ENABLED=1 "$@"; }
nocgo() { env CGO_ENABLED=0 "$@"; }
js() { env GOOS=js GOARCH=wasm "$@"; }

# The versions are pinned in tools/go.mod. They are built for this machine
# first, since `go tool` under GOOS=js would build the tool itself for js.
install_tools() { env GOBIN="$PWD/bin/tools" go install -modfile=tools/go.mod tool; }

# architecture fails too when no test of that name was there to run.
architecture() {
  go test -count=1 -v -run '^TestArchitecture' ./tests >"$tmp/arch" 2>&1
  status=$?
  grep -Ev '^===|--- PASS' "$tmp/arch"
  [ "$status" -eq 0 ] && grep -q '^--- PASS: TestArchitecture' "$tmp/arch"
}

state >"$tmp/before" || {
  echo 'check: this needs git and a git checkout' >&2
  exit 1
}

step 'build of gofumpt and staticcheck' 'see tools/go.mod; the first build needs the network' install_tools
step 'gofmt' 'run: gofmt -w on the files listed' empty go_files gofmt -l
step 'gofumpt' 'run: go tool -modfile=tools/go.mod gofumpt -w on the files listed' empty go_files bin/tools/gofumpt -l

step 'go build' 'fix the compile errors above (cgo needs a C compiler)' native go build ./...
step 'go build, CGO_ENABLED=0' 'code that needs cgo belongs in runtime/wgpu, with a build line' nocgo go build ./...
step 'go build, js/wasm' 'code that a browser lacks needs a build line (//go:build !js)' js go build ./...
step 'go vet' 'fix what vet reports above' native go vet ./...
step 'go vet, CGO_ENABLED=0' 'fix what vet reports above, tests included' nocgo go vet ./...
step 'go vet, js/wasm' 'fix what vet reports above, tests included' js go vet ./...
step 'staticcheck' 'fix what it reports; `staticcheck -explain CODE` says why' native bin/tools/staticcheck ./...
step 'staticcheck, js/wasm' 'fix what it reports; `staticcheck -explain CODE` says why' js bin/tools/staticcheck ./...

step 'architecture' 'see the rules in tests/architecture_test.go; move the code, not the rule' architecture
step 'go mod tidy' 'run: go mod tidy' go mod tidy -diff
step 'go mod verify' 'a downloaded module was changed; run: go clean -modcache' go mod verify

# unchanged compares with the state of the tree before the first step.
unchanged() {
  state >"$tmp/after"
  diff "$tmp/before" "$tmp/after"
}
step 'the check changed no file' 'a step (or somebody else) wrote to the tree: look at git diff' unchanged

if [ "$failed" -gt 0 ]; then
  printf 'check: %d failed\n' "$failed"
  exit 1
fi
echo 'check: all ok'
