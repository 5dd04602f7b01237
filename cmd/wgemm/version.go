package main

import (
	"fmt"
	goruntime "runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wgemm %s %s %s/%s\n", version(), goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
			return err
		},
	}
}

// version is the module's, or the revision of a build without one.
func version() string {
	const none = "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return none
	}
	if v := info.Main.Version; v != "" && v != none {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return none
}
