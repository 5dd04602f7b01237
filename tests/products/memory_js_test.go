package products

import (
	goruntime "runtime"
	"slices"
	"testing"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/verify"
)

// The memory of the Go program grows between upload and read-back, and with the
// result itself: a view of it that JavaScript held would be detached. Case H41.
func TestMemoryGrows(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short, for slow adapters: TestPage measures the memory of a page")
	}
	e := deviceEngine(t)
	i := slices.IndexFunc(verify.Bugs(), func(b verify.Bug) bool { return b.ID == "H41" })
	bug := verify.Bugs()[i]
	a := filled[float32](bug.M, bug.K, func(i, kk int) float64 { return bug.ValueA(0, i, kk) })
	b := filled[float32](bug.K, bug.N, func(kk, j int) float64 { return bug.ValueB(0, kk, j) })
	da, err := e.Upload(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer da.Close()
	dc, err := e.NewMatrix(gemm.F32, bug.M, bug.N)
	if err != nil {
		t.Fatal(err)
	}
	defer dc.Close()
	if err := e.Multiply(t.Context(), dc, da, b); err != nil {
		t.Fatal(err)
	}
	grow := make([]byte, 256<<20)
	goruntime.GC()
	c := gemm.NewMatrix[float32](bug.M, bug.N, nil)
	if err := e.Download(t.Context(), c, dc); err != nil {
		t.Fatal(err)
	}
	goruntime.KeepAlive(grow)
	for _, s := range bug.Spots {
		if got := float64(c.At(int(s[0]), int(s[1]))); got != float64(s[2]) {
			t.Errorf("C[%v, %v] is %v, want %v", s[0], s[1], got, s[2])
		}
	}
	if r := (gemm.Product{A: a, B: b, Alpha: 1}).CheckSums(c, true, seed); !r.Right() {
		t.Error(r)
	}

	const n = 4100 // a result of 67 MB
	column, row := filled[float32](n, 1, small), filled[float32](1, n, smallB)
	large := gemm.NewMatrix[float32](n, n, nil)
	if err := e.Multiply(t.Context(), large, column, row); err != nil {
		t.Fatal(err)
	}
	for at, got := range large.Data {
		if want := column.Data[at/n] * row.Data[at%n]; got != want {
			t.Fatalf("element %d of a large result is %v, want %v", at, got, want)
		}
	}
}
