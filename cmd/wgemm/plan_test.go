package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gpu "github.com/wgemm/wgemm/runtime"
)

func planned(t *testing.T, flags string) planReport {
	t.Helper()
	code, stdout, stderr := wgemm(t, append([]string{"plan", "--json"}, strings.Fields(flags)...)...)
	var r planReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || stderr != "" {
		t.Fatalf("%s: exit %d, %v: %s", flags, code, err, stderr)
	}
	return r
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flags  string
		kernel string
		bound  string // "" for none
		ok     func(planReport) bool
	}{
		{
			"4096 4096 4096 --limits h200", "gemm_block", "arithmetic",
			func(r planReport) bool {
				return r.Flops == 2*4096*4096*4096 && r.Bytes == 3*4*4096*4096 && r.Workgroups == 4096/r.Tile[0]*4096/r.Tile[1] && len(r.Alternative) > 1
			},
		},
		{"1 4096 4096 --limits h200", "gemm_skinny", "memory", func(r planReport) bool { return r.Intensity < 1 && !r.Transposed }},
		{"4096 1 4096 --limits h200", "gemm_skinny", "memory", func(r planReport) bool { return r.Transposed }},
		{"64 64 262144 --limits h200", "gemm_", "arithmetic", func(r planReport) bool {
			return r.Splits > 1 && len(r.Passes) == 2 && r.Buffers[3].Name == "parts of K" && r.Scratch == 2*float64(r.Buffers[3].Bytes)
		}},
		{"512 512 512 --limits default --batch 3 --dtype f16 --out-dtype f32 --trans-b --act relu --bias", "gemm_", "", func(r planReport) bool {
			return r.Batch == 3 && r.DType == "f16" && r.OutDType == "f32" && strings.Contains(r.Variant, "BIAS=true") && strings.Contains(r.Variant, "ACT=1")
		}},
		{"512 512 512 --limits lavapipe", "gemm_direct", "", func(r planReport) bool { return r.Adapter.Type == gpu.Software }},
		{"100 100 100 --limits default --choice gemm_block/BM=32,BN=32,TM=4,TN=4;splits=2", "gemm_block", "", func(r planReport) bool {
			return r.Why == "asked for" && r.Splits == 2 && len(r.Alternative) > 0
		}},
		{"8 8 8 --limits default --dtype i8", "gemm_", "", func(r planReport) bool { return r.OutDType == "i32" }},
	} {
		r := planned(t, tt.flags)
		bound := ""
		if r.Bound != nil {
			bound = r.Bound.By
		}
		if !strings.HasPrefix(r.Choice, tt.kernel) || r.Why == "" || bound != tt.bound || r.Tuned || !tt.ok(r) {
			t.Errorf("%s: %+v", tt.flags, r)
		}
		for _, u := range r.Limits {
			if u.Need > u.Have || u.Percent > 100 {
				t.Errorf("%s: %+v", tt.flags, u)
			}
		}
		for _, x := range r.Alternative {
			if x.Choice == r.Choice || x.Why == "" || x.Not == "" {
				t.Errorf("%s: alternative %+v", tt.flags, x)
			}
		}
	}
}

func TestPlanText(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := wgemm(t, "plan", "4097", "4120", "4096", "--limits", "h200")
	for _, want := range []string{
		"4097 x 4096 by 4096 x 4120, f32 to f32, on NVIDIA H200", "passes of their own", "\n  choice      gemm_block/", "tiles of", " ■ ■ ■ ■ ■ ■ · □   ■ a tile of ", "□ one that an edge cuts",
		"arithmetic, as the intensity is at least 16", "assumed: an H200's 67 TFLOP/s", "maxComputeWorkgroupStorageSize", "\nalternative", "times as many bytes",
	} {
		if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, %q is not in\n%s%s", code, want, stdout, stderr)
		}
	}
	// What is on the list and over a limit says so.
	little := filepath.Join(t.TempDir(), "little.json")
	if err := os.WriteFile(little, []byte(`{"maxBufferSize": 268435456, "maxComputeWorkgroupStorageSize": 9000}`), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ = wgemm(t, "plan", "4096", "4096", "4096", "--limits", little)
	if code != 0 || !strings.Contains(stdout, "of maxComputeWorkgroupStorageSize, the device has 9000") || !strings.Contains(stdout, "bound       not known") {
		t.Errorf("exit %d:\n%s", code, stdout)
	}
}

// --limits takes what wgemm info --json prints, as a whole or in parts.
func TestPlanLimitsOfFile(t *testing.T) {
	t.Parallel()
	a, _ := knownAdapter("lavapipe")
	a.Name, a.Limits.MaxComputeWorkgroupStorageSize = "of a file", 20000
	dir := t.TempDir()
	write := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "limits.json")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := write(infoReport{Driver: "wgpu", Takes: place{Device: "wgpu", Adapter: &a}})
	if r := planned(t, "64 64 64 --limits "+path); r.Adapter.Name != a.Name || r.Adapter.Limits != a.Limits || !strings.HasPrefix(r.Choice, "gemm_direct") {
		t.Errorf("of info: %+v", r)
	}
	path = write(a)
	if r := planned(t, "64 64 64 --limits "+path); r.Adapter.Name != a.Name || r.Adapter.Limits != a.Limits {
		t.Errorf("of an adapter: %+v", r)
	}
	path = write(a.Limits)
	if r := planned(t, "64 64 64 --limits "+path); r.Adapter.Name != path || r.Adapter.Limits != a.Limits || !strings.HasPrefix(r.Choice, "gemm_block") {
		t.Errorf("of limits: %+v", r)
	}
	for _, wrong := range []any{infoReport{}, "text", map[string]any{"name": "x"}, map[string]any{"limits": 3}, map[string]any{"takes": 3}, map[string]any{"maxBufferSize": -1}} {
		code, stdout, stderr := wgemm(t, "plan", "8", "8", "8", "--limits", write(wrong))
		if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "limits.json") {
			t.Errorf("%v: exit %d: %s%s", wrong, code, stdout, stderr)
		}
	}
}

func TestPlanWrongUse(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"8 8":                                               "accepts 3 arguments",
		"8 0 8":                                             `N "0": want a size from 1`,
		"8 8 99999999999999999999":                          `K "99999999999999999999"`,
		"2147483647 2147483647 2147483647":                  "past 2^32 elements",
		"8 8 8 --batch 0":                                   "--batch 0",
		"65536 65536 1 --batch 9":                           "past 2^32 elements",
		"20000 20000 20000 --limits default":                "maxBufferSize: needs 1600000000, has 268435456",
		"8 8 8 --limits gpu":                                `"gpu": want one of default, h200, lavapipe, or a file`,
		"8 8 8 --dtype f64":                                 `--dtype "f64"`,
		"8 8 8 --out-dtype f64":                             `--out-dtype "f64"`,
		"8 8 8 --out-dtype f16":                             "C has elements of f16",
		"8 8 8 --dtype i8 --bias":                           "no alpha, beta, bias or activation",
		"8 8 8 --act swish":                                 `--act "swish"`,
		"8 8 8 --choice fast":                               "no such kernel",
		"8 8 8 --choice gemm_block;fast":                    "want splits=N",
		"8 8 8 --choice ;pack":                              "no kernel",
		"8 8 8 --choice gemm_block/BM=7":                    "BM",
		"8 8 8 --choice gemm_tiled;splits=2":                "does not cut K",
		"8 8 8 --device wgpu":                               "limits",
		"8 8 8 --choice gemm_block/BM=512,BN=512,TM=8,TN=8": "needs ",
	} {
		args := append([]string{"plan", "--limits", "default"}, strings.Fields(flags)...)
		code, stdout, stderr := wgemm(t, args...)
		if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d: %s%s, want %q", flags, code, stdout, stderr, want)
		}
	}
	if code, _, stderr := wgemm(t, "plan", "8", "8", "8", "--device", "cpu"); code != exitUsage || !strings.Contains(stderr, "--limits default, h200, lavapipe or FILE") {
		t.Errorf("the CPU path: exit %d: %s", code, stderr)
	}
}
