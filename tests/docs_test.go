//go:build !js

package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func document(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// blocks are the fenced blocks of a language in a Markdown document.
func blocks(text, language string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// Every line of shell in the README does what it says, in a folder with the
// demo's matrices.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.npy", "b.npy"} {
		data, err := os.ReadFile(filepath.Join("../testdata/demo", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command, run := withCgo.command(t), 0
	for _, block := range blocks(document(t, "README.md"), "sh") {
		for line := range strings.Lines(block) {
			args := strings.Fields(line)
			if args[0] != "wgemm" {
				t.Errorf("%q does not start with wgemm", line)
				continue
			}
			cmd := exec.CommandContext(t.Context(), command, args[1:]...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", strings.TrimSpace(line), err, out)
			}
			run++
		}
	}
	if run < 5 {
		t.Errorf("%d commands in the README, want at least 5", run)
	}
}

// The Go of the README is the body of an example that the tests run.
func TestReadmeGo(t *testing.T) {
	t.Parallel()
	found := blocks(document(t, "README.md"), "go")
	if len(found) != 1 {
		t.Fatalf("%d blocks of Go in the README, want 1", len(found))
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if !strings.Contains(flat(document(t, "gemm/example_test.go")), flat(found[0])) {
		t.Error("the README's Go is not in gemm/example_test.go")
	}
}

// RATIONALE.md gives the reason for every direct dependency at its version.
func TestRationaleListsDependencies(t *testing.T) {
	t.Parallel()
	mod, rationale := document(t, "go.mod"), document(t, "RATIONALE.md")
	direct := regexp.MustCompile(`(?m)^\t(\S+) v(\S+)$`).FindAllStringSubmatch(mod, -1)
	if len(direct) < 5 {
		t.Fatalf("%d direct dependencies found in go.mod", len(direct))
	}
	for _, m := range direct {
		name := strings.TrimSuffix(m[1], "/wgpu") // the package of its module
		if !strings.Contains(rationale, "| "+name+" | "+m[2]+" |") {
			t.Errorf("RATIONALE.md has no row for %s %s", name, m[2])
		}
	}
}

// Links between the documents lead somewhere.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"README.md", "RATIONALE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/kernels.md", "docs/terms.md", "docs/implementations.md",
		"docs/numerics.md", "docs/performance.md",
	} {
		text := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(document(t, name), "")
		for _, m := range regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
