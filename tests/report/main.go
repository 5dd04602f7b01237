//go:build !js

// Command report runs the tests on the three WebGPU implementations and prints
// one table: implementation, adapter, tests run, passed, failed, and skipped
// with reasons. It fails if a test does, or if an implementation is missing.
//
//	go run ./tests/report                    all three
//	go run ./tests/report dawn -run Shapes   one, with flags for go test
package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/wgemm/wgemm/runtime/open"
)

// An implementation is a way to run the tests.
type implementation struct {
	name    string
	js      bool                     // built with GOOS=js
	require string                   // without what tests fail, not skip
	ci      string                   // and without what they do in CI, where CI is set
	prepare func(root string) error  // checks and builds what it takes
	exec    func(root string) string // value of go test's -exec
	// Flags and packages for go test. Results of kept and narrow are taken from go's
	// cache where nothing changed; for always that cannot be known: they build and
	// run programs, or leave no record of what they read. With -exec go keeps none.
	// What is narrow compiles very many kernels, for which lavapipe, with vectors of
	// 128 bits in place of 256, takes half as long.
	kept, narrow, always []string
}

var implementations = []implementation{
	{
		name:    "wgpu-native",
		require: "wgpu,chromium",
		ci:      "git,software", // CI has lavapipe alone
		kept:    []string{"./cmd/...", "./internal/...", "./runtime/...", "./tests/report/...", "./wasm/...", "./wgsl/..."},
		narrow:  []string{"./tests/products"},
		always:  []string{"./gemm", "./tests"},
	},
	{
		name:    "dawn",
		js:      true,
		require: "browser",
		ci:      "shader-f16", // of lavapipe; wgpu-native and SwiftShader have none
		prepare: func(root string) error {
			if _, err := os.Stat(filepath.Join(root, "tests/dawn/node_modules/webgpu")); err != nil {
				return fmt.Errorf("%w (make setup installs it)", err)
			}
			return nil
		},
		exec: func(root string) string {
			return "node --stack-size=8192 " + filepath.Join(root, "tests/dawn/run.mjs")
		},
		// What has a device in it; all else is the same Go on all.
		narrow: []string{"./runtime/...", "./internal/chapter", "./internal/tuning", "./tests/products"},
	},
	{
		// SwiftShader is slow, hence -short; a page has no files, hence only
		// the packages whose tests need none.
		name:    "chromium",
		js:      true,
		require: "browser",
		prepare: func(root string) error {
			return command(root, nil, "go", "build", "-o", "bin/chromium", "./tests/chromium").Run()
		},
		exec:   func(root string) string { return filepath.Join(root, "bin/chromium") },
		always: []string{"-short", "./runtime/browser", "./internal/chapter", "./tests/products"},
	},
}

func command(root string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = root, append(os.Environ(), env...), os.Stderr
	return cmd
}

// A result is a row of the table.
type result struct {
	name, adapter           string
	passed, failed, skipped int
	reasons                 []string // of the skipped
	err                     error    // why the run as a whole failed
}

func main() {
	if err := report(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func report(args []string, out io.Writer) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	chosen := implementations
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(i implementation) bool { return i.name != args[0] })
		if len(chosen) == 0 {
			return fmt.Errorf("no implementation %q", args[0])
		}
		args = args[1:]
	}
	// Three at a time, each of half as many packages as there are processors: some wait
	// for a page or a device while others compute. With many more they push each other out
	// of the caches, which doubles what they compute.
	slots := make(chan struct{}, 3)
	results := make([]result, len(chosen))
	var wg sync.WaitGroup
	lines := &lineWriter{w: out}
	for n, i := range chosen {
		wg.Go(func() { results[n] = i.run(root, args, slots, prefixed{lines, i.name}) })
	}
	wg.Wait()
	return table(results, out)
}

// A lineWriter writes what it is given at once, whoever else writes.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// prefixed puts a name in front of each line. Its writers write whole lines.
type prefixed struct {
	*lineWriter
	name string
}

func (p prefixed) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Fprintf(p.w, "%-12s %s\n", p.name, strings.TrimRight(line, "\n")); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// run runs the tests of one implementation and prints the lines of packages
// and the output of failed ones, as slots allow.
func (i implementation) run(root string, flags []string, slots chan struct{}, out io.Writer) result {
	r := result{name: i.name}
	if i.prepare != nil {
		if r.err = i.prepare(root); r.err != nil {
			return r
		}
	}
	groups := []struct{ packages, flags, env []string }{
		{i.always, []string{"-count=1"}, nil},
		{i.kept, nil, nil},
		{i.narrow, nil, narrowVectors()},
	}
	parts := make([]result, len(groups))
	var wg sync.WaitGroup
	for n, g := range groups {
		if len(g.packages) > 0 {
			args := slices.Concat(flags, g.flags, g.packages)
			slots <- struct{}{}
			wg.Go(func() {
				parts[n].err = i.test(root, g.env, args, &parts[n], out)
				<-slots
			})
		}
	}
	wg.Wait()
	for _, p := range parts {
		r.add(p)
	}
	if r.err == nil && r.adapter == "" && len(flags) == 0 {
		r.err = errors.New("no test ran on an adapter")
	}
	return r
}

// narrowVectors makes lavapipe compile for vectors of 128 bits, into a cache of their
// own: Mesa's key of a compiled kernel does not tell how long its vectors are, so that
// other programs of this user would be given these kernels, a fifth slower than theirs.
func narrowVectors() []string {
	env := []string{"LP_NATIVE_VECTOR_WIDTH=128"}
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "wgemm", "shaders-128")
		err = os.MkdirAll(cache, 0o700)
	}
	if err != nil { // without a folder Mesa has no cache, either
		return append(env, "MESA_SHADER_CACHE_DISABLE=true")
	}
	return append(env, "MESA_SHADER_CACHE_DIR="+cache)
}

// add adds the results of other packages.
func (r *result) add(p result) {
	r.adapter = cmp.Or(r.adapter, p.adapter)
	r.passed += p.passed
	r.failed += p.failed
	r.skipped += p.skipped
	r.reasons = append(r.reasons, p.reasons...)
	r.err = errors.Join(r.err, p.err)
}

// test runs go test and adds what it did to r.
func (i implementation) test(root string, env, args []string, r *result, out io.Writer) error {
	if i.js {
		args = append([]string{"-exec", i.exec(root)}, args...)
	}
	// Results depend on the device, so go's cache must know it: tests read it from
	// the environment (package runtimetest).
	require := i.require
	if os.Getenv("CI") != "" {
		require += "," + i.ci
	}
	env = append(env, "WGEMM_REQUIRE="+require, "WGEMM_TEST_DEVICE="+device())
	if i.js {
		env = append(env, "GOOS=js", "GOARCH=wasm")
	}
	packages := fmt.Sprintf("-p=%d", max(1, runtime.NumCPU()/2))
	// make check vets, once for all packages: here it would take as long as to build.
	cmd := command(root, env, "go", append([]string{"test", "-json", "-vet=off", packages}, args...)...)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	r.read(stdout, out)
	switch err := cmd.Wait(); {
	case r.failed > 0:
		return fmt.Errorf("%d tests failed", r.failed)
	case err != nil:
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}

// device describes the adapters of this machine with their graphics drivers, and
// the Dawn in use.
func device() string {
	adapters, err := open.Driver().Adapters(context.Background())
	dawn, _ := os.ReadFile("tests/dawn/package-lock.json")
	return fmt.Sprintf("%v %v %x", adapters, err, sha256.Sum256(dawn))
}

// An event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// read counts what the tests did. Output is kept for each test until it is
// known whether it is wanted.
func (r *result) read(events io.Reader, out io.Writer) {
	type key struct{ pkg, test string }
	output := map[key]*strings.Builder{}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // not of a test: a build's message
			continue
		}
		k := key{e.Package, e.Test}
		if output[k] == nil {
			output[k] = &strings.Builder{}
		}
		switch e.Action {
		case "output", "build-output":
			output[k].WriteString(e.Output)
			if _, adapter, ok := strings.Cut(e.Output, ": adapter: "); ok && r.adapter == "" {
				r.adapter = strings.TrimSpace(adapter)
			}
		case "pass", "fail", "skip":
			r.count(e, output[k].String(), out)
			delete(output, k)
		}
	}
}

func (r *result) count(e event, output string, out io.Writer) {
	pkg := strings.TrimPrefix(e.Package, "github.com/wgemm/wgemm/")
	switch {
	case e.Test == "" && e.Action == "fail":
		fmt.Fprintf(out, "%sFAIL  %s  %.1f s\n", output, pkg, e.Elapsed)
	case e.Test == "" && e.Action == "pass":
		fmt.Fprintf(out, "ok    %s  %.1f s\n", pkg, e.Elapsed)
	case e.Test == "": // no test files
	case e.Action == "pass":
		r.passed++
	case e.Action == "fail":
		r.failed++
		fmt.Fprint(out, output)
	default:
		r.skipped++
		r.reasons = append(r.reasons, fmt.Sprintf("%s %s: %s", pkg, e.Test, reason(output)))
	}
}

// reason is the message of a skipped test.
func reason(output string) string {
	for line := range strings.SplitSeq(output, "\n") {
		if _, place, ok := strings.Cut(line, ".go:"); ok {
			_, message, _ := strings.Cut(place, ": ")
			return message
		}
	}
	return "no reason given"
}

// table prints the rows, the reasons of what was skipped and the sums, and
// returns an error if anything failed.
func table(results []result, out io.Writer) error {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "implementation\tadapter\trun\tpassed\tfailed\tskipped")
	var passed, failed, skipped int
	var errs []error
	for _, r := range results {
		adapter := r.adapter
		if adapter == "" {
			adapter = "none"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n", r.name, adapter, r.passed+r.failed+r.skipped, r.passed, r.failed, r.skipped)
		passed, failed, skipped = passed+r.passed, failed+r.failed, skipped+r.skipped
		if r.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.name, r.err))
		}
	}
	w.Flush()
	for _, r := range results {
		for _, reason := range r.reasons {
			fmt.Fprintf(out, "skipped on %s: %s\n", r.name, reason)
		}
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", passed, max(failed, len(errs)), skipped)
	return errors.Join(errs...)
}
