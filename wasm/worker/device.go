//go:build js

package main

import (
	"context"
	"strings"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/tuning"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/wgsl"
)

type opened struct {
	Adapter   *gpu.Adapter `json:"adapter"`    // nil on the CPU path
	TuningKey string       `json:"tuning_key"` // what a tuning of it is kept under
	Reason    string       `json:"reason"`     // why this adapter
	Failure   *failure     `json:"failure"`    // why there is none
}

// open opens a device, anew if there was one. Without any the CPU path
// computes, so that the chapter can be read everywhere.
func (s *session) open(ctx context.Context, _ request) (any, error) {
	// The old device is most likely lost, and there is nothing to do about an
	// error of its end.
	_ = s.engine.Close()
	s.engine, s.adapter, s.tuning = gemm.NewCPU(), nil, nil
	dev, choice, err := open.Device(ctx, "")
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		f := describe(err)
		return opened{Failure: &f}, nil
	}
	a := dev.Adapter()
	s.engine, s.adapter = gemm.New(dev), &a
	return opened{Adapter: s.adapter, TuningKey: strings.Trim(tuning.Head(a), "# \n"), Reason: choice.Reason}, nil
}

type kernel struct {
	Name     string    `json:"name"`
	Tunables []tunable `json:"tunables"`
}

type tunable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`  // "u32" or "bool"
	Value string `json:"value"` // the default
	About string `json:"about"`
}

// kernels lists every kernel with the tunables that its file declares, but for
// those that follow from the product.
func kernels() []kernel {
	var list []kernel
	for _, name := range wgsl.Kernels() {
		source, err := wgsl.Source(name)
		if err != nil {
			continue // not so: the name is from the list
		}
		k := kernel{Name: name}
		for line := range strings.Lines(source) {
			if t, ok := parseTunable(line); ok && !gemm.Follows(t.Name) {
				k.Tunables = append(k.Tunables, t)
			}
		}
		list = append(list, k)
	}
	return list
}

// parseTunable reads "const BM: u32 = 64u; // tunable: rows of C per workgroup".
func parseTunable(line string) (t tunable, ok bool) {
	declaration, about, ok := strings.Cut(strings.TrimSpace(line), "; // tunable: ")
	if !ok {
		return t, false
	}
	left, value, _ := strings.Cut(strings.TrimPrefix(declaration, "const "), " = ")
	t.Name, t.Type, ok = strings.Cut(left, ": ")
	t.Value, t.About = strings.TrimSuffix(value, "u"), about
	return t, ok
}
