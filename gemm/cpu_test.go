package gemm

import (
	"math"
	"testing"
)

// At k = 10^6 one chain of equal products drifts by near 1 %. Both ways of the
// CPU path stay within the bound of blocked summation, which that chain is past:
// Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section
// 4.2.
func TestCPUSlices(t *testing.T) {
	t.Parallel()
	const k, value = 1_000_000, float32(0.1)
	bound := func(exact float64) float64 {
		n := float64(cpuSlice+ceilDiv(k, cpuSlice)) * unitF32
		return n / (1 - n) * exact
	}
	exact := k * float64(value) * float64(value)
	var chain float32
	for range k {
		chain += value * value
	}
	if math.Abs(float64(chain)-exact) <= bound(exact) {
		t.Fatalf("one chain gives %v, within %v of %v: the test tests nothing", chain, bound(exact), exact)
	}
	for _, transposed := range []bool{false, true} {
		for _, name := range []string{"gonum", "by the definition"} {
			a, b := NewMatrix[float32](3, k, nil), NewMatrix[float32](k, 2, nil)
			if transposed {
				a, b = NewMatrix[float32](k, 3, nil).Transposed(), NewMatrix[float32](2, k, nil).Transposed()
			}
			for i := range a.Data {
				a.Data[i] = value
			}
			for i := range b.Data {
				b.Data[i] = value
			}
			rows := 3
			if name != "gonum" { // a row that is not finite keeps gonum away
				rows = 2
				a.Data[2*a.RowStride] = float32(math.Inf(1))
			}
			c := NewMatrix[float32](3, 2, nil)
			if err := NewCPU().Multiply(t.Context(), c, a, b); err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				for j := range 2 {
					if got := float64(c.At(i, j)); !(math.Abs(got-exact) <= bound(exact)) {
						t.Errorf("%s, transposed %t: C[%d, %d] is %v, want %v within %v", name, transposed, i, j, got, exact, bound(exact))
					}
				}
			}
			if rows == 2 && !math.IsInf(float64(c.At(2, 0)), 1) {
				t.Errorf("%s: infinity became %v", name, c.At(2, 0))
			}
		}
	}
}
