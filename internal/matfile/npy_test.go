package matfile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"
)

// npy builds a file of a version from the text of its header, padded to 64.
func npy(major byte, dict string, data []byte) []byte {
	begin := 10
	if major > 1 {
		begin = 12
	}
	dict += strings.Repeat(" ", 63-(begin+len(dict))%64) + "\n"
	b := append([]byte(npyMagic), major, 0)
	if major > 1 {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(dict)))
	} else {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	}
	return slices.Concat(b, []byte(dict), data)
}

// dict is a header as NumPy writes it.
func dict(descr, order, shape string) string {
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape)
}

// fill returns the m x n values of fn as bytes of a dtype, byte order first.
// Columns come first if fortran.
func fill(descr string, m, n int, fortran bool, fn func(i, j int) float32) []byte {
	var b []byte
	value := func(i, j int) {
		var item []byte
		switch v := fn(i, j); descr[1:] {
		case "f2":
			item = le(float16.Fromfloat32(v).Bits())
		case "f4":
			item = le(v)
		case "f8":
			item = le(float64(v))
		case "i4":
			item = le(int32(v))
		}
		if descr[0] == '>' {
			slices.Reverse(item)
		}
		b = append(b, item...)
	}
	if fortran {
		for j := range n {
			for i := range m {
				value(i, j)
			}
		}
		return b
	}
	for i := range m {
		for j := range n {
			value(i, j)
		}
	}
	return b
}

type spot struct {
	i, j int
	want float32
}

// The inputs that many of the cases share.
func handA(i, k int) float32 { return float32((i*7+k*3)%13-6) / 4 }
func handB(k, j int) float32 { return float32((k*5+j*11)%17-8) / 8 }

// TestProducts multiplies matrices read from files of every layout. The cases
// and their values come from faults reported of other readers.
func TestProducts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(" ", 70000)
	spots3 := []spot{{0, 0, 1.78125}, {0, 2, .375}, {2, 0, 1.5}, {2, 2, .5625}, {1, 1, 1.84375}}
	spots4 := []spot{{0, 0, 10}, {0, 3, 40}, {3, 0, 22}, {3, 3, 88}, {2, 2, 54}}
	fortranA := func(i, k int) float32 { return float32(1 + 10*i + k) }
	fortranB := func(k, j int) float32 { return float32(1 + k + 100*j) }
	spotsF := []spot{{0, 0, 30}, {0, 1, 1030}, {2, 0, 230}, {2, 1, 9230}, {1, 1, 5130}}
	bigA := func(i, k int) float32 { return float32(1 + i + k) }
	bigB := func(_, j int) float32 { return float32(1 + j) }
	a3 := fill("<f4", 3, 3, false, handA)
	b3 := npy(3, dict("<f4", "False", "(3, 3)"), fill("<f4", 3, 3, false, handB))
	b4 := npy(1, dict("<f4", "False", "(4, 4)"), fill("<f4", 4, 4, false, bigB))

	tests := []struct {
		name  string
		a, b  []byte
		spots []spot
	}{
		// rogersce/cnpy #7
		{"fortran A", npy(1, dict("<f4", "True", "(3, 4)"), fill("<f4", 3, 4, true, fortranA)), npy(1, dict("<f4", "False", "(4, 2)"), fill("<f4", 4, 2, false, fortranB)), spotsF},
		{"fortran both", npy(1, dict("<f4", "True", "(3, 4)"), fill("<f4", 3, 4, true, fortranA)), npy(1, dict("<f4", "True", "(4, 2)"), fill("<f4", 4, 2, true, fortranB)), spotsF},
		{"fortran f2", npy(1, dict("<f2", "True", "(3, 4)"), fill("<f2", 3, 4, true, fortranA)), npy(1, dict(">f2", "True", "(4, 2)"), fill(">f2", 4, 2, true, fortranB)), spotsF},
		// rogersce/cnpy PR #77, kwikteam/npy-matlab #2
		{"versions 2 and 3", npy(2, dict("<f4", "False", "(3, 3)"), a3), b3, spots3},
		{"long header", npy(2, dict("<f4", "False", "(3, 3)")+long, a3), b3, spots3},
		{"other order of keys", npy(1, `{"shape": (3, 3), 'fortran_order': False, 'descr': '<f4'}`, a3), b3, spots3},
		{"python 2", npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 3L)}", a3), b3, spots3},
		{"no blanks", npy(1, "{'shape':(3,3,),'descr':'<f4','fortran_order':False}", a3), b3, spots3},
		// simonsobs/pixell PR #233
		{"big-endian", npy(1, dict(">f4", "False", "(4, 4)"), fill(">f4", 4, 4, false, bigA)), b4, spots4},
		{"big-endian f2", npy(1, dict(">f2", "False", "(4, 4)"), fill(">f2", 4, 4, false, bigA)), b4, spots4},
		{"big-endian f8", npy(1, dict(">f8", "True", "(4, 4)"), fill(">f8", 4, 4, true, bigA)), b4, spots4},
		{"f8", npy(1, dict("<f8", "False", "(4, 4)"), fill("<f8", 4, 4, false, bigA)), b4, spots4},
		{"i4", npy(1, dict("<i4", "False", "(4, 4)"), fill("<i4", 4, 4, false, bigA)), b4, spots4},
		// SciSharp/NumSharp #517
		{"one value", npy(1, dict("<f4", "False", "()"), le(float32(5))), npy(1, dict("<f4", "False", "(1, 1)"), le(float32(3))), []spot{{0, 0, 15}}},
		// jszwec/csvutil #6
		{"text", []byte("1,1.5\n2,2.5"), []byte("1,1\n1,1"), []spot{{0, 0, 2.5}, {0, 1, 2.5}, {1, 0, 4.5}, {1, 1, 4.5}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			name := "a.npy"
			if tt.a[0] != npyMagic[0] {
				name = "a.csv"
			}
			for _, open := range []func([]byte) (*File, error){
				func(content []byte) (*File, error) { return Open(put(t, name, content)) },
				func(content []byte) (*File, error) { return openStream(name, content) },
			} {
				a, errA := open(tt.a)
				b, errB := open(tt.b)
				if errA != nil || errB != nil {
					t.Fatal(errA, errB)
				}
				defer a.Close()
				defer b.Close()
				av, errA := a.Float32()
				bv, errB := b.Float16()
				if errA != nil || errB != nil {
					t.Fatal(errA, errB)
				}
				for _, s := range tt.spots {
					var got float32
					for k := range a.Cols {
						got += av[s.i*a.Cols+k] * bv[k*b.Cols+s.j].Float32()
					}
					if got != s.want {
						t.Errorf("C[%d,%d]: got %v, want %v", s.i, s.j, got, s.want)
					}
				}
			}
		})
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		shape                   string
		batch, rows, cols, dims int
	}{
		{"()", 1, 1, 1, 0},
		{"(768,)", 1, 1, 768, 1},
		{"(3)", 1, 1, 3, 1},
		{"(0,)", 1, 1, 0, 1},
		{"(16, 0)", 1, 16, 0, 2}, // microsoft/onnxruntime #21483
		{"(0, 16)", 1, 0, 16, 2},
		{"(0, 0)", 1, 0, 0, 2},
		{"(0, 123456789)", 1, 0, 123456789, 2},
		{"(5, 2, 3)", 5, 2, 3, 3},
		{"(1, 2, 3)", 1, 2, 3, 3},
		{"(5, 1, 1)", 5, 1, 1, 3},
		{"(0, 2, 3)", 0, 2, 3, 3},
		{"(5, 0, 3)", 5, 0, 3, 3},
	}
	for _, tt := range tests {
		t.Run(tt.shape, func(t *testing.T) {
			t.Parallel()
			count := tt.batch * tt.rows * tt.cols
			data := make([]byte, count*2)
			for _, order := range []string{"False", "True"} {
				eachWay(t, "a.npy", npy(1, dict("<f2", order, tt.shape), data), func(t *testing.T, f *File, err error) {
					if err != nil {
						t.Fatal(err)
					}
					if f.Batch != tt.batch || f.Rows != tt.rows || f.Cols != tt.cols || f.Dims != tt.dims || f.DType != "f2" {
						t.Errorf("got %dx%dx%d, %d dimensions, of %s", f.Batch, f.Rows, f.Cols, f.Dims, f.DType)
					}
					values, err := f.Float32()
					if err != nil || len(values) != count {
						t.Errorf("got %d values, error %v", len(values), err)
					}
				})
			}
		})
	}
}

func TestDTypes(t *testing.T) {
	t.Parallel()
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	tests := []struct {
		dtype  string
		values []any
		want   []float32
		want16 []float32 // nil: as want
	}{
		{"f2", []any{uint16(0x3c00), uint16(0x8000), uint16(0xfc00), uint16(0x0001)}, []float32{1, float32(math.Copysign(0, -1)), -inf, 0x1p-24}, nil},
		{"f4", []any{float32(1.5), float32(65519), float32(65520), nan}, []float32{1.5, 65519, 65520, nan}, []float32{1.5, 65504, inf, nan}},
		{"f8", []any{1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11, 1e300, 1e-300}, []float32{1 + 0x1p-11, 1 + 0x1p-11, inf, 0}, []float32{1 + 0x1p-10, 1, inf, 0}},
		{"i1", []any{int8(-128), int8(127)}, []float32{-128, 127}, nil},
		{"i2", []any{int16(-32768), int16(2049)}, []float32{-32768, 2049}, []float32{-32768, 2048}},
		{"i4", []any{int32(math.MinInt32), int32(16777217)}, []float32{math.MinInt32, 16777216}, []float32{-inf, inf}},
		{"i8", []any{int64(math.MinInt64), int64(1)<<60 + 1<<36 + 1}, []float32{math.MinInt64, 0x1p60 + 0x1p37}, []float32{-inf, inf}},
		{"u1", []any{uint8(255)}, []float32{255}, nil},
		{"u2", []any{uint16(65535)}, []float32{65535}, []float32{inf}},
		{"u4", []any{uint32(math.MaxUint32)}, []float32{0x1p32}, []float32{inf}},
		{"u8", []any{uint64(math.MaxUint64), uint64(3)}, []float32{0x1p64, 3}, []float32{inf, 3}},
		{"b1", []any{uint8(0), uint8(1), uint8(2)}, []float32{0, 1, 1}, nil},
	}
	for _, tt := range tests {
		for _, order := range []string{"<", ">", "=", "|", ""} {
			t.Run(order+tt.dtype, func(t *testing.T) {
				t.Parallel()
				var data []byte
				for _, v := range tt.values {
					item := le(v)
					if order == ">" || order != "<" && !hostLittleEndian {
						slices.Reverse(item)
					}
					data = append(data, item...)
				}
				content := npy(1, dict(order+tt.dtype, "False", fmt.Sprintf("(%d,)", len(tt.values))), data)
				want16 := tt.want16
				if want16 == nil {
					want16 = tt.want
				}
				eachWay(t, "a.npy", content, func(t *testing.T, f *File, err error) {
					if err != nil {
						t.Fatal(err)
					}
					got, err := f.Float32()
					if err != nil || !slices.EqualFunc(got, tt.want, sameBits) {
						t.Errorf("got %v, error %v, want %v", got, err, tt.want)
					}
				})
				eachWay(t, "a.npy", content, func(t *testing.T, f *File, err error) {
					if err != nil {
						t.Fatal(err)
					}
					got, err := f.Float16()
					if err != nil || !slices.EqualFunc(got, want16, func(a float16.Float16, b float32) bool { return sameBits(a.Float32(), b) }) {
						t.Errorf("got %v, error %v, want %v", got, err, want16)
					}
				})
			})
		}
	}
}

// TestManyBuffers reads matrices that fill the buffer more than once, which
// its size does not divide, in both orders.
func TestManyBuffers(t *testing.T) {
	t.Parallel()
	const m, n, seed = 701, 431, 1
	rng := rand.New(rand.NewPCG(seed, seed))
	want := make([]float32, m*n)
	for i := range want {
		want[i] = float32(rng.IntN(2048)) / 4
	}
	at := func(i, j int) float32 { return want[i*n+j] }
	for _, descr := range []string{"<f2", "<f4", ">f4", "<f8"} {
		for _, order := range []string{"False", "True"} {
			t.Run(descr+order, func(t *testing.T) {
				t.Parallel()
				content := npy(1, dict(descr, order, fmt.Sprintf("(%d, %d)", m, n)), fill(descr, m, n, order == "True", at))
				eachWay(t, "a.npy", content, func(t *testing.T, f *File, err error) {
					if err != nil {
						t.Fatal(err)
					}
					got, err := f.Float32()
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got, want) {
						t.Errorf("values differ, seed %d", seed)
					}
				})
			})
		}
	}
}

// TestBatches reads three dimensions in both orders, small ones and such as fill
// the buffer more than once.
func TestBatches(t *testing.T) {
	t.Parallel()
	for _, shape := range [][3]int{{2, 3, 4}, {3, 1, 5}, {1, 3, 5}, {4, 5, 1}, {7, 101, 143}} {
		batch, rows, cols := shape[0], shape[1], shape[2]
		at := func(b, i, j int) float32 { return float32((b*1009 + i*31 + j*7) % 2048) }
		var want []float32
		var plain, fortran []byte // as big-endian f4
		for b := range batch {
			for i := range rows {
				for j := range cols {
					want = append(want, at(b, i, j))
					plain = binary.BigEndian.AppendUint32(plain, math.Float32bits(at(b, i, j)))
				}
			}
		}
		for j := range cols {
			for i := range rows {
				for b := range batch {
					fortran = binary.BigEndian.AppendUint32(fortran, math.Float32bits(at(b, i, j)))
				}
			}
		}
		for order, data := range map[string][]byte{"False": plain, "True": fortran} {
			t.Run(fmt.Sprintf("%v%s", shape, order), func(t *testing.T) {
				t.Parallel()
				content := npy(1, dict(">f4", order, fmt.Sprintf("(%d, %d, %d)", batch, rows, cols)), data)
				eachWay(t, "a.npy", content, func(t *testing.T, f *File, err error) {
					if err != nil {
						t.Fatal(err)
					}
					got, err := f.Float32()
					if err != nil || f.Batch != batch || f.Dims != 3 || !slices.Equal(got, want) {
						t.Errorf("values differ, batch %d, %d dimensions, error %v", f.Batch, f.Dims, err)
					}
				})
			})
		}
	}
}

func TestNPYRefuses(t *testing.T) {
	t.Parallel()
	data8 := make([]byte, 256)
	whole := npy(1, dict("<f4", "False", "(8, 8)"), data8)
	head := func(text string) []byte { return npy(1, text, nil) }
	version := slices.Clone(whole)
	version[6] = 4
	minor := slices.Clone(whole)
	minor[7] = 1
	tests := []struct {
		name    string
		content []byte
		want    string
		pipe    string // where the pipe has other words
	}{
		// numpy/numpy PR #28330
		{"cut in the data", whole[:len(whole)-156], "100 bytes of data; want 256 for 8x8 of <f4", ""},
		{"no data", whole[:128], "0 bytes of data; want 256", ""},
		{"too long", append(slices.Clone(whole), 1, 2, 3, 4), "260 bytes of data; want 256 for 8x8 of <f4", "more than 256 bytes of data; want 256 for 8x8 of <f4"},
		{"cut in the header", whole[:60], "cut inside the header after 60 bytes; want 128", ""},
		{"cut in the length", whole[:9], "cut inside the header after 9 bytes; want at least 10", ""},
		{"cut in the version", whole[:7], "cut inside the header after 7 bytes; want at least 10", ""},
		{"cut in the magic", whole[:3], "cut inside the header after 3 bytes", ""},
		{"header only promised", []byte(npyMagic + "\x02\x00\xff\xff\xff\xff{"), "a header of 4294967295 bytes; want at most 1048576", ""},

		{"text", []byte("1,2\n3,4\n"), `first bytes "1,2\n3,4\n"; want a .npy file (text needs the ending .csv or .tsv)`, ""},
		{"short text", []byte("1"), `first bytes "1"; want a .npy file`, ""},
		{"npz", []byte("PK\x03\x04\x14\x00\x00\x00"), "a zip archive (.npz?); want one matrix in a .npy file", ""},
		{"version 4", version, ".npy version 4.0; want version 1.0, 2.0 or 3.0", ""},
		{"version 1.1", minor, ".npy version 1.1", ""},

		{"complex", npy(1, dict("<c8", "False", "(8, 8)"), data8), `dtype "<c8"; want f2, f4, f8, i1 to i8, u1 to u8 or b1`, ""},
		{"object", head(dict("|O", "False", "(8, 8)")), `dtype "|O"`, ""},
		{"long double", head(dict("<f16", "False", "(1,)")), `dtype "<f16"`, ""},
		{"text values", head(dict("<U3", "False", "(1,)")), `dtype "<U3"`, ""},
		{"void", head(dict("|V2", "False", "(1,)")), `dtype "|V2"`, ""},
		{"no dtype", head(dict("", "False", "(1,)")), `dtype ""`, ""},
		{"order twice", head(dict("<<f4", "False", "(1,)")), `dtype "<<f4"`, ""},
		{"line in the dtype", head(dict("a\nb", "False", "(1,)")), `dtype "a\nb"`, ""},
		{"structured", head("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,), }"), `dtype "[('a', '<f4'), ('b', '<i4')]"`, ""},

		{"4 dimensions", head(dict("<f4", "False", "(2,3,4,5)")), "4 dimensions, shape (2, 3, 4, 5); want a batch of matrices, a matrix, a vector or one value", ""},
		{"3 dimensions overflow", head(dict("<f4", "False", "(2097152, 2097152, 2097152)")), "shape (2097152, 2097152, 2097152); want one whose size", ""},
		{"3 dimensions overflow beside 0", head(dict("<f4", "True", "(0, 4294967296, 4294967296)")), "can be counted", ""},
		{"3 dimensions cut", npy(1, dict("<f4", "True", "(2, 3, 4)"), make([]byte, 92)), "92 bytes of data; want 96 for 2x3x4 of <f4", ""},
		{"negative", head(dict("<f4", "False", "(8, -8)")), "negative dimension -8", ""},
		{"huge dimension", head(dict("<f4", "False", "(99999999999999999999, 1)")), "dimension 99999999999999999999 is too large", ""},
		{"product overflows", head(dict("<f4", "False", "(4294967296, 4294967296)")), "shape (4294967296, 4294967296); want one whose size in bytes can be counted", ""},
		{"product overflows to the right size", npy(1, dict("<f4", "False", "(4611686018427387905, 4)"), make([]byte, 16)), "can be counted", ""},
		{"overflows beside 0", head(dict("<f4", "False", "(0, 4611686018427387904)")), "can be counted", ""},
		{"huge", npy(1, dict("<f4", "False", "(1000000, 1000000)"), data8), "256 bytes of data; want 4000000000000 for 1000000x1000000 of <f4", ""},
		{"huge fortran", npy(1, dict("<f4", "True", "(1000000, 1000000)"), data8), "256 bytes of data; want 4000000000000", ""},

		{"no dict", head(""), "a header that does not parse: no '{'", ""},
		{"empty dict", head("{}"), `no key "descr"`, ""},
		{"no shape", head("{'descr': '<f4', 'fortran_order': False}"), `no key "shape"`, ""},
		{"other key", head("{'descr': '<f4', 'order': False}"), `unknown key "order"`, ""},
		{"key twice", head("{'descr': '<f4', 'descr': '<f8'}"), `key "descr" twice`, ""},
		{"bare key", head("{descr: '<f4'}"), "a quoted key and ':'", ""},
		{"no comma", head("{'descr': '<f4' 'shape': ()}"), "in place of ',' or '}'", ""},
		{"open dict", head("{'descr': '<f4',"), "it ends before a quoted key", ""},
		{"open quote", head("{'descr': '<f4"), "in place of a dtype", ""},
		{"open list", head("{'descr': [('a', '<f4')"), "it ends before a dtype", ""},
		{"fortran_order 1", head("{'fortran_order': 1}"), "in place of True or False", ""},
		{"shape without parentheses", head("{'shape': [3, 4]}"), "in place of a shape in parentheses", ""},
		{"shape with words", head("{'shape': (3, x)}"), "in place of a dimension", ""},
		{"shape without comma", head("{'shape': (3 4)}"), "in place of ',' or ')'", ""},
		{"text behind", head(dict("<f4", "False", "(8, 8)") + "x"), "in place of the end", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// A file is refused on Open, a pipe at the latest with its values.
			_, err := Open(put(t, "a.npy", tt.content))
			wantRefusal(t, err, tt.want)

			f, err := openStream("a.npy", tt.content)
			if err == nil {
				_, err = f.Float16()
			}
			wantRefusal(t, err, cmp.Or(tt.pipe, tt.want))
		})
	}
}

// allocated runs fn and returns the bytes taken for it.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestMemory is not parallel: it counts what the whole process allocates.
func TestMemory(t *testing.T) {
	lie := npy(1, dict("<f4", "True", "(1000000, 1000000)"), make([]byte, 64))
	if got := allocated(func() {
		f, err := openStream("a.npy", lie)
		if err == nil {
			_, err = f.Float32()
		}
		wantRefusal(t, err, "64 bytes of data")
	}); got > 4<<20 {
		t.Errorf("a lying pipe took %d bytes", got)
	}

	const m, n = 1000, 1024
	for _, descr := range []string{"<f4", ">f4", "<f2"} {
		for _, order := range []string{"False", "True"} {
			path := put(t, "a.npy", npy(1, dict(descr, order, fmt.Sprintf("(%d, %d)", m, n)), make([]byte, m*n*int(descr[2]-'0'))))
			if got := allocated(func() { read32(t, path) }); got > m*n*4+bufferSize+1<<16 {
				t.Errorf("%s %s: took %d bytes for a result of %d", descr, order, got, m*n*4)
			}
		}
	}

	path := put(t, "a.csv", []byte(strings.Repeat("1,2,3,4,5,6,7,8\n", 10000)))
	if got := allocated(func() { read32(t, path) }); got > 80000*4*3 {
		t.Errorf("text: took %d bytes for a result of %d", got, 80000*4)
	}
}
