package matfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/x448/float16"
)

// WriteFloat32 writes a rows x cols matrix, dense and row-major, as .npy or as
// text, by the ending of path (see Supported).
//
// A .npy file is of version 1.0, '<f4', C order, two dimensions. Text has the
// shortest decimals that read back to the same float32; a matrix without
// values has no text and is refused.
//
// The file is written under another name in the same folder, flushed to the
// disk and then renamed, so that path holds the whole matrix or what it held
// before. After an error the other file is removed.
func WriteFloat32(path string, rows, cols int, data []float32) error {
	return write(path, rows, cols, data, encoding[float32]{
		descr: "<f4",
		bytes: func(b []byte, v float32) []byte { return binary.LittleEndian.AppendUint32(b, math.Float32bits(v)) },
		widen: func(v float32) float32 { return v },
	})
}

// WriteFloat16 is WriteFloat32 for binary16, '<f2' in .npy.
func WriteFloat16(path string, rows, cols int, data []float16.Float16) error {
	return write(path, rows, cols, data, encoding[float16.Float16]{
		descr: "<f2",
		bytes: func(b []byte, v float16.Float16) []byte { return binary.LittleEndian.AppendUint16(b, v.Bits()) },
		widen: float16.Float16.Float32,
	})
}

// Supported reports whether a matrix can be written to path: the ending is
// .npy, .csv or .tsv in any case of letters, the folder exists and takes a new
// file, and path is not a folder itself. It leaves nothing behind. It is meant
// to be asked before long work.
func Supported(path string) error {
	if err := checkEnding(path); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return &FormatError{Path: path, Found: "a directory", Want: "the name of a file to write"}
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: folder %s: %w", path, dir, fs.ErrNotExist)
	}
	// Permissions tell less than an attempt: the disk may be read-only.
	probe, err := createBeside(path)
	if err != nil {
		return writeError(path, err)
	}
	return writeError(path, errors.Join(probe.Close(), os.Remove(probe.Name())))
}

func checkEnding(path string) error {
	if ending(path) == ".npy" || comma(path) != 0 {
		return nil
	}
	found := fmt.Sprintf("the ending %q", ending(path))
	if ending(path) == "" {
		found = "no ending"
	}
	return &FormatError{Path: path, Found: found, Want: ".npy, .csv or .tsv"}
}

// encoding says how values are written.
type encoding[T any] struct {
	descr string                     // NumPy's name of the type
	bytes func(b []byte, v T) []byte // appends v, little-endian
	widen func(v T) float32          // exact
}

func write[T any](path string, rows, cols int, data []T, enc encoding[T]) error {
	if err := checkEnding(path); err != nil {
		return err
	}
	hi, lo := bits.Mul64(uint64(rows), uint64(cols))
	if rows < 0 || cols < 0 || hi != 0 || lo != uint64(len(data)) {
		return fmt.Errorf("write %s: %d values do not make %dx%d", path, len(data), rows, cols)
	}
	separator := comma(path)
	if separator != 0 && len(data) == 0 {
		return &FormatError{Path: path, Found: fmt.Sprintf("a %dx%d matrix, which text cannot show", rows, cols), Want: "the ending .npy"}
	}
	// The writes report no errors: the writer keeps the first for Flush.
	return replace(path, func(w *bufio.Writer) {
		if separator == 0 {
			w.WriteString(npyHead(enc.descr, rows, cols))
			for part := range slices.Chunk(data, 1024) {
				b := w.AvailableBuffer()
				for _, v := range part {
					b = enc.bytes(b, v)
				}
				w.Write(b)
			}
			return
		}
		for i, v := range data {
			b := strconv.AppendFloat(w.AvailableBuffer(), float64(enc.widen(v)), 'g', -1, 32)
			if (i+1)%cols == 0 {
				b = append(b, '\n')
			} else {
				b = append(b, byte(separator))
			}
			w.Write(b)
		}
	})
}

// npyHead returns all that comes before the data, which begins at a multiple
// of 64 bytes as NumPy has it.
func npyHead(descr string, rows, cols int) string {
	const align = 64
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }", descr, rows, cols)
	begin := len(npyMagic) + len("\x01\x00") + 2
	size := (begin+len(dict)+len("\n")+align-1)/align*align - begin
	length := binary.LittleEndian.AppendUint16(nil, uint16(size))
	return npyMagic + "\x01\x00" + string(length) + dict + strings.Repeat(" ", size-len(dict)-1) + "\n"
}

// replace gives path new content, or leaves it as it was.
func replace(path string, content func(w *bufio.Writer)) error {
	file, err := createBeside(path)
	if err != nil {
		return writeError(path, err)
	}
	w := bufio.NewWriterSize(file, bufferSize)
	content(w)
	// The disk has the content before the name points to it, so that even a
	// crash of the machine leaves no half of it.
	err = w.Flush()
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return writeError(path, err)
}

// createBeside creates a file in the folder of path, from where it can be
// renamed to path. Unlike os.CreateTemp it leaves the permissions to the umask.
func createBeside(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	name := fmt.Sprintf("%s.%s.%08x.tmp", dir, base, rand.Uint32())
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// writeError names path in place of the file beside it. It returns nil for nil.
func writeError(path string, err error) error {
	if err == nil {
		return nil
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	} else if le, ok := errors.AsType[*os.LinkError](err); ok {
		err = le.Err
	}
	return fmt.Errorf("write %s: %w", path, err)
}
