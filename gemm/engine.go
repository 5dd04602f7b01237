// Package gemm multiplies matrices: C = A B.
//
//	dev, _, err := open.Device(ctx, "") // runtime/open: this build's driver
//	engine := gemm.New(dev)             // or gemm.NewCPU()
//	defer engine.Close()
//	err = engine.Multiply(ctx, c, a, b)
//
// A is m x k, B is k x n and C is m x n, with elements of binary32 or binary16
// and any row and column stride; sums are in binary32. Operands are matrices on
// the host (Matrix) or on the device (DeviceMatrix), in any mixture.
package gemm

import (
	"context"
	"errors"
	"fmt"
	"time"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

// An Engine multiplies matrices on one device. It is safe for concurrent use;
// operands of calls that run at the same time must not be written by one of
// them. The caller closes it.
type Engine struct {
	b backend
}

// A backend is where an engine keeps matrices and computes: a WebGPU device,
// or this process (cpu.go).
type backend interface {
	newBuffer(label string, size int) (gpu.Buffer, error)
	plan(p problem, o options) (Plan, error)
	run(ctx context.Context, p Plan, c, a, b *DeviceMatrix) error
	elapsed(ctx context.Context, p Plan, c, a, b *DeviceMatrix) (time.Duration, gpu.Clock, error)
	wait(ctx context.Context) error
	close() error
}

// New returns an engine on dev, which it owns from then on.
func New(dev gpu.Device) *Engine {
	return &Engine{&device{dev: dev, pipelines: gpu.NewPipelines(dev, maxPipelines)}}
}

// NewCPU returns an engine that computes in this process. It has the same
// interface and the same results up to rounding.
func NewCPU() *Engine { return &Engine{cpu{}} }

// Close frees the device and all matrices on it. Closing twice is allowed.
func (e *Engine) Close() error { return e.b.close() }

// An Option changes how a product is computed.
type Option func(*options)

type options struct {
	kernel string
	params wgsl.Params
}

// WithKernel asks for a kernel of package wgsl by name, with values for its
// tunables, in place of the planner's choice. The tunables IN_F16 and OUT_F16
// follow from the operands.
func WithKernel(name string, params wgsl.Params) Option {
	return func(o *options) { o.kernel, o.params = name, params }
}

// Multiply computes C = A B: C[i, j] becomes the sum over kk of
// A[i, kk] * B[kk, j], summed in binary32 and rounded once to C's type.
//
// A is m x k, B is k x n, C is m x n. A and B have one element type; C's is
// the same or binary32. C is not read; with k = 0 it becomes 0, and with m or n
// = 0 nothing is done. Elements outside the view C are not changed. NaN and
// infinities in A and B propagate. Operands on the host are copied to the
// device for the call; C's slice may be that of A or B, whose old values are
// then used.
//
// Multiply returns when C can be read on the host, or, for a C on the device,
// when the work is queued. It returns a *ShapeError for operands that do not
// fit, a *LimitError for what the device cannot hold, a *wgsl.ParamError for a
// variant that does not exist, and ctx's error when ctx ends first; C is
// unspecified after an error.
func (e *Engine) Multiply(ctx context.Context, c, a, b Operand, opts ...Option) error {
	p, err := e.Plan(c, a, b, opts...)
	if err != nil || p.M == 0 || p.N == 0 {
		return err
	}
	da, closeA, err := e.onDevice(ctx, a)
	if err != nil {
		return err
	}
	defer closeA()
	db, closeB, err := e.onDevice(ctx, b)
	if err != nil {
		return err
	}
	defer closeB()
	if dc, ok := c.(*DeviceMatrix); ok {
		return e.Run(ctx, p, dc, da, db)
	}
	dc, err := e.NewMatrix(c.DType(), p.M, p.N)
	if err != nil {
		return err
	}
	defer dc.Close()
	if err := e.Run(ctx, p, dc, da, db); err != nil {
		return err
	}
	return e.Download(ctx, c.(HostMatrix), dc)
}

func (e *Engine) onDevice(ctx context.Context, m Operand) (d *DeviceMatrix, done func() error, err error) {
	switch m := m.(type) {
	case *DeviceMatrix:
		return m, func() error { return nil }, nil
	case HostMatrix:
		if d, err = e.Upload(ctx, m); err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	}
	return nil, nil, fmt.Errorf("gemm: %w: operand of type %T", gpu.ErrInvalid, m)
}

// Plan tells how Multiply would compute C = A B with these operands, without
// doing it. It returns the errors that Multiply returns before it starts.
func (e *Engine) Plan(c, a, b Operand, opts ...Option) (Plan, error) {
	var o options
	for _, set := range opts {
		set(&o)
	}
	p, err := newProblem(e, c, a, b)
	if err != nil {
		return Plan{}, err
	}
	if p.m == 0 || p.n == 0 {
		return Plan{M: p.m, N: p.n, K: p.k}, nil
	}
	return e.b.plan(p, o)
}

// Run queues C = A B as planned and returns without waiting. The matrices must
// have the shapes and types of the plan; they may be closed once Run has
// returned.
func (e *Engine) Run(ctx context.Context, p Plan, c, a, b *DeviceMatrix) error {
	if err := p.fits(e, c, a, b); err != nil {
		return err
	}
	return e.b.run(ctx, p, c, a, b)
}

// Elapsed does what Run does, waits for it, and returns how long the device
// took and by which clock.
func (e *Engine) Elapsed(ctx context.Context, p Plan, c, a, b *DeviceMatrix) (time.Duration, gpu.Clock, error) {
	if err := p.fits(e, c, a, b); err != nil {
		return 0, "", err
	}
	return e.b.elapsed(ctx, p, c, a, b)
}

// Wait blocks until all that was queued has ended, or ctx has.
func (e *Engine) Wait(ctx context.Context) error { return e.b.wait(ctx) }

// NewMatrix makes a rows x cols matrix of zeros on the device. The caller
// closes it. It returns a *LimitError if it is too big for the device.
func (e *Engine) NewMatrix(dtype DType, rows, cols int) (*DeviceMatrix, error) {
	lay := layout{rows: rows, cols: cols, row: cols, col: 1}
	if err := lay.check("a new matrix", maxElements); err != nil {
		return nil, err
	}
	return e.allocate(dtype, lay)
}

// allocate makes memory for a layout; a word for an empty one, since a shader
// cannot bind nothing.
func (e *Engine) allocate(dtype DType, lay layout) (*DeviceMatrix, error) {
	label := fmt.Sprintf("matrix of %d x %d %s", lay.rows, lay.cols, dtype)
	size := lay.span() * dtype.Size()
	if size == 0 {
		size = 4
	}
	buffer, err := e.b.newBuffer(label, size)
	if err != nil {
		return nil, err
	}
	return &DeviceMatrix{e, buffer, dtype, lay}, nil
}

// Upload copies a matrix from the host to the device. The caller closes it.
// The copy keeps the strides of m, unless more than half of it would be gaps.
func (e *Engine) Upload(ctx context.Context, m HostMatrix) (*DeviceMatrix, error) {
	lay := m.layout()
	if err := lay.check("the matrix to upload", m.length()); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	gaps := lay.span() > 2*lay.rows*lay.cols
	if gaps {
		lay.row, lay.col = lay.cols, 1
	}
	d, err := e.allocate(m.DType(), lay)
	if err != nil || lay.empty() {
		return d, err
	}
	data := m.bytes
	if gaps {
		data = func() []byte {
			packed := make([]byte, lay.span()*m.DType().Size())
			m.pack(packed)
			return packed
		}
	}
	if err := d.buffer.Write(0, data()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Download copies src from the device into dst, of the same shape and type. It
// waits for the work queued so far. Elements outside the view dst are not
// changed. It returns a *ShapeError for a dst that does not fit.
func (e *Engine) Download(ctx context.Context, dst HostMatrix, src *DeviceMatrix) error {
	if src.engine != e {
		return &ShapeError{"the matrix to download", "is on another engine"}
	}
	to, from := dst.layout(), src.lay
	if to.rows != from.rows || to.cols != from.cols || dst.DType() != src.dtype {
		return &ShapeError{"the destination", fmt.Sprintf("is %d x %d of %s, the matrix to download %d x %d of %s",
			to.rows, to.cols, dst.DType(), from.rows, from.cols, src.dtype)}
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
	out := make([]byte, 0, lay.rows*lay.cols*size)
	for i := range lay.rows {
		for j := range lay.cols {
			at := (lay.at(i, j) - lay.offset) * size
			out = append(out, memory[at:at+size]...)
		}
	}
	return out
}

// checkOutput returns an error for a layout that cannot be written.
func checkOutput(arg string, lay layout, length int) error {
	if err := lay.check(arg, length); err != nil {
		return err
	}
	if lay.overlaps() {
		return &ShapeError{arg, fmt.Sprintf("has %d rows and %d columns at strides %d and %d: elements would share a place",
			lay.rows, lay.cols, lay.row, lay.col)}
	}
	return nil
}
