//go:build !js

// Package tests holds what crosses packages: end-to-end runs of the command and the
// page, the documents, and the rules of the architecture. Below it are the products
// of every kernel, and what runs tests in Node and browsers.
package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wgemm/wgemm/runtime/runtimetest"
)

const (
	module   = "github.com/wgemm/wgemm"
	goWebGPU = "github.com/rajveermalviya/go-webgpu"

	pinnedWebGPU        = goWebGPU + "/wgpu"
	pinnedWebGPUVersion = "v0.17.1"
)

// A pkg is what `go list -json` says of one package, as far as the rules need.
type pkg struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	TestImports  []string // of the package's own tests; only in this module
	XTestImports []string
}

// The builds that wgemm supports: every rule holds in each.
var builds = []struct {
	name string
	env  []string
}{
	{"native", []string{"CGO_ENABLED=1"}},
	{"nocgo", []string{"CGO_ENABLED=0"}},
	{"js", []string{"GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0"}},
}

// within reports whether import path p is root or a package below it.
func within(p, root string) bool {
	return p == root || strings.HasPrefix(p, root+"/")
}

func withinAny(p string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return within(p, root) })
}

// driverOf returns the folder of the driver that package p belongs to, or "".
// Every folder of runtime is a driver, except the two named in the design.
func driverOf(p string) string {
	rest, ok := strings.CutPrefix(p, module+"/runtime/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	if name == "open" || name == "runtimetest" {
		return ""
	}
	return module + "/runtime/" + name
}

// A rule says which packages one set of packages may reach. It follows imports
// through every package outside the standard library, so that a detour breaks
// it just as a direct import does.
type rule struct {
	text    string
	applies func(p string) bool
	// allowed is asked for each import that is reached: from is the package
	// that the rule applies to, to is what it reaches, std says whether to is
	// of the standard library ("C" is not).
	allowed func(from, to string, std bool) bool
	// direct limits the rule to the package's own imports.
	direct bool
}

var rules = []rule{
	{
		text:    "wgsl imports only the standard library",
		applies: func(p string) bool { return within(p, module+"/wgsl") },
		allowed: func(_, to string, std bool) bool { return std || within(to, module+"/wgsl") },
	},
	{
		text:    "runtime imports only the standard library",
		applies: func(p string) bool { return p == module+"/runtime" },
		allowed: func(_, _ string, std bool) bool { return std },
	},
	{
		text:    "gemm reaches, of this module, only wgsl and runtime, and no driver",
		applies: func(p string) bool { return within(p, module+"/gemm") },
		allowed: func(_, to string, _ bool) bool {
			return !within(to, module) || to == module+"/runtime" ||
				withinAny(to, module+"/gemm", module+"/wgsl")
		},
	},
	{
		text:    "gemm does not reach syscall/js or C",
		applies: func(p string) bool { return within(p, module+"/gemm") },
		allowed: func(_, to string, _ bool) bool { return to != "syscall/js" && to != "C" },
	},
	{
		text:    "gemm imports no third party but float16 and gonum",
		applies: func(p string) bool { return within(p, module+"/gemm") },
		allowed: func(_, to string, std bool) bool {
			return std || to == "C" || within(to, module) ||
				withinAny(to, "github.com/x448/float16", "gonum.org/v1/gonum")
		},
		direct: true,
	},
	{
		text:    "a driver imports, of this module, runtime alone",
		applies: func(p string) bool { return driverOf(p) != "" },
		allowed: func(from, to string, _ bool) bool {
			return !within(to, module) || to == module+"/runtime" || within(to, driverOf(from))
		},
	},
	{
		text:    "runtime/runtimetest reaches no driver: each driver brings itself to the suite",
		applies: func(p string) bool { return within(p, module+"/runtime/runtimetest") },
		allowed: func(_, to string, _ bool) bool {
			return driverOf(to) == "" && !within(to, module+"/runtime/open")
		},
	},
}

// A confinement names the only packages of this module that may import
// something. It counts the imports of their tests as well.
type confinement struct {
	text   string
	what   string   // an import path, with all below it
	inside []string // packages, with all below them
}

var confinements = []confinement{
	{"go-webgpu appears in runtime/wgpu only", goWebGPU, []string{module + "/runtime/wgpu"}},
	{
		"syscall/js appears in runtime/browser, wasm, bench/peers and the tests that run there only", "syscall/js",
		[]string{module + "/runtime/browser", module + "/wasm", module + "/bench/peers", module + "/tests"},
	},
	{"cobra appears in cmd/wgemm only", "github.com/spf13/cobra", []string{module + "/cmd/wgemm"}},
}

// violations returns each breach of the rules in a dependency graph, as
// "package X imports Y: rule", sorted.
func violations(graph []pkg) []string {
	byPath := make(map[string]pkg, len(graph))
	for _, p := range graph {
		byPath[p.ImportPath] = p
	}
	short := func(p string) string {
		if p == module {
			return "."
		}
		return strings.TrimPrefix(p, module+"/")
	}
	var found []string
	for _, p := range graph {
		if !within(p.ImportPath, module) {
			continue
		}
		for _, r := range rules {
			if !r.applies(p.ImportPath) {
				continue
			}
			for _, to := range breaches(byPath, p.ImportPath, r) {
				found = append(found, fmt.Sprintf("package %s imports %s%s: %s",
					short(p.ImportPath), short(to.path), via(to.via, short), r.text))
			}
		}
		for _, c := range confinements {
			if withinAny(p.ImportPath, c.inside...) {
				continue
			}
			for _, to := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				if within(to, c.what) {
					found = append(found, fmt.Sprintf("package %s imports %s: %s",
						short(p.ImportPath), short(to), c.text))
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

type reached struct {
	path string
	via  []string // the packages between, nearest first
}

// breaches lists what a package imports, itself or through packages outside the
// standard library, against a rule: the nearest first, and nothing beyond one.
func breaches(byPath map[string]pkg, from string, r rule) []reached {
	var out []reached
	seen := map[string]bool{from: true}
	queue := []reached{{path: from}}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		var chain []string
		if at.path != from {
			chain = append(slices.Clone(at.via), at.path)
		}
		for _, to := range byPath[at.path].Imports {
			if seen[to] {
				continue
			}
			seen[to] = true
			next := reached{path: to, via: chain}
			std := byPath[to].Standard
			switch {
			case !r.allowed(from, to, std):
				out = append(out, next)
			case !r.direct && !std:
				queue = append(queue, next)
			}
		}
	}
	return out
}

func via(chain []string, short func(string) string) string {
	if len(chain) == 0 {
		return ""
	}
	names := make([]string, len(chain))
	for i, p := range chain {
		names[i] = short(p)
	}
	return " (through " + strings.Join(names, ", ") + ")"
}

// root returns the folder of the module's go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("the tests run in a folder right below the module's root: %v", err)
	}
	return dir
}

// command runs a program in dir and returns its standard output.
func command(t *testing.T, dir string, env []string, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s (%s): %v\n%s", name, strings.Join(args, " "), strings.Join(env, " "), err, &stderr)
	}
	return out
}

func goList(t *testing.T, dir string, env []string, args ...string) []pkg {
	t.Helper()
	out := command(t, dir, env, "go", append([]string{
		"list", "-json=ImportPath,Standard,Imports,TestImports,XTestImports",
	}, args...)...)
	var graph []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return graph
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		graph = append(graph, p)
	}
}

func TestArchitecture(t *testing.T) {
	t.Parallel()
	dir := root(t)
	for _, build := range builds {
		t.Run("imports/"+build.name, func(t *testing.T) {
			t.Parallel()
			graph := goList(t, dir, build.env, "-deps", "./...")
			seen := map[string]bool{}
			for _, p := range graph {
				seen[p.ImportPath] = true
			}
			// A rule about a package that the build leaves out would hold
			// whatever the package imports.
			for folder, in := range map[string]string{
				"gemm": "", "wgsl": "", "runtime": "", "cmd/wgemm": "native",
				"runtime/wgpu": "native", "runtime/browser": "js", "wasm": "js",
			} {
				if (in == "" || in == build.name) && hasGo(dir, folder) && !seen[module+"/"+folder] {
					t.Errorf("package %s has Go files but is not in the %s build: its rules would go unchecked", folder, build.name)
				}
			}
			for _, v := range violations(graph) {
				t.Errorf("%s build: %s", build.name, v)
			}
		})
	}
	t.Run("no WGSL in Go", func(t *testing.T) {
		t.Parallel()
		for _, f := range goFiles(t, dir) {
			src, err := os.ReadFile(filepath.Join(dir, f))
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range wgslLines(f, src) {
				t.Errorf("%s:%d holds WGSL: shader text lives in .wgsl files, "+
					"so that any WGSL tool can read it", f, line)
			}
		}
	})
	t.Run("pin", func(t *testing.T) {
		t.Parallel()
		for _, fault := range pinFaults(t, command(t, dir, nil, "go", "mod", "edit", "-json")) {
			t.Errorf("go.mod: %s: the shaders are written for the WGSL compiler "+
				"that comes with %s", fault, pinnedWebGPUVersion)
		}
	})
	t.Run("no machine names", func(t *testing.T) {
		t.Parallel()
		for _, f := range trackedFiles(t, dir) {
			text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f)))
			if errors.Is(err, fs.ErrNotExist) || isDir(dir, f) {
				continue // deleted but not yet committed, or a submodule
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range machineNames(text) {
				t.Errorf("%s:%s", f, fault)
			}
		}
	})
}

func isDir(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.IsDir()
}

// hasGo reports whether a folder holds Go files other than tests.
func hasGo(dir, folder string) bool {
	names, _ := filepath.Glob(filepath.Join(dir, folder, "*.go"))
	return slices.ContainsFunc(names, func(n string) bool { return !strings.HasSuffix(n, "_test.go") })
}

// goFiles lists the .go files below dir that are not tests.
func goFiles(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") && !strings.HasSuffix(p, "_test.go") {
			rel, err := filepath.Rel(dir, p)
			if err != nil {
				return err
			}
			files = append(files, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no Go file found below the module's root")
	}
	return files
}

// wgslLines returns the lines of the string literals that hold WGSL. What a
// parser of WGSL needs is not shader text: a pattern given to package regexp, or
// a literal that is one marker and nothing else. Comments may say what they like.
func wgslLines(name string, src []byte) []int {
	set := token.NewFileSet()
	// The compiler reports syntax errors; what was read before one is checked.
	file, _ := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if file == nil {
		return nil
	}
	var lines []int
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
				pkg, ok := sel.X.(*ast.Ident)
				return !ok || pkg.Name != "regexp"
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if n.Kind != token.STRING || err != nil {
				return false
			}
			for _, marker := range []string{"@compute", "var<storage", "var<workgroup"} {
				if strings.Contains(text, marker) && strings.TrimSpace(text) != marker {
					lines = append(lines, set.Position(n.Pos()).Line)
					break
				}
			}
		}
		return true
	})
	return lines
}

// pinFaults says what is wrong with the requirement on go-webgpu in the output
// of `go mod edit -json`.
func pinFaults(t *testing.T, modJSON []byte) []string {
	t.Helper()
	type version struct{ Path, Version string }
	var mod struct {
		Require []version
		Replace []struct{ Old, New version }
	}
	if err := json.Unmarshal(modJSON, &mod); err != nil {
		t.Fatalf("go mod edit -json: %v", err)
	}
	var faults []string
	found := false
	for _, r := range mod.Require {
		if r.Path != pinnedWebGPU {
			continue
		}
		found = true
		if r.Version != pinnedWebGPUVersion {
			faults = append(faults, fmt.Sprintf("requires %s %s, want exactly %s", r.Path, r.Version, pinnedWebGPUVersion))
		}
	}
	if !found {
		faults = append(faults, fmt.Sprintf("does not require %s %s", pinnedWebGPU, pinnedWebGPUVersion))
	}
	for _, r := range mod.Replace {
		if within(r.Old.Path, goWebGPU) {
			faults = append(faults, fmt.Sprintf("replaces %s by %s %s", r.Old.Path, r.New.Path, r.New.Version))
		}
	}
	return faults
}

// trackedFiles lists the files of the tree as git sees them: the tracked ones
// and the new ones that it does not ignore. It skips the test without git.
func trackedFiles(t *testing.T, dir string) []string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		runtimetest.Skip(t, "git", "git is not installed, so there is no list of the tree's files to read")
	}
	if err := exec.CommandContext(t.Context(), "git", "-C", dir, "rev-parse", "--git-dir").Run(); err != nil {
		runtimetest.Skip(t, "git", "not a git checkout, so there is no list of the tree's files to read")
	}
	out := command(t, dir, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if !slices.Contains(files, "go.mod") {
		t.Fatalf("git ls-files lists %d files and no go.mod", len(files))
	}
	return files
}

// Expressions for what belongs to one machine. Their own text does not match
// them, so that this file passes.
var (
	machinePath = regexp.MustCompile(`(?:^|[^\w./~$})-])(` +
		`/(?:home|Users|root|work|workspace|tmp|mnt|srv)/[\w.-]+[\w./-]*` +
		`|[A-Za-z]:\\(?:Users|Temp)\\[\w.-]+)`)
	registryHost = regexp.MustCompile(`\b(` +
		`(?:goproxy|proxy|registry|mirrors?|artifactory|nexus)[\w-]*\.(?:[\w-]+\.)+(?:com|org|net|io|dev|cn|lan|local|internal|corp)` +
		`|goproxy\.(?:io|cn)` +
		`|sum\.golang\.org|pypi\.org|files\.pythonhosted\.org|(?:deb|security|snapshot)\.debian\.org` +
		`|(?:archive|security|ports)\.ubuntu\.com|(?:static|index)\.crates\.io|docker\.io|ghcr\.io` +
		`)\b`)
)

// machineNames returns "LINE: what" for each absolute path of a machine and
// each registry host in a text; a file that is not text has none.
func machineNames(text []byte) []string {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	var faults []string
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if m := machinePath.FindSubmatch(line); m != nil {
			faults = append(faults, fmt.Sprintf("%d: %s is a path of one machine: use a relative one", n, m[1]))
		}
		if m := registryHost.FindSubmatch(line); m != nil {
			faults = append(faults, fmt.Sprintf("%d: %s is a registry host: the user's own settings choose it "+
				"(for npm, set omit-lockfile-registry-resolved)", n, m[1]))
		}
	}
	return faults
}

// The checkers must be able to fail: each rule is broken once on purpose.

func TestArchitectureRulesCatch(t *testing.T) {
	t.Parallel()
	// A small graph that keeps every rule; each case adds imports to it.
	sound := func() map[string]pkg {
		g := map[string]pkg{}
		add := func(std bool, p string, imports ...string) {
			g[p] = pkg{ImportPath: p, Standard: std, Imports: imports}
		}
		for _, p := range []string{"fmt", "syscall", "runtime/cgo"} {
			add(true, p)
		}
		// In a js build the standard library itself reaches syscall/js.
		add(true, "syscall/js", "fmt")
		add(true, "os", "syscall", "syscall/js")
		add(false, "github.com/x448/float16", "fmt")
		add(false, "gonum.org/v1/gonum/mat", "gonum.org/v1/gonum/blas", "example.org/below")
		add(false, "gonum.org/v1/gonum/blas")
		add(false, "example.org/below", "os")
		add(false, "example.org/other")
		add(false, "example.org/cgo", "C")
		add(false, pinnedWebGPU, "C", "runtime/cgo")
		add(false, "github.com/spf13/cobra", "os")
		m := func(p string) string { return module + "/" + p }
		add(false, m("wgsl"), "fmt", "os")
		add(false, m("wgsl/broken"), m("wgsl"))
		add(false, m("runtime"), "fmt")
		add(false, m("gemm"), "os", m("wgsl"), m("runtime"), "github.com/x448/float16", "gonum.org/v1/gonum/mat")
		add(false, m("runtime/wgpu"), m("runtime"), m("runtime/wgpu/internal/x"), "C", pinnedWebGPU)
		add(false, m("runtime/wgpu/internal/x"), "fmt")
		add(false, m("runtime/browser"), m("runtime"), "syscall/js")
		add(false, m("runtime/open"), m("runtime"), m("runtime/wgpu"), m("runtime/browser"))
		add(false, m("runtime/runtimetest"), m("runtime"), m("wgsl"))
		add(false, m("internal/matfile"), m("gemm"))
		add(false, m("wasm"), m("gemm"), m("runtime/open"), "syscall/js")
		add(false, m("cmd/wgemm"), m("gemm"), m("runtime/open"), "github.com/spf13/cobra")
		add(false, m("tests"), m("gemm"), m("runtime/open"))
		return g
	}
	tests := []struct {
		name string
		from string // below the module
		adds string
		test bool // the import is one of the package's tests
		want []string
	}{
		{name: "sound", from: "gemm", adds: "fmt"},
		{
			name: "wgsl and a third party", from: "wgsl", adds: "example.org/other",
			want: []string{
				"package wgsl imports example.org/other: wgsl imports only the standard library",
				"package wgsl/broken imports example.org/other (through wgsl): wgsl imports only the standard library",
			},
		},
		{
			name: "wgsl and runtime", from: "wgsl/broken", adds: module + "/runtime",
			want: []string{"package wgsl/broken imports runtime: wgsl imports only the standard library"},
		},
		{
			name: "runtime and wgsl", from: "runtime", adds: module + "/wgsl",
			want: []string{
				"package runtime imports wgsl: runtime imports only the standard library",
				"package runtime/browser imports wgsl (through runtime): a driver imports, of this module, runtime alone",
				"package runtime/wgpu imports wgsl (through runtime): a driver imports, of this module, runtime alone",
			},
		},
		{
			name: "runtime and C", from: "runtime", adds: "C",
			want: []string{
				"package gemm imports C (through runtime): gemm does not reach syscall/js or C",
				"package runtime imports C: runtime imports only the standard library",
			},
		},
		{
			name: "gemm and a driver", from: "gemm", adds: module + "/runtime/browser",
			want: []string{
				"package gemm imports runtime/browser: gemm reaches, of this module, only wgsl and runtime, and no driver",
				"package gemm imports syscall/js (through runtime/browser): gemm does not reach syscall/js or C",
			},
		},
		{
			name: "gemm and the choice of driver", from: "gemm", adds: module + "/runtime/open",
			want: []string{
				"package gemm imports C (through runtime/open, runtime/wgpu): gemm does not reach syscall/js or C",
				"package gemm imports runtime/open: gemm reaches, of this module, only wgsl and runtime, and no driver",
				"package gemm imports syscall/js (through runtime/open, runtime/browser): gemm does not reach syscall/js or C",
			},
		},
		{
			name: "gemm and the CLI's helpers", from: "gemm", adds: module + "/internal/report",
			want: []string{"package gemm imports internal/report: gemm reaches, of this module, only wgsl and runtime, and no driver"},
		},
		{
			name: "gemm and syscall/js", from: "gemm", adds: "syscall/js",
			want: []string{
				"package gemm imports syscall/js: gemm does not reach syscall/js or C",
				"package gemm imports syscall/js: syscall/js appears in runtime/browser, wasm, bench/peers and the tests that run there only",
			},
		},
		{
			name: "gemm and C", from: "gemm", adds: "C",
			want: []string{"package gemm imports C: gemm does not reach syscall/js or C"},
		},
		{
			name: "gemm and a third party", from: "gemm", adds: "example.org/other",
			want: []string{"package gemm imports example.org/other: gemm imports no third party but float16 and gonum"},
		},
		{
			name: "gemm and C by a third party", from: "gemm", adds: "example.org/cgo",
			want: []string{
				"package gemm imports C (through example.org/cgo): gemm does not reach syscall/js or C",
				"package gemm imports example.org/cgo: gemm imports no third party but float16 and gonum",
			},
		},
		{
			name: "a driver and wgsl", from: "runtime/wgpu", adds: module + "/wgsl",
			want: []string{"package runtime/wgpu imports wgsl: a driver imports, of this module, runtime alone"},
		},
		{
			name: "a driver and another", from: "runtime/browser", adds: module + "/runtime/wgpu/internal/x",
			want: []string{"package runtime/browser imports runtime/wgpu/internal/x: a driver imports, of this module, runtime alone"},
		},
		{
			name: "a new driver and gemm", from: "runtime/metal", adds: module + "/runtime/runtimetest",
			want: []string{
				"package runtime/metal imports runtime/runtimetest: a driver imports, of this module, runtime alone",
			},
		},
		{
			name: "the suite and a driver", from: "runtime/runtimetest", adds: module + "/runtime/wgpu",
			want: []string{
				"package runtime/runtimetest imports runtime/wgpu: runtime/runtimetest reaches no driver: each driver brings itself to the suite",
			},
		},
		{name: "a driver's test and the suite", from: "runtime/wgpu", adds: module + "/runtime/runtimetest", test: true},
		{
			name: "the command and go-webgpu", from: "cmd/wgemm", adds: pinnedWebGPU,
			want: []string{"package cmd/wgemm imports " + pinnedWebGPU + ": go-webgpu appears in runtime/wgpu only"},
		},
		{
			name: "a test and go-webgpu", from: "tests", adds: pinnedWebGPU, test: true,
			want: []string{"package tests imports " + pinnedWebGPU + ": go-webgpu appears in runtime/wgpu only"},
		},
		{
			name: "a lookalike folder", from: "runtime/wgpu2", adds: pinnedWebGPU,
			want: []string{"package runtime/wgpu2 imports " + pinnedWebGPU + ": go-webgpu appears in runtime/wgpu only"},
		},
		{
			name: "helpers and syscall/js", from: "internal/matfile", adds: "syscall/js",
			want: []string{"package internal/matfile imports syscall/js: syscall/js appears in runtime/browser, wasm, bench/peers and the tests that run there only"},
		},
		{name: "a test runner and syscall/js", from: "tests", adds: "syscall/js", test: true},
		{
			name: "helpers and cobra", from: "internal/matfile", adds: "github.com/spf13/cobra",
			want: []string{"package internal/matfile imports github.com/spf13/cobra: cobra appears in cmd/wgemm only"},
		},
	}
	broken := map[string]bool{}
	for _, tt := range tests {
		for _, v := range tt.want {
			for _, r := range rules {
				broken[r.text] = broken[r.text] || strings.HasSuffix(v, ": "+r.text)
			}
			for _, c := range confinements {
				broken[c.text] = broken[c.text] || strings.HasSuffix(v, ": "+c.text)
			}
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := sound()
			p := g[path.Join(module, tt.from)]
			p.ImportPath = path.Join(module, tt.from)
			if tt.test {
				p.XTestImports = append(p.XTestImports, tt.adds)
			} else {
				p.Imports = append(p.Imports, tt.adds)
			}
			g[p.ImportPath] = p
			var graph []pkg
			for _, p := range g {
				graph = append(graph, p)
			}
			if got := violations(graph); !slices.Equal(got, tt.want) {
				t.Errorf("%s importing %s\n got:\n  %s\nwant:\n  %s", tt.from, tt.adds,
					strings.Join(got, "\n  "), strings.Join(tt.want, "\n  "))
			}
		})
	}
	for _, r := range rules {
		if !broken[r.text] {
			t.Errorf("no case breaks the rule %q", r.text)
		}
	}
	for _, c := range confinements {
		if !broken[c.text] {
			t.Errorf("no case breaks the rule %q", c.text)
		}
	}
}

func TestArchitectureScannersCatch(t *testing.T) {
	t.Parallel()
	t.Run("WGSL", func(t *testing.T) {
		t.Parallel()
		src := "package p\n" +
			"// A comment may say @compute or var<storage.\n" +
			"const parsed = \"@compute\"\n" +
			"const a = \"@compute @workgroup_size(1)\"\n" +
			"const b = `\nvar<storage, read> a: array<f32>;\n`\n" +
			"const c = \"var<workgroup> t: array<f32, 4>;\"\n" +
			"const d = \"var<private> acc\"\n" +
			"var e = regexp.MustCompile(`^var<workgroup> (.*)`)\n" +
			"var f = compile(\"var<workgroup> t: u32;\")\n"
		if got, want := wgslLines("p.go", []byte(src)), []int{4, 5, 8, 11}; !slices.Equal(got, want) {
			t.Errorf("lines with WGSL: got %v, want %v", got, want)
		}
	})
	t.Run("pin", func(t *testing.T) {
		t.Parallel()
		tests := []struct {
			name, mod string
			want      int // faults
		}{
			{"exact", `{"Require":[{"Path":"` + pinnedWebGPU + `","Version":"v0.17.1"}]}`, 0},
			{"newer", `{"Require":[{"Path":"` + pinnedWebGPU + `","Version":"v0.17.2"}]}`, 1},
			{"absent", `{"Require":[{"Path":"example.org/other","Version":"v0.17.1"}]}`, 1},
			{"replaced", `{"Require":[{"Path":"` + pinnedWebGPU + `","Version":"v0.17.1"}],` +
				`"Replace":[{"Old":{"Path":"` + pinnedWebGPU + `"},"New":{"Path":"../fork"}}]}`, 1},
		}
		for _, tt := range tests {
			if got := pinFaults(t, []byte(tt.mod)); len(got) != tt.want {
				t.Errorf("%s: got faults %q, want %d", tt.name, got, tt.want)
			}
		}
	})
	t.Run("machine names", func(t *testing.T) {
		t.Parallel()
		// Put together here, so that this file holds none.
		dir := func(parts ...string) string { return "/" + strings.Join(parts, "/") }
		host := func(parts ...string) string { return strings.Join(parts, ".") }
		tests := []struct {
			name, text string
			want       int // faults
		}{
			{"plain", "see docs/kernels.md and ./bin/wgemm\n", 0},
			{"system paths", "#!/usr/bin/env bash\n[ -e /dev/nvidia0 ] && cat /etc/os-release >/dev/null\n", 0},
			{"a relative path", "ls testdata" + dir("home", "x") + " ." + dir("tmp", "x") + "\n", 0},
			{"a path below a variable", `"$dir` + dir("tmp", "x") + `" ${dir}` + dir("tmp", "x") + "\n", 0},
			{"a path of a URL", "https://example.org" + dir("home", "x") + "\n", 0},
			{"module paths", "github.com/spf13/cobra codeberg.org/sbinet/npyio gonum.org/v1/gonum\n", 0},
			{"home", "cd " + dir("home", "me", "src") + "\n", 1},
			{"home, first on the line", dir("Users", "me") + "\n", 1},
			{"quoted", `out = "` + dir("tmp", "a.npy") + `"`, 1},
			{"two lines", "x=" + dir("root", "go") + "\ny=" + dir("work", "x") + "\n", 2},
			{"windows", `C:` + `\Users\me`, 1},
			{"go proxy", "GOPROXY=https://" + host("proxy", "golang", "org") + ",direct", 1},
			{"go sums", host("sum", "golang", "org"), 1},
			{"npm lock file", `"resolved": "https://` + host("registry", "npmjs", "org") + `/x/-/x-1.0.0.tgz"`, 1},
			{"a house's own proxy", "http://" + host("goproxy-2", "example", "internal") + ":8080", 1},
			{"debian", "deb http://" + host("deb", "debian", "org") + "/debian stable main", 1},
			{"words", "the proxy. Org charts; registry.Get(name); mirror.Net; proxy.dev", 0},
			{"binary", dir("home", "me") + "\x00", 0},
		}
		for _, tt := range tests {
			if got := machineNames([]byte(tt.text)); len(got) != tt.want {
				t.Errorf("%s: got faults %q, want %d", tt.name, got, tt.want)
			}
		}
	})
}
