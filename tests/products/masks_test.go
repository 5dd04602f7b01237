package products

import (
	"fmt"
	"math"
	"testing"

	"github.com/wgemm/wgemm/gemm"
)

// Each mask of the faulty kernel does what it says, on its own and with the
// others: without the one on K every element of C is wrong, without the one on
// M or N elements outside C are written and those of C stay right. The matrices
// lie inside larger ones of a sentinel, so that what is past an edge is known.
func TestMasks(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		const m, n, k, sentinel = 3, 2, 5, 999
		parent := func(rows, cols, innerRows, innerCols int) gemm.Matrix[float32] {
			return filled[float32](rows, cols, func(i, j int) float64 {
				if i < innerRows && j < innerCols {
					return small(i, j)
				}
				return sentinel
			})
		}
		a, b := parent(4, 8, m, k), parent(8, 4, k, n)
		for masks := range 8 {
			maskM, maskN, maskK := masks&1 != 0, masks&2 != 0, masks&4 != 0
			rows, cols, depth := 4, 4, 8 // what the only tile covers without masks
			if maskM {
				rows = m
			}
			if maskN {
				cols = n
			}
			if maskK {
				depth = k
			}
			params := fmt.Sprintf("BM=4,BN=4,BK=4,NO_M_MASK=%t,NO_N_MASK=%t,NO_K_MASK=%t", !maskM, !maskN, !maskK)
			c, err := e.Upload(t.Context(), parent(4, 4, 0, 0))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			da, err := e.Upload(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			defer da.Close()
			db, err := e.Upload(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			err = e.Multiply(t.Context(), c.View(0, 0, m, n), da.View(0, 0, m, k), db.View(0, 0, k, n), with(t, "broken/gemm_tiled", params)...)
			if err != nil {
				t.Fatal(err)
			}
			got := gemm.NewMatrix[float32](4, 4, nil)
			if err := e.Download(t.Context(), got, c); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				for j := range 4 {
					want := float64(sentinel)
					if i < rows && j < cols {
						want = 0
						for kk := range depth {
							want += a.Value(i, kk) * b.Value(kk, j)
						}
					}
					if v := got.Value(i, j); math.Abs(v-want) > 1e-6*math.Abs(want) {
						t.Errorf("%s: element (%d, %d) is %v, want %v", params, i, j, v, want)
					}
				}
			}
		}
	})
}
