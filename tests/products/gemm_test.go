package products

import (
	"context"
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

var nan = math.NaN()

// small is a whole number of at most 4, so that sums over any K here are exact
// in binary32 in any order, and in binary16 up to K = 128.
func small(i, j int) float64 { return float64((i*7+j*3)%9 - 4) }

func smallB(i, j int) float64 { return float64((i*5+j*11)%7 - 3) }

// Around each tile: one less, one more, and past the second. With -short, for
// slow adapters, the extremes.
func around(b int) []int {
	sizes := []int{1, b - 1, b, b + 1, 2*b + 3}
	if testing.Short() {
		sizes = []int{1, b + 1}
	}
	slices.Sort(sizes)
	return slices.DeleteFunc(slices.Compact(sizes), func(n int) bool { return n < 1 })
}

// Every variant on the shapes around its tile gives exactly the product, in both
// element types, from operands with gaps of NaN that must not be read and into one
// with gaps that must not be written.
func TestShapes(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		eachVariant(t, e, func(t *testing.T, v variant, opts []gemm.Option) {
			for _, m := range around(v.tile[0]) {
				for _, n := range around(v.tile[1]) {
					for _, k := range around(v.tile[2]) {
						// Rows are in whole vectors or not, and a single column is a row of
						// the transpose: each is compiled by itself, for seconds.
						// TestTransposes has the pairs that are left out here.
						if (n%4 == 0) != (k%4 == 0) || m%4 == 0 && min(n, k) == 1 {
							continue
						}
						exact[float32, float32](t, e, m, n, k, false, false, opts)
					}
					if n%4 != 0 && n > 1 {
						exact[float16.Float16, float16.Float16](t, e, m, n, v.tile[2]+1, false, false, opts)
					}
				}
			}
		})
	})
}

// Tiles of gemm_block whose invocations have several vectors of rows or of columns, and
// not as many of the one as of the other; one with its loops written out. The variants
// of the other tests have a vector of each, since drivers take long to compile more.
func TestBlocks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short, for slow adapters: each tile compiles for many seconds; wgpu-native and Dawn run it")
	}
	e := deviceEngine(t)
	const few = ",BK=4,LANES_M=2,LANES_N=2,NEAR_M=2,NEAR_N=1"
	for _, params := range []string{
		"BM=32,BN=16,TM=16,TN=8,UNROLL=false" + few,
		"BM=16,BN=8,TM=8,TN=4" + few,
		"BM=8,BN=24,TM=4,TN=12,UNROLL=false,BK=16,LANES_K=4,LANES_M=2,LANES_N=2,NEAR_M=1,NEAR_N=2",
		"BM=16,BN=8,TM=8,TN=4,UNROLL=false,BK=8,LANES_K=2,LANES_M=2,LANES_N=2,NEAR_M=2,NEAR_N=1", // adds up four rows at once
	} {
		t.Run(params, func(t *testing.T) {
			t.Parallel()
			if goruntime.GOARCH == "wasm" && strings.Contains(params, "UNROLL=false") {
				t.Skip("a native device stands for it: each tile compiles for many seconds")
			}
			opts := with(t, "gemm_block", params)
			exact[float32, float32](t, e, 35, 52, 20, false, false, opts)
		})
	}
}

// Each operand in each type, transposed and not, in whole vectors along its rows in
// memory and not: where the size along them is a multiple of four. TestShapes has the
// rest, both as they are. Not every pair of A's and B's, since each is compiled.
func TestTransposes(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		eachVariant(t, e, func(t *testing.T, v variant, opts []gemm.Option) {
			few := testing.Short() || goruntime.GOARCH == "wasm" // a native device stands for the rest
			for _, more := range []int{24, 56} {                 // fewer, and the gaps would be left out with the strides
				if !few {
					exact[float32, float32](t, e, 9+more, 11+more, 7+more, true, false, opts)
					exact[float32, float32](t, e, 9+more, 11+more, 7+more, false, true, opts)
					exact[float32, float32](t, e, 9+more, 12+more, 7+more, false, false, opts)
					exact[float32, float32](t, e, 8+more, 11+more, 7+more, true, false, opts)
				}
				exact[float32, float32](t, e, 8+more, 11+more, 4+more, true, true, opts)
				exact[float16.Float16, float32](t, e, 9+more, 11+more, 7+more, true, true, opts)
				exact[float16.Float16, float16.Float16](t, e, 8+more, 12+more, 7+more, true, false, opts)
				exact[float16.Float16, float16.Float16](t, e, 9+more, 12+more, 4+more, false, true, opts)
			}
		})
	})
}

// surrounded is a rows x cols matrix inside a larger one of NaN, with strides
// that may be exchanged. It returns the view and the slice it lies in. Where the
// size along its rows in memory is a multiple of four, so are its place and its
// strides, which kernels make use of.
func surrounded[T gemm.Element](rows, cols int, transposed bool, f func(i, j int) float64) (gemm.Matrix[T], []T) {
	before, after, along := 1, 2, cols
	if transposed {
		along = rows
	}
	if along%4 == 0 {
		before, after = 4, 4
	}
	outerRows, outerCols := before+rows+before, before+cols+after
	if transposed {
		outerRows, outerCols = outerCols, outerRows
	}
	outer := filled[T](outerRows, outerCols, func(int, int) float64 { return nan })
	if transposed {
		outer = outer.Transposed()
	}
	view := outer.View(before, before, rows, cols)
	for i := range rows {
		for j := range cols {
			view.Data[i*view.RowStride+j*view.ColStride] = element[T](f(i, j))
		}
	}
	return view, outer.Data
}

// exact multiplies whole numbers and wants the product bit for bit, the inputs
// as they were, and the surroundings of C untouched.
func exact[In, Out gemm.Element](t *testing.T, e *gemm.Engine, m, n, k int, transA, transB bool, opts []gemm.Option) {
	t.Helper()
	a, memoryA := surrounded[In](m, k, transA, small)
	b, memoryB := surrounded[In](k, n, transB, smallB)
	c, memoryC := surrounded[Out](m, n, false, func(int, int) float64 { return nan })
	wasA, wasB, wasC := slices.Clone(memoryA), slices.Clone(memoryB), slices.Clone(memoryC)
	what := fmt.Sprintf("%d x %d x %d, transposed %t %t, %s to %s", m, n, k, transA, transB, a.DType(), c.DType())
	if err := e.Multiply(t.Context(), c, a, b, opts...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	failures := 0
	for i := range m {
		for j := range n {
			var want float64
			for kk := range k {
				want += small(i, kk) * smallB(kk, j)
			}
			if got := number(c.At(i, j)); got != want && failures < 10 {
				t.Errorf("%s: C[%d, %d] is %v, want %v", what, i, j, got, want)
				failures++
			}
			c.Data[i*c.RowStride+j] = element[Out](nan)
		}
	}
	for name, pair := range map[string]bool{
		"A": sameBits(memoryA, wasA), "B": sameBits(memoryB, wasB), "the surroundings of C": sameBits(memoryC, wasC),
	} {
		if !pair {
			t.Errorf("%s: changed %s", what, name)
		}
	}
}

func sameBits[T gemm.Element](x, y []T) bool {
	return slices.EqualFunc(x, y, func(a, b T) bool {
		return number(a) == number(b) || (math.IsNaN(number(a)) && math.IsNaN(number(b)))
	})
}

// Random numbers stay within the bound of analysis, and two runs give the same
// bits.
func TestRandom(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short, for slow adapters: TestShapes stands for it")
	}
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		eachVariant(t, e, func(t *testing.T, v variant, opts []gemm.Option) {
			random[float32, float32](t, e, 65, 81, 130, opts)
			random[float16.Float16, float32](t, e, 65, 33, 257, opts)
			random[float16.Float16, float16.Float16](t, e, 33, 65, 511, opts)
		})
	})
}

func random[In, Out gemm.Element](t *testing.T, e *gemm.Engine, m, n, k int, opts []gemm.Option) {
	t.Helper()
	rng := newRand()
	uniform := func(int, int) float64 { return 2*rng.Float64() - 1 }
	a, b := filled[In](m, k, uniform), filled[In](k, n, uniform)
	c, again := gemm.NewMatrix[Out](m, n, nil), gemm.NewMatrix[Out](m, n, nil)
	if err := errors.Join(e.Multiply(t.Context(), c, a, b, opts...), e.Multiply(t.Context(), again, a, b, opts...)); err != nil {
		t.Fatal(err)
	}
	r := gemm.Check(c, a, b, seed)
	if !r.Right() || r.Checked != m*n {
		t.Errorf("%d of %d elements, seed %d: %v", r.Checked, m*n, seed, r)
	}
	if !slices.Equal(c.Data, again.Data) {
		t.Error("two runs differ")
	}
}

// All 65536 halves come through a device unchanged, and products of halves are
// rounded to nearest, ties to even, subnormal results and overflow included.
func TestHalves(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		all := gemm.NewMatrix[float16.Float16](256, 256, nil)
		for i := range all.Data {
			all.Data[i] = float16.Frombits(uint16(i))
		}
		one := gemm.NewMatrix(1, 1, []float16.Float16{float16.Fromfloat32(1)})
		column := gemm.NewMatrix(256*256, 1, all.Data)
		got := gemm.NewMatrix[float16.Float16](256*256, 1, nil)
		if err := e.Multiply(t.Context(), got, column, one, with(t, "gemm_naive", "BM=16,BN=1")...); err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for i, v := range got.Data {
			// 0 + -0 is 0: a sum loses the sign of zero.
			if want := all.Data[i]; v != want && !(v.IsNaN() && want.IsNaN()) && want != 0x8000 && wrong < 10 {
				t.Errorf("%#04x times 1 is %#04x", want, v)
				wrong++
			}
		}

		rng := newRand()
		x, y := gemm.NewMatrix[float16.Float16](500, 1, nil), gemm.NewMatrix[float16.Float16](1, 500, nil)
		for i := range x.Data {
			// Exponents around those whose products are subnormal, and some that overflow.
			x.Data[i] = float16.Fromfloat32(float32(math.Ldexp(rng.Float64()+1, -rng.IntN(14))))
			y.Data[i] = float16.Fromfloat32(float32(math.Ldexp(rng.Float64()+1, -rng.IntN(14)+3*(i%2)*rng.IntN(6))))
		}
		product := gemm.NewMatrix[float16.Float16](500, 500, nil)
		if err := e.Multiply(t.Context(), product, x, y); err != nil {
			t.Fatal(err)
		}
		for i := range 500 {
			for j := range 500 {
				want := float16.Fromfloat32(x.Data[i].Float32() * y.Data[j].Float32()) // exact before rounding
				if v := product.At(i, j); v != want && wrong < 20 {
					t.Errorf("%#04x times %#04x is %#04x, want %#04x", x.Data[i], y.Data[j], v, want)
					wrong++
				}
			}
		}
	})
}

// A sum is rounded to the nearest binary16, ties to even: tried halfway between any two
// neighbours, and next to that. The sums are exact, of half, step / 2 and a rest.
func TestRoundingToHalves(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		const negative, rests = 2, 3
		a := gemm.NewMatrix[float16.Float16](0x7c00*negative*rests, 3, nil)
		want := make([]float16.Float16, a.Rows)
		for row := range a.Rows {
			bits := uint16(row / (negative * rests))
			half := float16.Frombits(bits).Float32()
			step := math.Ldexp(1, max(int(bits>>10), 1)-25)
			middle := half + float32(step/2)
			rest := float64(row/negative%rests-1) * max(0x1p-28, math.Ldexp(1, math.Ilogb(float64(middle))-23))
			sign := float32(1 - 2*(row%negative))
			for col, v := range []float64{float64(half), step / 2 * 0x1p11, rest * 0x1p14} {
				a.Data[3*row+col] = float16.Fromfloat32(sign * float32(v))
			}
			want[row] = float16.Fromfloat32(sign * (middle + float32(rest)))
		}
		b := gemm.NewMatrix(3, 1, []float16.Float16{float16.Fromfloat32(1), float16.Fromfloat32(0x1p-11), float16.Fromfloat32(0x1p-14)})
		c := gemm.NewMatrix[float16.Float16](a.Rows, 1, nil)
		if err := e.Multiply(t.Context(), c, a, b, with(t, "gemm_naive", "BM=16,BN=1")...); err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for row, v := range c.Data {
			if v != want[row] && wrong < 10 {
				t.Errorf("%v is stored as %#04x, want %#04x", a.Data[3*row:3*row+3], v, want[row])
				wrong++
			}
		}
	})
}

// Packing copies every finite number of two bytes as it is.
func TestPackedHalves(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		packed(t, e, float16.Fromfloat32(1), func(bits uint16) (float16.Float16, bool) {
			h := float16.Frombits(bits)
			return h, !h.IsNaN() && !h.IsInf(0) && h != 0x8000 // 0 + -0 is 0
		})
		packed(t, e, gemm.ToBFloat16(1), func(bits uint16) (gemm.BFloat16, bool) {
			h := gemm.BFloat16(bits)
			// Without the subnormal: a driver may take them for 0 (docs/numerics.md).
			size := math.Abs(float64(h.Float32()))
			return h, size >= 0x1p-126 && !math.IsInf(size, 0)
		})
	})
}

// packed multiplies all numbers of two bytes that are wanted, packed, with the identity.
func packed[E interface {
	comparable
	gemm.Element
}](t *testing.T, e *gemm.Engine, one E, wanted func(bits uint16) (E, bool)) {
	t.Helper()
	a, identity := gemm.NewMatrix[E](256, 256, nil), gemm.NewMatrix[E](256, 256, nil)
	for i := range a.Data {
		if v, ok := wanted(uint16(i)); ok {
			a.Data[i] = v
		}
	}
	for i := range 256 {
		identity.Data[i*257] = one
	}
	c := gemm.NewMatrix[E](256, 256, nil)
	if err := e.Multiply(t.Context(), c, a, identity, with(t, "gemm_block", "BM=32,BN=16,BK=8,TM=4,TN=4,UNROLL=false;pack")...); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Data, a.Data) {
		t.Errorf("%T times the identity is not what it was", one)
	}
}

// NaN and infinities propagate, also where the other factor is zero.
func TestNotFinite(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		a := filled[float32](4, 4, func(i, _ int) float64 {
			if i == 2 {
				return 0
			}
			return 1
		})
		b := filled[float32](4, 4, func(kk, j int) float64 {
			switch {
			case kk == 1 && j == 3:
				return nan
			case kk == 2 && j == 0:
				return math.Inf(1)
			}
			return 1
		})
		eachVariant(t, e, func(t *testing.T, v variant, opts []gemm.Option) {
			c := gemm.NewMatrix[float32](4, 4, nil)
			if err := e.Multiply(t.Context(), c, a, b, opts...); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				for j := range 4 {
					want := 4.0
					switch {
					case j == 3, i == 2 && j == 0:
						want = nan
					case j == 0:
						want = math.Inf(1)
					case i == 2:
						want = 0
					}
					if got := float64(c.At(i, j)); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
						t.Errorf("%s: C[%d, %d] is %v, want %v", v.name, i, j, got, want)
					}
				}
			}
		})
	})
}

// With k = 0 C becomes 0 whatever it was; with m or n = 0 nothing happens, also
// with no memory at all.
func TestEmpty(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		c := filled[float32](3, 5, func(int, int) float64 { return nan })
		if err := e.Multiply(t.Context(), c, gemm.NewMatrix[float32](3, 0, nil), gemm.NewMatrix[float32](0, 5, nil)); err != nil {
			t.Error(err)
		}
		if !slices.Equal(c.Data, make([]float32, 15)) {
			t.Errorf("k = 0: C is %v, want zeros", c.Data)
		}
		for _, size := range [][3]int{{0, 5, 3}, {5, 0, 3}, {0, 0, 0}} {
			m, n, k := size[0], size[1], size[2]
			a, b := gemm.NewMatrix[float16.Float16](m, k, nil), gemm.NewMatrix[float16.Float16](k, n, nil)
			if err := e.Multiply(t.Context(), gemm.NewMatrix[float32](m, n, nil), a, b); err != nil {
				t.Errorf("%v: %v", size, err)
			}
		}
	})
}

// Matrices on the device are used again and again, in views and transposed,
// and a result is an operand of the next product.
func TestDeviceMatrices(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		ctx := t.Context()
		host := filled[float32](20, 30, small)
		d, err := e.Upload(ctx, host)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		square, err := e.NewMatrix(gemm.F32, 7, 7)
		if err != nil {
			t.Fatal(err)
		}
		defer square.Close()
		part := d.View(3, 5, 7, 11)
		if err := e.Multiply(ctx, square, part, part.Transposed()); err != nil {
			t.Fatal(err)
		}
		got := gemm.NewMatrix[float32](7, 11, nil)
		if err := e.Multiply(ctx, got, square, part); err != nil {
			t.Fatal(err)
		}
		p := host.View(3, 5, 7, 11)
		want := multiply(multiply(p, p.Transposed()), p)
		if !slices.Equal(got.Data, want.Data) {
			t.Errorf("got %v, want %v", got.Data, want.Data)
		}
		back := filled[float32](11, 7, func(int, int) float64 { return nan })
		if err := e.Download(ctx, back.Transposed(), part); err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			for j := range 11 {
				if back.At(j, i) != p.At(i, j) {
					t.Fatalf("downloaded (%d, %d) is %v, want %v", i, j, back.At(j, i), p.At(i, j))
				}
			}
		}
		// The output is an input: the old values are used.
		same := filled[float32](20, 20, small)
		want = multiply(same, same)
		if err := e.Multiply(ctx, same, same, same); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(same.Data, want.Data) {
			t.Error("C = A = B on the host: not the product of the old values")
		}
		if err := e.Multiply(ctx, d.View(0, 0, 7, 7), part, part.Transposed()); err == nil || !strings.Contains(err.Error(), "shares its memory") {
			t.Errorf("C in the memory of A on the device: %v", err)
		}
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Error(err)
		}
		if err := e.Multiply(ctx, square, part, part.Transposed()); !errors.Is(err, gpu.ErrClosed) {
			t.Errorf("after Close: %v, want ErrClosed", err)
		}
	})
}

// multiply is the product in float64 of matrices small enough to be exact.
func multiply(a, b gemm.Matrix[float32]) gemm.Matrix[float32] {
	return filled[float32](a.Rows, b.Cols, func(i, j int) float64 {
		var sum float64
		for kk := range a.Cols {
			sum += float64(a.At(i, kk)) * float64(b.At(kk, j))
		}
		return sum
	})
}

func TestShapeErrors(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		m := func(rows, cols int) gemm.Matrix[float32] { return gemm.NewMatrix[float32](rows, cols, nil) }
		strided := func(rows, cols, row, col, length int) gemm.Matrix[float32] {
			return gemm.Matrix[float32]{Data: make([]float32, length), Rows: rows, Cols: cols, RowStride: row, ColStride: col}
		}
		other := gemm.NewCPU()
		foreign, err := other.NewMatrix(gemm.F32, 2, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			name    string
			c, a, b gemm.Operand
			arg     string
			want    string
		}{
			{"inner sizes", m(2, 3), m(2, 5), m(4, 3), "B", "has 4 rows, want 5 as A (2 x 5) has columns"},
			{"C", m(3, 2), m(2, 5), m(5, 3), "C", "is 3 x 2, want 2 x 3 for A (2 x 5) and B (5 x 3)"},
			{"short A", m(2, 3), strided(2, 5, 5, 1, 9), m(5, 3), "A", "needs 10 elements, the slice has 9"},
			{"short B", m(2, 3), m(2, 5), strided(5, 3, 7, 1, 30), "B", "needs 31 elements, the slice has 30"},
			{"no A", m(2, 3), gemm.Matrix[float32]{Rows: 2, Cols: 5, RowStride: 5, ColStride: 1}, m(5, 3), "A", "the slice has 0"},
			{"negative rows", m(2, 3), gemm.Matrix[float32]{Rows: -2, Cols: 5}, m(5, 3), "A", "has -2 rows"},
			{"negative stride", m(2, 3), strided(2, 5, -5, 1, 9), m(5, 3), "A", "row stride -5"},
			{"rows past 2^32", m(2, 3), strided(1<<31, 5, 5, 1, 9), m(5, 3), "A", "past 2^32 elements"},
			{"rows past 2^63", m(2, 3), strided(1<<62, 5, 1<<40, 1, 9), m(5, 3), "A", "past 2^32 elements"},
			{"C overlaps", strided(2, 3, 2, 1, 9), m(2, 5), m(5, 3), "C", "elements would share a place"},
			{"C is one element", strided(2, 3, 0, 0, 9), m(2, 5), m(5, 3), "C", "elements would share a place"},
			{"types", m(2, 3), m(2, 5), gemm.NewMatrix[float16.Float16](5, 3, nil), "B", "has elements of f16, want f32 as A has"},
			{"type of C", gemm.NewMatrix[float16.Float16](2, 3, nil), m(2, 5), m(5, 3), "C", "has elements of f16, want f32"},
			{"another engine's", m(2, 3), foreign, m(5, 3), "A", "is on another engine"},
			{"nothing", m(2, 3), nil, m(5, 3), "A", "is a <nil>, want a Matrix"},
		} {
			err := e.Multiply(t.Context(), tc.c, tc.a, tc.b)
			se, ok := errors.AsType[*gemm.ShapeError](err)
			if !ok || se.Arg != tc.arg || !strings.Contains(se.Reason, tc.want) {
				t.Errorf("%s: %v, want a *ShapeError on %s with %q", tc.name, err, tc.arg, tc.want)
			}
		}
		if err := e.Multiply(t.Context(), m(2, 3), (*gemm.DeviceMatrix)(nil), m(5, 3)); err == nil || !strings.Contains(err.Error(), "A is nil") {
			t.Errorf("a nil *DeviceMatrix: %v", err)
		}
		if err := e.Multiply(t.Context(), m(2, 3), strided(2, 5, 0, 0, 1), m(5, 3)); err != nil {
			t.Errorf("A with strides of 0: %v", err)
		}
	})
}

// What the device cannot do and what no kernel does are told apart, before
// anything is computed, and the engine works on.
func TestVariantErrors(t *testing.T) {
	t.Parallel()
	e := deviceEngine(t)
	a, b, c := filled[float32](4, 4, small), filled[float32](4, 4, smallB), gemm.NewMatrix[float32](4, 4, nil)
	for _, tc := range []struct{ kernel, params, limit, param string }{
		{"gemm_tiled", "BM=1024,BN=1024,BK=16,TM=16,TN=16", "maxComputeInvocationsPerWorkgroup", ""},
		{"gemm_tiled", "BM=128,BN=128,BK=64,TM=8,TN=8", "maxComputeWorkgroupStorageSize", ""},
		{"gemm_tiled", "BM=4,BN=8192,BK=1,TM=1,TN=2", "maxComputeWorkgroupSizeX", ""},
		{"gemm_tiled", "BM=7", "", "BM % TM == 0u && BN % TN == 0u"},
		{"gemm_tiled", "IN_F16=true", "", "IN_F16"},
		{"gemm", "", "", ""},
	} {
		err := e.Multiply(t.Context(), c, a, b, with(t, tc.kernel, tc.params)...)
		if le, ok := errors.AsType[*gemm.LimitError](err); tc.limit != "" && (!ok || le.Limit != tc.limit || le.Need <= le.Have) {
			t.Errorf("%s %s: %v, want a *LimitError on %s", tc.kernel, tc.params, err, tc.limit)
		}
		if pe, ok := errors.AsType[*wgsl.ParamError](err); tc.limit == "" && (!ok || pe.Param != tc.param) {
			t.Errorf("%s %s: %v, want a *ParamError on %q", tc.kernel, tc.params, err, tc.param)
		}
	}
	if err := e.Multiply(t.Context(), c, a, b); err != nil || !slices.Equal(c.Data, multiply(a, b).Data) {
		t.Errorf("the engine no longer works: %v", err)
	}
	long := gemm.NewMatrix[float32](70_000, 1, nil)
	err := e.Multiply(t.Context(), gemm.NewMatrix[float32](70_000, 1, nil), long, gemm.NewMatrix[float32](1, 1, nil),
		with(t, "gemm_tiled", "BM=1,BN=1,BK=1,TM=1,TN=1")...)
	if le, ok := errors.AsType[*gemm.LimitError](err); !ok || le.Limit != "maxComputeWorkgroupsPerDimension" {
		t.Errorf("a grid of 70000 rows: %v, want a *LimitError", err)
	}
}

// Many goroutines share an engine.
func TestParallelCalls(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				a := filled[float32](64, 64, func(i, kk int) float64 { return small(g*5+i, kk) })
				b := filled[float32](64, 64, smallB)
				want := multiply(a, b)
				for range 10 {
					c := gemm.NewMatrix[float32](64, 64, nil)
					if err := e.Multiply(t.Context(), c, a, b); err != nil {
						t.Error(err)
						return
					}
					if !slices.Equal(c.Data, want.Data) {
						t.Errorf("goroutine %d: not its own product", g)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestCanceled(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m := filled[float32](4, 4, small)
		if err := e.Multiply(ctx, gemm.NewMatrix[float32](4, 4, nil), m, m); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
	})
}
