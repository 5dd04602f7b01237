//go:build !page

package matfile

// The format: https://github.com/huggingface/safetensors, "Format" in its
// README, and what the library there refuses.

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxTensorsHeader is the format's own limit, in bytes.
	maxTensorsHeader = 100_000_000

	// maxTensorDims is far beyond what any library has; it bounds memory.
	maxTensorDims = 64
)

// tensorBits has the types of the format. Some are read (see tensorDTypes).
var tensorBits = map[string]uint64{
	"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
	"F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
	"F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}

// tensorDTypes has those that are read, in NumPy's words.
var tensorDTypes = map[string]string{"F32": "f4", "F16": "f2", "BF16": "bf16", "I8": "i1"}

// tensor is one entry of the header.
type tensor struct {
	name, dtype string
	shape       []int
	begin, end  int64 // of its bytes, behind the header
}

func (f *File) readTensorsHead(src io.ReaderAt, size int64) error {
	var lead [8]byte
	if size < int64(len(lead)) {
		return f.refuse(fmt.Sprintf("a file of %d bytes", size), "a .safetensors file, which begins with 8 bytes for the length of its header")
	}
	if _, err := src.ReadAt(lead[:], 0); err != nil {
		return f.failed(err)
	}
	length := binary.LittleEndian.Uint64(lead[:])
	rest := size - int64(len(lead))
	switch {
	case length > maxTensorsHeader:
		return f.refuse(fmt.Sprintf("a header of %d bytes", length), fmt.Sprintf("at most %d, the limit of .safetensors", maxTensorsHeader))
	case int64(length) > rest:
		return f.refuse(fmt.Sprintf("a header of %d bytes in a file of %d", length, size), "a whole .safetensors file")
	}
	head := make([]byte, length)
	if _, err := src.ReadAt(head, int64(len(lead))); err != nil && (err != io.EOF || rest > int64(length)) {
		return f.failed(err)
	}
	tensors, err := parseTensors(head)
	if err != nil {
		return f.refuse("a header that does not parse: "+err.Error(), "a .safetensors header")
	}
	data := rest - int64(length)
	if err := f.checkTensors(tensors, data); err != nil {
		return err
	}
	t, err := f.tensor(tensors)
	if err != nil {
		return err
	}

	dtype, ok := tensorDTypes[t.dtype]
	if !ok {
		return f.refuse(fmt.Sprintf("tensor %q of dtype %s", clip(t.name), t.dtype), "F32, F16, BF16 or I8")
	}
	if err := f.setShape(t.shape); err != nil {
		return err
	}
	f.setRaw(dtype, t.dtype)
	f.raw.swapped = !hostLittleEndian
	f.raw.sized = true
	f.src = io.NewSectionReader(src, size-data+t.begin, t.end-t.begin)
	return nil
}

// tensor returns the one that is asked for.
func (f *File) tensor(tensors []tensor) (tensor, error) {
	if !f.named && len(tensors) == 1 {
		return tensors[0], nil
	}
	names := make([]string, len(tensors))
	for i, t := range tensors {
		if f.named && t.name == f.name {
			return t, nil
		}
		names[i] = t.name
	}
	return tensor{}, f.refuseNames("tensors", names)
}

// checkTensors checks that the tensors fill the data bytes behind the header,
// without gaps and each with as many bytes as its shape and type need.
func (f *File) checkTensors(tensors []tensor, data int64) error {
	for _, t := range tensors {
		quoted := fmt.Sprintf("tensor %q", clip(t.name))
		perItem, ok := tensorBits[t.dtype]
		if !ok {
			return f.refuse(fmt.Sprintf("%s of dtype %q", quoted, clip(t.dtype)), "a type of .safetensors")
		}
		if t.begin > t.end || t.end > data {
			return f.refuse(fmt.Sprintf("%s at bytes %d to %d of %d", quoted, t.begin, t.end, data), "one inside the file")
		}
		need, ok := tensorSize(t.shape, perItem)
		if !ok {
			return f.refuse(fmt.Sprintf("%s of shape %s", quoted, shapeText(t.shape)), "one whose size in bytes can be counted")
		}
		if have := t.end - t.begin; have != need {
			return f.refuse(fmt.Sprintf("%s of %d bytes", quoted, have), fmt.Sprintf("%d for shape %s of %s", need, shapeText(t.shape), t.dtype))
		}
	}
	byPlace := slices.SortedFunc(slices.Values(tensors), func(a, b tensor) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	var last tensor
	for _, t := range byPlace {
		if t.begin < last.end {
			return f.refuse(fmt.Sprintf("tensors %q and %q overlap at byte %d", clip(last.name), clip(t.name), t.begin), "bytes of their own for each")
		}
		if t.begin > last.end {
			return f.refuse(fmt.Sprintf("bytes %d to %d of no tensor", last.end, t.begin), "a file without gaps")
		}
		last = t
	}
	if last.end != data {
		return f.refuse(fmt.Sprintf("%d bytes of data", data), fmt.Sprintf("%d for its tensors", last.end))
	}
	return nil
}

// tensorSize returns the bytes of a tensor, false if they are no whole number
// or cannot be counted.
func tensorSize(shape []int, perItem uint64) (int64, bool) {
	total := perItem
	for _, dim := range shape {
		hi, lo := bits.Mul64(total, uint64(dim))
		if hi != 0 {
			return 0, false
		}
		total = lo
	}
	return int64(total / 8), total%8 == 0 && total/8 <= math.MaxInt64
}

// parseTensors reads the header, a JSON object such as
//
//	{"__metadata__": {"by": "me"}, "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
//
// json.Unmarshal would take the last of two tensors of one name, and keys in
// any case of letters.
func parseTensors(head []byte) ([]tensor, error) {
	if len(head) == 0 || head[0] != '{' {
		return nil, fmt.Errorf("%q in place of '{'", clip(string(head[:min(len(head), 100)])))
	}
	if !utf8.Valid(head) {
		return nil, errors.New("it is not UTF-8")
	}
	p := tensorParser{json.NewDecoder(bytes.NewReader(head))}
	p.UseNumber()
	var tensors []tensor
	seen := map[string]bool{}
	err := p.object(func(name string) error {
		if seen[name] {
			return fmt.Errorf("%q twice", clip(name))
		}
		seen[name] = true
		if name == metadataKey {
			return p.object(func(string) error {
				_, err := p.text()
				return err
			})
		}
		t, err := p.tensor(name)
		tensors = append(tensors, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	if token, err := p.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s behind its end", tokenText(token, err))
	}
	return tensors, nil
}

// tensorParser takes what is wanted next off a JSON text.
type tensorParser struct{ *json.Decoder }

func (p tensorParser) tensor(name string) (tensor, error) {
	t := tensor{name: name}
	seen := map[string]bool{}
	err := p.object(func(key string) (err error) {
		if seen[key] {
			return fmt.Errorf("tensor %q has %q twice", clip(name), clip(key))
		}
		seen[key] = true
		switch key {
		case "dtype":
			t.dtype, err = p.text()
		case "shape":
			err = p.numbers(func(v int64) error {
				if v > math.MaxInt || len(t.shape) == maxTensorDims {
					return fmt.Errorf("tensor %q has a shape too large", clip(name))
				}
				t.shape = append(t.shape, int(v))
				return nil
			})
		case "data_offsets":
			var offsets []int64
			err = p.numbers(func(v int64) error {
				if len(offsets) == 2 {
					return fmt.Errorf("tensor %q has more than 2 data_offsets", clip(name))
				}
				offsets = append(offsets, v)
				return nil
			})
			if err == nil && len(offsets) < 2 {
				err = fmt.Errorf("tensor %q has %d data_offsets", clip(name), len(offsets))
			}
			if err == nil {
				t.begin, t.end = offsets[0], offsets[1]
			}
		default:
			err = fmt.Errorf("tensor %q has the unknown key %q", clip(name), clip(key))
		}
		return err
	})
	if err != nil {
		return t, err
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return t, fmt.Errorf("tensor %q has no %q", clip(name), key)
		}
	}
	return t, nil
}

// object takes an object and lets value take what stands behind each key.
func (p tensorParser) object(value func(key string) error) error {
	if err := p.delim('{'); err != nil {
		return err
	}
	for p.More() {
		key, err := p.text()
		if err != nil {
			return err
		}
		if err := value(key); err != nil {
			return err
		}
	}
	return p.delim('}')
}

// numbers takes an array of whole numbers from 0 to 2^63 - 1.
func (p tensorParser) numbers(value func(v int64) error) error {
	if err := p.delim('['); err != nil {
		return err
	}
	for p.More() {
		token, err := p.Token()
		number, ok := token.(json.Number)
		if err != nil || !ok {
			return fmt.Errorf("%s in place of a number", tokenText(token, err))
		}
		v, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || number[0] == '-' {
			return fmt.Errorf("%s in place of a whole number from 0 to 2^63 - 1", clip(string(number)))
		}
		if err := value(v); err != nil {
			return err
		}
	}
	return p.delim(']')
}

func (p tensorParser) text() (string, error) {
	token, err := p.Token()
	text, ok := token.(string)
	if err != nil || !ok {
		return "", fmt.Errorf("%s in place of a text in quotes", tokenText(token, err))
	}
	return text, nil
}

func (p tensorParser) delim(want json.Delim) error {
	if token, err := p.Token(); err != nil || token != want {
		return fmt.Errorf("%s in place of '%s'", tokenText(token, err), want)
	}
	return nil
}

func tokenText(token json.Token, err error) string {
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return "the end"
	case err != nil:
		return clip(err.Error())
	}
	return fmt.Sprintf("%q", clip(fmt.Sprint(token)))
}

// writeTensor writes a .safetensors file of one tensor, whose data begin at a
// multiple of 8 bytes.
func writeTensor[T any](w *bufio.Writer, name string, batch, rows, cols int, data []T, enc encoding[T]) error {
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	size := len(data) * len(enc.tensor(nil, *new(T)))
	head, err := json.Marshal(map[string]entry{name: {enc.dtype, shapeOf(batch, rows, cols), [2]int{0, size}}})
	if err != nil {
		return err
	}
	const align = 8
	head = append(head, strings.Repeat(" ", (align-len(head)%align)%align)...)
	w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(head))))
	w.Write(head)
	return writeItems(w, data, enc.tensor)
}
