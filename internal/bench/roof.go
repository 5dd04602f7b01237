package bench

import (
	"context"
	"errors"
	"math"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

// A Roof is what a device can do at best, as probes measured it.
type Roof struct {
	FLOPS          float64 `json:"flops"`            // multiplications and additions of f32 a second
	BytesPerSecond float64 `json:"bytes_per_second"` // read and written, by a copy
}

// At is the most that work of so many operations on so many bytes can reach, in
// operations a second, if each byte is moved once (the roofline model: Williams,
// Waterman and Patterson, doi:10.1145/1498765.1498785). Products whose matrices
// stay in a cache may pass it.
func (r Roof) At(flops, bytes float64) float64 {
	return math.Min(r.FLOPS, r.BytesPerSecond*flops/bytes)
}

const (
	// fmaGroups keep every lane of a large card busy, and a software adapter for
	// a fraction of a second.
	fmaGroups = 1024
	// copyBytes are more than any last-level cache holds, and what a device that
	// grants only WebGPU's defaults can bind.
	copyBytes = 128 << 20
)

// MeasureRoof runs the probes of wgsl/probes.
func MeasureRoof(ctx context.Context, dev gpu.Device) (roof Roof, err error) {
	fma, err := newProbe(ctx, dev, "probes/fma", gpu.ReadWrite)
	if err != nil {
		return roof, err
	}
	defer func() { err = errors.Join(err, fma.close()) }()
	invocations := fmaGroups * int(fma.variant.WorkgroupSize[0])
	if err := fma.bind(invocations * 16); err != nil {
		return roof, err
	}
	cp, err := newProbe(ctx, dev, "probes/copy", gpu.ReadOnly, gpu.ReadWrite)
	if err != nil {
		return roof, err
	}
	defer func() { err = errors.Join(err, cp.close()) }()
	limits := dev.Adapter().Limits
	size := int(min(copyBytes, limits.MaxStorageBufferBindingSize, limits.MaxBufferSize))
	groups := size / 16 / int(cp.variant.WorkgroupSize[0])
	if err := cp.bind(size); err != nil {
		return roof, err
	}
	times, err := Measure(fma.work(ctx, fmaGroups), cp.work(ctx, uint32(groups)))
	if err != nil {
		return roof, err
	}
	flops, _ := fma.variant.Const("FLOPS")
	roof.FLOPS = float64(invocations) * float64(flops) / times[0].Median.Seconds()
	roof.BytesPerSecond = float64(2*16*groups*int(cp.variant.WorkgroupSize[0])) / times[1].Median.Seconds()
	return roof, nil
}

// A probe is a kernel of wgsl/probes with buffers.
type probe struct {
	dev      gpu.Device
	variant  *wgsl.Variant
	pipeline gpu.Pipeline
	bindings []gpu.Binding
	buffers  []gpu.Buffer
}

func newProbe(ctx context.Context, dev gpu.Device, kernel string, bindings ...gpu.Binding) (*probe, error) {
	v, err := wgsl.Specialize(kernel, nil)
	if err != nil {
		return nil, err
	}
	pipeline, err := dev.NewPipeline(ctx, gpu.Shader{
		Label: v.Name, Source: v.Source, Entry: "main", WorkgroupSize: v.WorkgroupSize, Bindings: bindings,
	})
	if err != nil {
		return nil, err
	}
	return &probe{dev: dev, variant: v, pipeline: pipeline, bindings: bindings}, nil
}

// bind makes a buffer of size bytes for each binding.
func (p *probe) bind(size int) error {
	for range p.bindings {
		b, err := p.dev.NewBuffer(p.variant.Name, size)
		if err != nil {
			return err
		}
		p.buffers = append(p.buffers, b)
	}
	return nil
}

func (p *probe) work(ctx context.Context, groups uint32) Work {
	dispatch := gpu.Dispatch{Pipeline: p.pipeline, Buffers: p.buffers, Workgroups: [3]uint32{groups, 1, 1}}
	return Work{
		Queue: func(int) error { return p.dev.Submit(ctx, dispatch) },
		Wait:  func() error { return p.dev.Wait(ctx) },
	}
}

func (p *probe) close() error {
	err := p.pipeline.Close()
	for _, b := range p.buffers {
		err = errors.Join(err, b.Close())
	}
	return err
}
