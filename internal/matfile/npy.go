package matfile

// The format: https://numpy.org/neps/nep-0001-npy-format.html and
// numpy/lib/format.py. The library sbinet/npyio (v0.14.0) was read against it and
// not used: it takes the length of the header on trust, panics on a header
// without newline or with its keys in another order, does not know version
// 3.0, and writes data that is not aligned.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/x448/float16"
)

const (
	npyMagic = "\x93NUMPY"
	npyWant  = "a .npy file (text needs the ending .csv or .tsv)"

	// maxHeader bounds the bytes of a header; NumPy itself warns above 10000.
	maxHeader = 1 << 20
)

// npyLayout says how the values lie in a .npy file.
type npyLayout struct {
	itemSize int    // bytes per value
	swapped  bool   // the byte order is not the host's
	fortran  bool   // column-major, and this makes a difference
	sized    bool   // the file's real size is known and has been checked
	what     string // for messages: "8x8 of <f4"
}

// readNPYHead reads and checks the header. Size is that of the whole file in
// bytes, -1 when unknown.
func (f *File) readNPYHead(src io.Reader, size int64) error {
	text, start, err := f.readNPYText(src)
	if err != nil {
		return err
	}
	head, err := parseHeader(text)
	if err != nil {
		return f.refuse("a header that does not parse: "+err.Error(), "a .npy header")
	}

	dtype, swapped := splitDType(head.descr)
	if decoder(dtype) == nil {
		return f.refuse(fmt.Sprintf("dtype %q", clip(head.descr)), "f2, f4, f8, i1 to i8, u1 to u8 or b1")
	}
	f.DType = dtype
	f.npy.itemSize = int(dtype[1] - '0')
	f.npy.swapped = swapped

	f.Rows, f.Cols, f.Dims = 1, 1, len(head.shape)
	switch f.Dims {
	case 0:
	case 1:
		f.Cols = head.shape[0]
	case 2:
		f.Rows, f.Cols = head.shape[0], head.shape[1]
	default:
		return f.refuse(fmt.Sprintf("%d dimensions, shape %s", f.Dims, shapeText(head.shape)), "a matrix, a vector or one value")
	}
	// Bytes of the values, in the file and as float32, must be countable even
	// where one dimension is 0, as NumPy has it.
	if max(f.Rows, 1) > math.MaxInt/8/max(f.Cols, 1) {
		return f.refuse("shape "+shapeText(head.shape), "one whose size in bytes can be counted")
	}
	f.npy.fortran = head.fortran && f.Rows > 1 && f.Cols > 1
	f.npy.what = fmt.Sprintf("%dx%d of %s", f.Rows, f.Cols, head.descr)

	if f.npy.sized = size >= 0; f.npy.sized {
		if have := size - start; have != f.dataSize() {
			return f.refuseSize(fmt.Sprint(have))
		}
	}
	f.src = src
	return nil
}

// readNPYText returns the header's text and the number of bytes read so far.
func (f *File) readNPYText(src io.Reader) (text string, start int64, err error) {
	lead := make([]byte, len(npyMagic)+2)
	n, err := io.ReadFull(src, lead)
	switch {
	case err == io.EOF:
		return "", 0, f.refuse("an empty file", "a matrix")
	case err != nil && err != io.ErrUnexpectedEOF:
		return "", 0, f.failed(err)
	case strings.HasPrefix(string(lead[:n]), "PK\x03\x04"):
		return "", 0, f.refuse("a zip archive (.npz?)", "one matrix in a .npy file")
	case !strings.HasPrefix(npyMagic, string(lead[:min(n, len(npyMagic))])):
		return "", 0, f.refuse(fmt.Sprintf("first bytes %q", lead[:n]), npyWant)
	case n < len(lead):
		return "", 0, f.refuseHeader(n, "at least 10")
	}

	var length []byte
	switch major, minor := lead[6], lead[7]; {
	case minor == 0 && major == 1:
		length = make([]byte, 2)
	case minor == 0 && (major == 2 || major == 3):
		length = make([]byte, 4)
	default:
		return "", 0, f.refuse(fmt.Sprintf(".npy version %d.%d", major, minor), "version 1.0, 2.0 or 3.0")
	}
	if n, err := io.ReadFull(src, length); err != nil {
		return "", 0, f.headerCut(err, len(lead)+n, "at least 10")
	}
	var size uint32
	if len(length) == 2 {
		size = uint32(binary.LittleEndian.Uint16(length))
	} else {
		size = binary.LittleEndian.Uint32(length)
	}
	if size > maxHeader {
		return "", 0, f.refuse(fmt.Sprintf("a header of %d bytes", size), fmt.Sprintf("at most %d", maxHeader))
	}
	begin := len(lead) + len(length)
	head := make([]byte, size)
	if n, err := io.ReadFull(src, head); err != nil {
		return "", 0, f.headerCut(err, begin+n, fmt.Sprint(begin+len(head)))
	}
	return string(head), int64(begin + len(head)), nil
}

func (f *File) headerCut(err error, have int, want string) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return f.failed(err)
	}
	return f.refuseHeader(have, want)
}

func (f *File) refuseHeader(have int, want string) error {
	return f.refuse(fmt.Sprintf("cut inside the header after %d bytes", have), want)
}

// dataSize is the size of the values in the file, in bytes.
func (f *File) dataSize() int64 {
	return int64(f.Rows) * int64(f.Cols) * int64(f.npy.itemSize)
}

func (f *File) refuseSize(have string) error {
	return f.refuse(have+" bytes of data", fmt.Sprintf("%d for %s", f.dataSize(), f.npy.what))
}

// readNPY reads the values. With direct, a value lies in the file as in a T,
// but perhaps for its byte order; decode takes the bytes of one, little-endian.
func readNPY[T float32 | float16.Float16](f *File, direct bool, decode func([]byte) T) ([]T, error) {
	n, size := f.Rows*f.Cols, f.npy.itemSize
	direct = direct && !f.npy.swapped && !f.npy.fortran
	reverse := f.npy.swapped == hostLittleEndian

	// The memory is taken at once only where the file is known to hold as much.
	room := n
	if !f.npy.sized {
		room = min(n, bufferSize)
	}
	values := make([]T, room)
	// Values of a column are Cols apart in the result; without all of its
	// memory they are kept as they come, and transposed at the end.
	step := 1
	if f.npy.fortran && f.npy.sized {
		step = f.Cols
	}

	var buf []byte
	if !direct {
		buf = make([]byte, min(n*size, bufferSize))
	}
	for done, at := 0, 0; done < n; {
		count := min(n-done, bufferSize/size)
		if done+count > len(values) {
			grown := make([]T, min(n, 2*len(values)))
			copy(grown, values)
			values = grown
		}
		var raw []byte
		if direct {
			raw = bytesOf(values[done : done+count])
		} else {
			raw = buf[:count*size]
		}
		got, err := io.ReadFull(f.src, raw)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, f.refuseSize(fmt.Sprint(done*size + got))
		}
		if err != nil {
			return nil, f.failed(err)
		}
		done += count
		if direct {
			continue
		}
		for ; len(raw) > 0; raw = raw[size:] {
			if reverse {
				slices.Reverse(raw[:size])
			}
			values[at] = decode(raw[:size])
			at = next(at, step, n)
		}
	}

	var more [1]byte
	switch got, err := io.ReadFull(f.src, more[:]); {
	case got > 0:
		return nil, f.refuseSize(fmt.Sprintf("more than %d", f.dataSize()))
	case err != io.EOF:
		return nil, f.failed(err)
	}
	if f.npy.fortran && step == 1 {
		values = transpose(values, f.Cols)
	}
	return values, nil
}

// next walks n places in steps that divide n, column after column.
func next(at, step, n int) int {
	if at += step; at >= n {
		at -= n - 1
	}
	return at
}

// transpose turns column-major values into row-major ones with cols columns.
func transpose[T any](values []T, cols int) []T {
	out := make([]T, len(values))
	at := 0
	for _, v := range values {
		out[at] = v
		at = next(at, cols, len(values))
	}
	return out
}

// bytesOf returns the memory of s.
func bytesOf[T float32 | float16.Float16](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

var hostLittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// splitDType takes the byte order off a dtype such as "<f4". As in NumPy, no
// order, '=' and '|' mean the host's.
func splitDType(descr string) (dtype string, swapped bool) {
	if descr == "" {
		return "", false
	}
	switch descr[0] {
	case '<':
		return descr[1:], !hostLittleEndian
	case '>':
		return descr[1:], hostLittleEndian
	case '=', '|':
		return descr[1:], false
	}
	return descr, false
}

// decoder returns the conversion of one little-endian value to float32, nil
// for an unknown dtype.
func decoder(dtype string) func(b []byte) float32 {
	le := binary.LittleEndian
	switch dtype {
	case "f2":
		return func(b []byte) float32 { return float16.Frombits(le.Uint16(b)).Float32() }
	case "f4":
		return func(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) }
	case "f8":
		return func(b []byte) float32 { return float32(math.Float64frombits(le.Uint64(b))) }
	case "i1":
		return func(b []byte) float32 { return float32(int8(b[0])) }
	case "i2":
		return func(b []byte) float32 { return float32(int16(le.Uint16(b))) }
	case "i4":
		return func(b []byte) float32 { return float32(int32(le.Uint32(b))) }
	case "i8":
		return func(b []byte) float32 { return float32(int64(le.Uint64(b))) }
	case "u1":
		return func(b []byte) float32 { return float32(b[0]) }
	case "u2":
		return func(b []byte) float32 { return float32(le.Uint16(b)) }
	case "u4":
		return func(b []byte) float32 { return float32(le.Uint32(b)) }
	case "u8":
		return func(b []byte) float32 { return float32(le.Uint64(b)) }
	case "b1":
		return func(b []byte) float32 {
			if b[0] != 0 {
				return 1
			}
			return 0
		}
	}
	return nil
}

// decoder16 is decoder for binary16.
func decoder16(dtype string) func(b []byte) float16.Float16 {
	le := binary.LittleEndian
	switch dtype {
	case "f2":
		return func(b []byte) float16.Float16 { return float16.Frombits(le.Uint16(b)) }
	case "f8":
		return func(b []byte) float16.Float16 { return fromFloat64(math.Float64frombits(le.Uint64(b))) }
	}
	// The way over float32 rounds once: f4 and integers below 2^24 are exact
	// there, and larger integers are Inf in binary16 however they round.
	decode := decoder(dtype)
	return func(b []byte) float16.Float16 { return float16.Fromfloat32(decode(b)) }
}

// fromFloat64 rounds v to binary16, to nearest, ties to even.
//
// Rounding to float32 on the way would round twice: 1 + 2^-11 + 2^-40 would
// first become a tie. So the way goes through v rounded to odd: of the two
// float32 around an inexact v the one with the odd significand, which keeps
// the rest of v visible in its last bit (Boldo and Melquiond,
// doi:10.1109/TC.2007.70819).
func fromFloat64(v float64) float16.Float16 {
	odd := float32(v)
	if bits := math.Float32bits(odd); float64(odd) != v && bits&1 == 0 && !math.IsNaN(v) {
		if math.Abs(float64(odd)) > math.Abs(v) {
			bits--
		} else {
			bits++
		}
		odd = math.Float32frombits(bits)
	}
	return float16.Fromfloat32(odd)
}

// npyHeader is the dictionary in front of the data.
type npyHeader struct {
	descr   string // "<f4"; the text of a list if the dtype is structured
	fortran bool
	shape   []int
}

// parseHeader reads the dictionary, a Python literal such as
//
//	{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//
// Keys come in any order, the last comma may be missing, and dimensions may
// carry the L of Python 2.
func parseHeader(text string) (h npyHeader, err error) {
	s := scanner{rest: text}
	if !s.eat('{') {
		return h, errors.New("no '{'")
	}
	seen := map[string]bool{}
	for !s.eat('}') {
		if len(seen) > 0 && !s.eat(',') {
			return h, s.unexpected("',' or '}'")
		}
		if len(seen) > 0 && s.eat('}') {
			break
		}
		key, ok := s.quoted()
		if !ok || !s.eat(':') {
			return h, s.unexpected("a quoted key and ':'")
		}
		if seen[key] {
			return h, fmt.Errorf("key %q twice", clip(key))
		}
		seen[key] = true
		switch key {
		case "descr":
			h.descr, err = s.descr()
		case "fortran_order":
			h.fortran, err = s.boolean()
		case "shape":
			h.shape, err = s.shape()
		default:
			err = fmt.Errorf("unknown key %q", clip(key))
		}
		if err != nil {
			return h, err
		}
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return h, fmt.Errorf("no key %q", key)
		}
	}
	if s.skip(); s.rest != "" {
		return h, s.unexpected("the end")
	}
	return h, nil
}

// shapeText writes a shape as NumPy does.
func shapeText(shape []int) string {
	text := strings.Trim(fmt.Sprint(shape), "[]")
	return clip("(" + strings.ReplaceAll(text, " ", ", ") + ")")
}
