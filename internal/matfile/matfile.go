// Package matfile reads and writes matrices, and batches of them, as files:
// NumPy's .npy and .npz, .safetensors, Matrix Market's .mtx, and text as .csv
// (comma) or .tsv (tab).
//
// A path names a file; a.npz:NAME and a.safetensors:NAME name one matrix in a
// file of several. The first such colon in a path counts.
//
// A file is accepted only when it can be read in exactly one way. Everything
// else is refused in one line that names the file, what was found in it and
// what was wanted; nothing is guessed, padded or cut off.
package matfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/x448/float16"
)

// bufferSize bounds, in bytes, what is held of a file beside the values. It
// is a multiple of every element size.
const bufferSize = 256 << 10

// FormatError reports a file that is not a matrix this package reads or writes.
type FormatError struct {
	Path  string // as given by the caller
	Found string // what the file holds, with the place in it
	Want  string // what would have been accepted
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: %s; want %s", e.Path, e.Found, e.Want)
}

// Lost counts the entries of a file that do not outlive the conversion to the type
// they are read as. Text counts as the float64 nearest to it, and an entry of an
// .mtx file once, though it may stand for two elements.
type Lost struct {
	Overflowed  int // finite in the file, infinite as read
	Underflowed int // not 0 in the file, 0 as read
}

// Options say how numbers are written in text. Other formats ignore them.
type Options struct {
	// Comma stands between the values of a line in .csv and .tsv; 0 is ',' in
	// .csv and a tab in .tsv.
	Comma rune

	// Decimal is the decimal sign in .csv and .tsv, '.' or ','; 0 is '.'.
	Decimal rune
}

// File is an open matrix, its header read and checked and its values not yet
// held in memory. It must be closed. It is not safe for concurrent use.
type File struct {
	Path string

	// Batch is the number of matrices: the first of three dimensions, and 1
	// where the file has fewer. Like Rows and Cols it may be 0.
	Batch int

	// Rows and Cols give the shape of each matrix in elements. Either may be 0,
	// and the other is then any number that the file states.
	Rows, Cols int

	// Dims is the number of dimensions in the file: 3 for a batch; 2 for a
	// matrix (always so for text and .mtx); 1 for a vector, which is shown as
	// one row and which the caller may turn into a column; 0 for a single value,
	// shown as 1x1.
	Dims int

	// DType is the element type in the file, in NumPy's words without the byte
	// order: "f2", "f4", "f8", "i1" to "i8", "u1" to "u8" or "b1"; "bf16" for
	// the bfloat16 of .safetensors; "text" for .csv, .tsv and .mtx.
	DType string

	// Lost, unless nil, counts what the reading of values costs, for a caller that
	// sets it before.
	Lost *Lost

	target
	opts Options   // the defaults filled in
	file *os.File  // nil when closed, or from Decode
	src  io.Reader // at the first value, for binary formats
	used bool      // the values have been read

	raw  rawLayout
	text io.ReadSeeker // the whole file, for .csv, .tsv and .mtx
	mtx  mtxLayout
}

// Open is Options.Open with the defaults.
func Open(path string) (*File, error) { return Options{}.Open(path) }

// Decode is Options.Decode with the defaults.
func Decode(name string, data []byte) (*File, error) { return Options{}.Decode(name, data) }

// Open reads and checks the header and the size of the matrix in a file. The
// ending tells the format; a file with an ending of no format is read as .npy,
// so that a pipe or /dev/stdin can be read too.
//
// The size of a file is compared with its header before any memory is taken
// for the values; in a pipe it shows only when the values are read. Text is
// read through once here, every number checked, to count rows and columns;
// text from a pipe, which cannot be read again, is kept in memory until Close.
// Members of a .npz archive and tensors are found by their place in the file:
// from a pipe both formats are refused.
//
// Without :NAME the only matrix of a .npz archive or a .safetensors file is
// taken. A name in a .npz archive counts with and without its ending .npy.
//
// An .mtx file of coordinates is made dense: at most 2^31 elements, a cell
// that is listed more than once holding the sum of its entries.
//
// Open reports a *FormatError for what is not a matrix, and errors of the
// operating system (fs.ErrNotExist and others) wrapped.
func (o Options) Open(path string) (*File, error) {
	f := o.newFile(path)
	file, err := os.Open(f.filePath)
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	f.file = file
	if err := f.init(file); err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// Decode is Open for a file whose bytes are in memory, which stay the caller's
// and must not change until Close.
func (o Options) Decode(name string, data []byte) (*File, error) {
	f := o.newFile(name)
	if err := f.readHead(bytes.NewReader(data), int64(len(data))); err != nil {
		return nil, err
	}
	return f, nil
}

func (o Options) newFile(path string) *File {
	return &File{Path: path, target: split(path), opts: o, Batch: 1}
}

func (f *File) init(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	if info.IsDir() {
		return f.refuse("a directory", "a file with the ending "+endings)
	}
	if !info.Mode().IsRegular() {
		return f.readStream(file)
	}
	return f.readHead(file, info.Size())
}

// readStream is readHead for a source of unknown length that is read once.
func (f *File) readStream(src io.Reader) error {
	switch f.format {
	case formatNPZ:
		return f.refuse("a pipe", "a file: the list of what a .npz archive holds is at its end")
	case formatSafetensors:
		return f.refuse("a pipe", "a file: a tensor is read from its place in it")
	case formatNPY:
		return f.readNPYHead(src, -1)
	}
	text, err := io.ReadAll(src)
	if err != nil {
		return f.failed(err)
	}
	return f.readHead(bytes.NewReader(text), int64(len(text)))
}

// source is a whole file, on the disk or in memory.
type source interface {
	io.ReadSeeker
	io.ReaderAt
}

func (f *File) readHead(src source, size int64) error {
	if size == 0 {
		return f.refuse("an empty file", "a matrix")
	}
	if f.named && f.name == "" {
		return f.refuse("no name after ':'", "the name of a matrix in the file")
	}
	switch f.format {
	case formatText:
		return f.readTextHead(src)
	case formatMTX:
		return f.readMTXHead(src, size)
	case formatNPZ:
		return f.readNPZHead(src, size)
	case formatSafetensors:
		return f.readTensorsHead(src, size)
	}
	return f.readNPYHead(src, size)
}

// setShape takes the dimensions that a header states.
func (f *File) setShape(dims []int) error {
	f.Batch, f.Rows, f.Cols, f.Dims = 1, 1, 1, len(dims)
	switch f.Dims {
	case 0:
	case 1:
		f.Cols = dims[0]
	case 2:
		f.Rows, f.Cols = dims[0], dims[1]
	case 3:
		f.Batch, f.Rows, f.Cols = dims[0], dims[1], dims[2]
	default:
		return f.refuse(fmt.Sprintf("%d dimensions, shape %s", f.Dims, shapeText(dims)), "a batch of matrices, a matrix, a vector or one value")
	}
	if !countable(f.Batch, f.Rows, f.Cols) {
		return f.refuse("shape "+shapeText(dims), "one whose size in bytes can be counted")
	}
	return nil
}

// countable reports whether the bytes of values of any type can be counted, as
// in NumPy even where a dimension is 0.
func countable(batch, rows, cols int) bool {
	return max(batch, 1) <= math.MaxInt/8/max(rows, 1)/max(cols, 1)
}

// count is the number of values.
func (f *File) count() int { return f.Batch * f.Rows * f.Cols }

// Float32 returns the values, dense and row-major, one matrix after the other,
// Batch*Rows*Cols of them, in a slice that the caller owns. Each is rounded
// once, to the nearest float32, ties to even; integers, f8 and text beyond the
// range of float32 become ±Inf as in any such conversion. True is 1.
//
// The entries of an .mtx file that are listed for one cell are added in
// float64, in their order, and the sum is rounded.
//
// Memory peaks at the result and a buffer of fixed size; for an .mtx file of
// coordinates at one bit more for each element, and a float64 for each cell
// that is listed twice. From a pipe and from a compressed member of a .npz
// archive it peaks at up to twice the result, which then grows as data comes,
// whatever its header states.
//
// The values can be read once, as one type. A *FormatError reports a file
// shorter or longer than its header states.
func (f *File) Float32() ([]float32, error) { return readValues(f, asFloat32) }

// Float16 is Float32 for values of binary16. Each is rounded once, ties to
// even, from the type in the file directly to binary16; text counts as the
// float64 nearest to it. Values that round beyond ±65504 become ±Inf.
func (f *File) Float16() ([]float16.Float16, error) { return readValues(f, asFloat16) }

// BFloat16 is Float16 for bfloat16, the upper 16 bits of a float32.
func (f *File) BFloat16() ([]uint16, error) { return readValues(f, asBFloat16) }

// Int8 is Float32 for whole numbers from -128 to 127. A *FormatError names the
// first value in the file that is none, and its place.
func (f *File) Int8() ([]int8, error) { return readValues(f, asInt8) }

func readValues[T element](f *File, as conversion[T]) ([]T, error) {
	// A second read is an error for every kind of file, not only for pipes.
	if f.used {
		return nil, fmt.Errorf("the values of %s have been read already", f.Path)
	}
	f.used = true
	if f.Lost != nil {
		as = counting(as, f.Lost)
	}
	switch f.format {
	case formatText:
		return readText(f, as)
	case formatMTX:
		return readMTX(f, as)
	}
	return readRaw(f, as)
}

// Close closes the file. Values returned before stay valid, and closing twice
// is no error.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file, f.src, f.text = nil, closed{}, closed{}
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	return nil
}

// closed stands in for the source of a closed file.
type closed struct{}

func (closed) Read([]byte) (int, error)       { return 0, os.ErrClosed }
func (closed) Seek(int64, int) (int64, error) { return 0, os.ErrClosed }

func (f *File) refuse(found, want string) error {
	return &FormatError{Path: f.Path, Found: found, Want: want}
}

// failed wraps an error of the operating system so that it names the file once.
// A *FormatError stays as it is.
func (f *File) failed(err error) error {
	if fe, ok := errors.AsType[*FormatError](err); ok {
		return fe
	}
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	return fmt.Errorf("read %s: %w", f.Path, err)
}

// clip shortens text from a file so that a message stays one line.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}
