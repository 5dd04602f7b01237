package matfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"
)

// TestNPYBytes checks by bytes what NumPy wants of a file
// (JetBrains-Research/npy #4, fortran-lang/stdlib PR #581).
func TestNPYBytes(t *testing.T) {
	t.Parallel()
	for _, shape := range [][2]int{{10, 4}, {1, 1}, {0, 5}, {5, 0}, {123456, 2}} {
		rows, cols := shape[0], shape[1]
		for _, descr := range []string{"<f2", "<f4"} {
			t.Run(fmt.Sprintf("%s %dx%d", descr, rows, cols), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "out.npy")
				var err error
				if descr == "<f2" {
					err = WriteFloat16(path, rows, cols, make([]float16.Float16, rows*cols))
				} else {
					err = WriteFloat32(path, rows, cols, make([]float32, rows*cols))
				}
				if err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				encoded, err := EncodeFloat32(rows, cols, make([]float32, rows*cols))
				if descr == "<f2" {
					encoded, err = EncodeFloat16(rows, cols, make([]float16.Float16, rows*cols))
				}
				if err != nil || !bytes.Equal(encoded, b) {
					t.Errorf("encoded in memory: %d bytes, %v, not those of the file, %d", len(encoded), err, len(b))
				}
				if got := string(b[:8]); got != "\x93NUMPY\x01\x00" {
					t.Errorf("begins with %q", got)
				}
				start := 10 + int(binary.LittleEndian.Uint16(b[8:]))
				if start%64 != 0 {
					t.Errorf("data begins at %d", start)
				}
				dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }", descr, rows, cols)
				if got := string(b[10:start]); strings.TrimRight(got, " \n") != dict || !strings.HasSuffix(got, "\n") || strings.Count(got, "\n") != 1 {
					t.Errorf("header %q, want %q", got, dict)
				}
				if want := start + rows*cols*int(descr[2]-'0'); len(b) != want {
					t.Errorf("file of %d bytes, want %d", len(b), want)
				}
			})
		}
	}
}

// TestProductFloat16 writes a product rounded to binary16 and reads it back.
func TestProductFloat16(t *testing.T) {
	t.Parallel()
	const m, n, k = 10, 4, 3
	c := make([]float16.Float16, 0, m*n)
	for i := range m {
		for j := range n {
			var sum float32
			for l := range k {
				sum += handA(i, l) * handB(l, j)
			}
			c = append(c, float16.Fromfloat32(sum))
		}
	}
	path := filepath.Join(t.TempDir(), "out.npy")
	if err := WriteFloat16(path, m, n, c); err != nil {
		t.Fatal(err)
	}
	_, got := read32(t, path)
	for _, s := range []spot{{0, 0, 1.78125}, {0, 3, -1.125}, {9, 0, -.90625}, {9, 3, 1.8125}, {5, 2, -.78125}} {
		if got[s.i*n+s.j] != s.want {
			t.Errorf("C[%d,%d]: got %v, want %v", s.i, s.j, got[s.i*n+s.j], s.want)
		}
	}
	var sum float32
	for _, v := range got {
		sum += v
	}
	if sum != -1.96875 {
		t.Errorf("sum: got %v, want -1.96875", sum)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, seed))
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.SmallestNonzeroFloat32, math.MaxFloat32, 0.1}
	values := make([]float32, 30*17)
	for i := range values {
		values[i] = math.Float32frombits(rng.Uint32()) // subnormals and NaN too
	}
	copy(values, special)
	halves := make([]float16.Float16, len(values))
	for i := range halves {
		halves[i] = float16.Float16(rng.Uint32())
	}
	for _, name := range []string{"c.npy", "c.csv", "c.tsv", "C.NPY"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), name)
			if err := WriteFloat32(path, 30, 17, values); err != nil {
				t.Fatal(err)
			}
			f, got := read32(t, path)
			if f.Rows != 30 || f.Cols != 17 || !slices.EqualFunc(got, values, sameBits) {
				t.Errorf("float32 differs, %dx%d, seed %d", f.Rows, f.Cols, seed)
			}

			if err := WriteFloat16(path, 17, 30, halves); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got16, err := f.Float16()
			if err != nil || f.Rows != 17 || f.Cols != 30 || !slices.EqualFunc(got16, halves, func(a, b float16.Float16) bool { return a == b || a.IsNaN() && b.IsNaN() }) {
				t.Errorf("float16 differs, error %v, seed %d", err, seed)
			}
			if left := entries(t, filepath.Dir(path)); len(left) != 1 {
				t.Errorf("files left: %v", left)
			}
		})
	}
}

func TestTextShortest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.csv")
	if err := WriteFloat32(path, 2, 3, []float32{0.1, 1, float32(math.Copysign(0, -1)), 1e20, 1e-7, float32(math.Inf(-1))}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want := "0.1,1,-0\n1e+20,1e-07,-Inf\n"; err != nil || string(got) != want {
		t.Errorf("got %q, error %v, want %q", got, err, want)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder.npy"), 0o777); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, file string
		rows, cols int
		values     int
		want       string
	}{
		{"no ending", "c", 1, 1, 1, "no ending; want .npy, .npz, .safetensors, .mtx, .csv or .tsv"},
		{"other ending", "c.txt", 1, 1, 1, `the ending ".txt"; want .npy, .npz, .safetensors, .mtx, .csv or .tsv`},
		{"too few values", "c.npy", 2, 3, 5, "5 values do not make 2x3"},
		{"negative", "c.npy", -1, -1, 1, "1 values do not make -1x-1"},
		{"overflow", "c.npy", math.MaxInt, math.MaxInt, 1, "1 values do not make"},
		{"empty text", "c.csv", 0, 5, 0, "a 0x5 matrix, which text cannot show; want the ending .npy"},
		{"no folder", "none/c.npy", 1, 1, 1, "c.npy: "},
		{"over a folder", "folder.npy", 1, 1, 1, "folder.npy: "},
		{"no name", "c.npz:", 1, 1, 1, "no name after ':'; want a name for the matrix"},
		{"name of an ending only", "c.npz:.npy", 1, 1, 1, "no name after ':'"},
		{"control character", "c.safetensors:a\tb", 1, 1, 1, `the name "a\tb"; want at most 1024 bytes of UTF-8 without control characters`},
		{"name not of UTF-8", "c.npz:\xff", 1, 1, 1, `the name "\xff"`},
		{"long name", "c.npz:" + strings.Repeat("x", 1025), 1, 1, 1, `the name "xxx`},
		{"metadata", "c.safetensors:__metadata__", 1, 1, 1, `the name "__metadata__"; want another`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, tt.file)
			err := WriteFloat32(path, tt.rows, tt.cols, make([]float32, tt.values))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got error %v, want one line with the path and %q", err, tt.want)
			}
			if left := entries(t, dir); !slices.Equal(left, []string{"folder.npy"}) {
				t.Errorf("files left: %v", left)
			}
		})
	}
}

// broken is a disk that fails.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestReplaceFails lets a write fail half way: what path held stays.
func TestReplaceFails(t *testing.T) {
	t.Parallel()
	path := put(t, "c.npy", []byte("before"))
	err := replace(path, func(w *bufio.Writer) error {
		w.WriteString("half of it")
		w.Flush()
		if left := entries(t, filepath.Dir(path)); len(left) != 2 {
			t.Errorf("files during the write: %v", left)
		}
		w.Reset(broken{})
		_, err := w.WriteString("the other half")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "c.npy: disk full") {
		t.Errorf("got error %v", err)
	}
	if left := entries(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
		t.Errorf("path holds %q, error %v", got, err)
	}
}

func TestSupported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder.npy"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c.npy", "c.csv", "c.tsv", "C.TSV"} {
		if err := Supported(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	wantRefusal(t, Supported(filepath.Join(dir, "c.mat")), `the ending ".mat"; want .npy, .npz, .safetensors, .mtx, .csv or .tsv`)
	wantRefusal(t, Supported(filepath.Join(dir, "c")), "no ending")
	wantRefusal(t, Supported(filepath.Join(dir, "folder.npy")), "a directory")
	if err := Supported(filepath.Join(dir, "none", "c.npy")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "folder "+filepath.Join(dir, "none")) {
		t.Errorf("no folder: got %v", err)
	}
	if left := entries(t, dir); len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
}

// entries returns the names in a folder.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestEncodeValues(t *testing.T) {
	t.Parallel()
	b, err := EncodeFloat32(2, 2, []float32{1, -2, 0.5, 4})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Decode("c.npy", b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Float32(); err != nil || f.Rows != 2 || !slices.Equal(got, []float32{1, -2, 0.5, 4}) {
		t.Errorf("read back %v, %v", got, err)
	}
	if _, err := EncodeFloat32(2, 2, make([]float32, 3)); err == nil {
		t.Error("3 values made 2x2")
	}
}

// anyValues is what every format and type of a test below holds.
func anyValues(n int) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i*37%251) - 125
	}
	return values
}

// TestFormats writes in every format and every type what is read back.
func TestFormats(t *testing.T) {
	t.Parallel()
	text := map[string]bool{"c.csv": true, "c.tsv": true, "c.mtx": true, "C.MTX": true}
	for _, name := range []string{"c.npy", "c.npz", "c.npz:w", "c.npz:w.npy", "C.NPZ:W/1", "c.npz:größe", "c.safetensors", "c.safetensors:a \"quoted\" name", "c.csv", "c.tsv", "c.mtx", "C.MTX"} {
		for _, shape := range [][3]int{{1, 30, 17}, {1, 1, 1}, {3, 2, 2}, {0, 2, 3}, {2, 0, 3}, {1, 0, 5}, {1, 5, 0}} {
			batch, rows, cols := shape[0], shape[1], shape[2]
			values := anyValues(batch * rows * cols)
			if text[name] && (batch != 1 || len(values) == 0) {
				continue
			}
			t.Run(fmt.Sprint(name, shape), func(t *testing.T) {
				t.Parallel()
				var half []float16.Float16
				var brain []uint16
				var whole []int32
				for _, v := range values {
					half = append(half, float16.Fromfloat32(v))
					brain = append(brain, bfloat16(v))
					whole = append(whole, int32(v))
				}
				o := Options{}
				for dtype, write := range map[string]func(path string) error{
					"f4":   func(path string) error { return o.WriteFloat32(path, batch, rows, cols, values) },
					"f2":   func(path string) error { return o.WriteFloat16(path, batch, rows, cols, half) },
					"bf16": func(path string) error { return o.WriteBFloat16(path, batch, rows, cols, brain) },
					"i4":   func(path string) error { return o.WriteInt32(path, batch, rows, cols, whole) },
				} {
					path := filepath.Join(t.TempDir(), name)
					if err := os.MkdirAll(filepath.Dir(split(path).filePath), 0o777); err != nil {
						t.Fatal(err)
					}
					if err := o.Supported(path, batch, rows, cols); err != nil {
						t.Error(err)
					}
					if err := write(path); err != nil {
						t.Fatal(err)
					}
					isTensor := split(path).format == formatSafetensors
					if dtype == "i4" && isTensor {
						_, err := Open(path)
						wantRefusal(t, err, "of dtype I32; want F32, F16, BF16 or I8")
						continue
					}
					f, got := read32(t, path)
					wantDType, wantDims := dtype, 2
					switch {
					case text[name]:
						wantDType = "text"
					case dtype == "bf16" && !isTensor:
						wantDType = "f4"
					}
					if batch != 1 {
						wantDims = 3
					}
					if f.Batch != batch || f.Rows != rows || f.Cols != cols || f.Dims != wantDims || f.DType != wantDType || f.Path != path {
						t.Errorf("%s: got %dx%dx%d, %d dimensions, of %s, from %s", dtype, f.Batch, f.Rows, f.Cols, f.Dims, f.DType, f.Path)
					}
					if !slices.Equal(got, values) {
						t.Errorf("%s: got %v, want %v", dtype, got, values)
					}
				}
			})
		}
	}
}

func TestShapeRefuses(t *testing.T) {
	t.Parallel()
	for file, tests := range map[string][]struct {
		batch, rows, cols int
		want              string
	}{
		"c.csv": {
			{3, 2, 2, "a 3x2x2 batch, which text cannot show; want the ending .npy, .npz or .safetensors"},
			{1, 2, 0, "a 2x0 matrix, which text cannot show; want the ending .npy, .npz or .safetensors"},
		},
		"c.mtx": {
			{2, 0, 0, "a 2x0x0 batch, which .mtx cannot show; want the ending .npy, .npz or .safetensors"},
			{1, 0, 5, "a 0x5 matrix, which .mtx cannot show; want the ending .npy, .npz or .safetensors"},
		},
	} {
		for _, tt := range tests {
			path := filepath.Join(t.TempDir(), file)
			wantRefusal(t, Options{}.Supported(path, tt.batch, tt.rows, tt.cols), tt.want)
			wantRefusal(t, Options{}.WriteInt32(path, tt.batch, tt.rows, tt.cols, make([]int32, tt.batch*tt.rows*tt.cols)), tt.want)
			if left := entries(t, filepath.Dir(path)); len(left) != 0 {
				t.Errorf("files left: %v", left)
			}
		}
	}
	if err := (Options{}).WriteInt32("c.npy", 3, 2, 2, make([]int32, 4)); err == nil || err.Error() != "write c.npy: 4 values do not make 3x2x2" {
		t.Errorf("got %v", err)
	}
	if err := (Options{}).WriteInt32("c.npy", math.MaxInt, math.MaxInt, 0, nil); err == nil || !strings.Contains(err.Error(), "0 values do not make") {
		t.Errorf("overflow: got %v", err)
	}
}

// TestBytes pins what other programs read, byte by byte.
func TestBytes(t *testing.T) {
	t.Parallel()
	o := Options{}
	inf := float32(math.Inf(1))
	tests := []struct {
		name, file string
		write      func(path string) error
		want       string
	}{
		{
			"safetensors", "c.safetensors", func(path string) error { return o.WriteFloat16(path, 1, 1, 2, []float16.Float16{0x3c00, 0x4000}) },
			"\x38\x00\x00\x00\x00\x00\x00\x00" + `{"c":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}` + "\x00\x3c\x00\x40",
		},
		{
			"safetensors bf16", "c.safetensors:w", func(path string) error { return o.WriteBFloat16(path, 2, 1, 1, []uint16{0x3f80, 0x4000}) },
			"\x40\x00\x00\x00\x00\x00\x00\x00" + `{"w":{"dtype":"BF16","shape":[2,1,1],"data_offsets":[0,4]}}` + "     \x80\x3f\x00\x40",
		},
		{
			"mtx", "c.mtx", func(path string) error { return o.WriteFloat32(path, 1, 2, 2, []float32{0.1, 2, -3e20, inf}) },
			"%%MatrixMarket matrix array real general\n2 2\n0.1\n-3e+20\n2\nInf\n",
		},
		{
			"mtx of integers", "c.mtx", func(path string) error { return o.WriteInt32(path, 1, 1, 2, []int32{16777217, -5}) },
			"%%MatrixMarket matrix array integer general\n1 2\n16777217\n-5\n",
		},
		{"csv of bf16", "c.csv", func(path string) error { return o.WriteBFloat16(path, 1, 1, 2, []uint16{0x3fc0, 0x3dcd}) }, "1.5,0.100097656\n"},
		{"csv of integers", "c.csv", func(path string) error { return o.WriteInt32(path, 1, 1, 2, []int32{math.MinInt32, 16777217}) }, "-2147483648,16777217\n"},
		{"csv with signs", "c.csv", func(path string) error {
			return Options{';', ','}.WriteFloat32(path, 1, 2, 2, []float32{1, 1.5, -2.5e20, 2.5})
		}, "1;1,5\n-2,5e+20;2,5\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), tt.file)
			if err := tt.write(path); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(split(path).filePath)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %q, error %v, want %q", got, err, tt.want)
			}
		})
	}

	// In an archive, size and checksum stand in front of the member too, for
	// readers that do not look at its end, and the bytes are those of a .npy file.
	path := filepath.Join(t.TempDir(), "c.npz")
	if err := o.WriteInt32(path, 3, 2, 2, make([]int32, 12)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := npy(1, dict("<i4", "False", "(3, 2, 2)"), make([]byte, 48))
	sizes := le(crc32.ChecksumIEEE(whole), uint32(len(whole)), uint32(len(whole)))
	if !bytes.Equal(b[14:26], sizes) || string(b[30:39]) != "arr_0.npy" || !bytes.Equal(b[39:39+len(whole)], whole) {
		t.Errorf("got %q", b)
	}
}
