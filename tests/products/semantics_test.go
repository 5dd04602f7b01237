package products

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
)

// C = alpha A B + beta C for every pair of the usual factors, exactly, on every
// variant and past the first matrix of a batch; with beta = 0 C holds NaN.
func TestAlphaBeta(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		eachVariant(t, e, func(t *testing.T, v variant, opts []gemm.Option) {
			factors := []float32{0, 1, -0.5}
			if testing.Short() {
				factors = []float32{0, -0.5}
			}
			for _, alpha := range factors {
				for _, beta := range factors {
					scaled[float32, float32](t, e, 9, 10, 11, alpha, beta, opts)
					scaled[float32, float32](t, e, 9, 12, 8, alpha, beta, opts) // in whole vectors
					if alpha == 0 && strings.Contains(v.choice, "pack") {
						continue // as without packing, of which there is a variant
					}
					scaled[float16.Float16, float16.Float16](t, e, 5, 7, 9, alpha, beta, opts)
					if beta == 0 || v.few { // what reads the old C is compiled apart
						scaled[gemm.BFloat16, gemm.BFloat16](t, e, 3, 5, 7, alpha, beta, opts)
					}
				}
			}
		})
	})
}

// NaN as alpha or beta makes every element NaN.
func TestAlphaBetaNaN(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		a := gemm.NewMatrix(2, 2, []float32{1, 2, 3, 4})
		for _, opts := range [][]gemm.Option{{gemm.WithAlpha(float32(nan))}, {gemm.WithBeta(float32(nan))}} {
			c := gemm.NewMatrix(2, 2, []float32{5, 6, 7, 8})
			if err := e.Multiply(t.Context(), c, a, a, opts...); err != nil {
				t.Fatal(err)
			}
			for i, got := range c.Data {
				if got == got {
					t.Errorf("element %d is %v, want NaN", i, got)
				}
			}
		}
	})
}

// old is C before, far from A B and different in each element; exact in all
// types.
func old(p, i, j int) float64 { return float64(32*(i%3) - 8*(j%4) + 4*p) }

func scaled[In, Out gemm.Element](t *testing.T, e *gemm.Engine, m, n, k int, alpha, beta float32, opts []gemm.Option) {
	t.Helper()
	const batch = 3
	a, b := gemm.NewBatch[In](batch, m, k, nil), gemm.NewBatch[In](1, k, n, nil)
	c := gemm.NewBatch[Out](batch, m, n, nil)
	fill(a, func(p, i, j int) float64 {
		if alpha == 0 {
			return nan // must not be read
		}
		return float64((p+i*2+j)%3 - 1)
	})
	fill(b, func(_, i, j int) float64 { return float64((i+j*2)%5 - 2) })
	fill(c, func(p, i, j int) float64 {
		if beta == 0 {
			return nan // must not be read
		}
		return old(p, i, j)
	})
	opts = append(slices.Clone(opts), gemm.WithAlpha(alpha), gemm.WithBeta(beta))
	if err := e.Multiply(t.Context(), c, a, b, opts...); err != nil {
		t.Fatal(err)
	}
	for p := range batch {
		for i := range m {
			for j := range n {
				want := 0.0
				for kk := 0; kk < k && alpha != 0; kk++ {
					want += number(a.Data[(p*m+i)*k+kk]) * number(b.Data[kk*n+j])
				}
				want *= float64(alpha)
				if beta != 0 {
					want += float64(beta) * old(p, i, j)
				}
				if got := number(c.Data[(p*m+i)*n+j]); got != number(element[Out](want)) {
					t.Fatalf("%s to %s, alpha %v, beta %v: C[%d, %d, %d] is %v, want %v", a.DType(), c.DType(), alpha, beta, p, i, j, got, want)
				}
			}
		}
	}
}

// Factors that are no numbers multiply as any other: with operands on the host and
// on the device, NaN comes out where it was and nothing is refused.
func TestFactorsNotFinite(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		inf := math.Inf(1)
		opts := with(t, "gemm_naive", "")
		a := gemm.NewMatrix(1, 2, []float32{1, 2})
		b := gemm.NewMatrix(2, 3, []float32{1, 2, -3, 0, 1, 1})
		for _, tc := range []struct {
			alpha, beta float64
			want        []float64 // for C = 2, 0, -1 and A B = 1, 4, -1
		}{
			{nan, 0, []float64{nan, nan, nan}},
			{nan, 2, []float64{nan, nan, nan}},
			{1, nan, []float64{nan, nan, nan}},
			{0, nan, []float64{nan, nan, nan}},
			{inf, 0, []float64{inf, inf, -inf}},
			{1, inf, []float64{inf, nan, -inf}},
			{inf, -1, []float64{inf, inf, -inf}},
		} {
			for _, onDevice := range []bool{false, true} {
				c := gemm.NewMatrix(1, 3, []float32{2, 0, -1})
				var out gemm.Operand = c
				if onDevice {
					d, err := e.Upload(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					defer d.Close()
					out = d
				}
				err := e.Multiply(t.Context(), out, a, b, append(slices.Clone(opts), gemm.WithAlpha(float32(tc.alpha)), gemm.WithBeta(float32(tc.beta)))...)
				if d, ok := out.(*gemm.DeviceMatrix); ok && err == nil {
					err = e.Download(t.Context(), c, d)
				}
				if err != nil {
					t.Fatalf("alpha %v, beta %v: %v", tc.alpha, tc.beta, err)
				}
				for j, want := range tc.want {
					if got := float64(c.Data[j]); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
						t.Errorf("alpha %v, beta %v, on the device %v: C[%d] is %v, want %v", tc.alpha, tc.beta, onDevice, j, got, want)
					}
				}
			}
		}
	})
}

// The matrices of a batch may lie in each other's gaps, in C too: rows, columns and
// the batch take any order in memory, as long as no two elements share a place.
func TestInterleavedBatch(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		opts := with(t, "gemm_naive", "")
		const batch, m, n, k = 2, 3, 4, 5
		a, b := gemm.NewBatch[float32](batch, m, k, nil), gemm.NewBatch[float32](batch, k, n, nil)
		fill(a, func(p, i, kk int) float64 { return float64((p+2*i+kk)%5 - 2) })
		fill(b, func(p, kk, j int) float64 { return float64((3*p+kk+2*j)%7 - 3) })
		for _, s := range [][3]int{{n, 1, m * n}, {1, m, m * n}, {batch * n, 1, n}, {1, batch * m, m}, {batch * n, batch, 1}, {batch, batch * m, 1}} {
			c := gemm.NewBatch[float32](batch, m, n, nil)
			c.RowStride, c.ColStride, c.BatchStride = s[0], s[1], s[2]
			if err := e.Multiply(t.Context(), c, a, b, opts...); err != nil {
				t.Errorf("strides %v: %v", s, err)
				continue
			}
			for p := range batch {
				for i := range m {
					for j := range n {
						var want float32
						for kk := range k {
							want += a.Data[(p*m+i)*k+kk] * b.Data[(p*k+kk)*n+j]
						}
						if got := c.Data[p*s[2]+i*s[0]+j*s[1]]; got != want {
							t.Fatalf("strides %v: C[%d, %d, %d] is %v, want %v", s, p, i, j, got, want)
						}
					}
				}
			}
		}
	})
}

// fill sets every element of a batch.
func fill[T gemm.Element](m gemm.Matrix[T], f func(p, i, j int) float64) {
	for p := range max(m.Batch, 1) {
		for i := range m.Rows {
			for j := range m.Cols {
				m.Data[p*m.BatchStride+i*m.RowStride+j*m.ColStride] = element[T](f(p, i, j))
			}
		}
	}
}

// Every activation, with every form of bias, stays within the bound of analysis;
// NaN stays NaN, and large arguments saturate.
func TestBiasAndActivation(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		// One kernel, the quickest to compile: all share the part that finishes.
		opts := with(t, "gemm_naive", "")
		rng := newRand()
		uniform := func(scale float64) func(p, i, j int) float64 {
			return func(int, int, int) float64 { return scale * (2*rng.Float64() - 1) }
		}
		for _, name := range gemm.Activations() {
			act, err := gemm.ParseActivation(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range [][3]int{{1, 1, 1}, {1, 33, 1}, {20, 1, 1}, {20, 33, 1}, {1, 33, 2}} {
				a, b := gemm.NewBatch[float32](2, 20, 17, nil), gemm.NewBatch[float32](2, 17, 33, nil)
				bias := gemm.NewBatch[float32](size[2], size[0], size[1], nil)
				fill(a, uniform(2))
				fill(b, uniform(2))
				fill(bias, uniform(5))
				c := gemm.NewBatch[float32](2, 20, 33, nil)
				if err := e.Multiply(t.Context(), c, a, b, append(opts, gemm.WithBias(bias), gemm.WithActivation(act))...); err != nil {
					t.Fatal(err)
				}
				x := gemm.Product{A: a, B: b, Alpha: 1, Bias: bias, Act: act}
				if r := x.Check(c, seed); !r.Right() || r.Checked != 2*20*33 {
					t.Errorf("%s, bias %v: %v", name, size, r)
				}
			}
			x := gemm.NewMatrix(1, 6, []float32{-100, -20, 0, 20, 100, float32(nan)})
			y := gemm.NewMatrix[float32](1, 6, nil)
			identity := filled[float32](1, 1, func(int, int) float64 { return 1 })
			if err := e.Multiply(t.Context(), y.Transposed(), x.Transposed(), identity, append(opts, gemm.WithActivation(act))...); err != nil {
				t.Fatal(err)
			}
			for i, v := range x.Data {
				want := act.Of(float64(v))
				if got := float64(y.Data[i]); !(math.Abs(got-want) <= 1e-4*max(1, math.Abs(want))) && !(math.IsNaN(got) && math.IsNaN(want)) {
					t.Errorf("%s of %v is %v, want %v", name, v, got, want)
				}
			}
		}
	})
}

// Batches of odd matrices, whose places are on no boundary, with operands that
// are the same for all, transposed and with gaps, in every type.
func TestBatches(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		eachVariant(t, e, func(t *testing.T, v variant, opts []gemm.Option) {
			batched[float32](t, e, opts)
			batched[float16.Float16](t, e, opts)
			batched[gemm.BFloat16](t, e, opts)
		})
	})
}

func batched[T gemm.Element](t *testing.T, e *gemm.Engine, opts []gemm.Option) {
	t.Helper()
	const batch, m, n, k = 5, 3, 3, 3
	for _, shared := range []string{"", "A", "B", "A and B"} {
		a, b := gemm.NewBatch[T](batch, m, k, nil), gemm.NewBatch[T](batch, k, n, nil)
		fill(a, func(p, i, j int) float64 { return float64((p*5+i*7+j*3)%7 - 3) })
		fill(b, func(p, i, j int) float64 { return float64((p*3+i*5+j*11)%5 - 2) })
		if strings.Contains(shared, "A") {
			a.BatchStride = 0
		}
		if strings.Contains(shared, "B") {
			b.Batch = 0 // one matrix
		}
		// C is transposed, with a gap behind each matrix.
		c := gemm.Matrix[T]{
			Data: make([]T, batch*(m*n+1)), Rows: m, Cols: n, RowStride: 1, ColStride: m, Batch: batch, BatchStride: m*n + 1,
		}
		gap := element[T](7)
		for i := range c.Data {
			c.Data[i] = gap
		}
		if err := e.Multiply(t.Context(), c, a, b, opts...); err != nil {
			t.Fatal(err)
		}
		for p := range batch {
			for i := range m {
				for j := range n {
					want := 0.0
					for kk := range k {
						want += number(a.Data[p*a.BatchStride+i*k+kk]) * number(b.Data[min(b.Batch, 1)*p*b.BatchStride+kk*n+j])
					}
					if got := number(c.Data[p*c.BatchStride+j*m+i]); got != want {
						t.Fatalf("%s shared %q: C[%d, %d, %d] is %v, want %v", a.DType(), shared, p, i, j, got, want)
					}
				}
			}
			if got := c.Data[p*c.BatchStride+m*n]; got != gap {
				t.Errorf("%s: the gap behind matrix %d is now %v", a.DType(), p, number(got))
			}
		}
	}
}

// A batch longer than a grid may be takes several dispatches.
func TestLongBatch(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		const batch = 70_000
		a, b := gemm.NewBatch[float32](batch, 1, 1, nil), gemm.NewBatch[float32](1, 1, 1, []float32{3})
		fill(a, func(p, _, _ int) float64 { return float64(p) })
		c := gemm.NewBatch[float32](batch, 1, 1, nil)
		opts := with(t, "gemm_naive", "BM=1,BN=1") // the least work for each matrix
		if err := e.Multiply(t.Context(), c, a, b, opts...); err != nil {
			t.Fatal(err)
		}
		for p, got := range c.Data {
			if got != float32(3*p) {
				t.Fatalf("matrix %d is %v, want %d", p, got, 3*p)
			}
		}
	})
}

// int8 times int8 is exact in int32, whatever the offset in a word, and up to
// the ends of the range.
func TestInt8(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		eachVariant(t, e, func(t *testing.T, v variant, opts []gemm.Option) {
			if strings.Contains(v.choice, "NATIVE_F16") {
				t.Skip("the variant differs for elements of binary16 alone; of int8 it is the one without NATIVE_F16")
			}
			if v.kernel == "gemm_compensated" {
				t.Skip("sums of int8 are exact without it")
			}
			rng := newRand()
			for _, size := range [][3]int{{2, 2, 2}, {3, 3, 3}, {13, 7, 301}, {33, 65, 17}} {
				m, n, k := size[0], size[1], size[2]
				a, b := gemm.NewMatrix[int8](m, k, nil), gemm.NewMatrix[int8](n, k, nil).Transposed()
				fill(a, func(int, int, int) float64 { return float64(rng.IntN(256) - 128) })
				fill(b, func(int, int, int) float64 { return float64(rng.IntN(256) - 128) })
				a.Data[0], b.Data[0] = -128, -128
				c := gemm.NewMatrix[int32](m, n, nil)
				if err := e.Multiply(t.Context(), c, a, b, opts...); err != nil {
					t.Fatal(err)
				}
				for i := range m {
					for j := range n {
						want := int32(0)
						for kk := range k {
							want += int32(a.At(i, kk)) * int32(b.At(kk, j))
						}
						if got := c.At(i, j); got != want {
							t.Fatalf("%v: C[%d, %d] is %d, want %d", size, i, j, got, want)
						}
					}
				}
			}
		})
	})
}

func TestSemanticErrors(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		m := func(batch, rows, cols int) gemm.Matrix[float32] {
			return gemm.NewBatch[float32](batch, rows, cols, nil)
		}
		bytes := gemm.NewMatrix[int8](2, 2, nil)
		squeezed := m(3, 2, 3)
		squeezed.BatchStride = 5
		for _, tc := range []struct {
			name    string
			c, a, b gemm.Operand
			opts    []gemm.Option
			arg     string
			want    string
		}{
			{"batch of A", m(3, 2, 3), m(2, 2, 5), m(1, 5, 3), nil, "A", "has a batch of 2, want 3 as C has, or 1"},
			{"batch of C", m(1, 2, 3), m(2, 2, 5), m(2, 5, 3), nil, "A", "has a batch of 2, want 1 as C has"},
			{"matrices of C overlap", squeezed, m(3, 2, 5), m(3, 5, 3), nil, "C", "elements would share a place"},
			{"bias", m(1, 2, 3), m(1, 2, 5), m(1, 5, 3), []gemm.Option{gemm.WithBias(m(1, 3, 1))}, "the bias", "is 3 x 1, want a row of 3, a column of 2, or 2 x 3"},
			{"type of the bias", m(1, 2, 3), m(1, 2, 5), m(1, 5, 3), []gemm.Option{gemm.WithBias(bytes)}, "the bias", "has elements of i8, want f32"},
			{"int8 to f32", m(1, 2, 2), bytes, bytes, nil, "C", "has elements of f32, want i32"},
			{"int8 scaled", gemm.NewMatrix[int32](2, 2, nil), bytes, bytes, []gemm.Option{gemm.WithAlpha(2)}, "A", "no alpha"},
			{"int8 compensated", gemm.NewMatrix[int32](2, 2, nil), bytes, bytes, []gemm.Option{gemm.WithAccumulator(gemm.AccF32x2)}, "A", "sums are exact"},
			{"int32", gemm.NewMatrix[int32](2, 2, nil), gemm.NewMatrix[int32](2, 2, nil), bytes, nil, "A", "has elements of i32"},
			{"bf16 to f16", gemm.NewMatrix[float16.Float16](1, 1, nil), gemm.NewMatrix[gemm.BFloat16](1, 1, nil), gemm.NewMatrix[gemm.BFloat16](1, 1, nil), nil, "C", "want bf16 or f32"},
			{"activation", m(1, 2, 3), m(1, 2, 5), m(1, 5, 3), []gemm.Option{gemm.WithActivation(99)}, "the activation", "is number 99"},
			{"accumulator", m(1, 2, 3), m(1, 2, 5), m(1, 5, 3), []gemm.Option{gemm.WithAccumulator(9)}, "the accumulator", "is number 9 of 2"},
		} {
			err := e.Multiply(t.Context(), tc.c, tc.a, tc.b, tc.opts...)
			se, ok := errors.AsType[*gemm.ShapeError](err)
			if !ok || se.Arg != tc.arg || !strings.Contains(se.Reason, tc.want) {
				t.Errorf("%s: %v, want a *ShapeError on %s with %q", tc.name, err, tc.arg, tc.want)
			}
		}
		if _, err := gemm.ParseActivation("swish"); err == nil || !strings.Contains(err.Error(), "silu") {
			t.Errorf("an activation that is not there: %v", err)
		}
	})
}

// bfloat16 is rounded to nearest, ties to even, on the host and on the device.
func TestBFloat16(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		v    float32
		want gemm.BFloat16
	}{
		{0, 0},
		{1, 0x3f80},
		{float32(math.Copysign(0, -1)), 0x8000},
		{1 + 0x1p-8, 0x3f80},            // a tie, to even
		{1 + 0x1p-8 + 0x1p-20, 0x3f81},  // above it
		{1 + 0x1p-7 + 0x1p-8, 0x3f82},   // a tie, to even
		{math.MaxFloat32, 0x7f80},       // to infinity
		{float32(math.Inf(-1)), 0xff80}, //
		{0x1p-133, 0x0001},              // the smallest subnormal
	} {
		if got := gemm.ToBFloat16(tc.v); got != tc.want {
			t.Errorf("%v is %#04x, want %#04x", tc.v, got, tc.want)
		}
	}
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		rng := newRand()
		x, y := gemm.NewMatrix[gemm.BFloat16](300, 1, nil), gemm.NewMatrix[gemm.BFloat16](1, 300, nil)
		random := func(int, int, int) float64 { return math.Ldexp(rng.Float64()+1, rng.IntN(60)-30) }
		fill(x, random)
		fill(y, random)
		c := gemm.NewMatrix[gemm.BFloat16](300, 300, nil)
		if err := e.Multiply(t.Context(), c, x, y); err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			for j := range 300 {
				want := gemm.ToBFloat16(x.Data[i].Float32() * y.Data[j].Float32()) // exact before rounding
				if got := c.At(i, j); got != want {
					t.Fatalf("%v times %v is %v, want %v", x.Data[i].Float32(), y.Data[j].Float32(), got.Float32(), want.Float32())
				}
			}
		}
	})
}

// Edges after tiles of 15 columns would start within a vector of B, C and the bias.
func TestEdgesOfAnyTile(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		a, b := gemm.NewMatrix[float32](4, 8, nil), gemm.NewMatrix[float32](8, 16, nil)
		bias, c := gemm.NewMatrix[float32](1, 16, nil), gemm.NewMatrix[float32](4, 16, nil)
		fill(a, func(_, i, j int) float64 { return float64(i + j) })
		fill(b, func(_, i, j int) float64 { return float64(i - j) })
		fill(bias, func(_, _, j int) float64 { return float64(1000 * j) })
		fill(c, old)
		opts := append(with(t, "gemm_tiled", "BM=4,BN=15,BK=4,TM=1,TN=5;edges"), gemm.WithBeta(1), gemm.WithBias(bias))
		if err := e.Multiply(t.Context(), c, a, b, opts...); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			for j := range 16 {
				want := old(0, i, j) + float64(1000*j)
				for k := range 8 {
					want += float64((i + k) * (k - j))
				}
				if got := c.At(i, j); float64(got) != want {
					t.Errorf("C[%d, %d] is %v, want %v", i, j, got, want)
				}
			}
		}
	})
}

// Where only numbers of the problem change and the tile stays, nothing is compiled:
// there is one variant for what can be read four elements at a time, and one for the
// rest; and one more of each that reads the old C.
func TestOnePipelineForAllShapes(t *testing.T) {
	t.Parallel()
	e := deviceEngine(t)
	names := map[string]bool{}
	for _, size := range [][3]int{{17, 18, 19}, {100, 33, 5}, {64, 64, 64}, {100, 24, 36}} {
		a, b := gemm.NewMatrix[float32](size[0], size[2], nil), gemm.NewMatrix[float32](size[2], size[1], nil)
		for _, opts := range [][]gemm.Option{nil, {gemm.WithAlpha(2)}, {gemm.WithBeta(0.5)}, {gemm.WithBeta(-1)}} {
			opts = append(opts, with(t, "gemm_block", "BM=32,BN=32")...)
			p, err := e.Plan(gemm.NewMatrix[float32](size[0], size[1], nil), a, b, opts...)
			if err != nil {
				t.Fatal(err)
			}
			names[p.Name()] = true
		}
	}
	if len(names) != 4 {
		t.Errorf("variants %v, want four", fmt.Sprint(names))
	}
}
