package runtime

import (
	"errors"
	"fmt"
)

// Every driver returns these for the same faults; test with errors.Is.
var (
	// ErrNoAdapter: the implementation is there, but has nothing to run on.
	ErrNoAdapter = errors.New("no adapter")
	// ErrUnsupported: this build or this environment has no such driver.
	ErrUnsupported = errors.New("not supported")
	// ErrDeviceLost: the device is gone; open another.
	ErrDeviceLost = errors.New("device lost")
	// ErrOutOfMemory: the device has no memory left for a buffer.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrClosed: the device, buffer or pipeline was closed before.
	ErrClosed = errors.New("closed")
	// ErrInvalid: the call itself is wrong, whatever the device.
	ErrInvalid = errors.New("invalid call")
)

// A LimitError reports a request over one of the device's limits.
type LimitError struct {
	What  string // what asked for it: a variant, a buffer
	Limit string // the limit's name in WebGPU
	Need  uint64 // what was asked for, in the limit's unit
	Have  uint64 // what the device grants
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: over the device's limit %s: needs %d, has %d", e.What, e.Limit, e.Need, e.Have)
}

// A ShaderError reports a shader that the compiler refused.
type ShaderError struct {
	Label   string // the variant
	Line    int    // in the source given to the driver, from 1; 0 if unknown
	Message string // the compiler's
}

func (e *ShaderError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: the shader compiler says: %s", e.Label, e.Message)
	}
	return fmt.Sprintf("%s:%d: the shader compiler says: %s", e.Label, e.Line, e.Message)
}
