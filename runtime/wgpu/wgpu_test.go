//go:build cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64))

package wgpu

import (
	"errors"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

func TestConformance(t *testing.T) { runtimetest.Run(t, Driver{}) }

func BenchmarkDispatch(b *testing.B) { runtimetest.Benchmark(b, Driver{}) }

// native.go takes C handles out of go-webgpu's types.
func TestHandles(t *testing.T) {
	for name, tc := range map[string]struct{ size, words uintptr }{
		"Buffer":          {unsafe.Sizeof(wgpu.Buffer{}), 2},
		"Queue":           {unsafe.Sizeof(wgpu.Queue{}), 2},
		"Device":          {unsafe.Sizeof(wgpu.Device{}), 1},
		"ComputePipeline": {unsafe.Sizeof(wgpu.ComputePipeline{}), 1},
		"BindGroup":       {unsafe.Sizeof(wgpu.BindGroup{}), 1},
	} {
		if want := tc.words * unsafe.Sizeof(uintptr(0)); tc.size != want {
			t.Errorf("a wgpu.%s has %d bytes, want %d", name, tc.size, want)
		}
	}
	dev := runtimetest.Open(t, Driver{}).(*device)
	b, err := dev.NewBuffer("layout", 4)
	if err != nil {
		t.Fatal(err)
	}
	first, second := handles(b.(*buffer).ref)
	if first != handle(dev.dev) {
		t.Error("the first handle of a buffer is not its device's")
	}
	if second == nil || second == first {
		t.Error("the second handle of a buffer is not its own")
	}
}

const fill = `
@group(0) @binding(0) var<uniform> value: vec4u;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(1) fn main() { out[0] = value.x; }
`

// fillDispatch is a dispatch of fill with a uniform of size bytes; the shader
// needs 16.
func fillDispatch(t *testing.T, dev gpu.Device, size int) gpu.Dispatch {
	t.Helper()
	p, err1 := dev.NewPipeline(t.Context(), gpu.Shader{
		Label: "fill", Source: fill, Entry: "main", WorkgroupSize: [3]uint32{1, 1, 1},
		Bindings: []gpu.Binding{gpu.Uniform, gpu.ReadWrite},
	})
	value, err2 := dev.NewBuffer("value", size)
	out, err3 := dev.NewBuffer("out", 4)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return gpu.Dispatch{Pipeline: p, Buffers: []gpu.Buffer{value, out}, Workgroups: [3]uint32{1, 1, 1}}
}

// eventually waits for cond, which is asked with the device locked.
func eventually(t *testing.T, dev *device, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if err := dev.lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		ok := cond()
		dev.unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 seconds: %s", what)
		}
	}
}

// What is gathered goes to the device without a further call, and what was
// closed meanwhile is freed then.
func TestHandedOverByItself(t *testing.T) {
	dev := runtimetest.Open(t, Driver{}).(*device)
	run := fillDispatch(t, dev, 16)
	for round := range 3 {
		for range 1 << round { // one more than an idle device takes at once
			if err := dev.Submit(t.Context(), run, run); err != nil {
				t.Fatal(err)
			}
		}
		if err := dev.Submit(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		eventually(t, dev, "an empty batch", func() bool { return len(dev.gathered) == 0 })
	}
	if err := errors.Join(dev.Submit(t.Context(), run), run.Buffers[1].Close()); err != nil {
		t.Fatal(err)
	}
	eventually(t, dev, "a closed buffer is gone", func() bool { return len(dev.buffers) == 1 && len(dev.groups.byKey) == 0 })
}

// The error of a batch that was handed over by itself waits for a call that
// stands for dispatches.
func TestErrorBetweenCalls(t *testing.T) {
	dev := runtimetest.Open(t, Driver{}).(*device)
	good, bad := fillDispatch(t, dev, 16), fillDispatch(t, dev, 4)
	for name, call := range map[string]func() error{
		"Submit": func() error { return dev.Submit(t.Context(), good) },
		"Wait":   func() error { return dev.Wait(t.Context()) },
		"Read":   func() error { return good.Buffers[1].Read(t.Context(), 0, make([]byte, 4)) },
		"Elapsed": func() error {
			_, _, err := dev.Elapsed(t.Context(), good)
			return err
		},
	} {
		if err := errors.Join(dev.Submit(t.Context(), good), dev.Submit(t.Context(), bad)); err != nil {
			t.Fatal(err)
		}
		eventually(t, dev, "an empty batch", func() bool { return len(dev.gathered) == 0 })
		b, err := dev.NewBuffer("other", 4)
		if err == nil {
			err = errors.Join(b.Write(0, make([]byte, 4)), b.Close())
		}
		if err != nil {
			t.Errorf("a call that has nothing to do with dispatches: %v", err)
		}
		if err := call(); !errors.Is(err, gpu.ErrInvalid) {
			t.Errorf("%s after a dispatch with a uniform too small: %v, want ErrInvalid", name, err)
		}
		if err := dev.Wait(t.Context()); err != nil {
			t.Errorf("the same error came back twice: %v", err)
		}
	}
}

// A device finds the bind group of buffers that it has seen, for any pipeline
// with the same bindings, and holds only so many.
func TestGroups(t *testing.T) {
	dev := runtimetest.Open(t, Driver{}).(*device)
	run, other := fillDispatch(t, dev, 16), fillDispatch(t, dev, 16)
	other.Buffers = run.Buffers
	for range 3 {
		if err := dev.Submit(t.Context(), run, other); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(dev.groups.byKey); n != 1 {
		t.Errorf("%d groups for one set of buffers", n)
	}
	var made []gpu.Buffer
	var all []gpu.Dispatch
	for range maxGroups + 5 {
		out, err := dev.NewBuffer("out", 4)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, out)
		run.Buffers = []gpu.Buffer{run.Buffers[0], out}
		all = append(all, run)
		if err := dev.Submit(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // groups that go while the same call has used them
		if err := errors.Join(dev.Wait(t.Context()), dev.Submit(t.Context(), all...)); err != nil {
			t.Fatal(err)
		}
	}
	if n, listed := len(dev.groups.byKey), dev.groups.order.Len(); n != maxGroups || listed != n {
		t.Errorf("%d groups, %d in order, want %d", n, listed, maxGroups)
	}
	if err := dev.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, b := range made {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(dev.groups.byKey); n != 0 {
		t.Errorf("%d groups of closed buffers", n)
	}
}

// To submit takes one allocation, the slice of dispatches, and to wait none.
func TestAllocations(t *testing.T) {
	dev := runtimetest.Open(t, Driver{})
	run := fillDispatch(t, dev, 16)
	allocations := testing.AllocsPerRun(200, func() {
		if err := errors.Join(dev.Submit(t.Context(), run), dev.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 1 {
		t.Errorf("%v allocations for a dispatch and its wait, want 1", allocations)
	}
}

// Devices come and go, several at a time, each with work just done: the last one
// to close must not take the drivers away from under another thread.
func TestOpenAndCloseInParallel(t *testing.T) {
	runtimetest.Open(t, Driver{}) // skips without an adapter
	adapters, err := Driver{}.Adapters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				dev, err := Driver{}.Open(t.Context(), adapters[0])
				if err != nil {
					t.Error(err)
					return
				}
				b, err := dev.NewBuffer("test", 1<<20)
				if err == nil {
					err = errors.Join(b.Write(0, make([]byte, 1<<20)), b.Read(t.Context(), 0, make([]byte, 4)))
				}
				if err := errors.Join(err, dev.Close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
