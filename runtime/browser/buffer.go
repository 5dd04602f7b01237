//go:build js

package browser

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"syscall/js"

	gpu "github.com/wgemm/wgemm/runtime"
)

const (
	// uploadBytes is how much Write copies at a time: the part of the data that
	// is in JavaScript's memory beside Go's. Up to 8 MiB, more was no faster.
	uploadBytes = 1 << 20
	// spareBytes is the largest buffer that is kept for the next Read.
	spareBytes = 64 << 20
)

// Buffer is a GPUBuffer of whole words; the bytes after its size stay zero.
type Buffer struct {
	device *Device
	id     uint64
	label  string
	size   int
	buffer js.Value
	// Guarded by device.mu:
	batch  uint64 // the last one that binds it
	closed bool
}

var _ gpu.Buffer = (*Buffer)(nil)

// NewBuffer makes a buffer.
func (d *Device) NewBuffer(label string, size int) (gpu.Buffer, error) {
	ctx := context.Background()
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	if err := d.adapter.Limits.CheckBuffer(label, size); err != nil {
		return nil, err
	}
	v, err := d.createBuffer(ctx, label, gpu.Word(size), usageStorage|usageUniform|usageCopySrc|usageCopyDst)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.buffers++
	return &Buffer{device: d, id: d.buffers, label: label, size: size, buffer: v}, nil
}

// Size is the number of bytes that was asked for.
func (b *Buffer) Size() int { return b.size }

// usable returns why the buffer can do nothing more, or nil. The caller holds
// device.mu.
func (b *Buffer) usable() error {
	if err := b.device.usable(); err != nil {
		return err
	}
	if b.closed {
		return fmt.Errorf("buffer %s: %w", b.label, gpu.ErrClosed)
	}
	return nil
}

// Write queues a copy of data.
func (b *Buffer) Write(offset int, data []byte) error {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := b.usable(); err != nil {
		return err
	}
	if err := gpu.CheckWrite(b.size, offset, len(data)); err != nil {
		return err
	}
	if b.batch == d.batches {
		d.handOver(nil) // what is written comes before all that is submitted later
	}
	if d.upload.IsUndefined() {
		d.upload = js.Global().Get("Uint8Array").New(uploadBytes)
	}
	for len(data) > 0 {
		n := js.CopyBytesToJS(d.upload, data)
		if n != gpu.Word(n) {
			d.upload.Call("fill", 0, n, gpu.Word(n))
		}
		d.queue.Call("writeBuffer", b.buffer, offset, d.upload, 0, gpu.Word(n))
		offset += n
		data = data[n:]
	}
	return nil
}

// Read fills dst. It copies to a buffer that can be mapped, all at once, so
// that no work submitted meanwhile comes between.
func (b *Buffer) Read(ctx context.Context, offset int, dst []byte) error {
	d := b.device
	if err := b.check(ctx); err != nil {
		return err
	}
	if err := gpu.CheckRead(b.size, offset, len(dst)); err != nil {
		return err
	}
	if len(dst) == 0 {
		return d.Wait(ctx)
	}
	from := offset &^ 3
	size := gpu.Word(offset+len(dst)) - from
	r, err := d.takeReadBuffer(ctx, size)
	if err != nil {
		return err
	}
	mapped, err := b.copyTo(r, from, size)
	if err == nil {
		err = d.finish(ctx, mapped)
	}
	if err == nil {
		err = try(func() {
			bytes := r.buffer.Call("getMappedRange", 0, size)
			js.CopyBytesToGo(dst, js.Global().Get("Uint8Array").New(bytes, offset-from, len(dst)))
		})
	}
	if err != nil {
		go func() { // a call that was canceled left it to be mapped: destroyed before, that would be a fault
			if !mapped.IsUndefined() {
				<-settle(mapped)
			}
			r.buffer.Call("destroy")
		}()
		return fmt.Errorf("read of buffer %s: %w", b.label, err)
	}
	r.buffer.Call("unmap")
	d.keepReadBuffer(r)
	return nil
}

// check returns why a call that obeys ctx need not begin, or nil.
func (b *Buffer) check(ctx context.Context) error {
	b.device.mu.Lock()
	defer b.device.mu.Unlock()
	return cmp.Or(b.usable(), ctx.Err())
}

// copyTo queues a copy of size bytes to r and returns the promise to map them.
func (b *Buffer) copyTo(r readBuffer, offset, size int) (js.Value, error) {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := b.usable(); err != nil {
		return js.Undefined(), err
	}
	d.handOver(nil)
	encoder := d.device.Call("createCommandEncoder")
	encoder.Call("copyBufferToBuffer", b.buffer, offset, r.buffer, 0, size)
	d.queue.Call("submit", []any{encoder.Call("finish")})
	return r.buffer.Call("mapAsync", mapModeRead, 0, size), nil
}

// Close destroys the buffer, which submitted work outlives, but not what is only
// gathered.
func (b *Buffer) Close() error {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case b.closed:
	case b.batch == d.batches:
		d.doomed = append(d.doomed, b.buffer)
	default:
		b.buffer.Call("destroy")
	}
	b.closed = true
	return nil
}

// readBuffer is a buffer that the host can map.
type readBuffer struct {
	buffer js.Value
	size   int
}

// takeReadBuffer returns the spare buffer if it holds size bytes, or else a
// new one.
func (d *Device) takeReadBuffer(ctx context.Context, size int) (readBuffer, error) {
	d.mu.Lock()
	if d.spare.size >= size {
		r := d.spare
		d.spare = readBuffer{}
		d.mu.Unlock()
		return r, nil
	}
	d.mu.Unlock()
	if size <= spareBytes {
		// Reads of about this size are likely to come again.
		size = 1 << bits.Len(uint(size-1))
	}
	v, err := d.createBuffer(ctx, "read", size, usageMapRead|usageCopyDst)
	return readBuffer{v, size}, err
}

// keepReadBuffer makes r the spare buffer if it is the largest so far that may
// be, and destroys the other.
func (d *Device) keepReadBuffer(r readBuffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.size <= spareBytes && r.size > d.spare.size {
		r, d.spare = d.spare, r
	}
	if r.size > 0 {
		r.buffer.Call("destroy")
	}
}
