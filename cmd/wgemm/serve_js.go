package main

import (
	"fmt"

	"github.com/spf13/cobra"

	gpu "github.com/wgemm/wgemm/runtime"
)

// newServeCmd is here so that the help and its errors are the same everywhere:
// a WASM program cannot listen.
func newServeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Serve the page that multiplies matrices in the browser (not in this build)",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("serve: %w in this build, which is WebAssembly: it needs a native one", gpu.ErrUnsupported)
		},
	}
}
