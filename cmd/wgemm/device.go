package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/gemm"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/open"
)

// A deviceChoice is what the flags --device and --adapter say.
type deviceChoice struct {
	device  string // "auto", "cpu" or a driver's name
	adapter string // part of an adapter's name
}

const cpuName = "cpu"

// deviceNames are the values of --device.
var deviceNames = []string{"auto", "wgpu", "browser", cpuName}

func (c *deviceChoice) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.device, "device", orElse(os.Getenv("WGEMM_DEVICE"), "auto"),
		"where to compute: "+strings.Join(deviceNames, ", ")+" (env WGEMM_DEVICE); auto takes a GPU, else a software adapter, else the CPU")
	cmd.Flags().StringVar(&c.adapter, "adapter", os.Getenv("WGEMM_ADAPTER"),
		"take an adapter with this in its name (env WGEMM_ADAPTER)")
	if err := cmd.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is there: it was made above
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// A place is where the command computes.
type place struct {
	Device  string       `json:"device"`  // a driver's name, or "cpu"
	Adapter *gpu.Adapter `json:"adapter"` // null for the CPU path
	Reason  string       `json:"reason"`

	note string // what a user should know of the choice, "" for nothing
}

// noteTo prints the note, if there is one, as one line.
func (p place) noteTo(stderr io.Writer) {
	if p.note != "" {
		fmt.Fprintln(stderr, "wgemm: note:", p.note)
	}
}

func (p place) String() string {
	if p.Adapter == nil {
		return "the CPU path"
	}
	return p.Adapter.String()
}

func (p place) adapterName() string {
	if p.Adapter == nil {
		return ""
	}
	return p.Adapter.Name
}

// open makes an engine as chosen. A choice of auto that ends on a software
// adapter or the CPU is worth a note.
func (c deviceChoice) open(ctx context.Context) (*gemm.Engine, place, error) {
	driver := open.Driver()
	switch c.device {
	case cpuName:
		if c.adapter != "" {
			return nil, place{}, usagef("--adapter %q: the CPU path has no adapters", c.adapter)
		}
		return gemm.NewCPU(), place{Device: cpuName, Reason: "asked for"}, nil
	case "auto", driver.Name():
		dev, choice, err := open.Device(ctx, c.adapter)
		switch {
		case err == nil:
			a := dev.Adapter()
			where := place{Device: driver.Name(), Adapter: &a, Reason: choice.Reason}
			if c.device == "auto" && a.Type == gpu.Software {
				where.note = fmt.Sprintf("%s is a software adapter, taken because %s; shaders run on the CPU", a.Name, choice.Reason)
			}
			return gemm.New(dev), where, nil
		case c.device == "auto" && c.adapter == "" && (errors.Is(err, gpu.ErrNoAdapter) || errors.Is(err, gpu.ErrUnsupported)):
			return gemm.NewCPU(), place{Device: cpuName, Reason: err.Error(), note: "computing on the CPU: " + err.Error()}, nil
		}
		return nil, place{}, err
	case "wgpu", "browser":
		return nil, place{}, fmt.Errorf("--device %s: %w in this build, which has %s and %s", c.device, gpu.ErrUnsupported, driver.Name(), cpuName)
	}
	return nil, place{}, usagef("--device %q: want one of %s", c.device, strings.Join(deviceNames, ", "))
}
