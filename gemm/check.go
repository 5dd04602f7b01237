package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// unitF32 is the unit roundoff of binary32: half the distance from 1 to the
	// next number.
	unitF32 = 0x1p-24
	// minNormalF32 is the smallest number below which a device may flush to 0.
	minNormalF32 = 0x1p-126
	// overflowF32 is where a sum starts to round to infinity.
	overflowF32 = 0x1.ffffffp127
)

// rounding is how a type of C rounds: its unit roundoff, half the distance
// between its subnormal numbers, and where it starts to round to infinity.
var rounding = map[DType]struct{ unit, halfStep, overflow float64 }{
	F32:  {unitF32, 0, overflowF32},
	F16:  {0x1p-11, 0x1p-25, 65520},
	BF16: {0x1p-8, 0x1p-134, 0x1.ffp127},
	I32:  {0, 0, 1 << 31},
}

// A Product is what C is compared with: act(alpha A B + beta C0 + bias).
type Product struct {
	A, B        HostMatrix
	Alpha, Beta float32
	C0          HostMatrix // C before the call; not read with Beta = 0
	Bias        HostMatrix // nil for none
	Act         Activation
}

// A Report compares a product with a float64 reference.
type Report struct {
	Checked         int     // elements of C that were compared
	Elements        int     // elements of C
	Ratio           float64 // largest error over its bound; at most 1 is right
	Batch, Row, Col int     // where the largest ratio is
	Got             float64 // C there
	Want            float64 // the reference there
	Bound           float64 // the bound there
	MaxError        float64 // largest absolute error, anywhere
}

// Right reports whether every compared element is within its bound.
func (r Report) Right() bool { return r.Ratio <= 1 }

func (r Report) String() string {
	place := fmt.Sprintf("%d, %d", r.Row, r.Col)
	if r.Batch > 0 {
		place = fmt.Sprintf("%d, %s", r.Batch, place)
	}
	return fmt.Sprintf("C[%s] is %v, want %v within %.3g; the error is %.3g times that", place, r.Got, r.Want, r.Bound, r.Ratio)
}

// maxCheckWork bounds the products that Check forms in float64, a few seconds'
// worth.
const maxCheckWork = 1 << 30

// Check compares C, which is A B as an engine computed it, with a reference in
// float64; see Product.Check.
func Check(c, a, b HostMatrix, seed uint64) Report {
	return Product{A: a, B: b, Alpha: 1}.Check(c, seed)
}

// CheckElement is Check for the element in row i and column j alone.
func CheckElement(c, a, b HostMatrix, i, j int) Report {
	return Product{A: a, B: b, Alpha: 1}.checkRow(c, 0, i, j, 1)
}

// Check compares C, as an engine computed it, with a reference in float64. The
// error of an element may be at most
//
//	gamma(k+4) * (|alpha| |A| |B| + |beta C0| + |bias|)[i, j] + u |C[i, j]|,  gamma(n) = n u' / (1 - n u')
//
// where u' = 2^-24 is the unit roundoff of the sums and u that of C's type:
// k - 1 additions, a product, two roundings for alpha and two additions. It holds
// for any order of summation: Higham, Accuracy and Stability of Numerical
// Algorithms, 2nd edition, section 3.1. Underflow adds the smallest normal number
// per operation, and half the subnormal step of C's type; products of subnormal
// elements may count as 0, since WGSL lets a device flush them. An activation
// passes the error on, at most 1.13 times (the steepest slope of a gelu), and
// adds its own (activationError). A NaN or infinity must be met by the same, and
// an overflow by infinity. Products of int8 must be exact.
//
// Like indexing, Check panics for matrices that do not fit each other.
//
// Of a big product, whole rows are checked: the first and the last of the first
// and the last matrix of the batch, and others drawn at random from seed.
func (x Product) Check(c HostMatrix, seed uint64) Report {
	l, la, lb := c.layout(), x.A.layout(), x.B.layout()
	if l.rows != la.rows || l.cols != lb.cols || la.cols != lb.rows {
		panic(fmt.Sprintf("gemm: Check of a C of %d x %d for A of %d x %d and B of %d x %d", l.rows, l.cols, la.rows, la.cols, lb.rows, lb.cols))
	}
	r := Report{Elements: l.batches * l.rows * l.cols, Ratio: math.Inf(-1)}
	if r.Elements == 0 {
		r.Ratio = 0
		return r
	}
	rows := make([]int, l.batches*l.rows)
	for n := range rows {
		rows[n] = n
	}
	if most := max(maxCheckWork/(max(la.cols, 1)*l.cols), 4); len(rows) > most {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		last := l.batches*l.rows - 1
		rows = append([]int{0, l.rows - 1, last - l.rows + 1, last}, rows[:most-4]...)
		slices.Sort(rows)
		rows = slices.Compact(rows)
	}
	reports := make([]Report, len(rows))
	parallelRows(len(rows), func(n int) {
		reports[n] = x.checkRow(c, rows[n]/l.rows, rows[n]%l.rows, 0, l.cols)
	})
	for _, row := range reports {
		r.merge(row)
	}
	return r
}

// CheckSamples is Check for n elements alone: the first, the last, and others drawn
// at random from seed, of all matrices of the batch.
func (x Product) CheckSamples(c HostMatrix, n int, seed uint64) Report {
	l := c.layout()
	r := Report{Elements: l.batches * l.rows * l.cols, Ratio: math.Inf(-1)}
	if r.Elements == 0 {
		r.Ratio = 0
		return r
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for sample := range n {
		place := rng.IntN(r.Elements)
		switch sample {
		case 0:
			place = 0
		case 1:
			place = r.Elements - 1
		}
		r.merge(x.checkRow(c, place/(l.rows*l.cols), place/l.cols%l.rows, place%l.cols, 1))
	}
	return r
}

// checkRow compares n elements from column from on, in row i of matrix p.
func (x Product) checkRow(c HostMatrix, p, i, from, n int) Report {
	k := x.A.layout().cols
	if x.Alpha == 0 {
		k = 0
	}
	a, b := make([]float64, k), make([]float64, n)
	sums := make([]sum, n)
	x.A.values(p, i, 0, a)
	for kk, u := range a {
		x.B.values(p, kk, from, b)
		tiny := math.Abs(u) < minNormalF32
		for j, v := range b {
			s := &sums[j]
			product := u * v
			s.value += product
			s.abs += math.Abs(product)
			if tiny || math.Abs(v) < minNormalF32 {
				s.flushed += math.Abs(product)
			}
		}
	}
	got, old, bias := make([]float64, n), make([]float64, n), make([]float64, n)
	c.values(p, i, from, got)
	if x.Beta != 0 {
		x.C0.values(p, i, from, old)
	}
	if x.Bias != nil {
		x.Bias.values(p, i, from, bias)
	}
	r := Report{Ratio: math.Inf(-1)}
	for j, s := range sums {
		one := x.judge(c.DType(), k, s, float64(x.Beta)*old[j], bias[j], got[j])
		one.Batch, one.Row, one.Col = p, i, from+j
		r.Elements++
		r.merge(one)
	}
	return r
}

// A sum is one element of A B, with the sum of the magnitudes of its products,
// of all and of those that a device may flush to 0.
type sum struct{ value, abs, flushed float64 }

// judge compares one element with what it is to be.
func (x Product) judge(dtype DType, k int, s sum, old, bias, got float64) Report {
	alpha := float64(x.Alpha)
	want := alpha*s.value + old + bias
	abs := math.Abs(alpha)*s.abs + math.Abs(old) + math.Abs(bias)
	bound := x.bound(k, abs, minNormalF32) + math.Abs(alpha)*s.flushed
	if x.Act != None {
		before := want
		want = x.Act.Of(before)
		bound = 1.13*bound + activationError(before, want)
	}
	to := rounding[dtype]
	bound += to.unit*math.Abs(want) + to.halfStep
	if dtype == I32 {
		bound = 0
	}
	r := Report{Checked: 1, Got: got, Want: want, Bound: bound}
	if math.Abs(want)-bound >= to.overflow {
		r.Want = math.Copysign(math.Inf(1), want)
	}
	switch {
	case got == r.Want, math.IsNaN(got) && math.IsNaN(r.Want):
	case finite64(abs) && max(abs, s.abs) >= overflowF32 && !finite64(got): // a partial sum may overflow
	case math.IsInf(got, 0) && math.Signbit(got) == math.Signbit(want) && math.Abs(want)+bound >= to.overflow:
	case math.IsNaN(got + r.Want), math.IsInf(got+r.Want, 0), bound == 0:
		r.Ratio, r.MaxError = math.Inf(1), math.Inf(1)
	default:
		r.MaxError = math.Abs(got - r.Want)
		r.Ratio = r.MaxError / bound
	}
	return r
}

// bound is gamma(k+4) abs for sums of k products in binary32, with what underflow
// adds: at most tiny in each of k + 2 operations, before alpha.
func (x Product) bound(k int, abs, tiny float64) float64 {
	n := float64(k+4) * unitF32
	return n/(1-n)*abs + float64(k+2)*tiny*max(1, math.Abs(float64(x.Alpha)))
}

// activationError bounds what evaluating an activation in binary32 adds: exp is
// within 3 + 2|x| units in the last place by the WGSL specification, a division
// within 2.5, the polynomial of erf within 1.5e-7, and 1 - t loses what t
// rounds off, times x for a gelu.
func activationError(x, value float64) float64 {
	x = min(math.Abs(x), 128) // beyond, exp is 0
	return 2*unitF32*(8+2*x)*math.Abs(value) + 8*unitF32*max(1, x)
}

func finite64(v float64) bool { return v-v == 0 }

func (r *Report) merge(other Report) {
	checked, elements, maxError := r.Checked+other.Checked, r.Elements, max(r.MaxError, other.MaxError)
	if other.Checked > 0 && other.Ratio > r.Ratio {
		*r = other
	}
	r.Checked, r.Elements, r.MaxError = checked, elements, maxError
}
