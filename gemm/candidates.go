package gemm

import (
	"math"

	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

// Candidates are ways to compute a product that are worth measuring on a device:
// the planner's choices, the one it takes first, and what lies around them. All
// of them fit the device, and no two are the same. It returns the errors of
// PlanFor.
func Candidates(s Shape, a gpu.Adapter) ([]Choice, error) {
	taken, err := PlanFor(s, a, nil)
	if err != nil || taken.Variant == nil {
		return nil, err
	}
	p := taken.problem
	list := append([]Choice{taken.Choice}, choices(p, a)...)
	if a.Type == gpu.Software {
		list = append(list, around(directNeighbours, "gemm_direct")...)
	} else {
		for _, t := range tilesFor(a) {
			list = append(list, Choice{Kernel: "gemm_block", Params: t.params}, Choice{Kernel: "gemm_block", Params: t.params, Pack: true})
		}
		list = append(list, around(blockNeighbours, "gemm_block")...)
	}
	if c, ok := skinnyChoice(p); ok {
		for _, lanes := range skinnyLanes {
			c.Params = c.Params.With(lanes)
			list = append(list, c)
		}
	}
	var fit []Choice
	seen := map[string]bool{}
	add := func(c Choice, mostWorkgroups int) {
		plan, err := planAs(p, c, a)
		if err != nil || int(plan.Grid[0])*int(plan.Grid[1])*int(plan.Grid[2]) > mostWorkgroups {
			return
		}
		// As planned: parts of K that are none, and packing of nothing, are gone.
		if name := plan.Choice.String(); !seen[name] {
			seen[name] = true
			fit = append(fit, plan.Choice)
		}
	}
	for _, c := range list {
		add(c, math.MaxInt)
	}
	for _, c := range list {
		for _, splits := range []int{1, 2, 4, 8, 16, taken.Splits / 2, taken.Splits * 2} {
			if splits < 1 || splits > 1 && p.K/splits < shortestPart {
				continue
			}
			c.Splits = splits
			most := math.MaxInt
			if splits > 1 {
				most = 8 * enoughWorkgroups // more than these need no parts
			}
			add(c, most)
		}
	}
	return fit, nil
}

// shortestPart of K is worth a pass that adds parts up.
const shortestPart = 64

func around(neighbours []wgsl.Params, kernel string) []Choice {
	var list []Choice
	for _, params := range neighbours {
		list = append(list, Choice{Kernel: kernel, Params: params})
	}
	return list
}

// What lies around the planner's own tiles (planner.go), which it would take if
// they were faster on the devices it was measured on.
var (
	blockNeighbours = []wgsl.Params{
		{"BM": 128, "BN": 64, "BK": 16, "TM": 8, "TN": 4},
		{"BM": 64, "BN": 128, "BK": 16, "TM": 8, "TN": 8},
		{"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8},
		{"BM": 128, "BN": 128, "BK": 8, "TM": 16, "TN": 8, "UNROLL_ROWS": 0},
		{"BM": 32, "BN": 64, "BK": 16, "TM": 4, "TN": 4},
		{"BM": 32, "BN": 32, "BK": 32, "TM": 4, "TN": 4},
	}
	directNeighbours = []wgsl.Params{
		direct, fewRows[1], fewRows[2],
		{"TM": 16, "TN": 16},
		{"TM": 8, "TN": 16},
		{"TM": 16, "TN": 8, "LANES_N": 16},
		{"TM": 16, "TN": 8, "LANES_N": 64},
	}
	skinnyLanes = []wgsl.Params{
		{"LANES_N": 8, "LANES_K": 32},
		{"LANES_N": 16, "LANES_K": 16},
		{"LANES_N": 32, "LANES_K": 8},
		{"LANES_N": 64, "LANES_K": 4},
	}
)
