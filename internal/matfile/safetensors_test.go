package matfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"
)

// tensors is a .safetensors file.
func tensors(head string, data []byte) []byte {
	return slices.Concat(le(uint64(len(head))), []byte(head), data)
}

// entry is one of a header.
func entry(name, dtype, shape string, begin, end int64) string {
	return fmt.Sprintf(`"%s":{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, name, dtype, shape, begin, end)
}

func TestSafetensors(t *testing.T) {
	t.Parallel()
	data := slices.Concat(
		le(float32(1), float32(-2), float32(3), float32(4)),             // 0 to 16
		le(uint16(0x3c00), uint16(0xc000)),                              // to 20
		le(uint16(0x3f80), uint16(0x4000), uint16(0x3f81), uint16(0)),   // to 28
		le(int8(-128), int8(127)),                                       // to 30
		le(int64(1), int64(2)), le(uint8(1), uint8(0)), []byte{0, 0x3f}, // to 46, 48, 50
	)
	head := "{" + strings.Join([]string{
		`"__metadata__":{"format":"pt","note":"a \"quoted\" one"}`,
		entry("half", "F16", "[2]", 16, 20),
		entry("w", "F32", "[2,2]", 0, 16),
		entry("brain", "BF16", "[2,1,2]", 20, 28),
		entry("tiny", "I8", "[1,2]", 28, 30),
		entry("long", "I64", "[2]", 30, 46),
		entry("none", "F32", "[0,3]", 46, 46),
		entry("flags", "BOOL", "[1,2,1,1]", 46, 48),
		entry("one:two", "BF16", "[]", 48, 50),
		entry("a\\u0062", "F16", "[0]", 50, 50),
	}, ", ") + "}   "
	file := tensors(head, data)
	tests := []struct {
		name                    string
		batch, rows, cols, dims int
		dtype                   string
		want                    []float32
	}{
		{"w", 1, 2, 2, 2, "f4", []float32{1, -2, 3, 4}},
		{"half", 1, 1, 2, 1, "f2", []float32{1, -2}},
		{"brain", 2, 1, 2, 3, "bf16", []float32{1, 2, 1.0078125, 0}},
		{"tiny", 1, 1, 2, 2, "i1", []float32{-128, 127}},
		{"none", 1, 0, 3, 2, "f4", nil},
		{"one:two", 1, 1, 1, 0, "bf16", []float32{.5}},
		{"ab", 1, 1, 0, 1, "f2", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachFile(t, "w.safetensors", ":"+tt.name, file, func(t *testing.T, f *File, err error) {
				if err != nil {
					t.Fatal(err)
				}
				if f.Batch != tt.batch || f.Rows != tt.rows || f.Cols != tt.cols || f.Dims != tt.dims || f.DType != tt.dtype {
					t.Errorf("got %dx%dx%d, %d dimensions, of %s", f.Batch, f.Rows, f.Cols, f.Dims, f.DType)
				}
				got, err := f.Float32()
				if err != nil || !slices.Equal(got, tt.want) {
					t.Errorf("got %v, error %v, want %v", got, err, tt.want)
				}
			})
		})
	}
	open := func(suffix string) *File {
		f, err := Decode("W.SafeTensors"+suffix, file)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if got, err := open(":brain").BFloat16(); err != nil || !slices.Equal(got, []uint16{0x3f80, 0x4000, 0x3f81, 0}) {
		t.Errorf("bf16 as it is: got %#04x, error %v", got, err)
	}
	if got, err := open(":brain").Float16(); err != nil || !slices.Equal(got, []float16.Float16{0x3c00, 0x4000, 0x3c08, 0}) {
		t.Errorf("bf16 as binary16: got %#04x, error %v", got, err)
	}
	if got, err := open(":tiny").Int8(); err != nil || !slices.Equal(got, []int8{-128, 127}) {
		t.Errorf("int8: got %v, error %v", got, err)
	}
	_, err := open(":brain").Int8()
	wantRefusal(t, err, "W.SafeTensors:brain: 1.0078125 at [1, 0, 0], counted from 0; want whole numbers")

	_, err = Decode("w.safetensors", file)
	wantRefusal(t, err, `w.safetensors: 9 tensors, "half", "w", "brain", "tiny", "long", "none", "flags", "one:two", "ab"; want the name of one behind the file's, as in w.safetensors:half`)
	_, err = Decode("w.safetensors:W", file)
	wantRefusal(t, err, `no "W" among the tensors "half", "w",`)
	_, err = Decode("w.safetensors:long", file)
	wantRefusal(t, err, `tensor "long" of dtype I64; want F32, F16, BF16 or I8`)
	_, err = Decode("w.safetensors:flags", file)
	wantRefusal(t, err, `tensor "flags" of dtype BOOL; want F32, F16, BF16 or I8`)
	_, err = openStream("w.safetensors:w", file)
	wantRefusal(t, err, "w.safetensors:w: a pipe; want a file: a tensor is read from its place in it")

	one, err := Decode("w.safetensors", tensors("{"+entry("any", "I8", "[2]", 0, 2)+"}", []byte{1, 0xff}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := one.Int8(); err != nil || !slices.Equal(got, []int8{1, -1}) {
		t.Errorf("the only tensor: got %v, error %v", got, err)
	}
}

func TestSafetensorsRefuses(t *testing.T) {
	t.Parallel()
	obj := func(entries ...string) string { return "{" + strings.Join(entries, ",") + "}" }
	w := entry("w", "F32", "[2]", 0, 8)
	many := make([]string, 12)
	for i := range many {
		many[i] = entry(fmt.Sprint("t", i), "F32", "[1]", int64(4*i), int64(4*i+4))
	}
	tests := []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "an empty file"},
		{"short", []byte("\x01\x00\x00"), "a file of 3 bytes; want a .safetensors file, which begins with 8 bytes"},
		{"header of 2^63 bytes", le(uint64(1<<63), uint64(0)), "a header of 9223372036854775808 bytes; want at most 100000000, the limit of .safetensors"},
		{"header of 2^64-1 bytes", le(uint64(1<<64-1), uint64(0)), "a header of 18446744073709551615 bytes"},
		{"header beyond the limit", le(uint64(100_000_001), uint64(0)), "a header of 100000001 bytes; want at most"},
		{"header beyond the file", le(uint64(100_000_000), uint64(0)), "a header of 100000000 bytes in a file of 16; want a whole .safetensors file"},
		{"npy", npy(1, dict("<f4", "False", "(1,)"), make([]byte, 4)), "want at most 100000000"},
		{"no header", tensors("", nil), `a header that does not parse: "" in place of '{'`},
		{"blank first", tensors(" {}", nil), `" {}" in place of '{'`},
		{"array", tensors("[]", nil), `"[]" in place of '{'`},
		{"no tensors", tensors("{}", nil), "no tensors; want a matrix"},
		{"only metadata", tensors(`{"__metadata__":{"a":"b"}}`, nil), "no tensors; want a matrix"},
		{"cut header", tensors("{"+w[:20], nil), "the end in place of"},
		{"text behind", tensors(obj(w)+" x", make([]byte, 8)), "behind its end"},
		{"two objects", tensors(obj(w)+obj(w), make([]byte, 8)), `"{" behind its end`},
		{"not UTF-8", tensors(obj(entry("\xff", "F32", "[2]", 0, 8)), make([]byte, 8)), "it is not UTF-8"},
		{"name twice", tensors(obj(w, entry("w", "F32", "[2]", 8, 16)), make([]byte, 16)), `"w" twice`},
		{"name twice, escaped", tensors(obj(w, entry("\\u0077", "F32", "[2]", 8, 16)), make([]byte, 16)), `"w" twice`},
		{"metadata twice", tensors(obj(`"__metadata__":{}`, `"__metadata__":{}`, w), make([]byte, 8)), `"__metadata__" twice`},
		{"metadata of numbers", tensors(obj(`"__metadata__":{"a":1}`, w), make([]byte, 8)), `"1" in place of a text in quotes`},
		{"metadata deep", tensors(obj(`"__metadata__":`+strings.Repeat("[", 100000), w), nil), `"[" in place of '{'`},
		{"no object", tensors(`{"w":null}`, nil), `"<nil>" in place of '{'`},
		{"no dtype", tensors(`{"w":{"shape":[1],"data_offsets":[0,4]}}`, make([]byte, 4)), `tensor "w" has no "dtype"`},
		{"no shape", tensors(`{"w":{"dtype":"F32","data_offsets":[0,4]}}`, make([]byte, 4)), `tensor "w" has no "shape"`},
		{"no offsets", tensors(`{"w":{"dtype":"F32","shape":[1]}}`, make([]byte, 4)), `tensor "w" has no "data_offsets"`},
		{"other case", tensors(`{"w":{"DTYPE":"F32","shape":[1],"data_offsets":[0,4]}}`, make([]byte, 4)), `tensor "w" has the unknown key "DTYPE"`},
		{"key twice", tensors(`{"w":{"dtype":"F32","dtype":"F32"}}`, nil), `tensor "w" has "dtype" twice`},
		{"one offset", tensors(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}}`, nil), `tensor "w" has 1 data_offsets`},
		{"three offsets", tensors(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, nil), `tensor "w" has more than 2 data_offsets`},
		{"negative", tensors(obj(entry("w", "F32", "[-1]", 0, 8)), nil), "-1 in place of a whole number from 0 to 2^63 - 1"},
		{"negative offset", tensors(obj(entry("w", "F32", "[1]", -4, 0)), nil), "-4 in place of a whole number"},
		{"minus zero", tensors(obj(entry("w", "F32", "[-0]", 0, 0)), nil), "-0 in place of a whole number"},
		{"fraction", tensors(obj(entry("w", "F32", "[1.0]", 0, 4)), nil), "1.0 in place of a whole number"},
		{"beyond int64", tensors(obj(entry("w", "F32", "[9223372036854775808]", 0, 4)), nil), "9223372036854775808 in place of a whole number"},
		{"shape of text", tensors(obj(entry("w", "F32", `["1"]`, 0, 4)), nil), `"1" in place of a number`},
		{"many dimensions", tensors(obj(entry("w", "F32", "[1"+strings.Repeat(",1", 100)+"]", 0, 4)), nil), `tensor "w" has a shape too large`},

		{"outside", tensors(obj(entry("w", "F32", "[4]", 0, 16)), make([]byte, 8)), `tensor "w" at bytes 0 to 16 of 8; want one inside the file`},
		{"outside, empty", tensors(obj(entry("w", "F32", "[0]", 9, 9)), make([]byte, 8)), `tensor "w" at bytes 9 to 9 of 8`},
		{"backwards", tensors(obj(entry("w", "F32", "[2]", 8, 0)), make([]byte, 8)), `tensor "w" at bytes 8 to 0 of 8`},
		{"offsets near 2^63", tensors(obj(`"w":{"dtype":"F32","shape":[2],"data_offsets":[9223372036854775800,9223372036854775807]}`), make([]byte, 8)), "of 8; want one inside the file"},
		{"overlap", tensors(obj(w, entry("v", "F32", "[2]", 4, 12)), make([]byte, 12)), `tensors "w" and "v" overlap at byte 4; want bytes of their own for each`},
		{"the same bytes", tensors(obj(w, entry("v", "F16", "[4]", 0, 8)), make([]byte, 8)), `overlap at byte 0`},
		{"gap", tensors(obj(w, entry("v", "F32", "[1]", 12, 16)), make([]byte, 16)), "bytes 8 to 12 of no tensor; want a file without gaps"},
		{"gap in front", tensors(obj(entry("v", "F32", "[1]", 4, 8)), make([]byte, 8)), "bytes 0 to 4 of no tensor"},
		{"data behind", tensors(obj(w), make([]byte, 9)), "9 bytes of data; want 8 for its tensors"},
		{"too small", tensors(obj(entry("w", "F32", "[3]", 0, 8)), make([]byte, 8)), `tensor "w" of 8 bytes; want 12 for shape (3) of F32`},
		{"another too large", tensors(obj(w, entry("v", "I64", "[1]", 8, 24)), make([]byte, 24)), `tensor "v" of 16 bytes; want 8 for shape (1) of I64`},
		{"product overflows", tensors(obj(entry("w", "F32", "[4611686018427387904,4]", 0, 0)), nil), `tensor "w" of shape (4611686018427387904, 4); want one whose size in bytes can be counted`},
		{"product overflows to the right size", tensors(obj(entry("w", "F32", "[4611686018427387905,4]", 0, 16)), make([]byte, 16)), "can be counted"},
		{"part of a byte", tensors(obj(entry("w", "F4", "[3]", 0, 2)), make([]byte, 2)), "can be counted"},
		{"unknown dtype", tensors(obj(entry("w", "F33", "[2]", 0, 8)), make([]byte, 8)), `tensor "w" of dtype "F33"; want a type of .safetensors`},
		{"F64", tensors(obj(entry("w", "F64", "[1]", 0, 8)), make([]byte, 8)), `tensor "w" of dtype F64; want F32, F16, BF16 or I8`},
		{"F8", tensors(obj(entry("w", "F8_E4M3", "[8]", 0, 8)), make([]byte, 8)), `tensor "w" of dtype F8_E4M3; want`},
		{"4 dimensions", tensors(obj(entry("w", "F32", "[1,1,1,2]", 0, 8)), make([]byte, 8)), "4 dimensions, shape (1, 1, 1, 2); want a batch of matrices, a matrix, a vector or one value"},
		{"huge beside 0", tensors(obj(entry("w", "F32", "[0,4611686018427387904]", 0, 0)), nil), "shape (0, 4611686018427387904); want one whose size in bytes can be counted"},
		{"many", tensors(obj(many...), make([]byte, 48)), `12 tensors, "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9" and 2 more; want`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachFile(t, "w.safetensors", "", tt.content, func(t *testing.T, _ *File, err error) { wantRefusal(t, err, tt.want) })
		})
	}
	_, err := Decode("w.safetensors:", tensors(obj(w), make([]byte, 8)))
	wantRefusal(t, err, "no name after ':'")
	_, err = Decode("w.npy", tensors(obj(w), make([]byte, 8)))
	wantRefusal(t, err, "first bytes")
}

// TestSafetensorsMemory is not parallel: it counts what the whole process
// allocates.
func TestSafetensorsMemory(t *testing.T) {
	for name, content := range map[string][]byte{
		"header of 2^63 bytes":     append(le(uint64(1<<63)), make([]byte, 1000)...),
		"header beyond the file":   append(le(uint64(99_999_999)), make([]byte, 1000)...),
		"shape beyond the file":    tensors("{"+entry("w", "F32", "[1000000,1000000]", 0, 4000000000000)+"}", make([]byte, 8)),
		"shape beyond the offsets": tensors("{"+entry("w", "F32", "[1000000,1000000]", 0, 8)+"}", make([]byte, 8)),
	} {
		if got := allocated(func() {
			_, err := Decode("w.safetensors", content)
			wantRefusal(t, err, "w.safetensors: ")
		}); got > 64<<10 {
			t.Errorf("%s: took %d bytes", name, got)
		}
	}
	// Of a large file, only the one tensor.
	const n = 1 << 20
	path := put(t, "w.safetensors", tensors("{"+entry("big", "F32", fmt.Sprintf("[8,%d]", n), 0, 32*n)+","+entry("w", "F32", fmt.Sprintf("[%d]", n), 32*n, 36*n)+"}", make([]byte, 36*n)))
	if got := allocated(func() { read32(t, path+":w") }); got > 4*n+128<<10 {
		t.Errorf("took %d bytes for a result of %d", got, 4*n)
	}
}

// failingAt is a file of which nothing can be read from one place on.
type failingAt struct {
	*bytes.Reader
	from int64
	err  error
}

func (f failingAt) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, f.err
	}
	return f.Reader.ReadAt(p, off)
}

// TestReadAtFails lets the file fail in every place.
func TestReadAtFails(t *testing.T) {
	t.Parallel()
	fault := &fs.PathError{Op: "read", Path: "inner", Err: errors.New("disk on fire")}
	for name, content := range map[string][]byte{
		"a.npz":         npz(member{name: "a.npy", content: npy(1, dict("<f4", "False", "(1, 1)"), le(float32(2)))}),
		"a.npz:a":       npz(member{name: "a.npy", method: 8, content: npy(1, dict("<f4", "False", "(1, 1)"), le(float32(2)))}),
		"w.safetensors": tensors("{"+entry("w", "F32", "[2]", 0, 8)+"}", make([]byte, 8)),
	} {
		for n := range len(content) {
			f := Options{}.newFile(name)
			err := f.readHead(failingAt{bytes.NewReader(content), int64(n), fault}, int64(len(content)))
			if err == nil {
				_, err = f.Float32()
			}
			if !errors.Is(err, fault.Err) || err.Error() != "read "+name+": disk on fire" {
				t.Fatalf("%s failing after %d bytes: got %v", name, n, err)
			}
		}
	}
}

// TestFileShrinks cuts files between Open and Float32.
func TestFileShrinks(t *testing.T) {
	t.Parallel()
	content := tensors("{"+entry("w", "F32", "[2]", 0, 8)+"}", make([]byte, 8))
	f := Options{}.newFile("w.safetensors")
	if err := f.readHead(bytes.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
	f.src = io.LimitReader(f.src, 5)
	_, err := f.Float32()
	wantRefusal(t, err, "5 bytes of data; want 8 for 1x2 of F32")
}
