package tuning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/bench"
	gpu "github.com/wgemm/wgemm/runtime"
)

// Measured is what was measured of a class of products.
type Measured struct {
	Planned        string   `json:"planned"`
	PlannedSeconds float64  `json:"planned_seconds"` // of a product; 0 where there was no time
	Fastest        string   `json:"fastest"`         // the planned one where nothing is faster by more than the spread
	Seconds        float64  `json:"seconds"`         // 0 where nothing was measured
	Raced          int      `json:"measured"`        // choices, each at least once
	Candidates     int      `json:"candidates"`      // choices that there are
	LeftOut        []string `json:"left_out"`        // choices that failed, and why
}

// Measure measures the candidates for x, the first of which is the planner's
// choice, and returns the one to take. C has the type and shape of the product. It
// tells each step, and ends when no time is left; after an error what was measured
// so far counts.
func Measure(
	ctx context.Context, e *gemm.Engine, x gemm.Product, c gemm.HostMatrix, candidates []gemm.Choice,
	step func(string), left func() time.Duration,
) (m Measured, winner gemm.Choice, err error) {
	f, err := newField(ctx, e, x, c)
	if err != nil {
		return m, winner, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	winner, err = m.pick(ctx, candidates, f, step, left)
	return m, winner, err
}

// Update is t with the winner of a class, or without the class where that is the
// planner's choice.
func (m Measured) Update(t gemm.Tuning, class gemm.Class, winner gemm.Choice) gemm.Tuning {
	t = t.With(gemm.Tuning{class: winner})
	if m.Fastest == m.Planned {
		delete(t, class)
	}
	return t
}

// An entrant makes the timer of a choice, or says why it may not win.
type entrant interface {
	enter(ctx context.Context, c gemm.Choice) (bench.Timer, error)
}

// pick fills in what is measured of the candidates, the first of which is the
// planner's choice, and returns the one to take. Half of the time that is left
// goes to compiling and checking them.
func (m *Measured) pick(ctx context.Context, candidates []gemm.Choice, f entrant, step func(string), left func() time.Duration) (gemm.Choice, error) {
	m.Planned, m.Candidates = candidates[0].String(), len(candidates)
	m.LeftOut = []string{}
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
		case errors.Is(err, gpu.ErrDeviceLost):
			return choice, err
		case err != nil:
			m.LeftOut = append(m.LeftOut, fmt.Sprintf("%s: %v", choice, err))
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
		m.Raced++
		if in[i].String() == m.Planned {
			m.PlannedSeconds = s.Median.Seconds()
		}
		if s.In && (best < 0 || in[best].String() != m.Planned && s.Median < standings[best].Median) {
			best = i // the planner's choice, where it is in, comes first and stays
		}
	}
	if best < 0 {
		return gemm.Choice{}, err
	}
	m.Fastest, m.Seconds = in[best].String(), standings[best].Median.Seconds()
	return in[best], err
}

// checkSamples are how many elements of a candidate's product are compared.
const checkSamples = 256

// A field is where candidates for one product run: its operands on the device.
type field struct {
	e       *gemm.Engine
	x       gemm.Product
	host    gemm.HostMatrix // for C, to check it
	a, b, c *gemm.DeviceMatrix
}

func newField(ctx context.Context, e *gemm.Engine, x gemm.Product, c gemm.HostMatrix) (_ *field, err error) {
	f := &field{e: e, x: x, host: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.a, err = e.Upload(ctx, x.A); err != nil {
		return nil, err
	}
	if f.b, err = e.Upload(ctx, x.B); err != nil {
		return nil, err
	}
	f.c, err = e.Upload(ctx, c)
	return f, err
}

// enter compiles a choice and checks its product, in a C of its own: one that
// does nothing must not pass with what another left.
func (f *field) enter(ctx context.Context, choice gemm.Choice) (_ bench.Timer, err error) {
	c, err := f.e.NewBatch(f.c.DType(), f.c.Batch(), f.c.Rows(), f.c.Cols())
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
	if err := f.e.Download(ctx, f.host, c); err != nil {
		return nil, err
	}
	if check := f.x.CheckSamples(f.host, checkSamples, 1); !check.Right() {
		return nil, fmt.Errorf("results differ: %v", check)
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
