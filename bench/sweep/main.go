//go:build !js

package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/runtime/open"
)

type cand struct {
	name  string
	plan  gemm.Plan
	opts  []gemm.Option
	reps  int
	times []float64
}

func host(rng *rand.Rand, dt string, batch, r, c int, trans bool) gemm.HostMatrix {
	if trans {
		r, c = c, r
	}
	n := batch * r * c
	if dt == "f16" {
		d := make([]float16.Float16, n)
		for i := range d {
			d[i] = float16.Fromfloat32(2*rng.Float32() - 1)
		}
		m := gemm.Matrix[float16.Float16]{Data: d, Rows: r, Cols: c, RowStride: c, ColStride: 1, Batch: batch, BatchStride: r * c}
		if trans {
			return m.Transposed()
		}
		return m
	}
	d := make([]float32, n)
	for i := range d {
		d[i] = 2*rng.Float32() - 1
	}
	m := gemm.Matrix[float32]{Data: d, Rows: r, Cols: c, RowStride: c, ColStride: 1, Batch: batch, BatchStride: r * c}
	if trans {
		return m.Transposed()
	}
	return m
}

func main() {
	ctx := context.Background()
	dev, choice, err := open.Device(ctx, "")
	if err != nil {
		panic(err)
	}
	fmt.Println(choice.Adapter)
	e := gemm.New(dev)
	in := bufio.NewScanner(os.Stdin)
	var group []string
	for in.Scan() {
		line := strings.TrimSpace(in.Text())
		if line == "" {
			if len(group) > 0 {
				run(ctx, e, group)
				group = nil
			}
			continue
		}
		group = append(group, line)
	}
	if len(group) > 0 {
		run(ctx, e, group)
	}
}

// group: first line "f32 NN batch m n k", then variants "gemm_block/BM=..[;splits=4]" or "auto"
func run(ctx context.Context, e *gemm.Engine, group []string) {
	f := strings.Fields(group[0])
	dt, lay := f[0], f[1]
	var d [4]int
	for i := range d {
		d[i], _ = strconv.Atoi(f[2+i])
	}
	batch, m, n, k := d[0], d[1], d[2], d[3]
	rng := rand.New(rand.NewPCG(1, 2))
	ha, hb := host(rng, dt, batch, m, k, lay[0] == 'T'), host(rng, dt, batch, k, n, lay[1] == 'T')
	a, err := e.Upload(ctx, ha)
	if err != nil {
		fmt.Println(group[0], err)
		return
	}
	defer a.Close()
	b, err := e.Upload(ctx, hb)
	if err != nil {
		fmt.Println(group[0], err)
		return
	}
	defer b.Close()
	c, err := e.NewBatch(gemm.F32, batch, m, n)
	if err != nil {
		fmt.Println(group[0], err)
		return
	}
	defer c.Close()
	flops := 2 * float64(batch) * float64(m) * float64(n) * float64(k)
	var cs []*cand
	for _, line := range group[1:] {
		if line == "cpu" {
			ce := gemm.NewCPU()
			best := 1e9
			hc := gemm.NewMatrix[float32](m, n, nil)
			for range 8 {
				start := time.Now()
				if err := ce.Multiply(ctx, hc, ha, hb); err != nil {
					panic(err)
				}
				best = min(best, time.Since(start).Seconds())
			}
			fmt.Printf("cpu %.1f us\n", best*1e6)
			continue
		}
		name := line
		var opts []gemm.Option
		if name != "auto" {
			ch, err := gemm.ParseChoice(name)
			if err != nil {
				panic(err)
			}
			opts = append(opts, gemm.WithChoice(ch))
		}
		plan, err := e.Plan(c, a, b, opts...)
		if err != nil {
			fmt.Println(line, err)
			continue
		}
		x := &cand{name: line, plan: plan, opts: opts}
		start := time.Now()
		if err := e.Run(ctx, plan, c, a, b, opts...); err != nil {
			fmt.Println(line, err)
			continue
		}
		e.Wait(ctx)
		compile := time.Since(start)
		hc := gemm.Matrix[float32]{Data: make([]float32, batch*m*n), Rows: m, Cols: n, RowStride: n, ColStride: 1, Batch: batch, BatchStride: m * n}
		if os.Getenv("NOCHECK") == "" {
			if err := e.Download(ctx, hc, c); err != nil {
				panic(err)
			}
			if batch == 1 {
				for range 20 {
					r := gemm.CheckElement(hc, ha, hb, rng.IntN(m), rng.IntN(n))
					if !r.Right() {
						fmt.Println(line, "WRONG", r)
						break
					}
				}
			}
		}
		start = time.Now()
		for range 3 {
			e.Run(ctx, plan, c, a, b, opts...)
		}
		e.Wait(ctx)
		once := time.Since(start).Seconds() / 3
		x.reps = max(3, min(2000, int(0.03/once)))
		if compile > 1*time.Millisecond {
			fmt.Println(line, "first run", compile)
		}
		cs = append(cs, x)
	}
	for range 6 {
		for _, x := range cs {
			start := time.Now()
			for range x.reps {
				e.Run(ctx, x.plan, c, a, b, x.opts...)
			}
			e.Wait(ctx)
			x.times = append(x.times, time.Since(start).Seconds()/float64(x.reps))
		}
	}
	fmt.Println("==", group[0])
	for _, x := range cs {
		t := slices.Sorted(slices.Values(x.times[1:]))
		med := t[len(t)/2]
		fmt.Printf("%8.2f TF %8.1f us  %s", flops/med/1e12, med*1e6, x.name)
		if x.name == "auto" {
			fmt.Printf("  [%s]", x.plan.Choice)
		}
		fmt.Println()
	}
}
