package matfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/x448/float16"
)

// put writes content to a file in a new folder and returns its path.
func put(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// openStream is Open for content that comes through a pipe.
func openStream(name string, content []byte) (*File, error) {
	f := Options{}.newFile(name)
	// Hides every method but Read.
	return f, f.readStream(struct{ *bytes.Buffer }{bytes.NewBuffer(content)})
}

// eachWay opens content as a file and as a pipe.
func eachWay(t *testing.T, name string, content []byte, check func(t *testing.T, f *File, err error)) {
	t.Helper()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		f, err := Open(put(t, name, content))
		if err == nil {
			defer f.Close()
		}
		check(t, f, err)
	})
	t.Run("pipe", func(t *testing.T) {
		t.Parallel()
		f, err := openStream(name, content)
		check(t, f, err)
	})
}

// read32 opens, reads and closes.
func read32(t *testing.T, path string) (*File, []float32) {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	values, err := f.Float32()
	if err != nil {
		t.Fatal(err)
	}
	return f, values
}

func wantRefusal(t *testing.T, err error, text string) {
	t.Helper()
	if fe, ok := errors.AsType[*FormatError](err); !ok {
		t.Fatalf("got error %v, want a *FormatError", err)
	} else if fe.Path == "" {
		t.Errorf("the error names no file: %v", err)
	}
	if !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got error %q, want one line with %q", err, text)
	}
}

// sameBits compares values with NaN equal to NaN and 0 unlike -0.
func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none.npy")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.npy") {
		t.Errorf("missing file: got %v", err)
	}
	_, err := Open(dir)
	wantRefusal(t, err, "a directory; want a file with the ending .npy, .npz, .safetensors, .mtx, .csv or .tsv")
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.npy", "a.csv", "a.tsv", "a.mtx"} {
		eachWay(t, name, nil, func(t *testing.T, _ *File, err error) {
			wantRefusal(t, err, name+": an empty file; want a matrix")
		})
	}
}

func TestReadOnce(t *testing.T) {
	t.Parallel()
	for name, content := range map[string][]byte{
		"a.npy":         npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }", le(float32(2))),
		"a.csv":         []byte("2"),
		"a.mtx":         []byte(mtxBanner + " matrix array real general\n1 1\n2\n"),
		"a.npz":         npz(member{name: "w.npy", method: 8, content: npy(1, dict("<f4", "False", "(1, 1)"), le(float32(2)))}),
		"a.safetensors": tensors("{"+entry("w", "F32", "[1]", 0, 4)+"}", le(float32(2))),
	} {
		path := put(t, name, content)
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Float32(); err != nil {
			t.Error(err)
		}
		if _, err := f.Float16(); err == nil || !strings.Contains(err.Error(), "read already") {
			t.Errorf("%s read twice: got %v", name, err)
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Errorf("closed twice: %v", err)
		}

		f, err = Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if _, err := f.Float32(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s read after Close: got %v", name, err)
		}
	}
}

// TestFileChanges cuts and extends files between Open and Float32.
func TestFileChanges(t *testing.T) {
	t.Parallel()
	head := "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"
	whole := le(float32(1), float32(2), float32(3), float32(4))
	tests := []struct {
		name, file    string
		before, after []byte
		want          string
	}{
		{"npy cut", "a.npy", npy(1, head, whole), npy(1, head, whole[:9]), "9 bytes of data; want 16 for 2x2 of <f4"},
		{"npy longer", "a.npy", npy(1, head, whole), npy(1, head, append(slices.Clone(whole), 0)), "more than 16 bytes of data"},
		{"csv cut", "a.csv", []byte("1,2\n3,4\n"), []byte("1,2\n"), "changed while it was read"},
		{"csv longer", "a.csv", []byte("1,2\n"), []byte("1,2\n3,4\n"), "changed while it was read"},
		{"csv turned", "a.csv", []byte("1,2\n"), []byte("1\n2\n"), "changed while it was read"},
		{"mtx of another shape", "a.mtx", []byte(mtxBanner + " matrix array real general\n1 2\n1\n2\n"), []byte(mtxBanner + " matrix array real general\n2 1\n1\n2\n"), "changed while it was read; want 1x2 as before"},
		{"mtx cut", "a.mtx", []byte(mtxBanner + " matrix coordinate real general\n1 2 2\n1 1 1\n1 2 2\n"), []byte(mtxBanner + " matrix coordinate real general\n1 2 2\n1 1 1\n"), "1 entries; want 2"},
		{"mtx of other numbers", "a.mtx", []byte(mtxBanner + " matrix coordinate real general\n1 2 1\n1 2 2\n"), []byte(mtxBanner + " matrix coordinate real general\n1 2 1\n1 2 x\n"), `"x" is not a number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := put(t, tt.file, tt.before)
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := os.WriteFile(path, tt.after, 0o666); err != nil {
				t.Fatal(err)
			}
			_, err = f.Float32()
			wantRefusal(t, err, tt.want)
		})
	}
}

// TestReadFails lets the source fail in every place.
func TestReadFails(t *testing.T) {
	t.Parallel()
	fault := &fs.PathError{Op: "read", Path: "inner", Err: errors.New("disk on fire")}
	for name, content := range map[string][]byte{
		"a.npy": npy(1, dict("<f4", "False", "(1, 1)"), le(float32(2))),
		"a.csv": []byte("1,2\n"),
		"a.mtx": []byte(mtxBanner + " matrix array real general\n1 2\n1\n2\n"),
	} {
		for n := range len(content) + 1 {
			f := Options{}.newFile(name)
			err := f.readStream(io.MultiReader(bytes.NewReader(content[:n]), iotest.ErrReader(fault)))
			if err == nil {
				_, err = f.Float32()
			}
			if !errors.Is(err, fault.Err) || err.Error() != "read "+name+": disk on fire" {
				t.Fatalf("%s failing after %d bytes: got %v", name, n, err)
			}
		}
	}
}

// nearestHalf rounds by search: it compares v with the points halfway between
// neighbours, which float64 holds exactly. It knows nothing of bits.
func nearestHalf(v float64) float16.Float16 {
	sign := float16.Float16(0)
	if math.Signbit(v) {
		sign, v = 0x8000, -v
	}
	at := func(i int) float64 {
		if i == 0x7c00 {
			return 65536 // what would follow 65504
		}
		return float64(float16.Frombits(uint16(i)).Float32())
	}
	lo, hi := 0, 0x7c00
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; at(mid) <= v {
			lo = mid
		} else {
			hi = mid
		}
	}
	half := (at(lo) + at(hi)) / 2
	if v > half || v == half && lo%2 == 1 {
		lo = hi
	}
	return sign | float16.Float16(lo)
}

// TestFromFloat64 walks all values of binary16, the points between them and
// their float64 neighbours, where rounding twice goes wrong.
func TestFromFloat64(t *testing.T) {
	t.Parallel()
	twice := 0
	for i := range 0x7c00 {
		low := float64(float16.Frombits(uint16(i)).Float32())
		high := 65536.0
		if i+1 < 0x7c00 {
			high = float64(float16.Frombits(uint16(i + 1)).Float32())
		}
		half := (low + high) / 2
		for _, v := range []float64{low, half, math.Nextafter(half, 0), math.Nextafter(half, 1e9), math.Nextafter(low, 1e9), math.Nextafter(high, 0)} {
			for _, v := range []float64{v, -v} {
				got, want := fromFloat64(v), nearestHalf(v)
				if got != want {
					t.Fatalf("%g: got %#04x, want %#04x", v, got, want)
				}
				if float16.Fromfloat32(float32(v)) != want {
					twice++
				}
			}
		}
	}
	if twice == 0 {
		t.Error("no value here tells one rounding from two")
	}
	for _, v := range []float64{math.Inf(1), math.MaxFloat64, 1e300, math.MaxFloat32} {
		if got := fromFloat64(v); got != float16.Inf(1) {
			t.Errorf("%g: got %v, want Inf", v, got)
		}
		if got := fromFloat64(-v); got != float16.Inf(-1) {
			t.Errorf("%g: got %v, want -Inf", -v, got)
		}
	}
	if !fromFloat64(math.NaN()).IsNaN() {
		t.Error("NaN is lost")
	}
	if got := fromFloat64(-math.SmallestNonzeroFloat64); got != 0x8000 {
		t.Errorf("tiny negative: got %#04x, want -0", got)
	}
}

// le returns values as little-endian bytes.
func le(values ...any) []byte {
	var b []byte
	for _, v := range values {
		var err error
		if b, err = binary.Append(b, binary.LittleEndian, v); err != nil {
			panic(fmt.Sprint("test: ", err))
		}
	}
	return b
}

func TestSplit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		path string
		want target
	}{
		{"a.npy", target{format: formatNPY, filePath: "a.npy"}},
		{"a", target{format: formatNPY, filePath: "a"}},
		{"a:b.npy", target{format: formatNPY, filePath: "a:b.npy"}},
		{"a.MTX", target{format: formatMTX, filePath: "a.MTX"}},
		{"a.tsv", target{format: formatText, filePath: "a.tsv"}},
		{"a.npz", target{format: formatNPZ, filePath: "a.npz"}},
		{"a.NPZ:w", target{formatNPZ, "a.NPZ", "w", true}},
		{"a.npz:", target{formatNPZ, "a.npz", "", true}},
		{"a.npz:b.npz:c", target{formatNPZ, "a.npz", "b.npz:c", true}},
		{`C:\x\a.npz:w`, target{formatNPZ, `C:\x\a.npz`, "w", true}},
		{"d/a.safetensors:l.0:x.npz:y", target{formatSafetensors, "d/a.safetensors", "l.0:x.npz:y", true}},
		{"a.npz.npy", target{format: formatNPY, filePath: "a.npz.npy"}},
		{"a.csv:w", target{format: formatNPY, filePath: "a.csv:w"}},
	}
	for _, tt := range tests {
		if got := split(tt.path); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.path, got, tt.want)
		}
	}
}
