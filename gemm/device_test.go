package gemm

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	gpu "github.com/wgemm/wgemm/runtime"
)

// A countingDevice computes nothing; it counts what is open on it.
type countingDevice struct {
	open atomic.Int64
	fail error // of Submit
}

type counted struct {
	dev    *countingDevice
	size   int
	closed bool
}

func (d *countingDevice) Adapter() gpu.Adapter { return gpu.Adapter{Limits: gpu.DefaultLimits()} }

func (d *countingDevice) NewBuffer(_ string, size int) (gpu.Buffer, error) {
	d.open.Add(1)
	return &counted{dev: d, size: size}, nil
}

func (d *countingDevice) NewPipeline(context.Context, gpu.Shader) (gpu.Pipeline, error) {
	d.open.Add(1)
	return &counted{dev: d}, nil
}

func (d *countingDevice) Submit(context.Context, ...gpu.Dispatch) error { return d.fail }
func (d *countingDevice) Wait(context.Context) error                    { return nil }
func (d *countingDevice) Close() error                                  { return nil }

func (d *countingDevice) Elapsed(context.Context, ...gpu.Dispatch) (time.Duration, gpu.Clock, error) {
	return 0, gpu.HostClock, d.fail
}

func (c *counted) Size() int                               { return c.size }
func (c *counted) Write(int, []byte) error                 { return nil }
func (c *counted) Read(context.Context, int, []byte) error { return nil }

func (c *counted) Close() error {
	if !c.closed {
		c.closed = true
		c.dev.open.Add(-1)
	}
	return nil
}

// A product leaves nothing open on the device but its pipeline and its uniform,
// of which there is a bound, also when it fails.
func TestMultiplyClosesWhatItMakes(t *testing.T) {
	t.Parallel()
	for _, fail := range []error{nil, errors.New("no")} {
		dev := &countingDevice{fail: fail}
		e := New(dev)
		m := NewMatrix[float32](4, 4, nil)
		for range 3 {
			err := e.Multiply(t.Context(), m, m, m, WithBias(m), WithBeta(1))
			if !errors.Is(err, fail) {
				t.Errorf("%v, want %v", err, fail)
			}
		}
		if open := dev.open.Load(); open != 2 {
			t.Errorf("%d buffers and pipelines are open, want 1 pipeline and 1 uniform", open)
		}
		for i := range 3 * maxUniforms { // all different
			if err := e.Multiply(t.Context(), m, m, m, WithAlpha(float32(i+2))); !errors.Is(err, fail) {
				t.Errorf("%v, want %v", err, fail)
			}
		}
		if open := dev.open.Load(); open > 1+maxUniforms {
			t.Errorf("%d buffers and pipelines are open, want at most %d uniforms", open, maxUniforms)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Wrong use gets an error, not a panic.
func TestWrongUse(t *testing.T) {
	t.Parallel()
	onDevice, onCPU := New(&countingDevice{}), NewCPU()
	m := NewMatrix[float32](2, 2, nil)
	plan, err := onCPU.Plan(m, m, m)
	if err != nil {
		t.Fatal(err)
	}
	d, err := onDevice.NewMatrix(F32, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	other, err := onDevice.NewMatrix(F32, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	many := Matrix[float32]{Data: make([]float32, 1), Rows: 1 << 31, Cols: 1 << 31}
	_, uploadNil := onCPU.Upload(t.Context(), nil)
	_, dtype := onCPU.NewMatrix(DType(77), 2, 2)
	for name, err := range map[string]error{
		"a CPU plan on a device": onDevice.Run(t.Context(), plan, d, other, other),
		"an empty plan":          onDevice.Run(t.Context(), Plan{}, d, other, other),
		"upload nothing":         uploadNil,
		"download nothing":       onCPU.Download(t.Context(), m, nil),
		"download to nothing":    onDevice.Download(t.Context(), nil, d),
		"no such type":           dtype,
	} {
		if _, ok := errors.AsType[*ShapeError](err); !ok {
			t.Errorf("%s: %v, want a *ShapeError", name, err)
		}
	}
	up, err := onCPU.Upload(t.Context(), many)
	if err != nil || up.Rows() != 1<<31 {
		t.Errorf("one element seen as 2^62: %v", err)
	}
}
