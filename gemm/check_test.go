package gemm

import (
	"math"
	"strings"
	"testing"
)

// The check finds an error wherever it is, also in a product of which only some
// rows are looked at, and accepts what the bound allows.
func TestCheck(t *testing.T) {
	t.Parallel()
	a, b, c := NewMatrix[float32](3, 2, []float32{1, 2, 3, 4, 5, 6}), NewMatrix[float32](2, 2, []float32{1, 0, 0, 1}), NewMatrix[float32](3, 2, nil)
	right := func() { copy(c.Data, a.Data) }
	for _, tc := range []struct {
		name  string
		spoil func()
		right bool
		row   int
		col   int
	}{
		{"right", func() {}, true, 0, 0},
		{"the last bit", func() { c.Data[3] = math.Nextafter32(4, 5) }, true, 1, 1},
		{"more than the bound", func() { c.Data[3] = 4.00001 }, false, 1, 1},
		{"not a number", func() { c.Data[4] = float32(math.NaN()) }, false, 2, 0},
		{"infinite", func() { c.Data[5] = float32(math.Inf(1)) }, false, 2, 1},
		{"not written", func() { c.Data[0] = 0 }, false, 0, 0},
	} {
		right()
		tc.spoil()
		r := Check(c, a, b, 1)
		if r.Right() != tc.right || r.Checked != 6 || r.Elements != 6 || (!tc.right && (r.Row != tc.row || r.Col != tc.col)) {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
}

// Where the right value is infinite, nothing else is right; where only a partial
// sum can overflow, infinities and NaN are, and finite values within the bound.
func TestCheckOfInfinities(t *testing.T) {
	t.Parallel()
	inf := float32(math.Inf(1))
	for _, tc := range []struct {
		a, b, c float32
		right   bool
	}{
		{inf, 1, inf, true},
		{inf, 1, 5, false},
		{inf, 1, -inf, false},
		{3e38, 3, inf, true},
		{3e38, 3, 5, false},
		{3e38, 3, -1, false},
		{inf, 0, float32(math.NaN()), true},
		{inf, 0, 0, false},
	} {
		m := func(v float32) Matrix[float32] { return NewMatrix(1, 1, []float32{v}) }
		if r := Check(m(tc.c), m(tc.a), m(tc.b), 1); r.Right() != tc.right {
			t.Errorf("%v times %v is %v: right %t, want %t", tc.a, tc.b, tc.c, r.Right(), tc.right)
		}
	}
}

// A closed CPU engine says so, as one on a device does.
func TestClosedCPU(t *testing.T) {
	t.Parallel()
	e := NewCPU()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	m := NewMatrix[float32](1, 1, nil)
	if err := e.Multiply(t.Context(), m, m, m); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Multiply after Close: %v", err)
	}
}

// Samples find an element that is wrong, if they are enough, in any matrix of a
// batch; and the first and the last always.
func TestCheckSamples(t *testing.T) {
	t.Parallel()
	a, b := NewBatch[float32](3, 4, 5, nil), NewBatch[float32](3, 5, 6, nil)
	for i := range a.Data {
		a.Data[i] = float32(i%7 - 3)
	}
	for i := range b.Data {
		b.Data[i] = float32(i%5 - 2)
	}
	c := NewBatch[float32](3, 4, 6, nil)
	if err := NewCPU().Multiply(t.Context(), c, a, b); err != nil {
		t.Fatal(err)
	}
	x := Product{A: a, B: b, Alpha: 1}
	if r := x.CheckSamples(c, 100, 1); !r.Right() || r.Checked != 100 || r.Elements != len(c.Data) {
		t.Errorf("right: %+v", r)
	}
	for place := range c.Data {
		samples := 1000
		if place == 0 || place == len(c.Data)-1 {
			samples = 2
		}
		c.Data[place]++
		r := x.CheckSamples(c, samples, 1)
		if at := r.Batch*24 + r.Row*6 + r.Col; r.Right() || at != place {
			t.Errorf("element %d is wrong: %+v", place, r)
		}
		c.Data[place]--
	}
	if r := x.CheckSamples(NewMatrix[float32](0, 6, nil), 10, 1); !r.Right() {
		t.Errorf("empty: %+v", r)
	}
}
