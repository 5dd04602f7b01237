package main

import (
	"fmt"
	goruntime "runtime"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/internal/version"
)

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wgemm %s %s %s/%s\n", version.String(), goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
			return err
		},
	}
}
