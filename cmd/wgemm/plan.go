package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/gemm"
	gpu "github.com/wgemm/wgemm/runtime"
)

type planOptions struct {
	where       deviceChoice
	tuning      tuningChoice
	sizes       []string // M, N, K
	batch       int
	operands    operandFlags
	outDType    string
	alpha, beta float32
	bias        bool
	act         string
	choice      string
	limits      string
	asJSON      bool
	stdout      io.Writer
	phases      *phases
}

func newPlanCmd() *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:   "plan M N K",
		Short: "Tell how a product would be computed, and why",
		Long: `Tell how a product of M x K by K x N matrices would be computed, and why, without
computing it: the choice and what else there was, passes, workgroups, bytes and
operations, how much of the device's limits it takes, and whether arithmetic or
memory bounds it.

With --limits no device is needed. The bound is told where the roof of the adapter
is known; otherwise the intensity alone.`,
		Example: `  wgemm plan 4096 4096 4096 --limits h200
  wgemm plan 1 32000 4096 --trans-b --dtype f16
  wgemm plan 64 64 64 --batch 1024 --limits default --json
  wgemm info --json >gpu.json && wgemm plan 512 512 512 --limits gpu.json`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.sizes, o.stdout, o.phases = args, cmd.OutOrStdout(), newPhases(cmd.ErrOrStderr())
			defer o.phases.done()
			return runPlan(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.batch, "batch", 1, "matrices in a batch")
	o.operands.flags(cmd)
	f.StringVar(&o.outDType, "out-dtype", "", "elements of C: that of A and B, or f32 (default that of A and B; i32 for i8)")
	f.Float32Var(&o.alpha, "alpha", 1, "factor of the product")
	f.Float32Var(&o.beta, "beta", 0, "factor of C, which is added")
	f.BoolVar(&o.bias, "bias", false, "a row of n elements is added")
	f.StringVar(&o.act, "act", "none", "activation, applied last: "+strings.Join(gemm.Activations(), ", "))
	f.StringVar(&o.choice, "choice", "", "plan this choice in place of the planner's, as it is printed")
	f.StringVar(&o.limits, "limits", "", "plan for "+strings.Join(limitNames, ", ")+", or for an adapter in a file as wgemm info --json prints it (default the adapter that --device and --adapter take)")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	o.where.flags(cmd)
	o.tuning.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("limits", "device")
	cmd.MarkFlagsMutuallyExclusive("limits", "adapter")
	complete(cmd, "out-dtype", "f32", "f16", "bf16")
	complete(cmd, "act", gemm.Activations()...)
	complete(cmd, "limits", limitNames...)
	return cmd
}

// shape reads the arguments, and the flags of the operands.
func (o *planOptions) shape() (gemm.Shape, error) {
	el, err := o.operands.elements()
	if err != nil {
		return gemm.Shape{}, err
	}
	s := shape{Batch: o.batch}
	if o.batch < 1 || o.batch > maxSize {
		return gemm.Shape{}, usagef("--batch %d: want 1 to %d", o.batch, maxSize)
	}
	for i, to := range []*int{&s.M, &s.N, &s.K} {
		if *to = parseSize(o.sizes[i]); *to == 0 {
			return gemm.Shape{}, usagef("%s %q: want a size from 1 to %d", "MNK"[i:i+1], o.sizes[i], maxSize)
		}
	}
	if o.outDType != "" {
		names := map[string]gemm.DType{"f32": gemm.F32, "f16": gemm.F16, "bf16": gemm.BF16, "i32": gemm.I32}
		out, ok := names[o.outDType]
		if !ok {
			return gemm.Shape{}, usagef("--out-dtype %q: want f32, f16, bf16 or i32", o.outDType)
		}
		el.out = out
	}
	g := o.operands.of(s, el)
	g.Bias = o.bias
	return g, nil
}

// adapter is what the flags plan for.
func (o *planOptions) adapter(ctx context.Context) (gpu.Adapter, error) {
	if o.limits != "" {
		return readAdapter(o.limits)
	}
	engine, where, err := o.where.openAdapter(ctx, "the CPU path has nothing to plan: want --limits "+strings.Join(limitNames, ", ")+" or FILE")
	if err != nil {
		return gpu.Adapter{}, err
	}
	defer engine.Close()
	return *where.Adapter, nil
}

// A planReport tells of one plan.
type planReport struct {
	M           int           `json:"m"`
	N           int           `json:"n"`
	K           int           `json:"k"`
	Batch       int           `json:"batch"`
	DType       string        `json:"dtype"`
	OutDType    string        `json:"out_dtype"`
	Adapter     gpu.Adapter   `json:"adapter"`
	Choice      string        `json:"choice"`
	Why         string        `json:"why"`
	Tuned       bool          `json:"tuned"` // the choice is what wgemm tune measured as the fastest
	Variant     string        `json:"variant"`
	Splits      int           `json:"splits"` // parts of K
	Packed      bool          `json:"packed"`
	Edges       bool          `json:"edges"` // passes of their own for the last rows or columns of C
	Transposed  bool          `json:"transposed"`
	Tile        [2]int        `json:"tile"` // rows and columns of C of a workgroup
	Grid        [3]uint32     `json:"grid"` // workgroups over columns, rows, and batch times parts of K
	Workgroups  int           `json:"workgroups"`
	Slices      int           `json:"slices"` // of K, in all its parts together
	Passes      []string      `json:"passes"`
	Buffers     []gemm.Buffer `json:"buffers"`
	Flops       float64       `json:"flops"`
	Bytes       float64       `json:"bytes"`         // of A, B and C, each moved once
	Scratch     float64       `json:"bytes_scratch"` // written and read between passes
	Loads       float64       `json:"bytes_loaded"`  // of A and B by all workgroups, from caches or memory
	Intensity   float64       `json:"intensity"`     // flops for each byte of A, B and C
	Bound       *planBound    `json:"bound"`         // null where the roof is not known
	Limits      []limitUse    `json:"limits"`
	Alternative []alternative `json:"alternatives"`
}

// A planBound says what bounds a product, by a roof that is assumed.
type planBound struct {
	By      string      `json:"by"`      // "arithmetic" or "memory"
	Balance float64     `json:"balance"` // flops a byte from which on it is arithmetic
	Seconds float64     `json:"seconds"` // the least that the roof allows
	GFLOPS  float64     `json:"gflops"`
	Roof    assumedRoof `json:"roof"`
}

// A limitUse is how much of a limit a plan takes.
type limitUse struct {
	Limit   string  `json:"limit"` // WebGPU's name
	Need    uint64  `json:"need"`
	Have    uint64  `json:"have"`
	Percent float64 `json:"percent"`
}

// An alternative is another choice of the planner's list.
type alternative struct {
	Choice string `json:"choice"`
	Why    string `json:"why"` // it is on the list
	Not    string `json:"not"` // why it is not taken
}

func runPlan(ctx context.Context, o *planOptions) error {
	s, err := o.shape()
	if err != nil {
		return err
	}
	act, err := gemm.ParseActivation(o.act)
	if err != nil {
		return usagef("--act %q: want one of %s", o.act, strings.Join(gemm.Activations(), ", "))
	}
	opts := []gemm.Option{gemm.WithAlpha(o.alpha), gemm.WithBeta(o.beta), gemm.WithActivation(act)}
	asked := opts
	if o.choice != "" {
		c, err := gemm.ParseChoice(o.choice)
		if err != nil {
			return usagef("--choice %q: %w", o.choice, err)
		}
		if c.Why = "asked for"; c.Kernel == "" {
			return usagef("--choice %q: no kernel", o.choice)
		}
		asked = append(asked, gemm.WithChoice(c))
	}
	a, err := o.adapter(ctx)
	if err != nil {
		return err
	}
	tuning, note := o.tuning.load(a)
	o.phases.note(note)
	p, err := gemm.PlanFor(s, a, tuning, asked...)
	if err != nil {
		return usageError{err}
	}
	r, err := newPlanReport(s, p, a, opts)
	if err != nil {
		return err
	}
	if o.asJSON {
		return printJSON(o.stdout, r)
	}
	return r.text(o.stdout)
}

// newPlanReport tells of a plan, and of what else there was with these options.
func newPlanReport(s gemm.Shape, p gemm.Plan, a gpu.Adapter, opts []gemm.Option) (planReport, error) {
	bm, _ := p.Variant.Const("BM")
	bn, _ := p.Variant.Const("BN")
	r := planReport{
		M: p.M, N: p.N, K: p.K, Batch: p.Batch, DType: p.In.String(), OutDType: p.Out.String(), Adapter: a,
		Choice: p.Choice.String(), Why: p.Why, Tuned: p.Tuned, Variant: p.Name(),
		Splits: p.Splits, Packed: p.Pack, Edges: p.Edges, Transposed: p.Transposed,
		Tile: [2]int{int(bm), int(bn)}, Grid: p.Grid, Workgroups: int(p.Grid[0]) * int(p.Grid[1]) * int(p.Grid[2]),
		Slices: p.Slices(), Passes: p.Passes(), Buffers: p.Buffers(),
		Flops: p.Flops(), Bytes: p.Bytes(), Scratch: p.ScratchBytes(), Loads: p.Loads(),
		Intensity: p.Flops() / p.Bytes(), Limits: limitUses(p, a.Limits),
	}
	if roof := roofOf(a); roof != nil {
		b := planBound{By: "arithmetic", Balance: roof.FLOPS / roof.BytesPerSecond, Roof: *roof}
		if r.Intensity < b.Balance {
			b.By = "memory"
		}
		most := roof.At(r.Flops, r.Bytes)
		b.Seconds, b.GFLOPS = r.Flops/most, most/1e9
		r.Bound = &b
	}
	list, err := gemm.Choices(s, a, opts...)
	if err != nil {
		return r, err
	}
	for _, c := range list {
		other, err := gemm.PlanFor(s, a, nil, append(opts[:len(opts):len(opts)], gemm.WithChoice(c))...)
		if err == nil && other.Choice.String() == r.Choice {
			continue
		}
		r.Alternative = append(r.Alternative, alternative{c.String(), c.Why, whyNot(p, other, err)})
	}
	return r, nil
}

// whyNot says why a plan is not taken, or, by err, why there is none.
func whyNot(taken, other gemm.Plan, err error) string {
	if limit, ok := errors.AsType[*gemm.LimitError](err); ok {
		return fmt.Sprintf("needs %d of %s, the device has %d", limit.Need, limit.Limit, limit.Have)
	}
	if err != nil {
		return err.Error()
	}
	if taken.Tuned {
		return "measured as slower, or not measured, by wgemm tune"
	}
	why := "comes later in the list"
	if factor := other.Loads() / taken.Loads(); factor >= 1.05 {
		why += fmt.Sprintf(": its workgroups load %.2g times as many bytes of A and B", factor)
	}
	return why
}

// limitUses are the limits that a plan takes something of.
func limitUses(p gemm.Plan, l gpu.Limits) []limitUse {
	size := p.Variant.WorkgroupSize
	invocations := uint64(size[0]) * uint64(size[1]) * uint64(size[2])
	largest := uint64(0)
	for _, b := range p.Buffers() {
		largest = max(largest, uint64(b.Bytes))
	}
	var uses []limitUse
	for _, u := range []limitUse{
		{Limit: "maxComputeWorkgroupStorageSize", Need: uint64(p.Variant.WorkgroupBytes), Have: uint64(l.MaxComputeWorkgroupStorageSize)},
		{Limit: "maxComputeInvocationsPerWorkgroup", Need: invocations, Have: uint64(l.MaxComputeInvocationsPerWorkgroup)},
		{Limit: "maxComputeWorkgroupsPerDimension", Need: uint64(max(p.Grid[0], p.Grid[1])), Have: uint64(l.MaxComputeWorkgroupsPerDimension)},
		{Limit: "maxStorageBufferBindingSize", Need: largest, Have: l.MaxStorageBufferBindingSize},
		{Limit: "maxBufferSize", Need: largest, Have: l.MaxBufferSize},
	} {
		u.Percent = 100 * float64(u.Need) / float64(u.Have)
		uses = append(uses, u)
	}
	return uses
}

func (r planReport) text(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s by %d x %d, %s to %s, on %s\n", sizeOf(r.Batch, r.M, r.K), r.K, r.N, r.DType, r.OutDType, r.Adapter)
	tuned := ""
	if r.Tuned {
		tuned = tunedMark
	}
	fmt.Fprintf(&out, "  choice      %s%s\n", r.Choice, tuned)
	fmt.Fprintf(&out, "  since       %s\n", r.Why)
	fmt.Fprintf(&out, "  variant     %s\n", r.Variant)
	passes := make([]string, len(r.Passes))
	for i, name := range r.Passes {
		passes[i], _, _ = strings.Cut(strings.TrimPrefix(name, "passes/"), "/")
	}
	fmt.Fprintf(&out, "  passes      %s\n", strings.Join(passes, ", "))
	fmt.Fprintf(&out, "  workgroups  %d: %d over rows, %d over columns", r.Workgroups, r.Grid[1], r.Grid[0])
	for _, x := range []struct {
		n    int
		what string
	}{{r.Batch, "matrices"}, {r.Splits, "parts of K"}} {
		if x.n > 1 {
			fmt.Fprintf(&out, ", %d %s", x.n, x.what)
		}
	}
	fmt.Fprintf(&out, "\n%s", r.drawing("              "))
	if r.Edges {
		out.WriteString("              the last rows or columns, few of a tile's, are passes of their own\n")
	}
	fmt.Fprintf(&out, "  operations  %.4g\n", r.Flops)
	fmt.Fprintf(&out, "  bytes       %s for A, B and C", size(uint64(r.Bytes)))
	if r.Scratch > 0 {
		fmt.Fprintf(&out, ", %s between passes", size(uint64(r.Scratch)))
	}
	fmt.Fprintf(&out, "; all workgroups load %s\n", size(uint64(r.Loads)))
	fmt.Fprintf(&out, "  intensity   %.4g operations a byte\n", r.Intensity)
	if b := r.Bound; b != nil {
		than := "at least"
		if b.By == "memory" {
			than = "less than"
		}
		fmt.Fprintf(&out, "  bound       %s, as the intensity is %s %.3g; at best %s, %.0f GFLOP/s\n", b.By, than, b.Balance, threeDigits(b.Seconds), b.GFLOPS)
		fmt.Fprintf(&out, "              assumed: %s\n", b.Roof.Source)
	} else {
		out.WriteString("  bound       not known: wgemm bench measures the roof of a device\n")
	}
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nlimit\ttaken\tof")
	for _, u := range r.Limits {
		need, have := size(u.Need), size(u.Have)
		if !strings.HasSuffix(u.Limit, "Size") {
			need, have = fmt.Sprint(u.Need), fmt.Sprint(u.Have)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.3g %%\n", u.Limit, need, have, u.Percent)
	}
	if len(r.Alternative) > 0 {
		fmt.Fprintln(table, "\nalternative\tsince\tnot taken")
		for _, x := range r.Alternative {
			fmt.Fprintf(table, "%s\t%s\t%s\n", x.Choice, x.Why, x.Not)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Tiles that a drawing shows in each direction; of more there is a gap.
const maxDrawn = 8

// drawing is the grid of tiles over C: whole ones, and those that an edge cuts.
func (r planReport) drawing(indent string) string {
	m, n := r.M, r.N
	if r.Transposed {
		m, n = n, m
	}
	rows, cols := int(r.Grid[1]), int(r.Grid[0])
	const gap = -1
	shown := func(count int) []int {
		var list []int
		for i := range count {
			switch {
			case count <= maxDrawn || i < maxDrawn-2 || i == count-1:
				list = append(list, i)
			case i == maxDrawn-2:
				list = append(list, gap)
			}
		}
		return list
	}
	var out strings.Builder
	cut := m%r.Tile[0] != 0 || n%r.Tile[1] != 0
	for line, i := range shown(rows) {
		out.WriteString(indent[:len(indent)-1])
		for _, j := range shown(cols) {
			switch {
			case i == gap || j == gap:
				out.WriteString(" ·")
			case (i+1)*r.Tile[0] > m || (j+1)*r.Tile[1] > n:
				out.WriteString(" □")
			default:
				out.WriteString(" ■")
			}
		}
		if line == 0 {
			fmt.Fprintf(&out, "   ■ a tile of %d x %d", r.Tile[0], r.Tile[1])
			if cut {
				out.WriteString(", □ one that an edge cuts")
			}
			if r.Transposed {
				out.WriteString(", of C transposed")
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}
