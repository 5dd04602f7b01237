package gemm

import gpu "github.com/wgemm/wgemm/runtime"

// A ShapeError reports an argument that does not fit: the call is wrong,
// whatever the device.
type ShapeError struct {
	Arg    string // "A", "B", "C", or what else is wrong, as a message's subject
	Reason string
}

func (e *ShapeError) Error() string { return "gemm: " + e.Arg + " " + e.Reason }

// A LimitError reports a call that this device cannot carry out: the limit,
// what was needed and what the device has.
type LimitError = gpu.LimitError
