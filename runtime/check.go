package runtime

import (
	"fmt"
	"slices"
)

// The checks below are made by every driver before it calls its
// implementation: wgpu-native ends the process on some faults that it finds
// late, at submit, and browsers tell of them only after the call returned.

// CheckBuffer returns an error for a buffer that the device cannot make or
// bind.
func (l Limits) CheckBuffer(label string, size int) error {
	if size <= 0 {
		return fmt.Errorf("%w: buffer %s of %d bytes", ErrInvalid, label, size)
	}
	if s := uint64(size); s > l.MaxBufferSize {
		return &LimitError{label, "maxBufferSize", s, l.MaxBufferSize}
	} else if s > l.MaxStorageBufferBindingSize {
		return &LimitError{label, "maxStorageBufferBindingSize", s, l.MaxStorageBufferBindingSize}
	}
	return nil
}

// CheckShader returns a *LimitError for a shader over the device's limits, and
// an error that wraps ErrUnsupported for one that needs a feature it lacks.
func (a Adapter) CheckShader(s Shader) error {
	for _, f := range s.Features {
		if !slices.Contains(a.Features, f) {
			return fmt.Errorf("%s: %w on this device: it has no %s", s.Label, ErrUnsupported, f)
		}
	}
	return a.Limits.checkShader(s)
}

func (l Limits) checkShader(s Shader) error {
	invocations, storage := uint64(1), uint64(0)
	for _, n := range s.WorkgroupSize {
		if n == 0 {
			return fmt.Errorf("%w: %s has workgroup size %v", ErrInvalid, s.Label, s.WorkgroupSize)
		}
		invocations *= uint64(n)
	}
	for _, b := range s.Bindings {
		if b != Uniform {
			storage++
		}
	}
	for _, c := range []struct {
		limit      string
		need, have uint64
	}{
		{"maxComputeWorkgroupSizeX", uint64(s.WorkgroupSize[0]), uint64(l.MaxComputeWorkgroupSizeX)},
		{"maxComputeWorkgroupSizeY", uint64(s.WorkgroupSize[1]), uint64(l.MaxComputeWorkgroupSizeY)},
		{"maxComputeWorkgroupSizeZ", uint64(s.WorkgroupSize[2]), uint64(l.MaxComputeWorkgroupSizeZ)},
		{"maxComputeInvocationsPerWorkgroup", invocations, uint64(l.MaxComputeInvocationsPerWorkgroup)},
		{"maxComputeWorkgroupStorageSize", uint64(s.WorkgroupBytes), uint64(l.MaxComputeWorkgroupStorageSize)},
		{"maxStorageBuffersPerShaderStage", storage, uint64(l.MaxStorageBuffersPerShaderStage)},
	} {
		if c.need > c.have {
			return &LimitError{s.Label, c.limit, c.need, c.have}
		}
	}
	return nil
}

// CheckDispatch returns an error for a dispatch that does not fit its shader
// or the device. It compares buffers as interface values.
func (l Limits) CheckDispatch(s Shader, d Dispatch) error {
	if len(d.Buffers) != len(s.Bindings) {
		return fmt.Errorf("%w: %s binds %d buffers, got %d", ErrInvalid, s.Label, len(s.Bindings), len(d.Buffers))
	}
	for i, b := range d.Buffers {
		if s.Bindings[i] == Uniform && uint64(b.Size()) > l.MaxUniformBufferBindingSize {
			return &LimitError{s.Label, "maxUniformBufferBindingSize", uint64(b.Size()), l.MaxUniformBufferBindingSize}
		}
		for j, other := range d.Buffers[:i] {
			written := s.Bindings[i] == ReadWrite || s.Bindings[j] == ReadWrite
			if b == other && written {
				return fmt.Errorf("%w: %s writes the buffer of binding %d, which is also binding %d", ErrInvalid, s.Label, j, i)
			}
		}
	}
	for _, n := range d.Workgroups {
		if n > l.MaxComputeWorkgroupsPerDimension {
			return &LimitError{s.Label, "maxComputeWorkgroupsPerDimension", uint64(n), uint64(l.MaxComputeWorkgroupsPerDimension)}
		}
	}
	return nil
}

// CheckWrite returns an error for a write that does not fit a buffer of size
// bytes or is not on words of 4 bytes.
func CheckWrite(size, offset, length int) error {
	if err := CheckRead(size, offset, length); err != nil {
		return err
	}
	if offset%4 != 0 || (length%4 != 0 && offset+length != size) {
		return fmt.Errorf("%w: write of %d bytes at %d is not on words of 4 bytes", ErrInvalid, length, offset)
	}
	return nil
}

// CheckRead returns an error for a read that does not fit a buffer of size
// bytes.
func CheckRead(size, offset, length int) error {
	if offset < 0 || length < 0 || offset > size-length {
		return fmt.Errorf("%w: bytes %d to %d of a buffer of %d", ErrInvalid, offset, offset+length, size)
	}
	return nil
}

// Word rounds a number of bytes up to the next multiple of 4, the unit in
// which WebGPU copies.
func Word(n int) int { return (n + 3) &^ 3 }
