package gemm

import (
	"fmt"
	"unsafe"

	"github.com/x448/float16"

	gpu "github.com/wgemm/wgemm/runtime"
)

// DType is the type in which a matrix stores its elements.
type DType uint8

const (
	F32 DType = iota // IEEE 754 binary32
	F16              // IEEE 754 binary16
)

func (d DType) String() string {
	if d == F16 {
		return "f16"
	}
	return "f32"
}

// Size is the number of bytes of an element.
func (d DType) Size() int {
	if d == F16 {
		return 2
	}
	return 4
}

// Element is a type of element that a matrix on the host can have.
type Element interface{ float32 | float16.Float16 }

// A Matrix is a view of Rows x Cols elements of a slice on the host: element
// (i, j) is Data[i*RowStride+j*ColStride]. Strides are in elements, at least 0.
// The slice stays the caller's; wgemm reads it, or writes the elements of the
// view, during a call and keeps nothing of it.
type Matrix[T Element] struct {
	Data                 []T
	Rows, Cols           int
	RowStride, ColStride int
}

// NewMatrix is the rows x cols matrix of data in row-major order without gaps;
// a nil slice is replaced by zeros.
func NewMatrix[T Element](rows, cols int, data []T) Matrix[T] {
	if data == nil && rows > 0 && cols > 0 {
		data = make([]T, rows*cols)
	}
	return Matrix[T]{data, rows, cols, cols, 1}
}

// View is the rows x cols part of m whose first element is (row, col) of m. It
// shares m's slice. Like slicing, it panics when the part is not inside m.
func (m Matrix[T]) View(row, col, rows, cols int) Matrix[T] {
	checkView(m.Rows, m.Cols, row, col, rows, cols)
	if rows == 0 || cols == 0 {
		return Matrix[T]{nil, rows, cols, m.RowStride, m.ColStride}
	}
	return Matrix[T]{m.Data[row*m.RowStride+col*m.ColStride:], rows, cols, m.RowStride, m.ColStride}
}

func checkView(ofRows, ofCols, row, col, rows, cols int) {
	if row < 0 || col < 0 || rows < 0 || cols < 0 || row > ofRows-rows || col > ofCols-cols {
		panic(fmt.Sprintf("gemm: view of %d x %d at (%d, %d) of a matrix of %d x %d", rows, cols, row, col, ofRows, ofCols))
	}
}

// Transposed is m with rows and columns exchanged. It shares m's slice.
func (m Matrix[T]) Transposed() Matrix[T] {
	return Matrix[T]{m.Data, m.Cols, m.Rows, m.ColStride, m.RowStride}
}

// At is the element in row i and column j.
func (m Matrix[T]) At(i, j int) T { return m.Data[i*m.RowStride+j*m.ColStride] }

func (m Matrix[T]) layout() layout { return layout{m.Rows, m.Cols, 0, m.RowStride, m.ColStride} }

// DType is the type of m's elements.
func (m Matrix[T]) DType() DType {
	if unsafe.Sizeof(*new(T)) == 2 {
		return F16
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
	length() int
	pack(dst []byte)   // the elements in row-major order without gaps
	unpack(src []byte) // the reverse
	bytes() []byte     // the memory from the first element to the last
}

var (
	_ HostMatrix = Matrix[float32]{}
	_ HostMatrix = Matrix[float16.Float16]{}
	_ Operand    = (*DeviceMatrix)(nil)
)

func (m Matrix[T]) length() int { return len(m.Data) }

func (m Matrix[T]) bytes() []byte { return asBytes(m.Data[:m.layout().span()]) }

func (m Matrix[T]) pack(dst []byte) {
	out := asElements[T](dst)
	for i := range m.Rows {
		for j := range m.Cols {
			out[i*m.Cols+j] = m.At(i, j)
		}
	}
}

func (m Matrix[T]) unpack(src []byte) {
	in := asElements[T](src)
	for i := range m.Rows {
		for j := range m.Cols {
			m.Data[i*m.RowStride+j*m.ColStride] = in[i*m.Cols+j]
		}
	}
}

// Value is the element in row i and column j as a float64, which is exact.
func (m Matrix[T]) Value(i, j int) float64 {
	switch v := any(m.At(i, j)).(type) {
	case float16.Float16:
		return float64(v.Float32())
	case float32:
		return float64(v)
	}
	panic("gemm: not an Element")
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

// A layout places the elements of a matrix in memory: (i, j) is element
// offset + i*row + j*col.
type layout struct {
	rows, cols       int
	offset, row, col int
}

func (l layout) empty() bool { return l.rows == 0 || l.cols == 0 }

// dense reports whether the elements lie in row-major order without gaps.
func (l layout) dense() bool { return l.row == l.cols && l.col == 1 }

func (l layout) at(i, j int) int { return l.offset + i*l.row + j*l.col }

// span is the number of elements from the first to the last.
func (l layout) span() int {
	if l.empty() {
		return 0
	}
	return (l.rows-1)*l.row + (l.cols-1)*l.col + 1
}

// overlaps reports whether two elements may share a place. It says so of some
// interleaved layouts that do not.
func (l layout) overlaps() bool {
	byRows := l.rows <= 1 || l.row >= (l.cols-1)*l.col+1
	byCols := l.cols <= 1 || l.col >= (l.rows-1)*l.row+1
	apart := (byRows && (l.cols <= 1 || l.col > 0)) || (byCols && (l.rows <= 1 || l.row > 0))
	return !l.empty() && !apart
}

// maxElements bounds indices to what a shader can compute in 32 bits.
const maxElements = 1<<32 - 1

// check returns an error for a layout that has no meaning, or that does not
// fit length elements of memory.
func (l layout) check(arg string, length int) error {
	wrong := func(format string, args ...any) error { return &ShapeError{arg, fmt.Sprintf(format, args...)} }
	if l.rows < 0 || l.cols < 0 {
		return wrong("has %d rows and %d columns", l.rows, l.cols)
	}
	if l.row < 0 || l.col < 0 {
		return wrong("has row stride %d and column stride %d, want at least 0", l.row, l.col)
	}
	if l.empty() {
		return nil
	}
	for _, n := range []int{l.rows, l.cols, l.row, l.col} {
		if n > maxElements {
			return wrong("has %d rows and %d columns at strides %d and %d: past 2^32 elements", l.rows, l.cols, l.row, l.col)
		}
	}
	// Below 2^64, since every factor is below 2^32.
	last := uint64(l.rows-1)*uint64(l.row) + uint64(l.cols-1)*uint64(l.col)
	if last > maxElements {
		return wrong("has %d rows and %d columns at strides %d and %d: past 2^32 elements", l.rows, l.cols, l.row, l.col)
	}
	if need := last + 1; uint64(max(length, 0)) < need {
		return wrong("has %d rows and %d columns at strides %d and %d: needs %d elements, the slice has %d",
			l.rows, l.cols, l.row, l.col, need, length)
	}
	return nil
}

// A DeviceMatrix is a view of Rows x Cols elements in an Engine's memory. It is
// made by Upload, NewMatrix and View, and used in any number of calls. It is
// not changed by a call other than as its output.
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

// DType is the type of m's elements.
func (m *DeviceMatrix) DType() DType { return m.dtype }

func (m *DeviceMatrix) layout() layout { return m.lay }

// View is the rows x cols part of m whose first element is (row, col) of m. It
// shares m's memory, and closing either closes both. Like slicing, it panics
// when the part is not inside m.
func (m *DeviceMatrix) View(row, col, rows, cols int) *DeviceMatrix {
	checkView(m.lay.rows, m.lay.cols, row, col, rows, cols)
	v := *m
	v.lay.offset = m.lay.at(row, col)
	v.lay.rows, v.lay.cols = rows, cols
	return &v
}

// Transposed is m with rows and columns exchanged. It shares m's memory, and
// closing either closes both.
func (m *DeviceMatrix) Transposed() *DeviceMatrix {
	v := *m
	v.lay = layout{m.lay.cols, m.lay.rows, m.lay.offset, m.lay.col, m.lay.row}
	return &v
}

// Close frees the memory. Closing twice is allowed.
func (m *DeviceMatrix) Close() error { return m.buffer.Close() }
