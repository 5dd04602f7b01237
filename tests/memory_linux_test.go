package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wgemm/wgemm/internal/matfile"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

// A run takes at most 1.2 times the memory of its three matrices, beside what the
// program and the driver take for a small product. The matrices of a software adapter
// are in it too, and the 64 MiB on their way there that wgpu-native may hold.
func TestRunMemory(t *testing.T) {
	command := withCgo.command(t)
	for _, tc := range []struct {
		device, alpha string
		n, pending    int
	}{
		{"cpu", "1", 2048, 0},
		{"wgpu", "0", 3000, 64 << 20}, // the product itself would take a software adapter a minute
	} {
		t.Run(tc.device, func(t *testing.T) {
			if tc.device != "cpu" {
				runtimetest.Open(t, open.Driver())
			}
			in, out := filepath.Join(t.TempDir(), "a.npy"), filepath.Join(t.TempDir(), "c.npy")
			data := make([]float32, tc.n*tc.n)
			for i := range data {
				data[i] = float32(i%1000) / 1000 // no page of it is of zeros
			}
			if err := matfile.WriteFloat32(in, tc.n, tc.n, data); err != nil {
				t.Fatal(err)
			}
			small := peak(t, command, "run", "../testdata/demo/a.npy", "../testdata/demo/b.npy", "-o", out, "--device", tc.device)
			most := small + 12*3*4*tc.n*tc.n/10 + tc.pending
			got := peak(t, command, "run", in, in, "-o", out, "--device", tc.device, "--alpha", tc.alpha)
			t.Logf("%d x %d took %d MiB, a small product %d MiB", tc.n, tc.n, got>>20, small>>20)
			if got > most {
				t.Errorf("%d x %d took %d bytes, want at most %d", tc.n, tc.n, got, most)
			}
		})
	}
}

// peak runs a program and returns the most bytes that were resident. The system's
// account of a child that has ended would begin with the memory of this process,
// from which it was started; so it is looked at while it runs.
func peak(t *testing.T, name string, args ...string) (most int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	status := fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, errs.String())
			}
			return most
		case <-time.After(time.Millisecond):
		}
		data, err := os.ReadFile(status)
		if err != nil {
			continue // it has just ended
		}
		if _, line, ok := strings.Cut(string(data), "VmHWM:"); ok {
			var kib int
			if _, err := fmt.Sscan(line, &kib); err != nil {
				t.Fatal(err)
			}
			most = max(most, kib<<10)
		}
	}
}
