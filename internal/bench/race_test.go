package bench

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// A fake runner has these times, and the last for ever. The first is dropped.
type fake struct {
	times []time.Duration
	turns int
	fails error
}

func (f *fake) Time() (time.Duration, error) {
	took := f.times[min(f.turns, len(f.times)-1)]
	f.turns++
	return took, f.fails
}

func TestRace(t *testing.T) {
	t.Parallel()
	never := func() bool { return false }
	for _, tt := range []struct {
		name  string
		times [][]time.Duration
		turns []int // of each
		in    []bool
	}{
		{"a clear leader", [][]time.Duration{{1, 100}, {1, 50}, {1, 60}}, []int{2, 4, 4}, []bool{false, true, false}},
		{"the first is dropped", [][]time.Duration{{900, 50}, {1, 100}}, []int{2, 2}, []bool{true, false}},
		{
			"a lead within the spread",
			[][]time.Duration{{0, 50, 70, 50, 50}, {0, 60}},
			[]int{maxRounds + 1, maxRounds + 1},
			[]bool{true, true},
		},
		{"as fast", [][]time.Duration{{7}, {7}, {70}}, []int{maxRounds + 1, maxRounds + 1, 2}, []bool{true, true, false}},
		{"one alone", [][]time.Duration{{7}}, []int{2}, []bool{true}},
	} {
		var runners []Timer
		var fakes []*fake
		for _, times := range tt.times {
			fakes = append(fakes, &fake{times: times})
			runners = append(runners, fakes[len(fakes)-1])
		}
		standings, err := Race(runners, never)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		for i, s := range standings {
			if s.In != tt.in[i] || fakes[i].turns != tt.turns[i] || s.Rounds != tt.turns[i]-1 {
				t.Errorf("%s: runner %d after %d turns: %+v, want %d turns, in %t", tt.name, i, fakes[i].turns, s, tt.turns[i], tt.in[i])
			}
			if sorted := slices.Sorted(slices.Values(tt.times[i][1:])); len(sorted) > 0 && (s.Least != sorted[0] || s.Most != sorted[len(sorted)-1]) {
				t.Errorf("%s: runner %d: %+v", tt.name, i, s)
			}
		}
	}
}

// When it is over, what was measured counts.
func TestRaceIsOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ turns, rounds int }{{0, 0}, {2, 0}, {3, 0}, {4, 1}, {5, 1}, {6, 2}} {
		left := tt.turns
		standings, err := Race([]Timer{&fake{times: []time.Duration{5}}, &fake{times: []time.Duration{6}}}, func() bool { left--; return left < 0 })
		if err != nil || standings[0].Rounds != tt.rounds || standings[1].Rounds != tt.rounds {
			t.Errorf("over after %d batches: %+v, %v, want %d rounds", tt.turns, standings, err, tt.rounds)
		}
	}
	failed := errors.New("failed")
	if _, err := Race([]Timer{&fake{times: []time.Duration{1}, fails: failed}}, func() bool { return false }); !errors.Is(err, failed) {
		t.Errorf("a runner that fails: %v", err)
	}
}

func TestNewTimer(t *testing.T) {
	t.Parallel()
	turns := 0
	work := Work{Queue: func(int) error { turns++; return nil }, Wait: func() error { return nil }}
	timer, err := NewTimer(work)
	if err != nil || turns != 1 {
		t.Fatalf("%d turns at first, %v", turns, err)
	}
	if _, err := timer.Time(); err != nil || turns < 2 {
		t.Errorf("%d turns, %v", turns, err)
	}
	failed := errors.New("failed")
	work.Wait = func() error { return failed }
	if _, err := NewTimer(work); !errors.Is(err, failed) {
		t.Errorf("a work that fails: %v", err)
	}
}
