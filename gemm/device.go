package gemm

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	gpu "github.com/wgemm/wgemm/runtime"
)

// maxPipelines bounds the compiled variants that an engine keeps.
const maxPipelines = 64

// device is the backend on a WebGPU device.
type device struct {
	dev       gpu.Device
	pipelines *gpu.Pipelines
}

func (d *device) newBuffer(label string, size int) (gpu.Buffer, error) {
	return d.dev.NewBuffer(label, size)
}

func (d *device) plan(p problem, o options) (Plan, error) {
	return makePlan(p, o, d.dev.Adapter())
}

func (d *device) run(ctx context.Context, p Plan, c, a, b *DeviceMatrix) error {
	return d.dispatch(ctx, p, c, a, b, func(x gpu.Dispatch) error { return d.dev.Submit(ctx, x) })
}

func (d *device) elapsed(ctx context.Context, p Plan, c, a, b *DeviceMatrix) (took time.Duration, clock gpu.Clock, err error) {
	err = d.dispatch(ctx, p, c, a, b, func(x gpu.Dispatch) (err error) {
		took, clock, err = d.dev.Elapsed(ctx, x)
		return err
	})
	return took, clock, err
}

// dispatch calls f with the dispatch of a product.
func (d *device) dispatch(ctx context.Context, p Plan, c, a, b *DeviceMatrix, f func(gpu.Dispatch) error) error {
	args := shapeUniform(c, a, b)
	uniform, err := d.dev.NewBuffer("shape", len(args))
	if err != nil {
		return err
	}
	defer uniform.Close()
	if err := uniform.Write(0, args); err != nil {
		return err
	}
	err = d.pipelines.Use(ctx, shader(p.Variant), func(pipeline gpu.Pipeline) error {
		return f(gpu.Dispatch{
			Pipeline:   pipeline,
			Buffers:    []gpu.Buffer{uniform, a.buffer, b.buffer, c.buffer},
			Workgroups: p.Grid,
		})
	})
	if se, ok := errors.AsType[*gpu.ShaderError](err); ok {
		se.Line = p.Variant.FileLine(se.Line) // of the kernel's file, not of the specialized text
	}
	return err
}

// shapeUniform is the struct Shape of wgsl/parts/operands.wgsl: words in the
// order of its members.
func shapeUniform(c, a, b *DeviceMatrix) []byte {
	words := []int{c.lay.rows, c.lay.cols, a.lay.cols}
	for _, l := range []layout{a.lay, b.lay, c.lay} {
		words = append(words, l.offset, l.row, l.col)
	}
	data := make([]byte, 0, 4*len(words))
	for _, w := range words {
		data = binary.LittleEndian.AppendUint32(data, uint32(w))
	}
	return data
}

func (d *device) wait(ctx context.Context) error { return d.dev.Wait(ctx) }

func (d *device) close() error { return errors.Join(d.pipelines.Close(), d.dev.Close()) }
