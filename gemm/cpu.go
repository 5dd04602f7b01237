package gemm

import (
	"context"
	"fmt"
	"math"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x448/float16"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	gpu "github.com/wgemm/wgemm/runtime"
)

// cpu is the backend in this process: gonum's sgemm, or a kernel of package
// wgsl step by step (cpu_kernels.go) where one is asked for by name.
type cpu struct{ closed atomic.Bool }

// open returns an error after close, as a device does.
func (x *cpu) open(ctx context.Context) error {
	if x.closed.Load() {
		return fmt.Errorf("gemm: engine: %w", gpu.ErrClosed)
	}
	return ctx.Err()
}

func (x *cpu) newBuffer(_ string, size int) (gpu.Buffer, error) {
	if err := x.open(context.Background()); err != nil {
		return nil, err
	}
	if size <= 0 || size > math.MaxInt/2 {
		return nil, fmt.Errorf("gemm: %w: %d bytes", gpu.ErrInvalid, size)
	}
	// Made of floats for their alignment.
	return newHostBuffer(asBytes(make([]float32, gpu.Word(size)/4))[:size]), nil
}

func (*cpu) plan(p problem, _ Tuning, o options) (Plan, error) {
	if o.choice.Kernel == "" && len(o.choice.Params) == 0 {
		return Plan{problem: p}, nil
	}
	unlimited := gpu.Adapter{
		Type:     gpu.Software,
		Features: []string{"shader-f16"},
		Limits: gpu.Limits{
			MaxBufferSize:                     math.MaxUint64,
			MaxStorageBufferBindingSize:       math.MaxUint64,
			MaxStorageBuffersPerShaderStage:   math.MaxUint32,
			MaxComputeWorkgroupStorageSize:    math.MaxUint32,
			MaxComputeInvocationsPerWorkgroup: math.MaxUint32,
			MaxComputeWorkgroupSizeX:          math.MaxUint32,
			MaxComputeWorkgroupSizeY:          math.MaxUint32,
			MaxComputeWorkgroupSizeZ:          math.MaxUint32,
			MaxComputeWorkgroupsPerDimension:  math.MaxUint32,
		},
	}
	return makePlan(p, nil, o, unlimited)
}

func (x *cpu) elapsed(ctx context.Context, p Plan, ops operands) (time.Duration, gpu.Clock, error) {
	start := time.Now()
	err := x.run(ctx, p, ops)
	return time.Since(start), gpu.HostClock, err
}

func (x *cpu) wait(ctx context.Context) error { return x.open(ctx) }

func (x *cpu) close() error {
	x.closed.Store(true)
	return nil
}

func (x *cpu) run(ctx context.Context, p Plan, ops operands) error {
	for _, m := range []**DeviceMatrix{&ops.a, &ops.b, &ops.c, &ops.bias} {
		if *m == nil {
			continue
		}
		pinned := **m
		data := pinned.buffer.(*hostBuffer).data.Load()
		if data == nil {
			return errBufferClosed
		}
		pinned.buffer = newHostBuffer(*data) // stays if the matrix is closed meanwhile
		*m = &pinned
	}
	for batch := range p.Batch {
		if err := x.open(ctx); err != nil {
			return err
		}
		one := operands{c: ops.c.one(batch), a: ops.a.one(batch), b: ops.b.one(batch)}
		if ops.bias != nil {
			one.bias = ops.bias.one(batch)
		}
		switch {
		case p.In == I8:
			multiplyInt8(p, one)
		case p.Acc == AccF32x2, p.Variant != nil && p.Variant.Kernel == compensated:
			multiplyFloat64(p, one)
		case p.Variant != nil:
			runKernel(p, one)
		default:
			multiplyFloat(p, one)
		}
	}
	return nil
}

// one is matrix p of the batch m.
func (m *DeviceMatrix) one(p int) *DeviceMatrix {
	v := *m
	v.lay.offset = m.lay.at(p, 0, 0)
	v.lay.batches, v.lay.batch = 1, 0
	return &v
}

// panelElements bounds the sums of a panel, the rows of C that are computed at a
// time: what this path holds beside the matrices is a few MiB, whatever their size,
// and a panel is still work for many processors.
const panelElements = 1 << 20

func panelRows(p Plan) int { return min(p.M, max(panelElements/p.N, 64)) }

// multiplyFloat computes one product with gonum, or by the definition.
func multiplyFloat(p Plan, x operands) {
	c := x.c.lay
	asIs := p.Out == F32 && p.Alpha == 1 && p.Beta == 0 && !p.Bias && p.Act == None && c.col == 1 && c.row >= c.cols
	rows := panelRows(p)
	product, finish := floatProduct(p, x, rows), finisher(p, x)
	out := blas32.General{Cols: p.N, Stride: p.N}
	if asIs {
		out.Stride = c.row
	} else {
		out.Data = make([]float32, rows*p.N)
	}
	for i0 := 0; i0 < p.M; i0 += rows {
		out.Rows = min(rows, p.M-i0)
		if asIs {
			out.Data = floats(x.c)[c.at(0, i0, 0):]
		}
		product(out, i0)
		if asIs {
			continue
		}
		parallelRows(out.Rows, func(i int) {
			for j, v := range out.Data[i*p.N:][:p.N] {
				finish(i0+i, j, v)
			}
		})
	}
}

// floatProduct returns a function that fills out, of at most so many rows, with the
// rows of A B from i0 on.
func floatProduct(p Plan, x operands, rows int) func(out blas32.General, i0 int) {
	if p.skipsProduct() {
		return func(out blas32.General, _ int) {
			for i := range out.Rows {
				clear(out.Data[i*out.Stride:][:p.N])
			}
		}
	}
	a, ta := general(x.a)
	b, tb := general(x.b)
	if !finite(a.Data) || !finite(b.Data) {
		return func(out blas32.General, i0 int) { plain(out, x.a.View(i0, 0, out.Rows, p.K), x.b) }
	}
	var slice []float32
	if p.K > cpuSlice {
		slice = make([]float32, rows*p.N)
	}
	return func(out blas32.General, i0 int) {
		sgemm(out, part(a, ta == blas.Trans, i0, i0+out.Rows), b, ta, tb, p.K, slice)
	}
}

// multiplyFloat64 computes one product by the definition in float64, in which
// products of binary32 are exact, and rounds each sum once. It is what this path
// has for sums in pairs of binary32, and never less exact: the error of an element
// is at most 2^-24 |AB| + gamma(k) (|A| |B|) with a gamma of u = 2^-53.
func multiplyFloat64(p Plan, x operands) {
	k, rows := p.K, panelRows(p)
	if p.skipsProduct() {
		k = 0
	}
	loadA, loadB, finish := loader(x.a), loader(x.b), finisher(p, x)
	b := make([]float64, min(k, cpuSlice)*p.N) // a slice of B
	sums := make([]float64, rows*p.N)
	for i0 := 0; i0 < p.M; i0 += rows {
		count := min(rows, p.M-i0)
		clear(sums)
		for k0 := 0; k0 < k; k0 += cpuSlice {
			depth := min(cpuSlice, k-k0)
			parallelRows(depth, func(kk int) {
				for j := range p.N {
					b[kk*p.N+j] = float64(loadB(k0+kk, j))
				}
			})
			parallelRows(count, func(i int) {
				sum := sums[i*p.N:][:p.N]
				for kk := range depth {
					value := float64(loadA(i0+i, k0+kk))
					for j, v := range b[kk*p.N:][:p.N] {
						sum[j] += value * v
					}
				}
			})
		}
		parallelRows(count, func(i int) {
			for j, v := range sums[i*p.N:][:p.N] {
				finish(i0+i, j, float32(v))
			}
		})
	}
}

// cpuSlice is the depth of the slices of K on this path. Each is summed by itself
// before it is added, so rounding grows with cpuSlice + k / cpuSlice and not with
// k: the blocked summation of Higham, Accuracy and Stability of Numerical
// Algorithms, 2nd edition, section 4.2. At this depth adding the slices up costs
// about 2 %, and the bound is the least where k is near 2^18.
const cpuSlice = 512

// sgemm computes C = op(A) op(B) with gonum, K in slices, the sums of each but the
// first in memory of the size of C.
func sgemm(c, a, b blas32.General, ta, tb blas.Transpose, k int, memory []float32) {
	multiply := func(out blas32.General, k0 int) {
		k1 := min(k0+cpuSlice, k)
		blas32.Gemm(ta, tb, 1, part(a, ta == blas.NoTrans, k0, k1), part(b, tb == blas.Trans, k0, k1), 0, out)
	}
	multiply(c, 0)
	slice := blas32.General{Rows: c.Rows, Cols: c.Cols, Stride: c.Cols, Data: memory}
	for k0 := cpuSlice; k0 < k; k0 += cpuSlice {
		multiply(slice, k0)
		for i := range c.Rows {
			sum := c.Data[i*c.Stride:][:c.Cols]
			for j, v := range slice.Data[i*c.Cols:][:c.Cols] {
				sum[j] += v
			}
		}
	}
}

// part is the columns of a matrix, or its rows, from one to another.
func part(m blas32.General, columns bool, from, to int) blas32.General {
	if columns {
		m.Cols, m.Data = to-from, m.Data[from:]
	} else {
		m.Rows, m.Data = to-from, m.Data[from*m.Stride:]
	}
	return m
}

// finisher returns a function that stores act(alpha sum + beta C + bias).
func finisher(p Plan, x operands) func(i, j int, sum float32) {
	old, store := loader(x.c), storer(x.c)
	bias := func(_, _ int) float32 { return 0 }
	if x.bias != nil {
		bias = loader(x.bias)
	}
	return func(i, j int, sum float32) {
		value := p.Alpha * sum
		if p.Beta != 0 {
			value += p.Beta * old(i, j)
		}
		if x.bias != nil {
			value += bias(i, j)
		}
		if p.Act != None {
			value = float32(p.Act.Of(float64(value)))
		}
		store(i, j, value)
	}
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

// plain multiplies by the definition, K in slices.
func plain(out blas32.General, a, b *DeviceMatrix) {
	loadA, loadB, k := loader(a), loader(b), a.lay.cols
	parallelRows(out.Rows, func(i int) {
		for j := range out.Cols {
			var sum float32
			for k0 := 0; k0 < k; k0 += cpuSlice {
				var slice float32
				for kk := k0; kk < min(k0+cpuSlice, k); kk++ {
					slice += loadA(i, kk) * loadB(kk, j)
				}
				sum += slice
			}
			out.Data[i*out.Stride+j] = sum
		}
	})
}

// multiplyInt8 computes one product of int8 by the definition. Sums wrap around
// at 32 bits, as they do on a device.
func multiplyInt8(p Plan, x operands) {
	a, b, c := elements[int8](x.a), elements[int8](x.b), elements[int32](x.c)
	parallelRows(p.M, func(i int) {
		for j := range p.N {
			var sum int32
			for kk := range p.K {
				sum += int32(a[x.a.lay.at(0, i, kk)]) * int32(b[x.b.lay.at(0, kk, j)])
			}
			c[x.c.lay.at(0, i, j)] = sum
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

func elements[T Element](m *DeviceMatrix) []T {
	return asElements[T](*m.buffer.(*hostBuffer).data.Load())
}

func floats(m *DeviceMatrix) []float32 { return elements[float32](m) }

// loader returns a function that reads an element of m.
func loader(m *DeviceMatrix) func(i, j int) float32 {
	switch m.dtype {
	case F16:
		data := elements[float16.Float16](m)
		return func(i, j int) float32 { return data[m.lay.at(0, i, j)].Float32() }
	case BF16:
		data := elements[BFloat16](m)
		return func(i, j int) float32 { return data[m.lay.at(0, i, j)].Float32() }
	}
	data := floats(m)
	return func(i, j int) float32 { return data[m.lay.at(0, i, j)] }
}

// storer returns a function that writes an element of m, rounded to its type.
func storer(m *DeviceMatrix) func(i, j int, v float32) {
	switch m.dtype {
	case F16:
		data := elements[float16.Float16](m)
		return func(i, j int, v float32) { data[m.lay.at(0, i, j)] = float16.Fromfloat32(v) }
	case BF16:
		data := elements[BFloat16](m)
		return func(i, j int, v float32) { data[m.lay.at(0, i, j)] = ToBFloat16(v) }
	}
	data := floats(m)
	return func(i, j int, v float32) { data[m.lay.at(0, i, j)] = v }
}
