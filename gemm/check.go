package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
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
	Checked  int     `json:"checked"`  // elements of C that were compared
	Elements int     `json:"elements"` // elements of C
	Ratio    float64 `json:"ratio"`    // largest error over its bound; at most 1 is right
	Batch    int     `json:"batch"`    // where the largest ratio is
	Row      int     `json:"row"`
	Col      int     `json:"col"`
	Got      float64 `json:"got"`       // C there
	Want     float64 `json:"want"`      // the reference there
	Bound    float64 `json:"bound"`     // the bound there
	MaxError float64 `json:"max_error"` // largest absolute error, anywhere
}

// Right reports whether every compared element is within its bound.
func (r Report) Right() bool { return r.Ratio <= 1 }

func (r Report) String() string {
	place := fmt.Sprintf("%d, %d", r.Row, r.Col)
	if r.Batch > 0 {
		place = fmt.Sprintf("%d, %s", r.Batch, place)
	}
	return fmt.Sprintf("C[%s] is %v, want %v within %.3g (error %.3g of the bound)", place, r.Got, r.Want, r.Bound, r.Ratio)
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
	return Product{A: a, B: b, Alpha: 1}.checkElement(c, 0, i, j)
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
// A big product is checked in elements drawn at random from seed, and in the
// corners of the first and the last matrix of a batch.
func (x Product) Check(c HostMatrix, seed uint64) Report {
	l, k := c.layout(), x.A.layout().cols
	r := Report{Elements: l.batches * l.rows * l.cols, Ratio: math.Inf(-1)}
	if r.Elements == 0 {
		r.Ratio = 0
		return r
	}
	most := max(maxCheckWork/max(k, 1), 64)
	if r.Elements <= most {
		rows := make([]Report, l.batches*l.rows)
		parallelRows(len(rows), func(n int) {
			rows[n] = Report{Ratio: math.Inf(-1)}
			for j := range l.cols {
				rows[n].merge(x.checkElement(c, n/l.rows, n%l.rows, j))
			}
		})
		for _, row := range rows {
			r.merge(row)
		}
		return r
	}
	for _, p := range []int{0, l.batches - 1} {
		for _, i := range []int{0, l.rows - 1} {
			for _, j := range []int{0, l.cols - 1} {
				r.merge(x.checkElement(c, p, i, j))
			}
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for r.Checked < most {
		r.merge(x.checkElement(c, rng.IntN(l.batches), rng.IntN(l.rows), rng.IntN(l.cols)))
	}
	return r
}

// checkElement compares one element.
func (x Product) checkElement(c HostMatrix, p, i, j int) Report {
	k := x.A.layout().cols
	if x.Alpha == 0 {
		k = 0
	}
	var sum, abs, flushed float64
	for kk := range k {
		a, b := at(x.A, p, i, kk), at(x.B, p, kk, j)
		sum += a * b
		abs += math.Abs(a * b)
		if math.Abs(a) < minNormalF32 || math.Abs(b) < minNormalF32 {
			flushed += math.Abs(a * b)
		}
	}
	alpha := float64(x.Alpha)
	partial := abs // before alpha, where a sum may overflow
	sum, abs, flushed = alpha*sum, math.Abs(alpha)*abs, math.Abs(alpha)*flushed
	add := func(v float64) {
		sum += v
		abs += math.Abs(v)
	}
	if x.Beta != 0 {
		add(float64(x.Beta) * at(x.C0, p, i, j))
	}
	if x.Bias != nil {
		add(at(x.Bias, p, i, j))
	}
	n := float64(k+4) * unitF32
	bound := n/(1-n)*abs + float64(k+2)*minNormalF32*max(1, math.Abs(alpha)) + flushed
	want := sum
	if x.Act != None {
		want = x.Act.Of(sum)
		bound = 1.13*bound + activationError(sum, want)
	}
	to := rounding[c.DType()]
	bound += to.unit*math.Abs(want) + to.halfStep
	if c.DType() == I32 {
		bound = 0
	}
	got := c.value(p, i, j)
	one := Report{Checked: 1, Elements: 1, Batch: p, Row: i, Col: j, Got: got, Want: want, Bound: bound}
	if math.Abs(want)-bound >= to.overflow {
		one.Want = math.Copysign(math.Inf(1), want)
	}
	switch {
	case got == one.Want, math.IsNaN(got) && math.IsNaN(one.Want):
	case max(abs, partial) >= overflowF32 && math.IsNaN(want) == math.IsNaN(got): // a partial sum may overflow
	case math.IsInf(got, 0) && math.Signbit(got) == math.Signbit(want) && math.Abs(want)+bound >= to.overflow:
	case math.IsNaN(got + one.Want), math.IsInf(got+one.Want, 0), bound == 0:
		one.Ratio, one.MaxError = math.Inf(1), math.Inf(1)
	default:
		one.MaxError = math.Abs(got - one.Want)
		one.Ratio = one.MaxError / bound
	}
	return one
}

// at is an element of a matrix that may be broadcast over batch, rows and
// columns.
func at(m HostMatrix, p, i, j int) float64 {
	l := m.layout()
	if l.batches == 1 {
		p = 0
	}
	if l.rows == 1 {
		i = 0
	}
	if l.cols == 1 {
		j = 0
	}
	return m.value(p, i, j)
}

// activationError bounds what evaluating an activation in binary32 adds: exp is
// within 3 + 2|x| units in the last place by the WGSL specification, a division
// within 2.5, the polynomial of erf within 1.5e-7, and 1 - t loses what t
// rounds off, times x for a gelu.
func activationError(x, value float64) float64 {
	x = min(math.Abs(x), 128) // beyond, exp is 0
	return 2*unitF32*(8+2*x)*math.Abs(value) + 8*unitF32*max(1, x)
}

func (r *Report) merge(other Report) {
	checked, elements, maxError := r.Checked+other.Checked, r.Elements, max(r.MaxError, other.MaxError)
	if other.Checked > 0 && other.Ratio > r.Ratio {
		*r = other
	}
	r.Checked, r.Elements, r.MaxError = checked, elements, maxError
}
