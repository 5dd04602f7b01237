//go:build js

package main

import (
	"context"
	"fmt"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/chapter"
	"github.com/wgemm/wgemm/wgsl"
)

// Bounds of what the picture of the tile walk shows.
const (
	maxWalkSize   = 16
	maxWalkFrames = 512
)

type walk struct {
	Rows   int     `json:"rows"` // of the grid
	Cols   int     `json:"cols"`
	Slices int     `json:"slices"`
	Frames []frame `json:"frames"`
}

// A frame is one turn of the loop over K of one workgroup. The rows of A, B and
// C are strings of chapter.Cell.
type frame struct {
	Row   int      `json:"row"`
	Col   int      `json:"col"`
	Slice int      `json:"slice"`
	A     []string `json:"a"`
	B     []string `json:"b"`
	C     []string `json:"c"`
}

// walk returns every frame of a product: {m, n, k, bm, bn, bk}.
func (s *session) walk(_ context.Context, r request) (any, error) {
	x := chapter.Example{
		M: r.int("m"), N: r.int("n"), K: r.int("k"),
		Tile: chapter.Tile{BM: r.int("bm"), BN: r.int("bn"), BK: r.int("bk")},
	}
	for _, size := range []int{x.M, x.N, x.K, x.Tile.BM, x.Tile.BN, x.Tile.BK} {
		if size < 1 || size > maxWalkSize {
			return nil, at("walk", fmt.Errorf("%d is not a size from 1 to %d", size, maxWalkSize))
		}
	}
	rows, cols := x.Grid()
	w := walk{Rows: rows, Cols: cols, Slices: x.Slices()}
	if frames := rows * cols * w.Slices; frames > maxWalkFrames {
		return nil, at("walk", fmt.Errorf("%d steps are more than the %d that can be shown: take larger tiles", frames, maxWalkFrames))
	}
	for row := range rows {
		for col := range cols {
			for slice := range w.Slices {
				a, b, c := x.Step(row, col, slice)
				w.Frames = append(w.Frames, frame{row, col, slice, lines(a), lines(b), lines(c)})
			}
		}
	}
	return w, nil
}

func lines(cells [][]chapter.Cell) []string {
	out := make([]string, len(cells))
	for i, row := range cells {
		text := make([]byte, len(row))
		for j, c := range row {
			text[j] = byte(c)
		}
		out[i] = string(text)
	}
	return out
}

type exampleRun struct {
	Section  string  `json:"section"`
	Title    string  `json:"title"`
	Lesson   string  `json:"lesson"`
	Label    string  `json:"label"`
	Variant  string  `json:"variant"`
	Faulty   bool    `json:"faulty"` // wrong on purpose
	MaxError float64 `json:"max_error"`
	Wrong    int     `json:"wrong"` // elements outside their error bound
	Elements int     `json:"elements"`
}

// examples runs the chapter's worked examples; each run is a progress message.
func (s *session) examples(ctx context.Context, r request) (any, error) {
	all, err := chapter.Examples()
	if err != nil {
		return nil, err
	}
	for _, x := range all {
		for _, run := range x.Runs {
			out, err := x.Run(ctx, s.engine, run)
			if err != nil {
				return nil, err
			}
			r.progress(exampleRun{x.Section, x.Title, x.Lesson, run.Label, out.Variant, run.Faulty, out.MaxError, out.Wrong, x.M * x.N})
		}
	}
	return struct{}{}, nil
}

// The sentinel example of the page: unlike the chapter's, no edge of A, B and C
// is one of a tile, so that each of the three masks has something to hide.
const (
	maskedM, maskedN, maskedK = 3, 2, 6
	maskedTile                = 4
	maskedDepth               = 8 // two slices
	sentinel                  = 999
)

type masks struct {
	M        int         `json:"m"`
	N        int         `json:"n"`
	K        int         `json:"k"`
	Sentinel float64     `json:"sentinel"`
	A        [][]float64 `json:"a"` // with what is around it
	B        [][]float64 `json:"b"`
	C        [][]float64 `json:"c"`
	Want     [][]float64 `json:"want"`  // in float64; the sentinel around C
	Wrong    [][]bool    `json:"wrong"` // outside its bound; around C: written over
}

// masks multiplies inside larger matrices of a sentinel, with each mask on or
// off: {m, n, k}.
func (s *session) masks(ctx context.Context, r request) (any, error) {
	a := sentinels(maskedTile, maskedDepth, maskedM, maskedK)
	b := sentinels(maskedDepth, maskedTile, maskedK, maskedN)
	c := sentinels(maskedTile, maskedTile, 0, 0)
	params := wgsl.Params{"BM": maskedTile, "BN": maskedTile, "BK": maskedTile}
	for name, fault := range map[string]string{"m": "NO_M_MASK", "n": "NO_N_MASK", "k": "NO_K_MASK"} {
		if !r.bool(name) {
			params[fault] = 1
		}
	}
	if err := s.inPlace(ctx, c, a, b, gemm.WithKernel("broken/gemm_tiled", params)); err != nil {
		return nil, err
	}
	out := masks{
		M: maskedM, N: maskedN, K: maskedK, Sentinel: sentinel,
		A: values(a), B: values(b), C: values(c), Want: values(sentinels(maskedTile, maskedTile, 0, 0)),
	}
	innerA, innerB, innerC := a.View(0, 0, maskedM, maskedK), b.View(0, 0, maskedK, maskedN), c.View(0, 0, maskedM, maskedN)
	for i, row := range out.C {
		wrong := make([]bool, len(row))
		for j := range wrong {
			if i < maskedM && j < maskedN {
				one := gemm.CheckElement(innerC, innerA, innerB, i, j)
				out.Want[i][j], wrong[j] = one.Want, !one.Right()
			} else {
				wrong[j] = row[j] != sentinel
			}
		}
		out.Wrong = append(out.Wrong, wrong)
	}
	return out, nil
}

// inPlace multiplies the parts of A and B that are not the sentinel into the
// same part of C.
func (s *session) inPlace(ctx context.Context, c, a, b gemm.Matrix[float32], kernel gemm.Option) error {
	var d [3]*gemm.DeviceMatrix
	for i, m := range []gemm.Matrix[float32]{c, a, b} {
		var err error
		if d[i], err = s.engine.Upload(ctx, m); err != nil {
			return err
		}
		defer d[i].Close()
	}
	dc, da, db := d[0].View(0, 0, maskedM, maskedN), d[1].View(0, 0, maskedM, maskedK), d[2].View(0, 0, maskedK, maskedN)
	plan, err := s.engine.Plan(dc, da, db, kernel)
	if err != nil {
		return err
	}
	if err := s.engine.Run(ctx, plan, dc, da, db); err != nil {
		return err
	}
	return s.engine.Download(ctx, c, d[0])
}

// sentinels is a matrix of the sentinel, with 0, 0.1, 0.2 and so on in its
// first innerRows rows and innerCols columns.
func sentinels(rows, cols, innerRows, innerCols int) gemm.Matrix[float32] {
	m := gemm.NewMatrix[float32](rows, cols, nil)
	for i := range m.Data {
		m.Data[i] = sentinel
		if row, col := i/cols, i%cols; row < innerRows && col < innerCols {
			m.Data[i] = float32(row*innerCols+col) * 0.1
		}
	}
	return m
}

func values(m gemm.Matrix[float32]) [][]float64 {
	out := make([][]float64, m.Rows)
	for i := range out {
		out[i] = make([]float64, m.Cols)
		for j := range out[i] {
			out[i][j] = m.Value(i, j)
		}
	}
	return out
}

type accumulated struct {
	K   int     `json:"k"`
	F32 float64 `json:"f32"` // largest error with a binary32 accumulator
	F16 float64 `json:"f16"` // with one of binary16
}

// accumulator runs the example of section 13.3 on the first K columns of A and
// rows of B, for K up to all of them; each K is a progress message.
func (s *session) accumulator(ctx context.Context, r request) (any, error) {
	all, err := chapter.Examples()
	if err != nil {
		return nil, err
	}
	x := all[len(all)-1]
	a, okA := x.A.(gemm.Matrix[float16.Float16])
	b, okB := x.B.(gemm.Matrix[float16.Float16])
	if !okA || !okB || len(x.Runs) != 2 {
		return nil, fmt.Errorf("the example %q is another than expected", x.Title)
	}
	for k := x.Tile.BK; k <= a.Cols; k += x.Tile.BK {
		if k > 256 && k%32 != 0 { // fewer where the curve is smooth
			continue
		}
		x.K, x.A, x.B = k, a.View(0, 0, a.Rows, k), b.View(0, 0, k, b.Cols)
		f32, err := x.Run(ctx, s.engine, x.Runs[0])
		if err != nil {
			return nil, err
		}
		f16, err := x.Run(ctx, s.engine, x.Runs[1])
		if err != nil {
			return nil, err
		}
		r.progress(accumulated{k, f32.MaxError, f16.MaxError})
	}
	return struct{}{}, nil
}
