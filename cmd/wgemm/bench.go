package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/bench"
)

type benchOptions struct {
	where   deviceChoice
	sizes   string
	compare []string
	asJSON  bool
	asCSV   bool
	stdout  io.Writer
	phases  *phases
}

// series are the ways to compute that --compare knows.
var series = map[string][]gemm.Option{
	"naive": {gemm.WithKernel("gemm_naive", nil)},
	"tiled": {gemm.WithKernel("gemm_tiled", nil)},
	"auto":  nil,
	cpuName: nil,
}

func newBenchCmd() *cobra.Command {
	o := &benchOptions{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure products of square matrices",
		Long: `Measure products of square f32 matrices that are on the device already: the
median of five batches of products, each with one wait, first runs dropped. Every
product is checked against float64. What upload and read-back take, run tells.`,
		Example: `  wgemm bench
  wgemm bench --sizes 256:2048:x2 --compare naive,tiled,auto,cpu
  wgemm bench --sizes 100,1000 --csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.stdout = cmd.OutOrStdout()
			o.phases = newPhases(cmd.ErrOrStderr())
			defer o.phases.done()
			return runBench(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.sizes, "sizes", "128:1024:x2", "sizes n of n x n matrices: a list, or from:to:xFACTOR")
	f.StringSliceVar(&o.compare, "compare", []string{"naive", "tiled", "auto"}, "what to measure: naive, tiled, auto (the planner's choice), cpu")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.BoolVar(&o.asCSV, "csv", false, "print CSV")
	o.where.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("json", "csv")
	return cmd
}

type benchReport struct {
	Device  string       `json:"device"`
	Adapter string       `json:"adapter"`
	Type    string       `json:"adapter_type"`
	Points  []benchPoint `json:"points"`
}

type benchPoint struct {
	Size    int     `json:"size"`
	Series  string  `json:"series"`
	Variant string  `json:"variant"`
	GFLOPS  float64 `json:"gflops"`
	Median  float64 `json:"seconds"` // of one product
	Least   float64 `json:"seconds_least"`
	Most    float64 `json:"seconds_most"`
	Repeats int     `json:"repeats"` // products in a batch
}

func runBench(ctx context.Context, o *benchOptions) error {
	sizes, err := parseSizes(o.sizes)
	if err != nil {
		return err
	}
	for _, name := range o.compare {
		if _, ok := series[name]; !ok {
			return usagef("--compare %q: want naive, tiled, auto or cpu", name)
		}
	}
	engine, where, err := o.where.open(ctx)
	if err != nil {
		return err
	}
	defer engine.Close()
	o.phases.note(where.note)
	r := benchReport{Device: where.Device, Adapter: where.adapterName()}
	if where.Adapter != nil {
		r.Type = string(where.Adapter.Type)
	}
	cpu := gemm.NewCPU()
	defer cpu.Close()
	for _, n := range sizes {
		for _, name := range o.compare {
			o.phases.next(fmt.Sprintf("%d x %d, %s", n, n, name))
			e := engine
			if name == cpuName {
				e = cpu
			}
			p, err := measureSquare(ctx, e, n, series[name])
			if err != nil {
				return err
			}
			p.Size, p.Series = n, name
			r.Points = append(r.Points, p)
		}
	}
	o.phases.done()
	switch {
	case o.asJSON:
		return printJSON(o.stdout, r)
	case o.asCSV:
		return r.csv(o.stdout)
	}
	return r.text(o.stdout, where)
}

// measureSquare measures A A for an n x n A, and checks the product.
func measureSquare(ctx context.Context, e *gemm.Engine, n int, opts []gemm.Option) (benchPoint, error) {
	var point benchPoint
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	host, product := gemm.NewMatrix[float32](n, n, nil), gemm.NewMatrix[float32](n, n, nil)
	for i := range host.Data {
		host.Data[i] = 2*rng.Float32() - 1
	}
	a, err := e.Upload(ctx, host)
	if err != nil {
		return point, err
	}
	defer a.Close()
	c, err := e.NewMatrix(gemm.F32, n, n)
	if err != nil {
		return point, err
	}
	defer c.Close()
	plan, err := e.Plan(c, a, a, opts...)
	if err != nil {
		return point, err
	}
	m, err := bench.Measure(ctx, e, plan, c, a, a)
	if err != nil {
		return point, err
	}
	if err := e.Download(ctx, product, c); err != nil {
		return point, err
	}
	if check := gemm.Check(product, host, host, 1); !check.Right() {
		return point, fmt.Errorf("%w: %s, n = %d: %v", errDiffers, plan.Name(), n, check)
	}
	return benchPoint{
		Variant: plan.Name(), GFLOPS: m.GFLOPS(plan), Repeats: m.Repeats,
		Median: m.Median.Seconds(), Least: m.Least.Seconds(), Most: m.Most.Seconds(),
	}, nil
}

// parseSizes reads "100,1000" or "256:4096:x2".
func parseSizes(text string) ([]int, error) {
	wrong := usagef("--sizes %q: want sizes from 1 to 65536, as 100,1000 or 256:4096:x2", text)
	const most = 1 << 16
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil || n > most {
			return 0
		}
		return n
	}
	var sizes []int
	if parts := strings.Split(text, ":"); len(parts) == 3 {
		from, to, factor := number(parts[0]), number(parts[1]), number(strings.TrimPrefix(parts[2], "x"))
		if from < 1 || to < from || factor < 2 || !strings.HasPrefix(parts[2], "x") {
			return nil, wrong
		}
		for n := from; n <= to; n *= factor {
			sizes = append(sizes, n)
		}
		return sizes, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n := number(part)
		if n < 1 {
			return nil, wrong
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

func (r benchReport) text(w io.Writer, where place) error {
	fmt.Fprintf(w, "on %s\n", where)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "n\t\tGFLOP/s\ttime\tspread\tvariant")
	for _, p := range r.Points {
		fmt.Fprintf(table, "%d\t%s\t%.3g\t%s\t%.0f %%\t%s\n", p.Size, p.Series, p.GFLOPS, duration(p.Median), 100*(p.Most-p.Least)/p.Median, p.Variant)
	}
	return table.Flush()
}

func (r benchReport) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"size", "series", "variant", "gflops", "seconds", "seconds_least", "seconds_most", "repeats", "device", "adapter"}}
	for _, p := range r.Points {
		row := []string{strconv.Itoa(p.Size), p.Series, p.Variant}
		for _, v := range []float64{p.GFLOPS, p.Median, p.Least, p.Most} {
			row = append(row, strconv.FormatFloat(v, 'g', -1, 64))
		}
		rows = append(rows, append(row, strconv.Itoa(p.Repeats), r.Device, r.Adapter))
	}
	return out.WriteAll(rows)
}
