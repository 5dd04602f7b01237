package gemm

import (
	"context"
	"fmt"
	"math"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/x448/float16"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	gpu "github.com/wgemm/wgemm/runtime"
)

// cpu is the backend in this process: gonum's sgemm, or a kernel of package
// wgsl step by step (cpu_kernels.go) where one is asked for by name.
type cpu struct{}

func (cpu) newBuffer(_ string, size int) (gpu.Buffer, error) {
	if size <= 0 || size > math.MaxInt/2 {
		return nil, fmt.Errorf("gemm: %w: %d bytes", gpu.ErrInvalid, size)
	}
	// Made of floats for their alignment.
	return &hostBuffer{data: asBytes(make([]float32, gpu.Word(size)/4))[:size]}, nil
}

func (cpu) plan(p problem, o options) (Plan, error) {
	if o.kernel == "" && len(o.params) == 0 {
		return Plan{M: p.m, N: p.n, K: p.k, In: p.in, Out: p.out}, nil
	}
	unlimited := gpu.Adapter{
		Type:     gpu.Software,
		Features: []string{"shader-f16"},
		Limits: gpu.Limits{
			MaxStorageBuffersPerShaderStage:   math.MaxUint32,
			MaxComputeWorkgroupStorageSize:    math.MaxUint32,
			MaxComputeInvocationsPerWorkgroup: math.MaxUint32,
			MaxComputeWorkgroupSizeX:          math.MaxUint32,
			MaxComputeWorkgroupSizeY:          math.MaxUint32,
			MaxComputeWorkgroupSizeZ:          math.MaxUint32,
			MaxComputeWorkgroupsPerDimension:  math.MaxUint32,
		},
	}
	return makePlan(p, o, unlimited)
}

func (x cpu) elapsed(ctx context.Context, p Plan, c, a, b *DeviceMatrix) (time.Duration, gpu.Clock, error) {
	start := time.Now()
	err := x.run(ctx, p, c, a, b)
	return time.Since(start), gpu.HostClock, err
}

func (cpu) wait(ctx context.Context) error { return ctx.Err() }

func (cpu) close() error { return nil }

func (cpu) run(ctx context.Context, p Plan, c, a, b *DeviceMatrix) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, m := range []*DeviceMatrix{a, b, c} {
		if m.buffer.(*hostBuffer).data == nil {
			return errBufferClosed
		}
	}
	if p.Variant != nil {
		runKernel(p, c, a, b)
		return nil
	}
	ga, ta := general(a)
	gb, tb := general(b)
	out := blas32.General{Rows: p.M, Cols: p.N, Stride: p.N}
	inPlace := c.dtype == F32 && c.lay.col == 1 && c.lay.row >= c.lay.cols
	if inPlace {
		out.Data, out.Stride = floats(c)[c.lay.offset:], c.lay.row
	} else {
		out.Data = make([]float32, p.M*p.N)
	}
	if p.K == 0 {
		for i := range p.M {
			clear(out.Data[i*out.Stride:][:p.N])
		}
	} else if finite(ga.Data) && finite(gb.Data) {
		blas32.Gemm(ta, tb, 1, ga, gb, 0, out)
	} else {
		plain(out, a, b)
	}
	if !inPlace {
		store := storer(c)
		for i := range p.M {
			for j := range p.N {
				store(i, j, out.Data[i*out.Stride+j])
			}
		}
	}
	return nil
}

// general is m as gonum takes it, transposed or not: in place if its type and
// strides allow, else a copy.
func general(m *DeviceMatrix) (blas32.General, blas.Transpose) {
	l := m.lay
	if m.dtype == F32 && !l.empty() {
		data := floats(m)[l.offset : l.offset+l.span()]
		switch {
		case l.col == 1 && l.row >= l.cols:
			return blas32.General{Rows: l.rows, Cols: l.cols, Stride: l.row, Data: data}, blas.NoTrans
		case l.row == 1 && l.col >= l.rows:
			return blas32.General{Rows: l.cols, Cols: l.rows, Stride: l.col, Data: data}, blas.Trans
		}
	}
	load := loader(m)
	data := make([]float32, l.rows*l.cols)
	for i := range l.rows {
		for j := range l.cols {
			data[i*l.cols+j] = load(i, j)
		}
	}
	return blas32.General{Rows: l.rows, Cols: l.cols, Stride: max(l.cols, 1), Data: data}, blas.NoTrans
}

// finite reports whether gonum may multiply: it skips zeros of A, and with
// them the NaN that 0 times NaN or infinity is.
func finite(data []float32) bool {
	for _, v := range data {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// plain multiplies by the definition.
func plain(out blas32.General, a, b *DeviceMatrix) {
	loadA, loadB := loader(a), loader(b)
	parallelRows(out.Rows, func(i int) {
		for j := range out.Cols {
			var sum float32
			for kk := range a.lay.cols {
				sum += loadA(i, kk) * loadB(kk, j)
			}
			out.Data[i*out.Stride+j] = sum
		}
	})
}

// parallelRows calls f for every row, on all processors.
func parallelRows(rows int, f func(i int)) {
	var wg sync.WaitGroup
	workers := min(rows, goruntime.GOMAXPROCS(0))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < rows; i += workers {
				f(i)
			}
		})
	}
	wg.Wait()
}

func floats(m *DeviceMatrix) []float32 { return asElements[float32](m.buffer.(*hostBuffer).data) }

func halves(m *DeviceMatrix) []float16.Float16 {
	return asElements[float16.Float16](m.buffer.(*hostBuffer).data)
}

// loader returns a function that reads an element of m.
func loader(m *DeviceMatrix) func(i, j int) float32 {
	if m.dtype == F16 {
		data := halves(m)
		return func(i, j int) float32 { return data[m.lay.at(i, j)].Float32() }
	}
	data := floats(m)
	return func(i, j int) float32 { return data[m.lay.at(i, j)] }
}

// storer returns a function that writes an element of m, rounded to its type.
func storer(m *DeviceMatrix) func(i, j int, v float32) {
	if m.dtype == F16 {
		data := halves(m)
		return func(i, j int, v float32) { data[m.lay.at(i, j)] = float16.Fromfloat32(v) }
	}
	data := floats(m)
	return func(i, j int, v float32) { data[m.lay.at(i, j)] = v }
}
