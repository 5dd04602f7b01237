package main

import (
	"fmt"
	"math"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
)

// A rangeReport tells how a matrix fits the range of its type.
type rangeReport struct {
	Matrix   string `json:"matrix"` // A, B, C, bias or OUT
	DType    string `json:"dtype"`
	Elements int    `json:"elements"`

	// Overflowed: infinite in this type and finite before. Of a file these are its
	// entries that were converted. Of OUT they are the infinities from finite
	// operands: an element with an infinity or NaN in its row of A, its column of
	// B, its C or its bias has its own from there.
	Overflowed int `json:"overflowed"`
	Infinite   int `json:"infinite"` // with those that overflowed
	NaN        int `json:"nan"`
	Subnormal  int `json:"subnormal"`

	// Underflowed: the entries of a file that became 0. Nil for OUT, whose
	// unrounded elements nobody has.
	Underflowed *int `json:"underflowed,omitempty"`

	Largest float64 `json:"largest"` // of the finite elements' magnitudes
	Limit   float64 `json:"limit"`   // the largest that the type has
}

func (r rangeReport) String() string {
	s := fmt.Sprintf("%s: %d %s up to %.5g, of at most %.5g; %d overflowed, %d infinite with these, %d NaN, %d subnormal",
		r.Matrix, r.Elements, r.DType, r.Largest, r.Limit, r.Overflowed, r.Infinite, r.NaN, r.Subnormal)
	if r.Underflowed != nil {
		s += fmt.Sprintf(", %d became 0", *r.Underflowed)
	}
	return s
}

// ranges counts in the operands, as they were read, and in the product.
func ranges(in inputs, x gemm.Product, c gemm.HostMatrix) []rangeReport {
	var reports []rangeReport
	for _, y := range []struct {
		name string
		file *input
		m    gemm.HostMatrix
	}{{"A", in.a, x.A}, {"B", in.b, x.B}, {"C", in.c, x.C0}, {"bias", in.bias, x.Bias}} {
		if y.file == nil {
			continue
		}
		r := countRange(y.name, y.m)
		r.Overflowed, r.Underflowed = y.file.Lost.Overflowed, &y.file.Lost.Underflowed
		reports = append(reports, r)
	}
	out := countRange("OUT", c)
	out.Overflowed = overflowed(x, c)
	return append(reports, out)
}

// countRange counts everything but what overflowed and underflowed.
func countRange(name string, m gemm.HostMatrix) rangeReport {
	v := elementsOf(m)
	r := rangeReport{Matrix: name, DType: m.DType().String(), Elements: v.batch * v.rows * v.cols, Limit: math.MaxFloat32}
	normal := 0x1p-126
	switch m.DType() {
	case gemm.F16:
		normal, r.Limit = 0x1p-14, 65504
	case gemm.BF16:
		r.Limit = 0x1.fep127
	}
	v.each(func(_, _, _ int, value float64) {
		switch mag := math.Abs(value); {
		case math.IsNaN(mag):
			r.NaN++
		case math.IsInf(mag, 0):
			r.Infinite++
		default:
			if mag != 0 && mag < normal {
				r.Subnormal++
			}
			r.Largest = max(r.Largest, mag)
		}
	})
	return r
}

// overflowed counts the infinities of C that come from finite operands alone.
func overflowed(x gemm.Product, c gemm.HostMatrix) int {
	if !finite(float64(x.Alpha)) || !finite(float64(x.Beta)) {
		return 0
	}
	none := func(_, _ int) bool { return false }
	zero := func(_, _, _ int) float64 { return 0 }
	row, col, old, bias := none, none, zero, zero
	if x.Alpha != 0 {
		row = notFinite(x.A, func(i, _ int) int { return i })
		col = notFinite(x.B, func(_, j int) int { return j })
	}
	if x.Beta != 0 {
		old = elementsOf(x.C0).at
	}
	if x.Bias != nil {
		bias = elementsOf(x.Bias).at
	}
	n := 0
	elementsOf(c).each(func(p, i, j int, value float64) {
		if math.IsInf(value, 0) && !row(p, i) && !col(p, j) && finite(old(p, i, j)) && finite(bias(p, i, j)) {
			n++
		}
	})
	return n
}

// notFinite tells which rows or columns of a batch hold an infinity or NaN.
func notFinite(m gemm.HostMatrix, line func(i, j int) int) func(p, n int) bool {
	v := elementsOf(m)
	type place struct{ p, n int }
	marked := map[place]bool{}
	v.each(func(p, i, j int, value float64) {
		if !finite(value) {
			marked[place{p, line(i, j)}] = true
		}
	})
	return func(p, n int) bool { return marked[place{min(p, v.batch-1), n}] }
}

func finite(v float64) bool { return v-v == 0 }

// elements are those of a batch of matrices. An axis of size 1 stands for one of
// any size in at.
type elements struct {
	batch, rows, cols int
	at                func(p, i, j int) float64
}

func (v elements) each(f func(p, i, j int, value float64)) {
	for p := range v.batch {
		for i := range v.rows {
			for j := range v.cols {
				f(p, i, j, v.at(p, i, j))
			}
		}
	}
}

func elementsOf(m gemm.HostMatrix) elements {
	switch m := m.(type) {
	case gemm.Matrix[float16.Float16]:
		return matrixElements(m, func(v float16.Float16) float64 { return float64(v.Float32()) })
	case gemm.Matrix[gemm.BFloat16]:
		return matrixElements(m, func(v gemm.BFloat16) float64 { return float64(v.Float32()) })
	case gemm.Matrix[float32]:
		return matrixElements(m, func(v float32) float64 { return float64(v) })
	}
	panic(fmt.Sprintf("no range of a %T", m)) // i8 is refused before
}

func matrixElements[T gemm.Element](m gemm.Matrix[T], number func(T) float64) elements {
	return elements{m.Batch, m.Rows, m.Cols, func(p, i, j int) float64 {
		return number(m.Data[min(p, m.Batch-1)*m.BatchStride+min(i, m.Rows-1)*m.RowStride+min(j, m.Cols-1)*m.ColStride])
	}}
}
