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
	late    []error             // faults of submitted work that no call has returned
	buffers uint64              // made so far
	layouts map[string]*layout  // by bindings
	groups  map[string]js.Value // by layout and buffers
	upload  js.Value            // Uint8Array that Write copies through
	spare   readBuffer          // for the next Read; its size is 0 if there is none

	batch    gpu.Batch
	gathered []command
	batches  uint64      // begun so far
	doomed   []js.Value  // buffers to destroy when the batch is handed over
	timer    *time.Timer // hands over what lies gathered; made by the first batch that does
	ticking  bool
}

var _ gpu.Device = (*Device)(nil)

// A command is a dispatch that was gathered.
type command struct {
	pipeline, group js.Value
	grid            [3]uint32
}

// methods are those that each batch or wait calls, as functions: the ones of
// the device and its queue bound to it, the ones of encoders with the encoder
// as first argument. Calling them so takes a quarter of the time of
// js.Value.Call, which looks a method up by name.
type methods struct {
	createCommandEncoder, beginComputePass, finish, submit js.Value
	setPipeline, setBindGroup, dispatchWorkgroups, end     js.Value
	pushErrorScope, popErrorScope, onSubmittedWorkDone     js.Value
	all                                                    js.Value    // Promise.all
	filters                                                [3]js.Value // of error scopes
	commands                                               js.Value    // the array of one that submit takes
}

func newMethods(device js.Value) methods {
	queue, promise := device.Get("queue"), js.Global().Get("Promise")
	encoder := device.Call("createCommandEncoder")
	pass := encoder.Call("beginComputePass")
	bound := func(this js.Value, name string) js.Value { return this.Get(name).Call("bind", this) }
	call := js.Global().Get("Function").Get("prototype").Get("call")
	unbound := func(this js.Value, name string) js.Value { return call.Call("bind", this.Get(name)) }
	return methods{
		createCommandEncoder: bound(device, "createCommandEncoder"),
		beginComputePass:     unbound(encoder, "beginComputePass"),
		finish:               unbound(encoder, "finish"),
		submit:               bound(queue, "submit"),
		setPipeline:          unbound(pass, "setPipeline"),
		setBindGroup:         unbound(pass, "setBindGroup"),
		dispatchWorkgroups:   unbound(pass, "dispatchWorkgroups"),
		end:                  unbound(pass, "end"),
		pushErrorScope:       bound(device, "pushErrorScope"),
		popErrorScope:        bound(device, "popErrorScope"),
		onSubmittedWorkDone:  bound(queue, "onSubmittedWorkDone"),
		all:                  bound(promise, "all"),
		filters:              [3]js.Value{js.ValueOf("validation"), js.ValueOf("out-of-memory"), js.ValueOf("internal")},
		commands:             js.Global().Get("Array").New(1),
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
	d := &Device{
		adapter: a, device: v, queue: v.Get("queue"), methods: newMethods(v), lost: make(chan struct{}),
		layouts: map[string]*layout{},
		groups:  map[string]js.Value{},
		batches: 1, // a new buffer is of none
	}
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
	return d.methods.all.Invoke(before)
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
	d.batch.Idle()
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

// Submit gathers the dispatches, and hands them over if they are enough.
func (d *Device) Submit(ctx context.Context, ds ...gpu.Dispatch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	full, err := d.gather(ctx, ds)
	if err != nil {
		return err
	}
	if full {
		d.handOver(nil)
	} else {
		d.tick()
	}
	return nil
}

// gather checks all dispatches, then records them, and tells whether there are
// enough to hand over. The caller holds mu.
func (d *Device) gather(ctx context.Context, ds []gpu.Dispatch) (full bool, err error) {
	if err := cmp.Or(d.usable(), ctx.Err()); err != nil {
		return false, err
	}
	if err := d.failures(); err != nil {
		return false, err
	}
	for i := range ds {
		if err := d.checkDispatch(&ds[i]); err != nil {
			return false, err
		}
	}
	for i := range ds {
		p := ds[i].Pipeline.(*Pipeline)
		d.gathered = append(d.gathered, command{p.pipeline, d.group(p.layout, ds[i].Buffers), ds[i].Workgroups})
		full = d.batch.Add(ds[i]) || full
		for _, b := range ds[i].Buffers {
			b.(*Buffer).batch = d.batches
		}
	}
	return full, nil
}

// handOver submits what is gathered as one compute pass, between the two
// timestamps of t if it is not nil. The caller holds mu.
func (d *Device) handOver(t *timestamps) {
	if len(d.gathered) == 0 && t == nil {
		return
	}
	m := &d.methods
	encoder := m.createCommandEncoder.Invoke()
	var pass js.Value
	if t == nil {
		pass = m.beginComputePass.Invoke(encoder)
	} else {
		pass = m.beginComputePass.Invoke(encoder, map[string]any{"timestampWrites": map[string]any{
			"querySet": t.set, "beginningOfPassWriteIndex": 0, "endOfPassWriteIndex": 1,
		}})
	}
	var last command
	for _, c := range d.gathered {
		if !c.pipeline.Equal(last.pipeline) {
			m.setPipeline.Invoke(pass, c.pipeline)
		}
		if !c.group.Equal(last.group) {
			m.setBindGroup.Invoke(pass, 0, c.group)
		}
		m.dispatchWorkgroups.Invoke(pass, c.grid[0], c.grid[1], c.grid[2])
		last = c
	}
	m.end.Invoke(pass)
	if t != nil {
		encoder.Call("resolveQuerySet", t.set, 0, 2, t.resolved.buffer, 0)
	}
	m.commands.SetIndex(0, m.finish.Invoke(encoder))
	m.submit.Invoke(m.commands)
	clear(d.gathered) // it keeps no pipelines and groups alive
	d.gathered = d.gathered[:0]
	d.batch.Handed()
	d.batches++
	for _, b := range d.doomed {
		b.Call("destroy")
	}
	d.doomed = nil
}

// tick hands over in a while what is gathered, if nothing does before: when
// this process's goroutines let it, which have one thread. The caller holds mu.
func (d *Device) tick() {
	if d.ticking || len(d.gathered) == 0 {
		return
	}
	d.ticking = true
	if d.timer != nil {
		d.timer.Reset(gpu.MaxDelay)
		return
	}
	d.timer = time.AfterFunc(gpu.MaxDelay, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ticking = false
		d.handOver(nil)
	})
}

// checkDispatch returns an error for a dispatch that cannot be encoded. The
// caller holds mu.
func (d *Device) checkDispatch(run *gpu.Dispatch) error {
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
	return d.adapter.Limits.CheckDispatch(p.shader, *run)
}

// Wait waits for all that was submitted.
func (d *Device) Wait(ctx context.Context) error {
	if err := d.check(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.handOver(nil)
	d.mu.Unlock()
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

// submit hands the dispatches over by themselves, between the two timestamps of
// t if it is not nil.
func (d *Device) submit(ctx context.Context, ds []gpu.Dispatch, t *timestamps) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handOver(nil)
	if _, err := d.gather(ctx, ds); err != nil {
		return err
	}
	d.handOver(t)
	return nil
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
		d.handOver(nil)
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
