package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
)

// A Problem is one product with what it needs: act(alpha op(A) op(B) + beta C +
// bias), where A is m x k and B is k x n after op.
type Problem struct {
	M, N, K, Batch int // Batch 0 is 1
	In, Out        gemm.DType
	TransA, TransB bool
	Alpha, Beta    float32
	Bias           string // "", "row", "column" or "full"
	Act            gemm.Activation
	SharedA        bool // one A for the whole batch
	SharedB        bool
	Whole          bool // small whole numbers, whose product is exact, else random ones
	Positive       bool // random numbers in [0, 1), so that no error cancels
	Gaps           bool // operands lie inside larger matrices of poison
	OnDevice       bool // operands are on the device, else on the host

	data *data // values and results that are given, nil for random ones
}

// data is the values of a problem that is not random.
type data struct {
	name    string
	a, b, c func(p, i, j int) float64 // c may be nil
	exact   bool                      // C must be the exact product, rounded once
	must    bool                      // a limit of the device is no reason to skip it
	check   func(at func(p, i, j int) float64) string
}

// String is the problem in the form in which cases are named.
func (p Problem) String() string {
	parts := []string{fmt.Sprintf("%dx%dx%d", p.M, p.N, p.K)}
	add := func(on bool, format string, args ...any) {
		if on {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	if p.data != nil {
		parts = append([]string{p.data.name}, parts...)
	}
	add(p.Batch > 0, "batch=%d", p.Batch)
	add(p.In != gemm.F32 && p.In != gemm.I8, "%s", p.In)
	add(p.In != gemm.F32 && p.In != gemm.I8 && p.Out == gemm.F32, "to-f32")
	add(p.In == gemm.I8, "i8")
	add(p.TransA, "ta")
	add(p.TransB, "tb")
	add(p.Alpha != 1, "alpha=%v", p.Alpha)
	add(p.Beta != 0, "beta=%v", p.Beta)
	add(p.Bias != "", "bias=%s", p.Bias)
	add(p.Act != gemm.None, "%s", p.Act)
	add(p.SharedA, "one-a")
	add(p.SharedB, "one-b")
	add(p.Whole, "whole")
	add(p.Positive, "positive")
	add(p.Gaps, "gaps")
	add(p.OnDevice, "device")
	return strings.Join(parts, ",")
}

// long reports whether a software adapter takes long for it.
func (p Problem) long() bool {
	return p.K > 1<<13 || p.Batch > 1000 || max(p.Batch, 1)*p.M*p.N*max(p.K, 1) > 1<<24
}

func problems(ps []Problem) []Case {
	cases := make([]Case, len(ps))
	for i, p := range ps {
		cases[i] = Case{Name: p.String(), Long: p.long(), must: p.data != nil && p.data.must, run: func(ctx context.Context, r *Runner, k Kernel) (Result, error) {
			return p.run(ctx, r, k)
		}}
	}
	return cases
}

func (p Problem) run(ctx context.Context, r *Runner, k Kernel) (Result, error) {
	if k.Choice.Params["NATIVE_F16"] != 0 && p.In != gemm.F16 {
		return Result{Skipped: "a variant of binary16"}, nil
	}
	switch [2]gemm.DType{p.In, p.Out} {
	case [2]gemm.DType{gemm.F16, gemm.F16}:
		return run[float16.Float16, float16.Float16](ctx, r, k, p)
	case [2]gemm.DType{gemm.F16, gemm.F32}:
		return run[float16.Float16, float32](ctx, r, k, p)
	case [2]gemm.DType{gemm.BF16, gemm.BF16}:
		return run[gemm.BFloat16, gemm.BFloat16](ctx, r, k, p)
	case [2]gemm.DType{gemm.BF16, gemm.F32}:
		return run[gemm.BFloat16, float32](ctx, r, k, p)
	case [2]gemm.DType{gemm.I8, gemm.I32}:
		return run[int8, int32](ctx, r, k, p)
	}
	return run[float32, float32](ctx, r, k, p)
}

// maxExact bounds the products that are formed one by one for a reference of
// every element; above it CheckSums stands in.
const maxExact = 1 << 27

func run[In, Out gemm.Element](ctx context.Context, r *Runner, k Kernel, p Problem) (Result, error) {
	var res Result
	p.Batch = max(p.Batch, 1)
	rng := r.rand(p.String())
	a := newOperand[In](p, p.M, p.K, p.TransA, p.SharedA, poison[In](inputPoison))
	b := newOperand[In](p, p.K, p.N, p.TransB, p.SharedB, poison[In](inputPoison))
	c := newOperand[Out](p, p.M, p.N, false, false, poison[Out](outputPoison))
	bias := newOperand[In](Problem{}, 0, 0, false, false, poison[In](inputPoison))
	switch p.Bias {
	case "row":
		bias = newOperand[In](p, 1, p.N, false, true, poison[In](inputPoison))
	case "column":
		bias = newOperand[In](p, p.M, 1, false, true, poison[In](inputPoison))
	case "full":
		bias = newOperand[In](p, p.M, p.N, false, false, poison[In](inputPoison))
	}
	opts := append(k.options(), gemm.WithAlpha(p.Alpha), gemm.WithBeta(p.Beta), gemm.WithActivation(p.Act))
	if p.In == gemm.I8 {
		opts = k.options()
	}
	fillA, fillB, fillC := p.random(rng, 4), p.random(rng, 3), p.random(rng, 4)
	if p.data != nil {
		fillA, fillB, fillC = p.data.a, p.data.b, p.data.c
	}
	if p.Alpha != 0 || p.data != nil { // else they hold poison and must not be read
		a.fill(fillA)
		b.fill(fillB)
	}
	if p.Beta != 0 || p.data != nil && fillC != nil { // else C holds poison
		c.fill(fillC)
	}
	bias.fill(p.random(rng, 4))

	plan, err := r.Engine.Plan(c.view, a.view, b.view, opts...)
	if err != nil {
		return res, err
	}
	if p.M > 0 && p.N > 0 {
		res.Variant = plan.Name()
	}
	product := gemm.Product{A: a.view, B: b.view, Alpha: p.Alpha, Beta: p.Beta, C0: c.copy(), Act: p.Act}
	beforeA, beforeB, beforeC := slices.Clone(a.memory()), slices.Clone(b.memory()), slices.Clone(c.memory())
	var biasOperand *operand[In]
	if p.Bias != "" {
		product.Bias = bias.view
		biasOperand = &bias
	}
	var first []Out
	for range 2 {
		copy(c.memory(), beforeC)
		if err := multiply(ctx, r, p.OnDevice, c, a, b, biasOperand, opts); err != nil {
			return res, err
		}
		if first == nil {
			first = slices.Clone(c.memory())
		} else if i := differs(first, c.memory()); i >= 0 {
			res.fail("two runs differ: element %d of C's memory is %v and %v", i, first[i], c.memory()[i])
		}
	}
	if differs(beforeA, a.memory()) >= 0 {
		res.fail("A was changed")
	}
	if differs(beforeB, b.memory()) >= 0 {
		res.fail("B was changed")
	}
	outside := slices.Clone(c.memory())
	c.each(func(_, _, _, at int) { outside[at] = beforeC[at] })
	if i := differs(outside, beforeC); i >= 0 {
		res.fail("element %d of C's memory, which is outside C, was changed from %v to %v", i, number(beforeC[i]), number(outside[i]))
	}
	exact := p.In == gemm.I8 || p.Whole || p.data != nil && p.data.exact
	res.judge(product.Check(c.view, r.Seed))
	switch big := p.Batch*p.M*p.N*max(p.K, 1) > maxExact; {
	case exact && !big:
		equal(&res, p, c, product, a, b)
	case p.Act == gemm.None && big:
		res.judge(product.CheckSums(c.view, exact && (p.Out == gemm.F32 || p.Out == gemm.I32), r.Seed))
	}
	if p.data != nil && p.data.check != nil {
		if message := p.data.check(func(p, i, j int) float64 { return number(c.view.Data[c.at(p, i, j)]) }); message != "" {
			res.fail("%s", message)
		}
	}
	return res, nil
}

// random gives the values of an operand: whole numbers of at most most, whose
// sums over any K here are exact in binary32 in any order, or numbers in [-1, 1).
func (p Problem) random(rng *rand.Rand, most int) func(_, _, _ int) float64 {
	switch {
	case p.In == gemm.I8:
		return func(int, int, int) float64 { return float64(rng.IntN(256) - 128) }
	case p.Whole:
		return func(int, int, int) float64 { return float64(rng.IntN(2*most+1) - most) }
	case p.Positive:
		return func(int, int, int) float64 { return rng.Float64() }
	}
	return func(int, int, int) float64 { return 2*rng.Float64() - 1 }
}

// equal compares every element with the exact value, rounded once to C's type.
// The sign of a zero is left open.
func equal[In, Out gemm.Element](res *Result, p Problem, c operand[Out], x gemm.Product, a, b operand[In]) {
	row := make([]float64, p.N)
	old, hasOld := x.C0.(gemm.Matrix[Out])
	bias, hasBias := x.Bias.(gemm.Matrix[In])
	valuesA, valuesB := a.values(), b.values()
	for batch := range p.Batch {
		rowsA := valuesA[min(batch, a.view.Batch-1)*p.M*p.K:]
		rowsB := valuesB[min(batch, b.view.Batch-1)*p.K*p.N:]
		for i := range p.M {
			clear(row)
			for kk := 0; kk < p.K && p.Alpha != 0; kk++ {
				u := rowsA[i*p.K+kk]
				for j, v := range rowsB[kk*p.N:][:p.N] {
					row[j] += u * v
				}
			}
			for j, v := range row {
				v *= float64(p.Alpha)
				if p.Beta != 0 && hasOld {
					v += float64(p.Beta) * number(old.Data[c.at(batch, i, j)])
				}
				if hasBias {
					v += number(bias.Data[min(batch, bias.Batch-1)*bias.BatchStride+min(i, bias.Rows-1)*bias.RowStride+min(j, bias.Cols-1)*bias.ColStride])
				}
				got, want := number(c.view.Data[c.at(batch, i, j)]), number(element[Out](p.Act.Of(v)))
				if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
					res.Ratio, res.Where = math.Inf(1), place(gemm.Report{Batch: batch, Row: i, Col: j})
					res.fail("%s is %v, want exactly %v", res.Where, got, want)
					return
				}
			}
		}
	}
}

// multiply computes C once, from operands on the host or on the device.
func multiply[In, Out gemm.Element](ctx context.Context, r *Runner, onDevice bool, c operand[Out], a, b operand[In], bias *operand[In], opts []gemm.Option) (err error) {
	if !onDevice {
		if bias != nil {
			opts = append(slices.Clone(opts), gemm.WithBias(bias.view))
		}
		return r.multiply(ctx, c.view, a.view, b.view, opts...)
	}
	var uploaded []*gemm.DeviceMatrix
	defer func() {
		for _, m := range uploaded {
			err = errors.Join(err, m.Close())
		}
	}()
	upload := func(m gemm.HostMatrix) *gemm.DeviceMatrix {
		var d *gemm.DeviceMatrix
		if err == nil {
			if d, err = r.Engine.Upload(ctx, m); err == nil {
				uploaded = append(uploaded, d)
			}
		}
		return d
	}
	wholeC, wholeA, wholeB := upload(c.outer), upload(a.outer), upload(b.outer)
	if bias != nil {
		if whole := upload(bias.outer); err == nil {
			opts = append(slices.Clone(opts), gemm.WithBias(bias.onDevice(whole)))
		}
	}
	if err != nil {
		return err
	}
	if err := r.multiply(ctx, c.onDevice(wholeC), a.onDevice(wholeA), b.onDevice(wholeB), opts...); err != nil {
		return err
	}
	return errors.Join(r.Engine.Download(ctx, c.outer, wholeC), r.Engine.Download(ctx, a.outer, wholeA), r.Engine.Download(ctx, b.outer, wholeB))
}
