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
	"github.com/wgemm/wgemm/internal/tuning"
	"github.com/wgemm/wgemm/internal/version"
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
	Class string `json:"class"`
	Shape shape  `json:"shape"` // that was measured
	tuning.Measured
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
	engine, where, err := o.where.openAdapter(ctx, "the CPU path has nothing to tune")
	if err != nil {
		return err
	}
	defer engine.Close()
	o.phases.note(where.note)
	a := *where.Adapter
	store, err := userStore()
	if err != nil {
		return usagef("no folder to keep a tuning in: %w", err)
	}
	kept, err := store.load(a)
	if err != nil {
		o.phases.note(fmt.Sprintf("the tuning so far is ignored: %v", err))
	}
	switch {
	case o.export != "":
		if err := os.WriteFile(o.export, []byte(tuning.Text(a, kept)), 0o644); err != nil {
			return usagef("--export: %w", err)
		}
		return o.told(kept, o.export)
	case o.imported != "":
		more, err := readTuning(o.imported, a)
		if err != nil {
			return usagef("--import: %w", err)
		}
		if err := store.save(a, kept.With(more)); err != nil {
			return usagef("no tuning can be kept: %w", err)
		}
		return o.told(kept.With(more), store.path(a))
	case o.clear:
		if err := store.clear(a); err != nil {
			return usagef("--clear: %w", err)
		}
		return nil
	}
	// Before it takes time.
	if err := store.save(a, kept); err != nil {
		return usagef("no tuning can be kept: %w", err)
	}
	r := tuneReport{
		Device: where.Device, Adapter: a.Name, Type: string(a.Type), Driver: a.Version, Version: version.String(),
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
		measured, winner, err := o.tune(ctx, engine, a, s, el, share)
		if _, big := errors.AsType[*gemm.LimitError](err); big {
			leftOut = usageError{fmt.Errorf("%s: %w", s, err)}
			o.phases.note("left out: " + leftOut.Error())
			continue
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		switch {
		case measured.Seconds > 0:
			c := tunedClass{class.String(), s, measured}
			r.Classes = append(r.Classes, c)
			o.phases.line(fmt.Sprintf("%s: %s by %s, the fastest of %d measured of %d", s, threeDigits(c.Seconds), c.Fastest, c.Raced, c.Candidates))
			kept = c.Update(kept, class, winner)
			if err := store.save(a, kept); err != nil {
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
func (o *tuneOptions) tune(ctx context.Context, e *gemm.Engine, a gpu.Adapter, s shape, el elementType, end time.Time) (tuning.Measured, gemm.Choice, error) {
	candidates, err := gemm.Candidates(o.operands.of(s, el), a)
	if err != nil {
		return tuning.Measured{}, gemm.Choice{}, err
	}
	rng := rand.New(rand.NewPCG(1, 1))
	x := gemm.Product{A: el.random(rng, s.Batch, s.M, s.K, o.operands.transA), B: el.random(rng, s.Batch, s.K, s.N, o.operands.transB), Alpha: 1}
	return tuning.Measure(ctx, e, x, el.zeros(s.Batch, s.M, s.N), candidates,
		func(step string) { o.phases.next(fmt.Sprintf("%s: %s", s, step)) },
		func() time.Duration { return time.Until(end) })
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
		fmt.Fprintf(table, "%s\t%d of %d\t%s\t%s\t%s\t%s\t%s\n", c.Shape, c.Raced, c.Candidates, c.Planned, planned, fastest, threeDigits(c.Seconds), ratio)
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
