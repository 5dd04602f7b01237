package wgsl

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files and the shared parts of the kernels")

// golden lists the variants whose text is kept in testdata: every kernel at
// its defaults, and one of each thing that Specialize does.
var golden = []struct{ file, kernel, params string }{
	{"naive", "gemm_naive", ""},
	{"naive_f16", "gemm_naive", "IN_F16=true,OUT_F16=true"},
	{"tiled", "gemm_tiled", ""},
	{"tiled_unrolled", "gemm_tiled", "BM=8,BN=8,BK=8,TM=2,TN=2,UNROLL=true"},
	{"tiled_4x4x4", "gemm_tiled", "BM=4,BN=4,BK=4,TM=1,TN=1"},
	{"broken_no_m_n_mask", "broken/gemm_tiled", "NO_M_MASK=true,NO_N_MASK=true"},
	{"compensated", "gemm_compensated", ""},
	{"tiled_native_f16", "gemm_tiled", "BM=4,BN=4,BK=4,TM=1,TN=1,IN_F16=true,OUT_F16=true,NATIVE_F16=true"},
	{"tiled_i8", "gemm_tiled", "BM=4,BN=4,BK=4,TM=1,TN=1,IN_I8=true"},
	{"naive_bf16_bias_gelu", "gemm_naive", "IN_BF16=true,OUT_BF16=true,BIAS=true,ACT=3"},
	{"broken_no_k_mask", "broken/gemm_tiled", "NO_K_MASK=true"},
	{"broken_reset_acc", "broken/gemm_tiled", "RESET_ACC=true"},
	{"broken_f16_acc", "broken/gemm_tiled", "BK=8,F16_ACC=true,IN_F16=true,OUT_F16=true"},
}

func variant(t *testing.T, kernel, params string) *Variant {
	t.Helper()
	p, err := ParseParams(params)
	if err != nil {
		t.Fatal(err)
	}
	v, err := Specialize(kernel, p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, tc := range golden {
		t.Run(tc.file, func(t *testing.T) {
			t.Parallel()
			got := variant(t, tc.kernel, tc.params).Source
			path := filepath.Join("testdata", tc.file+".wgsl")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
			for i := range min(len(gotLines), len(wantLines)) {
				if gotLines[i] != wantLines[i] {
					t.Fatalf("line %d is %q, want %q (go test ./wgsl -update rewrites the file)", i+1, gotLines[i], wantLines[i])
				}
			}
			if len(gotLines) != len(wantLines) {
				t.Fatalf("%d lines, want %d", len(gotLines), len(wantLines))
			}
		})
	}
}

// The parts stand in the kernels, since each file is valid by itself; this keeps
// the copies the same as the files in parts. Every kernel has the operands.
func TestSharedParts(t *testing.T) {
	t.Parallel()
	parts, err := filepath.Glob("parts/*.wgsl")
	if err != nil || len(parts) == 0 {
		t.Fatal("no parts", err)
	}
	for _, kernel := range append(Kernels(), "passes/gemm_pack", "passes/gemm_reduce") {
		src, err := os.ReadFile(kernel + ".wgsl")
		if err != nil {
			t.Fatal(err)
		}
		text := string(src)
		for _, part := range parts {
			want, err := os.ReadFile(part)
			if err != nil {
				t.Fatal(err)
			}
			part = filepath.ToSlash(part)
			head, rest, ok := strings.Cut(text, "// begin "+part+"\n")
			body, tail, ok2 := strings.Cut(rest, "// end "+part+"\n")
			switch {
			case !ok && part != "parts/operands.wgsl":
			case !ok || !ok2:
				t.Errorf("%s.wgsl has no operands part, or one without an end", kernel)
			case body != string(want) && !*update:
				t.Errorf("%s.wgsl differs from %s (go test ./wgsl -update rewrites it)", kernel, part)
			default:
				text = head + "// begin " + part + "\n" + string(want) + "// end " + part + "\n" + tail
			}
		}
		if text != string(src) {
			if err := os.WriteFile(kernel+".wgsl", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestSpecialize(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, kernel, params string
		wantName             string
		wantSize             [3]uint32
		wantBytes            int
		wantConsts           map[string]uint32
	}{
		{
			"tiled", "gemm_tiled", "",
			"gemm_tiled/BM=64,BN=64,BK=16,TM=4,TN=4",
			[3]uint32{16, 16, 1},
			2 * 64 * 16 * 4,
			map[string]uint32{"BM": 64, "WG_SIZE": 256, "A_TILE": 1024, "IN_F16": 0},
		},
		{
			"the chapter's", "gemm_tiled", "BM=4,BN=4,BK=4,TM=1,TN=1,IN_F16=true",
			"gemm_tiled/BM=4,BN=4,BK=4,TM=1,TN=1,IN_F16=true",
			[3]uint32{4, 4, 1},
			2 * 4 * 4 * 4,
			map[string]uint32{"ACC": 1, "IN_F16": 1},
		},
		{
			"wide", "gemm_tiled", "BM=32,BN=128,BK=8,TM=8,TN=4",
			"gemm_tiled/BM=32,BN=128,BK=8,TM=8,TN=4",
			[3]uint32{32, 4, 1},
			(32*8 + 8*128) * 4,
			map[string]uint32{"WG_X": 32, "WG_Y": 4},
		},
		{"naive", "gemm_naive", "", "gemm_naive/BM=16,BN=16", [3]uint32{16, 16, 1}, 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := variant(t, tc.kernel, tc.params)
			if v.Name != tc.wantName {
				t.Errorf("name %q, want %q", v.Name, tc.wantName)
			}
			if v.WorkgroupSize != tc.wantSize {
				t.Errorf("workgroup size %v, want %v", v.WorkgroupSize, tc.wantSize)
			}
			if v.WorkgroupBytes != tc.wantBytes {
				t.Errorf("%d bytes of workgroup memory, want %d", v.WorkgroupBytes, tc.wantBytes)
			}
			if got := strings.Join(v.Bindings, " "); got != "uniform storage, read storage, read storage, read_write storage, read" {
				t.Errorf("bindings %q", got)
			}
			for name, want := range tc.wantConsts {
				if got, ok := v.Const(name); !ok || got != want {
					t.Errorf("%s = %d, %t, want %d", name, got, ok, want)
				}
			}
		})
	}
}

// A variant's name is what a user types to get it again.
func TestNameReadsBack(t *testing.T) {
	t.Parallel()
	for _, tc := range golden {
		v := variant(t, tc.kernel, tc.params)
		again := variant(t, v.Kernel, strings.TrimPrefix(v.Name, v.Kernel+"/"))
		if again.Name != v.Name || again.Source != v.Source {
			t.Errorf("%s read back is %s", v.Name, again.Name)
		}
	}
}

func TestParamError(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, kernel, params, want string }{
		{"kernel", "gemm_tield", "", "no such kernel; there are broken/gemm_tiled, gemm_block, gemm_compensated, gemm_direct, gemm_naive, gemm_skinny, gemm_tiled"},
		{"unknown tunable", "gemm_tiled", "BX=3", "BX: no such tunable; there are BM, BN, BK, TM, TN, UNROLL, IN_F16, IN_BF16, IN_I8, OUT_F16, OUT_BF16, NATIVE_F16, READS_C, BIAS, ACT"},
		{"derived", "gemm_tiled", "WG_X=3", "WG_X: no such tunable"},
		{"uneven", "gemm_tiled", "TM=3", "BM % TM == 0u && BN % TN == 0u: does not hold for BM=64,BN=64,BK=16,TM=3"},
		{"zero", "gemm_tiled", "BK=0", "BK > 0u"},
		{"division by zero", "gemm_tiled", "TM=0", "64 / 0"},
		{"overflow", "gemm_tiled", "BM=65536,BK=65536,TM=1", "does not fit 32 bits"},
		{"registers", "gemm_tiled", "TM=32,TN=32", "ACC <= 256u"},
		{"a tile of nothing", "gemm_tiled", "BM=0,TM=2", "does not hold for BN=64,BK=16,TM=2,TN=4,BM=0"},
		{"int8 compensated", "gemm_compensated", "IN_I8=true", "IN_I8 == false: does not hold for"},
		{"switch", "gemm_tiled", "UNROLL=2", "UNROLL: 2 is neither true nor false"},
		{"no value", "gemm_tiled", "BM", "BM: want NAME=VALUE"},
		{"not a number", "gemm_tiled", "BM=-4", `BM: "-4" is not a whole number`},
		{"twice", "gemm_tiled", "BM=4,BM=8", "BM: given twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, err := ParseParams(tc.params)
			if err == nil {
				_, err = Specialize(tc.kernel, p)
			}
			if _, ok := errors.AsType[*ParamError](err); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want a *ParamError with %q", err, tc.want)
			}
		})
	}
}

func TestUnroll(t *testing.T) {
	t.Parallel()
	const src = `const N: u32 = 2u; // tunable: turns
const ON: bool = true; // tunable: the switch
fn f() {
  for (var i = 0u; i < N; i += 1u) { // unroll if ON
    x[i] = 1; // i stays
    for (var j = 1u; j < 4u / N; j += 1u) { // unroll
      y[i * N + j] = i; let ij = ii;
    }
  }
  for (var i = 0u; i < 9u; i += 1u) {
    z[i] = 0;
  }
}
`
	const on = `const N: u32 = 2u; // tunable: turns
const ON: bool = true; // tunable: the switch
fn f() {
  {
    x[0u] = 1; // i stays
    {
      y[1u] = 0u; let ij = ii;
    }
  }
  {
    x[1u] = 1; // i stays
    {
      y[3u] = 1u; let ij = ii;
    }
  }
  for (var i = 0u; i < 9u; i += 1u) {
    z[i] = 0;
  }
}
`
	const off = `const N: u32 = 2u; // tunable: turns
const ON: bool = false; // tunable: the switch
fn f() {
  for (var i = 0u; i < N; i += 1u) {
    x[i] = 1; // i stays
    {
      y[i * N + 1u] = i; let ij = ii;
    }
  }
  for (var i = 0u; i < 9u; i += 1u) {
    z[i] = 0;
  }
}
`
	for _, tc := range []struct {
		name  string
		p     Params
		want  string
		lines string // of the file, by line of the text
	}{
		{"on", Params{}, on, "1 2 3 4 5 6 7 8 9 4 5 6 7 8 9 10 11 12 13"},
		{"off", Params{"ON": 0}, off, "1 2 3 4 5 6 7 8 9 10 11 12 13"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v, err := specialize("k", src, tc.p)
			if err != nil {
				t.Fatal(err)
			}
			if v.Source != tc.want {
				t.Errorf("got\n%s\nwant\n%s", v.Source, tc.want)
			}
			for i, want := range strings.Fields(tc.lines) {
				if got := strconv.Itoa(v.FileLine(i + 1)); got != want {
					t.Errorf("line %d came from line %s, want %s", i+1, got, want)
				}
			}
		})
	}
	if _, err := specialize("k", src, Params{"N": 100_000}); err == nil || !strings.Contains(err.Error(), "unrolls to more than 16384 lines") {
		t.Errorf("unrolling without end: error %v", err)
	}
	down := strings.Replace(src, "j += 1u", "j += 2u", 1)
	if _, err := specialize("k", down, nil); err == nil || !strings.Contains(err.Error(), "line 6: only a loop that counts up by 1u") {
		t.Errorf("a loop by twos: error %v", err)
	}
}

func TestEval(t *testing.T) {
	t.Parallel()
	env := Params{"BM": 64, "TM": 4}
	for _, tc := range []struct {
		expr string
		want uint32
		err  string
	}{
		{expr: "7u", want: 7},
		{expr: "0x10u", want: 16},
		{expr: "BM / TM", want: 16},
		{expr: "1u + 2u * 3u", want: 7},
		{expr: "(1u + 2u) * 3u", want: 9},
		{expr: "10u - 3u - 2u", want: 5},
		{expr: "BM % TM == 0u && TM >= 4u", want: 1},
		{expr: "BM != 64u || false", want: 0},
		{expr: "4294967295u", want: 1<<32 - 1},
		{expr: "4294967295u + 1u", err: "does not fit"},
		{expr: "1u - 2u", err: "does not fit"},
		{expr: "1u / 0u", err: "1 / 0"},
		{expr: "1u % 0u", err: "1 % 0"},
		{expr: "BN", err: `unknown name "BN"`},
		{expr: "1.5", err: "not a u32"},
		{expr: "(1u", err: "ends early"},
		{expr: "(1u 2u", err: "missing )"},
		{expr: "1u 2u", err: "unexpected"},
		{expr: "", err: "ends early"},
		{expr: strings.Repeat("(", 10_000), err: "too deeply"},
	} {
		got, err := eval(tc.expr, env)
		switch {
		case tc.err == "" && (err != nil || got != tc.want):
			t.Errorf("%q is %d, %v, want %d", tc.expr, got, err, tc.want)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%.20q: error %v, want %q", tc.expr, err, tc.err)
		}
	}
}

// Whatever the text, eval answers and does not panic.
func FuzzEval(f *testing.F) {
	f.Add("BM * (2u + TM) % 3u == 0u && true")
	f.Add("((1u")
	f.Fuzz(func(t *testing.T, expr string) {
		v, err := eval(expr, Params{"BM": 64, "TM": 4})
		if err != nil && v != 0 {
			t.Errorf("%q gives %d and %v", expr, v, err)
		}
	})
}
