//go:build js

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"syscall/js"
	"time"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/matfile"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

const (
	// maxBytes bounds A, B and C together: a page has 4 GiB of memory at most,
	// which also hold the files and copies on their way.
	maxBytes = 1 << 30
	// maxChecked bounds the products that a check forms in float64, to about a
	// second's.
	maxChecked = 1 << 27
	// previewed is how many rows and columns of C are shown.
	previewed = 6
)

type inspected struct {
	Rows  int    `json:"rows"`
	Cols  int    `json:"cols"`
	DType string `json:"dtype"` // in NumPy's words
}

// inspect reads the head of a file: {name, bytes, column}.
func (s *session) inspect(_ context.Context, r request) (any, error) {
	f, err := decode(r.data, r.bool("column"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return inspected{f.Rows, f.Cols, f.DType}, nil
}

// decode opens a file of the page's: {name, bytes}. A vector is a row, or a
// column as B.
func decode(file js.Value, column bool) (*matfile.File, error) {
	f, err := matfile.Decode(file.Get("name").String(), bytesOf(file.Get("bytes")))
	if err != nil {
		return nil, err
	}
	if f.Batch != 1 {
		return nil, &matfile.FormatError{Path: f.Path, Found: fmt.Sprintf("a batch of %d matrices", f.Batch), Want: "one matrix, in the page"}
	}
	if column && f.Dims == 1 {
		f.Rows, f.Cols = f.Cols, f.Rows
	}
	return f, nil
}

type product struct {
	M       int         `json:"m"`
	N       int         `json:"n"`
	K       int         `json:"k"`
	DType   string      `json:"dtype"`
	Variant string      `json:"variant"`
	Tuned   bool        `json:"tuned"`  // the variant was measured as the fastest
	Grid    [2]uint32   `json:"grid"`   // workgroups over rows and columns of C
	Slices  int         `json:"slices"` // of K
	Seconds seconds     `json:"seconds"`
	Clock   string      `json:"clock"` // that measured compute: device or host
	GFLOPS  float64     `json:"gflops"`
	Check   comparison  `json:"check"`
	Faulty  bool        `json:"faulty"`  // wrong on purpose
	Preview [][]float64 `json:"preview"` // the first rows and columns of C
	NPY     []byte      `json:"npy"`     // C as a file
}

// A comparison is a gemm.Report for the page.
type comparison struct {
	Right    bool    `json:"right"`
	Checked  int     `json:"checked"`
	Elements int     `json:"elements"`
	Ratio    float64 `json:"ratio"` // largest error over its bound
	Row      int     `json:"row"`   // where that is
	Col      int     `json:"col"`
	Got      float64 `json:"got"`
	Want     float64 `json:"want"`
	Bound    float64 `json:"bound"`
	MaxError float64 `json:"max_error"`
}

type seconds struct {
	Upload   float64 `json:"upload"`
	Compile  float64 `json:"compile"` // of the shader, with what is around the dispatch
	Compute  float64 `json:"compute"`
	ReadBack float64 `json:"read_back"`
}

// multiply multiplies files or random matrices:
// {dtype, kernel, params, a: file or null, b: file or null, m, n, k}.
func (s *session) multiply(ctx context.Context, r request) (any, error) {
	// Garbage of one product must not be there with the next: WASM memory that
	// has grown never shrinks.
	defer goruntime.GC()
	if r.text("dtype") == "f16" {
		return multiply(ctx, s, r, (*matfile.File).Float16, matfile.EncodeFloat16, float16.Fromfloat32)
	}
	return multiply(ctx, s, r, (*matfile.File).Float32, matfile.EncodeFloat32, func(v float32) float32 { return v })
}

func multiply[T gemm.Element](
	ctx context.Context, s *session, r request,
	read func(*matfile.File) ([]T, error), encode func(rows, cols int, data []T) ([]byte, error), round func(float32) T,
) (any, error) {
	a, b, err := operands(ctx, s, r, read, round)
	if err != nil {
		return nil, err
	}
	c := gemm.NewMatrix[T](a.Rows, b.Cols, nil)
	opts, err := kernelOptions(r)
	if err != nil {
		return nil, err
	}
	plan, err := s.engine.Plan(c, a, b, opts...)
	if err != nil {
		return nil, at("tile", err)
	}
	p := product{
		M: a.Rows, N: b.Cols, K: a.Cols, DType: c.DType().String(),
		Variant: plan.Name(), Tuned: plan.Tuned, Grid: [2]uint32{plan.Grid[1], plan.Grid[0]}, Slices: plan.Slices(),
		Faulty: plan.Variant != nil && faulty(plan.Variant),
	}
	if p.M > 0 && p.N > 0 {
		if err := s.compute(ctx, r, plan, c, a, b, &p); err != nil {
			return nil, err
		}
	}
	r.phase("comparing with float64")
	report, err := check(ctx, c, a, b)
	if err != nil {
		return nil, err
	}
	p.Check = comparison{
		Right: report.Right(), Checked: report.Checked, Elements: report.Elements,
		Ratio: report.Ratio, Row: report.Row, Col: report.Col,
		Got: report.Got, Want: report.Want, Bound: report.Bound, MaxError: report.MaxError,
	}
	for i := range min(p.M, previewed) {
		row := make([]float64, min(p.N, previewed))
		for j := range row {
			row[j] = c.Value(i, j)
		}
		p.Preview = append(p.Preview, row)
	}
	p.NPY, err = encode(p.M, p.N, c.Data)
	return p, err
}

// operands reads or makes A and B.
func operands[T gemm.Element](
	ctx context.Context, s *session, r request, read func(*matfile.File) ([]T, error), round func(float32) T,
) (a, b gemm.Matrix[T], err error) {
	if r.data.Get("a").IsNull() {
		m, n, k := r.int("m"), r.int("n"), r.int("k")
		if err := s.checkRoom(a.DType(), m, n, k); err != nil {
			return a, b, at("sizes", err)
		}
		r.phase("making random matrices")
		rng := rand.New(rand.NewPCG(1, 1))
		if a, err = random(ctx, rng, m, k, round); err != nil {
			return a, b, err
		}
		b, err = random(ctx, rng, k, n, round)
		return a, b, err
	}
	r.phase("reading the files")
	fa, err := decode(r.data.Get("a"), false)
	if err != nil {
		return a, b, at("a", err)
	}
	defer fa.Close()
	fb, err := decode(r.data.Get("b"), true)
	if err != nil {
		return a, b, at("b", err)
	}
	defer fb.Close()
	if fa.Cols != fb.Rows {
		return a, b, at("b", &gemm.ShapeError{Arg: "B", Reason: fmt.Sprintf("has %d rows, and A has %d columns: they must be equal", fb.Rows, fa.Cols)})
	}
	if err := s.checkRoom(a.DType(), fa.Rows, fb.Cols, fa.Cols); err != nil {
		return a, b, at("b", err)
	}
	dataA, err := read(fa)
	if err != nil {
		return a, b, at("a", err)
	}
	dataB, err := read(fb)
	if err != nil {
		return a, b, at("b", err)
	}
	return gemm.NewMatrix(fa.Rows, fa.Cols, dataA), gemm.NewMatrix(fb.Rows, fb.Cols, dataB), nil
}

// checkRoom returns a *LimitError for matrices that the device or the page
// cannot hold, before memory is taken for them. The sizes are below 2^30.
func (s *session) checkRoom(dtype gemm.DType, m, n, k int) error {
	total := 0.0
	for _, x := range []struct {
		name       string
		rows, cols int
	}{{"A", m, k}, {"B", k, n}, {"C", m, n}} {
		size := x.rows * x.cols * dtype.Size()
		total += float64(size)
		if s.adapter == nil || size == 0 {
			continue
		}
		if err := s.adapter.Limits.CheckBuffer(fmt.Sprintf("%s, %d x %d of %s,", x.name, x.rows, x.cols, dtype), size); err != nil {
			return err
		}
	}
	if total > maxBytes {
		return &gpu.LimitError{What: "A, B and C together", Limit: "memory of the page", Need: uint64(total), Have: maxBytes}
	}
	return nil
}

// random is a matrix of numbers uniform in [-1, 1).
func random[T gemm.Element](ctx context.Context, rng *rand.Rand, rows, cols int, round func(float32) T) (gemm.Matrix[T], error) {
	var p pace
	m := gemm.NewMatrix[T](rows, cols, nil)
	for i := range m.Data {
		if i%(1<<16) == 0 {
			if err := p.keep(ctx); err != nil {
				return m, err
			}
		}
		m.Data[i] = round(2*rng.Float32() - 1)
	}
	return m, nil
}

// kernelOptions reads {kernel, params}; no kernel is the planner's choice.
func kernelOptions(r request) ([]gemm.Option, error) {
	if r.text("kernel") == "" {
		return nil, nil
	}
	params, err := wgsl.ParseParams(r.text("params"))
	if err != nil {
		return nil, at("tile", err)
	}
	return []gemm.Option{gemm.WithKernel(r.text("kernel"), params)}, nil
}

// faulty reports whether a fault of the variant is on.
func faulty(v *wgsl.Variant) bool {
	for _, name := range []string{"NO_M_MASK", "NO_N_MASK", "NO_K_MASK", "RESET_ACC", "F16_ACC"} {
		if on, _ := v.Const(name); on != 0 {
			return true
		}
	}
	return false
}

// compute multiplies and fills in how long each part took.
func (s *session) compute(ctx context.Context, r request, plan gemm.Plan, c, a, b gemm.HostMatrix, p *product) error {
	last := time.Now()
	lap := func() float64 {
		d := time.Since(last)
		last = last.Add(d)
		return d.Seconds()
	}
	r.phase("uploading")
	da, err := s.engine.Upload(ctx, a)
	if err != nil {
		return err
	}
	defer da.Close()
	db, err := s.engine.Upload(ctx, b)
	if err != nil {
		return err
	}
	defer db.Close()
	dc, err := s.engine.NewMatrix(c.DType(), p.M, p.N)
	if err != nil {
		return err
	}
	defer dc.Close()
	if err := s.engine.Wait(ctx); err != nil {
		return err
	}
	p.Seconds.Upload = lap()
	r.phase("multiplying")
	took, clock, err := s.engine.Elapsed(ctx, plan, dc, da, db)
	if err != nil {
		return err
	}
	p.Seconds.Compute, p.Clock = took.Seconds(), string(clock)
	p.Seconds.Compile = max(lap()-p.Seconds.Compute, 0)
	if took > 0 {
		p.GFLOPS = gflops(p.M, p.N, p.K, took.Seconds())
	}
	r.phase("reading back")
	if err := s.engine.Download(ctx, c, dc); err != nil {
		return err
	}
	p.Seconds.ReadBack = lap()
	return nil
}

func gflops(m, n, k int, seconds float64) float64 {
	return 2 * float64(m) * float64(n) * float64(k) / seconds / 1e9
}

// check is gemm.Check in a page: it can be canceled, and it compares fewer rows
// of a big product, the first, the last and others at random.
func check[T gemm.Element](ctx context.Context, c, a, b gemm.Matrix[T]) (gemm.Report, error) {
	worst := gemm.Report{Elements: c.Rows * c.Cols, Ratio: math.Inf(-1)}
	if worst.Elements == 0 {
		worst.Ratio = 0
		return worst, nil
	}
	rows := rand.New(rand.NewPCG(1, 1)).Perm(c.Rows)
	if most := max(maxChecked/(c.Cols*max(a.Cols, 1)), 2); c.Rows > most {
		rows = append([]int{0, c.Rows - 1}, rows[:most-2]...)
		slices.Sort(rows)
		rows = slices.Compact(rows)
	}
	var p pace
	for _, i := range rows {
		if err := p.keep(ctx); err != nil {
			return worst, err
		}
		row := gemm.Check(c.View(i, 0, 1, c.Cols), a.View(i, 0, 1, a.Cols), b, 1)
		row.Row, row.Elements = i, worst.Elements
		row.Checked, row.MaxError = row.Checked+worst.Checked, max(row.MaxError, worst.MaxError)
		if row.Ratio <= worst.Ratio {
			worst.Checked, worst.MaxError = row.Checked, row.MaxError
			continue
		}
		worst = row
	}
	return worst, nil
}
