//go:build cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64))

package open

import (
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/wgpu"
)

var driver gpu.Driver = wgpu.Driver{}
