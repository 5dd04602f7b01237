package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/open"
)

func newInfoCmd() *cobra.Command {
	var where deviceChoice
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info",
		Short: "List the adapters, and which one is taken and why",
		Long: `List every adapter that the driver of this build finds, with its type, driver,
features and limits, and say which one would be taken and why.`,
		Example: `  wgemm info
  wgemm info --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return info(cmd.Context(), cmd.OutOrStdout(), where, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	where.flags(cmd)
	return cmd
}

type infoReport struct {
	Driver   string        `json:"driver"`
	Adapters []gpu.Adapter `json:"adapters"`
	Takes    place         `json:"takes"`
}

func info(ctx context.Context, stdout io.Writer, where deviceChoice, asJSON bool) error {
	r := infoReport{Driver: open.Driver().Name(), Adapters: []gpu.Adapter{}}
	adapters, err := open.Driver().Adapters(ctx)
	switch {
	case err == nil:
		r.Adapters = adapters
	case !errors.Is(err, gpu.ErrNoAdapter) && !errors.Is(err, gpu.ErrUnsupported):
		return err
	}
	engine, takes, err := where.open(ctx)
	if err != nil {
		return err
	}
	defer engine.Close()
	r.Takes = takes
	if asJSON {
		return printJSON(stdout, r)
	}
	var out strings.Builder
	for i, a := range r.Adapters {
		fmt.Fprintf(&out, "adapter %d: %s\n", i, a.Name)
		fmt.Fprintf(&out, "  type      %s\n", a.Type)
		fmt.Fprintf(&out, "  graphics  %s, %s, vendor %s, through %s\n", a.Backend, a.Version, a.Vendor, a.Driver)
		fmt.Fprintf(&out, "  features  %s\n", orElse(strings.Join(a.Features, ", "), "none that wgemm uses"))
		fmt.Fprintf(&out, "  limits    buffer %s, binding %s, workgroup memory %s\n",
			size(a.Limits.MaxBufferSize), size(a.Limits.MaxStorageBufferBindingSize), size(uint64(a.Limits.MaxComputeWorkgroupStorageSize)))
		fmt.Fprintf(&out, "            %d invocations a workgroup (%d x %d x %d at most), %d workgroups an axis\n\n",
			a.Limits.MaxComputeInvocationsPerWorkgroup, a.Limits.MaxComputeWorkgroupSizeX, a.Limits.MaxComputeWorkgroupSizeY,
			a.Limits.MaxComputeWorkgroupSizeZ, a.Limits.MaxComputeWorkgroupsPerDimension)
	}
	fmt.Fprintf(&out, "takes %s: %s\n", r.Takes, r.Takes.Reason)
	_, err = io.WriteString(stdout, out.String())
	return err
}

// size is a number of bytes in the largest unit that leaves a whole number, or
// two decimals.
func size(n uint64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<u.shift {
			s := fmt.Sprintf("%.2f", float64(n)/float64(uint64(1)<<u.shift))
			return strings.TrimSuffix(s, ".00") + " " + u.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
