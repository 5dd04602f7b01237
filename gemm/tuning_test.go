package gemm

import (
	"reflect"
	"strings"
	"testing"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

func TestClass(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Shape{
		"1x1x1x1 f32 f32 strided strided":             square(1),
		"1x512x1024x1024 f32 f32 rows4 rows4":         {M: 512, N: 1000, K: 1024},
		"1x1024x1024x1024 f32 f32 rows rows":          {M: 513, N: 999, K: 1001},
		"4x64x64x64 f16 f32 columns4 rows4":           {M: 64, N: 60, K: 60, Batch: 3, In: F16, TransA: true},
		"1x16x16384x4096 i8 i32 rows4 columns4":       {M: 9, N: 11008, K: 4096, In: I8, Out: I32, TransB: true},
		"1x2x2147483648x1 bf16 bf16 columns rows":     {M: 2, N: 1<<30 + 1, K: 1, In: BF16, Out: BF16, TransB: true},
		"1x1024x1024x1024 bf16 f32 columns4 columns4": {M: 1024, N: 1024, K: 1024, In: BF16, TransA: true, TransB: true},
		"1x1024x1024x1024 bf16 f32 rows4 rows4":       {M: 1024, N: 1024, K: 1024, In: BF16, Bias: true},
		"8192x1x1x1 f32 f32 strided strided":          {M: 1, N: 1, K: 1, Batch: 5000},
	} {
		got, err := ClassOf(s)
		if err != nil || got.String() != want {
			t.Errorf("%+v: %q, %v, want %q", s, got, err, want)
		}
		if back, ok := parseClass(want); !ok || back != got {
			t.Errorf("%q is read as %+v, %t", want, back, ok)
		}
	}
}

func TestParseTuning(t *testing.T) {
	t.Parallel()
	text := "1x1024x1024x1024 f32 f32 rows4 rows4\tgemm_block/BM=64,BN=64;splits=4;pack\n" +
		"1x16x512x512 f32 f32 rows columns\tgemm_skinny;transposed\n"
	tuning, err := ParseTuning("# a comment\n\n" + text)
	if err != nil || len(tuning) != 2 || tuning.String() != text {
		t.Fatalf("%q, %v", tuning, err)
	}
	for text, want := range map[string]string{
		"1x2x3x4 f32 f32 rows rows\tgemm_tiled":                                          "line 1",
		"# ok\nx\tgemm_tiled":                                                            "line 2",
		"1x2x2x2 f32 f32 rows rows":                                                      "no kernel",
		"1x2x2x2 f32 f32 rows rows\tbroken/gemm_tiled/RESET_ACC=true":                    "wrong on purpose",
		"1x2x2x2 f64 f32 rows rows\tgemm_tiled":                                          "f64",
		"1x2x2x2 f32 f32 rows4 rows\tgemm_tiled;fast":                                    "fast",
		"1x2x2x2 f32 f32 rows rows\tgemm_tiled/BM":                                       "NAME=VALUE",
		"1x2x2x4294967296 f32 f32 rows rows\tgemm_tiled":                                 "line 1",
		"1x2x2x2 f32 f32 rows rows\tgemm_tiled\n1x2x2x2 f32 f32 rows rows\tgemm_naive\n": "twice",
		"01x2x2x2 f32 f32 rows rows\tgemm_tiled":                                         "no class",
		"1x2x2x2 f32 f32  rows rows\tgemm_tiled":                                         "no class",
		"{\"classes\": []}":                                                              "no class",
	} {
		if _, err := ParseTuning(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	var none Tuning
	if got := none.With(tuning); !reflect.DeepEqual(got, tuning) {
		t.Errorf("nothing with a tuning is %v", got)
	}
}

// A measured choice is taken and reported, unless the device cannot run it or the
// caller chooses.
func TestTunedPlan(t *testing.T) {
	t.Parallel()
	a := adapterOf(gpu.DiscreteGPU, nil)
	s := square(256)
	class, err := ClassOf(s)
	if err != nil {
		t.Fatal(err)
	}
	measured := Choice{Kernel: "gemm_block", Params: wgsl.Params{"BM": 32, "BN": 32}, Splits: 2}
	planned, err := PlanFor(s, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		shape Shape
		tuned Choice
		opts  []Option
		want  string // of the choice
		taken bool
	}{
		{name: "measured", shape: s, tuned: measured, want: measured.String(), taken: true},
		{name: "same class", shape: square(200), tuned: measured, want: measured.String(), taken: true},
		{name: "with beta", shape: Shape{M: 256, N: 256, K: 256, Bias: true}, tuned: measured, opts: []Option{WithAlpha(2), WithBeta(1)}, want: measured.String(), taken: true},
		{name: "over the limits", shape: s, tuned: Choice{Kernel: "gemm_tiled", Params: wgsl.Params{"BM": 128, "BN": 128, "TM": 1, "TN": 1}}, want: planned.Choice.String()},
		{name: "no such kernel", shape: s, tuned: Choice{Kernel: "gemm_gone"}, want: planned.Choice.String()},
		{name: "asked for", shape: s, tuned: measured, opts: []Option{WithChoice(Choice{Kernel: "gemm_naive"})}, want: "gemm_naive"},
		{name: "pairs", shape: s, tuned: measured, opts: []Option{WithAccumulator(AccF32x2)}, want: "gemm_compensated/UNROLL=1"},
	} {
		p, err := PlanFor(tt.shape, a, Tuning{class: tt.tuned}, tt.opts...)
		if err != nil || p.Tuned != tt.taken || p.Choice.String() != tt.want {
			t.Errorf("%s: %s, tuned %t, %v, want %s, %t", tt.name, p.Choice, p.Tuned, err, tt.want, tt.taken)
		}
	}
	e := New(&countingDevice{})
	defer e.Close()
	e.SetTuning(Tuning{class: measured})
	m := onDevice(t, e, 1, 256)
	if p, err := e.Plan(onDevice(t, e, 1, 256), m, m); err != nil || !p.Tuned || p.Choice.String() != measured.String() {
		t.Errorf("the engine plans %s, tuned %t, %v", p.Choice, p.Tuned, err)
	}
	if p, err := e.Plan(onDevice(t, e, 1, 256), m, m, WithKernel("", wgsl.Params{"BM": 32})); err != nil || p.Tuned {
		t.Errorf("with a tunable of the caller's: %s, tuned %t, %v", p.Choice, p.Tuned, err)
	}
}

// What is read is written, and read again, as the same.
func FuzzParseTuning(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		tuning, err := ParseTuning(text)
		if err != nil {
			return
		}
		again, err := ParseTuning(tuning.String())
		if err != nil || !reflect.DeepEqual(again, tuning) {
			t.Errorf("%q is read as %q, and that as %q, %v", text, tuning, again, err)
		}
	})
}
