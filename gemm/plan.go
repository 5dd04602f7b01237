package gemm

import (
	"fmt"
	"math"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

// A problem is what the planner knows of a product.
type problem struct {
	M, N, K     int
	Batch       int
	In, Out     DType // element types of A and B, and of C
	Alpha, Beta float32
	Bias        bool
	Act         Activation
	Acc         Accumulator
	a, b, c     access
}

// same reports whether two problems are the same, where NaN is itself.
func (p problem) same(q problem) bool {
	if math.Float32bits(p.Alpha) != math.Float32bits(q.Alpha) || math.Float32bits(p.Beta) != math.Float32bits(q.Beta) {
		return false
	}
	p.Alpha, p.Beta, q.Alpha, q.Beta = 0, 0, 0, 0
	return p == q
}

// transposed is the problem of C' = B' A', which is the same.
func (p problem) transposed() problem {
	p.M, p.N = p.N, p.M
	p.a, p.b, p.c = p.b.transposed(), p.a.transposed(), p.c.transposed()
	return p
}

// skipsProduct reports whether A and B are not read.
func (p problem) skipsProduct() bool { return p.K == 0 || p.Alpha == 0 }

// newProblem checks the operands against each other.
func newProblem(e *Engine, c, a, b Operand, o options) (problem, error) {
	args := []struct {
		arg string
		m   Operand
	}{{"A", a}, {"B", b}, {"C", c}}
	if o.bias != nil {
		args = append(args, struct {
			arg string
			m   Operand
		}{"the bias", o.bias})
	}
	for _, x := range args {
		if err := checkOperand(e, x.arg, x.m, x.arg == "C"); err != nil {
			return problem{}, err
		}
	}
	la, lb, lc := a.layout(), b.layout(), c.layout()
	p := problem{
		M: la.rows, N: lb.cols, K: la.cols, Batch: lc.batches,
		In: a.DType(), Out: c.DType(),
		Alpha: o.alpha, Beta: o.beta, Bias: o.bias != nil, Act: o.act, Acc: o.acc,
		a: la.access(), b: lb.access(), c: lc.access(),
	}
	wrong := func(arg, format string, args ...any) (problem, error) {
		return problem{}, &ShapeError{arg, fmt.Sprintf(format, args...)}
	}
	switch {
	case la.cols != lb.rows:
		return wrong("B", "has %d rows, want %d as A (%d x %d) has columns", lb.rows, la.cols, la.rows, la.cols)
	case lc.rows != la.rows || lc.cols != lb.cols:
		return wrong("C", "is %d x %d, want %d x %d for A (%d x %d) and B (%d x %d)",
			lc.rows, lc.cols, la.rows, lb.cols, la.rows, la.cols, lb.rows, lb.cols)
	case p.In != I32 && b.DType() != p.In:
		return wrong("B", "has elements of %s, want %s as A has", b.DType(), p.In)
	}
	if err := p.checkTypes(); err != nil {
		return problem{}, err
	}
	for _, x := range args {
		if n := x.m.layout().batches; x.arg != "C" && n != 1 && n != p.Batch {
			return wrong(x.arg, "has a batch of %d, want %d as C has, or 1", n, p.Batch)
		}
		dx, okX := x.m.(*DeviceMatrix)
		dc, okC := c.(*DeviceMatrix)
		if x.arg != "C" && okX && okC && dx.buffer == dc.buffer {
			return wrong("C", "shares its memory with %s", x.arg)
		}
	}
	if o.bias != nil {
		l := o.bias.layout()
		switch {
		case o.bias.DType() != p.In:
			return wrong("the bias", "has elements of %s, want %s as A and B have", o.bias.DType(), p.In)
		case (l.rows != 1 && l.rows != p.M) || (l.cols != 1 && l.cols != p.N):
			return wrong("the bias", "is %d x %d, want a row of %d, a column of %d, or %d x %d", l.rows, l.cols, p.N, p.M, p.M, p.N)
		}
	}
	return p, nil
}

// checkTypes returns an error for types of elements, or options, that do not go
// together.
func (p problem) checkTypes() error {
	wrong := func(arg, format string, args ...any) error {
		return &ShapeError{arg, fmt.Sprintf(format, args...)}
	}
	switch {
	case p.In == I32:
		return wrong("A", "has elements of i32, want f32, f16, bf16 or i8")
	case p.In == I8 && p.Out != I32:
		return wrong("C", "has elements of %s, want i32 as A and B have i8", p.Out)
	case p.In != I8 && p.Out != F32 && p.Out != p.In:
		want := p.In.String()
		if p.In != F32 {
			want += " or f32"
		}
		return wrong("C", "has elements of %s, want %s as A and B have %s", p.Out, want, p.In)
	case p.In == I8 && (p.Alpha != 1 || p.Beta != 0 || p.Bias || p.Act != None):
		return wrong("A", "has elements of i8, whose product has no alpha, beta, bias or activation")
	case p.Acc > AccF32x2:
		return wrong("the accumulator", "is number %d of %d", p.Acc, AccF32x2+1)
	case p.In == I8 && p.Acc != AccF32:
		return wrong("A", "has elements of i8, whose sums are exact without another accumulator")
	case int(p.Act) >= len(activations):
		return wrong("the activation", "is number %d of %d", p.Act, len(activations))
	}
	return nil
}

// checkOperand checks one operand by itself.
func checkOperand(e *Engine, arg string, m Operand, written bool) error {
	length := maxElements
	switch m := m.(type) {
	case HostMatrix:
		length = m.length()
	case *DeviceMatrix:
		if m == nil {
			return &ShapeError{arg, "is nil"}
		}
		if m.engine != e {
			return &ShapeError{arg, "is on another engine"}
		}
	default:
		return &ShapeError{arg, fmt.Sprintf("is a %T, want a Matrix or a *DeviceMatrix", m)}
	}
	if written {
		return checkOutput(arg, m.layout(), length)
	}
	return m.layout().check(arg, length)
}

// A Plan is how a product is computed.
type Plan struct {
	problem
	Choice
	Tuned   bool          // the choice was measured (Tuning), and is not the planner's own
	Variant *wgsl.Variant // nil where the CPU path computes without one
	Grid    [3]uint32     // workgroups in x (columns), y (rows) and z (the batch, and the parts of K)
	Reduce  *wgsl.Variant // the pass that adds the parts of K up; nil for one part

	inner        [2]int        // rows and columns of C (C' if transposed) that the variant computes
	edges        []edge        // plans for the others
	depth        int           // of a part of K
	reduceGrid   [3]uint32     // of Reduce
	packA, packB *wgsl.Variant // the passes before the product, or nil
	shaders      []gpu.Shader  // of all passes in their order, those of the edges last
	scratch      []Buffer      // memory between the passes
	of           string        // follows the names of its scratch memory: that of an edge is its own
}

// An edge is a part of C from a row and column on, which the plan of another
// product computes: of the same A and B, packed if those are, transposed if they
// are.
type edge struct {
	row, col int
	Plan
}

// variants are those of all passes.
func (p Plan) variants() []*wgsl.Variant {
	var list []*wgsl.Variant
	for _, v := range []*wgsl.Variant{p.Variant, p.Reduce, p.packA, p.packB} {
		if v != nil {
			list = append(list, v)
		}
	}
	for _, e := range p.edges {
		list = append(list, e.variants()...)
	}
	return list
}

// batches is how many matrices of the batch go into one grid.
func (p Plan) batches(limits gpu.Limits) int {
	n := int(limits.MaxComputeWorkgroupsPerDimension) / p.Splits
	for _, e := range p.edges {
		n = min(n, e.batches(limits))
	}
	return n
}

// empty reports whether there is nothing to compute.
func (p Plan) empty() bool { return p.M == 0 || p.N == 0 || p.Batch == 0 }

// Name is the variant's, or that of the CPU path.
func (p Plan) Name() string {
	switch {
	case p.Variant != nil:
		return p.Variant.Name
	case p.Acc == AccF32x2:
		return "float64"
	}
	return "gonum"
}

// Slices is the number of slices of K, in all its parts together; 0 for a kernel
// that does not cut K.
func (p Plan) Slices() int {
	if p.Variant != nil {
		if bk, ok := p.Variant.Const("BK"); ok {
			return ceilDiv(p.K, int(bk))
		}
	}
	return 0
}

// operands returns the matrices as the backend takes them, or an error for
// matrices or options that are not those of the plan.
func (p Plan) operands(e *Engine, c, a, b *DeviceMatrix, o options) (operands, error) {
	got, err := newProblem(e, c, a, b, o)
	if err != nil {
		return operands{}, err
	}
	if !got.same(p.problem) {
		return operands{}, &ShapeError{"the plan", fmt.Sprintf("is for %+v, the call is %+v", p.problem, got)}
	}
	views := new([3]DeviceMatrix) // one value for the garbage collector
	x := operands{c: c, a: a.broadcast(&views[0]), b: b.broadcast(&views[1])}
	if o.bias != nil {
		bias, ok := o.bias.(*DeviceMatrix)
		if !ok {
			return operands{}, &ShapeError{"the bias", "is on the host, want it on the device as the other matrices are"}
		}
		x.bias = bias.broadcast(&views[2])
	}
	return x, nil
}

// broadcast makes v m with strides of 0 along axes of size 1, so that it can be
// seen as larger, and returns v.
func (m *DeviceMatrix) broadcast(v *DeviceMatrix) *DeviceMatrix {
	*v = *m
	if v.lay.batches == 1 {
		v.lay.batch = 0
	}
	if v.lay.rows == 1 {
		v.lay.row = 0
	}
	if v.lay.cols == 1 {
		v.lay.col = 0
	}
	return v
}

func shader(v *wgsl.Variant) gpu.Shader {
	s := gpu.Shader{
		Label:          v.Name,
		Source:         v.Source,
		Entry:          "main",
		WorkgroupSize:  v.WorkgroupSize,
		WorkgroupBytes: v.WorkgroupBytes,
		Features:       v.Features,
		Bindings:       make([]gpu.Binding, 0, len(v.Bindings)),
	}
	for _, b := range v.Bindings {
		switch b {
		case "uniform":
			s.Bindings = append(s.Bindings, gpu.Uniform)
		case "storage, read":
			s.Bindings = append(s.Bindings, gpu.ReadOnly)
		default:
			s.Bindings = append(s.Bindings, gpu.ReadWrite)
		}
	}
	return s
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
