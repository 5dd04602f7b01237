//go:build cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64))

package wgpu

import (
	"context"
	"errors"
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

	turn      chan struct{} // holds a token while a call has the device and what follows
	closed    bool
	late      error        // of dispatches handed over, for the next Submit or wait
	staging   *wgpu.Buffer // of chunk bytes, for reads; made by the first
	written   int          // bytes since the last submission
	made      uint64       // buffers so far
	buffers   map[*buffer]struct{}
	pipelines map[*pipeline]struct{}
	layouts   map[string]*layout // by bindings
	groups    groups

	batch    gpu.Batch
	gathered []command
	batches  uint64      // begun so far
	timer    *time.Timer // hands over what lies gathered; made by the first batch that does
	ticking  bool
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
		turn:      make(chan struct{}, 1),
		batches:   1, // a new buffer is of none
		buffers:   map[*buffer]struct{}{},
		pipelines: map[*pipeline]struct{}{},
		layouts:   map[string]*layout{},
		groups:    groups{byKey: map[string]*group{}},
	}
}

func (d *device) Adapter() gpu.Adapter { return d.adapter }

// lock takes the device for one call. The caller unlocks if err is nil.
func (d *device) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.closed {
		d.unlock()
		return fmt.Errorf("wgpu: device: %w", gpu.ErrClosed)
	}
	d.freeDoomed()
	return nil
}

func (d *device) unlock() { <-d.turn }

// dispose frees something now, or, if another call has the device, at the next:
// closing must not wait for a long dispatch that its caller has given up on.
func (d *device) dispose(free func()) {
	select {
	case d.turn <- struct{}{}:
		defer d.unlock()
		if !d.closed {
			d.free(free)
		}
	default:
		d.doom(free)
	}
}

// free frees something once no gathered dispatch uses it: the device looks up
// what a batch uses when it is handed over. The device is locked.
func (d *device) free(free func()) {
	if len(d.gathered) == 0 {
		free()
	} else {
		d.doom(free)
	}
}

func (d *device) doom(free func()) {
	d.doomedMu.Lock()
	defer d.doomedMu.Unlock()
	d.doomed = append(d.doomed, free)
}

// freeDoomed frees what was put off, unless dispatches are gathered. The device
// is locked.
func (d *device) freeDoomed() {
	if len(d.gathered) > 0 {
		return
	}
	d.doomedMu.Lock()
	doomed := d.doomed
	d.doomed = nil
	d.doomedMu.Unlock()
	for _, free := range doomed {
		free()
	}
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
	defer d.unlock()
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
	d.made++
	b := &buffer{dev: d, id: d.made, ref: ref, size: size, groups: map[*group]struct{}{}}
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
	defer d.unlock()
	module, err := d.dev.CreateShaderModule(&wgpu.ShaderModuleDescriptor{
		Label:          s.Label,
		WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: s.Source},
	})
	if err := d.fault(err); err != nil {
		return nil, shaderError(s.Label, err)
	}
	defer module.Release()
	l, err := d.layout(s.Bindings)
	if err != nil {
		return nil, shaderError(s.Label, err)
	}
	ref, err := d.dev.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{
		Label:   s.Label,
		Layout:  l.pipeline,
		Compute: wgpu.ProgrammableStageDescriptor{Module: module, EntryPoint: s.Entry},
	})
	if err := d.fault(err); err != nil {
		return nil, shaderError(s.Label, err)
	}
	p := &pipeline{dev: d, shader: s, ref: ref, layout: l}
	d.pipelines[p] = struct{}{}
	return p, nil
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
	defer d.unlock()
	if err := d.failure(); err != nil {
		return err
	}
	full, err := d.gather(ds)
	if err != nil {
		return err
	}
	if full {
		d.handOver()
		return d.failure()
	}
	d.tick()
	return nil
}

// gather checks all dispatches, then records them, and tells whether there are
// enough to hand over. The device is locked.
func (d *device) gather(ds []gpu.Dispatch) (full bool, err error) {
	for i := range ds {
		if err := d.check(&ds[i]); err != nil {
			return false, err
		}
	}
	before := len(d.gathered)
	for i := range ds {
		p := ds[i].Pipeline.(*pipeline)
		g, err := d.group(p.layout, ds[i].Buffers)
		if err != nil {
			d.gathered = d.gathered[:before]
			return false, fmt.Errorf("%s: %w", p.shader.Label, err)
		}
		d.gathered = append(d.gathered, newCommand(p.ref, g.ref, ds[i].Workgroups))
	}
	for i := range ds {
		full = d.batch.Add(ds[i]) || full
		for _, b := range ds[i].Buffers {
			b.(*buffer).batch = d.batches
		}
	}
	return full, nil
}

// handOver submits what is gathered. Its error is for failure. The device is
// locked.
func (d *device) handOver() {
	if len(d.gathered) == 0 {
		return
	}
	d.keep(d.fault(nil))
	submit(d.dev, d.queue, d.errors, d.gathered)
	d.keep(d.fault(nil))
	d.gathered = d.gathered[:0]
	d.batch.Handed()
	d.batches++
	d.written = 0
	d.freeDoomed()
}

// tick hands over in a while what is gathered, if nothing does before. The
// device is locked.
func (d *device) tick() {
	if d.ticking || len(d.gathered) == 0 {
		return
	}
	d.ticking = true
	if d.timer != nil {
		d.timer.Reset(gpu.MaxDelay)
		return
	}
	d.timer = time.AfterFunc(gpu.MaxDelay, func() {
		if d.lock(context.Background()) != nil {
			return // closed
		}
		defer d.unlock()
		d.ticking = false
		d.handOver()
	})
}

// keep leaves an error for failure.
func (d *device) keep(err error) { d.late = errors.Join(d.late, err) }

// failure returns, once, what went wrong with dispatches after they were
// gathered.
func (d *device) failure() error {
	err := d.late
	d.late = nil
	return err
}

// check returns an error for a dispatch that wgpu-native would refuse.
func (d *device) check(x *gpu.Dispatch) error {
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
	return d.adapter.Limits.CheckDispatch(p.shader, *x)
}

// finish ends the encoder's commands and submits them.
func (d *device) finish(encoder *wgpu.CommandEncoder) error {
	commands, err := encoder.Finish(nil)
	if err := d.fault(err); err != nil {
		return err
	}
	d.queue.Submit(commands)
	commands.Release()
	d.written = 0
	return d.fault(nil)
}

// Wait implements gpu.Device.
func (d *device) Wait(ctx context.Context) error {
	if err := d.lock(ctx); err != nil {
		return err
	}
	defer d.unlock()
	return d.wait(ctx)
}

// wait hands over what is gathered and waits until all is done. The device is
// locked.
func (d *device) wait(ctx context.Context) error {
	d.handOver()
	if err := drain(ctx, d.dev); err != nil {
		return err
	}
	d.batch.Idle()
	d.keep(d.fault(nil))
	return d.failure()
}

// Elapsed implements gpu.Device. The clock is the host's: wgpu-native 0.17
// does not tell how long a tick of its timestamps is.
func (d *device) Elapsed(ctx context.Context, ds ...gpu.Dispatch) (time.Duration, gpu.Clock, error) {
	if err := d.lock(ctx); err != nil {
		return 0, "", err
	}
	defer d.unlock()
	if err := d.wait(ctx); err != nil { // earlier work is not measured
		return 0, "", err
	}
	start := time.Now()
	if _, err := d.gather(ds); err != nil {
		return 0, "", err
	}
	if err := d.wait(ctx); err != nil {
		return 0, "", err
	}
	return time.Since(start), gpu.HostClock, nil
}

// Close implements gpu.Device. It returns what went wrong with dispatches that
// no other call returned.
func (d *device) Close() error {
	d.turn <- struct{}{}
	defer d.unlock()
	if d.closed {
		return nil
	}
	err := d.wait(context.Background())
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
	d.freeDoomed()
	for _, g := range d.groups.byKey {
		d.drop(g)
	}
	for b := range d.buffers {
		b.ref.Release()
	}
	for p := range d.pipelines {
		p.ref.Release()
	}
	for _, l := range d.layouts {
		l.free()
	}
	if d.staging != nil {
		d.staging.Release()
	}
	d.queue.Release()
	d.dev.Release()
	d.instance.Release()
	d.errors.free()
	return err
}
