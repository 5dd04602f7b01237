package products

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wgemm/wgemm/gemm"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

// A recorder keeps the first dispatches that are submitted.
type recorder struct {
	gpu.Device
	first []gpu.Dispatch
}

func (r *recorder) Submit(ctx context.Context, ds ...gpu.Dispatch) error {
	if r.first == nil {
		r.first = slices.Clone(ds)
	}
	return r.Device.Submit(ctx, ds...)
}

// BenchmarkCall compares a product, run and waited for, with its dispatch alone,
// submitted to the same driver and waited for: rounds of both in turn, the median
// of each. It reports the product's time over the dispatch's as "call/dispatch".
func BenchmarkCall(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			dev := &recorder{Device: runtimetest.Open(b, open.Driver())}
			b.Logf("adapter: %s", dev.Adapter())
			e := gemm.New(dev)
			defer e.Close()
			var ms [3]*gemm.DeviceMatrix
			for i := range ms {
				var err error
				if ms[i], err = e.NewMatrix(gemm.F32, n, n); err != nil {
					b.Fatal(err)
				}
			}
			plan, err := e.Plan(ms[0], ms[1], ms[2])
			if err != nil {
				b.Fatal(err)
			}
			call := func() error { return e.Run(b.Context(), plan, ms[0], ms[1], ms[2]) }
			if err := call(); err != nil { // compiles
				b.Fatal(err)
			}
			dispatch := func() error { return dev.Device.Submit(b.Context(), dev.first...) }
			turn := func(queue func() error) time.Duration {
				start := time.Now()
				for range 20 {
					if err := queue(); err != nil {
						b.Fatal(err)
					}
					if err := dev.Wait(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				return time.Since(start) / 20
			}
			var calls, dispatches []time.Duration
			for b.Loop() {
				calls, dispatches = append(calls, turn(call)), append(dispatches, turn(dispatch))
			}
			slices.Sort(calls)
			slices.Sort(dispatches)
			middle := len(calls) / 2
			b.ReportMetric(float64(calls[middle])/float64(dispatches[middle]), "call/dispatch")
			b.ReportMetric(float64(dispatches[middle].Nanoseconds())/1e3, "µs/dispatch")
			b.ReportMetric(0, "ns/op") // of a round, which tells nothing
		})
	}
}
