package runtime

import "strings"

// An Adapter describes a piece of hardware, or a software renderer, under one
// driver.
type Adapter struct {
	Driver   string      `json:"driver"`  // Driver.Name
	Index    int         `json:"index"`   // place in Driver.Adapters
	Name     string      `json:"name"`    // as the implementation calls it
	Vendor   string      `json:"vendor"`  // name, or PCI id in hexadecimal
	Backend  string      `json:"backend"` // "Vulkan", "Metal", "D3D12" or "WebGPU"
	Version  string      `json:"version"` // of the graphics driver, as far as it is told
	Type     AdapterType `json:"type"`
	Features []string    `json:"features"` // WebGPU's names, sorted
	Limits   Limits      `json:"limits"`
}

// AdapterType is what kind of processor an adapter is.
type AdapterType string

const (
	DiscreteGPU   AdapterType = "discrete GPU"
	IntegratedGPU AdapterType = "integrated GPU"
	Software      AdapterType = "software adapter" // shaders run on the CPU
	UnknownType   AdapterType = "unknown type"
)

// IsSoftware reports whether name is that of a renderer that runs shaders on
// the CPU. Implementations do not mark all of them: browsers give no type, and
// a renderer may call itself "other".
func IsSoftware(name string) bool {
	name = strings.ToLower(name)
	for _, s := range []string{"llvmpipe", "lavapipe", "swiftshader", "softpipe", "basic render"} {
		if strings.Contains(name, s) {
			return true
		}
	}
	return false
}

// String is the adapter in one line, for messages: a software adapter is
// called that.
func (a Adapter) String() string {
	name := a.Name
	if name == "" {
		name = "unnamed adapter"
	}
	s := name + " (" + string(a.Type)
	for _, part := range []string{a.Backend, a.Version} {
		if part != "" {
			s += ", " + part
		}
	}
	return s + ") through " + a.Driver
}

// Limits are the limits of WebGPU that a compute kernel can meet; the JSON
// names are WebGPU's own. Sizes are in bytes.
//
// Source: https://www.w3.org/TR/webgpu/#limits
type Limits struct {
	MaxBufferSize                     uint64 `json:"maxBufferSize"`
	MaxStorageBufferBindingSize       uint64 `json:"maxStorageBufferBindingSize"`
	MaxUniformBufferBindingSize       uint64 `json:"maxUniformBufferBindingSize"`
	MaxStorageBuffersPerShaderStage   uint32 `json:"maxStorageBuffersPerShaderStage"`
	MaxComputeWorkgroupStorageSize    uint32 `json:"maxComputeWorkgroupStorageSize"`
	MaxComputeInvocationsPerWorkgroup uint32 `json:"maxComputeInvocationsPerWorkgroup"`
	MaxComputeWorkgroupSizeX          uint32 `json:"maxComputeWorkgroupSizeX"`
	MaxComputeWorkgroupSizeY          uint32 `json:"maxComputeWorkgroupSizeY"`
	MaxComputeWorkgroupSizeZ          uint32 `json:"maxComputeWorkgroupSizeZ"`
	MaxComputeWorkgroupsPerDimension  uint32 `json:"maxComputeWorkgroupsPerDimension"`
}

// DefaultLimits are those that every WebGPU device grants.
func DefaultLimits() Limits {
	return Limits{
		MaxBufferSize:                     256 << 20,
		MaxStorageBufferBindingSize:       128 << 20,
		MaxUniformBufferBindingSize:       64 << 10,
		MaxStorageBuffersPerShaderStage:   8,
		MaxComputeWorkgroupStorageSize:    16 << 10,
		MaxComputeInvocationsPerWorkgroup: 256,
		MaxComputeWorkgroupSizeX:          256,
		MaxComputeWorkgroupSizeY:          256,
		MaxComputeWorkgroupSizeZ:          64,
		MaxComputeWorkgroupsPerDimension:  65535,
	}
}
