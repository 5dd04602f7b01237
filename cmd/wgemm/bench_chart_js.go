package main

import (
	"fmt"

	gpu "github.com/wgemm/wgemm/runtime"
)

// checkCharts refuses charts: fonts would make the program twice as large, and
// --json has what a native build can draw.
func (o *benchOptions) checkCharts([]shape) error {
	if o.plot == "" && o.roofline == "" {
		return nil
	}
	return fmt.Errorf("--plot and --roofline: %w in this build, which is WebAssembly: they need a native one", gpu.ErrUnsupported)
}

func (o *benchOptions) charts(benchReport, []series) error { return nil }
