//go:build js

package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/bench"
)

// tooLong ends a series: larger products would keep the device from drawing
// the page, and make some systems reset it.
const tooLong = time.Second

// A series is one way to compute the products of a benchmark.
type series struct {
	Name    string
	options []gemm.Option
	last    time.Duration // of a product of the size before
	lastN   int
	ended   bool
}

type point struct {
	Size    int     `json:"size"`
	Series  string  `json:"series"`
	Variant string  `json:"variant"`
	Tuned   bool    `json:"tuned"` // the variant was measured as the fastest
	GFLOPS  float64 `json:"gflops"`
	Seconds float64 `json:"seconds"` // of one product
	Repeats int     `json:"repeats"` // of the batch it was measured in
	Done    int     `json:"done"`
	Total   int     `json:"total"`
	Note    string  `json:"note"` // why there is no result
}

// benchmark multiplies square matrices: {sizes: [n, ...], dtype}. Every point
// is a progress message.
func (s *session) benchmark(ctx context.Context, r request) (any, error) {
	sizes := r.data.Get("sizes")
	all := []*series{
		{Name: "gemm_naive", options: []gemm.Option{gemm.WithKernel("gemm_naive", nil)}},
		{Name: "gemm_tiled", options: []gemm.Option{gemm.WithKernel("gemm_tiled", nil)}},
		{Name: "planned"},
	}
	done, total := 0, sizes.Length()*len(all)
	for i := range sizes.Length() {
		n := sizes.Index(i).Int()
		if err := s.checkRoom(gemm.F32, n, n, n); err != nil {
			return nil, err
		}
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		host, err := random(ctx, rng, n, n, func(v float32) float32 { return v })
		if err != nil {
			return nil, err
		}
		if err := s.measureSize(ctx, host, all, func(p point) {
			done++
			p.Size, p.Done, p.Total = n, done, total
			r.progress(p)
		}); err != nil {
			return nil, err
		}
	}
	return struct{}{}, nil
}

// measureSize measures every series on A A.
func (s *session) measureSize(ctx context.Context, host gemm.Matrix[float32], all []*series, tell func(point)) error {
	a, err := s.engine.Upload(ctx, host)
	if err != nil {
		return err
	}
	defer a.Close()
	c, err := s.engine.NewMatrix(gemm.F32, host.Rows, host.Cols)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, x := range all {
		n := host.Rows
		growth := float64(n) / float64(max(x.lastN, 1))
		if expected := time.Duration(float64(x.last) * growth * growth * growth); x.ended || expected > tooLong {
			note := ""
			if !x.ended {
				note = "ended: a product would take more than a second"
			}
			x.ended = true
			tell(point{Series: x.Name, Note: note})
			continue
		}
		plan, err := s.engine.Plan(c, a, a, x.options...)
		if err != nil {
			return err
		}
		ms, err := bench.Measure(bench.Product(ctx, s.engine, plan, c, a, a))
		if err != nil {
			return err
		}
		m := ms[0]
		x.last, x.lastN = m.Median, n
		tell(point{Series: x.Name, Variant: plan.Name(), Tuned: plan.Tuned, GFLOPS: m.GFLOPS(plan), Seconds: m.Median.Seconds(), Repeats: m.Repeats})
	}
	return nil
}
