package gemm

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

// adapterOf is an adapter with the limits that every device has, and some more.
func adapterOf(kind gpu.AdapterType, more func(*gpu.Limits)) gpu.Adapter {
	a := gpu.Adapter{Name: "for tests", Type: kind, Limits: gpu.DefaultLimits()}
	if more != nil {
		more(&a.Limits)
	}
	return a
}

func square(n int) Shape { return Shape{M: n, N: n, K: n} }

// PlanFor plans what an engine on such a device plans.
func TestPlanForIsTheEnginesPlan(t *testing.T) {
	t.Parallel()
	dev := &countingDevice{}
	e := New(dev)
	defer e.Close()
	opts := []Option{WithAlpha(2), WithBeta(3), WithActivation(GELU)}
	for _, s := range []Shape{
		square(64), square(1000),
		{M: 1, N: 300, K: 500},
		{M: 65, N: 3, K: 4096, Batch: 2},
		{M: 40, N: 30, K: 20, TransA: true},
		{M: 40, N: 30, K: 20, TransB: true, In: F32},
		{M: 5, N: 6, K: 0},
	} {
		matrix := func(rows, cols int, transposed bool) *DeviceMatrix {
			if transposed {
				rows, cols = cols, rows
			}
			m, err := e.NewBatch(F32, max(s.Batch, 1), rows, cols)
			if err != nil {
				t.Fatal(err)
			}
			if transposed {
				m = m.Transposed()
			}
			return m
		}
		a, b, c := matrix(s.M, s.K, s.TransA), matrix(s.K, s.N, s.TransB), matrix(s.M, s.N, false)
		want, err := e.Plan(c, a, b, opts...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := PlanFor(s, dev.Adapter(), nil, opts...)
		if err != nil || got.problem != want.problem || got.Choice.String() != want.Choice.String() || got.Grid != want.Grid || !slices.Equal(got.Passes(), want.Passes()) {
			t.Errorf("%+v: planned %s %v, %v, the engine plans %s %v", s, got.Choice, got.Grid, err, want.Choice, want.Grid)
		}
	}
}

func TestPlanForErrors(t *testing.T) {
	t.Parallel()
	a := adapterOf(gpu.DiscreteGPU, nil)
	for name, tt := range map[string]struct {
		shape Shape
		opts  []Option
		as    func(error) bool
	}{
		"past 2^32":        {shape: square(1 << 20), as: isA[*ShapeError]},
		"past an int":      {shape: square(math.MaxInt), as: isA[*ShapeError]},
		"negative":         {shape: square(-1), as: isA[*ShapeError]},
		"types":            {shape: Shape{M: 1, N: 1, K: 1, In: F32, Out: F16}, as: isA[*ShapeError]},
		"a bias of bytes":  {shape: Shape{M: 1, N: 1, K: 1, In: I8, Out: I32, Bias: true}, as: isA[*ShapeError]},
		"no activation":    {shape: square(1), opts: []Option{WithActivation(99)}, as: isA[*ShapeError]},
		"over the binding": {shape: square(1 << 13), as: isA[*LimitError]},
		"no such kernel":   {shape: square(8), opts: []Option{WithChoice(Choice{Kernel: "fast"})}, as: isA[*wgsl.ParamError]},
		"over workgroup memory": {shape: square(256), opts: []Option{WithChoice(Choice{
			Kernel: "gemm_block", Params: wgsl.Params{"BM": 128, "BN": 128, "BK": 32, "TM": 8, "TN": 8},
		})}, as: isA[*LimitError]},
		"scratch over the binding": {
			shape: Shape{M: 5000, N: 5000, K: 1024},
			opts:  []Option{WithChoice(Choice{Kernel: "gemm_block", Splits: 8})}, as: isA[*LimitError],
		},
	} {
		if p, err := PlanFor(tt.shape, a, nil, tt.opts...); !tt.as(err) {
			t.Errorf("%s: planned %s, %v", name, p.Choice, err)
		}
	}
	if p, err := PlanFor(Shape{M: 0, N: 4, K: 4}, a, nil); err != nil || p.Variant != nil {
		t.Errorf("nothing to compute: %s, %v", p.Name(), err)
	}
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestPlanNumbers(t *testing.T) {
	t.Parallel()
	a := adapterOf(gpu.DiscreteGPU, func(l *gpu.Limits) { l.MaxComputeWorkgroupStorageSize = 48 << 10 })
	c := Choice{Kernel: "gemm_block", Splits: 2, Pack: true}
	p, err := PlanFor(Shape{M: 100, N: 200, K: 300, TransB: true}, a, nil, WithChoice(c), WithBeta(1))
	if err != nil {
		t.Fatal(err)
	}
	if p.Flops() != 2*100*200*300 || p.Bytes() != 4*(100*300+300*200+2*100*200) {
		t.Errorf("%g flops, %g bytes", p.Flops(), p.Bytes())
	}
	want := []Buffer{
		{"A", 4 * 100 * 300},
		{"B", 4 * 300 * 200},
		{"C", 4 * 100 * 200},
		{"packed A", 4 * 100 * 300},
		{"packed B", 4 * 200 * 300},
		{"parts of K", 4 * 2 * 100 * 200},
	}
	if got := p.Buffers(); !slices.Equal(got, want) {
		t.Errorf("buffers %v, want %v", got, want)
	}
	if got, want := p.ScratchBytes(), 2.0*4*(100*300+200*300+2*100*200); got != want {
		t.Errorf("%g bytes of scratch, want %g", got, want)
	}
	if got, want := p.Loads(), 4.0*300*(100*4+200*2); got != want { // tiles of 64: 2 x 4
		t.Errorf("%g bytes loaded, want %g", got, want)
	}
	if got := strings.Join(p.Passes(), " "); strings.Count(got, "gemm_pack") != 2 || !strings.Contains(got, "gemm_reduce") {
		t.Errorf("passes %s", got)
	}
}

// The last rows and columns of C are products of their own where they are few of
// a tile's, but not where there is nothing else, or they fill a tile.
func TestPlanEdges(t *testing.T) {
	t.Parallel()
	a := adapterOf(gpu.DiscreteGPU, nil)
	choice, err := ParseChoice("gemm_block/BM=32,BN=32,BK=4,TM=4,TN=4;pack;edges")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		m, n, passes int
		grid         [3]uint32 // of the tiles
		edges        bool
	}{
		{64, 64, 2, [3]uint32{2, 2, 1}, false},
		{65, 64, 3, [3]uint32{2, 2, 1}, true}, // B is as if packed
		{64, 80, 3, [3]uint32{2, 2, 1}, true},
		{65, 81, 4, [3]uint32{3, 2, 1}, true},
		{66, 65, 5, [3]uint32{2, 2, 1}, true},
		{81, 81, 3, [3]uint32{3, 3, 1}, false},
		{16, 64, 2, [3]uint32{2, 1, 1}, false},
	} {
		p, err := PlanFor(Shape{M: test.m, N: test.n, K: 40}, a, nil, WithChoice(choice))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Passes()) != test.passes || p.Grid != test.grid || p.Edges != test.edges {
			t.Errorf("%d x %d: passes %q, grid %v, edges %t", test.m, test.n, p.Passes(), p.Grid, p.Edges)
		}
	}
	a.Limits.MaxComputeWorkgroupStorageSize = 48 << 10
	p, err := PlanFor(Shape{M: 1 << 12, N: 1<<12 + 1, K: 1 << 12}, a, nil)
	if err != nil || !p.Edges || p.Grid != [3]uint32{32, 32, 1} {
		t.Errorf("the planner takes %s, %v", p.Choice, err)
	}
}

// What the planner estimates is what is planned: no choice in its list asks for what the
// plan leaves out, packing of int8 or beside a bias of two bytes, or edges of parts of K.
func TestChoicesArePlanned(t *testing.T) {
	t.Parallel()
	a := adapterOf(gpu.DiscreteGPU, func(l *gpu.Limits) {
		l.MaxComputeWorkgroupStorageSize, l.MaxStorageBufferBindingSize, l.MaxBufferSize = 48<<10, 1<<31, 1<<31
	})
	packed, split := 0, 0
	for _, size := range [][3]int{{4096, 4096, 4096}, {1025, 1025, 4096}, {1026, 1027, 2320}, {64, 64, 1 << 16}} {
		for _, types := range [][2]DType{{F32, F32}, {F16, F16}, {BF16, F32}, {I8, I32}} {
			for _, bias := range []bool{false, types[0] != I8} {
				s := Shape{M: size[0], N: size[1], K: size[2], In: types[0], Out: types[1], Bias: bias}
				p, err := PlanFor(s, a, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range choices(p.problem, a) {
					plan, err := planAs(p.problem, c, a)
					if err != nil {
						t.Fatalf("%+v: %s: %v", s, c, err)
					}
					if c.Pack != plan.Pack || c.Edges && (c.Splits > 1 || types[0] == I8) {
						t.Errorf("%+v: %s is planned as %s", s, c, plan.Choice)
					}
					if c.Pack {
						packed++
					}
					if c.Splits > 1 {
						split++
					}
				}
			}
		}
	}
	if packed == 0 || split == 0 {
		t.Errorf("%d choices with packing, %d with parts of K", packed, split)
	}
}

// A plan that needs too large a copy is not taken: the next that fits is.
func TestPlanWithoutScratch(t *testing.T) {
	t.Parallel()
	a := adapterOf(gpu.DiscreteGPU, func(l *gpu.Limits) { l.MaxStorageBufferBindingSize = 2*4095*4096 - 1 })
	s := Shape{M: 4095, N: 4095, K: 4095, In: F16, Out: F16} // rows of 4095, of 4096 packed
	p, err := PlanFor(s, a, nil)
	if err != nil || p.Pack {
		t.Errorf("planned %s, %v", p.Choice, err)
	}
}

// What the first choice cannot hold, another can.
func TestPlanFallsBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind gpu.AdapterType
		s    Shape
	}{
		{gpu.Software, Shape{M: 600000, N: 2, K: 2}}, // more rows than a grid
		{gpu.Software, Shape{M: 2, N: 600000, K: 2}},
		{gpu.Software, Shape{M: 257, N: 257, K: 130500}}, // a packed A over the limit, with rows of 260
		{gpu.DiscreteGPU, Shape{M: 15 << 20, N: 2, K: 1}},
		{gpu.DiscreteGPU, Shape{M: 2, N: 15 << 20, K: 1}},
	} {
		p, err := PlanFor(test.s, adapterOf(test.kind, func(l *gpu.Limits) {
			l.MaxStorageBufferBindingSize = 128 << 20
		}), nil)
		if err != nil {
			t.Errorf("%v: %v", test.s, err)
		} else if p.Pack {
			t.Errorf("%v: packed", test.s)
		}
	}
}

// Planning again specializes nothing. Not parallel: the cache is the process's.
func TestPlanSpecializesOnce(t *testing.T) {
	a := adapterOf(gpu.DiscreteGPU, nil)
	s := Shape{M: 1234, N: 1234, K: 77}
	first, err := PlanFor(s, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := PlanFor(s, a, nil)
	if err != nil || first.Variant != second.Variant {
		t.Errorf("the second plan has a variant of its own, %v", err)
	}
}

// Planning takes less than 10 µs where the variants were made before, so that a
// product can be planned for every call. What else the machine does is not in the
// fastest of many rounds.
func BenchmarkPlan(b *testing.B) {
	const most, round = 10 * time.Microsecond, 100
	for name, kind := range map[string]gpu.AdapterType{"GPU": gpu.DiscreteGPU, "software": gpu.Software} {
		b.Run(name, func(b *testing.B) {
			a := adapterOf(kind, nil)
			s := Shape{M: 4096, N: 4096, K: 4096, TransB: true} // packed on a GPU
			least := time.Duration(math.MaxInt64)
			for b.Loop() {
				start := time.Now()
				for range round {
					if _, err := PlanFor(s, a, nil); err != nil {
						b.Fatal(err)
					}
				}
				least = min(least, time.Since(start)/round)
			}
			b.ReportMetric(float64(least.Nanoseconds()), "ns/plan")
			if least > most {
				b.Errorf("a plan takes %v, want at most %v", least, most)
			}
		})
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	for _, kind := range []gpu.AdapterType{gpu.DiscreteGPU, gpu.Software} {
		for _, s := range []Shape{square(512), {M: 1, N: 512, K: 512}, {M: 33, N: 65, K: 7, In: I8, Out: I32}, {M: 8, N: 8, K: 8, In: F16, Out: F16}} {
			a := adapterOf(kind, nil)
			list, err := Candidates(s, a)
			if err != nil || len(list) < 3 {
				t.Fatalf("%s, %+v: %d candidates, %v", kind, s, len(list), err)
			}
			planned, err := PlanFor(s, a, nil)
			if err != nil || list[0].String() != planned.Choice.String() {
				t.Errorf("%s, %+v: the first is %s, want the planner's %s", kind, s, list[0], planned.Choice)
			}
			seen := map[string]bool{}
			for _, c := range list {
				if seen[c.String()] {
					t.Errorf("%s, %+v: %s is there twice", kind, s, c)
				}
				seen[c.String()] = true
				if _, err := PlanFor(s, a, nil, WithChoice(c)); err != nil {
					t.Errorf("%s, %+v: %s: %v", kind, s, c, err)
				}
			}
			t.Logf("%s, %+v: %d candidates", kind, s, len(list))
		}
	}
	if _, err := Candidates(square(1<<20), adapterOf(gpu.DiscreteGPU, nil)); err == nil {
		t.Error("candidates for a product past 2^32 elements")
	}
}

// A C of more rows than a grid has is not cut into parts of K, for adding these up
// takes a workgroup for each row; who asks for it is told.
func TestNoPartsOfTallC(t *testing.T) {
	t.Parallel()
	limits := gpu.DefaultLimits()
	limits.MaxBufferSize, limits.MaxStorageBufferBindingSize = 1<<40, 1<<40
	s := Shape{M: 70_000, N: 100, K: 20_000}
	for _, kind := range []gpu.AdapterType{gpu.Software, gpu.DiscreteGPU} {
		a := gpu.Adapter{Type: kind, Limits: limits}
		plan, err := PlanFor(s, a, nil)
		if err != nil || plan.Splits != 1 {
			t.Errorf("%s: %d parts, %v, want 1", kind, plan.Splits, err)
		}
		_, err = PlanFor(s, a, nil, WithChoice(Choice{Kernel: "gemm_direct", Splits: 2}))
		if le, ok := errors.AsType[*LimitError](err); !ok || le.Need != 70_000 || le.Have != 65_535 {
			t.Errorf("%s: 2 parts: %v, want a *LimitError of 70000 workgroups", kind, err)
		}
	}
}

// A loop that a compiler leaves a loop takes 40 times as long: only drivers that are
// known to write it out are left to do so.
func TestRowsAreLeftToDriversThatAreKnown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		vendor, backend, version string
		want                     bool
	}{
		{"0x10de", "Vulkan", "580.159.04", true},
		{"0x10de", "DX12", "", false},
		{"0x1002", "Vulkan", "radv", false},
		{"nvidia", "WebGPU", "NVIDIA: 580.159.04 580.159.4.0", true},
		{"nvidia", "WebGPU", "D3D12 driver version 32.0.15.6094", false},
		{"nvidia", "WebGPU", "", false},
	} {
		a := adapterOf(gpu.DiscreteGPU, nil)
		a.Vendor, a.Backend, a.Version = test.vendor, test.backend, test.version
		p, err := PlanFor(square(4096), a, nil)
		if err != nil {
			t.Fatal(err)
		}
		written, ok := p.Variant.Const("UNROLL_ROWS")
		if !ok || (written == 0) != test.want {
			t.Errorf("%+v: planned as %s", test, p.Choice)
		}
	}
}
