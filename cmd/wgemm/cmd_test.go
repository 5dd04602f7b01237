package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/internal/matfile"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

// wgemm runs the command and returns its exit status and what it printed.
func wgemm(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// onDevices runs a test with --device cpu and with this build's driver, which
// is skipped, or fails where it is required, without an adapter.
func onDevices(t *testing.T, test func(t *testing.T, device string)) {
	t.Run(cpuName, func(t *testing.T) {
		t.Parallel()
		test(t, cpuName)
	})
	name := open.Driver().Name()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		runtimetest.Open(t, open.Driver())
		test(t, name)
	})
}

// matrices writes A and B of random numbers, or of small whole ones, and
// returns their paths and values.
func matrices(t *testing.T, m, n, k int, f16, whole bool) (pathA, pathB string, a, b []float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(m*n+k)))
	dir := t.TempDir()
	write := func(name string, rows, cols int) (string, []float64) {
		path := filepath.Join(dir, name)
		values := make([]float64, rows*cols)
		f32, half := make([]float32, len(values)), make([]float16.Float16, len(values))
		for i := range values {
			v := float32(2*rng.Float64() - 1)
			if whole {
				v = float32(rng.IntN(9) - 4)
			}
			f32[i], half[i] = v, float16.Fromfloat32(v)
			values[i] = float64(v)
			if f16 {
				values[i] = float64(half[i].Float32())
			}
		}
		err := matfile.WriteFloat32(path, rows, cols, f32)
		if f16 {
			err = matfile.WriteFloat16(path, rows, cols, half)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path, values
	}
	pathA, a = write("a.npy", m, k)
	pathB, b = write("b.npy", k, n)
	return pathA, pathB, a, b
}

func readFile(t *testing.T, path string, rows, cols int) []float64 {
	t.Helper()
	f, err := matfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Rows != rows || f.Cols != cols {
		t.Fatalf("%s is %d x %d, want %d x %d", path, f.Rows, f.Cols, rows, cols)
	}
	values, err := f.Float32()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}

// Files of all sizes give a product within the bound of analysis of float64,
// written out here so that the check of the command is not its own judge.
func TestRunIsRight(t *testing.T) {
	t.Parallel()
	onDevices(t, func(t *testing.T, device string) {
		for _, tc := range []struct {
			m, n, k int
			f16     bool
		}{
			{1000, 1000, 1000, false},
			{511, 513, 509, false},
			{1, 1, 1, false},
			{1, 1, 1, true},
			{511, 509, 513, true},
			{33, 1, 7, true},
			{5, 2, 768, false},
		} {
			a, b, va, vb := matrices(t, tc.m, tc.n, tc.k, tc.f16, false)
			out := filepath.Join(t.TempDir(), "c.npy")
			if code, _, stderr := wgemm(t, "run", a, b, "-o", out, "--device", device); code != 0 {
				t.Fatalf("%+v: exit %d: %s", tc, code, stderr)
			}
			c := readFile(t, out, tc.m, tc.n)
			const u = 0x1p-24
			gamma := float64(tc.k+2) * u / (1 - float64(tc.k+2)*u)
			worst := 0.0
			row, abs := make([]float64, tc.n), make([]float64, tc.n)
			for i := range tc.m {
				clear(row)
				clear(abs)
				for kk := range tc.k {
					x := va[i*tc.k+kk]
					for j, y := range vb[kk*tc.n : (kk+1)*tc.n] {
						row[j] += x * y
						abs[j] += math.Abs(x * y)
					}
				}
				for j := range tc.n {
					bound := gamma * abs[j]
					if tc.f16 {
						bound += 0x1p-11*math.Abs(row[j]) + 0x1p-25
					}
					worst = max(worst, math.Abs(c[i*tc.n+j]-row[j])/bound)
				}
			}
			if !(worst <= 1) {
				t.Errorf("%+v: largest error is %v of its bound", tc, worst)
			}
		}
	})
}

// Small whole numbers give the same file on the device and on the CPU.
func TestRunIsExactOnWholeNumbers(t *testing.T) {
	t.Parallel()
	device := open.Driver().Name()
	runtimetest.Open(t, open.Driver())
	for _, f16 := range []bool{false, true} {
		for _, size := range [][3]int{{1, 1, 1}, {63, 65, 33}, {127, 3, 65}, {200, 130, 100}} {
			a, b, _, _ := matrices(t, size[0], size[1], size[2], f16, true)
			files := make([][]byte, 2)
			for i, where := range []string{device, cpuName} {
				out := filepath.Join(t.TempDir(), "c.npy")
				if code, _, stderr := wgemm(t, "run", a, b, "-o", out, "--device", where); code != 0 {
					t.Fatalf("exit %d: %s", code, stderr)
				}
				var err error
				if files[i], err = os.ReadFile(out); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(files[0], files[1]) {
				t.Errorf("%v, f16 %t: the files of %s and cpu differ", size, f16, device)
			}
		}
	}
}

func TestRunReports(t *testing.T) {
	t.Parallel()
	onDevices(t, func(t *testing.T, device string) {
		a, b, _, _ := matrices(t, 40, 30, 20, false, false)
		out := filepath.Join(t.TempDir(), "c.csv")
		code, stdout, stderr := wgemm(t, "run", a, b, "-o", out, "--device", device, "--json", "--check",
			"--kernel", "gemm_tiled", "--set", "BM=8,BN=8", "--set", "BK=4")
		if code != 0 || stderr != "" {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		var r runReport
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatalf("%v in %s", err, stdout)
		}
		if r.M != 40 || r.N != 30 || r.K != 20 || r.Device != device || r.DType != "f32" || r.Output != out ||
			r.Variant != "gemm_tiled/BM=8,BN=8,BK=4,TM=4,TN=4" || r.Grid != [2]uint32{5, 4} || r.Slices != 5 ||
			(r.Adapter == "") != (device == cpuName) {
			t.Errorf("report %+v", r)
		}
		if r.Seconds.Compute <= 0 || r.Seconds.Upload <= 0 || r.Seconds.ReadBack <= 0 || r.GFLOPS <= 0 || r.Clock == "" {
			t.Errorf("times %+v, %v GFLOP/s by %q", r.Seconds, r.GFLOPS, r.Clock)
		}
		if r.Check == nil || r.Check.Checked != 1200 || !r.Check.Right || r.Check.Ratio <= 0 {
			t.Errorf("check %+v", r.Check)
		}
		code, stdout, _ = wgemm(t, "run", a, b, "-o", out, "--device", device, "--check")
		if code != 0 || !strings.Contains(stdout, "right: compared 1200 of 1200 elements") || !strings.Contains(stdout, "GFLOP/s") {
			t.Errorf("exit %d: %s", code, stdout)
		}
		// Each part of K has workgroups of its own.
		parts := []string{"run", a, b, "-o", out, "--device", device, "--check", "--kernel", "gemm_direct/TM=4,TN=8;splits=2"}
		code, stdout, stderr = wgemm(t, parts...)
		want := ", 2 parts of K\n"
		if device != cpuName {
			want = ", 20 workgroups" + want
		}
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("parts of K: exit %d, want %q in %s%s", code, want, stdout, stderr)
		}
		if code, stdout, _ = wgemm(t, append(parts, "--json")...); code != 0 || !strings.Contains(stdout, `"splits": 2,`) {
			t.Errorf("parts of K: exit %d: %s", code, stdout)
		}
		// Pairs of binary32 on a device, float64 on the CPU, with the tunables given.
		code, stdout, stderr = wgemm(t, "run", a, b, "-o", out, "--device", device, "--check", "--json", "--acc", "f32x2", "--set", "BK=16")
		pairs := "gemm_compensated/BM=32,BN=32,BK=16,TM=2,TN=2,UNROLL=true"
		if code != 0 || !strings.Contains(stdout, `"variant": "`+pairs+`"`) {
			t.Errorf("--acc f32x2: exit %d, want %s in %s%s", code, pairs, stdout, stderr)
		}
		if code, stdout, stderr = wgemm(t, "run", a, b, "-o", out, "--device", cpuName, "--check", "--json", "--acc", "f32x2"); code != 0 || !strings.Contains(stdout, `"variant": "float64"`) {
			t.Errorf("--acc f32x2 on the CPU: exit %d, %s%s", code, stdout, stderr)
		}
		// A wrong product is found, and the exit status says so.
		code, _, stderr = wgemm(t, "run", a, b, "-o", out, "--device", device, "--check", "--acc", "f16")
		if code != exitDiffers || !strings.Contains(stderr, "results differ: C[") || !strings.Contains(stderr, "was not written") {
			t.Errorf("--acc f16 --check: exit %d: %s", code, stderr)
		}
		// NaN in, NaN out is right, and JSON.
		nan := filepath.Join(t.TempDir(), "nan.csv")
		if err := os.WriteFile(nan, []byte("nan\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr = wgemm(t, "run", nan, nan, "-o", out, "--device", device, "--check", "--json")
		if code != 0 || !strings.Contains(stdout, `"got": "NaN"`) || !strings.Contains(stdout, `"right": true`) {
			t.Errorf("NaN: exit %d: %s%s", code, stdout, stderr)
		}
	})
}

// The output may be an input, vectors are a row and a column, text is read and
// written, and halves in both files mean halves out.
func TestRunFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := file("a.csv", "1,2\n3,4\n5,6\n")
	b := file("b.tsv", "1\t0\n0\t1\n")
	out := filepath.Join(dir, "c.csv")
	for _, tc := range []struct {
		name       string
		args       []string
		file, want string
	}{
		{"text", []string{a, b, "-o", out}, out, "1,2\n3,4\n5,6\n"},
		{"onto A", []string{a, b, "-o", a}, a, "1,2\n3,4\n5,6\n"},
		{"onto B", []string{b, b, "-o", b}, b, "1\t0\n0\t1\n"},
	} {
		if code, _, stderr := wgemm(t, append([]string{"run", "--device", "cpu"}, tc.args...)...); code != 0 {
			t.Errorf("%s: exit %d: %s", tc.name, code, stderr)
		}
		got, err := os.ReadFile(tc.file)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
	row := file("row.npy", npy("<f2", "(3,)", "\x00\x3c\x00\x40\x00\x42")) // 1 2 3
	product := filepath.Join(dir, "dot.npy")
	if code, _, stderr := wgemm(t, "run", row, row, "-o", product, "--device", "cpu"); code != 0 {
		t.Fatalf("a row times a column: exit %d: %s", code, stderr)
	}
	if got := readFile(t, product, 1, 1); got[0] != 14 {
		t.Errorf("a row times a column: %v, want 14", got)
	}
	f, err := matfile.Open(product)
	if err != nil || f.DType != "f2" {
		t.Errorf("halves times halves gives %v, %v, want f2", f, err)
	}
	empty, none := file("empty.npy", npy("<f4", "(2, 0)", "")), file("none.npy", npy("<f4", "(0, 3)", ""))
	if code, _, stderr := wgemm(t, "run", empty, none, "-o", product, "--device", "cpu"); code != 0 {
		t.Fatalf("k = 0: exit %d: %s", code, stderr)
	}
	if got := readFile(t, product, 2, 3); !slices.Equal(got, make([]float64, 6)) {
		t.Errorf("k = 0: %v, want zeros", got)
	}
	if code, _, stderr := wgemm(t, "run", none, file("three.npy", npy("<f4", "(3, 2)", strings.Repeat("\x00", 24))), "-o", product, "--device", "cpu"); code != 0 {
		t.Fatalf("m = 0: exit %d: %s", code, stderr)
	}
	if got := readFile(t, product, 0, 2); len(got) != 0 {
		t.Errorf("m = 0: %v, want nothing", got)
	}
}

// Everything that a linear layer and a BLAS call need, in one command each, with
// the right values written out.
func TestRunInFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"x.csv": "1,2\n-3,4\n", "w.csv": "1,0\n0,2\n1,1\n", // w is 3 x 2: three outputs
		"bias.csv": "0.5,-1,2\n", "column.csv": "10\n20\n", "c.csv": "1,1,1\n2,2,2\n", "semi.csv": "1;1,5\n2;2,5\n",
	} {
		if err := os.WriteFile(path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	batch := npy("<f4", "(2, 2, 2)", "\x00\x00\x80\x3f"+strings.Repeat("\x00", 12)+strings.Repeat("\x00\x00\x00\x40", 4)) // 1 0 0 0, 2 2 2 2
	if err := os.WriteFile(path("batch.npy"), []byte(batch), 0o644); err != nil {
		t.Fatal(err)
	}
	onDevices(t, func(t *testing.T, device string) {
		for _, tc := range []struct {
			name string
			args []string
			want string
		}{
			{"x W'", []string{path("x.csv"), path("w.csv"), "--trans-b"}, "1,4,3\n-3,8,1\n"},
			{"linear layer", []string{path("x.csv"), path("w.csv"), "--trans-b", "--bias", path("bias.csv"), "--act", "relu"}, "1.5,3,5\n0,7,3\n"},
			{"column", []string{path("x.csv"), path("w.csv"), "--trans-b", "--bias", path("column.csv")}, "11,14,13\n17,28,21\n"},
			{"2 A B + C", []string{path("x.csv"), path("w.csv"), "--trans-b", "--alpha", "2", "-c", path("c.csv")}, "3,9,7\n-4,18,4\n"},
			{"C alone", []string{path("x.csv"), path("w.csv"), "--trans-b", "--alpha", "0", "-c", path("c.csv"), "--beta", "-2"}, "-2,-2,-2\n-4,-4,-4\n"},
			{"transposed A", []string{path("x.csv"), path("x.csv"), "--trans-a"}, "10,-10\n-10,20\n"},
			{"decimal comma", []string{path("semi.csv"), path("semi.csv"), "--delimiter", ";", "--decimal", ","}, "4;5,25\n7;9,25\n"},
			{"bytes", []string{path("x.csv"), path("x.csv"), "--dtype", "i8"}, "-5,10\n-15,10\n"},
			{"bf16", []string{path("x.csv"), path("x.csv"), "--dtype", "bf16", "--out-dtype", "f32"}, "-5,10\n-15,10\n"},
		} {
			out := filepath.Join(t.TempDir(), "out.csv")
			args := append([]string{"run", "-o", out, "--device", device, "--check"}, tc.args...)
			code, stdout, stderr := wgemm(t, args...)
			got, err := os.ReadFile(out)
			if code != 0 || err != nil || string(got) != tc.want {
				t.Errorf("%s: exit %d, %q, want %q: %s%s", tc.name, code, got, tc.want, stdout, stderr)
			}
		}
		out := filepath.Join(t.TempDir(), "out.npy")
		if code, _, stderr := wgemm(t, "run", path("batch.npy"), path("x.csv"), "-o", out, "--device", device); code != 0 {
			t.Fatalf("batch: exit %d: %s", code, stderr)
		}
		f, err := matfile.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		values, err := f.Float32()
		if want := []float32{1, 2, 0, 0, -4, 12, -4, 12}; err != nil || f.Batch != 2 || !slices.Equal(values, want) {
			t.Errorf("batch: %d times %v, %v, want %v", f.Batch, values, err, want)
		}
	})
}

// npy is a .npy file of version 1.0.
func npy(descr, shape, data string) string {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	return "\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), byte(len(header) >> 8)}) + header + data
}

// Everything that is wrong gets one line that names it, the exit status of the
// help, and no output file.
func TestWrongUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := npy("<f4", "(2, 2)", strings.Repeat("\x00\x00\x80\x3f", 4))
	for name, text := range map[string]string{
		"good.npy":      good,
		"tall.npy":      npy("<f4", "(3, 2)", strings.Repeat("\x00", 24)),
		"empty.npy":     "",
		"truncated.npy": good[:len(good)-5],
		"overlong.npy":  good + "more",
		"header.npy":    good[:40],
		"lie.npy":       npy("<f4", "(4000000, 400000)", "abcd"),
		"complex.npy":   npy("<c8", "(2, 2)", strings.Repeat("\x00", 32)),
		"object.npy":    npy("|O", "(2, 2)", "x"),
		"four.npy":      npy("<f4", "(1, 1, 2, 2)", strings.Repeat("\x00", 16)),
		"two.npy":       npy("<f4", "(2, 2, 2)", strings.Repeat("\x00", 32)),
		"three.npy":     npy("<f4", "(3, 2, 2)", strings.Repeat("\x00", 48)),
		"ragged.csv":    "1,2\n3\n",
		"word.csv":      "1,2\n3,x\n",
		"semicolon.csv": "1;2\n3;4\n",
		"fraction.csv":  "1,1.5\n3,4\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	runs := func(a, b string, more ...string) []string {
		return append([]string{"run", filepath.Join(dir, a), filepath.Join(dir, b), "--device", "cpu"}, more...)
	}
	out := filepath.Join(dir, "out.npy")
	for _, tc := range []struct {
		name string
		args []string
		code int
		want []string // parts of the message
	}{
		{"no command", []string{"multiply"}, 2, []string{`unknown command "multiply"`}},
		{"unknown flag", []string{"run", "--fast"}, 2, []string{"unknown flag: --fast", "wgemm run --help"}},
		{"one file", []string{"run", "a.npy"}, 2, []string{"accepts 2 arguments, received 1"}},
		{"help of no command", []string{"help", "multiply"}, 2, []string{`unknown command "multiply" for "wgemm"`, "wgemm help --help"}},
		{"help of a command and more", []string{"help", "run", "more"}, 2, []string{`unknown command "more" for "wgemm run"`}},
		{"completion of no shell", []string{"completion", "csh"}, 2, []string{`unknown command "csh" for "wgemm completion"`}},
		{"completion with an argument", []string{"completion", "bash", "x"}, 2, []string{`unexpected argument "x"`}},
		{"demo with an argument", []string{"demo", "x"}, 2, []string{`unexpected argument "x"`}},
		{"no output", runs("good.npy", "good.npy"), 2, []string{"no output file", "-o OUT"}},
		{"ending of the output", runs("good.npy", "good.npy", "-o", filepath.Join(dir, "out.txt")), 2, []string{".txt", "want .npy, "}},
		{"folder of the output", runs("good.npy", "good.npy", "-o", filepath.Join(dir, "no", "out.npy")), 2, []string{"out.npy", "folder"}},
		{"output is a folder", runs("good.npy", "good.npy", "-o", dir), 2, []string{dir}},
		{"inner sizes", runs("good.npy", "tall.npy", "-o", out), 2, []string{"good.npy is 2 x 2", "tall.npy is 3 x 2", "want a B with 2 rows, one for each column of A"}},
		{"missing", runs("good.npy", "missing.npy", "-o", out), 2, []string{"B:", "missing.npy", "o such file"}},
		{"empty", runs("empty.npy", "good.npy", "-o", out), 2, []string{"A:", "empty.npy", "empty file"}},
		{"truncated", runs("truncated.npy", "good.npy", "-o", out), 2, []string{"truncated.npy", "11 bytes", "want 16"}},
		{"overlong", runs("overlong.npy", "good.npy", "-o", out), 2, []string{"overlong.npy", "20 bytes", "want 16"}},
		{"cut header", runs("header.npy", "good.npy", "-o", out), 2, []string{"header.npy"}},
		{"header that lies", runs("lie.npy", "good.npy", "-o", out), 2, []string{"lie.npy", "4 bytes"}},
		{"complex", runs("complex.npy", "good.npy", "-o", out), 2, []string{"complex.npy", "<c8"}},
		{"object", runs("object.npy", "good.npy", "-o", out), 2, []string{"object.npy", "|O"}},
		{"four dimensions", runs("good.npy", "four.npy", "-o", out), 2, []string{"four.npy", "4 dimensions"}},
		{"batches", runs("two.npy", "three.npy", "-o", out), 2, []string{"two.npy holds 2 matrices, want 3"}},
		{"C", runs("good.npy", "good.npy", "-c", filepath.Join(dir, "tall.npy"), "-o", out), 2, []string{"tall.npy is 3 x 2: want a C of 2 x 2\n"}},
		{"C for a batch", runs("two.npy", "good.npy", "-c", filepath.Join(dir, "good.npy"), "-o", out), 2, []string{"good.npy is 2 x 2: want a C of 2 times 2 x 2\n"}},
		{"not a number", runs("good.npy", "good.npy", "--alpha", "x"), 2, []string{`invalid argument "x" for "--alpha" flag: want a number (wgemm run --help`}},
		{"number too large", runs("good.npy", "good.npy", "--alpha", "1e400"), 2, []string{`"1e400" for "--alpha" flag: out of range (`}},
		{"not a whole number", []string{"plan", "8", "8", "8", "--batch", "1.5"}, 2, []string{`"1.5" for "--batch" flag: want a whole number (`}},
		{"below 0", []string{"verify", "--seed", "-1"}, 2, []string{`"-1" for "--seed" flag: want a whole number from 0 on (`}},
		{"neither true nor false", runs("good.npy", "good.npy", "--check=perhaps"), 2, []string{`"perhaps" for "--check" flag: want true or false (`}},
		{"two of a kind", []string{"bench", "--json", "--csv"}, 2, []string{"wgemm: --csv and --json: want one of them\n"}},
		{"bias", runs("good.npy", "good.npy", "--bias", filepath.Join(dir, "tall.npy"), "-o", out), 2, []string{"tall.npy is 3 x 2", "want a bias of 1 x 2"}},
		{"beta without C", runs("good.npy", "good.npy", "--beta", "2", "-o", out), 2, []string{"want -c FILE"}},
		{"transposed", runs("tall.npy", "good.npy", "--trans-a", "-o", out), 2, []string{"is 2 x 3", "(A transposed)", "want a B with 3 rows"}},
		{"activation", runs("good.npy", "good.npy", "--act", "swish", "-o", out), 2, []string{`--act "swish"`, "silu"}},
		{"type of the output", runs("good.npy", "good.npy", "--out-dtype", "f16", "-o", out), 2, []string{`--out-dtype "f16": want f32`}},
		{"delimiter", runs("good.npy", "good.npy", "--delimiter", ";;", "-o", out), 2, []string{`--delimiter ";;": want one character`}},
		{"not a byte", runs("fraction.csv", "good.npy", "--dtype", "i8", "-o", out), 2, []string{"fraction.csv", "1.5"}},
		{"ragged", runs("ragged.csv", "good.npy", "-o", out), 2, []string{"ragged.csv", "line 2"}},
		{"word", runs("word.csv", "good.npy", "-o", out), 2, []string{"word.csv", "line 2", "column 2", `"x"`}},
		{"semicolons", runs("semicolon.csv", "good.npy", "-o", out), 2, []string{"semicolon.csv", ";"}},
		{"dtype", runs("good.npy", "good.npy", "-o", out, "--dtype", "f64"), 2, []string{`--dtype "f64"`, "want f32, f16, bf16 or i8"}},
		{"acc", runs("good.npy", "good.npy", "-o", out, "--acc", "f8"), 2, []string{`--acc "f8"`, "want f32, f32x2 or f16"}},
		{"acc and kernel", runs("good.npy", "good.npy", "-o", out, "--acc", "f16", "--kernel", "gemm_naive"), 2, []string{"--kernel"}},
		{"acc f32x2 and kernel", runs("good.npy", "good.npy", "-o", out, "--acc", "f32x2", "--kernel", "gemm_naive"), 2, []string{"--acc f32x2", "--kernel"}},
		{"acc f32x2 of bytes", runs("good.npy", "good.npy", "-o", out, "--acc", "f32x2", "--dtype", "i8"), 2, []string{"--acc f32x2 with i8", "exact"}},
		{"range of bytes", runs("good.npy", "good.npy", "-o", out, "--report-range", "--dtype", "i8"), 2, []string{"--report-range with i8", "want f32, f16 or bf16"}},
		{"kernel", runs("good.npy", "good.npy", "-o", out, "--kernel", "gemm"), 2, []string{`--kernel "gemm": want one of broken/gemm_tiled`}},
		{"set", runs("good.npy", "good.npy", "-o", out, "--set", "BM"), 2, []string{"--set BM", "NAME=VALUE"}},
		{"tile", runs("good.npy", "good.npy", "-o", out, "--kernel", "gemm_tiled", "--set", "BM=7"), 2, []string{"BM % TM == 0u"}},
		{"device", runs("good.npy", "good.npy", "-o", out, "--device", "tpu"), 2, []string{`--device "tpu"`, "want one of auto, wgpu, browser, cpu"}},
		{"adapter of the CPU", runs("good.npy", "good.npy", "-o", out, "--adapter", "x"), 2, []string{"no adapters"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := wgemm(t, tc.args...)
			if code != tc.code || stdout != "" {
				t.Errorf("exit %d, want %d; stdout %q", code, tc.code, stdout)
			}
			if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "wgemm: ") {
				t.Errorf("stderr is not one line: %q", stderr)
			}
			for _, part := range tc.want {
				if !strings.Contains(stderr, part) {
					t.Errorf("stderr %q lacks %q", stderr, part)
				}
			}
		})
	}
	t.Cleanup(func() {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(names) != 16 {
			t.Errorf("the folder holds %v after all that, %v", names, err)
		}
	})
}

// A tile over the device's limits is wrong use; a matrix over them is not.
func TestLimits(t *testing.T) {
	t.Parallel()
	device := open.Driver().Name()
	dev := runtimetest.Open(t, open.Driver())
	a, b, _, _ := matrices(t, 4, 4, 4, false, false)
	out := filepath.Join(t.TempDir(), "c.npy")
	code, _, stderr := wgemm(t, "run", a, b, "-o", out, "--device", device, "--kernel", "gemm_tiled", "--set", "BM=1024,BN=1024,TM=8,TN=8")
	if code != exitUsage || !strings.Contains(stderr, "maxComputeInvocationsPerWorkgroup: needs 16384, has ") {
		t.Errorf("a tile over the limits: exit %d: %s", code, stderr)
	}
	limit := dev.Adapter().Limits.MaxStorageBufferBindingSize
	if limit > 1<<28 {
		t.Logf("the adapter binds %d bytes: too much to exceed in a test", limit)
		return
	}
	dir := t.TempDir()
	column, row := filepath.Join(dir, "column.npy"), filepath.Join(dir, "row.npy")
	long := make([]float32, int(limit)/4/1000+1)
	if err := matfile.WriteFloat32(column, len(long), 1, long); err != nil {
		t.Fatal(err)
	}
	if err := matfile.WriteFloat32(row, 1, 1000, long[:1000]); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = wgemm(t, "run", column, row, "-o", out, "--device", device)
	if code != exitFailed || !strings.Contains(stderr, "maxStorageBufferBindingSize") || !strings.Contains(stderr, "--device cpu") {
		t.Errorf("a product over the limits: exit %d: %s", code, stderr)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an output file was written")
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	dev := runtimetest.Open(t, open.Driver())
	code, stdout, stderr := wgemm(t, "info", "--json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var r infoReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if r.Driver != open.Driver().Name() || len(r.Adapters) == 0 || r.Takes.Adapter == nil || r.Takes.Reason == "" {
		t.Errorf("report %+v", r)
	}
	code, stdout, _ = wgemm(t, "info")
	for _, want := range []string{dev.Adapter().Name, "type      ", "graphics  ", "workgroup memory", "\ntakes "} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, %q is not in\n%s", code, want, stdout)
		}
	}
	if dev.Adapter().Type == gpu.Software && !strings.Contains(stdout, "software adapter") {
		t.Errorf("a software adapter is not called that:\n%s", stdout)
	}
}

// The demo prints the right values of every example, and colours nothing that
// is not a terminal.
func TestDemo(t *testing.T) {
	t.Parallel()
	onDevices(t, func(t *testing.T, device string) {
		code, stdout, stderr := wgemm(t, "demo", "--device", device)
		if code != 0 || stderr != "" {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		flat := strings.Join(strings.Fields(stdout), " ")
		for _, want := range []string{
			"grid 2 x 2 workgroups, 2 K-iterations",
			"grid 1 x 1 workgroups, 128 K-iterations",
			"C 1.2 1.3 1.4 1.5 3.2 3.55 3.9 4.25 5.2 5.8 6.4 7.0 7.2 8.05 8.9 9.75 float64",
			"C 2994004.0 2994004.25 2994004.5 2994004.5 2994006.25 2994006.5 2994006.75 2994007.25 " +
				"2994008.25 2994009.0 2994009.5 2994010.0 2994010.25 2994011.0 2994012.0 2994012.75 max",
			"max abs error against float64: 9.737179152580211e-05 right",
			"max abs error against float64: 0.001974425897060428 wrong",
			"wrong in 64 of 64 elements, as it must be",
		} {
			if !strings.Contains(flat, want) {
				t.Errorf("%q is not in\n%s", want, stdout)
			}
		}
		if strings.Contains(stdout, "\x1b") {
			t.Error("colours without a terminal")
		}
		code, stdout, _ = wgemm(t, "demo", "--device", device, "--json")
		var r demoReport
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
			t.Fatalf("exit %d, %v", code, err)
		}
		if len(r.Examples) != 5 || r.Examples[4].Results[1].MaxError != 0.001974425897060428 || r.Examples[3].Results[1].C[3][3] != 2994012.75 {
			t.Errorf("report %+v", r)
		}
	})
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"Usage:", "Examples:", "run", "info", "demo", "version", "completion", "EXIT STATUS", "4  no such device"}},
		{[]string{"run", "--help"}, []string{"wgemm run a.npy b.npy -o c.npy", "--dtype", "--acc", "--set", "EXIT STATUS"}},
		{[]string{"demo", "--help"}, []string{"13.3", "EXIT STATUS"}},
		{[]string{"info", "--help"}, []string{"wgemm info --json", "EXIT STATUS"}},
		{[]string{"version"}, []string{"wgemm ", "go1."}},
		{[]string{"help"}, []string{"Available Commands:", "EXIT STATUS"}},
		{[]string{"help", "run"}, []string{"wgemm run a.npy b.npy -o c.npy"}},
		{[]string{"help", "completion", "bash"}, []string{"wgemm completion bash"}},
		{[]string{"completion"}, []string{"wgemm completion [command]", "powershell"}},
		{[]string{"completion", "bash"}, []string{"wgemm"}},
		{[]string{"__complete", "run", "--kernel", ""}, []string{"gemm_tiled", "gemm_naive"}},
	} {
		code, stdout, _ := wgemm(t, tc.args...)
		for _, want := range tc.want {
			if code != 0 || !strings.Contains(stdout, want) {
				t.Errorf("%v: exit %d, %q is not in\n%s", tc.args, code, want, stdout)
			}
		}
	}
}

// Tests may run as root, for whom no file is out of reach.
func TestStatus(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want int
	}{
		{errors.New("x"), exitFailed},
		{usagef("x"), exitUsage},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, exitUsage},
		{fmt.Errorf("A: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}), exitUsage},
		{errors.Join(usagef("x"), fmt.Errorf("%w: 1", errDiffers)), exitDiffers},
		{fmt.Errorf("x: %w", gpu.ErrNoAdapter), exitNoDevice},
	} {
		if got := status(tc.err); got != tc.want {
			t.Errorf("%v: exit %d, want %d", tc.err, got, tc.want)
		}
	}
}

// A file that is written last is asked for first, and left as it was.
func TestCheckOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept, fresh := filepath.Join(dir, "kept"), filepath.Join(dir, "fresh")
	if err := os.WriteFile(kept, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path string
		ok   bool
	}{{kept, true}, {fresh, true}, {os.DevNull, true}, {dir, false}, {filepath.Join(dir, "no", "x"), false}} {
		err := checkOutput("--flag", tc.path)
		if (err == nil) != tc.ok || (err != nil && (status(err) != exitUsage || !strings.HasPrefix(err.Error(), "--flag: open "+tc.path))) {
			t.Errorf("%s: %v", tc.path, err)
		}
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "text" {
		t.Errorf("%s holds %q, %v", kept, text, err)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was left behind: %v", fresh, err)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	a, b, _, _ := matrices(t, 4, 4, 4, false, false)
	out := filepath.Join(t.TempDir(), "c.npy")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	code := run(ctx, []string{"run", a, b, "-o", out, "--device", cpuName}, &stderr, &stderr)
	if code != exitFailed || stderr.String() != "wgemm: interrupted\n" {
		t.Errorf("exit %d: %q", code, stderr.String())
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an output file was written")
	}
}

// What leaves the range of binary16 is counted: in the files, and in the
// product, where infinities that come from the operands are told from those that
// do not.
func TestReportRange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		// 70000 overflows, 1e-6 is subnormal, 1e-9 becomes 0.
		"wide.csv": "70000,0,inf,-1e400\n1e-6,1e-9,nan,65504\n",
		"a.csv":    "300,inf\n300,1e-4\n", "b.csv": "300,1e-3\n0,1e-3\n",
		"one.csv": "1\n", "c.csv": "-inf,0\n0,0\n", "big.csv": "65000\n65000\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	underflowed := func(n int) *int { return &n }
	onDevices(t, func(t *testing.T, device string) {
		for _, tc := range []struct {
			name string
			args []string // files in dir by their names
			want []rangeReport
		}{
			{
				"files",
				[]string{"wide.csv", "wide.csv", "--trans-b", "--dtype", "f16", "--alpha", "0"},
				[]rangeReport{
					{"A", "f16", 8, 2, 3, 1, 1, underflowed(1), 65504, 65504},
					{"B", "f16", 8, 2, 3, 1, 1, underflowed(1), 65504, 65504},
					{"OUT", "f16", 4, 0, 0, 0, 0, nil, 0, 65504},
				},
			},
			{
				// 90000 overflows; beside it inf times 0, inf times 1e-3 and 0.3.
				"product",
				[]string{"a.csv", "b.csv", "--dtype", "f16"},
				[]rangeReport{
					{"A", "f16", 4, 0, 1, 0, 0, underflowed(0), 300, 65504},
					{"B", "f16", 4, 0, 0, 0, 0, underflowed(0), 300, 65504},
					{"OUT", "f16", 4, 1, 2, 1, 0, nil, 0.300048828125, 65504},
				},
			},
			{
				"C and bias",
				[]string{"big.csv", "one.csv", "--dtype", "f16", "--bias", "big.csv", "--out-dtype", "f32"},
				[]rangeReport{
					{"A", "f16", 2, 0, 0, 0, 0, underflowed(0), 64992, 65504},
					{"B", "f16", 1, 0, 0, 0, 0, underflowed(0), 1, 65504},
					{"bias", "f16", 2, 0, 0, 0, 0, underflowed(0), 64992, 65504},
					{"OUT", "f32", 2, 0, 0, 0, 0, nil, 129984, math.MaxFloat32},
				},
			},
			{
				"an infinity of C",
				[]string{"b.csv", "b.csv", "--dtype", "f16", "-c", "c.csv"},
				[]rangeReport{
					{"A", "f16", 4, 0, 0, 0, 0, underflowed(0), 300, 65504},
					{"B", "f16", 4, 0, 0, 0, 0, underflowed(0), 300, 65504},
					{"C", "f16", 4, 0, 1, 0, 0, underflowed(0), 0, 65504},
					{"OUT", "f16", 4, 0, 1, 0, 1, nil, 0.300048828125, 65504},
				},
			},
		} {
			args := []string{"run", "-o", filepath.Join(t.TempDir(), "out.npy"), "--device", device, "--report-range", "--json"}
			for _, arg := range tc.args {
				if strings.HasSuffix(arg, ".csv") {
					arg = filepath.Join(dir, arg)
				}
				args = append(args, arg)
			}
			code, stdout, stderr := wgemm(t, args...)
			var r runReport
			if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
				t.Fatalf("%s: exit %d, %v: %s", tc.name, code, err, stderr)
			}
			if !reflect.DeepEqual(r.Range, tc.want) {
				t.Errorf("%s:\n got %v\nwant %v", tc.name, r.Range, tc.want)
			}
		}
		args := []string{"run", filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv"), "-o", filepath.Join(t.TempDir(), "out.npy"), "--device", device, "--dtype", "f16", "--report-range"}
		want := "  range    OUT: 4 f16 up to 0.30005, of at most 65504; 1 overflowed, 2 infinite with these, 1 NaN, 0 subnormal\n"
		if code, stdout, stderr := wgemm(t, args...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, want %q in\n%s%s", code, want, stdout, stderr)
		}
	})
}
