package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/gemm"
)

// A shape is that of a product of M x K by K x N matrices, for a batch of them.
type shape struct {
	Batch int    `json:"batch"`
	M     int    `json:"m"`
	N     int    `json:"n"`
	K     int    `json:"k"`
	Layer string `json:"layer,omitempty"` // of a preset
}

func square(n int) shape { return shape{Batch: 1, M: n, N: n, K: n} }

func (s shape) isSquare() bool { return s == square(s.N) }

// String is n for n x n matrices, and otherwise what --shapes takes.
func (s shape) String() string {
	text := fmt.Sprintf("%dx%dx%d", s.M, s.N, s.K)
	switch {
	case s.isSquare():
		text = strconv.Itoa(s.N)
	case s.Batch > 1:
		text = fmt.Sprintf("%dx%s", s.Batch, text)
	}
	if s.Layer != "" {
		text += " " + s.Layer
	}
	return text
}

func (s shape) flops() float64 {
	return 2 * float64(s.Batch) * float64(s.M) * float64(s.N) * float64(s.K)
}

// bytes are those of A, B and C.
func (s shape) bytes(el elementType) float64 {
	m, n, k := float64(s.M), float64(s.N), float64(s.K)
	return float64(s.Batch) * ((m*k+k*n)*float64(el.in.Size()) + m*n*float64(el.out.Size()))
}

// maxSize keeps a product of two sizes within an int. What is too much for an
// engine it says itself.
const maxSize = math.MaxInt32

// parseSize returns 0 for what is no size.
func parseSize(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxSize {
		return 0
	}
	return n
}

// parseSizes reads "100,1000" or "256:4096:x2".
func parseSizes(text string) ([]shape, error) {
	wrong := usagef("--sizes %q: want sizes from 1 to %d, as 100,1000 or 256:4096:x2", text, maxSize)
	var shapes []shape
	if parts := strings.Split(text, ":"); len(parts) == 3 {
		by, ok := strings.CutPrefix(parts[2], "x")
		from, to, factor := parseSize(parts[0]), parseSize(parts[1]), parseSize(by)
		if from == 0 || to < from || factor < 2 || !ok {
			return nil, wrong
		}
		for n := from; n <= to; n *= factor {
			shapes = append(shapes, square(n))
		}
		return shapes, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n := parseSize(part)
		if n == 0 {
			return nil, wrong
		}
		shapes = append(shapes, square(n))
	}
	return shapes, nil
}

// parseShapes reads "1x4096x4096,1024x64x64x64,512".
func parseShapes(text string) ([]shape, error) {
	var shapes []shape
	for part := range strings.SplitSeq(text, ",") {
		var n []int
		for size := range strings.SplitSeq(part, "x") {
			n = append(n, parseSize(size))
		}
		switch len(n) {
		case 1:
			n = []int{1, n[0], n[0], n[0]}
		case 3:
			n = slices.Insert(n, 0, 1)
		}
		if len(n) != 4 || slices.Contains(n, 0) {
			return nil, usagef("--shapes %q: want N, MxNxK or BATCHxMxNxK, sizes from 1 to %d", part, maxSize)
		}
		shapes = append(shapes, shape{Batch: n[0], M: n[1], N: n[2], K: n[3]})
	}
	return shapes, nil
}

// presets are the values of --preset. Each is a shape that a size of tile or a
// way to cut the work suits badly.
var presets = map[string]func() []shape{
	"square": func() []shape { return of(parseSizes("256:4096:x2")) },
	"skinny": func() []shape {
		return of(parseShapes("1x4096x4096,4096x1x4096,8x4096x4096,4096x4096x16,64x64x262144"))
	},
	"odd": func() []shape {
		return of(parseShapes("127x127x127,257x255x259,1000x1001x999,33x4095x1023,1023x7x4097"))
	},
	"llm": llm,
}

// of is for texts of this file, which are right.
func of(shapes []shape, err error) []shape {
	if err != nil {
		panic(err)
	}
	return shapes
}

func presetNames() []string { return []string{"square", "skinny", "odd", "llm"} }

// llm are the linear layers of a transformer of 7 billion parameters, as LLaMA
// 7B has them (Touvron et al., arXiv:2302.13971), for decoding one token and
// eight, and for prompts of 128 and 2048.
func llm() []shape {
	const hidden, ffn, vocabulary = 4096, 11008, 32000
	layers := []struct {
		name    string
		out, in int
	}{
		{"qkv", 3 * hidden, hidden},
		{"out", hidden, hidden},
		{"gate-up", 2 * ffn, hidden},
		{"down", hidden, ffn},
		{"lm-head", vocabulary, hidden},
	}
	var shapes []shape
	for _, tokens := range []int{1, 8, 128, 2048} {
		for _, l := range layers {
			shapes = append(shapes, shape{1, tokens, l.out, l.in, l.name})
		}
	}
	return shapes
}

// shapeFlags are the flags that name shapes.
type shapeFlags struct{ sizes, shapes, preset string }

func (o *shapeFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.sizes, "sizes", "", "sizes n of n x n matrices: a list, or from:to:xFACTOR (without any: "+defaultSizes+")")
	f.StringVar(&o.shapes, "shapes", "", "shapes N, MxNxK or BATCHxMxNxK, a list")
	f.StringVar(&o.preset, "preset", "", "a set of shapes: "+strings.Join(presetNames(), ", ")+" (llm: the linear layers of a transformer of 7 billion parameters)")
	complete(cmd, "preset", presetNames()...)
}

// all are the shapes that the flags name.
func (o shapeFlags) all() ([]shape, error) {
	if o.sizes == "" && o.shapes == "" && o.preset == "" {
		return parseSizes(defaultSizes)
	}
	var all []shape
	if o.sizes != "" {
		shapes, err := parseSizes(o.sizes)
		if err != nil {
			return nil, err
		}
		all = append(all, shapes...)
	}
	if o.shapes != "" {
		shapes, err := parseShapes(o.shapes)
		if err != nil {
			return nil, err
		}
		all = append(all, shapes...)
	}
	if o.preset != "" {
		preset, ok := presets[o.preset]
		if !ok {
			return nil, usagef("--preset %q: want one of %s", o.preset, strings.Join(presetNames(), ", "))
		}
		all = append(all, preset()...)
	}
	return all, nil
}

const defaultSizes = "128:1024:x2"

// operandFlags are the flags that name the elements and how A and B are stored.
type operandFlags struct {
	dtype          string
	transA, transB bool
}

func (o *operandFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.dtype, "dtype", "f32", "elements of A, B and C: "+strings.Join(benchDTypeNames(), ", ")+" (with a C of i32)")
	f.BoolVar(&o.transA, "trans-a", false, "A is stored transposed, k x m")
	f.BoolVar(&o.transB, "trans-b", false, "B is stored transposed, n x k")
	complete(cmd, "dtype", benchDTypeNames()...)
}

func (o operandFlags) elements() (elementType, error) {
	el, ok := benchDTypes[o.dtype]
	if !ok {
		return el, usagef("--dtype %q: want one of %s", o.dtype, strings.Join(benchDTypeNames(), ", "))
	}
	return el, nil
}

// of is a shape with these operands, as the planner takes it.
func (o operandFlags) of(s shape, el elementType) gemm.Shape {
	return gemm.Shape{M: s.M, N: s.N, K: s.K, Batch: s.Batch, In: el.in, Out: el.out, TransA: o.transA, TransB: o.transB}
}
