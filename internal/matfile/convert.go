package matfile

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/x448/float16"
)

// element is a type that values are read as; uint16 is bfloat16.
type element interface {
	float32 | float16.Float16 | uint16 | int8
}

// conversion says how what a file holds becomes a T.
type conversion[T element] struct {
	dtype   string // the one that lies in a file as a T in memory
	decoder func(dtype string) func(b []byte) T
	parse   func(s string) (T, error) // beyond the range: ±Inf and strconv.ErrRange
	round   func(v float64) (T, bool) // false: v is no T
	negate  func(v T) (T, bool)

	// Not every value is a T, if fits is not nil, and then want says which are.
	fits func(dtype string) func(b []byte) bool
	want string
}

// errNoElement reports a number that is not of the type asked for.
var errNoElement = errors.New("a number of another type")

var (
	asFloat32 = conversion[float32]{
		dtype:   "f4",
		decoder: decode32,
		parse: func(s string) (float32, error) {
			v, err := parseFloat(s, 32)
			return float32(v), err
		},
		round:  func(v float64) (float32, bool) { return float32(v), true },
		negate: func(v float32) (float32, bool) { return -v, true },
	}
	asFloat16 = conversion[float16.Float16]{
		dtype:   "f2",
		decoder: decode16,
		parse: func(s string) (float16.Float16, error) {
			v, err := parseFloat(s, 64)
			return fromFloat64(v), err
		},
		round:  func(v float64) (float16.Float16, bool) { return fromFloat64(v), true },
		negate: func(v float16.Float16) (float16.Float16, bool) { return v ^ 0x8000, true },
	}
	asBFloat16 = conversion[uint16]{
		dtype:   "bf16",
		decoder: decodeBFloat16,
		parse: func(s string) (uint16, error) {
			v, err := parseFloat(s, 64)
			return bfloat16(oddFloat32(v)), err
		},
		round:  func(v float64) (uint16, bool) { return bfloat16(oddFloat32(v)), true },
		negate: func(v uint16) (uint16, bool) { return v ^ 0x8000, true },
	}
	asInt8 = conversion[int8]{
		dtype: "i1",
		decoder: func(dtype string) func(b []byte) int8 {
			decode := decode64(dtype)
			return func(b []byte) int8 { return int8(decode(b)) }
		},
		parse: func(s string) (int8, error) {
			v, err := parseFloat(s, 64)
			if err == nil && !isInt8(v) || errors.Is(err, strconv.ErrRange) {
				return 0, errNoElement
			}
			return int8(v), err
		},
		round:  func(v float64) (int8, bool) { return int8(v), isInt8(v) },
		negate: func(v int8) (int8, bool) { return -v, v != math.MinInt8 },
		fits: func(dtype string) func(b []byte) bool {
			decode := decode64(dtype)
			return func(b []byte) bool { return isInt8(decode(b)) }
		},
		want: "whole numbers from -128 to 127 for int8",
	}
)

// counting is as, and counts what is lost.
func counting[T element](as conversion[T], lost *Lost) conversion[T] {
	count := func(in float64, out T) {
		switch v := toFloat64(out); {
		case math.IsInf(v, 0) && !math.IsInf(in, 0):
			lost.Overflowed++
		case v == 0 && in != 0:
			lost.Underflowed++
		}
	}
	counted := as
	counted.decoder = func(dtype string) func(b []byte) T {
		decode, exact := as.decoder(dtype), decode64(dtype)
		return func(b []byte) T {
			v := decode(b)
			count(exact(b), v)
			return v
		}
	}
	counted.parse = func(s string) (T, error) {
		v, err := as.parse(s)
		in, beyond := parseFloat(s, 64)
		if errors.Is(beyond, strconv.ErrRange) {
			in = math.MaxFloat64 // finite as text
		}
		count(in, v)
		return v, err
	}
	counted.round = func(in float64) (T, bool) {
		v, ok := as.round(in)
		count(in, v)
		return v, ok
	}
	return counted
}

func toFloat64[T element](v T) float64 {
	switch v := any(v).(type) {
	case float32:
		return float64(v)
	case float16.Float16:
		return float64(v.Float32())
	case uint16:
		return float64(fromBFloat16(v))
	case int8:
		return float64(v)
	}
	panic("matfile: not an element")
}

func isInt8(v float64) bool { return v >= math.MinInt8 && v <= math.MaxInt8 && v == math.Trunc(v) }

// parseFloat is strconv.ParseFloat without Go's own 1_000. Beyond the range
// it returns ±Inf and strconv.ErrRange.
func parseFloat(s string, bits int) (float64, error) {
	if strings.Contains(s, "_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(s, bits)
}

// decode64 returns the conversion of one little-endian value to float64, nil
// for an unknown dtype. Of the types only i8 and u8 hold values that float64
// does not; these are rounded to odd (see oddFloat32).
func decode64(dtype string) func(b []byte) float64 {
	le := binary.LittleEndian
	switch dtype {
	case "f8":
		return func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }
	case "i4":
		return func(b []byte) float64 { return float64(int32(le.Uint32(b))) }
	case "u4":
		return func(b []byte) float64 { return float64(le.Uint32(b)) }
	case "u8":
		return func(b []byte) float64 { return oddFloat64(le.Uint64(b)) }
	case "i8":
		return func(b []byte) float64 {
			if v := int64(le.Uint64(b)); v < 0 {
				return -oddFloat64(-uint64(v))
			}
			return oddFloat64(le.Uint64(b))
		}
	}
	if decode := decode32(dtype); decode != nil {
		return func(b []byte) float64 { return float64(decode(b)) }
	}
	return nil
}

// decode32 returns the conversion of one little-endian value to float32, nil
// for an unknown dtype.
func decode32(dtype string) func(b []byte) float32 {
	le := binary.LittleEndian
	switch dtype {
	case "f2":
		return func(b []byte) float32 { return float16.Frombits(le.Uint16(b)).Float32() }
	case "f4":
		return func(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) }
	case "f8":
		return func(b []byte) float32 { return float32(math.Float64frombits(le.Uint64(b))) }
	case "bf16":
		return func(b []byte) float32 { return fromBFloat16(le.Uint16(b)) }
	case "i1":
		return func(b []byte) float32 { return float32(int8(b[0])) }
	case "i2":
		return func(b []byte) float32 { return float32(int16(le.Uint16(b))) }
	case "i4":
		return func(b []byte) float32 { return float32(int32(le.Uint32(b))) }
	case "i8":
		return func(b []byte) float32 { return float32(int64(le.Uint64(b))) }
	case "u1":
		return func(b []byte) float32 { return float32(b[0]) }
	case "u2":
		return func(b []byte) float32 { return float32(le.Uint16(b)) }
	case "u4":
		return func(b []byte) float32 { return float32(le.Uint32(b)) }
	case "u8":
		return func(b []byte) float32 { return float32(le.Uint64(b)) }
	case "b1":
		return func(b []byte) float32 {
			if b[0] != 0 {
				return 1
			}
			return 0
		}
	}
	return nil
}

// decode16 is decode32 for binary16.
func decode16(dtype string) func(b []byte) float16.Float16 {
	le := binary.LittleEndian
	switch dtype {
	case "f2":
		return func(b []byte) float16.Float16 { return float16.Frombits(le.Uint16(b)) }
	case "f8":
		return func(b []byte) float16.Float16 { return fromFloat64(math.Float64frombits(le.Uint64(b))) }
	}
	// The way over float32 rounds once: f4, bf16 and integers below 2^24 are
	// exact there, and larger integers are Inf in binary16 however they round.
	decode := decode32(dtype)
	return func(b []byte) float16.Float16 { return float16.Fromfloat32(decode(b)) }
}

// decodeBFloat16 is decode32 for bfloat16.
func decodeBFloat16(dtype string) func(b []byte) uint16 {
	switch dtype {
	case "bf16":
		return binary.LittleEndian.Uint16
	case "f8", "i4", "u4", "i8", "u8":
		// bfloat16 reaches as far as float32, so that these would be rounded twice.
		decode := decode64(dtype)
		return func(b []byte) uint16 { return bfloat16(oddFloat32(decode(b))) }
	}
	decode := decode32(dtype)
	return func(b []byte) uint16 { return bfloat16(decode(b)) }
}

func fromBFloat16(v uint16) float32 { return math.Float32frombits(uint32(v) << 16) }

// bfloat16 rounds v to the upper 16 bits of a float32, to nearest, ties to even.
func bfloat16(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40 // what is cut off may be all that made it NaN
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// fromFloat64 rounds v to binary16, to nearest, ties to even.
func fromFloat64(v float64) float16.Float16 { return float16.Fromfloat32(oddFloat32(v)) }

// oddFloat32 is the first of two steps from float64 to a shorter type.
//
// With float32(v) as the first step v would be rounded twice: for binary16,
// 1 + 2^-11 + 2^-40 would first become a tie. So v is rounded to odd: of the
// two float32 around an inexact v this is the one with the odd significand,
// which keeps the rest of v visible in its last bit (Boldo and Melquiond,
// doi:10.1109/TC.2007.70819).
func oddFloat32(v float64) float32 {
	odd := float32(v)
	if bits := math.Float32bits(odd); float64(odd) != v && bits&1 == 0 && !math.IsNaN(v) {
		if math.Abs(float64(odd)) > math.Abs(v) {
			bits--
		} else {
			bits++
		}
		odd = math.Float32frombits(bits)
	}
	return odd
}

// oddFloat64 is oddFloat32 for integers, which beyond 2^53 are rounded.
func oddFloat64(v uint64) float64 {
	const rest = 1<<11 - 1 // what float64 does not hold of 64 bits
	if v >= 1<<53 && v&rest != 0 {
		v = v&^rest | (rest + 1)
	}
	return float64(v)
}
