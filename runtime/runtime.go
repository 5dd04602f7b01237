// Package runtime is the contract between wgemm and a WebGPU implementation:
// what a driver offers, in interfaces and plain data, and which error means
// what. It holds no driver and imports only the standard library.
//
// Import it as gpu, since the standard library has a package runtime too:
//
//	import gpu "github.com/wgemm/wgemm/runtime"
//
// Drivers are sibling packages: runtime/wgpu (wgpu-native, cgo) and
// runtime/browser (navigator.gpu, js/wasm). Package runtime/open picks the one
// of this build. Package runtime/runtimetest holds the suite that each passes.
package runtime

import (
	"context"
	"time"
)

// A Driver gives access to one WebGPU implementation. It is safe for
// concurrent use.
type Driver interface {
	// Name is "wgpu" or "browser".
	Name() string

	// Adapters lists what can be opened, in the implementation's own order.
	// It returns an error that wraps ErrNoAdapter when there is none, and one
	// that wraps ErrUnsupported when the implementation is absent; either says
	// what the user can do about it.
	Adapters(ctx context.Context) ([]Adapter, error)

	// Open opens a device on one of the adapters that Adapters listed, asking
	// for all of the adapter's limits and, if that is refused, for WebGPU's
	// defaults. The caller closes the device.
	Open(ctx context.Context, a Adapter) (Device, error)
}

// A Device runs compute shaders. All its methods are safe for concurrent use.
// After Close every method of the device and of what it made returns an error
// that wraps ErrClosed.
type Device interface {
	// Adapter describes the adapter; its Limits are those that the device was
	// granted.
	Adapter() Adapter

	// NewBuffer makes a zeroed buffer of size bytes, size > 0, which shaders
	// can bind as storage or uniform. It returns a *LimitError if the device
	// cannot hold or bind that many bytes, and an error that wraps
	// ErrOutOfMemory if it has no more memory. The caller closes the buffer.
	NewBuffer(label string, size int) (Buffer, error)

	// NewPipeline compiles a shader. It returns a *LimitError for a shader
	// over the device's limits and a *ShaderError for one that the compiler
	// refuses. The caller closes the pipeline.
	NewPipeline(ctx context.Context, s Shader) (Pipeline, error)

	// Submit queues dispatches and returns without waiting for them. They run
	// in order: each sees the writes of those before it, in this call and in
	// earlier ones. The buffers and pipelines may be closed once Submit has
	// returned.
	//
	// Dispatches of several calls may be gathered and handed to the device
	// together, which happens at the latest after MaxDelay, or when something
	// waits for them. An error that is found only then comes from the next call
	// of Submit, Wait, Elapsed or Read, or from Close; the other dispatches that
	// were handed over with the one at fault may not have run.
	Submit(ctx context.Context, ds ...Dispatch) error

	// Wait blocks until all that was submitted has ended. When ctx ends first,
	// it returns ctx's error and the work goes on.
	Wait(ctx context.Context) error

	// Elapsed submits the dispatches, waits for them, and returns how long the
	// device took and by which clock that was measured.
	Elapsed(ctx context.Context, ds ...Dispatch) (time.Duration, Clock, error)

	// Close waits for queued work and frees the device with everything made
	// from it. It returns the errors of dispatches that no other call returned.
	// Closing twice is allowed.
	Close() error
}

// A Clock tells how a duration was measured.
type Clock string

const (
	DeviceClock Clock = "device" // timestamps that the device wrote before and after
	HostClock   Clock = "host"   // the host's clock, from submit to the end of the wait
)

// A Buffer is a block of device memory.
type Buffer interface {
	// Size is the number of bytes that was asked for.
	Size() int

	// Write queues a copy of data to offset. Later dispatches see it; data may
	// be reused when Write returns. The offset is a multiple of 4; a length
	// that is not must end at the end of the buffer.
	Write(offset int, data []byte) error

	// Read fills dst with the bytes from offset on, as they are after all work
	// submitted so far. It blocks. Offset and length are free.
	Read(ctx context.Context, offset int, dst []byte) error

	// Close frees the memory once queued work no longer needs it. Closing
	// twice is allowed.
	Close() error
}

// A Pipeline is a compiled shader.
type Pipeline interface {
	// Close frees the pipeline once queued work no longer needs it. Closing
	// twice is allowed.
	Close() error
}

// A Shader is a compute shader and what a device must check before it compiles
// it. The facts beside the source come from where the source came from
// (package wgsl), since a driver cannot ask the compiler for them.
type Shader struct {
	Label          string    // the variant's name, for errors
	Source         string    // WGSL
	Entry          string    // name of the entry point
	WorkgroupSize  [3]uint32 // invocations per workgroup in x, y, z
	WorkgroupBytes int       // bytes of workgroup memory
	Features       []string  // that the device must have, by WebGPU's names
	Bindings       []Binding // what group 0 binds at 0, 1, 2, ...
}

// A Binding is how a shader uses one buffer of group 0.
type Binding uint8

const (
	Uniform   Binding = iota // a uniform buffer
	ReadOnly                 // a storage buffer that is read
	ReadWrite                // a storage buffer that is read and written
)

// A Dispatch is one run of a pipeline over a grid of workgroups.
type Dispatch struct {
	Pipeline   Pipeline
	Buffers    []Buffer  // one per binding of the shader, in order
	Workgroups [3]uint32 // x, y, z; one that is 0 makes the dispatch do nothing
}
