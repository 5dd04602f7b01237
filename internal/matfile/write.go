package matfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/x448/float16"
)

// WriteFloat32 is Options.WriteFloat32 for one matrix, with the defaults.
func WriteFloat32(path string, rows, cols int, data []float32) error {
	return Options{}.WriteFloat32(path, 1, rows, cols, data)
}

// WriteFloat16 is WriteFloat32 for binary16.
func WriteFloat16(path string, rows, cols int, data []float16.Float16) error {
	return Options{}.WriteFloat16(path, 1, rows, cols, data)
}

// EncodeFloat32 returns the bytes of the .npy file that WriteFloat32 writes.
func EncodeFloat32(rows, cols int, data []float32) ([]byte, error) {
	return encode(rows, cols, data, encoding32)
}

// EncodeFloat16 is EncodeFloat32 for binary16.
func EncodeFloat16(rows, cols int, data []float16.Float16) ([]byte, error) {
	return encode(rows, cols, data, encoding16)
}

// WriteFloat32 writes a batch of rows x cols matrices, dense and row-major,
// one after the other, in the format of path's ending (see Supported). A batch
// of 1 is written with two dimensions, any other with three.
//
// A .npy file is of version 1.0, '<f4', C order. A .npz archive and a
// .safetensors file hold this one matrix, stored as it is, whatever they held
// before; NAME in out.npz:NAME and out.safetensors:NAME is arr_0 and c if it is
// not given. Text has the shortest decimals that read back to the same float32;
// .mtx is an array, general and real. Text and .mtx hold no batch and no matrix
// without values: these are refused.
//
// The file is written under another name in the same folder, flushed to the
// disk and then renamed, so that path holds the whole matrix or what it held
// before. After an error the other file is removed. Permissions stay, a link leads
// where it did, and a pipe or a device is written to as it is.
func (o Options) WriteFloat32(path string, batch, rows, cols int, data []float32) error {
	return write(o, path, batch, rows, cols, data, encoding32)
}

// WriteFloat16 is WriteFloat32 for binary16, '<f2' in .npy.
func (o Options) WriteFloat16(path string, batch, rows, cols int, data []float16.Float16) error {
	return write(o, path, batch, rows, cols, data, encoding16)
}

// WriteBFloat16 is WriteFloat32 for bfloat16. In .npy and .npz, for which NumPy
// has no such type, it is '<f4', which holds the same values.
func (o Options) WriteBFloat16(path string, batch, rows, cols int, data []uint16) error {
	return write(o, path, batch, rows, cols, data, encodingB16)
}

// WriteInt32 is WriteFloat32 for int32, '<i4' in .npy; .mtx is of integers.
func (o Options) WriteInt32(path string, batch, rows, cols int, data []int32) error {
	return write(o, path, batch, rows, cols, data, encodingI32)
}

// Supported is Options.Supported for one matrix that is not empty, with the
// defaults.
func Supported(path string) error { return Options{}.Supported(path, 1, 1, 1) }

// Supported reports whether matrices of this shape can be written to path: the
// ending is .npy, .npz, .safetensors, .mtx, .csv or .tsv in any case of
// letters, its format can hold the shape, the folder exists and takes a new
// file, and path is not a folder itself. It leaves nothing behind. It is meant
// to be asked before long work.
func (o Options) Supported(path string, batch, rows, cols int) error {
	to, _, err := o.target(path, batch, rows, cols)
	if err != nil {
		return err
	}
	name, was := destination(to.filePath)
	switch {
	case was != nil && was.IsDir():
		return &FormatError{Path: path, Found: "a directory", Want: "the name of a file to write"}
	case was != nil && !was.Mode().IsRegular():
		return nil // a pipe's reader would take closing it for the end
	}
	dir := filepath.Dir(name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: folder %s: %w", path, dir, fs.ErrNotExist)
	}
	// Permissions tell less than an attempt: the disk may be read-only.
	probe, err := createBeside(name)
	if err != nil {
		return writeError(path, err)
	}
	return writeError(path, errors.Join(probe.Close(), os.Remove(probe.Name())))
}

// target returns what path names and the options for text, with all defaults
// filled in, if that can hold matrices of the shape.
func (o Options) target(path string, batch, rows, cols int) (target, Options, error) {
	to := split(path)
	if to.format == formatText {
		var err error
		if o, err = o.forText(path); err != nil {
			return to, o, err
		}
	}
	refuse := func(found, want string) (target, Options, error) {
		return to, o, &FormatError{Path: path, Found: found, Want: want}
	}
	shape := sizeText(batch, rows, cols)
	switch to.format {
	case formatNPY:
		switch ending(path) {
		case ".npy":
		case "":
			return refuse("no ending", endings)
		default:
			return refuse(fmt.Sprintf("the ending %q", ending(path)), endings)
		}
	case formatNPZ:
		if !to.named {
			to.name = "arr_0"
		}
		to.name = strings.TrimSuffix(to.name, ".npy")
	case formatSafetensors:
		if !to.named {
			to.name = "c"
		}
		if to.name == metadataKey {
			return refuse(fmt.Sprintf("the name %q", to.name), "another: in .safetensors it stands for no tensor")
		}
	case formatMTX, formatText:
		what := "text"
		if to.format == formatMTX {
			what = ".mtx"
		}
		if batch != 1 {
			return refuse(fmt.Sprintf("a %s batch, which %s cannot show", shape, what), "the ending .npy, .npz or .safetensors")
		}
		// In .mtx it could be shown, but SciPy (1.10) does not read it.
		if rows == 0 || cols == 0 {
			return refuse(fmt.Sprintf("a %s matrix, which %s cannot show", shape, what), "the ending .npy, .npz or .safetensors")
		}
	}
	const longest = 1 << 10 // beyond any use, and far below the limits of the formats
	if to.format == formatNPZ || to.format == formatSafetensors {
		if to.name == "" {
			return refuse("no name after ':'", "a name for the matrix")
		}
		if len(to.name) > longest || !utf8.ValidString(to.name) || strings.ContainsFunc(to.name, unicode.IsControl) {
			return refuse(fmt.Sprintf("the name %q", clip(to.name)), fmt.Sprintf("at most %d bytes of UTF-8 without control characters", longest))
		}
	}
	return to, o, nil
}

// encoding says how values are written.
type encoding[T any] struct {
	descr   string                     // NumPy's name of the type
	npy     func(b []byte, v T) []byte // appends v as that type, little-endian
	dtype   string                     // the name of the type in .safetensors
	tensor  func(b []byte, v T) []byte // appends v as that type, little-endian
	text    func(b []byte, v T) []byte // appends v as a decimal
	integer bool
}

var (
	encoding32  = encoding[float32]{"<f4", append32, "F32", append32, appendText, false}
	encoding16  = encoding[float16.Float16]{"<f2", append16, "F16", append16, widened(appendText, float16.Float16.Float32), false}
	encodingB16 = encoding[uint16]{"<f4", widened(append32, fromBFloat16), "BF16", binary.LittleEndian.AppendUint16, widened(appendText, fromBFloat16), false}
	encodingI32 = encoding[int32]{"<i4", appendInt32, "I32", appendInt32, func(b []byte, v int32) []byte { return strconv.AppendInt(b, int64(v), 10) }, true}
)

func append32(b []byte, v float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
}

func append16(b []byte, v float16.Float16) []byte {
	return binary.LittleEndian.AppendUint16(b, v.Bits())
}

func appendInt32(b []byte, v int32) []byte { return binary.LittleEndian.AppendUint32(b, uint32(v)) }

func appendText(b []byte, v float32) []byte { return strconv.AppendFloat(b, float64(v), 'g', -1, 32) }

// widened is appendTo for a type whose values float32 holds exactly.
func widened[T any](appendTo func([]byte, float32) []byte, widen func(T) float32) func([]byte, T) []byte {
	return func(b []byte, v T) []byte { return appendTo(b, widen(v)) }
}

func encode[T any](rows, cols int, data []T, enc encoding[T]) ([]byte, error) {
	if err := checkLength(1, rows, cols, len(data)); err != nil {
		return nil, err
	}
	head, one := npyHead(enc.descr, 1, rows, cols), enc.npy(nil, *new(T))
	out := append(make([]byte, 0, len(head)+len(data)*len(one)), head...)
	for _, v := range data {
		out = enc.npy(out, v)
	}
	return out, nil
}

func checkLength(batch, rows, cols, length int) error {
	if batch < 0 || rows < 0 || cols < 0 || !countable(batch, rows, cols) || batch*rows*cols != length {
		return fmt.Errorf("%d values do not make %s", length, sizeText(batch, rows, cols))
	}
	return nil
}

func write[T any](o Options, path string, batch, rows, cols int, data []T, enc encoding[T]) error {
	to, o, err := o.target(path, batch, rows, cols)
	if err != nil {
		return err
	}
	if err := checkLength(batch, rows, cols, len(data)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return replace(to.filePath, func(w *bufio.Writer) error {
		switch to.format {
		case formatNPZ:
			return writeNPZ(w, to.name, npyHead(enc.descr, batch, rows, cols), data, enc)
		case formatSafetensors:
			return writeTensor(w, to.name, batch, rows, cols, data, enc)
		case formatMTX:
			return writeMTX(w, rows, cols, data, enc)
		case formatText:
			return writeText(w, o, cols, data, enc)
		}
		w.WriteString(npyHead(enc.descr, batch, rows, cols))
		return writeItems(w, data, enc.npy)
	})
}

func writeItems[T any](w io.Writer, data []T, item func(b []byte, v T) []byte) error {
	var b []byte
	for part := range slices.Chunk(data, 1024) {
		b = b[:0]
		for _, v := range part {
			b = item(b, v)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// npyHead returns all that comes before the data, which begins at a multiple
// of 64 bytes as NumPy has it.
func npyHead(descr string, batch, rows, cols int) string {
	const align = 64
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shapeText(shapeOf(batch, rows, cols)))
	begin := len(npyMagic) + len("\x01\x00") + 2
	size := (begin+len(dict)+len("\n")+align-1)/align*align - begin
	length := binary.LittleEndian.AppendUint16(nil, uint16(size))
	return npyMagic + "\x01\x00" + string(length) + dict + strings.Repeat(" ", size-len(dict)-1) + "\n"
}

// shapeOf returns the dimensions of what is written.
func shapeOf(batch, rows, cols int) []int {
	if batch == 1 {
		return []int{rows, cols}
	}
	return []int{batch, rows, cols}
}

// writeMTX writes the values column after column, as the format has it.
func writeMTX[T any](w *bufio.Writer, rows, cols int, data []T, enc encoding[T]) error {
	field := "real"
	if enc.integer {
		field = "integer"
	}
	fmt.Fprintf(w, "%s matrix array %s general\n%d %d\n", mtxBanner, field, rows, cols)
	for j := range cols {
		for i := range rows {
			b := enc.text(w.AvailableBuffer(), data[i*cols+j])
			b = bytes.TrimPrefix(b, []byte("+")) // +Inf, which not all readers take
			if _, err := w.Write(append(b, '\n')); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeText[T any](w *bufio.Writer, o Options, cols int, data []T, enc encoding[T]) error {
	for i, v := range data {
		b := enc.text(w.AvailableBuffer(), v)
		if at := bytes.IndexByte(b, '.'); at >= 0 {
			b[at] = byte(o.Decimal)
		}
		if (i+1)%cols == 0 {
			b = append(b, '\n')
		} else {
			b = utf8.AppendRune(b, o.Comma)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// replace gives path new content, or leaves it as it was. A file keeps its permissions,
// a link what it leads to; a pipe or a device is written to.
func replace(path string, content func(w *bufio.Writer) error) error {
	name, was := destination(path)
	if was != nil && !was.Mode().IsRegular() {
		return writeError(path, writeInto(name, content))
	}
	file, err := createBeside(name)
	if err != nil {
		return writeError(path, err)
	}
	if was != nil {
		_ = file.Chmod(was.Mode().Perm()) // not every file system has permissions
	}
	w := bufio.NewWriterSize(file, bufferSize)
	// The disk has the content before the name points to it, so that even a
	// crash of the machine leaves no half of it.
	if err = content(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return writeError(path, err)
}

// destination is the name that path has past all links, and what is there, or nil.
func destination(path string) (name string, was fs.FileInfo) {
	name, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path, nil
	}
	if was, err = os.Stat(name); err != nil {
		return name, nil
	}
	return name, was
}

// writeInto writes to what is no regular file.
func writeInto(path string, content func(w *bufio.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, bufferSize)
	if err = content(w); err == nil {
		err = w.Flush()
	}
	return errors.Join(err, file.Close())
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
