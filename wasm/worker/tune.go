//go:build js

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/tuning"
)

// takeTuning makes products be computed as a text says that tune gave, in this
// visit or an earlier one: {text}; "" is for none. A text of another device or
// version, or that is none, is an error, and nothing is tuned.
func (s *session) takeTuning(_ context.Context, r request) (any, error) {
	s.setTuning(nil)
	if r.text("text") == "" {
		return struct{}{}, nil
	}
	if s.adapter == nil {
		return nil, errNothingToTune
	}
	t, err := tuning.Parse(*s.adapter, r.text("text"))
	if err != nil {
		return nil, err
	}
	s.setTuning(t)
	return struct{}{}, nil
}

var errNothingToTune = errors.New("the CPU path has nothing to tune")

func (s *session) setTuning(t gemm.Tuning) {
	s.tuning = t
	s.engine.SetTuning(t)
}

// A tunedSize is what was measured of one size.
type tunedSize struct {
	Size     int             `json:"size"`
	Measured tuning.Measured `json:"measured"`
	Text     string          `json:"text"` // to keep, with this size
	Note     string          `json:"note"` // why nothing was measured
}

// tune measures which choices are fastest for square matrices of f32:
// {sizes: [n, ...], seconds}, sizes rising and no two of a class. Every size is a
// progress message.
func (s *session) tune(ctx context.Context, r request) (any, error) {
	if s.adapter == nil {
		return nil, errNothingToTune
	}
	sizes := r.data.Get("sizes")
	end := time.Now().Add(time.Duration(r.int("seconds")) * time.Second)
	last, lastN := 0.0, 0 // seconds of the size before
	for i := range sizes.Length() {
		n := sizes.Index(i).Int()
		growth := float64(n) / float64(max(lastN, 1))
		if last*growth*growth*growth > tooLong.Seconds() {
			r.progress(tunedSize{Size: n, Note: "a product would take more than a second"})
			continue
		}
		share := time.Now().Add(time.Until(end) / time.Duration(sizes.Length()-i))
		m, err := s.tuneSize(ctx, r, n, share)
		if m.Seconds > 0 {
			last, lastN = m.Seconds, n
			r.progress(tunedSize{Size: n, Measured: m, Text: tuning.Text(*s.adapter, s.tuning)})
		} else if err == nil {
			r.progress(tunedSize{Size: n, Note: "no time was left"})
		}
		if err != nil {
			return nil, err
		}
	}
	return struct{}{}, nil
}

// tuneSize measures one size until a time, and takes what was fastest.
func (s *session) tuneSize(ctx context.Context, r request, n int, end time.Time) (m tuning.Measured, err error) {
	if err := s.checkRoom(gemm.F32, n, n, n); err != nil {
		return m, err
	}
	shape := gemm.Shape{M: n, N: n, K: n}
	class, err := gemm.ClassOf(shape)
	if err != nil {
		return m, err
	}
	candidates, err := gemm.Candidates(shape, *s.adapter)
	if err != nil {
		return m, err
	}
	host, err := random(ctx, rand.New(rand.NewPCG(1, uint64(n))), n, n, func(v float32) float32 { return v })
	if err != nil {
		return m, err
	}
	m, winner, err := tuning.Measure(ctx, s.engine, gemm.Product{A: host, B: host, Alpha: 1}, gemm.NewMatrix[float32](n, n, nil), candidates,
		func(step string) {
			count, _, _ := strings.Cut(step, ":") // without the name of a choice
			r.phase(fmt.Sprintf("%s at %d", count, n))
		},
		func() time.Duration { return time.Until(end) })
	if m.Seconds > 0 {
		s.setTuning(m.Update(s.tuning, class, winner))
	}
	return m, err
}
