package gemm

import (
	"math"
	"math/rand/v2"
)

// sumVectors is how many random vectors CheckSums multiplies by. Two wrong
// elements of a row, of the same size, hide from one with probability 1/2.
const sumVectors = 16

// CheckSums compares sums over every row of C, elements with random signs, with
// A (B x) in float64: Freivalds' check (Probabilistic machines can use less
// running time, IFIP Congress 1977), which takes n^2 steps and not n^3. x is
// drawn from seed and holds 1 and -1, so that a single wrong element of a row
// always shows in its sum.
//
// Where exact is set, every product must be exact, for instance of small whole
// numbers; then a row with wrong elements is accepted with a probability of at
// most 2^-16. Else a sum may be off by the sum of the bounds of Check, which is n
// times that of an element: that finds an element which was never written or is
// far too large, and no rounding error. Check sees those, in the rows it takes.
//
// Got, Want and Bound of the report are of the sum of row Row; Col is -1. x must
// have no activation. Shapes are as in Check.
func (x Product) CheckSums(c HostMatrix, exact bool, seed uint64) Report {
	l, la := c.layout(), x.A.layout()
	r := Report{Elements: l.batches * l.rows * l.cols, Ratio: math.Inf(-1)}
	if r.Elements == 0 {
		r.Ratio = 0
		return r
	}
	k := la.cols
	if x.Alpha == 0 {
		k = 0
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	signs := make([]uint16, l.cols) // bit v is set where vector v holds -1
	for j := range signs {
		signs[j] = uint16(rng.Uint32())
	}
	for p := range l.batches {
		right := make([]signed, k) // B x, and |B| times a vector of ones
		parallelRows(k, func(kk int) { right[kk] = signedSum(x.B, p, kk, signs) })
		reports := make([]Report, l.rows)
		parallelRows(l.rows, func(i int) { reports[i] = x.checkSum(c, p, i, exact, signs, right) })
		for _, row := range reports {
			r.merge(row)
		}
	}
	return r
}

// signed is a row of a matrix times each random vector, and the sum and the
// largest of its magnitudes.
type signed struct {
	sums         [sumVectors]float64
	abs, largest float64
}

func (s *signed) add(v float64, signs uint16) {
	for n := range s.sums {
		if signs>>n&1 == 0 {
			s.sums[n] += v
		} else {
			s.sums[n] -= v
		}
	}
	s.abs += math.Abs(v)
	s.largest = max(s.largest, math.Abs(v))
}

func signedSum(m HostMatrix, p, i int, signs []uint16) signed {
	var s signed
	row := make([]float64, len(signs))
	m.values(p, i, 0, row)
	for j, v := range row {
		s.add(v, signs[j])
	}
	return s
}

// checkSum compares the sums over row i of matrix p.
func (x Product) checkSum(c HostMatrix, p, i int, exact bool, signs []uint16, right []signed) Report {
	got := signedSum(c, p, i, signs)
	var want signed // of A (B x) and what is added; abs is of the magnitudes
	row := make([]float64, len(right))
	x.A.values(p, i, 0, row)
	alpha := float64(x.Alpha)
	for kk, v := range row {
		for n, s := range right[kk].sums {
			want.sums[n] += alpha * v * s
		}
		want.abs += math.Abs(alpha*v) * right[kk].abs
		want.largest = max(want.largest, math.Abs(v), right[kk].largest)
	}
	add := func(m HostMatrix, factor float64) {
		s := signedSum(m, p, i, signs)
		for n, v := range s.sums {
			want.sums[n] += factor * v
		}
		want.abs += math.Abs(factor) * s.abs
	}
	if x.Beta != 0 {
		add(x.C0, float64(x.Beta))
	}
	if x.Bias != nil {
		add(x.Bias, 1)
	}
	bound := 0.0
	if !exact {
		n, to := float64(len(signs)), rounding[c.DType()]
		tiny := n * minNormalF32 * (1 + want.largest) // a product that was flushed, once for each column
		bound = x.bound(len(right), want.abs, tiny) + to.unit*got.abs + n*to.halfStep
	}
	r := Report{Ratio: math.Inf(-1)}
	for v, w := range want.sums {
		one := Report{Checked: len(signs), Batch: p, Row: i, Col: -1, Got: got.sums[v], Want: w, Bound: bound}
		switch one.MaxError = math.Abs(got.sums[v] - w); {
		case one.MaxError == 0:
		case !(one.MaxError <= bound) && bound == 0, math.IsNaN(one.MaxError):
			one.Ratio, one.MaxError = math.Inf(1), math.Inf(1)
		default:
			one.Ratio = one.MaxError / bound
		}
		if one.Ratio > r.Ratio {
			r = one
		}
	}
	r.Elements = len(signs)
	return r
}
