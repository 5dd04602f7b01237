//go:build cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64))

package wgpu

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	gpu "github.com/wgemm/wgemm/runtime"
)

const (
	// chunk is the size of the one buffer through which reads pass.
	chunk = 16 << 20
	// maxPending bounds the host memory that queued writes hold: wgpu-native
	// keeps a copy of each until the next submit has ended.
	maxPending = 64 << 20
)

// A device serializes all calls with one lock, also across a wait:
// wgpu-native holds its own locks then in any case.
type device struct {
	adapter  gpu.Adapter
	instance *wgpu.Instance
	dev      *wgpu.Device
	queue    *wgpu.Queue
	errors   errorSink

	doomedMu sync.Mutex
	doomed   []func() // frees what was closed while the device was busy

	mu        sync.Mutex
	closed    bool
	staging   *wgpu.Buffer // of chunk bytes, for reads; made by the first
	pending   int          // bytes written since the last submit
	buffers   map[*buffer]struct{}
	pipelines map[*pipeline]struct{}
}

var _ gpu.Device = (*device)(nil)

// newDevice takes the instance and the device over.
func newDevice(a gpu.Adapter, instance *wgpu.Instance, dev *wgpu.Device) *device {
	a.Limits = limits(dev.GetLimits().Limits)
	return &device{
		adapter:   a,
		instance:  instance,
		dev:       dev,
		queue:     dev.GetQueue(),
		errors:    watch(dev),
		buffers:   map[*buffer]struct{}{},
		pipelines: map[*pipeline]struct{}{},
	}
}

func (d *device) Adapter() gpu.Adapter { return d.adapter }

// lock takes the device for one call. The caller unlocks if err is nil.
func (d *device) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return fmt.Errorf("wgpu: device: %w", gpu.ErrClosed)
	}
	d.freeDoomed()
	return nil
}

// dispose frees something now, or, if another call has the device, at the next:
// closing must not wait for a long dispatch that its caller has given up on.
func (d *device) dispose(free func()) {
	if !d.mu.TryLock() {
		d.doomedMu.Lock()
		d.doomed = append(d.doomed, free)
		d.doomedMu.Unlock()
		return
	}
	defer d.mu.Unlock()
	if !d.closed {
		free()
	}
}

// freeDoomed frees what dispose put off. The device is locked.
func (d *device) freeDoomed() {
	d.doomedMu.Lock()
	defer d.doomedMu.Unlock()
	for _, free := range d.doomed {
		free()
	}
	d.doomed = nil
}

// fault makes a driver's error of one of go-webgpu's, or of one that no call
// returned. Losing the device has no error type of its own in wgpu-native 0.17.
func (d *device) fault(err error) error {
	if err == nil {
		err = d.errors.err()
	}
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "device is lost") {
		return fmt.Errorf("wgpu: %w: %v", gpu.ErrDeviceLost, err)
	}
	return err
}

func (d *device) NewBuffer(label string, size int) (gpu.Buffer, error) {
	if err := d.adapter.Limits.CheckBuffer(label, size); err != nil {
		return nil, err
	}
	if err := d.lock(context.Background()); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	ref, err := d.dev.CreateBuffer(&wgpu.BufferDescriptor{
		Label: label,
		Size:  uint64(gpu.Word(size)),
		Usage: wgpu.BufferUsage_Storage | wgpu.BufferUsage_Uniform | wgpu.BufferUsage_CopyDst | wgpu.BufferUsage_CopySrc,
	})
	if err := d.fault(err); err != nil {
		if ref != nil {
			ref.Release()
		}
		return nil, fmt.Errorf("buffer %s of %d bytes: %w", label, size, err)
	}
	b := &buffer{dev: d, ref: ref, size: size}
	d.buffers[b] = struct{}{}
	return b, nil
}

func (d *device) NewPipeline(ctx context.Context, s gpu.Shader) (gpu.Pipeline, error) {
	if err := d.adapter.CheckShader(s); err != nil {
		return nil, err
	}
	if err := d.lock(ctx); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	module, err := d.dev.CreateShaderModule(&wgpu.ShaderModuleDescriptor{
		Label:          s.Label,
		WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: s.Source},
	})
	if err := d.fault(err); err != nil {
		return nil, shaderError(s.Label, err)
	}
	defer module.Release()
	entries := make([]wgpu.BindGroupLayoutEntry, len(s.Bindings))
	for i, b := range s.Bindings {
		entries[i] = wgpu.BindGroupLayoutEntry{
			Binding:    uint32(i),
			Visibility: wgpu.ShaderStage_Compute,
			Buffer:     wgpu.BufferBindingLayout{Type: bindingTypes[b]},
		}
	}
	group, err := d.dev.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Label: s.Label, Entries: entries})
	if err := d.fault(err); err != nil {
		return nil, shaderError(s.Label, err)
	}
	layout, err := d.dev.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{
		Label:            s.Label,
		BindGroupLayouts: []*wgpu.BindGroupLayout{group},
	})
	if err := d.fault(err); err != nil {
		group.Release()
		return nil, shaderError(s.Label, err)
	}
	defer layout.Release()
	ref, err := d.dev.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{
		Label:   s.Label,
		Layout:  layout,
		Compute: wgpu.ProgrammableStageDescriptor{Module: module, EntryPoint: s.Entry},
	})
	if err := d.fault(err); err != nil {
		group.Release()
		return nil, shaderError(s.Label, err)
	}
	p := &pipeline{dev: d, shader: s, ref: ref, group: group}
	d.pipelines[p] = struct{}{}
	return p, nil
}

var bindingTypes = [...]wgpu.BufferBindingType{
	gpu.Uniform:   wgpu.BufferBindingType_Uniform,
	gpu.ReadOnly:  wgpu.BufferBindingType_ReadOnlyStorage,
	gpu.ReadWrite: wgpu.BufferBindingType_Storage,
}

// nagaLine finds the place in a message of naga, the compiler of wgpu-native:
// "wgsl:3:5" or ":3:5" behind the corner of a box.
var nagaLine = regexp.MustCompile(`(?m)┌─ (?:wgsl)?:(\d+):\d+`)

// nagaPrefix names the shader once more.
var nagaPrefix = regexp.MustCompile(`^Shader '.*' parsing error: `)

// shaderError reads naga's report, a message in several lines with a drawing
// of the place.
func shaderError(label string, err error) error {
	text := err.Error()
	e := &gpu.ShaderError{Label: label, Message: nagaMessage(text)}
	if m := nagaLine.FindStringSubmatch(text); m != nil {
		e.Line, _ = strconv.Atoi(m[1]) // digits, by the expression
	}
	return e
}

// nagaMessage is what is left of a report, in one line, without the drawing,
// the names of the calls and what it says twice.
func nagaMessage(text string) string {
	_, text, _ = strings.Cut(text, "Caused by:")
	message := ""
	for line := range strings.SplitSeq(text, "\n") {
		line = nagaPrefix.ReplaceAllString(strings.TrimSpace(line), "")
		switch {
		case line == "", strings.HasPrefix(line, "In wgpu"), strings.HasPrefix(line, "note: label"),
			strings.ContainsAny(line, "┌│"), strings.HasPrefix(line, "= note:"), strings.HasSuffix(message, line):
		case message == "":
			message = line
		default:
			message += " " + line
		}
	}
	return message
}

// Submit implements gpu.Device.
func (d *device) Submit(ctx context.Context, ds ...gpu.Dispatch) error {
	if err := d.lock(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	return d.submit(ds)
}

// submit checks all dispatches, then queues them. The device is locked.
func (d *device) submit(ds []gpu.Dispatch) error {
	for _, x := range ds {
		if err := d.check(x); err != nil {
			return err
		}
	}
	encoder, err := d.dev.CreateCommandEncoder(nil)
	if err := d.fault(err); err != nil {
		return err
	}
	defer encoder.Release()
	pass := encoder.BeginComputePass(nil)
	for _, x := range ds {
		p := x.Pipeline.(*pipeline)
		entries := make([]wgpu.BindGroupEntry, len(x.Buffers))
		for i, b := range x.Buffers {
			entries[i] = wgpu.BindGroupEntry{Binding: uint32(i), Buffer: b.(*buffer).ref, Size: wgpu.WholeSize}
		}
		group, err := d.dev.CreateBindGroup(&wgpu.BindGroupDescriptor{Layout: p.group, Entries: entries})
		if err := d.fault(err); err != nil {
			pass.Release()
			return fmt.Errorf("%s: %w", p.shader.Label, err)
		}
		pass.SetPipeline(p.ref)
		pass.SetBindGroup(0, group, nil)
		pass.DispatchWorkgroups(x.Workgroups[0], x.Workgroups[1], x.Workgroups[2])
		defer group.Release()
	}
	err = pass.End()
	pass.Release()
	if err := d.fault(err); err != nil {
		return err
	}
	return d.finish(encoder)
}

// check returns an error for a dispatch that wgpu-native would refuse.
func (d *device) check(x gpu.Dispatch) error {
	p, ok := x.Pipeline.(*pipeline)
	if !ok || p.dev != d {
		return fmt.Errorf("wgpu: %w: the pipeline is not of this device", gpu.ErrInvalid)
	}
	if p.closed.Load() {
		return fmt.Errorf("wgpu: pipeline %s: %w", p.shader.Label, gpu.ErrClosed)
	}
	for i, b := range x.Buffers {
		b, ok := b.(*buffer)
		if !ok || b.dev != d {
			return fmt.Errorf("wgpu: %w: buffer %d is not of this device", gpu.ErrInvalid, i)
		}
		if b.closed.Load() {
			return fmt.Errorf("wgpu: buffer %d: %w", i, gpu.ErrClosed)
		}
	}
	return d.adapter.Limits.CheckDispatch(p.shader, x)
}

// finish ends the encoder's commands and submits them.
func (d *device) finish(encoder *wgpu.CommandEncoder) error {
	commands, err := encoder.Finish(nil)
	if err := d.fault(err); err != nil {
		return err
	}
	d.queue.Submit(commands)
	commands.Release()
	d.pending = 0
	return d.fault(nil)
}

// Wait implements gpu.Device.
func (d *device) Wait(ctx context.Context) error {
	return d.blocking(ctx, func() error {
		drain(d.dev)
		return d.fault(nil)
	})
}

// blocking runs f with the device locked and returns its error, or ctx's if
// that ends first; f then goes on by itself.
func (d *device) blocking(ctx context.Context, f func() error) error {
	run := func() error {
		if err := d.lock(ctx); err != nil {
			return err
		}
		defer d.mu.Unlock()
		return f()
	}
	if ctx.Done() == nil {
		return run()
	}
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Elapsed implements gpu.Device. The clock is the host's: wgpu-native 0.17
// does not tell how long a tick of its timestamps is.
func (d *device) Elapsed(ctx context.Context, ds ...gpu.Dispatch) (time.Duration, gpu.Clock, error) {
	var elapsed time.Duration
	err := d.blocking(ctx, func() error {
		drain(d.dev) // earlier work is not measured
		start := time.Now()
		if err := d.submit(ds); err != nil {
			return err
		}
		drain(d.dev)
		elapsed = time.Since(start)
		return d.fault(nil)
	})
	return elapsed, gpu.HostClock, err
}

// Close implements gpu.Device.
func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	drain(d.dev)
	d.freeDoomed()
	for b := range d.buffers {
		b.ref.Release()
	}
	for p := range d.pipelines {
		p.free()
	}
	if d.staging != nil {
		d.staging.Release()
	}
	d.queue.Release()
	d.dev.Release()
	d.instance.Release()
	d.errors.free()
	d.closed = true
	return nil
}
