package bench

import (
	"context"
	"errors"
	"testing"

	"github.com/wgemm/wgemm/gemm"
)

func TestMeasure(t *testing.T) {
	t.Parallel()
	e := gemm.NewCPU()
	defer e.Close()
	a, err := e.Upload(t.Context(), gemm.NewMatrix(2, 2, []float32{1, 2, 3, 4}))
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.NewMatrix(gemm.F32, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.Plan(c, a, a)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Measure(t.Context(), e, p, c, a, a)
	if err != nil || m.Repeats < 1 || m.Least <= 0 || m.Least > m.Median || m.Median > m.Most || m.GFLOPS(p) <= 0 {
		t.Errorf("measured %+v, %v", m, err)
	}
	got := gemm.NewMatrix[float32](2, 2, nil)
	if err := e.Download(t.Context(), got, c); err != nil || got.At(1, 1) != 22 {
		t.Errorf("the product that was measured is %v, %v", got.Data, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, e, p, c, a, a); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}
