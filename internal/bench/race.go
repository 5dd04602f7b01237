package bench

import (
	"slices"
	"time"
)

// A Timer measures one of several ways to do the same.
type Timer interface {
	// Time returns the time of one turn, as a batch of turns has it.
	Time() (time.Duration, error)
}

// NewTimer is a Timer of work, run once already so that it is compiled.
func NewTimer(w Work) (Timer, error) {
	r := &running{work: w, batchTime: raceTime}
	once, err := r.batch(1)
	r.fill(once)
	return r, err
}

const (
	// raceTime is how long a batch of a race takes: many runners, and the noise
	// of one batch is seen in the next.
	raceTime = 50 * time.Millisecond
	// minRounds of a race show how the times of a runner spread.
	minRounds = 3
	// maxRounds end a race between runners that are as fast.
	maxRounds = 12
	// hopeless is how many times as slow as the leader a runner is that is out
	// before the spread is known.
	hopeless = 1.5
)

// A Standing is a runner's after a race: its times, and whether it was still in,
// that is, not slower than the leader by more than their times spread.
type Standing struct {
	Measurement
	Rounds int
	In     bool
}

// Race finds the fastest of several. They take turns, a batch each, as in Measure;
// the first round is dropped. A runner is out when its least time exceeds the most
// of the leader, which has the least median. The race ends when one is left, after
// maxRounds, or before the round in which over returns true; standings then are of
// what was measured. Without a whole round they hold no times.
func Race(runners []Timer, over func() bool) ([]Standing, error) {
	standings := make([]Standing, len(runners))
	for i := range standings {
		standings[i].In = true
	}
	if len(runners) == 0 {
		return nil, nil
	}
	times := make([][]time.Duration, len(runners))
	for round := range maxRounds + 1 {
		for i, r := range runners {
			if !standings[i].In {
				continue
			}
			if over() {
				return standings, nil
			}
			took, err := r.Time()
			if err != nil {
				return standings, err
			}
			if round > 0 {
				times[i] = append(times[i], took)
			}
		}
		if round > 0 && judge(standings, times, round) == 1 {
			break
		}
	}
	return standings, nil
}

// judge takes those out that have lost, and returns how many are in.
func judge(standings []Standing, times [][]time.Duration, round int) (in int) {
	leader := -1
	for i := range standings {
		s := &standings[i]
		if !s.In {
			continue
		}
		sorted := slices.Sorted(slices.Values(times[i]))
		s.Rounds = len(sorted)
		s.Median, s.Least, s.Most = sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1]
		if leader < 0 || s.Median < standings[leader].Median {
			leader = i
		}
	}
	limit := standings[leader].Most
	if round < minRounds {
		limit = time.Duration(hopeless * float64(limit))
	}
	for i := range standings {
		s := &standings[i]
		s.In = s.In && (i == leader || s.Least <= limit)
		if s.In {
			in++
		}
	}
	return in
}
