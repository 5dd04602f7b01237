package gemm

import (
	"context"
	"fmt"

	gpu "github.com/wgemm/wgemm/runtime"
)

// A hostBuffer is memory of the CPU path, with the interface of a device's.
type hostBuffer struct {
	data []byte // nil once closed
}

var (
	_ gpu.Buffer = (*hostBuffer)(nil)

	errBufferClosed = fmt.Errorf("gemm: matrix: %w", gpu.ErrClosed)
)

func (b *hostBuffer) Size() int { return len(b.data) }

func (b *hostBuffer) Write(offset int, data []byte) error {
	if b.data == nil {
		return errBufferClosed
	}
	if err := gpu.CheckWrite(len(b.data), offset, len(data)); err != nil {
		return err
	}
	copy(b.data[offset:], data)
	return nil
}

func (b *hostBuffer) Read(ctx context.Context, offset int, dst []byte) error {
	if b.data == nil {
		return errBufferClosed
	}
	if err := gpu.CheckRead(len(b.data), offset, len(dst)); err != nil {
		return err
	}
	copy(dst, b.data[offset:])
	return ctx.Err()
}

func (b *hostBuffer) Close() error {
	b.data = nil
	return nil
}
