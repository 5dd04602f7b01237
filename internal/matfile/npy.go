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
	"strings"
)

const (
	npyMagic = "\x93NUMPY"
	zipMagic = "PK\x03\x04"
	npyWant  = "a .npy file (text needs the ending .csv or .tsv)"

	// maxHeader bounds the bytes of a header; NumPy itself warns above 10000.
	maxHeader = 1 << 20
)

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
	if decode64(dtype) == nil || dtype == "bf16" {
		return f.refuse(fmt.Sprintf("dtype %q", clip(head.descr)), "f2, f4, f8, i1 to i8, u1 to u8 or b1")
	}
	if err := f.setShape(head.shape); err != nil {
		return err
	}
	f.setRaw(dtype, head.descr)
	f.raw.swapped = swapped
	f.raw.fortran = head.fortran && max(f.Batch, f.Rows, f.Cols) < f.count()

	if f.raw.sized = size >= 0; f.raw.sized {
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
	case strings.HasPrefix(string(lead[:n]), zipMagic):
		return "", 0, f.refuse("a zip archive (.npz?)", "one matrix in a .npy file, or the ending .npz")
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
