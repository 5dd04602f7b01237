package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/wgemm/wgemm/internal/bench"
	gpu "github.com/wgemm/wgemm/runtime"
)

// limitNames are the adapters that --limits knows by name.
var limitNames = []string{"default", "h200", "lavapipe"}

// knownAdapter is an adapter of limitNames, and false for another name.
func knownAdapter(name string) (gpu.Adapter, bool) {
	l := gpu.DefaultLimits()
	switch name {
	case "default":
		return gpu.Adapter{Driver: "any driver", Name: "a device with WebGPU's default limits", Type: gpu.UnknownType, Limits: l}, true
	case "h200": // wgemm info there, driver 580.159.04
		l.MaxBufferSize = 1 << 40 // states 2^64 - 1; what runtime/wgpu asks for
		l.MaxStorageBufferBindingSize = 1 << 31
		l.MaxStorageBuffersPerShaderStage = 1 << 20
		l.MaxComputeWorkgroupStorageSize = 48 << 10
		l.MaxComputeInvocationsPerWorkgroup = 1024
		l.MaxComputeWorkgroupSizeX, l.MaxComputeWorkgroupSizeY = 1024, 1024
		return gpu.Adapter{Driver: "wgpu", Name: "NVIDIA H200", Type: gpu.DiscreteGPU, Vendor: "0x10de", Backend: "Vulkan", Limits: l}, true
	case "lavapipe": // wgemm info on Mesa 25.0.7
		l.MaxBufferSize = 1<<31 - 1
		l.MaxStorageBuffersPerShaderStage = 1_000_000
		l.MaxComputeWorkgroupStorageSize = 32 << 10
		l.MaxComputeInvocationsPerWorkgroup = 1024
		l.MaxComputeWorkgroupSizeX, l.MaxComputeWorkgroupSizeY, l.MaxComputeWorkgroupSizeZ = 1024, 1024, 1024
		return gpu.Adapter{Driver: "wgpu", Name: "llvmpipe", Type: gpu.Software, Backend: "Vulkan", Limits: l}, true
	}
	return gpu.Adapter{}, false
}

// readAdapter reads --limits: a name, or a file with an adapter, its limits, or all
// that wgemm info --json prints, of which it is the adapter that is taken. What the
// file leaves out is WebGPU's default.
func readAdapter(text string) (gpu.Adapter, error) {
	if a, ok := knownAdapter(text); ok {
		return a, nil
	}
	data, err := os.ReadFile(text)
	if err != nil {
		return gpu.Adapter{}, usagef("--limits %q: want one of %s, or a file: %w", text, strings.Join(limitNames, ", "), err)
	}
	wrong := func(reason any) (gpu.Adapter, error) {
		return gpu.Adapter{}, usagef("--limits %s: %v", text, reason)
	}
	a, _ := knownAdapter("default")
	a.Name = text
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return wrong(fmt.Errorf("not JSON of an adapter or its limits: %w", err))
	}
	switch {
	case keys["takes"] != nil:
		takes := struct {
			Takes struct{ Adapter *gpu.Adapter }
		}{}
		takes.Takes.Adapter = &a
		if err := json.Unmarshal(data, &takes); err != nil {
			return wrong(err)
		}
		if takes.Takes.Adapter == nil {
			return wrong("wgemm info took no adapter")
		}
	case keys["limits"] != nil:
		err = json.Unmarshal(data, &a)
	case keys["maxBufferSize"] != nil:
		err = json.Unmarshal(data, &a.Limits)
	default:
		return wrong("holds neither an adapter nor its limits, as wgemm info --json prints them")
	}
	if err != nil {
		return wrong(err)
	}
	return a, nil
}

// An assumed roof is of hardware that was measured, and not of the device in use.
type assumedRoof struct {
	bench.Roof
	Source string `json:"source"`
}

// roofOf is the roof of an adapter by its name, nil for one that is not known.
func roofOf(a gpu.Adapter) *assumedRoof {
	if strings.Contains(a.Name, "H200") {
		return &assumedRoof{
			bench.Roof{FLOPS: 67e12, BytesPerSecond: 4.2e12},
			"an H200's 67 TFLOP/s of f32 by its data sheet and 4.2 TB/s of CUDA's copy as measured",
		}
	}
	return nil
}
