package chapter

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/matfile"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

// want are the right values of each run, by section, title and label.
var want = []struct {
	title, label string
	grid         string
	slices       int
	maxError     float64 // at most, or exactly where exact is set
	exact        bool
	values       string // of C, where the example is about them
	wrong        bool   // some element is
}{
	{"a grid of tiles and a loop over K", "masked on M, N and K", "2 x 2", 2, 1.6e-5, false, "", false},
	{"the trap: zero in the wrong place", "accumulator set to zero inside the loop", "2 x 2", 2, math.Inf(1), false, "", true},
	{"sizes that no tile divides", "masked on M, N and K", "2 x 2", 2, 4e-6, false, "", false},
	{
		"a mask left out", "masked on M, N and K", "1 x 1", 2, 1e-5, false,
		"1.2 1.3 1.4 1.5 3.2 3.55 3.9 4.25 5.2 5.8 6.4 7.0 7.2 8.05 8.9 9.75", false,
	},
	{
		"a mask left out", "mask on K left out", "1 x 1", 2, math.Inf(1), false,
		"2994004.0 2994004.25 2994004.5 2994004.5 2994006.25 2994006.5 2994006.75 2994007.25 " +
			"2994008.25 2994009.0 2994009.5 2994010.0 2994010.25 2994011.0 2994012.0 2994012.75", true,
	},
	{"the precision of the accumulator", "binary32 accumulator", "1 x 1", 128, 9.737179152580211e-05, true, "", false},
	{"the precision of the accumulator", "binary16 accumulator", "1 x 1", 128, 0.001974425897060428, true, "", true},
}

func TestExamples(t *testing.T) {
	for _, e := range []struct {
		name   string
		engine func(t *testing.T) *gemm.Engine
	}{
		{"cpu", func(*testing.T) *gemm.Engine { return gemm.NewCPU() }},
		{open.Driver().Name(), func(t *testing.T) *gemm.Engine { return gemm.New(runtimetest.Open(t, open.Driver())) }},
	} {
		t.Run(e.name, func(t *testing.T) { testExamples(t, e.engine(t)) })
	}
}

func testExamples(t *testing.T, e *gemm.Engine) {
	examples, err := Examples()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		var x Example
		var run Run
		for _, x1 := range examples {
			for _, r1 := range x1.Runs {
				if x1.Title == w.title && r1.Label == w.label {
					x, run = x1, r1
				}
			}
		}
		if run.Label == "" {
			t.Errorf("no example %q, %q", w.title, w.label)
			continue
		}
		rows, cols := x.Grid()
		if grid := fmt.Sprintf("%d x %d", rows, cols); grid != w.grid || x.Slices() != w.slices {
			t.Errorf("%s: grid %s, %d slices, want %s and %d", w.title, grid, x.Slices(), w.grid, w.slices)
		}
		out, err := x.Run(t.Context(), e, run)
		if err != nil {
			t.Errorf("%s: %v", w.title, err)
			continue
		}
		if out.MaxError > w.maxError || (w.exact && out.MaxError != w.maxError) {
			t.Errorf("%s, %s: largest error %v, want %v", w.title, w.label, out.MaxError, w.maxError)
		}
		if (out.Wrong > 0) != w.wrong || run.Faulty != w.wrong {
			t.Errorf("%s, %s: %d elements are wrong", w.title, w.label, out.Wrong)
		}
		var values []string
		for i := range x.M {
			for j := range x.N {
				values = append(values, Format(out.C.Value(i, j)))
			}
		}
		if got := strings.Join(values, " "); w.values != "" && got != w.values {
			t.Errorf("%s, %s: C is\n%s, want\n%s", w.title, w.label, got, w.values)
		}
	}
}

// With the accumulator set to zero inside the loop the product of the last
// slice remains.
func TestTrapKeepsTheLastSlice(t *testing.T) {
	examples, err := Examples()
	if err != nil {
		t.Fatal(err)
	}
	x := examples[1]
	out, err := x.Run(t.Context(), gemm.NewCPU(), x.Runs[1])
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		for j := range 8 {
			var last float64
			for kk := 4; kk < 8; kk++ {
				last += x.A.Value(i, kk) * x.B.Value(kk, j)
			}
			if got := out.C.Value(i, j); math.Abs(got-last) > 1e-5 {
				t.Errorf("C[%d, %d] is %v, want %v", i, j, got, last)
			}
		}
	}
}

// The reference is the chapter's own float64 product.
func TestReference(t *testing.T) {
	data, err := inputs.ReadFile("inputs/ch13_exact.npy")
	if err != nil {
		t.Fatal(err)
	}
	f, err := matfile.Decode("ch13_exact.npy", data)
	if err != nil {
		t.Fatal(err)
	}
	exact, err := f.Float32()
	if err != nil {
		t.Fatal(err)
	}
	examples, err := Examples()
	if err != nil {
		t.Fatal(err)
	}
	x := examples[4]
	for i, v := range exact {
		if got := float32(x.Reference(i/4, i%4)); got != v {
			t.Errorf("reference (%d, %d) is %v, want %v", i/4, i%4, got, v)
		}
	}
}

func TestDrawing(t *testing.T) {
	examples, err := Examples()
	if err != nil {
		t.Fatal(err)
	}
	// 5 x 7 times 7 x 6, the workgroup at the lower right, the second slice.
	got := strings.Join(examples[2].Drawing(1, 1, 1), "\n")
	const want = `. . . . . . .      . . . . . .        . . . . . .
. . . . . . .      . . . . . .        . . . . . .
. . . . . . .      . . . . . .        . . . . . .
. . . . . . .      . . . . . .        . . . . . .
. . . . # # # x    . . . . # # x x    . . . . # # x x
        x x x x    . . . . # # x x            x x x x
        x x x x    . . . . # # x x            x x x x
        x x x x            x x x x            x x x x`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
