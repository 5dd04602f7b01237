package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	ms, err := Measure(Product(t.Context(), e, p, c, a, a), Product(t.Context(), e, p, c, a, a))
	if err != nil || len(ms) != 2 {
		t.Fatalf("measured %+v, %v", ms, err)
	}
	if m := ms[1]; m.Repeats < 1 || m.Least <= 0 || m.Least > m.Median || m.Median > m.Most || m.GFLOPS(p) <= 0 {
		t.Errorf("measured %+v", m)
	}
	got := gemm.NewMatrix[float32](2, 2, nil)
	if err := e.Download(t.Context(), got, c); err != nil || got.At(1, 1) != 22 {
		t.Errorf("the product that was measured is %v, %v", got.Data, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(Product(ctx, e, p, c, a, a)); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestMeasureTakesTurns(t *testing.T) {
	t.Parallel()
	var order []string
	work := func(name string) Work {
		turns := 0
		return Work{
			Queue: func(turn int) error {
				if turn != turns {
					t.Errorf("%s: turn %d, want %d", name, turn, turns)
				}
				turns++
				time.Sleep(batchTime) // so that a batch is one turn
				return nil
			},
			Wait: func() error { order = append(order, name); return nil },
		}
	}
	synctest.Test(t, func(*testing.T) {
		if _, err := Measure(work("a"), work("b")); err != nil {
			t.Fatal(err)
		}
	})
	want := "aabb" + strings.Repeat("ab", batches+1)
	if got := strings.Join(order, ""); got != want {
		t.Errorf("batches of %s, want %s", got, want)
	}
	failed := errors.New("failed")
	if _, err := Measure(Work{Queue: func(int) error { return failed }}); !errors.Is(err, failed) {
		t.Errorf("a work that fails: %v", err)
	}
}
