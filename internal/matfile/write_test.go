package matfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
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
		{"no ending", "c", 1, 1, 1, "no ending; want .npy, .csv or .tsv"},
		{"other ending", "c.txt", 1, 1, 1, `the ending ".txt"; want .npy, .csv or .tsv`},
		{"too few values", "c.npy", 2, 3, 5, "5 values do not make 2x3"},
		{"negative", "c.npy", -1, -1, 1, "1 values do not make -1x-1"},
		{"overflow", "c.npy", math.MaxInt, math.MaxInt, 1, "1 values do not make"},
		{"empty text", "c.csv", 0, 5, 0, "a 0x5 matrix, which text cannot show; want the ending .npy"},
		{"no folder", "none/c.npy", 1, 1, 1, "c.npy: "},
		{"over a folder", "folder.npy", 1, 1, 1, "folder.npy: "},
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
	err := replace(path, func(w *bufio.Writer) {
		w.WriteString("half of it")
		w.Flush()
		if left := entries(t, filepath.Dir(path)); len(left) != 2 {
			t.Errorf("files during the write: %v", left)
		}
		w.Reset(broken{})
		w.WriteString("the other half")
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
	wantRefusal(t, Supported(filepath.Join(dir, "c.mat")), `the ending ".mat"; want .npy, .csv or .tsv`)
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
