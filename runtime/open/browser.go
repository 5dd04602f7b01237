//go:build js

package open

import (
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/browser"
)

var driver gpu.Driver = browser.New()
