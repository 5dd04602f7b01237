package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Unit roundoffs: half the distance from 1 to the next number.
const (
	unitF32 = 0x1p-24
	unitF16 = 0x1p-11
	// halfStepF16 is half the distance between subnormal binary16 numbers.
	halfStepF16 = 0x1p-25
	// minNormalF32 is the smallest number below which a device may flush to 0.
	minNormalF32 = 0x1p-126
	// Sums from here on round to infinity.
	overflowF32 = 0x1.ffffffp127
	overflowF16 = 65520.0
)

// A Report compares a product with a float64 reference.
type Report struct {
	Checked  int     `json:"checked"`  // elements of C that were compared
	Elements int     `json:"elements"` // elements of C
	Ratio    float64 `json:"ratio"`    // largest error over its bound; at most 1 is right
	Row      int     `json:"row"`      // where the largest ratio is
	Col      int     `json:"col"`
	Got      float64 `json:"got"`       // C there
	Want     float64 `json:"want"`      // the reference there
	Bound    float64 `json:"bound"`     // the bound there
	MaxError float64 `json:"max_error"` // largest absolute error, anywhere
}

// Right reports whether every compared element is within its bound.
func (r Report) Right() bool { return r.Ratio <= 1 }

func (r Report) String() string {
	return fmt.Sprintf("C[%d, %d] is %v, want %v within %.3g (error %.3g of the bound)", r.Row, r.Col, r.Got, r.Want, r.Bound, r.Ratio)
}

// maxCheckWork bounds the products that Check forms in float64, a few seconds'
// worth.
const maxCheckWork = 1 << 30

// Check compares C, which is A B as an engine computed it, with a reference in
// float64. The error of an element may be at most
//
//	gamma(k+2) * (|A| |B|)[i, j] + u * |C[i, j]|,  gamma(n) = n u' / (1 - n u')
//
// where u' = 2^-24 is the unit roundoff of the sums and u that of C's type;
// underflow adds the smallest normal number per product, and half the
// subnormal step of a C of binary16; products of subnormal elements may count
// as 0, since WGSL lets a device flush them. It holds for any order of summation:
// Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section
// 3.1. A NaN or infinity must be met by the same, and
// an overflow by infinity. A big product is checked in
// elements drawn at random from seed, and in its four corners.
func Check(c, a, b HostMatrix, seed uint64) Report {
	rows, cols, k := c.layout().rows, c.layout().cols, a.layout().cols
	r := Report{Elements: rows * cols, Ratio: math.Inf(-1)}
	if r.Elements == 0 {
		r.Ratio = 0
		return r
	}
	if most := max(maxCheckWork/max(k, 1), 64); r.Elements <= most {
		parallel := make([]Report, rows)
		parallelRows(rows, func(i int) {
			parallel[i] = Report{Ratio: math.Inf(-1)}
			for j := range cols {
				parallel[i].merge(CheckElement(c, a, b, i, j))
			}
		})
		for _, p := range parallel {
			r.merge(p)
		}
	} else {
		rng := rand.New(rand.NewPCG(seed, 0))
		for _, at := range [][2]int{{0, 0}, {0, cols - 1}, {rows - 1, 0}, {rows - 1, cols - 1}} {
			r.merge(CheckElement(c, a, b, at[0], at[1]))
		}
		for r.Checked < most {
			r.merge(CheckElement(c, a, b, rng.IntN(rows), rng.IntN(cols)))
		}
	}
	return r
}

// CheckElement is Check for the element in row i and column j alone.
func CheckElement(c, a, b HostMatrix, i, j int) Report {
	var sum, abs, flushed float64
	k := a.layout().cols
	for kk := range k {
		x, y := a.Value(i, kk), b.Value(kk, j)
		sum += x * y
		abs += math.Abs(x * y)
		if math.Abs(x) < minNormalF32 || math.Abs(y) < minNormalF32 {
			flushed += math.Abs(x * y)
		}
	}
	n := float64(k+2) * unitF32
	bound := n/(1-n)*abs + float64(k)*minNormalF32 + flushed
	overflow := overflowF32
	if c.DType() == F16 {
		bound += unitF16*math.Abs(sum) + halfStepF16
		overflow = overflowF16
	} else {
		bound += unitF32 * math.Abs(sum)
	}
	one := Report{Checked: 1, Elements: 1, Row: i, Col: j, Got: c.Value(i, j), Want: sum, Bound: bound}
	if math.Abs(sum)-bound >= overflow {
		one.Want = math.Copysign(math.Inf(1), sum)
	}
	switch got, want := one.Got, one.Want; {
	case got == want, math.IsNaN(got) && math.IsNaN(want):
	case abs >= overflowF32 && math.IsNaN(sum) == math.IsNaN(got): // a partial sum may overflow
	case math.IsInf(got, 0) && math.Signbit(got) == math.Signbit(sum) && math.Abs(sum)+bound >= overflow:
	case math.IsNaN(got + want), math.IsInf(got+want, 0), bound == 0:
		one.Ratio, one.MaxError = math.Inf(1), math.Inf(1)
	default:
		one.MaxError = math.Abs(got - want)
		one.Ratio = one.MaxError / bound
	}
	return one
}

func (r *Report) merge(other Report) {
	checked, elements, maxError := r.Checked+other.Checked, r.Elements, max(r.MaxError, other.MaxError)
	if other.Checked > 0 && other.Ratio > r.Ratio {
		*r = other
	}
	r.Checked, r.Elements, r.MaxError = checked, elements, maxError
}
