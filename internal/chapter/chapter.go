// Package chapter holds the worked examples of the blocked matrix product: the
// tile walk, the masks on M, N and K, the precision of the accumulator, and the
// accumulator that is set to zero in the wrong place. The demo of the command
// and the page run them; the tests hold their right values.
package chapter

import (
	"context"
	"embed"
	"fmt"
	"math"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/matfile"
	"github.com/wgemm/wgemm/wgsl"
)

//go:embed inputs/*.npy
var inputs embed.FS

// An Example is one product that the kernel, right or with a fault, computes.
type Example struct {
	Section string // "13.1"
	Title   string
	Lesson  string // what to see, in a sentence or two
	M, N, K int
	Tile    Tile
	A, B    gemm.HostMatrix // m x k and k x n
	Out     gemm.DType
	Draw    bool // small enough for a drawing of the tile walk
	Runs    []Run

	// The matrices whose first rows and columns A and B are: A and B
	// themselves, or larger ones.
	ParentA, ParentB gemm.HostMatrix
}

// A Tile is the block of C of one workgroup and the depth of a slice of K.
type Tile struct{ BM, BN, BK int }

// Grid is the number of workgroups over rows and over columns of C.
func (x Example) Grid() (rows, cols int) {
	return (x.M + x.Tile.BM - 1) / x.Tile.BM, (x.N + x.Tile.BN - 1) / x.Tile.BN
}

// Slices is the number of turns of the loop over K in each workgroup.
func (x Example) Slices() int { return (x.K + x.Tile.BK - 1) / x.Tile.BK }

// A Run is one kernel on an example.
type Run struct {
	Label  string
	Faulty bool // the result is wrong on purpose
	kernel string
	params wgsl.Params
}

// An Outcome is what a run computed.
type Outcome struct {
	Run
	Variant  string
	C        gemm.HostMatrix
	MaxError float64 // largest |C - reference|
	Wrong    int     // elements outside the error bound of gemm.Check
}

const sentinel = 999

func tiled(t Tile) Run {
	return Run{"masked on M, N and K", false, "gemm_tiled", wgsl.Params{
		"BM": uint32(t.BM), "BN": uint32(t.BN), "BK": uint32(t.BK), "TM": 1, "TN": 1,
	}}
}

func faulty(label string, t Tile, fault string) Run {
	return Run{label, true, "broken/gemm_tiled", wgsl.Params{
		"BM": uint32(t.BM), "BN": uint32(t.BN), "BK": uint32(t.BK), fault: 1,
	}}
}

// Examples are the chapter's, in its order.
func Examples() ([]Example, error) {
	four := Tile{4, 4, 4}
	walk := Example{
		Section: "13.1", Title: "a grid of tiles and a loop over K",
		Lesson: "Each workgroup computes one tile of C. It walks along K in slices, and the accumulator is set to zero once, before the walk.",
		Tile:   four, A: counting(8, 8), B: counting(8, 8), Draw: true,
		Runs: []Run{tiled(four)},
	}
	awkward := Example{
		Section: "13.2", Title: "sizes that no tile divides",
		Lesson: "Loads are masked on M, N and K: an element past an edge is not read and counts as 0.",
		Tile:   four, A: counting(5, 7), B: counting(7, 6), Draw: true,
		Runs: []Run{tiled(four)},
	}
	trap := walk
	trap.Title = "the trap: zero in the wrong place"
	trap.Lesson = "With the accumulator set to zero inside the loop, only the last slice's product remains."
	trap.Draw = false
	trap.Runs = []Run{tiled(four), faulty("accumulator set to zero inside the loop", four, "RESET_ACC")}

	deep := Example{
		Section: "13.3", Title: "the precision of the accumulator",
		Lesson: "Both products read binary16 and store binary16. What differs is the sum in between: in binary32, or rounded to binary16 after every slice.",
		Tile:   Tile{4, 4, 8}, Out: gemm.F16,
		Runs: []Run{
			{"binary32 accumulator", false, "gemm_tiled", wgsl.Params{"BM": 4, "BN": 4, "BK": 8, "TM": 1, "TN": 1}},
			faulty("binary16 accumulator", Tile{4, 4, 8}, "F16_ACC"),
		},
	}
	var err error
	if deep.A, err = input("ch13_a.npy"); err != nil {
		return nil, err
	}
	if deep.B, err = input("ch13_b.npy"); err != nil {
		return nil, err
	}
	examples := []Example{walk, trap, awkward, hidden(), deep}
	for i := range examples {
		x := &examples[i]
		x.M, x.K = Shape(x.A)
		_, x.N = Shape(x.B)
		if x.ParentA == nil {
			x.ParentA, x.ParentB = x.A, x.B
		}
	}
	return examples, nil
}

// hidden is the example whose matrices lie inside larger ones of a sentinel.
func hidden() Example {
	four := Tile{4, 4, 4}
	a, b := padded(4, 8), padded(8, 4)
	inner := Example{
		Section: "13.2", Title: "a mask left out",
		Lesson: fmt.Sprintf("A is the left 4 x 5 of a 4 x 8 matrix and B the upper 5 x 4 of an 8 x 4 one; all else is %d. The last slice reaches 3 elements past k = 5, so without the mask on K each element of C gains about 3 times %d squared, and no error is raised.", sentinel, sentinel),
		Tile:   four, Draw: true,
		A: a.View(0, 0, 4, 5), B: b.View(0, 0, 5, 4),
		ParentA: a, ParentB: b,
		Runs: []Run{tiled(four), faulty("mask on K left out", four, "NO_K_MASK")},
	}
	for _, part := range []gemm.Matrix[float32]{a.View(0, 0, 4, 5), b.View(0, 0, 5, 4)} {
		count(part)
	}
	return inner
}

// counting is the matrix of 0, 0.1, 0.2 and so on in row-major order.
func counting(rows, cols int) gemm.Matrix[float32] {
	m := gemm.NewMatrix[float32](rows, cols, nil)
	count(m)
	return m
}

func count(m gemm.Matrix[float32]) {
	for i := range m.Rows {
		for j := range m.Cols {
			m.Data[i*m.RowStride+j] = float32(i*m.Cols+j) * 0.1
		}
	}
}

func padded(rows, cols int) gemm.Matrix[float32] {
	m := gemm.NewMatrix[float32](rows, cols, nil)
	for i := range m.Data {
		m.Data[i] = sentinel
	}
	return m
}

func input(name string) (gemm.Matrix[float16.Float16], error) {
	var none gemm.Matrix[float16.Float16]
	data, err := inputs.ReadFile("inputs/" + name)
	if err != nil {
		return none, err
	}
	f, err := matfile.Decode(name, data)
	if err != nil {
		return none, err
	}
	values, err := f.Float16()
	if err != nil {
		return none, err
	}
	return gemm.NewMatrix(f.Rows, f.Cols, values), nil
}

// Shape is the number of rows and columns of a matrix of an example.
func Shape(m gemm.HostMatrix) (rows, cols int) {
	switch m := m.(type) {
	case gemm.Matrix[float32]:
		return m.Rows, m.Cols
	case gemm.Matrix[float16.Float16]:
		return m.Rows, m.Cols
	}
	panic("chapter: not a matrix")
}

// Reference is the element (i, j) of A B in float64.
func (x Example) Reference(i, j int) float64 {
	var sum float64
	for kk := range x.K {
		sum += x.A.Value(i, kk) * x.B.Value(kk, j)
	}
	return sum
}

// Run computes one of x.Runs on an engine.
func (x Example) Run(ctx context.Context, e *gemm.Engine, run Run) (Outcome, error) {
	out := Outcome{Run: run}
	a, err := e.Upload(ctx, x.ParentA)
	if err != nil {
		return out, err
	}
	defer a.Close()
	b, err := e.Upload(ctx, x.ParentB)
	if err != nil {
		return out, err
	}
	defer b.Close()
	c, err := e.NewMatrix(x.Out, x.M, x.N)
	if err != nil {
		return out, err
	}
	defer c.Close()
	viewA, viewB := a.View(0, 0, x.M, x.K), b.View(0, 0, x.K, x.N)
	p, err := e.Plan(c, viewA, viewB, gemm.WithKernel(run.kernel, run.params))
	if err != nil {
		return out, err
	}
	if err := e.Run(ctx, p, c, viewA, viewB); err != nil {
		return out, err
	}
	if x.Out == gemm.F16 {
		out.C = gemm.NewMatrix[float16.Float16](x.M, x.N, nil)
	} else {
		out.C = gemm.NewMatrix[float32](x.M, x.N, nil)
	}
	if err := e.Download(ctx, out.C, c); err != nil {
		return out, err
	}
	out.Variant = p.Name()
	for i := range x.M {
		for j := range x.N {
			out.MaxError = max(out.MaxError, math.Abs(out.C.Value(i, j)-x.Reference(i, j)))
			if x.IsWrong(out, i, j) {
				out.Wrong++
			}
		}
	}
	return out, nil
}

// IsWrong reports whether element (i, j) of an outcome is outside the error
// bound of gemm.Check.
func (x Example) IsWrong(out Outcome, i, j int) bool {
	return !gemm.CheckElement(out.C, x.A, x.B, i, j).Right()
}
