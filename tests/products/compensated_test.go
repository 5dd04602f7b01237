package products

import (
	"errors"
	"math"
	"testing"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/wgsl"
)

// A dot is an element of A B in more digits than any engine has, and the same of
// the magnitudes.
type dot struct{ value, abs float64 }

// dotOf sums products of binary32, which are exact in float64, with Neumaier's
// compensation.
func dotOf(k int, x, y func(kk int) float64) dot {
	var d dot
	var lost float64
	for kk := range k {
		product := x(kk) * y(kk)
		sum := d.value + product
		if math.Abs(d.value) >= math.Abs(product) {
			lost += (d.value - sum) + product
		} else {
			lost += (product - sum) + d.value
		}
		d.value = sum
		d.abs += math.Abs(product)
	}
	d.value += lost
	return d
}

// compensatedBound is that of wgsl/gemm_compensated.wgsl, for its default BK.
func compensatedBound(k int, d dot) float64 {
	const u, bk = 0x1p-24, 32
	gamma := bk * u / (1 - bk*u)
	return u*math.Abs(d.value) + (gamma*gamma+4*(float64(k)/bk+1)*u*u)*d.abs
}

// ulp is a unit in the last place of x in binary32.
func ulp(x float64) float64 {
	_, exponent := math.Frexp(x)
	return math.Ldexp(1, exponent-24)
}

// At k = 10^6 compensated sums are within 2 units in the last place: of equal
// numbers, whose plain sum drifts by near 1 %, and of random ones, whose sum is a
// thousandth of what is added up.
func TestCompensatedLongSums(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		const m, n, k = 2, 3, 1_000_000
		tile := gemm.WithKernel("", wgsl.Params{"BM": m, "BN": n, "TM": 1, "TN": 1}) // no more work than there is
		rng := newRand()
		for _, tc := range []struct {
			name string
			f    func(i, j int) float64
		}{
			{"equal", func(int, int) float64 { return 0.1 }},
			{"near one", func(int, int) float64 { return 1 + 0.01*rng.Float64() }},
			{"of both signs", func(int, int) float64 { return 2*rng.Float64() - 1 }},
		} {
			a, b := filled[float32](m, k, tc.f), filled[float32](k, n, tc.f)
			c := gemm.NewMatrix[float32](m, n, nil)
			if err := e.Multiply(t.Context(), c, a, b, gemm.WithAccumulator(gemm.AccF32x2), tile); err != nil {
				t.Fatal(err)
			}
			for i := range m {
				for j := range n {
					want := dotOf(k, func(kk int) float64 { return number(a.At(i, kk)) }, func(kk int) float64 { return number(b.At(kk, j)) })
					if got := number(c.At(i, j)); !(math.Abs(got-want.value) <= 2*ulp(want.value)) {
						t.Errorf("%s: C[%d, %d] is %v, want %v within 2 ulp: it is %.3g", tc.name, i, j, got, want.value, math.Abs(got-want.value)/ulp(want.value))
					}
				}
			}
		}
	})
}

// What a product or a sum rounds off is kept to the last bit, so that the result
// is exact where all but that cancels.
func TestCompensatedKeepsAll(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short, for slow adapters: TestCompensatedLongSums stands for it")
	}
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		const batch = 1000
		rng := newRand()
		random := func(exponents int) float32 {
			sign := float64(1 - 2*rng.IntN(2))
			return float32(math.Ldexp(sign*(1+rng.Float64()), rng.IntN(2*exponents+1)-exponents))
		}
		for _, tc := range []struct {
			name  string
			terms func() (x, y []float32)
		}{
			{"error of a product", func() ([]float32, []float32) {
				x, y := random(20), random(15)
				return []float32{x, -(x * y)}, []float32{y, 1}
			}},
			{"error of a sum", func() ([]float32, []float32) {
				x, y := random(10), random(10)
				return []float32{x, y, -(x + y)}, []float32{1, 1, 1}
			}},
			{"small between large", func() ([]float32, []float32) {
				x, y := random(4)*0x1p20, random(4)
				return []float32{x, y, -x}, []float32{1, 1, 1}
			}},
		} {
			var x, y []float32
			k := 0
			for range batch {
				xs, ys := tc.terms()
				x, y, k = append(x, xs...), append(y, ys...), len(xs)
			}
			c := gemm.NewBatch[float32](batch, 1, 1, nil)
			if err := e.Multiply(t.Context(), c, gemm.NewBatch(batch, 1, k, x), gemm.NewBatch(batch, k, 1, y), gemm.WithAccumulator(gemm.AccF32x2)); err != nil {
				t.Fatal(err)
			}
			for p, got := range c.Data {
				xs, ys := x[p*k:][:k], y[p*k:][:k]
				want := dotOf(k, func(kk int) float64 { return float64(xs[kk]) }, func(kk int) float64 { return float64(ys[kk]) })
				if float64(got) != want.value {
					t.Fatalf("%s: %v times %v is %v, want exactly %v", tc.name, xs, ys, got, want.value)
				}
			}
		}
	})
}

// Sums that nearly cancel stay within the kernel's bound, in each type, over
// several slices and with a rest.
func TestCompensatedBound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short, for slow adapters: TestCompensatedLongSums stands for it")
	}
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		for _, k := range []int{1, 31, 33, 1000} {
			compensated[float32](t, e, k)
			compensated[float16.Float16](t, e, k)
			compensated[gemm.BFloat16](t, e, k)
		}
	})
}

func compensated[T gemm.Element](t *testing.T, e *gemm.Engine, k int) {
	t.Helper()
	const m, n = 35, 33 // past a tile
	rng := newRand()
	uniform := func(int, int) float64 { return 2*rng.Float64() - 1 }
	a, b := filled[T](m, 2*k, uniform), filled[T](2*k, n, uniform)
	// The second half takes the first one away, but for the last bits of each.
	for i := range m {
		for kk := range k {
			a.Data[i*2*k+k+kk] = element[T](number(a.Data[i*2*k+kk]) * (1 + 0x1p-7))
		}
	}
	for kk := range k {
		for j := range n {
			b.Data[(k+kk)*n+j] = element[T](-number(b.Data[kk*n+j]))
		}
	}
	c := gemm.NewMatrix[float32](m, n, nil)
	if err := e.Multiply(t.Context(), c, a, b, gemm.WithAccumulator(gemm.AccF32x2)); err != nil {
		t.Fatal(err)
	}
	for i := range m {
		for j := range n {
			want := dotOf(2*k, func(kk int) float64 { return number(a.At(i, kk)) }, func(kk int) float64 { return number(b.At(kk, j)) })
			if got := number(c.At(i, j)); !(math.Abs(got-want.value) <= compensatedBound(2*k, want)) {
				t.Fatalf("%s, k = %d: C[%d, %d] is %v, want %v within %v", a.DType(), 2*k, i, j, got, want.value, compensatedBound(2*k, want))
			}
		}
	}
}

// The accumulator chooses the kernel and takes its tunables, and is part of the
// plan; with another kernel it is refused. What follows the sum is as ever.
func TestAccumulator(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		a, b := filled[float32](5, 7, small), filled[float32](7, 3, smallB)
		c := filled[float32](5, 3, small)
		pairs := gemm.WithAccumulator(gemm.AccF32x2)
		p, err := e.Plan(c, a, b, pairs, gemm.WithKernel("", wgsl.Params{"BM": 8, "TM": 1}))
		if want := "gemm_compensated/BM=8,BN=32,BK=32,TM=1,TN=2,UNROLL=true"; err != nil || p.Name() != want {
			t.Errorf("the plan is %s, error %v, want %s", p.Name(), err, want)
		}
		_, err = e.Plan(c, a, b, pairs, gemm.WithKernel("gemm_tiled", nil))
		if pe, ok := errors.AsType[*wgsl.ParamError](err); !ok || pe.Kernel != "gemm_tiled" {
			t.Errorf("with another kernel: %v, want a *wgsl.ParamError", err)
		}
		bytes := gemm.NewMatrix[int8](2, 2, nil)
		_, err = e.Plan(gemm.NewMatrix[int32](2, 2, nil), bytes, bytes, gemm.WithKernel("gemm_compensated", nil))
		if pe, ok := errors.AsType[*wgsl.ParamError](err); !ok || pe.Param != "IN_I8 == false" {
			t.Errorf("int8 with the kernel by name: %v, want a *wgsl.ParamError", err)
		}
		bias := gemm.NewMatrix(1, 3, []float32{1, 2, 3})
		x := gemm.Product{A: a, B: b, Alpha: 0.5, Beta: -1, C0: filled[float32](5, 3, small), Bias: bias, Act: gemm.ReLU}
		opts := []gemm.Option{pairs, gemm.WithAlpha(x.Alpha), gemm.WithBeta(x.Beta), gemm.WithBias(bias), gemm.WithActivation(x.Act)}
		if err := e.Multiply(t.Context(), c, a, b, opts...); err != nil {
			t.Fatal(err)
		}
		if r := x.Check(c, seed); !r.Right() {
			t.Error(r)
		}
	})
}
