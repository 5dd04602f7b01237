package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/bench"
	gpu "github.com/wgemm/wgemm/runtime"
)

type tuneOptions struct {
	where    deviceChoice
	shapes   shapeFlags
	operands operandFlags
	budget   time.Duration
	export   string
	imported string
	clear    bool
	asJSON   bool
	stdout   io.Writer
	phases   *phases
}

func newTuneCmd() *cobra.Command {
	o := &tuneOptions{}
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Measure which variants are fastest here, and keep that",
		Long: `Measure the planner's choice and what lies around it on this device, and keep what
is faster: run, bench and plan take it from then on (--no-tuning leaves it out;
verify never takes it).

The choices take turns, batch by batch, and leave when they are slower than the
leader by more than their times spread. A choice whose product is not within its
error bound of float64 is left out. The planner's choice stays where nothing is
faster by more than that.

What is kept holds for a class of products: sizes up to the next power of two, the
same types, and A and B stored alike; and for this adapter, its graphics driver and
this version of wgemm. It is in the user's cache folder. Ctrl-C keeps what was
measured so far.`,
		Example: `  wgemm tune --shapes 1024,1x4096x4096 --budget 30s
  wgemm tune --preset llm --dtype f16 --trans-b --budget 10m
  wgemm tune --export tuning.txt
  wgemm tune --clear`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.stdout, o.phases = cmd.OutOrStdout(), newPhases(cmd.ErrOrStderr())
			defer o.phases.done()
			return runTune(cmd.Context(), o)
		},
	}
	o.shapes.flags(cmd)
	o.operands.flags(cmd)
	f := cmd.Flags()
	f.DurationVar(&o.budget, "budget", time.Minute, "how long to measure, for all shapes together")
	f.StringVar(&o.export, "export", "", "write what is kept for this adapter to a file, and measure nothing")
	f.StringVar(&o.imported, "import", "", "keep what such a file holds too, and measure nothing")
	f.BoolVar(&o.clear, "clear", false, "forget what is kept for this adapter, and measure nothing")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	o.where.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("export", "import", "clear", "sizes")
	cmd.MarkFlagsMutuallyExclusive("export", "import", "clear", "shapes")
	cmd.MarkFlagsMutuallyExclusive("export", "import", "clear", "preset")
	cmd.MarkFlagsMutuallyExclusive("export", "import", "clear", "budget")
	return cmd
}

type tuneReport struct {
	Device  string       `json:"device"`
	Adapter string       `json:"adapter"`
	Type    string       `json:"adapter_type"`
	Driver  string       `json:"driver"`
	Version string       `json:"version"` // of wgemm
	Date    string       `json:"date"`
	File    string       `json:"file"` // in which it is kept
	Classes []tunedClass `json:"classes"`
}

// A tunedClass is what was measured of a class of products.
type tunedClass struct {
	Class          string   `json:"class"`
	Shape          shape    `json:"shape"` // that was measured
	Planned        string   `json:"planned"`
	PlannedSeconds float64  `json:"planned_seconds"` // of a product; 0 where there was no time
	Fastest        string   `json:"fastest"`         // the planned one where nothing is faster by more than the spread
	Seconds        float64  `json:"seconds"`
	Measured       int      `json:"measured"`   // choices, each at least once
	Candidates     int      `json:"candidates"` // choices that there are
	LeftOut        []string `json:"left_out"`   // choices that failed, and why
}

func runTune(ctx context.Context, o *tuneOptions) error {
	if o.budget <= 0 {
		return usagef("--budget %v: want more than 0, as 60s", o.budget)
	}
	shapes, err := o.shapes.all()
	if err != nil {
		return err
	}
	el, err := o.operands.elements()
	if err != nil {
		return err
	}
	if o.where.device == cpuName {
		return usagef("%s %s: the CPU path has nothing to tune", o.where.name("device", "WGEMM_DEVICE"), cpuName)
	}
	engine, where, err := o.where.open(ctx)
	if err != nil {
		return err
	}
	defer engine.Close()
	if where.Adapter == nil {
		return fmt.Errorf("%w: the CPU path has nothing to tune", gpu.ErrNoAdapter)
	}
	o.phases.note(where.note)
	a := *where.Adapter
	store, err := userStore()
	if err != nil {
		return usagef("no folder to keep a tuning in: %w", err)
	}
	tuning, err := store.load(a)
	if err != nil {
		o.phases.note(fmt.Sprintf("the tuning so far is ignored: %v", err))
	}
	switch {
	case o.export != "":
		if err := os.WriteFile(o.export, []byte(tuningText(a, tuning)), 0o644); err != nil {
			return usagef("--export: %w", err)
		}
		return o.told(tuning, o.export)
	case o.imported != "":
		more, err := readTuning(o.imported, a)
		if err != nil {
			return usagef("--import: %w", err)
		}
		if err := store.save(a, tuning.With(more)); err != nil {
			return usagef("no tuning can be kept: %w", err)
		}
		return o.told(tuning.With(more), store.path(a))
	case o.clear:
		if err := store.clear(a); err != nil {
			return usagef("--clear: %w", err)
		}
		return nil
	}
	// Before it takes time.
	if err := store.save(a, tuning); err != nil {
		return usagef("no tuning can be kept: %w", err)
	}
	r := tuneReport{
		Device: where.Device, Adapter: a.Name, Type: string(a.Type), Driver: a.Version, Version: version(),
		Date: time.Now().UTC().Format(time.DateOnly), File: store.path(a), Classes: []tunedClass{},
	}
	end := time.Now().Add(o.budget)
	seen := map[gemm.Class]bool{}
	var leftOut error // why the last shape that does not fit does not
	for i, s := range shapes {
		g := o.operands.of(s, el)
		class, err := gemm.ClassOf(g)
		if err != nil {
			return usageError{fmt.Errorf("%s: %w", s, err)}
		}
		if seen[class] {
			continue
		}
		seen[class] = true
		share := time.Now().Add(time.Until(end) / time.Duration(len(shapes)-i))
		c, winner, err := o.tune(ctx, engine, a, s, el, share)
		if _, big := errors.AsType[*gemm.LimitError](err); big {
			leftOut = usageError{fmt.Errorf("%s: %w", s, err)}
			o.phases.note("left out: " + leftOut.Error())
			continue
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		switch {
		case c.Seconds > 0:
			c.Class = class.String()
			r.Classes = append(r.Classes, c)
			o.phases.line(fmt.Sprintf("%s: %s by %s, the fastest of %d measured of %d", s, threeDigits(c.Seconds), c.Fastest, c.Measured, c.Candidates))
			if tuning = tuning.With(gemm.Tuning{class: winner}); c.Fastest == c.Planned {
				delete(tuning, class)
			}
			if err := store.save(a, tuning); err != nil {
				return usagef("no tuning can be kept: %w", err)
			}
		case ctx.Err() == nil:
			o.phases.note(fmt.Sprintf("%s: not measured, as the budget is spent", s))
		}
		if ctx.Err() != nil || time.Now().After(end) {
			break
		}
	}
	o.phases.done()
	if len(r.Classes) == 0 && leftOut != nil {
		return leftOut
	}
	if o.asJSON {
		err = printJSON(o.stdout, r)
	} else {
		err = r.text(o.stdout, where)
	}
	return errors.Join(ctx.Err(), err)
}

// told says what a file holds.
func (o *tuneOptions) told(t gemm.Tuning, path string) error {
	_, err := fmt.Fprintf(o.stdout, "%s in %s\n", plural(len(t), "choice"), path)
	return err
}

// tune measures one shape until a time.
func (o *tuneOptions) tune(ctx context.Context, e *gemm.Engine, a gpu.Adapter, s shape, el elementType, end time.Time) (c tunedClass, winner gemm.Choice, err error) {
	candidates, err := gemm.Candidates(o.operands.of(s, el), a)
	if err != nil {
		return c, winner, err
	}
	f, err := newField(ctx, e, o.operands, s, el)
	if err != nil {
		return c, winner, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	c.Shape = s
	winner, err = c.pick(ctx, candidates, f, func(step string) { o.phases.next(fmt.Sprintf("%s: %s", s, step)) }, func() time.Duration { return time.Until(end) })
	return c, winner, err
}

// An entrant makes the timer of a choice, or says why it may not win.
type entrant interface {
	enter(ctx context.Context, c gemm.Choice) (bench.Timer, error)
}

// pick fills in what is measured of the candidates, the first of which is the
// planner's choice, and returns the one to take. Half of the time that is left
// goes to compiling and checking them.
func (c *tunedClass) pick(ctx context.Context, candidates []gemm.Choice, f entrant, step func(string), left func() time.Duration) (gemm.Choice, error) {
	c.Planned, c.Candidates = candidates[0].String(), len(candidates)
	c.LeftOut = []string{}
	var in []gemm.Choice
	var timers []bench.Timer
	half := left() / 2
	for i, choice := range candidates {
		if left() <= half {
			break
		}
		step(fmt.Sprintf("%d of %d: %s", i+1, len(candidates), choice))
		timer, err := f.enter(ctx, choice)
		switch {
		case ctx.Err() != nil:
			return choice, ctx.Err()
		case err != nil:
			c.LeftOut = append(c.LeftOut, fmt.Sprintf("%s: %v", choice, err))
			continue
		}
		in, timers = append(in, choice), append(timers, timer)
	}
	step(fmt.Sprintf("%d in turn", len(in)))
	standings, err := bench.Race(timers, func() bool { return left() <= 0 })
	best := -1
	for i, s := range standings {
		if s.Rounds == 0 {
			continue
		}
		c.Measured++
		if in[i].String() == c.Planned {
			c.PlannedSeconds = s.Median.Seconds()
		}
		if s.In && (best < 0 || in[best].String() != c.Planned && s.Median < standings[best].Median) {
			best = i // the planner's choice, where it is in, comes first and stays
		}
	}
	if best < 0 {
		return gemm.Choice{}, err
	}
	c.Fastest, c.Seconds = in[best].String(), standings[best].Median.Seconds()
	return in[best], err
}

// checkSamples are how many elements of a candidate's product are compared.
const checkSamples = 256

// A field is where candidates of one shape run: its operands on the device.
type field struct {
	e       *gemm.Engine
	s       shape
	el      elementType
	product gemm.Product // on the host
	a, b, c *gemm.DeviceMatrix
}

func newField(ctx context.Context, e *gemm.Engine, o operandFlags, s shape, el elementType) (_ *field, err error) {
	rng := rand.New(rand.NewPCG(1, 1))
	f := &field{e: e, s: s, el: el, product: gemm.Product{
		A: el.random(rng, s.Batch, s.M, s.K, o.transA), B: el.random(rng, s.Batch, s.K, s.N, o.transB), Alpha: 1,
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.a, err = e.Upload(ctx, f.product.A); err != nil {
		return nil, err
	}
	if f.b, err = e.Upload(ctx, f.product.B); err != nil {
		return nil, err
	}
	f.c, err = e.NewBatch(el.out, s.Batch, s.M, s.N)
	return f, err
}

// enter compiles a choice and checks its product, in a C of its own: one that
// does nothing must not pass with what another left.
func (f *field) enter(ctx context.Context, choice gemm.Choice) (_ bench.Timer, err error) {
	c, err := f.e.NewBatch(f.el.out, f.s.Batch, f.s.M, f.s.N)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	plan, err := f.e.Plan(c, f.a, f.b, gemm.WithChoice(choice))
	if err != nil {
		return nil, err
	}
	if err := f.e.Run(ctx, plan, c, f.a, f.b); err != nil {
		return nil, err
	}
	host := f.el.zeros(f.s.Batch, f.s.M, f.s.N)
	if err := f.e.Download(ctx, host, c); err != nil {
		return nil, err
	}
	if check := f.product.CheckSamples(host, checkSamples, 1); !check.Right() {
		return nil, fmt.Errorf("%w: %v", errDiffers, check)
	}
	return bench.NewTimer(bench.Product(ctx, f.e, plan, f.c, f.a, f.b))
}

func (f *field) close() error {
	var err error
	for _, m := range []*gemm.DeviceMatrix{f.a, f.b, f.c} {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}

func (r tuneReport) text(w io.Writer, where place) error {
	var out strings.Builder
	fmt.Fprintf(&out, "on %s, %s\n", where, r.Date)
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "m n k\tmeasured\tplanner's\ttime\tfastest\ttime\tratio")
	kept := 0
	for _, c := range r.Classes {
		planned, ratio := "-", "-"
		if c.PlannedSeconds > 0 {
			planned, ratio = threeDigits(c.PlannedSeconds), fmt.Sprintf("%.2f", c.PlannedSeconds/c.Seconds)
		}
		fastest := "as the planner's"
		if c.Fastest != c.Planned {
			fastest = c.Fastest
			kept++
		}
		fmt.Fprintf(table, "%s\t%d of %d\t%s\t%s\t%s\t%s\t%s\n", c.Shape, c.Measured, c.Candidates, c.Planned, planned, fastest, threeDigits(c.Seconds), ratio)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, c := range r.Classes {
		for _, left := range c.LeftOut {
			fmt.Fprintf(&out, "left out of %s: %s\n", c.Shape, left)
		}
	}
	fmt.Fprintf(&out, "kept %s of %d in %s\n", plural(kept, "choice"), len(r.Classes), r.File)
	_, err := io.WriteString(w, out.String())
	return err
}
