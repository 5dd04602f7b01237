//go:build !js

package tests

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
)

// A build is cmd/wgemm, built once for all tests, in a folder that stays: where
// nothing changed, nothing is linked again.
type build func() (path string, err error)

var (
	withCgo    = buildOnce("wgemm")
	withoutCgo = buildOnce("wgemm-nocgo", "CGO_ENABLED=0")
)

func buildOnce(name string, env ...string) build {
	return sync.OnceValues(func() (string, error) {
		path := filepath.Join("../bin/tests", name)
		if goruntime.GOOS == "windows" {
			path += ".exe"
		}
		cmd := exec.Command("go", "build", "-o", path, "../cmd/wgemm")
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return filepath.Abs(path)
	})
}

// command returns the path of the build.
func (b build) command(t *testing.T) string {
	t.Helper()
	path, err := b()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs a program and returns its exit status and what it printed.
func start(t *testing.T, env []string, name string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		return ee.ExitCode(), out.String(), errs.String()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, out.String(), errs.String()
}

// Without a GPU driver, without a Vulkan loader and in a build without cgo the
// command says so once and computes on the CPU; asked for the GPU it exits 4
// and says what is missing.
func TestCommandWithoutDevice(t *testing.T) {
	t.Parallel()
	if goruntime.GOOS != "linux" {
		t.Skip("the ways to take a driver away below are those of Vulkan on Linux")
	}
	noLoader := t.TempDir() // a loader that does not load comes first in the search
	if err := os.WriteFile(filepath.Join(noLoader, "libvulkan.so.1"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		build   build
		env     string
		missing string
	}{
		{"no driver", withCgo, "VK_ICD_FILENAMES=" + os.DevNull, "install the Vulkan loader and a Vulkan driver"},
		{"no loader", withCgo, "LD_LIBRARY_PATH=" + noLoader, "install the Vulkan loader and a Vulkan driver"},
		{"no cgo", withoutCgo, "", "it needs cgo"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			command := tc.build.command(t)
			env := []string{"WGEMM_DEVICE=", "WGEMM_ADAPTER=", tc.env}
			out := filepath.Join(t.TempDir(), "c.npy")
			args := []string{"run", "../testdata/demo/a.npy", "../testdata/demo/b.npy", "-o", out, "--check"}
			code, stdout, stderr := start(t, env, command, args...)
			if code != 0 || !strings.Contains(stdout, "right: compared 7680 of 7680 elements") || !strings.Contains(stdout, "the CPU path") {
				t.Errorf("run: exit %d: %s%s", code, stdout, stderr)
			}
			if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "wgemm: note: computing on the CPU: ") || !strings.Contains(stderr, tc.missing) {
				t.Errorf("run: not one notice with %q: %q", tc.missing, stderr)
			}
			code, stdout, stderr = start(t, env, command, append(args, "--device", "wgpu")...)
			if code != 4 || stdout != "" || strings.Count(stderr, "\n") != 1 || (tc.env != "" && !strings.Contains(stderr, tc.missing)) {
				t.Errorf("run --device wgpu: exit %d: %s%s", code, stdout, stderr)
			}
			for line, want := range map[string]string{"plan 5 5 5": "want --limits", "tune --shapes 5": "nothing to tune"} {
				code, stdout, stderr = start(t, env, command, strings.Fields(line)...)
				if code != 4 || stdout != "" || !strings.Contains(stderr, want) || !strings.Contains(stderr, tc.missing) {
					t.Errorf("%s: exit %d: %s%s", line, code, stdout, stderr)
				}
			}
			code, stdout, stderr = start(t, env, command, "demo")
			if code != 0 || !strings.Contains(stdout, "0.001974425897060428") || strings.Count(stderr, "\n") != 1 {
				t.Errorf("demo: exit %d: %s", code, stderr)
			}
			code, stdout, stderr = start(t, env, command, "info")
			if code != 0 || !strings.Contains(stdout, "takes the CPU path: ") || stderr != "" {
				t.Errorf("info: exit %d: %s%s", code, stdout, stderr)
			}
		})
	}
}
