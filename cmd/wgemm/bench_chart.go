//go:build !js

package main

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wgemm/wgemm/internal/bench/chart"
)

// checkCharts returns an error for charts that cannot be drawn.
func (o *benchOptions) checkCharts(shapes []shape) error {
	for flag, file := range map[string]string{"--plot": o.plot, "--roofline": o.roofline} {
		if file == "" {
			continue
		}
		if !slices.Contains(chart.Formats, format(file)) {
			return usagef("%s %q: want a file that ends in .%s", flag, file, strings.Join(chart.Formats, " or ."))
		}
		if err := checkOutput(flag, file); err != nil {
			return err
		}
	}
	if o.plot != "" {
		for _, s := range shapes {
			if !s.isSquare() {
				return usagef("--plot: %s is not square; --roofline draws any shape", s)
			}
		}
	}
	return nil
}

// format is the ending of a file.
func format(file string) string { return strings.TrimPrefix(strings.ToLower(filepath.Ext(file)), ".") }

// charts draws what was asked for.
func (o *benchOptions) charts(r benchReport, list []series) error {
	title := r.conditions(orElse(r.Adapter, "the CPU path"))
	if o.plot != "" {
		err := draw(o.plot, func(w io.Writer) error {
			return chart.Speed(w, format(o.plot), title, r.lines(list, func(p benchPoint) float64 { return float64(p.N) }))
		})
		if err != nil {
			return err
		}
	}
	if o.roofline == "" {
		return nil
	}
	onDevice := slices.DeleteFunc(slices.Clone(list), func(s series) bool { return s.name == cpuName })
	el := benchDTypes[o.operands.dtype]
	return draw(o.roofline, func(w io.Writer) error {
		return chart.Roofline(w, format(o.roofline), title, r.Roof.BytesPerSecond/1e9, r.Roof.FLOPS/1e9,
			r.lines(onDevice, func(p benchPoint) float64 { return p.flops() / p.bytes(el) }))
	})
}

// lines are the GFLOP/s of each series over x.
func (r benchReport) lines(list []series, x func(benchPoint) float64) []chart.Series {
	points := slices.SortedStableFunc(slices.Values(r.Points), func(p, q benchPoint) int { return cmp.Compare(x(p), x(q)) })
	var lines []chart.Series
	for _, s := range list {
		line := chart.Series{Name: s.name}
		for _, p := range points {
			if p.Series == s.name {
				line.X, line.Y = append(line.X, x(p)), append(line.Y, p.GFLOPS)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// draw writes a file, once its content is whole.
func draw(file string, chart func(io.Writer) error) error {
	var picture bytes.Buffer
	if err := chart(&picture); err != nil {
		return err
	}
	return os.WriteFile(file, picture.Bytes(), 0o644)
}
