// Package bench measures how long products take, with their matrices on the
// device: upload and read-back are not in it.
package bench

import (
	"context"
	"slices"
	"time"

	"github.com/wgemm/wgemm/gemm"
)

const (
	// batchTime is how long the products of one batch take together: many times
	// the clock's step, also in a page, and far more than a wait costs.
	batchTime = 200 * time.Millisecond
	// batches are measured, and their median counts.
	batches = 5
	// maxRepeats bounds the products queued before a wait.
	maxRepeats = 200
)

// A Measurement is the time of one product: the median, the least and the most
// of several batches of Repeats products with one wait at the end.
type Measurement struct {
	Median, Least, Most time.Duration
	Repeats             int
}

// GFLOPS is 2 m n k / the median, in 10^9 a second.
func (m Measurement) GFLOPS(p gemm.Plan) float64 {
	return 2 * float64(p.Batch) * float64(p.M) * float64(p.N) * float64(p.K) / m.Median.Seconds() / 1e9
}

// Measure times C = A B as planned. The first run, which compiles, and a second
// that tells how many go into a batch, are dropped.
func Measure(ctx context.Context, e *gemm.Engine, p gemm.Plan, c, a, b *gemm.DeviceMatrix) (Measurement, error) {
	products := func(count int) (time.Duration, error) {
		start := time.Now()
		for range count {
			if err := e.Run(ctx, p, c, a, b); err != nil {
				return 0, err
			}
		}
		err := e.Wait(ctx)
		return time.Since(start), err
	}
	if _, err := products(1); err != nil {
		return Measurement{}, err
	}
	once, err := products(1)
	if err != nil {
		return Measurement{}, err
	}
	m := Measurement{Repeats: int(min(max(batchTime/max(once, 1), 1), maxRepeats))}
	var times []time.Duration
	for range batches {
		took, err := products(m.Repeats)
		if err != nil {
			return Measurement{}, err
		}
		times = append(times, took/time.Duration(m.Repeats))
	}
	slices.Sort(times)
	m.Median, m.Least, m.Most = times[batches/2], times[0], times[batches-1]
	return m, nil
}
