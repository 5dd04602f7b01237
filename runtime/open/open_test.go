package open

import (
	"errors"
	"strings"
	"testing"

	gpu "github.com/wgemm/wgemm/runtime"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	var (
		lavapipe   = gpu.Adapter{Name: "llvmpipe (LLVM 15)", Type: gpu.Software}
		integrated = gpu.Adapter{Name: "Intel UHD", Type: gpu.IntegratedGPU}
		discrete   = gpu.Adapter{Name: "NVIDIA A", Type: gpu.DiscreteGPU}
		second     = gpu.Adapter{Name: "NVIDIA B", Type: gpu.DiscreteGPU}
		unknown    = gpu.Adapter{Name: "something", Type: gpu.UnknownType}
	)
	for _, tc := range []struct {
		name       string
		adapters   []gpu.Adapter
		substring  string
		want       string
		wantReason string
	}{
		{"hardware first", []gpu.Adapter{lavapipe, integrated, discrete, second}, "", "NVIDIA A", "the first discrete GPU"},
		{"unknown before software", []gpu.Adapter{lavapipe, unknown}, "", "something", "the first unknown type"},
		{"only software", []gpu.Adapter{lavapipe}, "", "llvmpipe (LLVM 15)", "it is the only adapter"},
		{"software twice", []gpu.Adapter{lavapipe, lavapipe}, "", "llvmpipe (LLVM 15)", "there is no hardware adapter"},
		{"by name", []gpu.Adapter{discrete, lavapipe}, "LLVM", "llvmpipe (LLVM 15)", `its name contains "LLVM"`},
		{"best of a name", []gpu.Adapter{lavapipe, second, discrete}, "nvidia", "NVIDIA B", `its name contains "nvidia"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Choose(tc.adapters, tc.substring)
			if err != nil || got.Adapter.Name != tc.want || got.Reason != tc.wantReason {
				t.Errorf("got %q because %q, %v, want %q because %q", got.Adapter.Name, got.Reason, err, tc.want, tc.wantReason)
			}
		})
	}
	_, err := Choose([]gpu.Adapter{lavapipe, discrete}, "radeon")
	if !errors.Is(err, gpu.ErrNoAdapter) || !strings.Contains(err.Error(), `"radeon" in its name; there are "llvmpipe (LLVM 15)", "NVIDIA A"`) {
		t.Errorf("no match: error %v", err)
	}
}
