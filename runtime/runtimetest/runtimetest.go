// Package runtimetest is the suite that every driver passes: what package
// runtime promises, on whatever adapter the driver finds.
package runtimetest

import (
	"bytes"
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	gpu "github.com/wgemm/wgemm/runtime"
)

//go:embed testdata/*.wgsl
var files embed.FS

// Open opens the driver's first adapter whose name contains the environment
// variable WGEMM_ADAPTER, and closes the device when the test ends. Without an
// adapter it skips the test, and fails it if WGEMM_REQUIRE names the driver.
func Open(t testing.TB, driver gpu.Driver) gpu.Device {
	t.Helper()
	// Read so that go's test cache knows on what the result depends (tests/report).
	_ = os.Getenv("WGEMM_TEST_DEVICE")
	dev, err := open(t.Context(), driver)
	if err != nil {
		Skip(t, driver.Name(), fmt.Sprintf("no device to test on: %v", err))
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("closing the device: %v", err)
		}
	})
	return dev
}

// Skip skips a test for what is missing, and fails it if WGEMM_REQUIRE names that: a
// driver, a program or a feature.
func Skip(t testing.TB, missing, reason string) {
	t.Helper()
	for name := range strings.SplitSeq(os.Getenv("WGEMM_REQUIRE"), ",") {
		if name == missing {
			t.Fatalf("WGEMM_REQUIRE names %s, but: %s", name, reason)
		}
	}
	t.Skip(reason)
}

func open(ctx context.Context, driver gpu.Driver) (gpu.Device, error) {
	adapters, err := driver.Adapters(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range adapters {
		if strings.Contains(strings.ToLower(a.Name), strings.ToLower(os.Getenv("WGEMM_ADAPTER"))) {
			return driver.Open(ctx, a)
		}
	}
	return nil, fmt.Errorf("%w with %q in its name", gpu.ErrNoAdapter, os.Getenv("WGEMM_ADAPTER"))
}

// Run runs the suite.
func Run(t *testing.T, driver gpu.Driver) {
	dev := Open(t, driver)
	t.Logf("adapter: %s", dev.Adapter())
	for _, tc := range []struct {
		name string
		test func(*testing.T, gpu.Driver, gpu.Device)
	}{
		{"Adapters", testAdapters},
		{"Buffers", testBuffers},
		{"BufferBounds", testBufferBounds},
		{"Dispatch", testDispatch},
		{"Order", testOrder},
		{"OrderOfWrites", testOrderOfWrites},
		{"Chain", testChain},
		{"CloseAfterSubmit", testCloseAfterSubmit},
		{"LateError", testLateError},
		{"Elapsed", testElapsed},
		{"ShaderError", testShaderError},
		{"LimitErrors", testLimitErrors},
		{"InvalidDispatch", testInvalidDispatch},
		{"Context", testContext},
		{"Parallel", testParallel},
		{"GarbageCollection", testGarbageCollection},
		{"PipelineCache", testPipelineCache},
		{"LongDispatch", testLongDispatch},
		{"Close", testClose},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, driver, dev) })
	}
}

func source(t testing.TB, name string) string {
	t.Helper()
	text, err := files.ReadFile("testdata/" + name + ".wgsl")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func addShader(t testing.TB) gpu.Shader {
	return gpu.Shader{
		Label:         "add",
		Source:        source(t, "add"),
		Entry:         "main",
		WorkgroupSize: [3]uint32{64, 1, 1},
		Bindings:      []gpu.Binding{gpu.Uniform, gpu.ReadOnly, gpu.ReadWrite},
	}
}

// must returns v, or ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newBuffer(t testing.TB, dev gpu.Device, size int) gpu.Buffer {
	t.Helper()
	b := must(dev.NewBuffer("test", size))(t)
	t.Cleanup(func() { b.Close() })
	return b
}

func newPipeline(t testing.TB, dev gpu.Device, s gpu.Shader) gpu.Pipeline {
	t.Helper()
	p := must(dev.NewPipeline(t.Context(), s))(t)
	t.Cleanup(func() { p.Close() })
	return p
}

func random(seed uint64, n int) []byte {
	rng := rand.NewPCG(1, seed)
	data := make([]byte, n+8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], rng.Uint64())
	}
	return data[:n]
}

func words(data []byte) []uint32 {
	out := make([]uint32, len(data)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return out
}

func testAdapters(t *testing.T, driver gpu.Driver, dev gpu.Device) {
	adapters := must(driver.Adapters(t.Context()))(t)
	a := dev.Adapter()
	if a.Driver != driver.Name() || a.Index >= len(adapters) || adapters[a.Index].Name != a.Name {
		t.Errorf("the device's adapter %v is not among those of the driver", a)
	}
	def := gpu.DefaultLimits()
	for _, a := range append(adapters, a) {
		if a.Type == "" || a.Backend == "" {
			t.Errorf("adapter without type or backend: %+v", a)
		}
		l := a.Limits
		if l.MaxBufferSize < def.MaxBufferSize || l.MaxStorageBufferBindingSize < def.MaxStorageBufferBindingSize ||
			l.MaxComputeWorkgroupStorageSize < def.MaxComputeWorkgroupStorageSize ||
			l.MaxComputeInvocationsPerWorkgroup < def.MaxComputeInvocationsPerWorkgroup ||
			l.MaxComputeWorkgroupsPerDimension < def.MaxComputeWorkgroupsPerDimension {
			t.Errorf("limits below WebGPU's defaults: %+v", l)
		}
	}
	if got, want := dev.Adapter().Limits, adapters[a.Index].Limits; got != want {
		t.Errorf("granted limits %+v, want the adapter's %+v", got, want)
	}
	if _, err := driver.Open(t.Context(), gpu.Adapter{Index: len(adapters)}); !errors.Is(err, gpu.ErrNoAdapter) {
		t.Errorf("opening an adapter that is not there: %v, want ErrNoAdapter", err)
	}
}

// Any length, any offset of a read, and zeros at first.
func testBuffers(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	for _, size := range []int{1, 2, 3, 4, 5, 7, 18, 255, 256, 257, 4096, 1<<20 + 3, 17<<20 + 1} {
		b := newBuffer(t, dev, size)
		if b.Size() != size {
			t.Errorf("size %d, want %d", b.Size(), size)
		}
		got := bytes.Repeat([]byte{0xff}, size)
		if err := b.Read(t.Context(), 0, got); err != nil {
			t.Fatal(err)
		}
		if i := bytes.IndexFunc(got, func(r rune) bool { return r != 0 }); i >= 0 {
			t.Errorf("size %d: a new buffer has %d at %d, want 0", size, got[i], i)
		}
		want := random(uint64(size), size)
		if err := b.Write(0, want); err != nil {
			t.Fatal(err)
		}
		for _, from := range []int{0, 1, 2, 3, size / 2, size} {
			if from > size {
				continue
			}
			got := make([]byte, size-from)
			if err := b.Read(t.Context(), from, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want[from:]) {
				t.Errorf("size %d: other bytes read from %d on than written", size, from)
			}
		}
		if size >= 8 {
			part := random(1, 4)
			copy(want[4:], part)
			if err := b.Write(4, part); err != nil {
				t.Fatal(err)
			}
			if err := b.Read(t.Context(), 0, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("size %d: a write of 4 bytes at 4 changed other bytes, or not these", size)
			}
		}
	}
}

func testBufferBounds(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	b := newBuffer(t, dev, 10)
	for _, tc := range []struct{ offset, length int }{
		{-4, 4}, {0, 11}, {8, 4}, {12, 0}, {4, math.MaxInt - 2}, {math.MaxInt, 1}, {0, 5}, {2, 4}, {6, 4}, {4, 5},
	} {
		if tc.length < 1<<20 {
			if err := b.Write(tc.offset, make([]byte, max(tc.length, 0))); !errors.Is(err, gpu.ErrInvalid) {
				t.Errorf("write of %d bytes at %d of 10: %v, want ErrInvalid", tc.length, tc.offset, err)
			}
		}
	}
	for _, tc := range []struct{ offset, length int }{{-1, 1}, {0, 11}, {10, 1}, {11, 0}} {
		if err := b.Read(t.Context(), tc.offset, make([]byte, tc.length)); !errors.Is(err, gpu.ErrInvalid) {
			t.Errorf("read of %d bytes at %d of 10: %v, want ErrInvalid", tc.length, tc.offset, err)
		}
	}
	if err := b.Write(8, []byte{1, 2}); err != nil {
		t.Errorf("write of the last 2 bytes: %v", err)
	}
	for _, size := range []int{0, -1} {
		if _, err := dev.NewBuffer("none", size); !errors.Is(err, gpu.ErrInvalid) {
			t.Errorf("buffer of %d bytes: %v, want ErrInvalid", size, err)
		}
	}
}

// add is a dispatch of add.wgsl over count words, and its buffers.
type add struct {
	dispatch gpu.Dispatch
	args, x  gpu.Buffer
	y        gpu.Buffer
}

func newAdd(t testing.TB, dev gpu.Device, p gpu.Pipeline, count, step int, x, y gpu.Buffer) add {
	t.Helper()
	args := newBuffer(t, dev, 8)
	data := binary.LittleEndian.AppendUint32(nil, uint32(count))
	if err := args.Write(0, binary.LittleEndian.AppendUint32(data, uint32(step))); err != nil {
		t.Fatal(err)
	}
	return add{
		gpu.Dispatch{Pipeline: p, Buffers: []gpu.Buffer{args, x, y}, Workgroups: [3]uint32{uint32(count+63) / 64, 1, 1}},
		args, x, y,
	}
}

func readWords(t *testing.T, b gpu.Buffer) []uint32 {
	t.Helper()
	data := make([]byte, b.Size())
	if err := b.Read(t.Context(), 0, data); err != nil {
		t.Fatal(err)
	}
	return words(data)
}

func testDispatch(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	p := newPipeline(t, dev, addShader(t))
	for _, count := range []int{1, 63, 64, 65, 1000} {
		x, y := newBuffer(t, dev, 4*count), newBuffer(t, dev, 4*count+4)
		want := random(uint64(count), 4*count)
		if err := x.Write(0, want); err != nil {
			t.Fatal(err)
		}
		a := newAdd(t, dev, p, count, 7, x, y)
		if err := dev.Submit(t.Context(), a.dispatch); err != nil {
			t.Fatal(err)
		}
		got := readWords(t, y)
		for i, w := range words(want) {
			if got[i] != w+7 {
				t.Fatalf("count %d: word %d is %d, want %d", count, i, got[i], w+7)
			}
		}
		if got[count] != 0 {
			t.Errorf("count %d: the word past the end is %d, want 0", count, got[count])
		}
	}
	x, y := newBuffer(t, dev, 4), newBuffer(t, dev, 4)
	nothing := newAdd(t, dev, p, 1, 1, x, y)
	nothing.dispatch.Workgroups = [3]uint32{0, 1, 1}
	if err := dev.Submit(t.Context(), nothing.dispatch); err != nil {
		t.Errorf("a grid of 0 workgroups: %v", err)
	}
	if got := readWords(t, y)[0]; got != 0 {
		t.Errorf("a grid of 0 workgroups wrote %d", got)
	}
}

// Dispatches and writes take effect in order, within a submit and across.
func testOrder(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	p := newPipeline(t, dev, addShader(t))
	const count = 1000
	x, y := newBuffer(t, dev, 4*count), newBuffer(t, dev, 4*count)
	there, back := newAdd(t, dev, p, count, 1, x, y), newAdd(t, dev, p, count, 10, y, x)
	for range 10 {
		if err := dev.Submit(t.Context(), there.dispatch, back.dispatch, there.dispatch, back.dispatch); err != nil {
			t.Fatal(err)
		}
	}
	if err := dev.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, got := range readWords(t, x) {
		if got != 220 {
			t.Fatalf("word %d is %d, want 220 after 20 times 1 + 10", i, got)
		}
	}
}

// A write between two dispatches is seen by the second alone, also by one that
// is not waited for.
func testOrderOfWrites(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	p := newPipeline(t, dev, addShader(t))
	x := newBuffer(t, dev, 4)
	args := newAdd(t, dev, p, 1, 7, x, x).args
	results := make([]gpu.Buffer, 100)
	for i := range results {
		results[i] = newBuffer(t, dev, 4)
		d := gpu.Dispatch{Pipeline: p, Buffers: []gpu.Buffer{args, x, results[i]}, Workgroups: [3]uint32{1, 1, 1}}
		value := binary.LittleEndian.AppendUint32(nil, uint32(i))
		if err := errors.Join(x.Write(0, value), dev.Submit(t.Context(), d)); err != nil {
			t.Fatal(err)
		}
	}
	for i, b := range results {
		if got := readWords(t, b)[0]; got != uint32(i)+7 {
			t.Errorf("dispatch %d gave %d, want %d", i, got, i+7)
		}
	}
}

// Each of 200 dispatches, submitted one by one and waited for once, sees the
// writes of the one before.
func testChain(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	p := newPipeline(t, dev, addShader(t))
	const count = 1000
	x, y := newBuffer(t, dev, 4*count), newBuffer(t, dev, 4*count)
	there, back := newAdd(t, dev, p, count, 1, x, y), newAdd(t, dev, p, count, 10, y, x)
	for range 100 {
		for _, a := range []add{there, back} {
			if err := dev.Submit(t.Context(), a.dispatch); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := dev.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, got := range readWords(t, x) {
		if got != 1100 {
			t.Fatalf("word %d is %d, want 1100 after 100 times 1 + 10", i, got)
		}
	}
}

// All that a dispatch uses may be closed and collected once it is submitted, and
// other buffers made in its place, before the device has begun with it.
func testCloseAfterSubmit(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	rounds, count := 60, 1<<14
	if testing.Short() {
		rounds = 10
	}
	keep := newPipeline(t, dev, addShader(t))
	for round := range rounds {
		result := newBuffer(t, dev, 4*count)
		p := must(dev.NewPipeline(t.Context(), addShader(t)))(t)
		x, y := must(dev.NewBuffer("x", 4*count))(t), must(dev.NewBuffer("y", 4*count))(t)
		first, second := newAdd(t, dev, p, count, round, x, y), newAdd(t, dev, keep, count, 1, y, result)
		err := errors.Join(
			x.Write(0, random(uint64(round), 4*count)),
			dev.Submit(t.Context(), first.dispatch), p.Close(), x.Close(), first.args.Close(),
			dev.Submit(t.Context(), second.dispatch), y.Close(), second.args.Close(),
		)
		if err != nil {
			t.Fatal(err)
		}
		goruntime.GC()
		for range 2 {
			if err := newBuffer(t, dev, 4*count).Write(0, bytes.Repeat([]byte{0xff}, 4*count)); err != nil {
				t.Fatal(err)
			}
		}
		got := readWords(t, result)
		for i, w := range words(random(uint64(round), 4*count)) {
			if got[i] != w+uint32(round)+1 {
				t.Fatalf("round %d: word %d is %d, want %d", round, i, got[i], w+uint32(round)+1)
			}
		}
	}
}

// What no check foresees comes back from a later call at the latest, once, and
// the device goes on.
func testLateError(t *testing.T, driver gpu.Driver, _ gpu.Device) {
	dev := Open(t, driver)
	p := newPipeline(t, dev, addShader(t))
	x, y := newBuffer(t, dev, 4), newBuffer(t, dev, 4)
	good := newAdd(t, dev, p, 1, 5, x, y).dispatch
	bad := good
	bad.Buffers = []gpu.Buffer{newBuffer(t, dev, 4), x, y} // the shader's uniform has 8 bytes
	for name, wait := range map[string]func() error{
		"Wait": func() error { return dev.Wait(t.Context()) },
		"Read": func() error { return y.Read(t.Context(), 0, make([]byte, 4)) },
		"Elapsed": func() error {
			_, _, err := dev.Elapsed(t.Context(), bad)
			return err
		},
	} {
		for before := range 4 { // in batches of several sizes
			var err error
			for range before {
				err = errors.Join(err, dev.Submit(t.Context(), good))
			}
			err = errors.Join(err, dev.Submit(t.Context(), bad), wait())
			if !errors.Is(err, gpu.ErrInvalid) {
				t.Errorf("%s after a dispatch with a uniform too small: %v, want ErrInvalid", name, err)
			}
			if err := dev.Wait(t.Context()); err != nil {
				t.Errorf("the same error came back twice: %v", err)
			}
		}
	}
	if err := dev.Submit(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	if got := readWords(t, y)[0]; got != 5 {
		t.Errorf("after errors a dispatch gave %d, want 5", got)
	}
}

func testElapsed(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	p := newPipeline(t, dev, addShader(t))
	const count = 1 << 16
	x, y := newBuffer(t, dev, 4*count), newBuffer(t, dev, 4*count)
	a := newAdd(t, dev, p, count, 3, x, y)
	elapsed, clock, err := dev.Elapsed(t.Context(), a.dispatch, a.dispatch)
	if err != nil {
		t.Fatal(err)
	}
	if elapsed < 0 || (clock != gpu.DeviceClock && clock != gpu.HostClock) {
		t.Errorf("took %v by the clock %q", elapsed, clock)
	}
	if got := readWords(t, y)[count-1]; got != 3 {
		t.Errorf("the last word is %d, want 3", got)
	}
}

// A dispatch of over 5 seconds is waited for like any other: the device may be
// closed after Wait, and the result is there.
func testLongDispatch(t *testing.T, driver gpu.Driver, _ gpu.Device) {
	if testing.Short() || driver.Name() == "browser" {
		t.Skip("takes over 10 seconds, and the waits of a browser are promises, which have no limit")
	}
	const atLeast = 6 * time.Second
	dev := Open(t, driver)
	p := newPipeline(t, dev, gpu.Shader{
		Label: "slow", Source: source(t, "slow"), Entry: "main",
		WorkgroupSize: [3]uint32{1, 1, 1}, Bindings: []gpu.Binding{gpu.Uniform, gpu.ReadWrite},
	})
	args, y := newBuffer(t, dev, 8), newBuffer(t, dev, 4)
	const inner = 1 << 20
	run := func(outer int) time.Duration {
		t.Helper()
		data := binary.LittleEndian.AppendUint32(nil, uint32(outer))
		if err := args.Write(0, binary.LittleEndian.AppendUint32(data, inner)); err != nil {
			t.Fatal(err)
		}
		if err := y.Write(0, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		d := gpu.Dispatch{Pipeline: p, Buffers: []gpu.Buffer{args, y}, Workgroups: [3]uint32{1, 1, 1}}
		if err := errors.Join(dev.Submit(t.Context(), d), dev.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	outer, took := 1, run(1)
	for took < atLeast {
		grow := min(1.2*float64(atLeast)/float64(took), 16)
		outer = int(grow*float64(outer)) + 1
		took = run(outer)
	}
	// The chain is a map x -> a x + c; n of them are one, found by squaring.
	a, c := uint32(1664525), uint32(1013904223)
	want := uint32(0)
	for n := outer * inner; n > 0; n /= 2 {
		if n%2 == 1 {
			want = want*a + c
		}
		a, c = a*a, c*(a+1)
	}
	if got := readWords(t, y)[0]; got != want {
		t.Errorf("after %v the result is %d, want %d", took, got, want)
	}
}

func testShaderError(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	s := gpu.Shader{
		Label: "wrong", Source: source(t, "wrong"), Entry: "main",
		WorkgroupSize: [3]uint32{1, 1, 1}, Bindings: []gpu.Binding{gpu.ReadWrite},
	}
	_, err := dev.NewPipeline(t.Context(), s)
	se, ok := errors.AsType[*gpu.ShaderError](err)
	if !ok || se.Label != "wrong" || se.Line != 8 || !strings.Contains(se.Message, "nowhere") || strings.Contains(se.Message, "\n") {
		t.Errorf("error %#v, want a *ShaderError in one line that names line 8 and nowhere", err)
	}
	s = addShader(t)
	s.Entry = "absent"
	if _, err := dev.NewPipeline(t.Context(), s); err == nil {
		t.Error("an entry point that is not there: no error")
	} else if _, ok := errors.AsType[*gpu.ShaderError](err); !ok {
		t.Errorf("an entry point that is not there: %v, want a *ShaderError", err)
	}
	newPipeline(t, dev, addShader(t)) // the device still compiles
}

func testLimitErrors(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	l := dev.Adapter().Limits
	want := func(what string, err error, limit string) {
		t.Helper()
		if le, ok := errors.AsType[*gpu.LimitError](err); !ok || le.Limit != limit || le.Need <= le.Have {
			t.Errorf("%s: %v, want a *LimitError on %s", what, err, limit)
		}
	}
	if big := min(l.MaxBufferSize, l.MaxStorageBufferBindingSize); big < math.MaxInt {
		_, err := dev.NewBuffer("big", int(big)+1)
		limit := "maxBufferSize"
		if l.MaxStorageBufferBindingSize < l.MaxBufferSize {
			limit = "maxStorageBufferBindingSize"
		}
		want("a buffer too big", err, limit)
	}
	s := addShader(t)
	s.WorkgroupSize = [3]uint32{l.MaxComputeWorkgroupSizeX, 2, 1}
	if l.MaxComputeWorkgroupSizeX >= l.MaxComputeInvocationsPerWorkgroup {
		_, err := dev.NewPipeline(t.Context(), s)
		want("too many invocations", err, "maxComputeInvocationsPerWorkgroup")
	}
	s.WorkgroupSize = [3]uint32{1, 1, l.MaxComputeWorkgroupSizeZ + 1}
	_, err := dev.NewPipeline(t.Context(), s)
	want("workgroup too deep", err, "maxComputeWorkgroupSizeZ")
	if l.MaxComputeWorkgroupStorageSize < 64<<10 {
		_, err = dev.NewPipeline(t.Context(), gpu.Shader{
			Label: "workgroup", Source: source(t, "workgroup"), Entry: "main",
			WorkgroupSize: [3]uint32{64, 1, 1}, WorkgroupBytes: 64 << 10, Bindings: []gpu.Binding{gpu.ReadWrite},
		})
		want("too much workgroup memory", err, "maxComputeWorkgroupStorageSize")
	}
	p := newPipeline(t, dev, addShader(t))
	a := newAdd(t, dev, p, 1, 1, newBuffer(t, dev, 4), newBuffer(t, dev, 4))
	for axis := range 3 {
		d := a.dispatch
		d.Workgroups = [3]uint32{1, 1, 1}
		d.Workgroups[axis] = l.MaxComputeWorkgroupsPerDimension + 1
		want("grid too large", dev.Submit(t.Context(), d), "maxComputeWorkgroupsPerDimension")
	}
	if err := dev.Submit(t.Context(), a.dispatch); err != nil {
		t.Errorf("the device no longer works: %v", err)
	}
}

func testInvalidDispatch(t *testing.T, driver gpu.Driver, dev gpu.Device) {
	p := newPipeline(t, dev, addShader(t))
	x, y := newBuffer(t, dev, 4), newBuffer(t, dev, 4)
	good := newAdd(t, dev, p, 1, 1, x, y).dispatch
	other := Open(t, driver)
	foreign := newBuffer(t, other, 4)
	closedBuffer := must(dev.NewBuffer("closed", 4))(t)
	closedPipeline := must(dev.NewPipeline(t.Context(), addShader(t)))(t)
	if err := errors.Join(closedBuffer.Close(), closedPipeline.Close()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		pipeline gpu.Pipeline
		buffers  []gpu.Buffer
		want     error
	}{
		{"too few buffers", p, good.Buffers[:2], gpu.ErrInvalid},
		{"read and written", p, []gpu.Buffer{good.Buffers[0], y, y}, gpu.ErrInvalid},
		{"another device's buffer", p, []gpu.Buffer{good.Buffers[0], x, foreign}, gpu.ErrInvalid},
		{"no buffer", p, []gpu.Buffer{good.Buffers[0], x, nil}, gpu.ErrInvalid},
		{"no pipeline", nil, good.Buffers, gpu.ErrInvalid},
		{"closed buffer", p, []gpu.Buffer{good.Buffers[0], closedBuffer, y}, gpu.ErrClosed},
		{"closed pipeline", closedPipeline, good.Buffers, gpu.ErrClosed},
	} {
		bad := gpu.Dispatch{Pipeline: tc.pipeline, Buffers: tc.buffers, Workgroups: good.Workgroups}
		// The good dispatch before it must not run either.
		if err := dev.Submit(t.Context(), good, bad); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if got := readWords(t, y)[0]; got != 0 {
		t.Errorf("a refused submit wrote %d", got)
	}
	if err := dev.Submit(t.Context(), good); err != nil {
		t.Errorf("the device no longer works: %v", err)
	}
}

func testContext(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	p := newPipeline(t, dev, addShader(t))
	x, y := newBuffer(t, dev, 4), newBuffer(t, dev, 4)
	good := newAdd(t, dev, p, 1, 1, x, y).dispatch
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, pipelineErr := dev.NewPipeline(ctx, addShader(t))
	_, _, elapsedErr := dev.Elapsed(ctx, good)
	for name, err := range map[string]error{
		"NewPipeline": pipelineErr,
		"Submit":      dev.Submit(ctx, good),
		"Wait":        dev.Wait(ctx),
		"Read":        x.Read(ctx, 0, make([]byte, 4)),
		"Elapsed":     elapsedErr,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a canceled context: %v, want %v", name, err, context.Canceled)
		}
	}
	if got := readWords(t, y)[0]; got != 0 {
		t.Errorf("a canceled call wrote %d", got)
	}
}

// Several goroutines share a device, each with buffers of its own.
func testParallel(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	p := newPipeline(t, dev, addShader(t))
	var wg sync.WaitGroup
	for g := range 8 {
		const count = 500
		x, y := newBuffer(t, dev, 4*count), newBuffer(t, dev, 4*count)
		a := newAdd(t, dev, p, count, g, x, y)
		wg.Go(func() {
			for round := range 10 {
				data := random(uint64(g*100+round), 4*count)
				got := make([]byte, 4*count)
				err := x.Write(0, data)
				for range 20 {
					err = errors.Join(err, dev.Submit(t.Context(), a.dispatch))
				}
				err = errors.Join(err, y.Read(t.Context(), 0, got))
				if err != nil {
					t.Error(err)
					return
				}
				for i, w := range words(data) {
					if words(got)[i] != w+uint32(g) {
						t.Errorf("goroutine %d, round %d: word %d is %d, want %d", g, round, i, words(got)[i], w+uint32(g))
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// Maps and submits while the collector runs all the time: nothing that the
// implementation points to may be Go memory that moves or goes.
func testGarbageCollection(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	p := newPipeline(t, dev, addShader(t))
	const count = 16
	x, y := newBuffer(t, dev, 4*count), newBuffer(t, dev, 4*count)
	a := newAdd(t, dev, p, count, 1, x, y)
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for round := range rounds {
		goruntime.GC()
		err := errors.Join(x.Write(0, random(uint64(round), 4*count)), dev.Submit(t.Context(), a.dispatch))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := readWords(t, y)[3], words(random(uint64(round), 4*count))[3]+1; got != want {
			t.Fatalf("round %d: %d, want %d", round, got, want)
		}
	}
}

// The cache compiles once, is bounded, and forgets what was used longest ago.
func testPipelineCache(t *testing.T, _ gpu.Driver, dev gpu.Device) {
	cache := gpu.NewPipelines(dev, 2)
	use := func(label string) gpu.Pipeline {
		t.Helper()
		s := addShader(t)
		s.Label = label
		var got gpu.Pipeline
		if err := cache.Use(t.Context(), func(p ...gpu.Pipeline) error { got = p[0]; return nil }, s); err != nil {
			t.Fatal(err)
		}
		return got
	}
	a := use("a")
	if use("a") != a {
		t.Error("compiled twice")
	}
	b := use("b")
	if use("a") != a || a == b {
		t.Error("a and b are mixed up")
	}
	use("c") // b goes
	if use("a") != a || cache.Len() != 2 {
		t.Errorf("%d pipelines, or a is gone, want 2 with a", cache.Len())
	}
	if err := dev.Submit(t.Context(), gpu.Dispatch{Pipeline: b}); !errors.Is(err, gpu.ErrClosed) {
		t.Errorf("the pipeline that went: %v, want ErrClosed", err)
	}
	if err := cache.Close(); err != nil || cache.Len() != 0 {
		t.Errorf("%d pipelines after Close, %v", cache.Len(), err)
	}
	want := errors.New("from f")
	if err := cache.Use(t.Context(), func(...gpu.Pipeline) error { return want }, addShader(t)); !errors.Is(err, want) {
		t.Errorf("f's error came back as %v", err)
	}
	if err := cache.Close(); err != nil {
		t.Error(err)
	}
}

func testClose(t *testing.T, driver gpu.Driver, _ gpu.Device) {
	for range 5 {
		dev := Open(t, driver)
		b := must(dev.NewBuffer("kept", 16))(t)
		p := must(dev.NewPipeline(t.Context(), addShader(t)))(t)
		gone := must(dev.NewBuffer("closed", 16))(t)
		for range 2 {
			if err := gone.Close(); err != nil {
				t.Errorf("closing a buffer: %v", err)
			}
		}
		if err := gone.Write(0, make([]byte, 4)); !errors.Is(err, gpu.ErrClosed) {
			t.Errorf("writing a closed buffer: %v, want ErrClosed", err)
		}
		for range 2 {
			if err := dev.Close(); err != nil {
				t.Errorf("closing the device: %v", err)
			}
		}
		_, bufferErr := dev.NewBuffer("late", 4)
		_, pipelineErr := dev.NewPipeline(t.Context(), addShader(t))
		for name, err := range map[string]error{
			"NewBuffer":   bufferErr,
			"NewPipeline": pipelineErr,
			"Submit":      dev.Submit(t.Context()),
			"Wait":        dev.Wait(t.Context()),
			"Write":       b.Write(0, make([]byte, 4)),
			"Read":        b.Read(t.Context(), 0, make([]byte, 4)),
		} {
			if !errors.Is(err, gpu.ErrClosed) {
				t.Errorf("%s after Close: %v, want ErrClosed", name, err)
			}
		}
		if err := errors.Join(b.Close(), p.Close()); err != nil {
			t.Errorf("closing what the device made, after it: %v", err)
		}
	}
}

// Benchmark measures the host's time for one dispatch that does next to nothing:
// queued among many, and waited for by itself.
func Benchmark(b *testing.B, driver gpu.Driver) {
	dev := Open(b, driver)
	d := newAdd(b, dev, newPipeline(b, dev, addShader(b)), 1, 1, newBuffer(b, dev, 4), newBuffer(b, dev, 4)).dispatch
	submit := func(b *testing.B) {
		if err := dev.Submit(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
	wait := func(b *testing.B) {
		if err := dev.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("queued", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			submit(b)
		}
		b.StopTimer()
		wait(b)
	})
	b.Run("queued and ended", func(b *testing.B) {
		b.ReportAllocs()
		for i := 1; b.Loop(); i++ {
			submit(b)
			if i%200 == 0 {
				wait(b)
			}
		}
		wait(b)
	})
	b.Run("waited for", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			submit(b)
			wait(b)
		}
	})
}
