//go:build js

package browser

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall/js"
	"time"

	gpu "github.com/wgemm/wgemm/runtime"
)

// wanted are the features that kernels use, asked for where the adapter has
// them.
var wanted = []string{
	"chromium-experimental-subgroup-matrix",
	"shader-f16",
	"subgroups",
	timestampQuery,
}

const timestampQuery = "timestamp-query"

// Flags of WebGPU, from https://www.w3.org/TR/webgpu/#namespacedef-gpubufferusage
// and the namespaces beside it.
const (
	usageMapRead      = 0x0001
	usageCopySrc      = 0x0004
	usageCopyDst      = 0x0008
	usageUniform      = 0x0040
	usageStorage      = 0x0080
	usageQueryResolve = 0x0200
	mapModeRead       = 0x0001
	stageCompute      = 0x0004
)

// Device is a GPUDevice with its queue.
type Device struct {
	adapter       gpu.Adapter
	device, queue js.Value
	methods       methods

	lost    chan struct{} // closed when the device is gone
	lostWhy string        // set before

	closing sync.Once
	mu      sync.Mutex // guards what follows, what says so elsewhere, and the stack of error scopes
	closed  bool
	late    []error    // faults of submitted work that no call has returned
	buffers uint64     // made so far
	upload  js.Value   // Uint8Array that Write copies through
	spare   readBuffer // for the next Read; its size is 0 if there is none
}

var _ gpu.Device = (*Device)(nil)

// methods are those that each submit or wait calls, as functions: the ones of
// the device bound to it, the ones of GPUComputePassEncoder with the encoder
// as first argument. Calling them so takes a quarter of the time of
// js.Value.Call, which looks a method up by name.
type methods struct {
	setPipeline, setBindGroup, dispatchWorkgroups      js.Value
	pushErrorScope, popErrorScope, onSubmittedWorkDone js.Value
	filters                                            [3]js.Value // of error scopes
}

func newMethods(device js.Value) methods {
	queue := device.Get("queue")
	pass := device.Call("createCommandEncoder").Call("beginComputePass")
	call := js.Global().Get("Function").Get("prototype").Get("call")
	return methods{
		setPipeline:         call.Call("bind", pass.Get("setPipeline")),
		setBindGroup:        call.Call("bind", pass.Get("setBindGroup")),
		dispatchWorkgroups:  call.Call("bind", pass.Get("dispatchWorkgroups")),
		pushErrorScope:      device.Get("pushErrorScope").Call("bind", device),
		popErrorScope:       device.Get("popErrorScope").Call("bind", device),
		onSubmittedWorkDone: queue.Get("onSubmittedWorkDone").Call("bind", queue),
		filters:             [3]js.Value{js.ValueOf("validation"), js.ValueOf("out-of-memory"), js.ValueOf("internal")},
	}
}

func open(ctx context.Context, a adapter) (*Device, error) {
	var features []any
	for _, f := range wanted {
		if slices.Contains(a.described.Features, f) {
			features = append(features, f)
		}
	}
	required := map[string]any{}
	for _, name := range limitNames() {
		required[name] = a.js.Get("limits").Get(name)
	}
	v, err := await(ctx, a.js.Call("requestDevice", map[string]any{
		"requiredFeatures": features,
		"requiredLimits":   required,
	}))
	if err != nil && ctx.Err() == nil {
		v, err = await(ctx, a.js.Call("requestDevice", map[string]any{"requiredFeatures": features}))
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", a.described.Name, err)
	}
	return newDevice(a.described, v), nil
}

// newDevice returns the Device of a GPUDevice and watches it.
func newDevice(a gpu.Adapter, v js.Value) *Device {
	a.Limits, a.Features = limits(v), features(v)
	d := &Device{adapter: a, device: v, queue: v.Get("queue"), methods: newMethods(v), lost: make(chan struct{})}
	// Closing the device settles this promise too, so that nothing is kept.
	var lost js.Func
	lost = js.FuncOf(func(_ js.Value, args []js.Value) any {
		d.lostWhy = args[0].Get("message").String()
		close(d.lost)
		lost.Release()
		return nil
	})
	v.Get("lost").Call("then", lost)
	d.pushScopes()
	return d
}

// Adapter describes the adapter, with the limits and the features that the
// device was granted.
func (d *Device) Adapter() gpu.Adapter { return d.adapter }

// usable returns why the device can do nothing more, or nil. The caller holds
// mu.
func (d *Device) usable() error {
	if d.closed {
		return fmt.Errorf("device: %w", gpu.ErrClosed)
	}
	select {
	case <-d.lost:
		return fmt.Errorf("%w: %s", gpu.ErrDeviceLost, d.lostWhy)
	default:
		return nil
	}
}

// check returns why a call that obeys ctx need not begin, or nil.
func (d *Device) check(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.usable(), ctx.Err())
}

// await parks the goroutine until the promise p of the device settles, ctx ends
// or the device is gone.
func (d *Device) await(ctx context.Context, p js.Value) (js.Value, error) {
	return d.receive(ctx, settle(p))
}

func (d *Device) receive(ctx context.Context, settled <-chan outcome) (js.Value, error) {
	var o outcome
	select {
	case o = <-settled:
	case <-ctx.Done():
		return js.Undefined(), ctx.Err()
	case <-d.lost:
	}
	// A device that is lost fulfills some promises and breaks others.
	select {
	case <-d.lost:
		d.mu.Lock()
		defer d.mu.Unlock()
		return js.Undefined(), d.usable()
	default:
		return o.value, o.err
	}
}

// WebGPU tells of an error to the innermost error scope that was open when the
// call was made. There is one set of scopes around all that the device does,
// which finish closes and opens again, and one within it around each object
// that is made, so that its maker gets the error.

func (d *Device) pushScopes() {
	for _, filter := range d.methods.filters {
		d.methods.pushErrorScope.Invoke(filter)
	}
}

// popScopes returns a promise of what each promise before it gives, and then
// of the first error in each scope, or null.
func (d *Device) popScopes(before ...any) js.Value {
	for range d.methods.filters {
		before = append(before, d.methods.popErrorScope.Invoke())
	}
	return js.Global().Get("Promise").Call("all", before)
}

// scopeErrors returns the errors in what popScopes promised.
func scopeErrors(found js.Value) error {
	var errs []error
	for i := range found.Length() {
		if e := found.Index(i); e.Truthy() {
			errs = append(errs, toError(e))
		}
	}
	return errors.Join(errs...)
}

// scoped calls f, which makes objects, and waits for the implementation's
// verdict on them.
func (d *Device) scoped(ctx context.Context, f func()) error {
	d.mu.Lock()
	d.pushScopes()
	thrown := try(f)
	verdict := d.popScopes()
	d.mu.Unlock()
	found, err := d.await(ctx, verdict)
	if err != nil {
		return err
	}
	return errors.Join(thrown, scopeErrors(found))
}

// finish waits for the promise of something that ends after all submitted
// work and gives no value. It returns the faults of that work, and those that
// a call before left behind since its ctx had ended.
func (d *Device) finish(ctx context.Context, done js.Value) error {
	d.mu.Lock()
	verdict := settle(d.popScopes(done))
	d.pushScopes()
	d.mu.Unlock()
	found, err := d.receive(ctx, verdict)
	if err != nil {
		if errors.Is(err, ctx.Err()) {
			go d.keep(verdict)
		}
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.failures(), scopeErrors(found))
}

// keep leaves the faults of submitted work for the next call.
func (d *Device) keep(verdict <-chan outcome) {
	found, err := d.receive(context.Background(), verdict)
	if err == nil {
		err = scopeErrors(found)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late = append(d.late, err)
}

// failures returns, once, what keep has left. The caller holds mu.
func (d *Device) failures() error {
	err := errors.Join(d.late...)
	d.late = nil
	return err
}

// createBuffer makes a GPUBuffer of size bytes, a multiple of 4.
func (d *Device) createBuffer(ctx context.Context, label string, size, usage int) (js.Value, error) {
	var v js.Value
	err := d.scoped(ctx, func() {
		v = d.device.Call("createBuffer", map[string]any{"label": label, "size": size, "usage": usage})
	})
	if err != nil {
		return js.Undefined(), fmt.Errorf("buffer %s of %d bytes: %w", label, size, err)
	}
	return v, nil
}

// Submit queues the dispatches as one compute pass.
func (d *Device) Submit(ctx context.Context, ds ...gpu.Dispatch) error {
	return d.submit(ctx, ds, nil)
}

// submit queues the dispatches, between the two timestamps of t if it is not
// nil.
func (d *Device) submit(ctx context.Context, ds []gpu.Dispatch, t *timestamps) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := cmp.Or(d.usable(), ctx.Err()); err != nil {
		return err
	}
	if err := d.failures(); err != nil {
		return err
	}
	for _, run := range ds {
		if err := d.checkDispatch(run); err != nil {
			return err
		}
	}
	encoder := d.device.Call("createCommandEncoder")
	var pass js.Value
	if t == nil {
		pass = encoder.Call("beginComputePass")
	} else {
		pass = encoder.Call("beginComputePass", map[string]any{"timestampWrites": map[string]any{
			"querySet": t.set, "beginningOfPassWriteIndex": 0, "endOfPassWriteIndex": 1,
		}})
	}
	var pipeline *Pipeline
	for _, run := range ds {
		if slices.Contains(run.Workgroups[:], 0) {
			continue
		}
		p := run.Pipeline.(*Pipeline)
		if p != pipeline {
			pipeline = p
			d.methods.setPipeline.Invoke(pass, p.pipeline)
		}
		d.methods.setBindGroup.Invoke(pass, 0, p.group(run.Buffers))
		d.methods.dispatchWorkgroups.Invoke(pass, run.Workgroups[0], run.Workgroups[1], run.Workgroups[2])
	}
	pass.Call("end")
	if t != nil {
		encoder.Call("resolveQuerySet", t.set, 0, 2, t.resolved.buffer, 0)
	}
	d.queue.Call("submit", []any{encoder.Call("finish")})
	return nil
}

// checkDispatch returns an error for a dispatch that cannot be encoded. The
// caller holds mu.
func (d *Device) checkDispatch(run gpu.Dispatch) error {
	p, ok := run.Pipeline.(*Pipeline)
	if !ok || p.device != d {
		return fmt.Errorf("%w: the pipeline is not of this device", gpu.ErrInvalid)
	}
	if p.closed {
		return fmt.Errorf("pipeline %s: %w", p.shader.Label, gpu.ErrClosed)
	}
	for i, buffer := range run.Buffers {
		b, ok := buffer.(*Buffer)
		if !ok || b.device != d {
			return fmt.Errorf("%w: %s: buffer %d is not of this device", gpu.ErrInvalid, p.shader.Label, i)
		}
		if b.closed {
			return fmt.Errorf("%s: buffer %s: %w", p.shader.Label, b.label, gpu.ErrClosed)
		}
	}
	return d.adapter.Limits.CheckDispatch(p.shader, run)
}

// Wait waits for all that was submitted.
func (d *Device) Wait(ctx context.Context) error {
	if err := d.check(ctx); err != nil {
		return err
	}
	return d.finish(ctx, d.methods.onSubmittedWorkDone.Invoke())
}

// Elapsed measures with timestamps around the pass, where the device has
// them. Implementations may round these, by up to 0.1 ms: dispatch enough work.
func (d *Device) Elapsed(ctx context.Context, ds ...gpu.Dispatch) (time.Duration, gpu.Clock, error) {
	if err := d.check(ctx); err != nil {
		return 0, "", err
	}
	var t *timestamps
	if slices.Contains(d.adapter.Features, timestampQuery) {
		var err error
		if t, err = d.newTimestamps(ctx); err != nil {
			return 0, "", err
		}
		defer t.destroy()
	}
	start := time.Now()
	if err := d.submit(ctx, ds, t); err != nil {
		return 0, "", err
	}
	if err := d.Wait(ctx); err != nil {
		return 0, "", err
	}
	host := time.Since(start)
	if t != nil {
		var ns [16]byte
		if err := t.resolved.Read(ctx, 0, ns[:]); err != nil {
			return 0, "", err
		}
		// Timestamps may be rounded to the same value, and WebGPU lets them run
		// backwards when the device resets its counter.
		elapsed := time.Duration(binary.LittleEndian.Uint64(ns[8:]) - binary.LittleEndian.Uint64(ns[:]))
		if elapsed > 0 {
			return elapsed, gpu.DeviceClock, nil
		}
	}
	return host, gpu.HostClock, nil
}

// timestamps are the device's clock before and after a pass.
type timestamps struct {
	set      js.Value // GPUQuerySet
	resolved *Buffer  // its two values
}

func (d *Device) newTimestamps(ctx context.Context) (*timestamps, error) {
	const size = 16
	buffer, err := d.createBuffer(ctx, "timestamps", size, usageQueryResolve|usageCopySrc)
	if err != nil {
		return nil, err
	}
	return &timestamps{
		set:      d.device.Call("createQuerySet", map[string]any{"type": "timestamp", "count": 2}),
		resolved: &Buffer{device: d, label: "timestamps", size: size, buffer: buffer},
	}, nil
}

func (t *timestamps) destroy() {
	t.set.Call("destroy")
	t.resolved.Close()
}

// Close waits for queued work and destroys the device, with all that it made.
// It returns the faults of submitted work that no other call returned.
func (d *Device) Close() error {
	var err error
	d.closing.Do(func() {
		d.mu.Lock()
		d.closed = true
		d.mu.Unlock()
		err = d.finish(context.Background(), d.methods.onSubmittedWorkDone.Invoke())
		if errors.Is(err, gpu.ErrClosed) {
			err = nil // lost before, so that there was nothing to wait for
		}
		d.device.Call("destroy")
	})
	return err
}
