// Package matfile reads and writes matrices as files: NumPy's .npy, and text
// as .csv (comma) or .tsv (tab).
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
	"os"
	"path/filepath"
	"strings"

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

// File is an open matrix, its header read and checked and its values not yet
// held in memory. It must be closed. It is not safe for concurrent use.
type File struct {
	Path string

	// Rows and Cols give the shape in elements. Either may be 0, and the other
	// is then any number that the file states.
	Rows, Cols int

	// Dims is the number of dimensions in the file: 2 for a matrix (always so
	// for text); 1 for a vector, which is shown as one row and which the caller
	// may turn into a column; 0 for a single value, shown as 1x1.
	Dims int

	// DType is the element type in the file, in NumPy's words without the byte
	// order: "f2", "f4", "f8", "i1" to "i8", "u1" to "u8" or "b1"; "text" for
	// .csv and .tsv.
	DType string

	file *os.File  // nil when closed, or from Decode
	src  io.Reader // at the first value, for .npy
	used bool      // the values have been read

	npy  npyLayout
	text textLayout
}

// Open reads and checks the header and the size of the matrix in a file. A
// name ending in .csv or .tsv is text; any other is .npy, so that a pipe or
// /dev/stdin can be read too.
//
// The size of a .npy file is compared with its header before any memory is
// taken for the values; in a pipe it shows only when the values are read. Text
// is read through once here, every number checked, to count rows and columns;
// text from a pipe, which cannot be read again, is kept in memory until Close.
//
// Open reports a *FormatError for what is not a matrix, and errors of the
// operating system (fs.ErrNotExist and others) wrapped.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	f := &File{Path: path, file: file}
	if err := f.init(file); err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// Decode is Open for a file whose bytes are in memory, which stay the caller's
// and must not change until Close.
func Decode(name string, data []byte) (*File, error) {
	f := &File{Path: name}
	if err := f.readHead(bytes.NewReader(data), int64(len(data))); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) init(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	if info.IsDir() {
		return f.refuse("a directory", "a .npy, .csv or .tsv file")
	}
	if !info.Mode().IsRegular() {
		return f.readStream(file)
	}
	return f.readHead(file, info.Size())
}

// readStream is readHead for a source of unknown length that is read once.
func (f *File) readStream(src io.Reader) error {
	if comma(f.Path) == 0 {
		return f.readNPYHead(src, -1)
	}
	text, err := io.ReadAll(src)
	if err != nil {
		return f.failed(err)
	}
	return f.readHead(bytes.NewReader(text), int64(len(text)))
}

func (f *File) readHead(src io.ReadSeeker, size int64) error {
	if size == 0 {
		return f.refuse("an empty file", "a matrix")
	}
	if comma(f.Path) == 0 {
		return f.readNPYHead(src, size)
	}
	return f.readTextHead(src)
}

// Float32 returns the values, dense and row-major, Rows*Cols of them, in a
// slice that the caller owns. Each is rounded once, to the nearest float32,
// ties to even; integers, f8 and text beyond the range of float32 become ±Inf
// as in any such conversion. True is 1.
//
// Memory peaks at the result and a buffer of fixed size; from a pipe at up to
// twice the result, which then grows as data comes, whatever its header states.
//
// The values can be read once: either Float32 or Float16. A *FormatError
// reports a file shorter or longer than its header states.
func (f *File) Float32() ([]float32, error) {
	if err := f.use(); err != nil {
		return nil, err
	}
	if f.DType == textDType {
		return readText(f, parseFloat32)
	}
	return readNPY(f, f.DType == "f4", decoder(f.DType))
}

// Float16 is Float32 for values of binary16. Each is rounded once, ties to
// even, from the type in the file directly to binary16; text counts as the
// float64 nearest to it. Values that round beyond ±65504 become ±Inf.
func (f *File) Float16() ([]float16.Float16, error) {
	if err := f.use(); err != nil {
		return nil, err
	}
	if f.DType == textDType {
		return readText(f, parseFloat16)
	}
	return readNPY(f, f.DType == "f2", decoder16(f.DType))
}

// use makes a second read an error for every kind of file, not only for pipes.
func (f *File) use() error {
	if f.used {
		return fmt.Errorf("the values of %s have been read already", f.Path)
	}
	f.used = true
	return nil
}

// Close closes the file. Values returned before stay valid, and closing twice
// is no error.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file, f.src, f.text = nil, closed{}, textLayout{src: closed{}}
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
func (f *File) failed(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	return fmt.Errorf("read %s: %w", f.Path, err)
}

// comma returns the separator of a text file by the ending of its name, 0 for
// a name that is not one of text.
func comma(path string) rune {
	switch ending(path) {
	case ".csv":
		return ','
	case ".tsv":
		return '\t'
	}
	return 0
}

func ending(path string) string { return strings.ToLower(filepath.Ext(path)) }

// clip shortens text from a file so that a message stays one line.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}
