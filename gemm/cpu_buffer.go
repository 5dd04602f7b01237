package gemm

import (
	"context"
	"fmt"
	"sync/atomic"

	gpu "github.com/wgemm/wgemm/runtime"
)

// A hostBuffer is memory of the CPU path, with the interface of a device's.
type hostBuffer struct {
	data atomic.Pointer[[]byte] // nil once closed
}

var (
	_ gpu.Buffer = (*hostBuffer)(nil)

	errBufferClosed = fmt.Errorf("gemm: matrix: %w", gpu.ErrClosed)
)

func newHostBuffer(data []byte) *hostBuffer {
	b := &hostBuffer{}
	b.data.Store(&data)
	return b
}

func (b *hostBuffer) Size() int {
	if data := b.data.Load(); data != nil {
		return len(*data)
	}
	return 0
}

func (b *hostBuffer) Write(offset int, data []byte) error {
	memory := b.data.Load()
	if memory == nil {
		return errBufferClosed
	}
	if err := gpu.CheckWrite(len(*memory), offset, len(data)); err != nil {
		return err
	}
	copy((*memory)[offset:], data)
	return nil
}

func (b *hostBuffer) Read(ctx context.Context, offset int, dst []byte) error {
	memory := b.data.Load()
	if memory == nil {
		return errBufferClosed
	}
	if err := gpu.CheckRead(len(*memory), offset, len(dst)); err != nil {
		return err
	}
	copy(dst, (*memory)[offset:])
	return ctx.Err()
}

func (b *hostBuffer) Close() error {
	b.data.Store(nil)
	return nil
}
