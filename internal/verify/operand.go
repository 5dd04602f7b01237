package verify

import (
	"math"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
)

// An operand is a matrix that lies inside a larger one of poison, or is all of
// it.
type operand[T gemm.Element] struct {
	outer      gemm.Matrix[T] // in row-major order without gaps
	view       gemm.Matrix[T]
	gap        int // rows and columns of poison before the view
	transposed bool
}

// newOperand is rows x cols of poison, stored transposed or not.
func newOperand[T gemm.Element](p Problem, rows, cols int, transposed, shared bool, poison T) operand[T] {
	storedRows, storedCols := rows, cols
	if transposed {
		storedRows, storedCols = cols, rows
	}
	batch, gap := max(p.Batch, 1), 0
	if shared {
		batch = 1
	}
	outerRows, outerCols := storedRows, storedCols
	if p.Gaps {
		gap, outerRows, outerCols = 1, storedRows+2, storedCols+3
	}
	o := operand[T]{outer: gemm.NewBatch[T](batch, outerRows, outerCols, nil), gap: gap, transposed: transposed}
	for i := range o.outer.Data {
		o.outer.Data[i] = poison
	}
	o.view = o.outer.View(gap, gap, storedRows, storedCols)
	if transposed {
		o.view = o.view.Transposed()
	}
	return o
}

// onDevice is the view of a matrix on the device that the operand is of its
// outer one.
func (o operand[T]) onDevice(outer *gemm.DeviceMatrix) *gemm.DeviceMatrix {
	if o.transposed {
		return outer.View(o.gap, o.gap, o.view.Cols, o.view.Rows).Transposed()
	}
	return outer.View(o.gap, o.gap, o.view.Rows, o.view.Cols)
}

// memory is all elements, the poison too.
func (o operand[T]) memory() []T { return o.outer.Data }

// at is the place of an element in the view's slice. A matrix without a batch
// is the same for all.
func (o operand[T]) at(p, i, j int) int {
	return min(p, o.view.Batch-1)*o.view.BatchStride + i*o.view.RowStride + j*o.view.ColStride
}

// each calls f for every element, with its place in memory.
func (o operand[T]) each(f func(p, i, j, at int)) {
	first := o.gap*o.outer.RowStride + o.gap
	for p := range o.view.Batch {
		for i := range o.view.Rows {
			for j := range o.view.Cols {
				f(p, i, j, first+o.at(p, i, j))
			}
		}
	}
}

func (o operand[T]) fill(f func(p, i, j int) float64) {
	o.each(func(p, i, j, at int) { o.outer.Data[at] = element[T](f(p, i, j)) })
}

// values are the elements in row-major order, matrix by matrix.
func (o operand[T]) values() []float64 {
	out := make([]float64, 0, o.view.Batch*o.view.Rows*o.view.Cols)
	o.each(func(_, _, _, at int) { out = append(out, number(o.outer.Data[at])) })
	return out
}

// copy is the view as it is now, in memory of its own.
func (o operand[T]) copy() gemm.Matrix[T] {
	c := o.view
	c.Data = append([]T(nil), c.Data...)
	return c
}

// The poison of A and B, which nothing may read, and that of C, which is no
// result: NaNs with a payload of their own, or a number that no sum of int8 here
// comes to. They differ, since a NaN keeps its payload through a sum: what was
// read around A and stored around C would look untouched.
const (
	inputPoison  = 0xffc0dead
	outputPoison = 0x7fd15ea5
)

// poison is a T with these bits, or the upper ones of them.
func poison[T gemm.Element](bits uint32) T {
	var v T
	switch p := any(&v).(type) {
	case *float32:
		*p = math.Float32frombits(bits)
	case *float16.Float16:
		*p = float16.Float16(bits>>16 | 0x7c00)
	case *gemm.BFloat16:
		*p = gemm.BFloat16(bits >> 16)
	case *int8:
		*p = 0x5a
	case *int32:
		*p = int32(bits)
	}
	return v
}

// differs is the first place where two slices have not the same bits, or -1.
func differs[T gemm.Element](x, y []T) int {
	for i, v := range x {
		if bits(v) != bits(y[i]) {
			return i
		}
	}
	return -1
}

func bits[T gemm.Element](v T) uint32 {
	switch v := any(v).(type) {
	case float32:
		return math.Float32bits(v)
	case float16.Float16:
		return uint32(v)
	case gemm.BFloat16:
		return uint32(v)
	case int8:
		return uint32(v)
	case int32:
		return uint32(v)
	}
	panic("verify: not an element")
}

// element is the T nearest to a number. It rounds once, since no number here
// needs more than binary32 has.
func element[T gemm.Element](x float64) T {
	var v T
	switch p := any(&v).(type) {
	case *float32:
		*p = float32(x)
	case *float16.Float16:
		*p = float16.Fromfloat32(float32(x))
	case *gemm.BFloat16:
		*p = gemm.ToBFloat16(float32(x))
	case *int8:
		*p = int8(x)
	case *int32:
		*p = int32(x)
	}
	return v
}

// number is the reverse, which is exact.
func number[T gemm.Element](v T) float64 {
	switch v := any(v).(type) {
	case float32:
		return float64(v)
	case float16.Float16:
		return float64(v.Float32())
	case gemm.BFloat16:
		return float64(v.Float32())
	case int8:
		return float64(v)
	case int32:
		return float64(v)
	}
	panic("verify: not an element")
}
