package main

import (
	"context"
	"errors"
	"fmt"
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
	flagged func(flag string) bool
}

const cpuName = "cpu"

// deviceNames are the values of --device.
var deviceNames = []string{"auto", "wgpu", "browser", cpuName}

func (c *deviceChoice) flags(cmd *cobra.Command) {
	c.flagged = func(flag string) bool { return cmd.Flags().Changed(flag) }
	cmd.Flags().StringVar(&c.device, "device", orElse(os.Getenv("WGEMM_DEVICE"), "auto"),
		"where to compute: "+strings.Join(deviceNames, ", ")+" (env WGEMM_DEVICE); auto takes a GPU, else a software adapter, else the CPU")
	cmd.Flags().StringVar(&c.adapter, "adapter", os.Getenv("WGEMM_ADAPTER"),
		"take an adapter with this in its name (env WGEMM_ADAPTER)")
	complete(cmd, "device", deviceNames...)
}

// name is how the user gave a choice: the flag, or the variable it comes from.
func (c deviceChoice) name(flag, variable string) string {
	if c.flagged(flag) {
		return "--" + flag
	}
	return variable
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

	note string     // what a user should know of the choice, "" for nothing
	dev  gpu.Device // the engine's; nil for the CPU path
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
		if c.flagged("adapter") {
			return nil, place{}, usagef("--adapter %q: the CPU path has no adapters", c.adapter)
		}
		return gemm.NewCPU(), place{Device: cpuName, Reason: "asked for"}, nil
	case "auto", driver.Name():
		dev, choice, err := open.Device(ctx, c.adapter)
		switch {
		case err == nil:
			a := dev.Adapter()
			where := place{Device: driver.Name(), Adapter: &a, Reason: choice.Reason, dev: dev}
			if c.device == "auto" && a.Type == gpu.Software {
				where.note = fmt.Sprintf("%s is a software adapter, taken because %s; shaders run on the CPU, and --device cpu may be faster", a.Name, choice.Reason)
			}
			return gemm.New(dev), where, nil
		case c.device == "auto" && c.adapter == "" && (errors.Is(err, gpu.ErrNoAdapter) || errors.Is(err, gpu.ErrUnsupported)):
			return gemm.NewCPU(), place{Device: cpuName, Reason: err.Error(), note: "computing on the CPU: " + err.Error()}, nil
		}
		return nil, place{}, err
	case "wgpu", "browser":
		return nil, place{}, fmt.Errorf("%s %s: %w in this build", c.name("device", "WGEMM_DEVICE"), c.device, gpu.ErrUnsupported)
	}
	return nil, place{}, usagef("%s %q: want one of %s", c.name("device", "WGEMM_DEVICE"), c.device, strings.Join(deviceNames, ", "))
}

// openAdapter is open where the CPU path does not do; otherwise says why.
func (c deviceChoice) openAdapter(ctx context.Context, otherwise string) (*gemm.Engine, place, error) {
	if c.device == cpuName {
		return nil, place{}, usagef("%s %s: %s", c.name("device", "WGEMM_DEVICE"), cpuName, otherwise)
	}
	engine, where, err := c.open(ctx)
	if err != nil || where.Adapter != nil {
		return engine, where, err
	}
	c.device = open.Driver().Name()
	_, _, err = c.open(ctx) // which says what to install
	return nil, place{}, fmt.Errorf("%s: %w", otherwise, err)
}
