package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/bench"
	"github.com/wgemm/wgemm/wgsl"
)

type benchOptions struct {
	where               deviceChoice
	tuning              tuningChoice
	shapes              shapeFlags
	operands            operandFlags
	kernel, compare     string
	cold                bool
	asJSON, asCSV, asMD bool
	plot, roofline      string // files
	stdout              io.Writer
	phases              *phases
}

func newBenchCmd() *cobra.Command {
	o := &benchOptions{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure products, in comparison",
		Long: `Measure products of matrices that are on the device already: the median of five
batches of products with one wait each. The series take turns, batch by batch; the
first run, which compiles, and the first batch are dropped. Every product is
checked against float64 (of a big one, some rows). Upload of A and B and read-back
of C are timed apart.

The roof of a product is the least time in which the device could do its arithmetic
in f32 and move each matrix once, by what two probes (wgsl/probes) reach in the same
run. Matrices that stay in a cache, and matrix units, can pass it.

A shape is MxNxK, for a product of M x K by K x N, or BATCHxMxNxK, or N for NxNxN.
A product that does not fit the device is left out, with a note.`,
		Example: `  wgemm bench
  wgemm bench --sizes 256:2048:x2 --compare naive,tiled,auto,cpu
  wgemm bench --shapes 1x4096x4096,1024x64x64x64 --dtype f16 --markdown
  wgemm bench --sizes 512 --compare auto,gemm_tiled/BM=32,BN=32,TM=2,TN=2
  wgemm bench --preset llm --cold --csv
  wgemm bench --sizes 256:4096:x2 --plot speed.svg --roofline roof.png`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.stdout = cmd.OutOrStdout()
			o.phases = newPhases(cmd.ErrOrStderr())
			defer o.phases.done()
			return runBench(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	o.shapes.flags(cmd)
	o.operands.flags(cmd)
	f.StringVar(&o.compare, "compare", "naive,tiled,auto", "what to measure, a list: auto (the planner's choice), cpu, a kernel with or without gemm_, a variant; ratios are to the first")
	f.StringVar(&o.kernel, "kernel", "", "measure this kernel or variant alone")
	f.BoolVar(&o.cold, "cold", false, fmt.Sprintf("turn through operands of %d MiB, more than caches hold; by default they are warm", coldBytes>>20))
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.BoolVar(&o.asCSV, "csv", false, "print CSV")
	f.BoolVar(&o.asMD, "markdown", false, "print a table in Markdown")
	f.StringVar(&o.plot, "plot", "", "draw GFLOP/s over n, for n x n matrices, into this .svg or .png")
	f.StringVar(&o.roofline, "roofline", "", "draw the products below the roof into this .svg or .png")
	o.where.flags(cmd)
	o.tuning.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("json", "csv", "markdown")
	cmd.MarkFlagsMutuallyExclusive("kernel", "compare")
	return cmd
}

type benchReport struct {
	Device  string       `json:"device"`
	Adapter string       `json:"adapter"`
	Type    string       `json:"adapter_type"`
	Driver  string       `json:"driver"`
	Date    string       `json:"date"`
	Cold    bool         `json:"cold"`
	Roof    *bench.Roof  `json:"roof"` // of the device; null on the CPU path
	Points  []benchPoint `json:"points"`
}

type benchPoint struct {
	shape
	DType    string  `json:"dtype"`
	TransA   bool    `json:"trans_a"`
	TransB   bool    `json:"trans_b"`
	Series   string  `json:"series"`
	Variant  string  `json:"variant"`
	Tuned    bool    `json:"tuned"` // the variant is what wgemm tune measured as the fastest
	GFLOPS   float64 `json:"gflops"`
	Ratio    float64 `json:"ratio"`   // to the first series
	OfRoof   float64 `json:"of_roof"` // 0 on the CPU path
	Median   float64 `json:"seconds"` // of one product
	Least    float64 `json:"seconds_least"`
	Most     float64 `json:"seconds_most"`
	Repeats  int     `json:"repeats"`           // products in a batch
	Upload   float64 `json:"seconds_upload"`    // of A and B
	ReadBack float64 `json:"seconds_read_back"` // of C
	Error    float64 `json:"error_ratio"`       // largest error over its bound
}

func runBench(ctx context.Context, o *benchOptions) error {
	shapes, err := o.shapes.all()
	if err != nil {
		return err
	}
	list, err := o.series()
	if err != nil {
		return err
	}
	elements, err := o.operands.elements()
	if err != nil {
		return err
	}
	if err := o.checkCharts(shapes); err != nil {
		return err
	}
	engine, where, err := o.where.open(ctx)
	if err != nil {
		return err
	}
	defer engine.Close()
	onDevice := where.dev != nil && slices.ContainsFunc(list, func(s series) bool { return s.name != cpuName })
	if o.roofline != "" && !onDevice {
		return usagef("--roofline: nothing is measured on a device: the CPU path has no roof")
	}
	o.phases.note(where.note)
	o.phases.note(o.tuning.use(engine, where))
	cpu := gemm.NewCPU()
	defer cpu.Close()
	r := benchReport{Device: where.Device, Date: time.Now().UTC().Format(time.DateOnly), Cold: o.cold}
	if where.Adapter != nil {
		r.Adapter, r.Type, r.Driver = where.Adapter.Name, string(where.Adapter.Type), where.Adapter.Version
	}
	var of []shape // of each point
	var left error // why the last shape that was left out does not fit
	for _, s := range shapes {
		points, err := o.measure(ctx, s, elements, list, func(name string) *gemm.Engine {
			if name == cpuName {
				return cpu
			}
			return engine
		})
		if err != nil {
			err = fmt.Errorf("%s: %w", s, err)
		}
		_, wrong := errors.AsType[usageError](err)
		_, big := errors.AsType[*gemm.LimitError](err)
		switch {
		case err == nil:
			for _, p := range points {
				r.Points, of = append(r.Points, p), append(of, s)
			}
		case big && !wrong:
			left = usageError{err}
			o.phases.note("left out: " + err.Error())
		default:
			return err
		}
	}
	if len(r.Points) == 0 {
		o.phases.done()
		return left
	}
	if onDevice {
		o.phases.next("the probes")
		roof, err := bench.MeasureRoof(ctx, where.dev)
		if err != nil {
			return err
		}
		r.Roof = &roof
		for i, p := range r.Points {
			if p.Series != cpuName {
				r.Points[i].OfRoof = p.GFLOPS * 1e9 / roof.At(of[i].flops(), of[i].bytes(elements))
			}
		}
	}
	o.phases.done()
	if err := o.print(r, where); err != nil {
		return err
	}
	return o.charts(r, list)
}

func (o *benchOptions) print(r benchReport, where place) error {
	switch {
	case o.asJSON:
		return printJSON(o.stdout, r)
	case o.asCSV:
		return r.csv(o.stdout)
	case o.asMD:
		return r.markdown(o.stdout, where)
	}
	return r.text(o.stdout, where)
}

// A series is one way to compute.
type series struct {
	name    string
	options []gemm.Option
}

// series reads what to compare. A variant's name holds commas too: what has a
// "=" and no "/" belongs to the variant before it.
func (o *benchOptions) series() ([]series, error) {
	text, flag := o.compare, "--compare"
	if o.kernel != "" {
		text, flag = o.kernel, "--kernel"
	}
	var names []string
	for part := range strings.SplitSeq(text, ",") {
		if n := len(names); n > 0 && strings.Contains(part, "=") && !strings.Contains(part, "/") {
			names[n-1] += "," + part
			continue
		}
		names = append(names, part)
	}
	var list []series
	for _, name := range names {
		s := series{name: name}
		if name != "auto" && name != cpuName {
			choice, err := gemm.ParseChoice(name)
			if err != nil {
				return nil, usagef("%s %q: %w", flag, name, err)
			}
			if !slices.Contains(wgsl.Kernels(), choice.Kernel) {
				choice.Kernel = "gemm_" + choice.Kernel
			}
			if !slices.Contains(wgsl.Kernels(), choice.Kernel) {
				return nil, usagef("%s %q: want auto, cpu, a kernel of %s, or a variant of one", flag, name, strings.Join(wgsl.Kernels(), ", "))
			}
			s.options = append(s.options, gemm.WithChoice(choice))
		}
		list = append(list, s)
	}
	return list, nil
}

// An elementType makes matrices of one type, of numbers that are uniform in [-1, 1],
// or in all of int8.
type elementType struct {
	in, out gemm.DType
	random  func(rng *rand.Rand, batch, rows, cols int, transposed bool) gemm.HostMatrix
	zeros   func(batch, rows, cols int) gemm.HostMatrix // of the type of C
}

// benchDTypes are the values of --dtype.
var benchDTypes = map[string]elementType{
	"f32":  floats(gemm.F32, func(v float32) float32 { return v }),
	"f16":  floats(gemm.F16, float16.Fromfloat32),
	"bf16": floats(gemm.BF16, gemm.ToBFloat16),
	"i8":   {gemm.I8, gemm.I32, filled(func(rng *rand.Rand) int8 { return int8(rng.IntN(256) - 128) }), zeros[int32]},
}

func benchDTypeNames() []string { return []string{"f32", "f16", "bf16", "i8"} }

func floats[T gemm.Element](dtype gemm.DType, of func(float32) T) elementType {
	return elementType{dtype, dtype, filled(func(rng *rand.Rand) T { return of(2*rng.Float32() - 1) }), zeros[T]}
}

// filled makes matrices of the numbers that next returns. A transposed one is
// stored cols x rows.
func filled[T gemm.Element](next func(*rand.Rand) T) func(*rand.Rand, int, int, int, bool) gemm.HostMatrix {
	return func(rng *rand.Rand, batch, rows, cols int, transposed bool) gemm.HostMatrix {
		m := gemm.NewBatch[T](batch, rows, cols, nil)
		if transposed {
			m = gemm.NewBatch(batch, cols, rows, m.Data).Transposed()
		}
		for i := range m.Data {
			m.Data[i] = next(rng)
		}
		return m
	}
}

func zeros[T gemm.Element](batch, rows, cols int) gemm.HostMatrix {
	return gemm.NewBatch[T](batch, rows, cols, nil)
}

const (
	// coldBytes are the operands that --cold turns through: far more than the
	// last-level cache of a processor (50 MB on an H200).
	coldBytes = 512 << 20
	// maxSets bounds their number: of very small products there are fewer bytes.
	maxSets = 1024
)

// sets is how many products the operands of a shape are made for.
func (o *benchOptions) sets(s shape, el elementType) int {
	if !o.cold {
		return 1
	}
	return int(min(max(coldBytes/s.bytes(el), 2), maxSets))
}

// uploads are A and B on one engine, once for each set.
type uploads struct {
	a, b   []*gemm.DeviceMatrix
	upload time.Duration // of one set
}

// measure measures one shape.
func (o *benchOptions) measure(ctx context.Context, s shape, el elementType, list []series, engineOf func(string) *gemm.Engine) (points []benchPoint, err error) {
	o.phases.next(s.String())
	var made []*gemm.DeviceMatrix
	defer func() {
		for _, m := range made {
			err = errors.Join(err, m.Close())
		}
	}()
	keep := func(m *gemm.DeviceMatrix, err error) (*gemm.DeviceMatrix, error) {
		if err == nil {
			made = append(made, m)
		}
		return m, err
	}
	// The engines say what they can hold before the host makes the numbers.
	sets := o.sets(s, el)
	cs := make([][]*gemm.DeviceMatrix, len(list))
	for i, x := range list {
		e := engineOf(x.name)
		for _, dims := range [][2]int{{s.M, s.K}, {s.K, s.N}} {
			m, err := e.NewBatch(el.in, s.Batch, dims[0], dims[1])
			if err == nil {
				err = m.Close()
			}
			if err != nil {
				return nil, err
			}
		}
		for range sets {
			c, err := keep(e.NewBatch(el.out, s.Batch, s.M, s.N))
			if err != nil {
				return nil, err
			}
			cs[i] = append(cs[i], c)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	a, b := el.random(rng, s.Batch, s.M, s.K, o.operands.transA), el.random(rng, s.Batch, s.K, s.N, o.operands.transB)
	uploaded := map[*gemm.Engine]*uploads{}
	plans, works := make([]gemm.Plan, len(list)), make([]bench.Work, len(list))
	for i, x := range list {
		e := engineOf(x.name)
		in := uploaded[e]
		if in == nil {
			in = &uploads{}
			uploaded[e] = in
			for range sets {
				if err := e.Wait(ctx); err != nil {
					return nil, err
				}
				start := time.Now()
				da, err := keep(e.Upload(ctx, a))
				if err != nil {
					return nil, err
				}
				db, err := keep(e.Upload(ctx, b))
				if err != nil {
					return nil, err
				}
				if err := e.Wait(ctx); err != nil {
					return nil, err
				}
				in.a, in.b, in.upload = append(in.a, da), append(in.b, db), time.Since(start)
			}
		}
		plan, err := e.Plan(cs[i][0], in.a[0], in.b[0], x.options...)
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", x.name, err)}
		}
		plans[i] = plan
		works[i] = bench.Work{
			Queue: func(turn int) error {
				n := turn % sets
				return e.Run(ctx, plan, cs[i][n], in.a[n], in.b[n])
			},
			Wait: func() error { return e.Wait(ctx) },
		}
	}
	times, err := bench.Measure(works...)
	if err != nil {
		return nil, err
	}
	for i, x := range list {
		e := engineOf(x.name)
		product := el.zeros(s.Batch, s.M, s.N)
		start := time.Now()
		if err := e.Download(ctx, product, cs[i][0]); err != nil {
			return nil, err
		}
		readBack := time.Since(start)
		check := gemm.Product{A: a, B: b, Alpha: 1}.Check(product, 1)
		if !check.Right() {
			return nil, fmt.Errorf("%w: %s: %v", errDiffers, plans[i].Name(), check)
		}
		m := times[i]
		points = append(points, benchPoint{
			shape: s, DType: o.operands.dtype, TransA: o.operands.transA, TransB: o.operands.transB,
			Series: x.name, Variant: plans[i].Name(), Tuned: plans[i].Tuned,
			GFLOPS: m.GFLOPS(plans[i]), Ratio: times[0].Median.Seconds() / m.Median.Seconds(),
			Median: m.Median.Seconds(), Least: m.Least.Seconds(), Most: m.Most.Seconds(), Repeats: m.Repeats,
			Upload: uploaded[e].upload.Seconds(), ReadBack: readBack.Seconds(), Error: check.Ratio,
		})
	}
	return points, nil
}
