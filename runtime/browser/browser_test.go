//go:build js

package browser

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall/js"
	"testing"
	"time"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

func TestDriver(t *testing.T) { runtimetest.Run(t, New()) }

// page is a globalThis with the properties given.
func page(properties map[string]any) js.Value { return js.ValueOf(properties) }

// offering is a navigator.gpu that gives out the same adapter always.
func offering(t *testing.T, adapter any) map[string]any {
	request := js.FuncOf(func(js.Value, []js.Value) any {
		return js.Global().Get("Promise").Call("resolve", adapter)
	})
	t.Cleanup(request.Release)
	return map[string]any{"gpu": map[string]any{"requestAdapter": request}}
}

func TestNoDevice(t *testing.T) {
	defaults := map[string]any{}
	for _, name := range limitNames() {
		defaults[name] = 256
	}
	null := map[string]any{
		"info":     map[string]any{"vendor": "", "architecture": "", "device": "null-backend", "description": ""},
		"features": []any{},
		"limits":   defaults,
	}
	refusing := js.FuncOf(func(js.Value, []js.Value) any {
		return js.Global().Get("Promise").Call("reject", js.Global().Get("Error").New("no suitable backends"))
	})
	defer refusing.Release()
	for _, tc := range []struct {
		name string
		page js.Value
		want error
		text string
	}{
		{
			"insecure page",
			page(map[string]any{"isSecureContext": false, "navigator": map[string]any{}}),
			gpu.ErrUnsupported, "secure context",
		},
		{"no navigator", page(map[string]any{}), gpu.ErrUnsupported, "navigator.gpu"},
		{
			"no WebGPU",
			page(map[string]any{"isSecureContext": true, "navigator": map[string]any{}}),
			gpu.ErrUnsupported, "navigator.gpu",
		},
		{"no adapter", page(map[string]any{"navigator": offering(t, nil)}), gpu.ErrNoAdapter, "driver"},
		{"Null adapter", page(map[string]any{"navigator": offering(t, null)}), gpu.ErrNoAdapter, "driver"},
		{
			"adapter refused",
			page(map[string]any{"navigator": map[string]any{"gpu": map[string]any{"requestAdapter": refusing}}}),
			gpu.ErrNoAdapter, "no suitable backends",
		},
	} {
		found, err := adapters(t.Context(), tc.page)
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, %v, want %v with %q", tc.name, found, err, tc.want, tc.text)
		}
	}
}

func TestDescribe(t *testing.T) {
	some := map[string]any{}
	for i, name := range limitNames() {
		some[name] = 4*i + 3
	}
	for _, tc := range []struct {
		info map[string]any
		name string
		kind gpu.AdapterType
	}{
		{map[string]any{"vendor": "google", "architecture": "swiftshader", "device": "", "description": ""}, "google swiftshader", gpu.Software},
		{map[string]any{"vendor": "x", "device": "a renderer", "isFallbackAdapter": true}, "a renderer", gpu.Software},
		{map[string]any{"vendor": "nvidia", "architecture": "hopper"}, "nvidia hopper", gpu.UnknownType},
	} {
		a := describe(js.ValueOf(map[string]any{"info": tc.info, "features": []any{"b", "a"}, "limits": some}))
		if a.Name != tc.name || a.Type != tc.kind || !slices.Equal(a.Features, []string{"a", "b"}) {
			t.Errorf("%v is described as %+v", tc.info, a)
		}
		if a.Limits.MaxStorageBufferBindingSize != 4 || a.Limits.MaxComputeWorkgroupsPerDimension != 39 {
			t.Errorf("limits are read as %+v", a.Limits)
		}
	}
}

// A device that refuses the adapter's limits is opened with the defaults.
func TestRefusedLimits(t *testing.T) {
	runtimetest.Open(t, New())
	found, err := adapters(t.Context(), js.Global())
	if err != nil {
		t.Fatal(err)
	}
	request := found[0].js.Get("requestDevice").Call("bind", found[0].js)
	picky := js.FuncOf(func(_ js.Value, args []js.Value) any {
		if !args[0].Get("requiredLimits").IsUndefined() {
			return js.Global().Get("Promise").Call("reject", js.Global().Get("Error").New("too much"))
		}
		return request.Invoke(args[0])
	})
	defer picky.Release()
	dev, err := open(t.Context(), adapter{found[0].described, js.ValueOf(map[string]any{
		"limits": found[0].js.Get("limits"), "requestDevice": picky,
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if got, want := dev.Adapter().Limits.MaxBufferSize, gpu.DefaultLimits().MaxBufferSize; got != want {
		t.Errorf("maxBufferSize is %d, want the default %d", got, want)
	}
}

const fill = `
@group(0) @binding(0) var<uniform> value: vec4u;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(1) fn main() { out[0] = value.x; }
`

func fillShader() gpu.Shader {
	return gpu.Shader{
		Label: "fill", Source: fill, Entry: "main", WorkgroupSize: [3]uint32{1, 1, 1},
		Bindings: []gpu.Binding{gpu.Uniform, gpu.ReadWrite},
	}
}

// fillDispatch is a dispatch of fill with a uniform of size bytes; the shader
// needs 16.
func fillDispatch(t *testing.T, dev gpu.Device, size int) gpu.Dispatch {
	t.Helper()
	p, err1 := dev.NewPipeline(t.Context(), fillShader())
	value, err2 := dev.NewBuffer("value", size)
	out, err3 := dev.NewBuffer("out", 4)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return gpu.Dispatch{Pipeline: p, Buffers: []gpu.Buffer{value, out}, Workgroups: [3]uint32{1, 1, 1}}
}

// What only the implementation finds wrong comes back with the next call that
// waits, once.
func TestLateError(t *testing.T) {
	dev := runtimetest.Open(t, New())
	bad := fillDispatch(t, dev, 4)
	out := bad.Buffers[1]
	for name, wait := range map[string]func() error{
		"Wait": func() error { return dev.Wait(t.Context()) },
		"Read": func() error { return out.Read(t.Context(), 0, make([]byte, 4)) },
		"Elapsed": func() error {
			_, _, err := dev.Elapsed(t.Context(), bad)
			return err
		},
	} {
		for range 10 {
			if name != "Elapsed" {
				if err := dev.Submit(t.Context(), bad); err != nil {
					t.Fatal(err)
				}
			}
			if err := wait(); !errors.Is(err, gpu.ErrInvalid) {
				t.Fatalf("%s after a dispatch with a uniform too small: %v, want ErrInvalid", name, err)
			}
			if err := dev.Wait(t.Context()); err != nil {
				t.Fatalf("the same error came back twice: %v", err)
			}
		}
	}
	if err := dev.Submit(t.Context(), fillDispatch(t, dev, 16)); err != nil {
		t.Fatal(err)
	}
}

func TestLateErrorAtClose(t *testing.T) {
	runtimetest.Open(t, New())
	list, err := New().Adapters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dev, err := New().Open(t.Context(), list[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Submit(t.Context(), fillDispatch(t, dev, 4)); err != nil {
		t.Fatal(err)
	}
	if err := dev.Close(); !errors.Is(err, gpu.ErrInvalid) {
		t.Errorf("Close after a dispatch with a uniform too small: %v, want ErrInvalid", err)
	}
}

func TestShaderErrors(t *testing.T) {
	dev := runtimetest.Open(t, New())
	for _, tc := range []struct {
		name, old, new string
		line           int
	}{
		{"unknown name", "value.x", "valve.x", 4},
		{"unknown extension", "@group(0) @binding(0)", "enable nothing; @group(0) @binding(0)", 2},
		{"null character", "value.x", "\x00", 0},
		{"binding of another kind", "var<uniform>", "var<storage>", 0},
		{
			"more workgroup memory than told", "@compute",
			"var<workgroup> memory: array<u32, 60000>; @compute", 0,
		},
		{"larger workgroup than told", "@workgroup_size(1)", "@workgroup_size(1, 1, 5000)", 0},
	} {
		s := fillShader()
		s.Source = strings.Replace(fill, tc.old, tc.new, 1)
		if strings.Contains(s.Source, "memory") {
			s.Source = strings.Replace(s.Source, "value.x", "memory[value.x]", 1)
		}
		_, err := dev.NewPipeline(t.Context(), s)
		se, ok := errors.AsType[*gpu.ShaderError](err)
		if !ok || se.Label != "fill" || se.Line != tc.line || strings.Contains(se.Message, "\n") {
			t.Errorf("%s: %v, want a *ShaderError in line %d", tc.name, err, tc.line)
		}
	}
	if err := dev.Wait(t.Context()); err != nil {
		t.Errorf("a refused shader left an error behind: %v", err)
	}
}

// A read that was canceled while its buffer waited to be mapped is not a fault of
// the next call.
func TestCanceledRead(t *testing.T) {
	dev := runtimetest.Open(t, New()).(*Device)
	fill := fillDispatch(t, dev, 16)
	for range 5 {
		// The first read leaves its buffer for the next, which then waits for nothing else.
		if err := errors.Join(fill.Buffers[1].Read(t.Context(), 0, make([]byte, 4)), dev.Submit(t.Context(), fill)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel() // runs once Read waits
		if err := fill.Buffers[1].Read(ctx, 0, make([]byte, 4)); !errors.Is(err, context.Canceled) {
			t.Fatalf("Read: %v, want context.Canceled", err)
		}
		for range 2 {
			if err := errors.Join(dev.Submit(t.Context(), fill), dev.Wait(t.Context())); err != nil {
				t.Fatalf("after a canceled read: %v", err)
			}
		}
	}
}

func TestDeviceLost(t *testing.T) {
	dev := runtimetest.Open(t, New()).(*Device)
	good := fillDispatch(t, dev, 16)
	b := good.Buffers[1]
	dev.device.Call("destroy")
	if err := dev.Wait(t.Context()); !errors.Is(err, gpu.ErrDeviceLost) {
		t.Errorf("Wait while the device goes: %v, want ErrDeviceLost", err)
	}
	_, bufferErr := dev.NewBuffer("late", 4)
	_, pipelineErr := dev.NewPipeline(t.Context(), fillShader())
	_, _, elapsedErr := dev.Elapsed(t.Context(), good)
	for name, err := range map[string]error{
		"NewBuffer":   bufferErr,
		"NewPipeline": pipelineErr,
		"Elapsed":     elapsedErr,
		"Submit":      dev.Submit(t.Context(), good),
		"Wait":        dev.Wait(t.Context()),
		"Write":       b.Write(0, make([]byte, 4)),
		"Read":        b.Read(t.Context(), 0, make([]byte, 4)),
	} {
		if !errors.Is(err, gpu.ErrDeviceLost) {
			t.Errorf("%s on a lost device: %v, want ErrDeviceLost", name, err)
		}
	}
}

// A device may go, or be closed, while calls wait for it.
func TestGoneMeanwhile(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*Device)
		want error
	}{
		{"lost", func(d *Device) { d.device.Call("destroy") }, gpu.ErrDeviceLost},
		{"closed", func(d *Device) { d.Close() }, gpu.ErrClosed},
	} {
		dev := runtimetest.Open(t, New()).(*Device)
		b, err := dev.NewBuffer("big", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		calls := map[string]func() error{
			"Read": func() error { return b.Read(t.Context(), 0, make([]byte, 1<<20)) },
			"NewPipeline": func() error {
				_, err := dev.NewPipeline(t.Context(), fillShader())
				return err
			},
			"NewBuffer": func() error {
				_, err := dev.NewBuffer("late", 4)
				return err
			},
		}
		ended := make(chan error, len(calls))
		for _, call := range calls {
			started := make(chan struct{})
			go func() {
				close(started)
				ended <- call()
			}()
			<-started
		}
		tc.end(dev)
		for range calls {
			// A call may have been done before.
			if err := <-ended; err != nil && !errors.Is(err, tc.want) {
				t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
			}
		}
	}
}

// A wait that is given up leaves nothing behind that disturbs later calls.
func TestCanceledWait(t *testing.T) {
	dev := runtimetest.Open(t, New())
	good := fillDispatch(t, dev, 16)
	for range 20 {
		if err := dev.Submit(t.Context(), good); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if err := good.Buffers[1].Read(ctx, 0, make([]byte, 4)); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Read: %v, want %v", err, context.Canceled)
		}
		if err := dev.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v, want %v", err, context.Canceled)
		}
	}
	if err := good.Buffers[0].Write(0, []byte{7, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	var got [4]byte
	if err := errors.Join(dev.Submit(t.Context(), good), good.Buffers[1].Read(t.Context(), 0, got[:])); err != nil {
		t.Fatal(err)
	}
	if got[0] != 7 {
		t.Errorf("got %d, want 7", got[0])
	}
}

// The bytes between a buffer's size and the next word stay zero, whatever was
// written before through the same array.
func TestPaddingStaysZero(t *testing.T) {
	dev := runtimetest.Open(t, New())
	full, err1 := dev.NewBuffer("full", 8)
	odd, err2 := dev.NewBuffer("odd", 5)
	if err := errors.Join(err1, err2, full.Write(0, []byte("\xff\xff\xff\xff\xff\xff\xff\xff")), odd.Write(0, []byte("abcde"))); err != nil {
		t.Fatal(err)
	}
	odd.(*Buffer).size = 8
	var got [8]byte
	if err := odd.Read(t.Context(), 0, got[:]); err != nil {
		t.Fatal(err)
	}
	if want := "abcde\x00\x00\x00"; string(got[:]) != want {
		t.Errorf("the buffer holds %q, want %q", got, want)
	}
}

func TestErrorTypes(t *testing.T) {
	runtimetest.Open(t, New()) // skips without WebGPU, or fails where it is required
	for class, want := range map[string]error{"GPUValidationError": gpu.ErrInvalid, "GPUOutOfMemoryError": gpu.ErrOutOfMemory} {
		constructor := js.Global().Get(class)
		if !constructor.Truthy() {
			t.Fatalf("WebGPU without a %s", class)
		}
		if err := toError(constructor.New("why")); !errors.Is(err, want) || !strings.Contains(err.Error(), "why") {
			t.Errorf("%s: %v, want %v", class, err, want)
		}
	}
}

// A device finds the bind group of buffers that it has seen, for any pipeline
// with the same bindings, and holds only so many.
func TestBindGroups(t *testing.T) {
	dev := runtimetest.Open(t, New()).(*Device)
	run, other := fillDispatch(t, dev, 16), fillDispatch(t, dev, 16)
	other.Buffers = run.Buffers
	for range 3 {
		if err := dev.Submit(t.Context(), run, other); err != nil {
			t.Fatal(err)
		}
	}
	if len(dev.groups) != 1 || len(dev.layouts) != 1 {
		t.Errorf("%d groups and %d layouts for one set of buffers and of bindings", len(dev.groups), len(dev.layouts))
	}
	for range maxGroups + 5 {
		out, err := dev.NewBuffer("out", 4)
		if err != nil {
			t.Fatal(err)
		}
		run.Buffers = []gpu.Buffer{run.Buffers[0], out}
		if err := errors.Join(dev.Submit(t.Context(), run), out.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if len(dev.groups) > maxGroups {
		t.Errorf("%d groups, want at most %d", len(dev.groups), maxGroups)
	}
	if err := dev.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// What is gathered goes to the device without a further call.
func TestHandedOverByItself(t *testing.T) {
	dev := runtimetest.Open(t, New()).(*Device)
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
		for deadline := time.Now().Add(30 * time.Second); len(dev.gathered) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("what was gathered lies there after 30 seconds")
			}
		}
	}
}

// To submit takes a few allocations that do not grow with the number of calls.
func TestAllocations(t *testing.T) {
	dev := runtimetest.Open(t, New())
	run := fillDispatch(t, dev, 16)
	allocations := testing.AllocsPerRun(640, func() {
		if err := dev.Submit(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 4 {
		t.Errorf("%v allocations for a dispatch, want at most 4", allocations)
	}
}

func BenchmarkDispatch(b *testing.B) { runtimetest.Benchmark(b, New()) }
