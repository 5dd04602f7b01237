package gemm

import (
	"math"

	"github.com/x448/float16"
)

// runKernel computes on the CPU what a kernel of package wgsl computes, in the
// kernel's order of summation and with the faults that its variant has on, so
// that the chapter can be followed without a device. It is not fast.
func runKernel(p Plan, x operands) {
	c, a, b := x.c, x.a, x.b
	on := func(name string) bool {
		v, ok := p.Variant.Const(name)
		return ok && v != 0
	}
	noMMask, noNMask, noKMask := on("NO_M_MASK"), on("NO_N_MASK"), on("NO_K_MASK")
	resetAcc, f16Acc := on("RESET_ACC"), on("F16_ACC")
	depth := max(p.K, 1) // of a slice; a kernel without slices sums at once
	if on("CUTS_K") {    // and sums each part in one chain
		depth = p.depth
	} else if bk, ok := p.Variant.Const("BK"); ok {
		depth = int(bk)
	}
	k := p.K
	if p.skipsProduct() {
		k = 0
	}
	rows, cols := p.M, p.N
	if bm, _ := p.Variant.Const("BM"); noMMask {
		rows = ceilDiv(rows, int(bm)) * int(bm)
	}
	if bn, _ := p.Variant.Const("BN"); noNMask {
		cols = ceilDiv(cols, int(bn)) * int(bn)
	}
	loadA, loadB, finish := loader(a), loader(b), finisher(p, x)
	row := func(i int) {
		for j := range cols {
			var acc float32
			for k0 := 0; k0 < k; k0 += depth {
				var slice float32
				for kk := k0; kk < k0+depth; kk++ {
					var x, y float32
					if (kk < k || noKMask) && inside(a, i, kk) {
						x = loadA(i, kk)
					}
					if (kk < k || noKMask) && inside(b, kk, j) {
						y = loadB(kk, j)
					}
					slice = float32(math.FMA(float64(x), float64(y), float64(slice)))
				}
				if resetAcc {
					acc = 0
				}
				if f16Acc {
					acc = toF16(acc + toF16(slice))
				} else {
					acc += slice
				}
			}
			if inside(c, i, j) {
				finish(i, j, acc)
			}
		}
	}
	if noMMask || noNMask { // rows may write over each other
		for i := range rows {
			row(i)
		}
		return
	}
	parallelRows(rows, row)
}

// inside reports whether a place of m's layout lies in m's memory; a read past
// it gives 0 here and a write does nothing, as on some devices.
func inside(m *DeviceMatrix, i, j int) bool {
	return m.lay.at(0, i, j) < m.buffer.Size()/m.dtype.Size()
}

func toF16(x float32) float32 { return float16.Fromfloat32(x).Float32() }
