package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/chapter"
)

// Suites are all there are, in the order in which they run.
var Suites = []Suite{
	{Name: "chapter", About: "the worked examples of the demo, right kernels and faulty ones", cases: chapterCases},
	{Name: "edges", About: "sizes of 0, 1 and a few, NaN, infinities, alpha or beta of 0", cases: edges},
	{Name: "blas3", About: "sizes, transposes, alpha and beta of the reference BLAS tests", cases: blas3},
	{Name: "tiles", About: "each axis at T-1, T, T+1 and 2T+1 of the tiles in use", cases: tiles},
	{Name: "deep", About: "K up to 2^20", cases: deep},
	{Name: "f16", About: "binary16, stored as itself or as binary32", cases: halves(gemm.F16)},
	{Name: "bf16", About: "bfloat16, stored as itself or as binary32", cases: halves(gemm.BF16)},
	{Name: "int8", About: "int8, exact in int32", cases: int8s},
	{Name: "batch", About: "batches, shared operands, biases and activations", cases: batches},
	{Name: "views", About: "parts of larger matrices, on the host and on the device", cases: views},
	{Name: "bugs", About: "faults from public bug reports, H01 to H52", cases: bugs},
	{Name: "big", About: "up to 8192 x 8192 x 8192, for a GPU", Big: true, cases: big},
}

func chapterCases(*Runner, Kernel) []Case {
	examples, err := chapter.Examples()
	if err != nil {
		panic(err) // they are embedded, and have a test
	}
	var cases []Case
	for _, x := range examples {
		for _, run := range x.Runs {
			cases = append(cases, Case{Name: fmt.Sprintf("%s %s: %s", x.Section, x.Title, run.Label), run: func(ctx context.Context, r *Runner, _ Kernel) (Result, error) {
				out, err := x.Run(ctx, r.Engine, run)
				if err != nil {
					return Result{}, err
				}
				res := Result{Variant: out.Variant}
				if !run.Faulty {
					res.judge(gemm.Check(out.C, x.A, x.B, r.Seed))
				} else if out.Wrong == 0 {
					res.fail("a faulty kernel gave the right product")
				}
				return res, nil
			}})
		}
	}
	return cases
}

func edges(*Runner, Kernel) []Case {
	var out []Problem
	sizes := []int{0, 1, 2, 3, 5}
	for _, m := range sizes {
		for _, n := range sizes {
			for _, k := range []int{0, 1, 2, 3, 4, 5, 17} {
				p := Problem{M: m, N: n, K: k, Alpha: 1, Whole: true, Gaps: true, OnDevice: (m+n+k)%2 == 0}
				out = append(out, p)
				if k == 0 || m == 1 {
					p.Beta = -0.5
					out = append(out, p)
				}
			}
		}
	}
	for _, size := range [][3]int{{1, 65, 129}, {65, 1, 129}, {1, 1, 129}, {17, 1, 33}, {33, 34, 1}, {66, 67, 35}} {
		for _, alphaBeta := range [][2]float32{{1, 0}, {0, 0}, {0, 1}, {0, -0.5}, {2, 1}} {
			out = append(out, Problem{M: size[0], N: size[1], K: size[2], Alpha: alphaBeta[0], Beta: alphaBeta[1], Whole: true, Gaps: true, OnDevice: true})
		}
	}
	for _, size := range [][3]int{{4, 4, 4}, {33, 34, 35}} { // NaN, infinities and zeros
		out = append(out, Problem{M: size[0], N: size[1], K: size[2], Alpha: 1, data: &data{name: "not-finite", a: func(_, i, _ int) float64 {
			if i == 2 {
				return 0
			}
			return 1
		}, b: func(_, kk, j int) float64 {
			switch {
			case kk == 1 && j == 3:
				return nan
			case kk == 2 && j == 0:
				return inf
			}
			return 1
		}, exact: true}})
	}
	return problems(out)
}

// blas3 is the lattice of the Level 3 BLAS tests (Dongarra, Du Croz, Duff and
// Hammarling, Algorithm 679, ACM TOMS 16, 1990): every m, n and k of the list,
// every pair of transposes, of alpha and of beta.
func blas3(*Runner, Kernel) []Case {
	var out []Problem
	sizes := []int{0, 1, 2, 3, 5, 9}
	for _, m := range sizes {
		for _, n := range sizes {
			for _, k := range sizes {
				for _, alpha := range []float32{0, 1, 0.7} {
					for _, beta := range []float32{0, 1, 1.3} {
						for t := range 4 {
							out = append(out, Problem{
								M: m, N: n, K: k, TransA: t&1 != 0, TransB: t&2 != 0, Alpha: alpha, Beta: beta,
								Whole: alpha != 0.7 && beta != 1.3, Gaps: true,
							})
						}
					}
				}
			}
		}
	}
	return problems(out)
}

// tiles takes the tiles of the variants that are in use for small, middling and
// large products.
func tiles(r *Runner, k Kernel) []Case {
	var out []Problem
	for _, t := range tilesInUse(r, k) {
		around := func(n int) []int {
			sizes := []int{n - 1, n, n + 1, 2*n + 1}
			return slices.DeleteFunc(sizes, func(n int) bool { return n < 1 })
		}
		for _, m := range around(t.BM) {
			for _, n := range around(t.BN) {
				for _, kk := range around(t.BK) {
					out = append(out, Problem{M: m, N: n, K: kk, Alpha: 1, Whole: true, Gaps: true, OnDevice: true})
				}
			}
		}
	}
	return problems(out)
}

func tilesInUse(r *Runner, k Kernel) []chapter.Tile {
	var found []chapter.Tile
	for _, size := range []int{16, 100, 1024} {
		m := gemm.NewMatrix[float32](size, size, nil)
		tile := chapter.Tile{BM: 64, BN: 64, BK: 64} // of gonum, which the CPU path uses
		if p, err := r.Engine.Plan(m, m, m, k.options()...); err == nil && p.Variant != nil {
			side := func(name string) int {
				v, ok := p.Variant.Const(name)
				if !ok {
					return 8 // a kernel without slices
				}
				return int(v)
			}
			tile = chapter.Tile{BM: side("BM"), BN: side("BN"), BK: side("BK")}
		}
		if !slices.Contains(found, tile) {
			found = append(found, tile)
		}
	}
	return found
}

func deep(*Runner, Kernel) []Case {
	var out []Problem
	for _, k := range []int{255, 256, 257, 4096, 4097, 1<<16 - 1, 1 << 16, 1<<20 - 1, 1 << 20} {
		for _, size := range [][2]int{{1, 1}, {3, 5}, {17, 16}} {
			if k > 1<<16 && size[0] > 3 {
				continue // sums of whole numbers stay below 2^24, and the reference quick
			}
			p := Problem{M: size[0], N: size[1], K: k, Alpha: 1, OnDevice: true}
			whole, positive := p, p
			whole.Whole, whole.Gaps, positive.Positive = true, true, true
			out = append(out, whole, p, positive)
		}
	}
	return problems(out)
}

// halves are products of two-byte elements. Offsets and lengths are odd, so
// that elements begin in the middle of a word.
func halves(dtype gemm.DType) func(*Runner, Kernel) []Case {
	return func(*Runner, Kernel) []Case {
		var out []Problem
		for _, to := range []gemm.DType{dtype, gemm.F32} {
			for _, size := range [][3]int{{1, 1, 1}, {3, 3, 3}, {5, 7, 9}, {1, 33, 65}, {65, 1, 33}, {33, 65, 17}, {67, 65, 37}, {129, 65, 257}} {
				for t := range 4 {
					p := Problem{M: size[0], N: size[1], K: size[2], In: dtype, Out: to, TransA: t&1 != 0, TransB: t&2 != 0, Alpha: 1, Gaps: t%2 == 0, OnDevice: t < 2}
					whole, scaled := p, p
					whole.Whole = true
					scaled.Alpha, scaled.Beta, scaled.Whole = 2, -0.5, true
					out = append(out, p, whole, scaled)
				}
			}
			out = append(out, Problem{M: 17, N: 18, K: 4097, In: dtype, Out: to, Alpha: 1, OnDevice: true})
		}
		// The sum is past what the type holds, and C brings it back: rounded
		// before C is added, it would be 1 off or infinite.
		big := 2049.0
		for _, size := range [][2]int{{1, 1}, {5, 7}} {
			out = append(out, Problem{M: size[0], N: size[1], K: 3, In: dtype, Out: dtype, Alpha: 1, Beta: 1, data: &data{
				name: "one-rounding", exact: true,
				a: func(_, _, kk int) float64 { return []float64{1024, 1024, 1}[kk] },
				b: func(int, int, int) float64 { return 1 },
				c: func(int, int, int) float64 { return 1 - (big - 1) },
			}})
		}
		return problems(out)
	}
}

func int8s(*Runner, Kernel) []Case {
	var out []Problem
	for _, size := range [][3]int{{1, 1, 1}, {3, 3, 3}, {5, 2, 7}, {13, 7, 301}, {33, 65, 17}, {67, 65, 129}, {1, 130, 1000}, {129, 1, 1000}} {
		for t := range 4 {
			out = append(out, Problem{M: size[0], N: size[1], K: size[2], In: gemm.I8, Out: gemm.I32, TransA: t&1 != 0, TransB: t&2 != 0, Alpha: 1, Gaps: t != 1, OnDevice: t < 2})
		}
	}
	most := func(int, int, int) float64 { return -128 }
	out = append(
		out,
		Problem{M: 3, N: 5, K: 1 << 16, In: gemm.I8, Out: gemm.I32, Alpha: 1, data: &data{name: "largest", a: most, b: most, exact: true}},
		Problem{M: 3, N: 3, K: 3, Batch: 7, In: gemm.I8, Out: gemm.I32, Alpha: 1, Gaps: true, OnDevice: true},
	)
	return problems(out)
}

func batches(*Runner, Kernel) []Case {
	var out []Problem
	for _, batch := range []int{0, 2, 5} {
		for _, size := range [][3]int{{3, 3, 3}, {17, 5, 9}, {33, 65, 17}} {
			for _, dtype := range []gemm.DType{gemm.F32, gemm.F16, gemm.BF16} {
				p := Problem{M: size[0], N: size[1], K: size[2], Batch: batch, In: dtype, Out: dtype, Alpha: 1, Whole: true}
				shared, inside, added := p, p, p
				shared.SharedA, shared.Beta = true, 0.5
				inside.SharedB, inside.TransA, inside.Gaps, inside.OnDevice = true, true, true, true
				added.Bias, added.Act, added.Alpha, added.OnDevice = "row", gemm.ReLU, -0.5, true
				out = append(out, p, shared, inside, added)
			}
		}
	}
	for i, name := range gemm.Activations() {
		act := gemm.Activation(i)
		for _, bias := range []string{"row", "column", "full"} {
			out = append(out, Problem{M: 20, N: 33, K: 17, Batch: 2, Alpha: 0.5, Beta: 1, Bias: bias, Act: act, OnDevice: name != "none"})
		}
	}
	out = append(
		out,
		Problem{M: 2, N: 3, K: 2, Batch: 70_001, Alpha: 1, Whole: true},
		Problem{M: 2, N: 3, K: 2, Batch: 301, Alpha: 1, Whole: true, Gaps: true},
	)
	return problems(out)
}

func views(*Runner, Kernel) []Case {
	var out []Problem
	for _, size := range [][3]int{{1, 1, 1}, {3, 1, 3}, {1, 4, 3}, {31, 33, 15}, {67, 65, 37}, {130, 66, 33}} {
		for t := range 4 {
			for _, onDevice := range []bool{false, true} {
				for _, to := range []gemm.DType{gemm.F32, gemm.F16} {
					p := Problem{M: size[0], N: size[1], K: size[2], In: to, Out: to, TransA: t&1 != 0, TransB: t&2 != 0, Alpha: 1, Whole: true, Gaps: true, OnDevice: onDevice}
					if t == 3 {
						p.Beta, p.Batch = 1, 2
					}
					out = append(out, p)
				}
			}
		}
	}
	return problems(out)
}

func big(*Runner, Kernel) []Case {
	var out []Problem
	for _, size := range [][3]int{{2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192}, {4097, 4095, 2049}, {16384, 16, 4096}, {16, 16384, 4096}} {
		p := Problem{M: size[0], N: size[1], K: size[2], Alpha: 1, OnDevice: true}
		whole := p
		whole.Whole = true
		out = append(out, whole, p)
	}
	for _, b := range Bugs() {
		for _, p := range bugProblems(b) {
			if slices.Contains(bigBugs, b.ID) || bigForm(p) {
				out = append(out, p)
			}
		}
	}
	return problems(out)
}
