package gemm

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

const (
	// maxPipelines bounds the compiled variants that an engine keeps.
	maxPipelines = 64
	// maxUniforms bounds the uniforms that it keeps, one for each problem and
	// place of the matrices.
	maxUniforms = 256
)

// device is the backend on a WebGPU device.
type device struct {
	dev       gpu.Device
	pipelines *gpu.Pipelines
	// Used while pipelines.Use runs:
	uniforms map[string]gpu.Buffer // by content
	kept     map[string]gpu.Buffer // scratch, by label
}

// uniform is a buffer with this content, which is made once: making one costs
// more than a small product.
func (d *device) uniform(content []byte) (gpu.Buffer, error) {
	if b, ok := d.uniforms[string(content)]; ok {
		return b, nil
	}
	b, err := d.dev.NewBuffer("shape", len(content))
	if err != nil {
		return nil, err
	}
	if err := b.Write(0, content); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	d.uniforms[string(content)] = b
	return b, nil
}

// boundUniforms closes all uniforms when there are many. It comes before a
// product, all of whose uniforms must be open when it is submitted.
func (d *device) boundUniforms() error {
	if len(d.uniforms) < maxUniforms {
		return nil
	}
	for _, b := range d.uniforms {
		if err := b.Close(); err != nil {
			return err
		}
	}
	clear(d.uniforms)
	return nil
}

func (d *device) newBuffer(label string, size int) (gpu.Buffer, error) {
	return d.dev.NewBuffer(label, size)
}

func (d *device) plan(p problem, t Tuning, o options) (Plan, error) {
	return makePlan(p, t, o, d.dev.Adapter())
}

func (d *device) run(ctx context.Context, p Plan, x operands) error {
	return d.dispatch(ctx, p, x, func(ds []gpu.Dispatch) error { return d.dev.Submit(ctx, ds...) })
}

func (d *device) elapsed(ctx context.Context, p Plan, x operands) (took time.Duration, clock gpu.Clock, err error) {
	err = d.dispatch(ctx, p, x, func(ds []gpu.Dispatch) (err error) {
		took, clock, err = d.dev.Elapsed(ctx, ds...)
		return err
	})
	return took, clock, err
}

// dispatch calls f with the dispatches of a product: one or, with parts of K to
// add up, two for as much of the batch as a grid can hold.
func (d *device) dispatch(ctx context.Context, p Plan, x operands, f func([]gpu.Dispatch) error) error {
	if p.Variant == nil {
		return &ShapeError{"the plan", "is one of the CPU path"}
	}
	most := p.batches(d.dev.Adapter().Limits)
	err := d.pipelines.Use(ctx, func(pipelines ...gpu.Pipeline) error {
		if err := d.boundUniforms(); err != nil {
			return err
		}
		ds := make([]gpu.Dispatch, 0, ceilDiv(p.Batch, most)*len(pipelines))
		for first := 0; first < p.Batch; first += most {
			var err error
			if ds, err = d.appendPasses(ds, p, x.from(first), min(p.Batch-first, most), pipelines); err != nil {
				return err
			}
		}
		return f(ds)
	}, p.shaders...)
	if se, ok := errors.AsType[*gpu.ShaderError](err); ok {
		for _, v := range p.variants() {
			if se.Label == v.Name {
				se.Line = v.FileLine(se.Line) // of the kernel's file, not of the specialized text
				break
			}
		}
	}
	return err
}

// appendPasses appends the dispatches for the first count matrices of the batch.
func (d *device) appendPasses(ds []gpu.Dispatch, p Plan, x operands, count int, pipelines []gpu.Pipeline) (_ []gpu.Dispatch, err error) {
	if p.Transposed {
		x = x.transposed()
	}
	q := p.computed()
	k := uint32(q.K)
	if q.skipsProduct() {
		k = 0
	}
	if p.packA != nil {
		if ds, x.a, err = d.appendPack(ds, p.packA, pipelines[0], x.a, "A", count); err != nil {
			return nil, err
		}
		pipelines = pipelines[1:]
	}
	if p.packB != nil {
		var packed *DeviceMatrix
		if ds, packed, err = d.appendPack(ds, p.packB, pipelines[0], x.b.Transposed(), "B", count); err != nil {
			return nil, err
		}
		x.b = packed.Transposed()
		pipelines = pipelines[1:]
	}
	last := pass{
		m: uint32(p.inner[0]), n: uint32(p.inner[1]), k: k, alpha: q.Alpha, beta: q.Beta, splits: 1, depth: uint32(p.depth),
		grid: [3]uint32{p.Grid[0], p.Grid[1], uint32(count)},
	}
	if p.Reduce == nil {
		if ds, err = d.appendPass(ds, pipelines[0], last, x); err != nil {
			return nil, err
		}
		pipelines = pipelines[1:]
		for _, e := range p.edges {
			if ds, err = d.appendPasses(ds, e.Plan, x.part(e.row, e.col), count, pipelines); err != nil {
				return nil, err
			}
			pipelines = pipelines[len(e.shaders):]
		}
		return ds, nil
	}
	sums := &DeviceMatrix{dtype: F32, lay: layout{rows: q.M, cols: q.N, batches: count * p.Splits}.packed()}
	if sums.buffer, err = d.scratch("parts of K"+p.of, 4*sums.lay.span()); err != nil {
		return nil, err
	}
	first := last
	first.alpha, first.beta, first.splits = 1, 0, uint32(p.Splits)
	first.grid[2] *= first.splits
	if ds, err = d.appendPass(ds, pipelines[0], first, operands{c: sums, a: x.a, b: x.b}); err != nil {
		return nil, err
	}
	last.k = uint32(p.Splits)
	last.grid = [3]uint32{p.reduceGrid[0], p.reduceGrid[1], uint32(count)}
	return d.appendPass(ds, pipelines[1], last, operands{c: x.c, a: sums, b: x.b, bias: x.bias})
}

// appendPack appends the pass that copies m with its rows side by side, each column
// padded to a multiple of 4; the copy is returned.
func (d *device) appendPack(ds []gpu.Dispatch, v *wgsl.Variant, pipeline gpu.Pipeline, m *DeviceMatrix, name string, count int) (_ []gpu.Dispatch, _ *DeviceMatrix, err error) {
	if m.lay.batches == 1 {
		count = 1 // for all
	}
	padded := ceilDiv(m.lay.rows, 4) * 4
	copied := &DeviceMatrix{dtype: m.dtype, lay: layout{
		rows: m.lay.rows, cols: m.lay.cols, batches: count,
		row: 1, col: padded, batch: m.lay.cols * padded,
	}}
	if copied.buffer, err = d.scratch("packed "+name, m.dtype.Size()*count*copied.lay.batch); err != nil {
		return nil, nil, err
	}
	if count == 1 {
		copied.lay.batch = 0
	}
	s := pass{m: uint32(m.lay.rows), k: uint32(m.lay.cols)}
	// Its rows are kk, its columns the rows of m.
	if s.grid, err = grid(v, problem{M: m.lay.cols, N: m.lay.rows, Batch: count}, d.dev.Adapter()); err != nil {
		return nil, nil, err
	}
	ds, err = d.appendPass(ds, pipeline, s, operands{a: m, b: m, c: copied.Transposed()})
	return ds, copied, err
}

func (d *device) appendPass(ds []gpu.Dispatch, pipeline gpu.Pipeline, s pass, x operands) ([]gpu.Dispatch, error) {
	uniform, err := d.uniform(s.uniform(x))
	if err != nil {
		return nil, err
	}
	bias := x.bias
	if bias == nil {
		bias = x.b // something must be bound; it is not read
	}
	return append(ds, gpu.Dispatch{
		Pipeline:   pipeline,
		Buffers:    []gpu.Buffer{uniform, x.a.buffer, x.b.buffer, x.c.buffer, bias.buffer},
		Workgroups: s.grid,
	}), nil
}

// scratch is memory of a product, kept for the next: its work is queued behind
// this one's.
func (d *device) scratch(label string, size int) (gpu.Buffer, error) {
	kept := d.kept[label]
	if kept != nil && kept.Size() >= size {
		return kept, nil
	}
	if kept != nil {
		delete(d.kept, label)
		if err := kept.Close(); err != nil {
			return nil, err
		}
	}
	b, err := d.dev.NewBuffer(label, max(size, minBuffer))
	if err == nil {
		d.kept[label] = b
	}
	return b, err
}

// A pass is what the struct Shape of wgsl/parts/operands.wgsl holds beside the
// matrices, and the grid.
type pass struct {
	m, n, k       uint32
	alpha, beta   float32
	splits, depth uint32
	grid          [3]uint32
}

// uniform is the struct Shape: words in the order of its members.
func (s pass) uniform(x operands) []byte {
	data := make([]byte, 0, 4*23)
	word := func(words ...uint32) {
		for _, w := range words {
			data = binary.LittleEndian.AppendUint32(data, w)
		}
	}
	word(s.m, s.n, s.k)
	for _, m := range []*DeviceMatrix{x.a, x.b, x.c, x.bias} {
		var l layout
		if m != nil {
			l = m.lay
		}
		word(uint32(l.offset), uint32(l.row), uint32(l.col), uint32(l.batch))
	}
	word(math.Float32bits(s.alpha), math.Float32bits(s.beta), s.splits, s.depth)
	return data
}

// from are the operands from a matrix of the batch on.
func (x operands) from(first int) operands {
	if first == 0 {
		return x
	}
	return x.each(func(l layout) layout {
		l.offset += first * l.batch
		return l
	})
}

// part are the operands of the part of C from a row and column on.
func (x operands) part(row, col int) operands {
	move := func(m *DeviceMatrix, row, col int) *DeviceMatrix {
		if m == nil {
			return nil
		}
		moved := *m
		moved.lay.offset += row*m.lay.row + col*m.lay.col
		return &moved
	}
	return operands{c: move(x.c, row, col), a: move(x.a, row, 0), b: move(x.b, 0, col), bias: move(x.bias, row, col)}
}

// transposed are the operands of C' = B' A'.
func (x operands) transposed() operands {
	x = x.each(layout.transposed)
	x.a, x.b = x.b, x.a
	return x
}

// each are the operands with f of their layouts.
func (x operands) each(f func(layout) layout) operands {
	views := [4]*DeviceMatrix{x.a, x.b, x.c, x.bias}
	copies := new([4]DeviceMatrix)
	for i, m := range views {
		if m != nil {
			copies[i] = *m
			copies[i].lay = f(m.lay)
			views[i] = &copies[i]
		}
	}
	return operands{a: views[0], b: views[1], c: views[2], bias: views[3]}
}

func (d *device) wait(ctx context.Context) error { return d.dev.Wait(ctx) }

func (d *device) close() error { return errors.Join(d.pipelines.Close(), d.dev.Close()) }
