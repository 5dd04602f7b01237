package gemm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

// A Choice is what the planner decides of a product.
type Choice struct {
	Kernel     string
	Params     wgsl.Params // tunables that are not at their defaults
	Splits     int         // parts into which K is cut, each summed by workgroups of its own
	Transposed bool        // C' = B' A' is computed, which is the same, in rows for columns
	Pack       bool        // A and B are copied first, into the form that the kernel reads fastest
	Edges      bool        // rows and columns of C that would fill few of a tile's are computed by themselves
	Why        string      // the reason, in words
}

// String is the choice as WithChoice takes it: the kernel, its tunables and what
// else is not as usual, "gemm_block/BM=64,BN=64;splits=4;transposed;pack".
func (c Choice) String() string {
	s := c.appendVariant(make([]byte, 0, 96))
	if c.Splits > 1 {
		s = strconv.AppendInt(append(s, ";splits="...), int64(c.Splits), 10)
	}
	if c.Transposed {
		s = append(s, ";transposed"...)
	}
	if c.Pack {
		s = append(s, ";pack"...)
	}
	if c.Edges {
		s = append(s, ";edges"...)
	}
	return string(s)
}

// appendVariant appends the kernel and its tunables. It is part of planning, and
// so makes nothing for the garbage collector.
func (c Choice) appendVariant(s []byte) []byte {
	s = append(s, c.Kernel...)
	names := make([]string, 0, 12)
	for name := range c.Params {
		names = append(names, name)
	}
	slices.Sort(names)
	separator := byte('/')
	for _, name := range names {
		s = append(append(append(s, separator), name...), '=')
		s = strconv.AppendUint(s, uint64(c.Params[name]), 10)
		separator = ','
	}
	return s
}

// ParseChoice reads what String writes. It returns a *wgsl.ParamError.
func ParseChoice(text string) (Choice, error) {
	parts := strings.Split(text, ";")
	kernel, params, _ := strings.Cut(parts[0], "/")
	if params != "" && !slices.Contains(wgsl.Kernels(), kernel) { // a folder of kernels
		var name string
		name, params, _ = strings.Cut(params, "/")
		kernel += "/" + name
	}
	p, err := wgsl.ParseParams(params)
	if err != nil {
		return Choice{}, err
	}
	c := Choice{Kernel: kernel, Params: p, Splits: 1}
	for _, part := range parts[1:] {
		splits, isSplits := strings.CutPrefix(part, "splits=")
		n, err := strconv.Atoi(splits)
		switch {
		case isSplits && err == nil && n > 0:
			c.Splits = n
		case part == "transposed":
			c.Transposed = true
		case part == "pack":
			c.Pack = true
		case part == "edges":
			c.Edges = true
		default:
			return Choice{}, &wgsl.ParamError{Kernel: kernel, Param: part, Reason: "want splits=N, transposed, pack or edges"}
		}
	}
	return c, nil
}

// makePlan picks a variant and a grid: what was asked for, or measured, or the
// planner's own choice. It needs no device, only what describes one.
func makePlan(p problem, t Tuning, o options, a gpu.Adapter) (Plan, error) {
	switch {
	case o.choice.Kernel != "" && p.Acc != AccF32:
		return Plan{}, &wgsl.ParamError{Kernel: o.choice.Kernel, Reason: "has an accumulator of its own: want no other, or no kernel"}
	case o.choice.Kernel != "":
		return planAs(p, o.choice, a)
	}
	if plan, ok := t.plan(p, o, a); ok {
		return plan, nil
	}
	var plan Plan
	var err error
	for _, c := range choices(p, a) { // the first that the device can run
		if o.choice.Params != nil {
			c.Params = c.Params.With(o.choice.Params)
		}
		if plan, err = planAs(p, c, a); err == nil {
			return plan, nil
		}
	}
	return Plan{}, err
}

// planAs is the plan of one choice.
func planAs(p problem, c Choice, a gpu.Adapter) (Plan, error) {
	plan := Plan{problem: p, Choice: c, depth: max(p.K, 1)}
	if plan.Splits = max(c.Splits, 1); p.skipsProduct() {
		plan.Splits, plan.Pack = 1, false
	}
	q := plan.computed()
	if err := plan.addPacking(&q, a); err != nil {
		return Plan{}, err
	}
	first := q
	if plan.Splits > 1 {
		first = q.sums()
	}
	var err error
	if plan.Variant, err = plan.addPass(c.Kernel, c.Params, first, a); err != nil {
		return Plan{}, err
	}
	plan.inner = [2]int{q.M, q.N}
	if plan.Edges = c.Edges && plan.Splits == 1 && !q.skipsProduct(); plan.Edges {
		if err := plan.addEdges(q, a); err != nil {
			return Plan{}, err
		}
	}
	inner := q
	inner.M, inner.N = plan.inner[0], plan.inner[1]
	if plan.Grid, err = grid(plan.Variant, inner, a); err != nil {
		return Plan{}, err
	}
	if plan.Splits == 1 {
		return plan, plan.addScratch(q, a)
	}
	if _, cuts := plan.Variant.Const("CUTS_K"); !cuts {
		return Plan{}, &wgsl.ParamError{Kernel: c.Kernel, Reason: fmt.Sprintf("does not cut K, want a kernel that does for %d parts", c.Splits)}
	}
	plan.depth = ceilDiv(q.K, c.Splits)
	if bk, ok := plan.Variant.Const("BK"); ok { // in whole slices
		plan.depth = ceilDiv(plan.depth, int(bk)) * int(bk)
	}
	plan.Splits = ceilDiv(q.K, plan.depth)
	if plan.Splits > int(a.Limits.MaxComputeWorkgroupsPerDimension) {
		return Plan{}, &LimitError{
			What: "parts of K", Limit: "maxComputeWorkgroupsPerDimension",
			Need: uint64(plan.Splits), Have: uint64(a.Limits.MaxComputeWorkgroupsPerDimension),
		}
	}
	plan.Grid[2] *= uint32(plan.Splits)
	if plan.Reduce, err = plan.addPass("passes/gemm_reduce", reduceParams(plan.Splits), q, a); err != nil {
		return Plan{}, err
	}
	if plan.reduceGrid, err = grid(plan.Reduce, q, a); err != nil {
		return Plan{}, err
	}
	return plan, plan.addScratch(q, a)
}

// addPacking adds the passes that pack A and B, where that changes them, and
// leaves in q the problem of the product that follows.
func (p *Plan) addPacking(q *problem, a gpu.Adapter) (err error) {
	packA, packB := q.a != packedA, q.b != packedB
	if p.Pack = p.Pack && q.packs() && (packA || packB); !p.Pack {
		return nil
	}
	pack := func(x access) (*wgsl.Variant, error) {
		return p.addPass("passes/gemm_pack", nil, problem{In: q.In, Out: q.In, a: x, c: access{inRow, true}}, a)
	}
	if packA {
		if p.packA, err = pack(q.a); err != nil {
			return err
		}
	}
	if packB {
		if p.packB, err = pack(q.b.transposed()); err != nil {
			return err
		}
	}
	q.a, q.b = packedA, packedB
	return nil
}

// packedA and packedB are A and B as packing leaves them.
var packedA, packedB = access{inColumn, true}, access{inRow, true}

// packs reports whether A and B can be packed: of int8 there is no copy.
func (p problem) packs() bool { return p.In != I8 }

// addEdges leaves the last rows and columns of C, where they are few of a tile's,
// to products of their own.
func (p *Plan) addEdges(q problem, a gpu.Adapter) error {
	p.Edges = false
	bm, _ := p.Variant.Const("BM")
	bn, _ := p.Variant.Const("BN")
	rows, cols := covered(q.M, int(bm)), covered(q.N, int(bn))
	aligned := (rows == q.M || rows%4 == 0) && (cols == q.N || cols%4 == 0) // else vectors would start before an edge
	if rows == 0 || cols == 0 || !aligned || !q.hasEdges() {
		return nil
	}
	right, below := q, q
	right.N -= cols
	below.M, below.N = q.M-rows, cols
	for _, e := range []struct {
		problem
		row, col int
		of       string
	}{{right, 0, cols, " of the last columns"}, {below, rows, 0, " of the last rows"}} {
		if (Plan{problem: e.problem}).empty() {
			continue
		}
		c, _ := skinnyChoice(e.problem)
		plan, err := planAs(e.problem, c, a)
		if err != nil {
			return err
		}
		plan.of = e.of
		for _, b := range plan.scratch {
			p.scratch = append(p.scratch, Buffer{b.Name + e.of, b.Bytes})
		}
		p.shaders = append(p.shaders, plan.shaders...)
		p.edges = append(p.edges, edge{e.row, e.col, plan})
		p.Edges = true
	}
	p.inner = [2]int{rows, cols}
	return nil
}

// hasEdges reports whether gemm_skinny can compute a part of C.
func (p problem) hasEdges() bool { return p.In != I8 }

// covered is how many of n rows or columns tiles of a size compute: all, or all but
// a few that would need tiles of their own.
func covered(n, tile int) int {
	if rest := n % tile; rest <= skinny {
		return n - rest
	}
	return n
}

// addPass specializes a kernel for one pass and checks it against the device.
func (p *Plan) addPass(kernel string, params wgsl.Params, q problem, a gpu.Adapter) (*wgsl.Variant, error) {
	v, s, err := variants.get(kernel, params, q)
	if err != nil {
		return nil, err
	}
	if err := a.CheckShader(s); err != nil {
		return nil, err
	}
	p.shaders = append(p.shaders, s)
	return v, nil
}

// reduceParams are those of the pass that adds so many parts of K up: of the
// invocations of a workgroup as many share an element as have enough to add.
func reduceParams(splits int) wgsl.Params {
	lanes := uint32(1)
	for lanes < 16 && 4*int(lanes) <= splits {
		lanes *= 2
	}
	return wgsl.Params{"BN": 256 / lanes, "LANES": lanes}
}

// computed is the problem that the kernel is given.
func (p Plan) computed() problem {
	if p.Transposed {
		return p.problem.transposed()
	}
	return p.problem
}

// sums is the problem of the first of two passes: the parts of A B, as they are.
func (p problem) sums() problem {
	p.Out = F32
	if p.In == I8 {
		p.Out = I32
	}
	p.Alpha, p.Beta, p.Bias, p.Act = 1, 0, false, None
	p.c = layout{rows: p.M, cols: p.N, batches: 1}.packed().access()
	return p
}

// grid is the number of workgroups in each direction. The batch is cut into
// several dispatches if need be (device.go).
func grid(v *wgsl.Variant, p problem, a gpu.Adapter) ([3]uint32, error) {
	bm, okM := v.Const("BM")
	bn, okN := v.Const("BN")
	if !okM || !okN {
		return [3]uint32{}, fmt.Errorf("gemm: kernel %s has no tile of BM x BN", v.Kernel)
	}
	g := [3]uint32{uint32(ceilDiv(p.N, int(bn))), uint32(ceilDiv(p.M, int(bm))), uint32(p.Batch)}
	for _, n := range g[:2] {
		if n > a.Limits.MaxComputeWorkgroupsPerDimension {
			return g, &LimitError{
				What: v.Name, Limit: "maxComputeWorkgroupsPerDimension",
				Need: uint64(n), Have: uint64(a.Limits.MaxComputeWorkgroupsPerDimension),
			}
		}
	}
	return g, nil
}

// compensated is the kernel whose sums are pairs of binary32.
const compensated = "gemm_compensated"

const (
	// processors of a large GPU: an H200's. WebGPU does not tell how many there are.
	processors = 132
	// enoughWorkgroups keep them busy.
	enoughWorkgroups = 128
	// passSeconds is what the pass that adds up parts of K takes beside reading and writing,
	// at copyRate bytes a second; packSeconds and packRate are those of a pass that packs.
	// Measured on an H200.
	passSeconds, copyRate, packSeconds, packRate = 8e-6, 2e12, 20e-6, 4.2e12
	// alongK, bothAlongK and inPieces are how many times as long the largest tile takes
	// where vectors of A or B lie along K, where those of both do, and where an operand is
	// not read as vectors, as measured on an H200; leftAlongK is alongK of binary32 where
	// the loop over rows is left to the graphics driver, leftByTint where what the driver
	// gets is Tint's, as with Dawn.
	alongK, leftAlongK, leftByTint, bothAlongK, inPieces = 1.03, 1.005, 1.04, 1.09, 1.28
	// skinny is up to how many rows or columns a product is a matrix times a few
	// vectors, which takes the time of reading the matrix.
	skinny = 16
	// maxDepth is how many products are summed in one chain, where memory allows:
	// the error of a sum grows with it.
	maxDepth = 4096
	// maxPartsBytes bounds the memory for parts of K.
	maxPartsBytes = 256 << 20
	// packFrom is for how many rows of C reading B once more, to pack it, is little
	// beside the product; the same for columns and A.
	packFrom = 1024
)

// A tile is a variant of gemm_block.
type tile struct {
	m, n     int
	together int     // workgroups that a processor computes at the same time, at the rate
	rate     float64 // operations a second of all processors together, when all are busy
	slice    float64 // seconds that a slice of K takes at least, when a processor has no other workgroup
	ends     float64 // seconds before the first slice and after the last, where that was measured
	params   wgsl.Params
}

// tiles from the largest, which reads least, to the smallest, of which there are
// most. Their rates were measured on an H200 (docs/performance.md), that of the
// first with A and B as packing leaves them.
var tiles = []tile{
	{128, 128, 1, 48.5e12, 0.86e-6, 0, wgsl.Params{"BM": 128, "BN": 128, "BK": 8, "TM": 16, "TN": 8}},
	{128, 128, 1, 43.8e12, 3.1e-6, 0, wgsl.Params{"BM": 128, "BN": 128, "BK": 32, "TM": 8, "TN": 8}}, // faster where a processor has one workgroup
	{64, 128, 1, 43.9e12, 1.6e-6, 4e-6, wgsl.Params{"BM": 64, "BN": 128, "BK": 32, "TM": 8, "TN": 8, "LANES_K": 2}},
	{64, 64, 2, 45.8e12, 0, 3.35e-6, wgsl.Params{"BM": 64, "BN": 64, "BK": 32, "TM": 16, "TN": 8, "LANES_M": 4, "LANES_N": 8, "LANES_K": 4}}, // faster where every processor has two
	{64, 64, 1, 40e12, 0.6e-6, 1.6e-6, wgsl.Params{"BM": 64, "BN": 64, "BK": 16, "TM": 8, "TN": 4}},
	{64, 64, 1, 33.5e12, 0.6e-6, 1e-6, wgsl.Params{"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4}}, // faster where K is small
	{32, 64, 1, 29.7e12, 0.7e-6, 1.3e-6, wgsl.Params{"BM": 32, "BN": 64, "BK": 32, "TM": 4, "TN": 4, "LANES_K": 2}},
	{32, 32, 1, 24e12, 0.55e-6, 1.3e-6, wgsl.Params{"BM": 32, "BN": 32, "BK": 32, "TM": 4, "TN": 4, "LANES_K": 2}},
}

// rowsLeft are the same tiles where the loop over rows is left to the graphics driver.
var rowsLeft = func() []tile {
	list := slices.Clone(tiles)
	for i, t := range list {
		list[i].params = t.params.With(wgsl.Params{"UNROLL_ROWS": 0})
	}
	list[0].rate = 50.8e12
	return list
}()

// deep is the largest tile with twice the slice of K: faster where A and B are as packing
// leaves them and every processor has two workgroups. By Tint's code it was not, for f32.
func (t tile) deep() tile {
	t.together, t.rate = 2, t.rate*1.024
	t.params = t.params.With(wgsl.Params{"BK": 2 * t.params["BK"]})
	return t
}

// leavesRows reports whether the graphics driver writes out the loop over rows better
// than Specialize does, as NVIDIA's for Vulkan. Where it is not known, as in most browsers,
// the loop might stay one, which takes 40 times as long.
func leavesRows(a gpu.Adapter) bool {
	return leavesRowsOfNaga(a) || strings.HasPrefix(a.Version, nvidiaByDawn)
}

// leavesRowsOfNaga reports the same for what the driver gets by wgpu-native.
func leavesRowsOfNaga(a gpu.Adapter) bool { return a.Backend == "Vulkan" && a.Vendor == nvidia }

const (
	nvidia       = "0x10de"   // as PCI calls it
	nvidiaByDawn = "NVIDIA: " // before the driver's version, where Dawn uses Vulkan and tells
)

// tilesFor are the tiles for a GPU.
func tilesFor(a gpu.Adapter) []tile {
	if leavesRows(a) {
		return rowsLeft
	}
	return tiles
}

func (t tile) workgroups(p problem) int { return ceilDiv(p.M, t.m) * ceilDiv(p.N, t.n) * p.Batch }

// seconds estimates what a product takes: workgroups run in waves, of which the
// last may leave processors idle; parts of K are written, read and added up.
func (t tile) seconds(p problem, splits int) float64 {
	waves := ceilDiv(t.workgroups(p)*splits, processors*t.together) * t.together
	depth := ceilDiv(p.K, splits)
	s := float64(waves*processors) * 2 * float64(t.m*t.n*depth) / t.rate
	s = max(s, float64(ceilDiv(depth, int(t.params["BK"])))*t.slice) + float64(waves)*t.ends
	if splits > 1 {
		s += passSeconds + 2*4*float64(splits*p.M*p.N*p.Batch)/copyRate
	}
	return s
}

// An estimate is what a choice with a tile takes.
type estimate struct {
	tile
	Choice
	seconds float64
}

// estimate completes a choice of the tile by the number of parts of K. before is what
// the passes before the product take.
func (t tile) estimate(p problem, c Choice, before float64) estimate {
	inner := p
	if c.Edges {
		inner.M, inner.N = covered(p.M, t.m), covered(p.N, t.n)
	}
	seconds := t.seconds(inner, 1)
	c.Splits, c.Why = 1, fmt.Sprintf("%d tiles of %d x %d", t.workgroups(inner), t.m, t.n)
	if n := splits(p, t.workgroups(p), enoughWorkgroups, 4*enoughWorkgroups, 256); n > 1 {
		if s := t.seconds(p, n); s < seconds || p.K > maxDepth*n {
			seconds, c.Splits, c.Edges = s, n, false // parts of K have no edges
			c.Why = fmt.Sprintf("%d tiles of %d x %d, each in %d parts of K", t.workgroups(p), t.m, t.n, n)
		}
	}
	return estimate{t, c, before + seconds}
}

// packing is how many times as long the largest tile takes when A and B are not packed,
// and the seconds that packing them takes.
func (p problem) packing(a gpu.Adapter) (loss, seconds float64) {
	along := 0
	pack := func(x, packed access, elements int) {
		if x != packed {
			along++
			seconds += packSeconds + float64(2*p.In.Size()*elements*p.Batch)/packRate
		}
	}
	pack(p.a, packedA, p.M*p.K)
	pack(p.b, packedB, p.K*p.N)
	switch {
	case !p.a.quads || !p.b.quads:
		return inPieces, seconds
	case along == 1 && p.In == F32 && leavesRowsOfNaga(a):
		return leftAlongK, seconds
	case along == 1 && p.In == F32 && leavesRows(a):
		return leftByTint, seconds
	}
	return [...]float64{1, alongK, bothAlongK}[along], seconds
}

// choices are variants for a problem, the best first. The last needs no more
// than what every device has.
func choices(p problem, a gpu.Adapter) []Choice {
	switch {
	case p.Acc == AccF32x2:
		// At its own tile: pairs take twice the registers.
		return []Choice{{Kernel: compensated, Params: unrolled, Why: "sums in pairs are asked for"}}
	case a.Type == gpu.Software:
		return directChoices(p)
	}
	var list []Choice
	if c, ok := skinnyChoice(p); ok {
		list = append(list, c)
	}
	large := min(p.M, p.N, p.K) >= packFrom
	var estimates []estimate
	for i, t := range tilesFor(a) {
		c := Choice{Kernel: "gemm_block", Params: t.params}
		if i == 0 {
			c.Edges = large && p.hasEdges()
			loss, seconds := p.packing(a)
			packed := t
			deeper := p.c.unit == inRow && p.c.quads && (leavesRowsOfNaga(a) || p.In.Size() < 4)
			if deeper {
				packed = t.deep()
			}
			switch {
			case seconds > 0 && !(large && p.packs()):
				loss = min(loss, bothAlongK) // as for the other tiles
			case seconds > 0 || deeper:
				c := Choice{Kernel: c.Kernel, Params: packed.params, Pack: seconds > 0, Edges: c.Edges}
				estimates = append(estimates, packed.estimate(p, c, seconds))
			}
			t.rate /= loss
		} else if !p.a.quads || !p.b.quads {
			t.rate /= bothAlongK
		}
		estimates = append(estimates, t.estimate(p, c, 0))
	}
	slices.SortStableFunc(estimates, func(x, y estimate) int { return cmp.Compare(x.seconds, y.seconds) })
	estimates[0].Why += ", by estimate the fastest"
	for i, e := range estimates {
		if i == 0 && e.Splits > 1 && p.K >= 1024*e.m {
			list = append(list, Choice{
				Kernel: e.Kernel, Params: long, Splits: e.Splits,
				Why: fmt.Sprintf("%d parts of a deep K, and rows of A far apart: more of each is read at a time", e.Splits),
			})
		}
		list = append(list, e.Choice)
	}
	return append(list, Choice{Kernel: "gemm_tiled", Params: unrolled, Why: "the smallest variant"})
}

var (
	long     = wgsl.Params{"BM": 64, "BN": 64, "BK": 64, "TM": 4, "TN": 4} // of a C of few tiles and a large K
	unrolled = wgsl.Params{"UNROLL": 1}
	direct   = wgsl.Params{"TM": 16, "TN": 8}
	larger   = wgsl.Params{"TM": 16, "TN": 16}                                // of a large C
	fewRows  = [...]wgsl.Params{1: {"TM": 4, "TN": 8}, 2: {"TM": 8, "TN": 8}} // by fours
	wide     = wgsl.Params{"LANES_N": 64}
)

// directChoices are the variants for software adapters: the last two take less
// memory between the passes.
func directChoices(p problem) []Choice {
	c := Choice{Kernel: "gemm_direct", Params: direct, Why: "shaders run on a processor: no workgroup memory"}
	if p.M > 1<<17 && p.M > p.N { // more rows than a grid has of this tile's
		p = p.transposed()
		c.Transposed = true
	}
	switch {
	case p.M <= 8: // a row that is not there takes as long as one that is
		c.Params = fewRows[ceilDiv(p.M, 4)]
	case min(p.M, p.N) >= 256:
		c.Params = larger
	}
	if p.N > 1<<20 { // more columns than a grid has of these tiles
		c.Params = c.Params.With(wide)
	}
	c.Splits = splits(p, 1, 0, 0, 64)
	c.Pack = min(p.M, p.N, p.K) >= 256
	plain := c
	plain.Pack = false
	whole := plain
	whole.Splits = 1
	return []Choice{c, plain, whole}
}

// skinnyChoice is the variant for a product of few rows or columns.
func skinnyChoice(p problem) (Choice, bool) {
	c := Choice{Kernel: "gemm_skinny", Why: "few rows: reading B once is all that takes time"}
	if p.M > skinny {
		p = p.transposed()
		c.Transposed, c.Why = true, "few columns: reading A once is all that takes time"
	}
	if p.M > skinny || p.In == I8 {
		return c, false
	}
	rows := 1
	for rows < p.M {
		rows *= 2
	}
	c.Params = wgsl.Params{"BM": uint32(rows), "LANES_N": 32, "LANES_K": 8}
	if p.b.unit == inColumn {
		c.Params = wgsl.Params{"BM": uint32(rows), "LANES_N": 8, "LANES_K": 32}
	}
	if p.N > 1<<20 { // of more columns than a grid has
		c.Params = wgsl.Params{"BM": uint32(rows), "LANES_N": 256, "LANES_K": 1}
	}
	// Reading needs more workgroups in flight than arithmetic does, but not more
	// to be started than fit.
	c.Splits = splits(p, ceilDiv(p.N, 4*int(c.Params["LANES_N"]))*p.Batch, 2*enoughWorkgroups, 2*enoughWorkgroups, 16*int(c.Params["LANES_K"]))
	return c, true
}

// splits is into how many parts K is cut: where fewer workgroups than are enough
// compute C, so many that there are about as many as wanted; so many that no chain
// is too long; and none shorter than shortest.
func splits(p problem, workgroups, enough, wanted, shortest int) int {
	// Adding them up takes a workgroup for each row of C.
	if p.M > int(gpu.DefaultLimits().MaxComputeWorkgroupsPerDimension) {
		return 1
	}
	n := 1
	if workgroups < enough {
		n = wanted / max(workgroups, 1)
	}
	n = max(min(n, p.K/shortest), p.K/maxDepth)
	return max(1, min(n, maxPartsBytes/4/max(1, p.M*p.N*p.Batch)))
}

// follows are the tunables that follow from the problem; a kernel has some of
// them.
func (p problem) follows() [13]struct {
	name  string
	value uint32
} {
	is := func(b bool) uint32 {
		if b {
			return 1
		}
		return 0
	}
	return [13]struct {
		name  string
		value uint32
	}{
		{"IN_F16", is(p.In == F16)},
		{"IN_BF16", is(p.In == BF16)},
		{"IN_I8", is(p.In == I8)},
		{"OUT_F16", is(p.Out == F16)},
		{"OUT_BF16", is(p.Out == BF16)},
		{"READS_C", is(p.Beta != 0)},
		{"BIAS", is(p.Bias)},
		{"ACT", uint32(p.Act)},
		{"A_TRANS", is(p.a.unit == inColumn)},
		{"A_QUADS", is(p.a.quads)},
		{"B_TRANS", is(p.b.unit == inColumn)},
		{"B_QUADS", is(p.b.quads)},
		{"C_QUADS", is(p.c.unit == inRow && p.c.quads)},
	}
}

// Follows reports whether a tunable of kernels follows from the matrices and options, so
// that no Choice sets it.
func Follows(tunable string) bool {
	follows := problem{}.follows()
	for _, f := range follows {
		if f.name == tunable {
			return true
		}
	}
	return false
}

// specialize adds to the tunables what follows from the problem.
func specialize(kernel string, params wgsl.Params, p problem) (*wgsl.Variant, gpu.Shader, error) {
	all := params.With(nil)
	for _, f := range p.follows() {
		if _, given := params[f.name]; given {
			return nil, gpu.Shader{}, &wgsl.ParamError{Kernel: kernel, Param: f.name, Reason: "follows from the matrices and options and cannot be set"}
		}
		if wgsl.HasTunable(kernel, f.name) {
			all[f.name] = f.value
		}
	}
	v, err := wgsl.Specialize(kernel, all)
	if err != nil {
		return nil, gpu.Shader{}, err
	}
	across, _ := v.Const("A_ACROSS")
	if bm, ok := v.Const("BM"); ok && across != 0 && bm%4 != 0 {
		// A workgroup's rows start within a vector of A: its elements one by one.
		all["A_QUADS"] = 0
		if v, err = wgsl.Specialize(kernel, all); err != nil {
			return nil, gpu.Shader{}, err
		}
	}
	return v, shader(v), nil
}

// variants keeps what was specialized, in all engines of the process: to write
// out a kernel's loops takes longer than a small product.
var variants variantCache

type variantCache struct {
	mu   sync.Mutex
	made map[variantKey]specialized
}

type variantKey struct {
	variant string // as Choice names it
	in, out DType
	readsC  bool
	bias    bool
	act     Activation
	a, b, c access
}

type specialized struct {
	variant *wgsl.Variant
	shader  gpu.Shader
}

// maxVariants bounds the cache; when there are more, all go.
const maxVariants = 256

func (c *variantCache) get(kernel string, params wgsl.Params, p problem) (*wgsl.Variant, gpu.Shader, error) {
	key := variantKey{string(Choice{Kernel: kernel, Params: params}.appendVariant(make([]byte, 0, 96))), p.In, p.Out, p.Beta != 0, p.Bias, p.Act, p.a, p.b, p.c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.made[key]; ok {
		return s.variant, s.shader, nil
	}
	v, s, err := specialize(kernel, params, p)
	if err != nil {
		return nil, gpu.Shader{}, err
	}
	if c.made == nil || len(c.made) >= maxVariants {
		c.made = map[variantKey]specialized{}
	}
	c.made[key] = specialized{v, s}
	return v, s, nil
}
