//go:build js

package browser

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"syscall/js"

	gpu "github.com/wgemm/wgemm/runtime"
)

// Driver is navigator.gpu.
type Driver struct{}

var _ gpu.Driver = (*Driver)(nil)

// New returns the driver. It looks for navigator.gpu only when it is used.
func New() *Driver { return &Driver{} }

// Name is "browser".
func (*Driver) Name() string { return "browser" }

// Adapters lists the adapters that navigator.gpu gives out: its default one,
// and those for high performance and low power where they are others.
func (*Driver) Adapters(ctx context.Context) ([]gpu.Adapter, error) {
	found, err := adapters(ctx, js.Global())
	if err != nil {
		return nil, err
	}
	list := make([]gpu.Adapter, len(found))
	for i, f := range found {
		list[i] = f.described
	}
	return list, nil
}

// Open opens a device on the adapter.
func (*Driver) Open(ctx context.Context, a gpu.Adapter) (gpu.Device, error) {
	// An adapter of WebGPU makes one device and no second, so that it is asked
	// for again.
	found, err := adapters(ctx, js.Global())
	if err != nil {
		return nil, err
	}
	if a.Index < 0 || a.Index >= len(found) || found[a.Index].described.Name != a.Name {
		return nil, fmt.Errorf("%w: no adapter %d named %q", gpu.ErrNoAdapter, a.Index, a.Name)
	}
	return open(ctx, found[a.Index])
}

type adapter struct {
	described gpu.Adapter
	js        js.Value // GPUAdapter
}

// adapters asks the WebGPU of global, which is globalThis outside tests.
func adapters(ctx context.Context, global js.Value) ([]adapter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	webgpu, err := implementation(global)
	if err != nil {
		return nil, err
	}
	var found []adapter
	var refused error
	for _, options := range []map[string]any{
		nil,
		{"powerPreference": "high-performance"},
		{"powerPreference": "low-power"},
	} {
		v, err := await(ctx, webgpu.Call("requestAdapter", options))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			refused = err
			continue
		}
		if v.IsNull() {
			continue
		}
		a := describe(v)
		// Dawn's Null adapter accepts every call and computes nothing.
		known := a.Name == "null-backend" || slices.ContainsFunc(found, func(f adapter) bool {
			other := f.described
			other.Index = a.Index
			return reflect.DeepEqual(other, a)
		})
		if !known {
			a.Index = len(found)
			found = append(found, adapter{a, v})
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	reason := "WebGPU is here, but has no GPU to run on"
	if refused != nil {
		reason = refused.Error()
	}
	return nil, fmt.Errorf("%w: %s: turn on hardware acceleration, install the GPU's driver, "+
		"or start Chromium with --enable-unsafe-webgpu for a software adapter", gpu.ErrNoAdapter, reason)
}

// implementation returns navigator.gpu.
func implementation(global js.Value) (js.Value, error) {
	if secure := global.Get("isSecureContext"); secure.Type() == js.TypeBoolean && !secure.Bool() {
		return js.Undefined(), fmt.Errorf("%w: WebGPU is only in a secure context: "+
			"load the page over https or from localhost", gpu.ErrUnsupported)
	}
	navigator := global.Get("navigator")
	if !navigator.Truthy() || !navigator.Get("gpu").Truthy() {
		return js.Undefined(), fmt.Errorf("%w: navigator.gpu is absent: "+
			"use a browser with WebGPU, or in Node the package webgpu", gpu.ErrUnsupported)
	}
	return navigator.Get("gpu"), nil
}

func describe(v js.Value) gpu.Adapter {
	info := v.Get("info")
	if !info.Truthy() {
		info = js.Global().Get("Object").New() // the browser says nothing about it
	}
	text := func(name string) string {
		if s := info.Get(name); s.Type() == js.TypeString {
			return s.String()
		}
		return ""
	}
	vendor, architecture, device, description := text("vendor"), text("architecture"), text("device"), text("description")
	a := gpu.Adapter{
		Driver:   "browser",
		Name:     device,
		Vendor:   vendor,
		Backend:  "WebGPU",
		Version:  description,
		Type:     gpu.UnknownType,
		Features: features(v),
		Limits:   limits(v),
	}
	if a.Name == "" {
		// Browsers keep the device's name to themselves.
		a.Name = strings.TrimSpace(vendor + " " + architecture)
	}
	// The mark moved from the adapter to its info.
	fallback := info.Get("isFallbackAdapter").Truthy() || v.Get("isFallbackAdapter").Truthy()
	if fallback || gpu.IsSoftware(strings.Join([]string{vendor, architecture, device, description}, " ")) {
		a.Type = gpu.Software
	}
	return a
}

// features returns the features of a GPUAdapter or GPUDevice, sorted.
func features(v js.Value) []string {
	set := js.Global().Get("Array").Call("from", v.Get("features"))
	names := make([]string, set.Length())
	for i := range names {
		names[i] = set.Index(i).String()
	}
	slices.Sort(names)
	return names
}

// limits returns the limits of a GPUAdapter or GPUDevice.
func limits(v js.Value) gpu.Limits {
	var l gpu.Limits
	from := v.Get("limits")
	fields := reflect.ValueOf(&l).Elem()
	for i, name := range limitNames() {
		fields.Field(i).SetUint(uint64(from.Get(name).Float()))
	}
	// Buffers are whole words, and some implementations grant 2³²-1 bytes.
	l.MaxBufferSize &^= 3
	l.MaxStorageBufferBindingSize &^= 3
	return l
}

// limitNames returns WebGPU's names for the fields of gpu.Limits, in order.
func limitNames() []string {
	t := reflect.TypeFor[gpu.Limits]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("json")
	}
	return names
}
