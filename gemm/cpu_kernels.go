package gemm

import (
	"math"

	"github.com/x448/float16"
)

// runKernel computes on the CPU what a kernel of package wgsl computes, in the
// kernel's order of summation and with the faults that its variant has on, so
// that the chapter can be followed without a device. It is not fast.
func runKernel(p Plan, c, a, b *DeviceMatrix) {
	on := func(name string) bool {
		v, ok := p.Variant.Const(name)
		return ok && v != 0
	}
	noKMask, resetAcc, f16Acc := on("NO_K_MASK"), on("RESET_ACC"), on("F16_ACC")
	depth := max(p.K, 1) // of a slice; a kernel without slices sums at once
	if bk, ok := p.Variant.Const("BK"); ok {
		depth = int(bk)
	}
	loadA, loadB, store := loader(a), loader(b), storer(c)
	parallelRows(p.M, func(i int) {
		for j := range p.N {
			var acc float32
			for k0 := 0; k0 < p.K; k0 += depth {
				var slice float32
				for kk := k0; kk < k0+depth; kk++ {
					var x, y float32
					if kk < p.K || (noKMask && inside(a, i, kk) && inside(b, kk, j)) {
						x, y = loadA(i, kk), loadB(kk, j)
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
			store(i, j, acc)
		}
	})
}

// inside reports whether a place of m's layout lies in m's memory; a read past
// it gives 0 here, as it may on a device.
func inside(m *DeviceMatrix, i, j int) bool {
	return m.lay.at(i, j) < m.buffer.Size()/m.dtype.Size()
}

func toF16(x float32) float32 { return float16.Fromfloat32(x).Float32() }
