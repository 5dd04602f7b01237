package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/wgemm/wgemm/gemm"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

// specials are what the products of a bug cannot show: errors that must come,
// operands that share memory, calls at the same time.
var specials = map[string]func(ctx context.Context, r *Runner, b Bug, k Kernel) (Result, error){
	"H06": rowBlocks,
	"H27": tooLarge,
	"H28": tooLarge,
	"H29": tooLarge,
	"H36": sharedMemory,
	"H37": strides,
	"H39": goroutines,
	"H43": wrongCalls,
	"H45": manyUploads,
}

// host is a dense matrix of binary32 with the values of f.
func host(rows, cols int, f func(i, j int) float64) gemm.Matrix[float32] {
	m := gemm.NewMatrix[float32](rows, cols, nil)
	for i := range rows {
		for j := range cols {
			m.Data[i*cols+j] = float32(f(i, j))
		}
	}
	return m
}

// operandsOf are A and B of matrix p of a bug.
func operandsOf(b Bug, p int) (x, y gemm.Matrix[float32]) {
	return host(b.M, b.K, func(i, kk int) float64 { return b.ValueA(p, i, kk) }),
		host(b.K, b.N, func(kk, j int) float64 { return b.ValueB(p, kk, j) })
}

// product compares C with A B, exactly.
func (r *Result) product(what string, c, a, b gemm.Matrix[float32]) {
	for i := range c.Rows {
		for j := range c.Cols {
			want := 0.0
			for kk := range a.Cols {
				want += float64(a.At(i, kk)) * float64(b.At(kk, j))
			}
			if got := float64(c.At(i, j)); got != want {
				r.fail("%s: C[%d, %d] is %v, want %v", what, i, j, got, want)
				return
			}
		}
	}
}

func clone(m gemm.Matrix[float32]) gemm.Matrix[float32] {
	m.Data = append([]float32(nil), m.Data...)
	return m
}

// onCPU reports whether the engine is the CPU path.
func onCPU(r *Runner) bool {
	one := gemm.NewMatrix[float32](1, 1, nil)
	p, err := r.Engine.Plan(one, one, one)
	return err == nil && p.Variant == nil
}

// rowBlocks compares a product with that of 64 rows of A at a time, which are other
// tiles and perhaps another variant: of whole eighths, the bits are the same. No
// row may be 0.
func rowBlocks(ctx context.Context, r *Runner, b Bug, k Kernel) (Result, error) {
	var res Result
	x, y := operandsOf(b, 0)
	whole, blocks := gemm.NewMatrix[float32](b.M, b.N, nil), gemm.NewMatrix[float32](b.M, b.N, nil)
	if err := r.multiply(ctx, whole, x, y, k.options()...); err != nil {
		return res, err
	}
	for i := 0; i < b.M; i += 64 {
		rows := min(64, b.M-i)
		if err := r.multiply(ctx, blocks.View(i, 0, rows, b.N), x.View(i, 0, rows, b.K), y, k.options()...); err != nil {
			return res, err
		}
	}
	if at := differs(whole.Data, blocks.Data); at >= 0 {
		res.fail("C[%d, %d] is %v, and %v in blocks of 64 rows", at/b.N, at%b.N, whole.Data[at], blocks.Data[at])
	}
	for i := range b.M {
		if !slices.ContainsFunc(whole.Data[i*b.N:][:b.N], func(v float32) bool { return v != 0 }) {
			res.fail("row %d of C is 0", i)
		}
	}
	return res, nil
}

// tooLarge wants a matrix refused with both numbers where the device cannot hold
// it, before any work.
func tooLarge(_ context.Context, r *Runner, b Bug, _ Kernel) (Result, error) {
	var res Result
	if onCPU(r) {
		return Result{Skipped: "the CPU path has no limit but the memory"}, nil
	}
	m, err := r.Engine.NewMatrix(gemm.F32, b.M, b.N)
	if err == nil {
		return res, m.Close() // this device can: then any index in it is in reach, as in the suite big
	}
	limit, ok := errors.AsType[*gemm.LimitError](err)
	if need := uint64(b.M) * uint64(b.N) * 4; !ok || limit.Need != need || limit.Have >= need {
		res.fail("%d x %d: %v, want a *LimitError that needs %d", b.M, b.N, err, need)
	}
	return res, nil
}

// sharedMemory computes into the memory of an operand, where the old values
// count, on the host; on the device it is an error.
func sharedMemory(ctx context.Context, r *Runner, bug Bug, k Kernel) (Result, error) {
	var res Result
	for _, onto := range []string{"A", "B", "half of A", "A, which is B"} {
		a, b := operandsOf(bug, 0)
		if onto == "half of A" {
			a.Data = append(a.Data, make([]float32, bug.M*bug.K/2)...)
		}
		wasA, wasB := clone(a), clone(b)
		c := a
		switch onto {
		case "B":
			c = b
		case "half of A":
			c.Data = a.Data[bug.M*bug.K/2:]
		case "A, which is B":
			b, wasB = a, wasA
		}
		if err := r.multiply(ctx, c, a, b, k.options()...); err != nil {
			return res, fmt.Errorf("onto %s: %w", onto, err)
		}
		res.product("onto "+onto, c, wasA, wasB)
	}
	a, b := operandsOf(bug, 0)
	da, err := r.Engine.Upload(ctx, a)
	if err != nil {
		return res, err
	}
	defer da.Close()
	var shape *gemm.ShapeError
	if err := r.multiply(ctx, da, da, b, k.options()...); !errors.As(err, &shape) || shape.Arg != "C" {
		res.fail("onto A on the device: %v, want a *ShapeError on C", err)
	}
	return res, nil
}

// strides takes leading dimensions that fit and refuses those that do not.
func strides(ctx context.Context, r *Runner, bug Bug, k Kernel) (Result, error) {
	var res Result
	matrix := func(rows, cols, row, length int) gemm.Matrix[float32] {
		return gemm.Matrix[float32]{Data: make([]float32, length), Rows: rows, Cols: cols, RowStride: row, ColStride: 1}
	}
	for _, lds := range [][3]int{{bug.K, bug.N, bug.N}, {7, 6, 5}} {
		a := matrix(bug.M, bug.K, lds[0], bug.M*lds[0])
		b := matrix(bug.K, bug.N, lds[1], bug.K*lds[1])
		c := matrix(bug.M, bug.N, lds[2], bug.M*lds[2])
		for i := range bug.K {
			for j := range bug.M {
				a.Data[j*lds[0]+i] = float32(bug.ValueA(0, j, i))
			}
			for j := range bug.N {
				b.Data[i*lds[1]+j] = float32(bug.ValueB(0, i, j))
			}
		}
		if err := r.multiply(ctx, c, a, b, k.options()...); err != nil {
			return res, fmt.Errorf("strides %v: %w", lds, err)
		}
		res.product(fmt.Sprintf("strides %v", lds), c, a, b)
	}
	fits := func() (c, a, b gemm.Matrix[float32]) {
		return matrix(2, 3, 3, 6), matrix(2, 5, 5, 10), matrix(5, 3, 3, 15)
	}
	for _, tc := range []struct {
		arg    string
		change func(c, a, b *gemm.Matrix[float32])
	}{
		{"C", func(c, _, _ *gemm.Matrix[float32]) { c.RowStride = 2 }}, // rows would overlap
		{"A", func(_, a, _ *gemm.Matrix[float32]) { a.Data = a.Data[:9] }},
		{"B", func(_, _, b *gemm.Matrix[float32]) { b.RowStride = 4 }},
		{"A", func(_, a, _ *gemm.Matrix[float32]) { a.RowStride = 1<<31 - 1 }},
		{"B", func(_, _, b *gemm.Matrix[float32]) { b.RowStride = 1 << 30 }},
	} {
		c, a, b := fits()
		tc.change(&c, &a, &b)
		err := r.multiply(ctx, c, a, b, k.options()...)
		if shape, ok := errors.AsType[*gemm.ShapeError](err); !ok || shape.Arg != tc.arg {
			res.fail("wrong strides: %v, want a *ShapeError on %s", err, tc.arg)
		}
	}
	return res, nil
}

// goroutines multiplies from many at once; each wants its own product.
func goroutines(ctx context.Context, r *Runner, bug Bug, k Kernel) (Result, error) {
	const callers, calls = 16, 50
	results, errs := make([]Result, callers), make([]error, callers)
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			a := host(bug.M, bug.K, func(i, kk int) float64 { return bug.A.expr(vars{g: g, i: i, k: kk}) })
			_, b := operandsOf(bug, 0)
			for call := range calls {
				c := gemm.NewMatrix[float32](bug.M, bug.N, nil)
				if errs[g] = r.multiply(ctx, c, a, b, k.options()...); errs[g] != nil {
					return
				}
				results[g].product(fmt.Sprintf("goroutine %d, call %d", g, call), c, a, b)
			}
		})
	}
	wg.Wait()
	for _, res := range results {
		if res.Failure != "" {
			return res, nil
		}
	}
	return Result{}, errors.Join(errs...)
}

// wrongCalls wants an error value from each wrong call, and a right product
// afterwards.
func wrongCalls(ctx context.Context, r *Runner, bug Bug, k Kernel) (Result, error) {
	var res Result
	a, b := operandsOf(bug, 0)
	c := gemm.NewMatrix[float32](bug.M, bug.N, nil)
	short, tall := a, a
	short.Data = short.Data[:len(short.Data)-1]
	tall.Rows = 1 << 31
	var shape *gemm.ShapeError
	if err := r.multiply(ctx, c, short, b, k.options()...); !errors.As(err, &shape) {
		res.fail("a slice that is too short: %v, want a *ShapeError", err)
	}
	if err := r.multiply(ctx, c, tall, b, k.options()...); !errors.As(err, &shape) {
		res.fail("m = 2^31: %v, want a *ShapeError", err)
	}
	var param *wgsl.ParamError
	if err := r.multiply(ctx, c, a, b, gemm.WithKernel("gemm_tiled", wgsl.Params{"BM": 7})); !errors.As(err, &param) {
		res.fail("a tile that does not divide: %v, want a *ParamError", err)
	}
	var limit *gemm.LimitError
	huge := gemm.WithKernel("gemm_tiled", wgsl.Params{"BM": 1000, "BN": 1000, "TM": 1, "TN": 1})
	if err := r.multiply(ctx, c, a, b, huge); !errors.As(err, &limit) && !(err == nil && onCPU(r)) {
		res.fail("a tile of 1000 x 1000: %v, want a *LimitError", err)
	}
	closed, err := r.Engine.Upload(ctx, a)
	if err != nil {
		return res, err
	}
	if err := closed.Close(); err != nil {
		return res, err
	}
	if err := r.multiply(ctx, c, closed, b, k.options()...); !errors.Is(err, gpu.ErrClosed) {
		res.fail("a closed matrix: %v, want ErrClosed", err)
	}
	if err := r.multiply(ctx, c, a, b, k.options()...); err != nil {
		return res, err
	}
	res.product("after the errors", c, a, b)
	return res, nil
}

// manyUploads starts all products, one of them large, before it reads any.
func manyUploads(ctx context.Context, r *Runner, bug Bug, k Kernel) (res Result, err error) {
	type started struct{ c, a, b *gemm.DeviceMatrix }
	var open []*gemm.DeviceMatrix
	defer func() {
		for _, m := range open {
			err = errors.Join(err, m.Close())
		}
	}()
	keep := func(m *gemm.DeviceMatrix, e error) *gemm.DeviceMatrix {
		if e == nil {
			open = append(open, m)
		}
		err = errors.Join(err, e)
		return m
	}
	products := make([]started, bug.Batch)
	for p := range products {
		a, b := operandsOf(bug, p)
		if p == bug.Batch/2 { // 40 MB, of which the product is a part
			tall := gemm.NewMatrix[float32](10<<20/bug.K, bug.K, nil)
			copy(tall.Data, a.Data)
			a = tall
		}
		da, db, dc := keep(r.Engine.Upload(ctx, a)), keep(r.Engine.Upload(ctx, b)), keep(r.Engine.NewMatrix(gemm.F32, bug.M, bug.N))
		if err != nil {
			return res, err
		}
		if err := r.multiply(ctx, dc, da.View(0, 0, bug.M, bug.K), db, k.options()...); err != nil {
			return res, err
		}
		products[p] = started{dc, da, db}
	}
	c := gemm.NewMatrix[float32](bug.M, bug.N, nil)
	for p, s := range products {
		if err := r.Engine.Download(ctx, c, s.c); err != nil {
			return res, err
		}
		a, b := operandsOf(bug, p)
		res.product(fmt.Sprintf("product %d", p), c, a, b)
	}
	return res, nil
}
