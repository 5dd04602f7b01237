package gemm

import (
	"fmt"

	gpu "github.com/wgemm/wgemm/runtime"
)

// A Shape is a product without its matrices: C = act(alpha A B + beta C + bias),
// where A is M x K, B is K x N and C is M x N, for each of a batch. Each matrix
// lies in memory without gaps, in row-major order unless it is transposed, and
// starts a buffer.
type Shape struct {
	M, N, K        int
	Batch          int   // 0 as well as 1 stand for one product
	In, Out        DType // of A, B and the bias, and of C
	TransA, TransB bool  // A is stored K x M, B is stored N x K
	Bias           bool  // a row of N elements is added
}

// problem is the shape as the planner takes it, checked as Multiply checks its
// operands.
func (s Shape) problem(o options) (problem, error) {
	dense := func(rows, cols int, transposed bool) layout {
		l := layout{rows: rows, cols: cols, batches: max(s.Batch, 1)}
		if transposed {
			return l.transposed().packed().transposed()
		}
		return l.packed()
	}
	la, lb, lc := dense(s.M, s.K, s.TransA), dense(s.K, s.N, s.TransB), dense(s.M, s.N, false)
	for _, x := range []struct {
		arg string
		lay layout
	}{{"A", la}, {"B", lb}, {"C", lc}} {
		if err := x.lay.check(x.arg, maxElements); err != nil {
			return problem{}, err
		}
	}
	p := problem{
		M: s.M, N: s.N, K: s.K, Batch: lc.batches, In: s.In, Out: s.Out,
		Alpha: o.alpha, Beta: o.beta, Bias: s.Bias, Act: o.act, Acc: o.acc,
		a: la.access(), b: lb.access(), c: lc.access(),
	}
	return p, p.checkTypes()
}

// PlanFor tells how an engine on a device with an adapter's limits would compute a
// product, without a device. The options are those of Multiply but WithBias, in
// whose place is Shape.Bias; t may be nil. It returns the errors of Engine.Plan,
// and a *LimitError for a matrix that the device cannot hold.
func PlanFor(s Shape, a gpu.Adapter, t Tuning, opts ...Option) (Plan, error) {
	o := newOptions(opts)
	p, err := s.problem(o)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{problem: p}
	if plan.empty() {
		return plan, nil
	}
	for _, b := range plan.operandBuffers() {
		if b.Bytes == 0 {
			continue // a word is bound
		}
		if err := a.Limits.CheckBuffer(b.Name, b.Bytes); err != nil {
			return Plan{}, err
		}
	}
	return makePlan(p, t, o, a)
}

// Choices are the planner's, the best first: it takes the first that the device
// can run. PlanFor with WithChoice tells of each why it cannot, or what it takes.
// It returns a *ShapeError.
func Choices(s Shape, a gpu.Adapter, opts ...Option) ([]Choice, error) {
	p, err := s.problem(newOptions(opts))
	if err != nil {
		return nil, err
	}
	return choices(p, a), nil
}

// A Buffer is memory on the device that a plan uses.
type Buffer struct {
	Name  string `json:"name"` // "A", "B", "C", "packed A", "packed B" or "parts of K", of the last rows or columns if it says so
	Bytes int    `json:"bytes"`
}

// Buffers are the matrices, each without gaps, and the scratch memory of a plan.
func (p Plan) Buffers() []Buffer { return append(p.operandBuffers(), p.scratch...) }

func (p Plan) operandBuffers() []Buffer {
	return []Buffer{
		{"A", p.Batch * p.M * p.K * p.In.Size()},
		{"B", p.Batch * p.K * p.N * p.In.Size()},
		{"C", p.Batch * p.M * p.N * p.Out.Size()},
	}
}

// Flops is the number of multiplications and additions of the product,
// 2 batch m n k; those of the bias and the activation do not count.
func (p Plan) Flops() float64 {
	return 2 * float64(p.Batch) * float64(p.M) * float64(p.N) * float64(p.K)
}

// Bytes are those of A, B and C, each moved once, and C once more where beta is
// not 0: the least that any plan moves. A bias is too little to count.
func (p Plan) Bytes() float64 {
	bytes := 0.0
	for _, b := range p.operandBuffers() {
		bytes += float64(b.Bytes)
		if b.Name == "C" && p.Beta != 0 {
			bytes += float64(b.Bytes)
		}
	}
	return bytes
}

// ScratchBytes are written to scratch memory by one pass and read by the next.
func (p Plan) ScratchBytes() float64 {
	bytes := 0.0
	for _, b := range p.scratch {
		bytes += 2 * float64(b.Bytes)
	}
	return bytes
}

// Loads are the bytes of A and B that all workgroups load together: each row of
// tiles loads all of B, each column of tiles all of A. Caches serve most of them.
func (p Plan) Loads() float64 {
	if p.Variant == nil {
		return 0
	}
	q := p.computed()
	bytes := float64(q.In.Size()*q.Batch) * float64(q.K) * (float64(p.inner[0])*float64(p.Grid[0]) + float64(p.inner[1])*float64(p.Grid[1]))
	for _, e := range p.edges {
		bytes += e.Loads()
	}
	return bytes
}

// Passes are the variants that run, in their order: those that pack, the product,
// the one that adds parts of K up, and those of the edges.
func (p Plan) Passes() []string {
	var names []string
	for _, s := range p.shaders {
		names = append(names, s.Label)
	}
	return names
}

// addScratch computes the scratch memory of a plan and checks it against the
// device: of as much of the batch as a grid can hold (device.go).
func (p *Plan) addScratch(q problem, a gpu.Adapter) error {
	count := min(p.Batch, p.batches(a.Limits))
	padded := func(n int) int { return ceilDiv(n, 4) * 4 }
	if p.packA != nil {
		p.scratch = append(p.scratch, Buffer{"packed A", q.In.Size() * count * padded(q.M) * q.K})
	}
	if p.packB != nil {
		p.scratch = append(p.scratch, Buffer{"packed B", q.In.Size() * count * padded(q.N) * q.K})
	}
	if p.Reduce != nil {
		p.scratch = append(p.scratch, Buffer{"parts of K", 4 * count * p.Splits * q.M * q.N})
	}
	for _, b := range p.scratch {
		if err := a.Limits.CheckBuffer(b.Name, b.Bytes); err != nil {
			return fmt.Errorf("%s: %w", p.Variant.Name, err)
		}
	}
	return nil
}
