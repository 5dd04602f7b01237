package gemm

import "testing"

// maxAllocs is how many values a product of matrices on the device may leave to
// the garbage collector, without what the driver does.
const maxAllocs = 9

// A product that is planned once makes nothing on the device, and little in Go,
// however often it runs: small products are mostly this.
func TestRunMakesNothing(t *testing.T) {
	dev := &countingDevice{}
	e := New(dev)
	defer e.Close()
	a, b := onDevice(t, e, 1, 64), onDevice(t, e, 1, 64)
	batchA, batchC := onDevice(t, e, 100_000, 1), onDevice(t, e, 100_000, 1) // more than a grid is high
	c, bias := onDevice(t, e, 1, 64), onDevice(t, e, 1, 64)
	for _, tt := range []struct {
		name    string
		c, a, b *DeviceMatrix
		opts    []Option
	}{
		{name: "A B", c: c, a: a, b: b},
		{name: "transposed views", c: c, a: a.Transposed(), b: b.Transposed()},
		{name: "everything", c: c, a: a, b: b, opts: []Option{WithAlpha(2), WithBeta(3), WithBias(bias), WithActivation(ReLU)}},
		{name: "several dispatches", c: batchC, a: batchA, b: batchA},
	} {
		p, err := e.Plan(tt.c, tt.a, tt.b, tt.opts...)
		if err != nil {
			t.Fatal(err)
		}
		run := func() {
			if err := e.Run(t.Context(), p, tt.c, tt.a, tt.b, tt.opts...); err != nil {
				t.Fatal(err)
			}
			if err := e.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		run() // compiles
		before := dev.open.Load()
		if allocs := testing.AllocsPerRun(100, run); allocs > maxAllocs {
			t.Errorf("%s: %g allocations, at most %d", tt.name, allocs, maxAllocs)
		} else {
			t.Logf("%s: %g allocations", tt.name, allocs)
		}
		if made := dev.open.Load() - before; made != 0 {
			t.Errorf("%s: made %d buffers or pipelines", tt.name, made)
		}
	}
}

func onDevice(t *testing.T, e *Engine, batch, n int) *DeviceMatrix {
	t.Helper()
	m, err := e.NewBatch(F32, batch, n, n)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
