package matfile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"
)

func TestMTX(t *testing.T) {
	t.Parallel()
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	zero := float32(math.Copysign(0, -1))
	const array, coordinate = "%%MatrixMarket matrix array ", "%%MatrixMarket matrix coordinate "
	tests := []struct {
		name, content string
		rows, cols    int
		want          []float32
	}{
		{"array by columns", array + "real general\n2 3\n1\n2\n3\n4\n5\n6\n", 2, 3, []float32{1, 3, 5, 2, 4, 6}},
		{"array symmetric", array + "real symmetric\n3 3\n1\n2\n3\n4\n5\n6\n", 3, 3, []float32{1, 2, 3, 2, 4, 5, 3, 5, 6}},
		{"array skew-symmetric", array + "real skew-symmetric\n3 3\n2\n3\n-5\n", 3, 3, []float32{0, -2, -3, 2, 0, 5, 3, -5, 0}},
		{"array of integers", array + "integer general\n1 3\n-7\n+5\n16777217", 1, 3, []float32{-7, 5, 16777216}},
		{"array, special", array + "real general\n1 7\nnan\ninf\n-Inf\n-0\n1e39\n1e-3\n.5\n", 1, 7, []float32{nan, inf, -inf, zero, inf, 1e-3, .5}},
		{"skew NaN", array + "real skew-symmetric\n2 2\nnan\n", 2, 2, []float32{0, nan, nan, 0}},
		{"array 1x1 skew", array + "real skew-symmetric\n1 1\n", 1, 1, []float32{0}},
		{"array 0x5", array + "real general\n0 5\n", 0, 5, nil},
		{"array 5x0", array + "real general\n5 0", 5, 0, nil},
		{"array 0x0", array + "integer symmetric\n0 0\n", 0, 0, nil},
		// The nearest float64 is a tie between two float32.
		{"rounded once", array + "real general\n1 1\n1.00000005960464477539062500001\n", 1, 1, []float32{math.Nextafter32(1, 2)}},
		{"coordinate", coordinate + "real general\n2 3 3\n2 3 1.5\n1 1 -2\n1 2 1.00000005960464477539062500001\n", 2, 3, []float32{-2, math.Nextafter32(1, 2), 0, 0, 0, 1.5}},
		{"coordinate without entries", coordinate + "real general\n2 1 0\n", 2, 1, []float32{0, 0}},
		{"coordinate 0x3", coordinate + "real general\n0 3 0", 0, 3, nil},
		{"coordinate symmetric", coordinate + "real symmetric\n3 3 3\n1 1 1\n3 1 2\n3 2 3\n", 3, 3, []float32{1, 0, 2, 0, 0, 3, 2, 3, 0}},
		{"coordinate skew-symmetric", coordinate + "integer skew-symmetric\n2 2 1\n2 1 5\n", 2, 2, []float32{0, -5, 5, 0}},
		{"pattern", coordinate + "pattern general\n2 2 2\n1 2\n2 1", 2, 2, []float32{0, 1, 1, 0}},
		{"pattern symmetric", coordinate + "pattern symmetric\n2 2 2\n2 1\n2 2\n", 2, 2, []float32{0, 1, 1, 1}},
		{"pattern twice", coordinate + "pattern general\n1 1 3\n1 1\n1 1\n1 1\n", 1, 1, []float32{3}},
		{"summed", coordinate + "real general\n2 2 5\n1 1 1\n2 2 -0\n1 1 0.25\n2 1 7\n1 1 -3\n", 2, 2, []float32{-1.75, 0, 7, zero}},
		{"summed in float64", coordinate + "real general\n1 1 3\n1 1 16777216\n1 1 1\n1 1 1\n", 1, 1, []float32{16777218}},
		{"summed symmetric", coordinate + "real symmetric\n2 2 3\n2 1 1\n2 1 2\n1 1 4\n", 2, 2, []float32{4, 3, 3, 0}},
		{"summed skew-symmetric", coordinate + "real skew-symmetric\n2 2 2\n2 1 1\n2 1 2\n", 2, 2, []float32{0, -3, 3, 0}},
		{"summed beyond float64", coordinate + "real general\n1 1 2\n1 1 1e999\n1 1 -5\n", 1, 1, []float32{inf}},
		{"comments, blanks, capitals, CRLF", "%%matrixmarket MATRIX Coordinate Real General\r\n% a comment\r\n%\r\n%%\r\n\r\n  2\t1  1 \r\n\r\n 2  1\t3 \r\n\r\n", 2, 1, []float32{0, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, "a.mtx", []byte(tt.content), func(t *testing.T, f *File, err error) {
				if err != nil {
					t.Fatal(err)
				}
				if f.Batch != 1 || f.Rows != tt.rows || f.Cols != tt.cols || f.Dims != 2 || f.DType != "text" {
					t.Errorf("got %dx%dx%d, %d dimensions, of %s", f.Batch, f.Rows, f.Cols, f.Dims, f.DType)
				}
				got, err := f.Float32()
				if err != nil || !slices.EqualFunc(got, tt.want, sameBits) {
					t.Errorf("got %v, error %v, want %v", got, err, tt.want)
				}
			})
		})
	}
}

func TestMTXTypes(t *testing.T) {
	t.Parallel()
	open := func(content string) *File {
		f, err := Decode("a.mtx", []byte("%%MatrixMarket matrix coordinate real "+content))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	// 1 + 2^-11 and a little more: a tie if it went through float32.
	if got, err := open("general\n1 2 3\n1 1 1.000488281250001\n1 2 1\n1 2 0.000488281250001\n").Float16(); err != nil || !slices.Equal(got, []float16.Float16{0x3c01, 0x3c01}) {
		t.Errorf("binary16: got %#04x, error %v", got, err)
	}
	if got, err := open("skew-symmetric\n2 2 1\n2 1 1.00390625000001\n").BFloat16(); err != nil || !slices.Equal(got, []uint16{0, 0xbf81, 0x3f81, 0}) {
		t.Errorf("bfloat16: got %#04x, error %v", got, err)
	}
	// The sum counts, not what it is made of.
	if got, err := open("general\n1 2 4\n1 1 100.5\n1 2 3\n1 1 100.5\n1 1 -100\n").Int8(); err != nil || !slices.Equal(got, []int8{101, 3}) {
		t.Errorf("int8: got %v, error %v", got, err)
	}
	for content, want := range map[string]string{
		"general\n1 2 2\n1 1 1\n1 2 1.5\n":          "a.mtx: line 4: 1.5; want whole numbers from -128 to 127 for int8",
		"general\n2 2 2\n2 1 100\n2 1 100\n":        "a.mtx: 200 at [1, 0], counted from 0; want whole numbers",
		"skew-symmetric\n2 2 1\n2 1 -128\n":         "-128 at [1, 0], counted from 0, of the other sign above; want whole numbers",
		"skew-symmetric\n2 2 2\n2 1 -64\n2 1 -64\n": "-128 at [1, 0], counted from 0, of the other sign above",
	} {
		_, err := open(content).Int8()
		wantRefusal(t, err, want)
	}
}

func TestMTXRefuses(t *testing.T) {
	t.Parallel()
	const array, coordinate = "%%MatrixMarket matrix array ", "%%MatrixMarket matrix coordinate "
	tests := []struct{ name, content, want string }{
		{"empty", "", "an empty file"},
		{"no banner", "2 2\n1\n2\n3\n4\n", `line 1: "2 2"; want %%MatrixMarket in the first line`},
		{"one percent sign", "%MatrixMarket matrix array real general\n1 1\n1\n", "want %%MatrixMarket in the first line"},
		{"blank line first", "\n" + array + "real general\n1 1\n1\n", "line 2: "},
		{"only blanks", "\n\n", `line 2: ""; want %%MatrixMarket`},
		{"npy", npyMagic, "want %%MatrixMarket"},
		{"few words", "%%MatrixMarket matrix array real\n1 1\n1\n", "line 1: 4 words; want %%MatrixMarket and 4 more"},
		{"many words", array + "real general sparse\n", "line 1: 6 words"},
		{"vector", "%%MatrixMarket vector array real general\n", `object "vector"; want matrix`},
		{"other format", "%%MatrixMarket matrix dense real general\n", `format "dense"; want array or coordinate`},
		{"complex", coordinate + "complex general\n1 1 1\n1 1 1 0\n", `values of type "complex"; want real, integer or pattern`},
		{"hermitian", coordinate + "real hermitian\n1 1 1\n1 1 1\n", `symmetry "hermitian"; want general, symmetric or skew-symmetric`},
		{"complex hermitian", coordinate + "complex hermitian\n1 1 1\n1 1 1 0\n", `values of type "complex"`},
		{"array of pattern", array + "pattern general\n1 1\n", "array pattern general; want a pattern of coordinates, general or symmetric"},
		{"skew pattern", coordinate + "pattern skew-symmetric\n1 1 0\n", "coordinate pattern skew-symmetric; want"},
		{"no sizes", array + "real general\n% 2 2\n", `want rows and columns, each below 2^63`},
		{"one size", array + "real general\n2\n1\n2\n", `line 2: "2"; want rows and columns`},
		{"three sizes for an array", array + "real general\n2 1 2\n1\n2\n", `line 2: "2 1 2"; want rows and columns`},
		{"two sizes for coordinates", coordinate + "real general\n2 1\n1 1 1\n", `line 2: "2 1"; want rows, columns and entries`},
		{"negative size", coordinate + "real general\n2 -1 1\n1 1 1\n", `line 2: "2 -1 1"; want rows, columns and entries`},
		{"size of a fraction", array + "real general\n1.0 1\n1\n", `line 2: "1.0 1"`},
		{"size beyond int64", array + "real general\n99999999999999999999 1\n1\n", "each below 2^63"},
		{"product overflows", array + "real general\n4294967296 4294967296\n1\n", "shape (4294967296, 4294967296); want one whose size in bytes can be counted"},
		{"not square", array + "real symmetric\n2 3\n1\n", "a symmetric matrix of 2x3; want as many rows as columns"},
		{"skew not square", coordinate + "real skew-symmetric\n2 3 0\n", "a skew-symmetric matrix of 2x3"},

		{"10^12 entries", coordinate + "real general\n1000 1000 1000000000000\n1 1 1\n", "1000000000000 entries in the header, 6 bytes behind it; want at least 6 bytes for each"},
		{"10^12 values", array + "real general\n1000000 1000000\n1\n2\n", "1000000000000 entries in the header, 4 bytes behind it; want at least 2 bytes for each"},
		{"10^12 of a pattern", coordinate + "pattern general\n1000 1000 1000000000000\n1 1\n", "1000000000000 entries in the header, 4 bytes behind it; want at least 4 bytes for each"},
		{"dense too large", coordinate + "real general\n1000000 1000000 1\n1 1 1\n", "coordinates in 1000000x1000000, dense 1000000000000 elements; want at most 2147483648 (2^31)"},
		{"dense just too large", coordinate + "pattern general\n2147483649 1 0\n", "dense 2147483649 elements; want at most 2147483648 (2^31)"},
		{"symmetric too large", array + "real symmetric\n1000000 1000000\n1\n", "500000500000 entries in the header"},

		{"few entries", coordinate + "real general\n2 2 2\n1 1 1.00000\n", "1 entries; want 2, as its header says"},
		{"few values", array + "real general\n1 2\n1.0000\n", "1 entries; want 2, as its header says"},
		{"more entries", coordinate + "real general\n2 2 1\n1 1 1\n2 2 2\n", "line 4: more entries; want 1, as its header says"},
		{"more values", array + "real general\n1 1\n1\n2\n", "line 4: more entries; want 1"},
		{"two values in a line", array + "real general\n2 1\n1 2\n3\n", `line 3: "1 2"; want one value in each line`},
		{"no value", coordinate + "real general\n2 2 1\n1 1   \n% x\n", `line 3: "1 1"; want a row, a column and a value, as in 3 1 -1.5`},
		{"a value in a pattern", coordinate + "pattern general\n2 2 1\n1 1 1\n", `line 3: "1 1 1"; want a row and a column, as in 3 1`},
		{"index 0", coordinate + "real general\n2 3 1\n0 1 1\n", `line 3: indices "0" and "1"; want 1 to 2 and 1 to 3`},
		{"row too large", coordinate + "real general\n2 3 1\n3 1 1\n", `line 3: indices "3" and "1"`},
		{"column too large", coordinate + "real general\n2 3 1\n2 4 1\n", `line 3: indices "2" and "4"`},
		{"negative index", coordinate + "real general\n2 3 1\n-2 1 1\n", `line 3: indices "-2" and "1"`},
		{"no index", coordinate + "real general\n2 3 1\nabcdef\n", `line 3: indices "abcdef" and ""`},
		{"comment between", coordinate + "real general\n2 3 1\n% 2 4 1\n", `line 3: indices "%" and "2"`},
		{"upper triangle", coordinate + "real symmetric\n3 3 1\n1 2 1\n", "line 3: row 1 of column 2; want row 2 or below: the other triangle follows from it"},
		{"skew diagonal", coordinate + "real skew-symmetric\n3 3 1\n2 2 1\n", "line 3: row 2 of column 2; want row 3 or below"},
		{"word", coordinate + "real general\n1 1 1\n1 1 x\n", `line 3: "x" is not a number; want a number such as -1.5 or 1e-3`},
		{"thousands", array + "real general\n1 1\n1_000\n", `line 3: "1_000" is not a number`},
		{"decimal comma", array + "real general\n1 1\n1,5\n", `line 3: "1,5" is not a number`},
		{"fraction of integers", array + "integer general\n1 1\n1.0\n", `line 3: "1.0" is not a whole number; want whole numbers, as its header says`},
		{"sign only", array + "integer general\n1 1\n-\n", `line 3: "-" is not a whole number`},
		{"long line", array + "real general\n% " + strings.Repeat("x", 70000) + "\n1 1\n1\n", "line 2 of over 65536 bytes; want the lines of an .mtx file"},
		{"long number", array + "real general\n1 1\n" + strings.Repeat("x", 1000) + "\n", strings.Repeat("x", 60) + `..." is not a number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, "a.mtx", []byte(tt.content), func(t *testing.T, _ *File, err error) { wantRefusal(t, err, tt.want) })
		})
	}
}

// TestMTXLarge reads shapes of many lines, with entries twice here and there.
func TestMTXLarge(t *testing.T) {
	t.Parallel()
	const m, n = 211, 173
	want := make([]float32, m*n)
	var entries strings.Builder
	count := 0
	for i := range m {
		for j := range n {
			if (i*7+j*3)%5 == 0 {
				want[i*n+j] = float32(i - j)
				fmt.Fprintf(&entries, "%d %d %d\n", i+1, j+1, i-j)
				count++
			}
			if (i+j)%97 == 0 {
				want[i*n+j] += .25
				fmt.Fprintf(&entries, "%d %d 0.25\n", i+1, j+1)
				count++
			}
		}
	}
	content := fmt.Sprintf("%%%%MatrixMarket matrix coordinate real general\n%d %d %d\n%s", m, n, count, entries.String())
	eachWay(t, "a.mtx", []byte(content), func(t *testing.T, f *File, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Float32(); err != nil || !slices.Equal(got, want) {
			t.Errorf("values differ, error %v", err)
		}
	})
}

// TestMTXMemory is not parallel: it counts what the whole process allocates.
func TestMTXMemory(t *testing.T) {
	for _, content := range []string{
		"%%MatrixMarket matrix coordinate real general\n1000000 1000000 1000000000000\n1 1 1\n",
		"%%MatrixMarket matrix coordinate real general\n40000 40000 1000000000000\n1 1 1\n",
		"%%MatrixMarket matrix coordinate pattern symmetric\n1000000 1000000 1\n1 1\n",
		"%%MatrixMarket matrix array real general\n1000000 1000000\n1\n",
		"%%MatrixMarket matrix array real skew-symmetric\n1000000 1000000\n1\n",
	} {
		if got := allocated(func() {
			_, err := Decode("a.mtx", []byte(content))
			wantRefusal(t, err, "a.mtx: ")
		}); got > maxLine+64<<10 {
			t.Errorf("%q: took %d bytes", content, got)
		}
	}
	// The largest that is accepted takes no memory before its values are read.
	if got := allocated(func() {
		if _, err := Decode("a.mtx", []byte("%%MatrixMarket matrix coordinate real general\n65536 32768 1\n1 1 1\n")); err != nil {
			t.Error(err)
		}
	}); got > maxLine+64<<10 {
		t.Errorf("took %d bytes", got)
	}
	const n = 1000
	if got := allocated(func() {
		f, err := Decode("a.mtx", []byte("%%MatrixMarket matrix coordinate real general\n1000 1000 3\n1 1 1\n9 1 1\n1 1 1\n"))
		if err == nil {
			_, err = f.Float32()
		}
		if err != nil {
			t.Error(err)
		}
	}); got > 4*n*n+n*n/8+3*maxLine+64<<10 {
		t.Errorf("took %d bytes for a result of %d", got, 4*n*n)
	}
}
