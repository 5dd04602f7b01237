// Package gemm multiplies matrices: C = act(alpha A B + beta C + bias).
//
//	dev, _, err := open.Device(ctx, "") // runtime/open: this build's driver
//	engine := gemm.New(dev)             // or gemm.NewCPU()
//	defer engine.Close()
//	err = engine.Multiply(ctx, c, a, b)
//
// A is m x k, B is k x n and C is m x n, each with any row and column stride, or
// batches of these. Elements are binary32, binary16 or bfloat16, summed in
// binary32; or int8, summed exactly in int32. Operands are matrices on the host
// (Matrix) or on the device (DeviceMatrix), in any mixture.
package gemm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	gpu "github.com/wgemm/wgemm/runtime"
)

// An Engine multiplies matrices on one device. It is safe for concurrent use;
// operands of calls that run at the same time must not be written by one of
// them. The caller closes it.
type Engine struct {
	b      backend
	tuning Tuning
}

// A backend is where an engine keeps matrices and computes: a WebGPU device,
// or this process (cpu.go).
type backend interface {
	newBuffer(label string, size int) (gpu.Buffer, error)
	plan(p problem, t Tuning, o options) (Plan, error)
	run(ctx context.Context, p Plan, x operands) error
	elapsed(ctx context.Context, p Plan, x operands) (time.Duration, gpu.Clock, error)
	wait(ctx context.Context) error
	close() error
}

// operands are the matrices of a product in an engine's memory.
type operands struct {
	c, a, b *DeviceMatrix
	bias    *DeviceMatrix // seen as m x n, or nil
}

// New returns an engine on dev, which it owns from then on.
func New(dev gpu.Device) *Engine {
	return &Engine{b: &device{dev: dev, pipelines: gpu.NewPipelines(dev, maxPipelines), uniforms: map[string]gpu.Buffer{}, kept: map[string]gpu.Buffer{}}}
}

// NewCPU returns an engine that computes in this process. It has the same
// interface and the same results up to rounding.
func NewCPU() *Engine { return &Engine{b: &cpu{}} }

// SetTuning makes the engine compute as was measured, where t says how, and the
// device can; t is not copied. The CPU path has nothing to choose. It is not
// called at the same time as another method.
func (e *Engine) SetTuning(t Tuning) { e.tuning = t }

// Close frees the device and all matrices on it. Closing twice is allowed.
func (e *Engine) Close() error { return e.b.close() }

// Multiply computes C = act(alpha A B + beta C + bias): by default, without
// options, C = A B. Each element of A B is a sum over kk of A[i, kk] * B[kk, j]
// in binary32, or what WithAccumulator says; what is added and applied to it is in
// binary32, and the result is rounded once to C's type.
//
// A is m x k, B is k x n, C is m x n. A and B have one element type; C's is the
// same or binary32, and int32 for int8, for which there are no options but
// WithKernel. A batch is multiplied matrix by matrix; an A, B or bias without a
// batch, or with a batch stride of 0, is the same for all.
//
// With beta = 0 C is not read. With alpha = 0 or k = 0 A and B are not read.
// With m, n or the batch = 0 nothing is done. Elements outside the view C are
// not changed. NaN and infinities in A and B propagate. Operands on the host are
// copied to the device for the call; C's slice may be that of A or B, whose old
// values are then used.
//
// Multiply returns when C can be read on the host, or, for a C on the device,
// when the work is queued. It returns a *ShapeError for operands that do not
// fit, a *LimitError for what the device cannot hold, a *wgsl.ParamError for a
// variant that does not exist, and ctx's error when ctx ends first; C is
// unspecified after an error.
func (e *Engine) Multiply(ctx context.Context, c, a, b Operand, opts ...Option) (err error) {
	p, err := e.Plan(c, a, b, opts...)
	if err != nil || p.empty() {
		return err
	}
	var temporary []*DeviceMatrix
	defer func() {
		for _, m := range temporary {
			err = errors.Join(err, m.Close())
		}
	}()
	onDevice := func(m Operand, read bool) (*DeviceMatrix, error) {
		if d, ok := m.(*DeviceMatrix); ok {
			return d, nil
		}
		host := m.(HostMatrix)
		var d *DeviceMatrix
		var err error
		if read {
			d, err = e.Upload(ctx, host)
		} else {
			lay := host.layout()
			d, err = e.NewBatch(host.DType(), lay.batches, lay.rows, lay.cols)
		}
		if err == nil {
			temporary = append(temporary, d)
		}
		return d, err
	}
	o := newOptions(opts)
	da, err := onDevice(a, !p.skipsProduct())
	if err != nil {
		return err
	}
	db, err := onDevice(b, !p.skipsProduct())
	if err != nil {
		return err
	}
	dc, err := onDevice(c, o.beta != 0)
	if err != nil {
		return err
	}
	if o.bias != nil {
		bias, err := onDevice(o.bias, true)
		if err != nil {
			return err
		}
		opts = append(opts[:len(opts):len(opts)], WithBias(bias))
	}
	// Again, since gaps may be gone on the device.
	if p, err = e.Plan(dc, da, db, opts...); err != nil {
		return err
	}
	if err := e.Run(ctx, p, dc, da, db, opts...); err != nil {
		return err
	}
	if host, ok := c.(HostMatrix); ok {
		return e.Download(ctx, host, dc)
	}
	return nil
}

// Plan tells how Multiply would compute this, without doing it. It returns the
// errors that Multiply returns before it starts.
func (e *Engine) Plan(c, a, b Operand, opts ...Option) (Plan, error) {
	o := newOptions(opts)
	p, err := newProblem(e, c, a, b, o)
	if err != nil {
		return Plan{}, err
	}
	if (Plan{problem: p}).empty() {
		return Plan{problem: p}, nil
	}
	return e.b.plan(p, e.tuning, o)
}

// Run queues a product as planned and returns without waiting. The matrices and
// options must be those of the plan, up to the matrices' places in memory; they
// may be closed once Run has returned.
func (e *Engine) Run(ctx context.Context, p Plan, c, a, b *DeviceMatrix, opts ...Option) error {
	x, err := p.operands(e, c, a, b, newOptions(opts))
	if err != nil || p.empty() {
		return err
	}
	return e.b.run(ctx, p, x)
}

// Elapsed does what Run does, waits for it, and returns how long the device
// took and by which clock.
func (e *Engine) Elapsed(ctx context.Context, p Plan, c, a, b *DeviceMatrix, opts ...Option) (time.Duration, gpu.Clock, error) {
	x, err := p.operands(e, c, a, b, newOptions(opts))
	if err != nil || p.empty() {
		return 0, gpu.HostClock, err
	}
	return e.b.elapsed(ctx, p, x)
}

// Wait blocks until all that was queued has ended, or ctx has.
func (e *Engine) Wait(ctx context.Context) error { return e.b.wait(ctx) }

// NewMatrix makes a rows x cols matrix of zeros on the device. The caller
// closes it. It returns a *LimitError if it is too big for the device.
func (e *Engine) NewMatrix(dtype DType, rows, cols int) (*DeviceMatrix, error) {
	return e.NewBatch(dtype, 1, rows, cols)
}

// NewBatch is NewMatrix for a batch of matrices.
func (e *Engine) NewBatch(dtype DType, batch, rows, cols int) (*DeviceMatrix, error) {
	if int(dtype) >= len(dtypes) {
		return nil, &ShapeError{"a new matrix", fmt.Sprintf("has elements of type %d of %d", dtype, len(dtypes))}
	}
	lay := layout{rows: rows, cols: cols, batches: batch}.packed()
	if err := lay.check("a new matrix", maxElements); err != nil {
		return nil, err
	}
	return e.allocate(dtype, lay)
}

// minBuffer is the least that can be bound to every kernel, which may read four
// words at a time.
const minBuffer = 16

// allocate makes memory for a layout, also for an empty one, since a shader
// cannot bind nothing.
func (e *Engine) allocate(dtype DType, lay layout) (*DeviceMatrix, error) {
	label := fmt.Sprintf("matrix of %d x %d %s", lay.rows, lay.cols, dtype)
	buffer, err := e.b.newBuffer(label, max(lay.span()*dtype.Size(), minBuffer))
	if err != nil {
		return nil, err
	}
	return &DeviceMatrix{e, buffer, dtype, lay}, nil
}

// Upload copies a matrix from the host to the device. The caller closes it.
// The copy keeps the strides of m, unless more than half of it would be gaps.
func (e *Engine) Upload(ctx context.Context, m HostMatrix) (*DeviceMatrix, error) {
	if m == nil {
		return nil, &ShapeError{"the matrix to upload", "is nil"}
	}
	lay := m.layout()
	if err := lay.check("the matrix to upload", m.length()); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// In floating point: a matrix with strides of 0 may have more elements than
	// an int can count.
	gaps := float64(lay.span()) > 2*float64(lay.rows)*float64(lay.cols)*float64(lay.batches)
	if gaps {
		lay = lay.packed()
	}
	d, err := e.allocate(m.DType(), lay)
	if err != nil || lay.empty() {
		return d, err
	}
	var data []byte
	if gaps {
		data = make([]byte, lay.span()*m.DType().Size())
		m.pack(data)
	} else {
		data = m.bytes()
	}
	if n := d.buffer.Size() - len(data); n > 0 { // a tiny matrix, whose bytes may not fill words
		data = append(slices.Clone(data), make([]byte, n)...)
	}
	if err := d.buffer.Write(0, data); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Download copies src from the device into dst, of the same shape and type. It
// waits for the work queued so far. Elements outside the view dst are not
// changed. It returns a *ShapeError for a dst that does not fit.
func (e *Engine) Download(ctx context.Context, dst HostMatrix, src *DeviceMatrix) error {
	switch {
	case dst == nil:
		return &ShapeError{"the destination", "is nil"}
	case src == nil:
		return &ShapeError{"the matrix to download", "is nil"}
	case src.engine != e:
		return &ShapeError{"the matrix to download", "is on another engine"}
	}
	to, from := dst.layout(), src.lay
	if to.rows != from.rows || to.cols != from.cols || to.batches != from.batches || dst.DType() != src.dtype {
		return &ShapeError{"the destination", fmt.Sprintf("is %d times %d x %d of %s, the matrix to download %d times %d x %d of %s",
			to.batches, to.rows, to.cols, dst.DType(), from.batches, from.rows, from.cols, src.dtype)}
	}
	if err := checkOutput("the destination", to, dst.length()); err != nil || to.empty() {
		return err
	}
	size := src.dtype.Size()
	if to.dense() && from.dense() {
		return src.buffer.Read(ctx, from.offset*size, dst.bytes())
	}
	memory := make([]byte, from.span()*size)
	if err := src.buffer.Read(ctx, from.offset*size, memory); err != nil {
		return err
	}
	if !from.dense() {
		memory = gather(memory, from, size)
	}
	dst.unpack(memory)
	return nil
}

// gather copies the elements of a layout, whose memory starts with the first,
// into row-major order without gaps.
func gather(memory []byte, lay layout, size int) []byte {
	out := make([]byte, 0, lay.batches*lay.rows*lay.cols*size)
	lay.each(func(place int) {
		at := (place - lay.offset) * size
		out = append(out, memory[at:at+size]...)
	})
	return out
}

// checkOutput returns an error for a layout that cannot be written.
func checkOutput(arg string, lay layout, length int) error {
	if err := lay.check(arg, length); err != nil {
		return err
	}
	if lay.overlaps() {
		return &ShapeError{arg, fmt.Sprintf("has %s: elements would share a place", lay)}
	}
	return nil
}
