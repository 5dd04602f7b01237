package main

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
)

func TestBench(t *testing.T) {
	t.Parallel()
	onDevices(t, func(t *testing.T, device string) {
		code, stdout, stderr := wgemm(t, "bench", "--device", device, "--sizes", "16", "--shapes", "2x4x5x6",
			"--compare", "naive,gemm_tiled/BM=16,BN=16,TM=2,TN=2,cpu", "--json")
		var r benchReport
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
			t.Fatalf("exit %d, %v: %s", code, err, stderr)
		}
		if len(r.Points) != 6 || r.Points[2].shape != square(16) || r.Points[5].shape != (shape{2, 4, 5, 6, ""}) ||
			r.Points[4].Series != "gemm_tiled/BM=16,BN=16,TM=2,TN=2" || r.Points[5].Series != "cpu" || r.Device != device {
			t.Errorf("report %+v", r)
		}
		if (r.Roof != nil) != (device != "cpu") {
			t.Errorf("roof %+v", r.Roof)
		}
		for i, p := range r.Points {
			if onDevice := device != "cpu" && p.Series != "cpu"; (p.OfRoof > 0) != onDevice {
				t.Errorf("%s: %g of the roof", p.Series, p.OfRoof)
			}
			if p.GFLOPS <= 0 || p.Least > p.Median || p.Median > p.Most || p.Repeats < 1 || p.Variant == "" ||
				p.Upload <= 0 || p.ReadBack <= 0 || p.Error > 1 || p.Ratio <= 0 || (i%3 == 0 && p.Ratio != 1) {
				t.Errorf("point %+v", p)
			}
		}
	})
}

func TestBenchOperands(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{
		"--dtype f16", "--dtype bf16 --trans-a", "--dtype i8 --trans-b", "--trans-a --trans-b", "--cold", "--dtype i8 --cold --trans-a",
	} {
		args := append([]string{"bench", "--device", "cpu", "--shapes", "2x7x9x300", "--compare", "cpu", "--json"}, strings.Fields(flags)...)
		code, stdout, stderr := wgemm(t, args...)
		var r benchReport
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || len(r.Points) != 1 {
			t.Errorf("%s: exit %d, %v: %s", flags, code, err, stderr)
		}
	}
}

func TestBenchTables(t *testing.T) {
	t.Parallel()
	bench := []string{"bench", "--device", "cpu", "--sizes", "8,9", "--compare", "cpu"}
	code, stdout, _ := wgemm(t, append(bench, "--csv")...)
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if code != 0 || err != nil || len(rows) != 3 || rows[0][1] != "m" || rows[2][1] != "9" || rows[2][9] != "cpu" {
		t.Errorf("--csv: exit %d, %v, %q", code, err, stdout)
	}
	for flag, want := range map[string]string{"--markdown": "| m n k |  | GFLOP/s", "--json=false": "\nm n k  "} {
		code, stdout, _ := wgemm(t, append(bench, flag)...)
		if code != 0 || !strings.Contains(stdout, want) || !strings.HasPrefix(stdout, "f32 on the CPU path, ") {
			t.Errorf("%s: exit %d, %q", flag, code, stdout)
		}
	}
}

func TestBenchWrongUse(t *testing.T) {
	t.Parallel()
	cases := map[string]string{ // flags to what stderr names
		"--sizes 0":                    "--sizes",
		"--sizes -5":                   "--sizes",
		"--sizes 64:32:x2":             "--sizes",
		"--sizes 1:8:2":                "--sizes",
		"--sizes 1:8:x1":               "--sizes",
		"--sizes 8,,9":                 "--sizes",
		"--sizes 99999999999999999999": "--sizes",
		"--sizes 100000":               "past 2^32 elements",
		"--shapes 3x4":                 `--shapes "3x4"`,
		"--shapes 1x2x3x4x5":           "--shapes",
		"--shapes 1x2x0":               "--shapes",
		"--shapes 2147483647x2147483647x2147483647":   "past 2^32 elements",
		"--shapes 2147483647x1x2147483647x2147483647": "past 2^32 elements",
		"--preset big":                                     `--preset "big"`,
		"--dtype f64":                                      `--dtype "f64"`,
		"--compare fast":                                   `--compare "fast"`,
		"--compare BM=3":                                   `--compare "BM=3"`,
		"--compare gemm_tiled/BM":                          "NAME=VALUE",
		"--kernel tiled/BM=3 --sizes 4":                    "tiled/BM=3",
		"--kernel tiled/NO=1 --sizes 4":                    "NO",
		"--kernel tiled --compare cpu --sizes 4":           "kernel",
		"--json --csv":                                     "json",
		"--kernel tiled/BM=512,BN=512,TM=1,TN=1 --sizes 4": "tiled/BM=512",
		"--kernel broken/gemm_tiled/NO_K_MASK=x":           "NO_K_MASK",
	}
	wrongBench(t, cases)
}

// wrongBench runs wgemm bench with the flags, each of which must fail with one
// line that contains what the map says.
func wrongBench(t *testing.T, cases map[string]string) {
	t.Helper()
	for flags, want := range cases {
		code, stdout, stderr := wgemm(t, append([]string{"bench"}, strings.Fields(flags)...)...)
		last := strings.Split(strings.TrimSpace(stderr), "\n")
		if code != exitUsage || stdout != "" || !strings.Contains(last[len(last)-1], want) {
			t.Errorf("%s: exit %d: %s%s", flags, code, stdout, stderr)
		}
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	for _, name := range presetNames() {
		if preset, ok := presets[name]; !ok || len(preset()) == 0 {
			t.Errorf("no preset %s", name)
		}
	}
	if shapes := llm(); len(shapes) != 20 || shapes[19] != (shape{1, 2048, 32000, 4096, "lm-head"}) {
		t.Errorf("llm: %v", shapes)
	}
	if len(presets) != len(presetNames()) || len(benchDTypes) != len(benchDTypeNames()) {
		t.Error("a list of names is not whole")
	}
}

func TestThreeDigits(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{0: "0s", 7e-8: "70ns", 1.2345e-5: "12.3µs", 0.0456789: "45.7ms", 12.345: "12.3s"} {
		if got := threeDigits(seconds); got != want {
			t.Errorf("%g s: %q, want %q", seconds, got, want)
		}
	}
}
