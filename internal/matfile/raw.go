package matfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unsafe"
)

// rawLayout says how values lie as bytes: in .npy, in a member of a .npz
// archive, and in .safetensors.
type rawLayout struct {
	itemSize int    // bytes per value
	swapped  bool   // the byte order is not the host's
	fortran  bool   // the first dimension runs fastest, and this makes a difference
	sized    bool   // the file's real size is known and has been checked
	what     string // for messages: "8x8 of <f4"
}

// setRaw takes the element type, and descr as the file names it.
func (f *File) setRaw(dtype, descr string) {
	f.DType = dtype
	f.raw.itemSize = itemSize(dtype)
	f.raw.what = fmt.Sprintf("%s of %s", sizeText(f.Batch, f.Rows, f.Cols), descr)
}

func itemSize(dtype string) int {
	if dtype == "bf16" {
		return 2
	}
	return int(dtype[1] - '0')
}

// dataSize is the size of the values in the file, in bytes.
func (f *File) dataSize() int64 { return int64(f.count()) * int64(f.raw.itemSize) }

func (f *File) refuseSize(have string) error {
	return f.refuse(have+" bytes of data", fmt.Sprintf("%d for %s", f.dataSize(), f.raw.what))
}

// readRaw reads the values from f.src.
func readRaw[T element](f *File, as conversion[T]) ([]T, error) {
	n, size := f.count(), f.raw.itemSize
	// Values lie in the file as in memory, but perhaps for the byte order.
	direct := f.DType == as.dtype && !f.raw.swapped && !f.raw.fortran
	reverse := f.raw.swapped == hostLittleEndian
	decode := as.decoder(f.DType)
	var fits func(b []byte) bool
	if as.fits != nil {
		fits = as.fits(f.DType)
	}

	// The memory is taken at once only where the file is known to hold as much.
	room := n
	if !f.raw.sized {
		room = min(n, bufferSize)
	}
	values := make([]T, room)
	// In Fortran order neighbours are far apart in the result; without all of
	// its memory they are kept as they come, and put in order at the end.
	scatter := f.raw.fortran && f.raw.sized
	order := fortranOrder{batch: f.Batch, rows: f.Rows, cols: f.Cols}

	var buf []byte
	if !direct {
		buf = make([]byte, min(n*size, bufferSize))
	}
	for done := 0; done < n; {
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
		if direct {
			done += count
			continue
		}
		for ; len(raw) > 0; raw = raw[size:] {
			item := raw[:size]
			if reverse {
				slices.Reverse(item)
			}
			if fits != nil && !fits(item) {
				return nil, f.refuseValue(decode64(f.DType)(item), f.placeInFile(done), as.want)
			}
			at := done
			if scatter {
				at = order.next()
			}
			values[at] = decode(item)
			done++
		}
	}

	var more [1]byte
	switch got, err := io.ReadFull(f.src, more[:]); {
	case got > 0:
		return nil, f.refuseSize(fmt.Sprintf("more than %d", f.dataSize()))
	case err != io.EOF:
		return nil, f.failed(err)
	}
	if f.raw.fortran && !scatter {
		out := make([]T, n)
		for _, v := range values {
			out[order.next()] = v
		}
		values = out
	}
	return values, nil
}

// fortranOrder walks a batch of matrices so that the first index runs fastest,
// and the last one slowest.
type fortranOrder struct {
	batch, rows, cols int
	b, i, j           int // of the next value
}

// next returns the place of the next value in the row-major result.
func (o *fortranOrder) next() int {
	at := (o.b*o.rows+o.i)*o.cols + o.j
	if o.b++; o.b == o.batch {
		o.b = 0
		if o.i++; o.i == o.rows {
			o.i = 0
			o.j++
		}
	}
	return at
}

// placeInFile returns the indices of the n-th value in the file.
func (f *File) placeInFile(n int) string {
	if f.raw.fortran {
		return f.place(n%f.Batch, n/f.Batch%f.Rows, n/f.Batch/f.Rows)
	}
	return f.place(n/f.Cols/f.Rows, n/f.Cols%f.Rows, n%f.Cols)
}

// place writes the indices of a value as NumPy does.
func (f *File) place(b, i, j int) string {
	switch f.Dims {
	case 0:
		return "[]"
	case 1:
		return fmt.Sprintf("[%d]", j)
	case 2:
		return fmt.Sprintf("[%d, %d]", i, j)
	}
	return fmt.Sprintf("[%d, %d, %d]", b, i, j)
}

func (f *File) refuseValue(v float64, place, want string) error {
	return f.refuse(fmt.Sprintf("%s at %s, counted from 0", strconv.FormatFloat(v, 'g', -1, 64), place), want)
}

// sizeText is "2x3", or "4x2x3" for a batch.
func sizeText(batch, rows, cols int) string {
	if batch == 1 {
		return fmt.Sprintf("%dx%d", rows, cols)
	}
	return fmt.Sprintf("%dx%dx%d", batch, rows, cols)
}

// bytesOf returns the memory of s, which is not empty.
func bytesOf[T element](s []T) []byte {
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
