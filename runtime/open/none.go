//go:build !js && !(cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64)))

package open

import (
	"context"
	"fmt"

	gpu "github.com/wgemm/wgemm/runtime"
)

var driver gpu.Driver = none{}

// none is the driver of a build without cgo, or for a system for which
// wgpu-native has no library here.
type none struct{}

var errNone = fmt.Errorf("a GPU driver is %w in this build: it needs cgo, on linux/amd64, darwin or windows/amd64", gpu.ErrUnsupported)

func (none) Name() string                                          { return "none" }
func (none) Adapters(context.Context) ([]gpu.Adapter, error)       { return nil, errNone }
func (none) Open(context.Context, gpu.Adapter) (gpu.Device, error) { return nil, errNone }
