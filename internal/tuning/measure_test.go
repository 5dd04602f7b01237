package tuning

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/bench"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
	"github.com/wgemm/wgemm/wgsl"
)

// fakeEntrant has times for choices by their names; without, a choice is wrong.
type fakeEntrant map[string]*fakeTimer

type fakeTimer struct {
	took  time.Duration
	turns int
	then  func(turns int) error // called at each turn, if set
}

func (f *fakeTimer) Time() (time.Duration, error) {
	f.turns++
	if f.then != nil {
		return f.took, f.then(f.turns)
	}
	return f.took, nil
}

func (f fakeEntrant) enter(_ context.Context, c gemm.Choice) (bench.Timer, error) {
	timer, ok := f[c.String()]
	if !ok {
		return nil, errors.New("wrong")
	}
	return timer, nil
}

func TestPick(t *testing.T) {
	t.Parallel()
	candidates := []gemm.Choice{{Kernel: "planned"}, {Kernel: "fast"}, {Kernel: "wrong"}, {Kernel: "slow"}}
	always := func() time.Duration { return time.Hour }
	for _, tt := range []struct {
		name          string
		field         fakeEntrant
		left          func() time.Duration
		want          string
		measured, out int
	}{
		{"the fastest", fakeEntrant{"planned": {took: 20}, "fast": {took: 10}, "slow": {took: 90}}, always, "fast", 3, 1},
		{"as fast", fakeEntrant{"planned": {took: 10}, "fast": {took: 10}, "slow": {took: 9}, "wrong": {took: 10}}, always, "slow", 4, 0},
		{"nothing faster", fakeEntrant{"planned": {took: 10}, "fast": {took: 10}, "slow": {took: 90}}, always, "planned", 3, 1},
		{"the planned one is wrong", fakeEntrant{"fast": {took: 10}, "slow": {took: 90}}, always, "fast", 2, 2},
		{"all are wrong", fakeEntrant{}, always, "", 0, 4},
		{"no time", fakeEntrant{"planned": {took: 20}, "fast": {took: 10}}, func() time.Duration { return 0 }, "", 0, 0},
	} {
		var c Measured
		got, err := c.pick(t.Context(), candidates, tt.field, func(string) {}, tt.left)
		if err != nil || got.Kernel != tt.want || c.Fastest != tt.want || c.Raced != tt.measured || len(c.LeftOut) != tt.out || c.Planned != "planned" || c.Candidates != 4 {
			t.Errorf("%s: %q, %v, want %q: %+v", tt.name, got.Kernel, err, tt.want, c)
		}
	}
	// Ctrl-C in the third round: two rounds count.
	ctx, cancel := context.WithCancel(t.Context())
	interrupt := func(turns int) error {
		if turns == 4 {
			cancel()
		}
		return ctx.Err()
	}
	var c Measured
	got, err := c.pick(ctx, candidates[:2], fakeEntrant{"planned": {took: 20, then: interrupt}, "fast": {took: 15}}, func(string) {}, always)
	if !errors.Is(err, context.Canceled) || c.Seconds == 0 || got.Kernel != c.Fastest {
		t.Errorf("interrupted: %s, %v, %+v", got, err, c)
	}
}

// A choice may run when its product is right.
func TestField(t *testing.T) {
	t.Parallel()
	dev := runtimetest.Open(t, open.Driver())
	e := gemm.New(dev)
	rng := rand.New(rand.NewPCG(1, 1))
	random := func(rows, cols int) gemm.Matrix[float16.Float16] {
		m := gemm.NewBatch[float16.Float16](2, rows, cols, nil)
		for i := range m.Data {
			m.Data[i] = float16.Fromfloat32(2*rng.Float32() - 1)
		}
		return m
	}
	x := gemm.Product{A: random(7, 5).Transposed(), B: random(7, 6), Alpha: 1}
	f, err := newField(t.Context(), e, x, random(5, 6))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, tt := range []struct {
		choice gemm.Choice
		want   string // of the error, "" for none
	}{
		{gemm.Choice{Kernel: "gemm_naive"}, ""},
		{gemm.Choice{Kernel: "gemm_gone"}, "no such kernel"},
		{gemm.Choice{Kernel: "broken/gemm_tiled", Params: wgsl.Params{"BM": 4, "BN": 4, "BK": 4, "RESET_ACC": 1}}, "results differ"},
	} {
		timer, err := f.enter(t.Context(), tt.choice)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.choice, err, tt.want)
		}
		if err == nil {
			if took, err := timer.Time(); err != nil || took <= 0 {
				t.Errorf("%s: %v, %v", tt.choice, took, err)
			}
		}
	}
}
