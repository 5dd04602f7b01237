package matfile

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"
)

func TestTextReads(t *testing.T) {
	t.Parallel()
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	tests := []struct {
		name, file, content string
		rows, cols          int
		want                []float32
	}{
		{"plain", "a.csv", "1,1.5\n2,2.5", 2, 2, []float32{1, 1.5, 2, 2.5}},
		// jszwec/csvutil #6
		{"BOM, CRLF, quotes", "a.csv", "\xef\xbb\xbf\"1\",\"1.5\"\r\n2,\"2.5\"\r\n", 2, 2, []float32{1, 1.5, 2, 2.5}},
		{"blanks", "a.csv", " 1 , \"1.5\"\n\t2\t,  2.5  \n", 2, 2, []float32{1, 1.5, 2, 2.5}},
		{"ending in capitals", "A.CSV", "1,2\n", 1, 2, []float32{1, 2}},
		{"tabs", "a.tsv", "1\t1.5\n2\t 2.5\r\n", 2, 2, []float32{1, 1.5, 2, 2.5}},
		{"blank lines at the end", "a.csv", "1\n2\n\n\n", 2, 1, []float32{1, 2}},
		{"one value", "a.tsv", "5", 1, 1, []float32{5}},
		{"special", "a.csv", "nan,NaN,inf,-Inf,+Infinity,1e-3,-0,+1,.5,1e39,-1e400,1e-60\n", 1, 12, []float32{nan, nan, inf, -inf, inf, 1e-3, float32(math.Copysign(0, -1)), 1, .5, inf, -inf, 0}},
		// The nearest float64 is a tie between two float32.
		{"rounded once", "a.csv", "1.00000005960464477539062500001", 1, 1, []float32{math.Nextafter32(1, 2)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, tt.file, []byte(tt.content), func(t *testing.T, f *File, err error) {
				if err != nil {
					t.Fatal(err)
				}
				if f.Rows != tt.rows || f.Cols != tt.cols || f.Dims != 2 || f.DType != "text" {
					t.Errorf("got %dx%d, %d dimensions, of %s", f.Rows, f.Cols, f.Dims, f.DType)
				}
				got, err := f.Float32()
				if err != nil || !slices.EqualFunc(got, tt.want, sameBits) {
					t.Errorf("got %v, error %v, want %v", got, err, tt.want)
				}
			})
		})
	}
}

func TestTextFloat16(t *testing.T) {
	t.Parallel()
	// 1 + 2^-11 and a little more: a tie if it went through float32.
	content := "1.000488281250001,1.00048828125,65519.99,65520,-0,nan,1e-9,1e999"
	want := []float16.Float16{0x3c01, 0x3c00, 0x7bff, 0x7c00, 0x8000, float16.NaN(), 0, 0x7c00}
	eachWay(t, "a.csv", []byte(content), func(t *testing.T, f *File, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Float16()
		if err != nil || !slices.EqualFunc(got, want, func(a, b float16.Float16) bool { return a == b || a.IsNaN() && b.IsNaN() }) {
			t.Errorf("got %#04x, error %v, want %#04x", got, err, want)
		}
	})
}

func TestTextRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, content, want string
	}{
		{"semicolons", "a.csv", "1;2\n3;4\n", `line 1, column 1: "1;2" is not a number (';' as separator?); want ',' between values and a decimal point`},
		{"semicolons and decimal commas", "a.csv", "1;1,5\n2;2,5", `line 1, column 1: "1;1" is not a number (';' as separator?)`},
		{"decimal commas first", "a.csv", "1,5;1\n2,5;2", `line 1, column 2: "5;1" is not a number (';' as separator?)`},
		{"semicolons in tsv", "a.tsv", "1;2\n", `(';' as separator?); want '\t' between values`},
		{"quoted decimal comma", "a.csv", "1,\"1,5\"\n", `line 1, column 2: "1,5" is not a number (a decimal comma?)`},
		{"decimal comma in tsv", "a.tsv", "1\t1,5\n", `line 1, column 2: "1,5" is not a number (a decimal comma?)`},
		{"tabs in csv", "a.csv", "1\t2\n3\t4\n", `"1\t2" is not a number (a tab as separator?); want ',' between values, or a name ending in .tsv`},
		{"names of columns", "a.csv", "alpha,beta\n1,2\n", `line 1, column 1: "alpha" is not a number; want values from the first line on, no names of columns`},
		{"word", "a.csv", "1,2\n3,x\n", `line 2, column 2: "x" is not a number; want a number such as -1.5 or 1e-3`},
		{"missing value", "a.csv", "1,2\n3,\n", `a.csv: line 2, column 2: no value; want a number in each place, nan where it is missing, and no ',' at the end of a line`},
		{"missing value in quotes", "a.csv", "1,\"\",3\n", `line 1, column 2: no value`},
		{"missing value in tsv", "a.tsv", "\t1\n\t2\n", `a.tsv: line 1, column 1: no value; want a number in each place, nan where it is missing, and no '\t' at the end of a line`},
		{"comma at the end", "a.csv", "1,2,\n3,4,\n", `line 1, column 3: no value`},
		{"only commas", "a.csv", ",\n,\n", `line 1, column 1: no value`},
		{"comment", "a.csv", "# x, y\n1,2\n", `a.csv: line 1, column 1: "# x" is not a number (a comment?); want numbers alone`},
		{"comment between", "a.csv", "1,2\n#3;4\n", `line 2, column 1: "#3;4" is not a number (a comment?)`},
		{"comment behind a value", "a.csv", "1,2 # two\n", `line 1, column 2: "2 # two" is not a number (a comment?)`},
		{"comment of Octave", "a.csv", "% x\n1\n", `line 1, column 1: "% x" is not a number (a comment?)`},
		{"comment of C", "a.csv", "1\n// x\n", `line 2, column 1: "// x" is not a number (a comment?)`},
		{"percent", "a.csv", "1,50%\n2,3\n", `line 1, column 2: "50%" is not a number; want values from the first line on`},
		{"ragged, short", "a.csv", "1,2\n3\n", "line 2 ends before column 2, line 1 has 2; want as many in every line"},
		{"ragged, long", "a.csv", "1,2\n3,4,5\n", "line 2 goes on to column 3, line 1 has 2"},
		{"blank line", "a.csv", "1\n\n3\n", "line 2 is blank; want one row per line"},
		{"blank line first", "a.csv", "\n1\n", "line 1 is blank"},
		{"line of blanks", "a.csv", "1\n  \n3\n", "line 2 is blank; want one row per line"},
		{"old Mac lines", "a.csv", "1,2\r3,4\r", `"2\r3" is not a number`},
		{"line in quotes", "a.csv", "\"1\n\",2\n", `line 1, column 1: "1\n" is not a number`},
		{"open quote", "a.csv", "1,\"2\n", "want numbers, bare or in closed quotes"},
		{"bare quote", "a.csv", "1,2\"\n", "line 1: bare"},
		{"thousands", "a.csv", "1_000\n", `"1_000" is not a number`},
		{"long word", "a.csv", strings.Repeat("x", 1000), strings.Repeat("x", 60) + `..." is not a number`},
		{"UTF-16", "a.csv", "\xff\xfe1\x00,\x002\x00", `"\xff\xfe1\x00" is not a number`},
		{"no values", "a.csv", "\n\n", "no values; want a matrix"},
		{"only a BOM", "a.csv", "\xef\xbb\xbf", "no values; want a matrix"},
		{"npy", "a.csv", npyMagic + "\x01\x00v\x00{'descr': '<f4'", `a.csv: line 1, column 1: "\x93NUMPY", with which .npy begins; want numbers as text, or a name ending in .npy`},
		{"npz", "a.tsv", "PK\x03\x04\x00", `"PK\x03\x04", with which .npz begins; want numbers as text, or a name ending in .npz`},
		{"mtx", "a.csv", "%%MatrixMarket matrix array real general\n1 1\n1\n", `"%%MatrixMarket", with which .mtx begins`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, tt.file, []byte(tt.content), func(t *testing.T, _ *File, err error) {
				wantRefusal(t, err, tt.want)
			})
		})
	}
}

func TestTextOptions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, content string
		options             Options
		want                []float32 // 2x2
		refusal             string
	}{
		// jszwec/csvutil #6
		{"german", "a.csv", "1;1,5\n2;2,5", Options{';', ','}, []float32{1, 1.5, 2, 2.5}, ""},
		{"german with BOM and quotes", "a.csv", "\xef\xbb\xbf\"1\"; \"1,5\"\r\n2;-2,5e-1\r\n", Options{';', ','}, []float32{1, 1.5, 2, -.25}, ""},
		{"semicolons, points", "a.csv", "1;1.5\n2;2.5", Options{Comma: ';'}, []float32{1, 1.5, 2, 2.5}, ""},
		{"quoted decimal commas", "a.csv", "1,5|2\n-inf|nan", Options{'|', ','}, []float32{1.5, 2, float32(math.Inf(-1)), float32(math.NaN())}, ""},
		{"decimal commas in tsv", "a.tsv", "1\t1,5\n2\t2,5", Options{Decimal: ','}, []float32{1, 1.5, 2, 2.5}, ""},
		{"blanks as separators", "a.csv", "1 1.5\n2 2.5", Options{Comma: ' '}, []float32{1, 1.5, 2, 2.5}, ""},
		{"tabs in csv", "a.csv", "1\t 1.5\n2\t2.5", Options{Comma: '\t'}, []float32{1, 1.5, 2, 2.5}, ""},
		{"beyond ASCII", "a.csv", "1→1.5\n2→2.5", Options{Comma: '→'}, []float32{1, 1.5, 2, 2.5}, ""},

		{"one for both", "a.csv", "1,2", Options{',', ','}, nil, `a.csv: ',' both between values and as the decimal sign; want two characters`},
		{"one for both by default", "a.csv", "1,2", Options{Decimal: ','}, nil, `',' both between values`},
		{"point for both", "a.tsv", "1", Options{Comma: '.'}, nil, `'.' both between values`},
		{"decimal sign", "a.csv", "1", Options{Decimal: '\''}, nil, `'\'' as the decimal sign; want '.' or ','`},
		{"quote", "a.csv", "1", Options{Comma: '"'}, nil, `'"' between values; want a character that no number holds, such as ';'`},
		{"line", "a.csv", "1", Options{Comma: '\n'}, nil, `'\n' between values`},
		{"digit", "a.csv", "1", Options{Comma: '0'}, nil, `'0' between values`},
		{"letter", "a.csv", "1", Options{Comma: 'E'}, nil, `'E' between values`},
		{"minus", "a.csv", "1", Options{Comma: '-'}, nil, `'-' between values`},
		{"no character", "a.csv", "1", Options{Comma: -1}, nil, `between values`},

		{"point beside comma", "a.csv", "1;1.000,5\n", Options{';', ','}, nil, `line 1, column 2: "1.000,5" is not a number (a decimal point?); want ';' between values and a decimal comma`},
		{"point", "a.csv", "1;1.5\n", Options{';', ','}, nil, `"1.5" is not a number (a decimal point?)`},
		{"two commas", "a.csv", "1\n1,5,5\n", Options{';', ','}, nil, `line 2, column 1: "1,5,5" is not a number; want a number such as -1,5 or 1e-3`},
		{"comma where a point is", "a.csv", "1;1,5\n", Options{Comma: ';'}, nil, `"1,5" is not a number (a decimal comma?); want ';' between values and a decimal point`},
		{"plain", "a.csv", "1,1.5\n", Options{Comma: ';'}, nil, `"1,1.5" is not a number (a decimal comma?)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := tt.options.Decode(tt.file, []byte(tt.content))
			if tt.refusal != "" {
				wantRefusal(t, err, tt.refusal)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Float32()
			if err != nil || f.Rows != 2 || !slices.EqualFunc(got, tt.want, sameBits) {
				t.Errorf("got %v, error %v, want %v", got, err, tt.want)
			}
		})
	}
}
