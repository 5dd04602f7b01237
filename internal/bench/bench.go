// Package bench measures how long work on a device takes. Products have their
// matrices on the device: upload and read-back are not in it.
package bench

import (
	"context"
	"slices"
	"time"

	"github.com/wgemm/wgemm/gemm"
)

const (
	// batchTime is how long the turns of one batch take together: many times the
	// clock's step, also in a page, and far more than a wait costs.
	batchTime = 200 * time.Millisecond
	// batches are measured, and their median counts.
	batches = 5
	// maxRepeats bounds the turns queued before a wait.
	maxRepeats = 200
)

// Work is what is measured.
type Work struct {
	Queue func(turn int) error // queues it once; turns are counted from 0
	Wait  func() error         // blocks until all that was queued has ended
}

// Product is the work of C = A B as planned.
func Product(ctx context.Context, e *gemm.Engine, p gemm.Plan, c, a, b *gemm.DeviceMatrix) Work {
	return Work{
		Queue: func(int) error { return e.Run(ctx, p, c, a, b) },
		Wait:  func() error { return e.Wait(ctx) },
	}
}

// A Measurement is the time of one turn: the median, the least and the most of
// several batches of Repeats turns with one wait at the end.
type Measurement struct {
	Median, Least, Most time.Duration
	Repeats             int
}

// GFLOPS is 2 m n k / the median, in 10^9 a second.
func (m Measurement) GFLOPS(p gemm.Plan) float64 {
	return 2 * float64(p.Batch) * float64(p.M) * float64(p.N) * float64(p.K) / m.Median.Seconds() / 1e9
}

// Measure times each work. They take turns, batch by batch, so that what slows
// the machine down slows all of them. The first run of each, which compiles, and
// its first batch are dropped.
func Measure(works ...Work) ([]Measurement, error) {
	running := make([]running, len(works))
	for i, w := range works {
		r := &running[i]
		r.work, r.batchTime = w, batchTime
		if _, err := r.batch(1); err != nil {
			return nil, err
		}
		once, err := r.batch(1)
		if err != nil {
			return nil, err
		}
		r.fill(once)
	}
	for n := range batches + 1 {
		for i := range running {
			r := &running[i]
			took, err := r.batch(r.repeats)
			switch {
			case err != nil:
				return nil, err
			case n == 0:
				r.fill(took)
			default:
				r.times = append(r.times, took)
			}
		}
	}
	out := make([]Measurement, len(works))
	for i, r := range running {
		slices.Sort(r.times)
		out[i] = Measurement{Median: r.times[batches/2], Least: r.times[0], Most: r.times[batches-1], Repeats: r.repeats}
	}
	return out, nil
}

// running is a work that is being measured.
type running struct {
	work      Work
	batchTime time.Duration // how long a batch is to take
	turn      int
	repeats   int             // turns in a batch
	times     []time.Duration // of one turn, for each batch
}

// Time is that of a turn in the next batch, whose turns it sets.
func (r *running) Time() (time.Duration, error) {
	took, err := r.batch(r.repeats)
	r.fill(took)
	return took, err
}

// batch returns the time of a turn, in a batch of count.
func (r *running) batch(count int) (time.Duration, error) {
	start := time.Now()
	for range count {
		if err := r.work.Queue(r.turn); err != nil {
			return 0, err
		}
		r.turn++
	}
	err := r.work.Wait()
	return time.Since(start) / time.Duration(count), err
}

// fill sets how many turns go into a batch, when one takes so long.
func (r *running) fill(once time.Duration) {
	r.repeats = int(min(max(r.batchTime/max(once, 1), 1), maxRepeats))
}
