package gemm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/x448/float16"

	gpu "github.com/wgemm/wgemm/runtime"
)

// DType is the type in which a matrix stores its elements.
type DType uint8

const (
	F32  DType = iota // IEEE 754 binary32
	F16               // IEEE 754 binary16
	BF16              // bfloat16: the upper half of a binary32
	I8                // signed integers of 8 bits, as A and B
	I32               // signed integers of 32 bits, as the C of these
)

type dtype struct {
	name string
	size int // in bytes
}

var dtypes = [...]dtype{F32: {"f32", 4}, F16: {"f16", 2}, BF16: {"bf16", 2}, I8: {"i8", 1}, I32: {"i32", 4}}

func (d DType) String() string { return dtypes[d].name }

// Size is the number of bytes of an element.
func (d DType) Size() int { return dtypes[d].size }

// BFloat16 holds the bits of a bfloat16.
type BFloat16 uint16

// ToBFloat16 is the bfloat16 nearest to v, ties to even.
func ToBFloat16(v float32) BFloat16 {
	bits := math.Float32bits(v)
	if v != v {
		return BFloat16(bits>>16 | 0x40)
	}
	return BFloat16((uint64(bits) + 0x7fff + uint64(bits>>16&1)) >> 16)
}

// Float32 is v, which is exact.
func (v BFloat16) Float32() float32 { return math.Float32frombits(uint32(v) << 16) }

// Element is a type of element that a matrix on the host can have.
type Element interface {
	float32 | float16.Float16 | BFloat16 | int8 | int32
}

// A Matrix is a view of Rows x Cols elements of a slice on the host: element
// (i, j) is Data[i*RowStride+j*ColStride]. Strides are in elements, at least 0.
// With Batch > 1 it is a batch of that many matrices, each BatchStride elements
// behind the one before; 0 as well as 1 stand for one matrix. The slice stays
// the caller's; wgemm reads it, or writes the elements of the view, during a
// call and keeps nothing of it.
type Matrix[T Element] struct {
	Data                 []T
	Rows, Cols           int
	RowStride, ColStride int
	Batch, BatchStride   int
}

// NewMatrix is the rows x cols matrix of data in row-major order without gaps;
// a nil slice is replaced by zeros.
func NewMatrix[T Element](rows, cols int, data []T) Matrix[T] {
	return NewBatch(1, rows, cols, data)
}

// NewBatch is a batch of rows x cols matrices, one behind the other in data,
// each in row-major order without gaps; a nil slice is replaced by zeros.
func NewBatch[T Element](batch, rows, cols int, data []T) Matrix[T] {
	if data == nil && batch > 0 && rows > 0 && cols > 0 {
		data = make([]T, batch*rows*cols)
	}
	return Matrix[T]{data, rows, cols, cols, 1, batch, rows * cols}
}

// View is the rows x cols part of m whose first element is (row, col) of m, of
// each matrix of a batch. It shares m's slice. Like slicing, it panics when the
// part is not inside m.
func (m Matrix[T]) View(row, col, rows, cols int) Matrix[T] {
	checkView(m.Rows, m.Cols, row, col, rows, cols)
	m.Rows, m.Cols = rows, cols
	if rows == 0 || cols == 0 {
		m.Data = nil
	} else {
		m.Data = m.Data[row*m.RowStride+col*m.ColStride:]
	}
	return m
}

func checkView(ofRows, ofCols, row, col, rows, cols int) {
	if row < 0 || col < 0 || rows < 0 || cols < 0 || row > ofRows-rows || col > ofCols-cols {
		panic(fmt.Sprintf("gemm: view of %d x %d at (%d, %d) of a matrix of %d x %d", rows, cols, row, col, ofRows, ofCols))
	}
}

// Transposed is m with rows and columns exchanged, of each matrix of a batch.
// It shares m's slice.
func (m Matrix[T]) Transposed() Matrix[T] {
	m.Rows, m.Cols, m.RowStride, m.ColStride = m.Cols, m.Rows, m.ColStride, m.RowStride
	return m
}

// At is the element in row i and column j, of the first matrix of a batch.
func (m Matrix[T]) At(i, j int) T { return m.Data[i*m.RowStride+j*m.ColStride] }

func (m Matrix[T]) layout() layout {
	l := layout{rows: m.Rows, cols: m.Cols, row: m.RowStride, col: m.ColStride, batches: m.Batch, batch: m.BatchStride}
	if l.batches == 0 {
		l.batches = 1
	}
	return l
}

// DType is the type of m's elements.
func (m Matrix[T]) DType() DType {
	switch any(*new(T)).(type) {
	case float16.Float16:
		return F16
	case BFloat16:
		return BF16
	case int8:
		return I8
	case int32:
		return I32
	}
	return F32
}

// An Operand is what Multiply takes: a Matrix on the host or a *DeviceMatrix.
type Operand interface {
	DType() DType
	layout() layout
}

// A HostMatrix is a Matrix of any element type.
type HostMatrix interface {
	Operand
	Value(i, j int) float64
	values(p, i, from int, dst []float64)
	length() int
	pack(dst []byte)   // the elements in row-major order without gaps
	unpack(src []byte) // the reverse
	bytes() []byte     // the memory from the first element to the last
}

var (
	_ HostMatrix = Matrix[float32]{}
	_ Operand    = (*DeviceMatrix)(nil)
)

func (m Matrix[T]) length() int { return len(m.Data) }

func (m Matrix[T]) bytes() []byte { return asBytes(m.Data[:m.layout().span()]) }

func (m Matrix[T]) pack(dst []byte) {
	out, at := asElements[T](dst), 0
	m.layout().each(func(i int) { out[at], at = m.Data[i], at+1 })
}

func (m Matrix[T]) unpack(src []byte) {
	in, at := asElements[T](src), 0
	m.layout().each(func(i int) { m.Data[i], at = in[at], at+1 })
}

// Value is the element in row i and column j, of the first matrix of a batch,
// as a float64, which is exact.
func (m Matrix[T]) Value(i, j int) float64 {
	var v [1]float64
	m.values(0, i, j, v[:])
	return v[0]
}

// values fills dst with the elements from column from on, in row i of matrix p
// of the batch. An axis of size 1 stands for one of any size.
func (m Matrix[T]) values(p, i, from int, dst []float64) {
	l := m.layout()
	if l.batches == 1 {
		l.batch = 0
	}
	if l.rows == 1 {
		l.row = 0
	}
	if l.cols == 1 {
		l.col = 0
	}
	place := l.at(p, i, from)
	switch data := any(m.Data).(type) {
	case []float32:
		for j := range dst {
			dst[j] = float64(data[place+j*l.col])
		}
	case []float16.Float16:
		for j := range dst {
			dst[j] = float64(data[place+j*l.col].Float32())
		}
	case []BFloat16:
		for j := range dst {
			dst[j] = float64(data[place+j*l.col].Float32())
		}
	case []int8:
		for j := range dst {
			dst[j] = float64(data[place+j*l.col])
		}
	case []int32:
		for j := range dst {
			dst[j] = float64(data[place+j*l.col])
		}
	}
}

// asBytes is the memory of s. All systems that wgemm runs on are
// little-endian, as WebGPU buffers are.
func asBytes[T Element](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T))))
}

// asElements is the reverse of asBytes; s starts at an element's alignment.
func asElements[T Element](s []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s))), len(s)/int(unsafe.Sizeof(*new(T))))
}

// A layout places the elements of a batch of matrices in memory: (i, j) of
// matrix p is element offset + p*batch + i*row + j*col.
type layout struct {
	rows, cols, batches     int
	offset, row, col, batch int
}

func (l layout) empty() bool { return l.rows == 0 || l.cols == 0 || l.batches == 0 }

// dense reports whether the elements lie in row-major order without gaps.
func (l layout) dense() bool {
	return l.row == l.cols && l.col == 1 && (l.batches <= 1 || l.batch == l.rows*l.cols)
}

// packed is the dense layout of the same elements.
func (l layout) packed() layout {
	return layout{rows: l.rows, cols: l.cols, batches: l.batches, row: l.cols, col: 1, batch: l.rows * l.cols}
}

// transposed is the layout of the transposes of the same elements.
func (l layout) transposed() layout {
	l.rows, l.cols, l.row, l.col = l.cols, l.rows, l.col, l.row
	return l
}

// An axis is a direction in a matrix.
type axis uint8

const (
	noAxis   axis = iota
	inRow         // from column to column
	inColumn      // from row to row
)

// An access is what a kernel can make use of in a layout.
type access struct {
	unit  axis // along which elements are neighbours in memory
	quads bool // four elements along it can be read at once, wherever a multiple of four is
}

func (l layout) access() access {
	fours := func(across, stride, size int) bool {
		return size%4 == 0 && l.offset%4 == 0 && (across <= 1 || stride%4 == 0) && (l.batches <= 1 || l.batch%4 == 0)
	}
	switch {
	case l.col == 1 && l.cols > 1:
		return access{inRow, fours(l.rows, l.row, l.cols)}
	case l.row == 1 && l.rows > 1:
		return access{inColumn, fours(l.cols, l.col, l.rows)}
	}
	return access{}
}

// transposed is the access to the transpose.
func (x access) transposed() access {
	switch x.unit {
	case inRow:
		x.unit = inColumn
	case inColumn:
		x.unit = inRow
	}
	return x
}

func (l layout) at(p, i, j int) int { return l.offset + p*l.batch + i*l.row + j*l.col }

// each calls f with the place of every element, in row-major order.
func (l layout) each(f func(place int)) {
	for p := range l.batches {
		for i := range l.rows {
			for j := range l.cols {
				f(l.at(p, i, j))
			}
		}
	}
}

// span is the number of elements from the first to the last.
func (l layout) span() int {
	if l.empty() {
		return 0
	}
	return (l.batches-1)*l.batch + (l.rows-1)*l.row + (l.cols-1)*l.col + 1
}

// overlaps reports whether two elements may share a place. It says so of some
// interleaved layouts that do not.
func (l layout) overlaps() bool {
	if l.empty() {
		return false
	}
	// Axes by rising stride: each must step over all of the ones below it.
	axes := [...][2]int{{l.col, l.cols}, {l.row, l.rows}, {l.batch, l.batches}}
	slices.SortFunc(axes[:], func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	reach := 1
	for _, a := range axes {
		stride, size := a[0], a[1]
		if size <= 1 {
			continue
		}
		if stride < reach {
			return true
		}
		reach += (size - 1) * stride
	}
	return false
}

// maxElements bounds indices to what a shader can compute in 32 bits.
const maxElements = 1<<32 - 1

// check returns an error for a layout that has no meaning, or that does not
// fit length elements of memory.
func (l layout) check(arg string, length int) error {
	wrong := func(format string, args ...any) error { return &ShapeError{arg, fmt.Sprintf(format, args...)} }
	if l.rows < 0 || l.cols < 0 || l.batches < 0 {
		return wrong("has %d rows and %d columns, %d times", l.rows, l.cols, l.batches)
	}
	if l.row < 0 || l.col < 0 || l.batch < 0 {
		return wrong("has row stride %d, column stride %d and batch stride %d, want at least 0", l.row, l.col, l.batch)
	}
	if l.empty() {
		return nil
	}
	last := uint64(0)
	for _, axis := range [][2]int{{l.rows, l.row}, {l.cols, l.col}, {l.batches, l.batch}} {
		size, stride := uint64(axis[0]), uint64(axis[1])
		if size > maxElements || stride > maxElements && size > 1 {
			last = maxElements + 1
			break
		}
		last += min((size-1)*stride, maxElements+1) // a product of numbers below 2^32
	}
	if last > maxElements {
		return wrong("has %s: past 2^32 elements", l)
	}
	if need := last + 1; uint64(max(length, 0)) < need {
		return wrong("has %s: needs %d elements, the slice has %d", l, need, length)
	}
	return nil
}

func (l layout) String() string {
	s := fmt.Sprintf("%d rows and %d columns at strides %d and %d", l.rows, l.cols, l.row, l.col)
	if l.batches > 1 {
		s += fmt.Sprintf(", %d times at stride %d", l.batches, l.batch)
	}
	return s
}

// A DeviceMatrix is a view of Rows x Cols elements in an Engine's memory, or of
// a batch of them. It is made by Upload, NewMatrix and View, and used in any
// number of calls. It is not changed by a call other than as its output.
type DeviceMatrix struct {
	engine *Engine
	buffer gpu.Buffer
	dtype  DType
	lay    layout
}

// Rows is the number of rows.
func (m *DeviceMatrix) Rows() int { return m.lay.rows }

// Cols is the number of columns.
func (m *DeviceMatrix) Cols() int { return m.lay.cols }

// Batch is the number of matrices.
func (m *DeviceMatrix) Batch() int { return m.lay.batches }

// DType is the type of m's elements.
func (m *DeviceMatrix) DType() DType { return m.dtype }

func (m *DeviceMatrix) layout() layout { return m.lay }

// View is the rows x cols part of m whose first element is (row, col) of m, of
// each matrix of a batch. It shares m's memory, and closing either closes both.
// Like slicing, it panics when the part is not inside m.
func (m *DeviceMatrix) View(row, col, rows, cols int) *DeviceMatrix {
	checkView(m.lay.rows, m.lay.cols, row, col, rows, cols)
	v := *m
	v.lay.offset = m.lay.at(0, row, col)
	v.lay.rows, v.lay.cols = rows, cols
	return &v
}

// Transposed is m with rows and columns exchanged, of each matrix of a batch. It
// shares m's memory, and closing either closes both.
func (m *DeviceMatrix) Transposed() *DeviceMatrix {
	v := *m
	v.lay.rows, v.lay.cols, v.lay.row, v.lay.col = m.lay.cols, m.lay.rows, m.lay.col, m.lay.row
	return &v
}

// Close frees the memory. Closing twice is allowed.
func (m *DeviceMatrix) Close() error { return m.buffer.Close() }
