//go:build cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64))

package wgpu

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	gpu "github.com/wgemm/wgemm/runtime"
)

type buffer struct {
	dev    *device
	id     uint64
	ref    *wgpu.Buffer // of gpu.Word(size) bytes
	size   int
	groups map[*group]struct{} // in dev.groups, that bind it
	batch  uint64              // the last one that binds it
	closed atomic.Bool
}

var _ gpu.Buffer = (*buffer)(nil)

func (b *buffer) Size() int { return b.size }

// lock takes the buffer's device for one call. The caller unlocks if err is
// nil.
func (b *buffer) lock(ctx context.Context) error {
	if err := b.dev.lock(ctx); err != nil {
		return err
	}
	if b.closed.Load() {
		b.dev.unlock()
		return fmt.Errorf("wgpu: buffer: %w", gpu.ErrClosed)
	}
	return nil
}

// Write implements gpu.Buffer.
func (b *buffer) Write(offset int, data []byte) error {
	if err := gpu.CheckWrite(b.size, offset, len(data)); err != nil {
		return err
	}
	if err := b.lock(context.Background()); err != nil {
		return err
	}
	defer b.dev.unlock()
	if b.batch == b.dev.batches {
		b.dev.handOver() // what is written comes before all that is submitted later
	}
	whole := len(data) &^ 3
	for start := 0; start < whole; start += chunk {
		if err := b.write(offset+start, data[start:min(start+chunk, whole)]); err != nil {
			return err
		}
	}
	if whole == len(data) {
		return nil
	}
	var last [4]byte
	copy(last[:], data[whole:])
	return b.write(offset+whole, last[:])
}

// write queues whole words. It waits for the device now and then, to bound the
// copies that wgpu-native holds.
func (b *buffer) write(offset int, words []byte) error {
	d := b.dev
	if err := d.fault(d.queue.WriteBuffer(b.ref, uint64(offset), words)); err != nil {
		return err
	}
	if d.written += len(words); d.written >= maxPending {
		d.queue.Submit()
		d.written = 0
		return drain(context.Background(), d.dev)
	}
	return nil
}

// Read implements gpu.Buffer.
func (b *buffer) Read(ctx context.Context, offset int, dst []byte) error {
	if err := gpu.CheckRead(b.size, offset, len(dst)); err != nil {
		return err
	}
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.dev.unlock()
	if len(dst) == 0 {
		return b.dev.wait(ctx)
	}
	b.dev.handOver()
	if err := b.dev.failure(); err != nil {
		return err
	}
	for len(dst) > 0 {
		n, err := b.readChunk(ctx, offset, dst)
		if err != nil {
			return err
		}
		offset, dst = offset+n, dst[n:]
	}
	return nil
}

// readChunk copies what passes through the staging buffer at once and returns
// how much that was.
func (b *buffer) readChunk(ctx context.Context, offset int, dst []byte) (int, error) {
	d := b.dev
	if d.staging == nil {
		staging, err := d.dev.CreateBuffer(&wgpu.BufferDescriptor{
			Label: "read-back",
			Size:  chunk,
			Usage: wgpu.BufferUsage_MapRead | wgpu.BufferUsage_CopyDst,
		})
		if err := d.fault(err); err != nil {
			return 0, fmt.Errorf("read-back buffer: %w", err)
		}
		d.staging = staging
	}
	skip := offset % 4 // copies are of whole words
	n := min(len(dst), chunk-skip)
	size := gpu.Word(skip + n)
	encoder, err := d.dev.CreateCommandEncoder(nil)
	if err := d.fault(err); err != nil {
		return 0, err
	}
	defer encoder.Release()
	err = encoder.CopyBufferToBuffer(b.ref, uint64(offset-skip), d.staging, 0, uint64(size))
	if err := d.fault(err); err != nil {
		return 0, err
	}
	if err := d.finish(encoder); err != nil {
		return 0, err
	}
	// The wait can be given up, and mapping cannot.
	if err := drain(ctx, d.dev); err != nil {
		return 0, err
	}
	d.batch.Idle()
	if err := mapRead(d.staging, size); err != nil {
		return 0, d.fault(err)
	}
	copy(dst[:n], d.staging.GetMappedRange(0, uint(size))[skip:])
	return n, d.fault(d.staging.Unmap())
}

// Close implements gpu.Buffer.
func (b *buffer) Close() error {
	if b.closed.CompareAndSwap(false, true) {
		b.dev.dispose(func() {
			delete(b.dev.buffers, b)
			for g := range b.groups {
				b.dev.drop(g)
			}
			b.ref.Release()
		})
	}
	return nil
}

type pipeline struct {
	dev    *device
	shader gpu.Shader
	ref    *wgpu.ComputePipeline
	layout *layout
	closed atomic.Bool
}

var _ gpu.Pipeline = (*pipeline)(nil)

// Close implements gpu.Pipeline.
func (p *pipeline) Close() error {
	if p.closed.CompareAndSwap(false, true) {
		p.dev.dispose(func() {
			delete(p.dev.pipelines, p)
			p.ref.Release()
		})
	}
	return nil
}
