// Package open picks the WebGPU driver of this build and an adapter under it.
package open

import (
	"context"
	"fmt"
	"strings"

	gpu "github.com/wgemm/wgemm/runtime"
)

// Driver is the driver of this build. In a build without one, all that it
// returns is an error that wraps gpu.ErrUnsupported.
func Driver() gpu.Driver { return driver }

// A Choice is an adapter and why it was taken.
type Choice struct {
	Adapter gpu.Adapter
	Reason  string
}

// Choose picks from adapters: one whose name contains substring, upper or
// lower case, and among those a discrete GPU before an integrated one, before
// one of unknown type, before a software adapter; the first of equals. It
// returns an error that wraps gpu.ErrNoAdapter if none fits.
func Choose(adapters []gpu.Adapter, substring string) (Choice, error) {
	best := -1
	for i, a := range adapters {
		if strings.Contains(strings.ToLower(a.Name), strings.ToLower(substring)) &&
			(best < 0 || rank(a) < rank(adapters[best])) {
			best = i
		}
	}
	if best < 0 {
		names := make([]string, len(adapters))
		for i, a := range adapters {
			names[i] = fmt.Sprintf("%q", a.Name)
		}
		return Choice{}, fmt.Errorf("%w with %q in its name; there are %s", gpu.ErrNoAdapter, substring, strings.Join(names, ", "))
	}
	c := Choice{Adapter: adapters[best]}
	switch {
	case substring != "":
		c.Reason = fmt.Sprintf("its name contains %q", substring)
	case len(adapters) == 1:
		c.Reason = "it is the only adapter"
	case c.Adapter.Type == gpu.Software:
		c.Reason = "there is no hardware adapter"
	default:
		c.Reason = "the first " + string(c.Adapter.Type)
	}
	return c, nil
}

func rank(a gpu.Adapter) int {
	switch a.Type {
	case gpu.DiscreteGPU:
		return 0
	case gpu.IntegratedGPU:
		return 1
	case gpu.Software:
		return 3
	default:
		return 2
	}
}

// Device opens the adapter that Choose picks under this build's driver.
func Device(ctx context.Context, substring string) (gpu.Device, Choice, error) {
	adapters, err := driver.Adapters(ctx)
	if err != nil {
		return nil, Choice{}, err
	}
	c, err := Choose(adapters, substring)
	if err != nil {
		return nil, Choice{}, err
	}
	dev, err := driver.Open(ctx, c.Adapter)
	return dev, c, err
}
