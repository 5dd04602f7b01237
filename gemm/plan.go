package gemm

import (
	"fmt"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

// A problem is what the planner knows of the operands.
type problem struct {
	m, n, k int
	in, out DType
}

// newProblem checks the operands against each other.
func newProblem(e *Engine, c, a, b Operand) (problem, error) {
	for _, x := range []struct {
		arg string
		m   Operand
	}{{"A", a}, {"B", b}, {"C", c}} {
		switch m := x.m.(type) {
		case HostMatrix:
			check := layout.check
			if x.arg == "C" {
				check = func(l layout, arg string, length int) error { return checkOutput(arg, l, length) }
			}
			if err := check(m.layout(), x.arg, m.length()); err != nil {
				return problem{}, err
			}
		case *DeviceMatrix:
			if m == nil || m.engine != e {
				return problem{}, &ShapeError{x.arg, "is on another engine"}
			}
			if x.arg == "C" && m.lay.overlaps() {
				return problem{}, checkOutput("C", m.lay, maxElements)
			}
		default:
			return problem{}, &ShapeError{x.arg, fmt.Sprintf("is a %T, want a Matrix or a *DeviceMatrix", x.m)}
		}
	}
	la, lb, lc := a.layout(), b.layout(), c.layout()
	switch {
	case la.cols != lb.rows:
		return problem{}, &ShapeError{"B", fmt.Sprintf("has %d rows, want %d as A (%d x %d) has columns", lb.rows, la.cols, la.rows, la.cols)}
	case lc.rows != la.rows || lc.cols != lb.cols:
		return problem{}, &ShapeError{"C", fmt.Sprintf("is %d x %d, want %d x %d for A (%d x %d) and B (%d x %d)",
			lc.rows, lc.cols, la.rows, lb.cols, la.rows, la.cols, lb.rows, lb.cols)}
	case a.DType() != b.DType():
		return problem{}, &ShapeError{"B", fmt.Sprintf("has elements of %s, want %s as A has", b.DType(), a.DType())}
	case c.DType() == F16 && a.DType() != F16:
		return problem{}, &ShapeError{"C", fmt.Sprintf("has elements of f16, want f32 as A and B have %s", a.DType())}
	}
	for arg, m := range map[string]Operand{"A": a, "B": b} {
		if dm, ok := m.(*DeviceMatrix); ok {
			if dc, ok := c.(*DeviceMatrix); ok && dm.buffer == dc.buffer {
				return problem{}, &ShapeError{"C", "shares its memory with " + arg}
			}
		}
	}
	return problem{la.rows, lb.cols, la.cols, a.DType(), c.DType()}, nil
}

// A Plan is how a product is computed.
type Plan struct {
	M, N, K int
	In, Out DType         // element types of A and B, and of C
	Variant *wgsl.Variant // nil where the CPU path computes without one
	Grid    [3]uint32     // workgroups in x (columns), y (rows) and z
}

// Name is the variant's, or that of the CPU path.
func (p Plan) Name() string {
	if p.Variant == nil {
		return "gonum"
	}
	return p.Variant.Name
}

// Slices is the number of slices of K that each workgroup walks through; 0 for
// a kernel that does not cut K.
func (p Plan) Slices() int {
	if p.Variant != nil {
		if bk, ok := p.Variant.Const("BK"); ok {
			return ceilDiv(p.K, int(bk))
		}
	}
	return 0
}

// fits returns an error for matrices that are not those of the plan.
func (p Plan) fits(e *Engine, c, a, b *DeviceMatrix) error {
	got, err := newProblem(e, c, a, b)
	if err != nil {
		return err
	}
	if want := (problem{p.M, p.N, p.K, p.In, p.Out}); got != want {
		return &ShapeError{"the plan", fmt.Sprintf("is for %d x %d x %d %s to %s, the matrices are %d x %d x %d %s to %s",
			want.m, want.n, want.k, want.in, want.out, got.m, got.n, got.k, got.in, got.out)}
	}
	return nil
}

// makePlan picks a variant and a grid. It needs no device, only what describes
// one.
func makePlan(p problem, o options, a gpu.Adapter) (Plan, error) {
	kernel, params := o.kernel, o.params
	if kernel == "" {
		kernel, params = choose(p, a)
		params = params.With(o.params)
	}
	v, err := specialize(kernel, params, p)
	if err != nil {
		return Plan{}, err
	}
	if err := a.CheckShader(shader(v)); err != nil {
		return Plan{}, err
	}
	bm, okM := v.Const("BM")
	bn, okN := v.Const("BN")
	if !okM || !okN {
		return Plan{}, fmt.Errorf("gemm: kernel %s has no tile of BM x BN", kernel)
	}
	plan := Plan{p.m, p.n, p.k, p.in, p.out, v, [3]uint32{uint32(ceilDiv(p.n, int(bn))), uint32(ceilDiv(p.m, int(bm))), 1}}
	for _, n := range plan.Grid {
		if n > a.Limits.MaxComputeWorkgroupsPerDimension {
			return Plan{}, &LimitError{
				What: v.Name, Limit: "maxComputeWorkgroupsPerDimension",
				Need: uint64(n), Have: uint64(a.Limits.MaxComputeWorkgroupsPerDimension),
			}
		}
	}
	return plan, nil
}

// choose is the default variant.
func choose(p problem, a gpu.Adapter) (string, wgsl.Params) {
	params := wgsl.Params{"UNROLL": 1}
	// On a software adapter a larger register tile pays, at larger sizes: its
	// workgroups do not compete for registers (docs/kernels.md, all numbers).
	if a.Type == gpu.Software && p.m >= 256 && p.n >= 256 {
		params = params.With(wgsl.Params{"BM": 128, "BN": 128, "TM": 8, "TN": 8})
	}
	// A tile much larger than C would leave most invocations without work.
	if p.m <= 16 || p.n <= 16 {
		params = params.With(wgsl.Params{"BM": 16, "BN": 16, "BK": 32, "TM": 1, "TN": 1})
	}
	return "gemm_tiled", params
}

// specialize adds to the tunables what follows from the element types.
func specialize(kernel string, params wgsl.Params, p problem) (*wgsl.Variant, error) {
	types := wgsl.Params{"IN_F16": 0, "OUT_F16": 0}
	for name := range types {
		if _, given := params[name]; given {
			return nil, &wgsl.ParamError{Kernel: kernel, Param: name, Reason: "follows from the types of the matrices and cannot be set"}
		}
	}
	if p.in == F16 {
		types["IN_F16"] = 1
	}
	if p.out == F16 {
		types["OUT_F16"] = 1
	}
	return wgsl.Specialize(kernel, params.With(types))
}

func shader(v *wgsl.Variant) gpu.Shader {
	s := gpu.Shader{
		Label:          v.Name,
		Source:         v.Source,
		Entry:          "main",
		WorkgroupSize:  v.WorkgroupSize,
		WorkgroupBytes: v.WorkgroupBytes,
		Features:       v.Features,
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
