// Package verify checks an engine against float64: named suites of products
// whose right values are known, each of which can be repeated alone.
//
//	cases, err := verify.Select(runner, []string{"quick"}, kernels)
//	for _, c := range cases {
//		result, err := runner.Run(ctx, c)
//	}
//
// A product of whole numbers must be met exactly; one of random numbers within
// the error bound of gemm.Product.Check. Around every operand lies poison that
// must neither be read nor written, C holds poison before, and two runs must give
// the same bits. docs/numerics.md says what this sees and what it cannot.
package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/wgemm/wgemm/gemm"
	gpu "github.com/wgemm/wgemm/runtime"
)

// A Runner runs cases on an engine.
type Runner struct {
	Engine *gemm.Engine
	Seed   uint64
	// Multiply stands in for the engine's method of that name, for a test that
	// plants a fault; nil for the engine's own.
	Multiply func(ctx context.Context, c, a, b gemm.Operand, opts ...gemm.Option) error
}

func (r *Runner) multiply(ctx context.Context, c, a, b gemm.Operand, opts ...gemm.Option) error {
	if r.Multiply != nil {
		return r.Multiply(ctx, c, a, b, opts...)
	}
	return r.Engine.Multiply(ctx, c, a, b, opts...)
}

// rand is a source of random numbers for a case, the same whatever ran before.
func (r *Runner) rand(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(r.Seed, h.Sum64()))
}

// A Case is one check of a suite.
type Case struct {
	Suite, Name string
	Kernel      Kernel
	Long        bool // a software adapter takes long for it: not part of quick
	must        bool // a limit of the device is no reason to skip it
	run         func(ctx context.Context, r *Runner, k Kernel) (Result, error)
}

// A Result is the outcome of a case.
type Result struct {
	Suite, Case, Kernel string
	Variant             string  // what computed it; "" where the case is no single product
	Ratio               float64 // largest error over its bound; 0 is exact
	Where               string  // the element with that ratio, "" if all are exact
	Failure             string  // what is wrong, "" for nothing
	Skipped             string  // why the device cannot run it, "" if it did
}

// Run runs a case. Its error is ctx's; whatever else goes wrong is a result.
func (r *Runner) Run(ctx context.Context, c Case) (Result, error) {
	out, err := c.run(ctx, r, c.Kernel)
	out.Suite, out.Case, out.Kernel = c.Suite, c.Name, c.Kernel.String()
	if ctxErr := ctx.Err(); ctxErr != nil {
		return out, ctxErr
	}
	var limit *gemm.LimitError
	refused := errors.As(err, &limit)
	switch {
	case refused && (limit.Limit == "" || limit.Need <= limit.Have):
		out.Failure = err.Error() + ", which is within the limit"
	case !c.must && (refused || errors.Is(err, gpu.ErrUnsupported)):
		out.Skipped = err.Error()
	case err != nil:
		out.Failure = err.Error()
	case !(out.Ratio <= 1) && out.Failure == "":
		out.Failure = "an error is past its bound"
	}
	return out, nil
}

// fail records what is wrong; the first message stays.
func (r *Result) fail(format string, args ...any) {
	if r.Failure == "" {
		r.Failure = fmt.Sprintf(format, args...)
	}
}

// judge adds the outcome of a check.
func (r *Result) judge(report gemm.Report) {
	if report.Ratio > r.Ratio {
		r.Ratio, r.Where = report.Ratio, place(report)
	}
	if !report.Right() {
		r.fail("%s", describe(report))
	}
}

func place(r gemm.Report) string {
	col := fmt.Sprint(r.Col)
	if r.Col < 0 {
		col = "*" // a sum over the row
	}
	if r.Batch > 0 {
		return fmt.Sprintf("C[%d, %d, %s]", r.Batch, r.Row, col)
	}
	return fmt.Sprintf("C[%d, %s]", r.Row, col)
}

func describe(r gemm.Report) string {
	what := place(r)
	if r.Col < 0 {
		what = "the signed sum over " + what
	}
	return fmt.Sprintf("%s is %v, want %v within %.3g", what, r.Got, r.Want, r.Bound)
}

// Select is the cases of the suites, for each kernel. It returns an error for a
// name that it does not know.
func Select(r *Runner, names []string, kernels []Kernel) ([]Case, error) {
	var cases []Case
	for _, name := range names {
		switch i := slices.IndexFunc(Suites, func(s Suite) bool { return s.Name == name }); {
		case i >= 0:
			cases = append(cases, Suites[i].of(r, kernels)...)
		case name == "all" || name == "quick":
			for _, s := range Suites {
				if s.Big {
					continue
				}
				all := s.of(r, kernels)
				if name == "quick" {
					all = spread(slices.DeleteFunc(all, func(c Case) bool { return c.Long }), quickCases)
				}
				cases = append(cases, all...)
			}
		default:
			return nil, fmt.Errorf("no suite %q; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	return cases, nil
}

// Names are the suites that Select knows.
func Names() []string {
	var names []string
	for _, s := range Suites {
		names = append(names, s.Name)
	}
	return append(names, "quick", "all")
}

// quickCases is how many cases the selection quick takes of each suite.
const quickCases = 16

// spread is at most n of the cases, from the first to the last.
func spread(cases []Case, n int) []Case {
	if len(cases) <= n {
		return cases
	}
	out := make([]Case, n)
	for i := range out {
		out[i] = cases[i*(len(cases)-1)/(n-1)]
	}
	return out
}

// A Suite is a named set of cases.
type Suite struct {
	Name, About string
	Big         bool // too long for a software adapter: not part of all
	cases       func(r *Runner, k Kernel) []Case
}

func (s Suite) of(r *Runner, kernels []Kernel) []Case {
	var cases []Case
	for _, k := range kernels {
		for _, c := range s.cases(r, k) {
			c.Suite, c.Kernel = s.Name, k
			cases = append(cases, c)
		}
	}
	return cases
}

// Shapes are cases for a caller's own sizes m, n, k, whole numbers and random
// ones, in the type of elements of a suite.
func Shapes(sizes [][3]int, dtype gemm.DType, kernels []Kernel) []Case {
	s := Suite{Name: "shapes", cases: func(*Runner, Kernel) []Case {
		var out []Problem
		for _, size := range sizes {
			p := Problem{M: size[0], N: size[1], K: size[2], In: dtype, Out: dtype, Alpha: 1, OnDevice: true}
			if dtype == gemm.I8 {
				p.Out = gemm.I32
			}
			whole := p
			whole.Whole = true
			out = append(out, whole)
			if dtype != gemm.I8 {
				out = append(out, p)
			}
		}
		return problems(out)
	}}
	return s.of(nil, kernels)
}

// A Summary is what is told of the cases of a suite.
type Summary struct {
	Suite           string
	Cases           int
	Worst           Result // with the largest ratio
	Failures, Skips []Result
}

// Summarize groups results by suite, in their order.
func Summarize(results []Result) []Summary {
	var out []Summary
	for _, r := range results {
		i := slices.IndexFunc(out, func(s Summary) bool { return s.Suite == r.Suite })
		if i < 0 {
			i = len(out)
			out = append(out, Summary{Suite: r.Suite})
		}
		s := &out[i]
		s.Cases++
		switch {
		case r.Skipped != "":
			s.Skips = append(s.Skips, r)
			continue
		case r.Failure != "":
			s.Failures = append(s.Failures, r)
		}
		if !(r.Ratio <= s.Worst.Ratio) {
			s.Worst = r
		}
	}
	return out
}
