//go:build cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64))

package wgpu

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	gpu "github.com/wgemm/wgemm/runtime"
)

// Driver opens devices of wgpu-native. The zero value is ready.
type Driver struct{}

var _ gpu.Driver = Driver{}

// newInstance is a connection to the graphics system, which the caller releases.
// Each device has its own: wgpu-native 0.17 keeps a released device, with its
// memory, for as long as the instance it came from lives.
func newInstance() *wgpu.Instance {
	anchor()
	return createInstance()
}

// anchor is an instance that lives as long as the process. With the last one the
// Vulkan loader unloads the graphics drivers, and a thread that lavapipe has not
// ended yet then runs into nothing.
var anchor = sync.OnceValue(createInstance)

func createInstance() *wgpu.Instance {
	// Everything that is logged also arrives as an error.
	wgpu.SetLogLevel(wgpu.LogLevel_Off)
	return wgpu.CreateInstance(&wgpu.InstanceDescriptor{Backends: backends})
}

// backends leaves out OpenGL, whose start-up prints to stderr.
const backends = wgpu.InstanceBackend_Vulkan | wgpu.InstanceBackend_Metal | wgpu.InstanceBackend_DX12

// Name implements gpu.Driver.
func (Driver) Name() string { return "wgpu" }

// Adapters implements gpu.Driver.
func (Driver) Adapters(context.Context) ([]gpu.Adapter, error) {
	handles := enumerate(anchor())
	defer release(handles)
	if len(handles) == 0 {
		return nil, fmt.Errorf("wgpu: %w: %s", gpu.ErrNoAdapter, advice())
	}
	adapters := make([]gpu.Adapter, len(handles))
	for i, h := range handles {
		adapters[i] = describe(i, h)
	}
	return adapters, nil
}

func enumerate(instance *wgpu.Instance) []*wgpu.Adapter {
	return instance.EnumerateAdapters(&wgpu.InstanceEnumerateAdapterOptons{Backends: backends})
}

func release(adapters []*wgpu.Adapter) {
	for _, a := range adapters {
		a.Release()
	}
}

// advice is what to install where no adapter was found.
func advice() string {
	if goruntime.GOOS == "linux" {
		return "install the Vulkan loader and a Vulkan driver (Debian: libvulkan1, and your GPU's driver or mesa-vulkan-drivers)"
	}
	return "install a current driver for your graphics card"
}

func describe(index int, h *wgpu.Adapter) gpu.Adapter {
	p := h.GetProperties()
	a := gpu.Adapter{
		Driver:   Driver{}.Name(),
		Index:    index,
		Name:     p.Name,
		Vendor:   fmt.Sprintf("0x%04x", p.VendorId),
		Backend:  p.BackendType.String(),
		Version:  p.DriverDescription,
		Features: []string{},
		Limits:   limits(h.GetLimits().Limits),
	}
	switch {
	case p.AdapterType == wgpu.AdapterType_CPU || gpu.IsSoftware(p.Name):
		a.Type = gpu.Software
	case p.AdapterType == wgpu.AdapterType_DiscreteGPU:
		a.Type = gpu.DiscreteGPU
	case p.AdapterType == wgpu.AdapterType_IntegratedGPU:
		a.Type = gpu.IntegratedGPU
	default:
		a.Type = gpu.UnknownType
	}
	// No features: wgpu-native 0.17 reports shader-f16, but its WGSL compiler
	// has no f16, and timestamp-query, but not the length of a tick.
	return a
}

// maxBufferSize bounds what is asked for, far above any device's memory. NVIDIA
// states 2^64 - 1, which is webgpu.h's value for a limit that is not asked for:
// the device then has the default of 256 MiB.
const maxBufferSize = 1 << 40

func limits(l wgpu.Limits) gpu.Limits {
	return gpu.Limits{
		MaxBufferSize:                     min(l.MaxBufferSize, maxBufferSize),
		MaxStorageBufferBindingSize:       l.MaxStorageBufferBindingSize,
		MaxUniformBufferBindingSize:       l.MaxUniformBufferBindingSize,
		MaxStorageBuffersPerShaderStage:   l.MaxStorageBuffersPerShaderStage,
		MaxComputeWorkgroupStorageSize:    l.MaxComputeWorkgroupStorageSize,
		MaxComputeInvocationsPerWorkgroup: l.MaxComputeInvocationsPerWorkgroup,
		MaxComputeWorkgroupSizeX:          l.MaxComputeWorkgroupSizeX,
		MaxComputeWorkgroupSizeY:          l.MaxComputeWorkgroupSizeY,
		MaxComputeWorkgroupSizeZ:          l.MaxComputeWorkgroupSizeZ,
		MaxComputeWorkgroupsPerDimension:  l.MaxComputeWorkgroupsPerDimension,
	}
}

// Open implements gpu.Driver.
func (Driver) Open(ctx context.Context, a gpu.Adapter) (gpu.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	instance := newInstance()
	dev, err := openDevice(instance, a)
	if err != nil {
		instance.Release()
		return nil, fmt.Errorf("wgpu: %w", err)
	}
	return newDevice(a, instance, dev), nil
}

func openDevice(instance *wgpu.Instance, a gpu.Adapter) (*wgpu.Device, error) {
	handles := enumerate(instance)
	defer release(handles)
	if a.Index < 0 || a.Index >= len(handles) {
		return nil, fmt.Errorf("%w: adapter %d of %d", gpu.ErrNoAdapter, a.Index, len(handles))
	}
	h := handles[a.Index]
	if got := describe(a.Index, h); got.Name != a.Name {
		return nil, fmt.Errorf("%w: adapter %d is now %q, was %q", gpu.ErrNoAdapter, a.Index, got.Name, a.Name)
	}
	// Without a request the device has WebGPU's defaults, whatever the adapter.
	all := wgpu.RequiredLimits{Limits: h.GetLimits().Limits}
	all.Limits.MaxBufferSize = min(all.Limits.MaxBufferSize, maxBufferSize)
	if dev, err := h.RequestDevice(&wgpu.DeviceDescriptor{Label: "wgemm", RequiredLimits: &all}); err == nil {
		return dev, nil
	}
	dev, err := h.RequestDevice(nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	return dev, nil
}
