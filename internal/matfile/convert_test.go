package matfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/x448/float16"
)

// nearestBFloat16 rounds v, which is not NaN, by search among the values of
// bfloat16. It knows nothing of bits but their order.
func nearestBFloat16(v *big.Float) uint16 {
	sign := uint16(0)
	if v.Signbit() {
		sign, v = 0x8000, new(big.Float).Neg(v)
	}
	at := func(i int) *big.Float {
		if i == 0x7f80 {
			return new(big.Float).SetMantExp(big.NewFloat(1), 128) // what would follow the largest
		}
		return big.NewFloat(float64(math.Float32frombits(uint32(i) << 16)))
	}
	lo, hi := 0, 0x7f80
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; at(mid).Cmp(v) <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	half := new(big.Float).SetPrec(200).Add(at(lo), at(hi))
	half.Mul(half, big.NewFloat(.5))
	if c := v.Cmp(half); c > 0 || c == 0 && lo%2 == 1 {
		lo = hi
	}
	return sign | uint16(lo)
}

// TestBFloat16 walks values of bfloat16, the points between them and their
// float64 neighbours, where rounding twice goes wrong.
func TestBFloat16(t *testing.T) {
	t.Parallel()
	twice := 0
	for i := 0; i < 0x7f80; i += 13 {
		low := float64(fromBFloat16(uint16(i)))
		high := float64(math.Float32frombits(uint32(i+1) << 16))
		if i == 0x7f7f {
			high = 0x1p128
		}
		half := (low + high) / 2
		for _, v := range []float64{low, half, math.Nextafter(half, 0), math.Nextafter(half, math.MaxFloat64), math.Nextafter(low, high), math.Nextafter(high, low)} {
			for _, v := range []float64{v, -v} {
				want := nearestBFloat16(big.NewFloat(v))
				if got, _ := asBFloat16.round(v); got != want {
					t.Fatalf("%g: got %#04x, want %#04x", v, got, want)
				}
				if bfloat16(float32(v)) != want {
					twice++
				}
				if f := float32(v); float64(f) == v && bfloat16(f) != want {
					t.Fatalf("%g as float32: got %#04x, want %#04x", v, bfloat16(f), want)
				}
			}
		}
	}
	if twice == 0 {
		t.Error("no value here tells one rounding from two")
	}
	for v, want := range map[float32]uint16{
		float32(math.Inf(1)): 0x7f80, float32(math.Inf(-1)): 0xff80, math.MaxFloat32: 0x7f80, -math.MaxFloat32: 0xff80,
		math.Float32frombits(0x7f7f7fff): 0x7f7f, math.Float32frombits(0x80000000): 0x8000,
	} {
		if got := bfloat16(v); got != want {
			t.Errorf("%g: got %#04x, want %#04x", v, got, want)
		}
	}
	for _, bits := range []uint32{0x7f800001, 0xff800001, 0x7fffffff, 0x7fc00000} {
		if got := fromBFloat16(bfloat16(math.Float32frombits(bits))); got == got {
			t.Errorf("NaN %#08x became %g", bits, got)
		}
	}
}

// TestIntegersToBFloat16 has integers that float32, or float64, rounds to a tie.
func TestIntegersToBFloat16(t *testing.T) {
	t.Parallel()
	tests := []struct {
		dtype string
		value any
		exact *big.Float
	}{
		{"i4", int32(1<<30 + 1<<22 + 1), big.NewFloat(1<<30 + 1<<22 + 1)},
		{"i4", int32(-(1<<30 + 1<<22 + 1)), big.NewFloat(-(1<<30 + 1<<22 + 1))},
		{"u4", uint32(1<<31 + 1<<23 + 1), big.NewFloat(1<<31 + 1<<23 + 1)},
		{"u4", uint32(1<<31 + 1<<23), big.NewFloat(1<<31 + 1<<23)},
		{"i8", int64(1<<62 + 1<<54 + 1), new(big.Float).SetInt64(1<<62 + 1<<54 + 1)},
		{"i8", int64(-(1<<62 + 1<<54 + 1)), new(big.Float).SetInt64(-(1<<62 + 1<<54 + 1))},
		{"i8", int64(math.MinInt64), new(big.Float).SetInt64(math.MinInt64)},
		{"i8", int64(1<<53 + 1<<45 + 1), new(big.Float).SetInt64(1<<53 + 1<<45 + 1)},
		{"u8", uint64(1<<63 + 1<<55 + 1), new(big.Float).SetUint64(1<<63 + 1<<55 + 1)},
		{"u8", uint64(math.MaxUint64), new(big.Float).SetUint64(math.MaxUint64)},
		{"f8", 1 + 0x1p-8 + 0x1p-40, big.NewFloat(1 + 0x1p-8 + 0x1p-40)},
		{"f4", float32(1 + 0x1p-8 + 0x1p-20), big.NewFloat(1 + 0x1p-8 + 0x1p-20)},
		{"f2", uint16(0x3c01), big.NewFloat(1 + 0x1p-10)},
		{"i2", int16(-32641), big.NewFloat(-32641)},
		{"u2", uint16(65535), big.NewFloat(65535)},
		{"i1", int8(-127), big.NewFloat(-127)},
		{"b1", uint8(2), big.NewFloat(1)},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.dtype, " ", tt.value), func(t *testing.T) {
			t.Parallel()
			f, err := Decode("a.npy", npy(1, dict("<"+tt.dtype, "False", "()"), le(tt.value)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.BFloat16()
			if want := nearestBFloat16(tt.exact); err != nil || got[0] != want {
				t.Errorf("got %#04x, error %v, want %#04x", got, err, want)
			}
		})
	}
}

// TestInt8 reads whole numbers of every type, and refuses the first that is not.
func TestInt8(t *testing.T) {
	t.Parallel()
	const want8 = "want whole numbers from -128 to 127 for int8"
	matrix := func(descr, order string, values ...any) []byte {
		return npy(1, dict(descr, order, "(2, 2)"), le(values...))
	}
	tests := []struct {
		name, file string
		content    []byte
		want       []int8
		refusal    string
	}{
		{"i1", "a.npy", matrix("|i1", "False", int8(-128), int8(127), int8(0), int8(-1)), []int8{-128, 127, 0, -1}, ""},
		{"i1 fortran", "a.npy", matrix("|i1", "True", int8(-128), int8(127), int8(0), int8(-1)), []int8{-128, 0, 127, -1}, ""},
		{"f4", "a.npy", matrix("<f4", "False", float32(-128), float32(127), float32(math.Copysign(0, -1)), float32(1)), []int8{-128, 127, 0, 1}, ""},
		{"f8", "a.npy", matrix("<f8", "False", -128., 127., 3., 1.), []int8{-128, 127, 3, 1}, ""},
		{"i8", "a.npy", matrix("<i8", "False", int64(-128), int64(127), int64(3), int64(1)), []int8{-128, 127, 3, 1}, ""},
		{"b1", "a.npy", matrix("|b1", "False", int8(0), int8(1), int8(2), int8(1)), []int8{0, 1, 1, 1}, ""},
		{"text", "a.csv", []byte("1,-128\n1e2,127.0"), []int8{1, -128, 100, 127}, ""},

		{"fraction", "a.npy", matrix("<f4", "False", float32(1), float32(1.5), float32(2.5), float32(1)), nil, "a.npy: 1.5 at [0, 1], counted from 0; " + want8},
		{"fraction fortran", "a.npy", matrix("<f4", "True", float32(1), float32(1.5), float32(2.5), float32(1)), nil, "1.5 at [1, 0], counted from 0"},
		{"tiny", "a.npy", matrix("<f8", "False", 0., 0., 0., 1e-300), nil, "1e-300 at [1, 1]"},
		{"NaN", "a.npy", matrix("<f4", "False", float32(1), float32(1), float32(math.NaN()), float32(1)), nil, "NaN at [1, 0]"},
		{"Inf", "a.npy", matrix("<f2", "False", uint16(0xfc00), uint16(0), uint16(0), uint16(0)), nil, "-Inf at [0, 0]"},
		{"large", "a.npy", matrix("<i4", "False", int32(128), int32(1), int32(1), int32(1)), nil, "128 at [0, 0]"},
		{"small", "a.npy", matrix("<i2", "False", int16(1), int16(1), int16(1), int16(-129)), nil, "-129 at [1, 1]"},
		{"wraps", "a.npy", matrix("<u8", "False", uint64(1), uint64(math.MaxUint64), uint64(1), uint64(1)), nil, "at [0, 1]"},
		{"vector", "a.npy", npy(1, dict("<f4", "False", "(2,)"), le(float32(1), float32(.5))), nil, "0.5 at [1], counted"},
		{"one", "a.npy", npy(1, dict("<f4", "False", "()"), le(float32(.5))), nil, "0.5 at [], counted"},
		{"batch", "a.npy", npy(1, dict("<f4", "False", "(2, 1, 2)"), le(float32(1), float32(1), float32(1), float32(.5))), nil, "0.5 at [1, 0, 1], counted"},
		{"batch fortran", "a.npy", npy(1, dict("<f4", "True", "(2, 1, 2)"), le(float32(1), float32(1), float32(.5), float32(1))), nil, "0.5 at [0, 0, 1], counted"},
		{"text fraction", "a.csv", []byte("1,2\n3,4.5\n"), nil, "a.csv: line 2, column 2: 4.5; " + want8},
		{"text large", "a.tsv", []byte("1\t1e400\n"), nil, "line 1, column 2: 1e400; " + want8},
		{"text NaN", "a.csv", []byte("nan"), nil, "line 1, column 1: nan; " + want8},
	}
	for _, tt := range tests {
		eachWay(t, tt.file, tt.content, func(t *testing.T, f *File, err error) {
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			got, err := f.Int8()
			if tt.refusal != "" {
				wantRefusal(t, err, tt.refusal)
			} else if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%s: got %v, error %v, want %v", tt.name, got, err, tt.want)
			}
		})
	}
}

// TestNegate: of the other triangle of a skew-symmetric matrix.
func TestNegate(t *testing.T) {
	t.Parallel()
	if v, _ := asFloat32.negate(0); math.Float32bits(v) != 1<<31 {
		t.Errorf("float32: %v", v)
	}
	if v, _ := asFloat16.negate(0x3c00); v != float16.Fromfloat32(-1) {
		t.Errorf("float16: %v", v)
	}
	if v, _ := asBFloat16.negate(0x3f80); fromBFloat16(v) != -1 {
		t.Errorf("bfloat16: %#x", v)
	}
	if v, ok := asInt8.negate(-127); v != 127 || !ok {
		t.Errorf("int8: %v, %v", v, ok)
	}
	if _, ok := asInt8.negate(-128); ok {
		t.Error("int8 holds 128")
	}
}

// Lost counts what a conversion makes infinite or 0, and not what is so in the
// file.
func TestLost(t *testing.T) {
	t.Parallel()
	doubles := func(descr string, order binary.AppendByteOrder, values ...float64) []byte {
		var data []byte
		for _, v := range values {
			data = order.AppendUint64(data, math.Float64bits(v))
		}
		return npy(1, dict(descr, "False", fmt.Sprintf("(%d,)", len(values))), data)
	}
	values := []float64{1, 0, math.NaN(), math.Inf(1), 65519, 65520, -1e30, 1e300, 1e-7, 1e-9, -1e-60}
	text := "1,0,nan,inf,65519,65520,-1e30,1e300,1e-7,1e-9,-1e-60\n"
	mtx := "%%MatrixMarket matrix coordinate real symmetric\n2 2 4\n1 1 1\n2 1 70000\n2 2 65000\n2 2 65000\n"
	half := npy(1, dict("<f2", "False", "(2,)"), []byte{0, 0x7c, 0, 0}) // inf 0
	tests := []struct {
		name, file     string
		content        []byte
		f32, f16, bf16 Lost
	}{
		{"npy", "a.npy", doubles("<f8", binary.LittleEndian, values...), Lost{1, 1}, Lost{3, 2}, Lost{1, 1}},
		{"big-endian npy", "a.npy", doubles(">f8", binary.BigEndian, values...), Lost{1, 1}, Lost{3, 2}, Lost{1, 1}},
		{"text", "a.csv", []byte(text), Lost{1, 1}, Lost{3, 2}, Lost{1, 1}},
		{"text past float64", "a.csv", []byte("1e999,-1e999,-inf"), Lost{2, 0}, Lost{2, 0}, Lost{2, 0}},
		{"one entry, two elements; two entries, one element", "a.mtx", []byte(mtx), Lost{}, Lost{2, 0}, Lost{}},
		{"as they are", "a.npy", half, Lost{}, Lost{}, Lost{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, as := range []struct {
				name string
				read func(f *File) error
				want Lost
			}{
				{"f32", func(f *File) error { _, err := f.Float32(); return err }, tt.f32},
				{"f16", func(f *File) error { _, err := f.Float16(); return err }, tt.f16},
				{"bf16", func(f *File) error { _, err := f.BFloat16(); return err }, tt.bf16},
			} {
				f, err := Decode(tt.file, tt.content)
				if err != nil {
					t.Fatal(err)
				}
				f.Lost = new(Lost)
				if err := as.read(f); err != nil || *f.Lost != as.want {
					t.Errorf("as %s: %+v, error %v, want %+v", as.name, *f.Lost, err, as.want)
				}
			}
		})
	}
}
