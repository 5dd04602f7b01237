package gemm

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	gpu "github.com/wgemm/wgemm/runtime"
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
	uniforms  map[string]gpu.Buffer // by content; used while pipelines.Use runs
}

// uniform is a buffer with this content, which is made once: making one costs
// more than a small product. When there are too many, all go.
func (d *device) uniform(content []byte) (gpu.Buffer, error) {
	if b, ok := d.uniforms[string(content)]; ok {
		return b, nil
	}
	if len(d.uniforms) >= maxUniforms {
		for _, b := range d.uniforms {
			if err := b.Close(); err != nil {
				return nil, err
			}
		}
		clear(d.uniforms)
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

func (d *device) newBuffer(label string, size int) (gpu.Buffer, error) {
	return d.dev.NewBuffer(label, size)
}

func (d *device) plan(p problem, o options) (Plan, error) {
	return makePlan(p, o, d.dev.Adapter())
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

// dispatch calls f with the dispatches of a product: one, or several where the
// batch is longer than a grid may be.
func (d *device) dispatch(ctx context.Context, p Plan, x operands, f func([]gpu.Dispatch) error) error {
	if p.Variant == nil {
		return &ShapeError{"the plan", "is one of the CPU path"}
	}
	bias := x.bias
	if bias == nil {
		bias = x.a // something must be bound; it is not read
	}
	most := int(d.dev.Adapter().Limits.MaxComputeWorkgroupsPerDimension)
	err := d.pipelines.Use(ctx, shader(p.Variant), func(pipeline gpu.Pipeline) error {
		ds := make([]gpu.Dispatch, 0, ceilDiv(p.Batch, most))
		for first := 0; first < p.Batch; first += most {
			uniform, err := d.uniform(shapeUniform(p, x, first))
			if err != nil {
				return err
			}
			grid := p.Grid
			grid[2] = uint32(min(p.Batch-first, most))
			ds = append(ds, gpu.Dispatch{
				Pipeline:   pipeline,
				Buffers:    []gpu.Buffer{uniform, x.a.buffer, x.b.buffer, x.c.buffer, bias.buffer},
				Workgroups: grid,
			})
		}
		return f(ds)
	})
	if se, ok := errors.AsType[*gpu.ShaderError](err); ok {
		se.Line = p.Variant.FileLine(se.Line) // of the kernel's file, not of the specialized text
	}
	return err
}

// shapeWords is the length of the struct Shape.
const shapeWords = 21

// shapeUniform is the struct Shape of wgsl/parts/operands.wgsl, for the matrices
// of the batch from first on: words in the order of its members.
func shapeUniform(p Plan, x operands, first int) []byte {
	k := p.K
	if p.skipsProduct() {
		k = 0
	}
	var words [shapeWords]uint32
	put := words[:0]
	put = append(put, uint32(p.M), uint32(p.N), uint32(k))
	for _, m := range [...]*DeviceMatrix{x.a, x.b, x.c, x.bias} {
		var l layout
		if m != nil {
			l = m.lay
		}
		put = append(put, uint32(l.offset+first*l.batch), uint32(l.row), uint32(l.col), uint32(l.batch))
	}
	put = append(put, math.Float32bits(p.Alpha), math.Float32bits(p.Beta))
	data := make([]byte, 0, 4*len(put))
	for _, w := range put {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	return data
}

func (d *device) wait(ctx context.Context) error { return d.dev.Wait(ctx) }

func (d *device) close() error { return errors.Join(d.pipelines.Close(), d.dev.Close()) }
