//go:build js

package main

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"syscall/js"
	"testing"
	"time"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

//go:embed testdata/plain.js
var plainDriver string

// await returns what a promise resolves to.
func await(b *testing.B, promise js.Value) js.Value {
	b.Helper()
	done, failed := make(chan js.Value, 1), make(chan js.Value, 1)
	resolve := js.FuncOf(func(_ js.Value, args []js.Value) any { done <- args[0]; return nil })
	reject := js.FuncOf(func(_ js.Value, args []js.Value) any { failed <- args[0]; return nil })
	defer resolve.Release()
	defer reject.Release()
	promise.Call("then", resolve, reject)
	select {
	case v := <-done:
		return v
	case v := <-failed:
		b.Fatal(v.Call("toString").String())
		panic("unreachable")
	}
}

// BenchmarkOverhead compares the time of products through Go with that of the
// same dispatches by plain JavaScript, side by side: rounds of both in turn, the
// median of each. It reports Go's time over JavaScript's as "go/js".
//
//	GOOS=js GOARCH=wasm go test -run='^$' -bench=Overhead -exec="node --stack-size=8192 $PWD/tests/dawn/run.mjs" ./wasm/worker
func BenchmarkOverhead(b *testing.B) {
	for _, n := range []int{64, 256, 512} {
		b.Run(fmt.Sprintf("gemm_tiled/m=%d,n=%d,k=%d", n, n, n), func(b *testing.B) {
			dev := runtimetest.Open(b, open.Driver())
			b.Logf("adapter: %s", dev.Adapter())
			e := gemm.New(dev)
			defer e.Close()
			a, err := e.NewMatrix(gemm.F32, n, n)
			if err != nil {
				b.Fatal(err)
			}
			c, err := e.NewMatrix(gemm.F32, n, n)
			if err != nil {
				b.Fatal(err)
			}
			plan, err := e.Plan(c, a, a, gemm.WithKernel("gemm_tiled", nil))
			if err != nil {
				b.Fatal(err)
			}
			words := []uint32{uint32(n), uint32(n), uint32(n)}
			for range 3 { // A, B and C: offset, row, column and batch strides
				words = append(words, 0, uint32(n), 1, 0)
			}
			words = append(words, 0, 0, 0, 0, math.Float32bits(1), 0) // no bias, alpha, beta
			shape := js.Global().Get("Uint32Array").New(len(words))
			for i, w := range words {
				shape.SetIndex(i, w)
			}
			size := 4 * n * n
			plain := await(b, js.Global().Call("eval", plainDriver).Invoke(plan.Variant.Source, shape,
				[]any{size, size, size}, []any{plan.Grid[0], plan.Grid[1], 1}))
			inGo := func(repeats int) float64 {
				start := time.Now()
				for range repeats {
					if err := e.Run(b.Context(), plan, c, a, a); err != nil {
						b.Fatal(err)
					}
				}
				if err := e.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				return float64(time.Since(start).Microseconds()) / 1e3
			}
			inJS := func(repeats int) float64 { return await(b, plain.Invoke(repeats)).Float() }
			inGo(1) // compiles
			repeats := max(1, int(100/max(inJS(1), 0.1)))
			for b.Loop() {
				var goTimes, jsTimes []float64
				for range 15 {
					jsTimes = append(jsTimes, inJS(repeats))
					goTimes = append(goTimes, inGo(repeats))
				}
				slices.Sort(goTimes)
				slices.Sort(jsTimes)
				b.ReportMetric(goTimes[7]/jsTimes[7], "go/js")
				b.ReportMetric(jsTimes[7]/float64(repeats), "ms/dispatch")
			}
		})
	}
}
