package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"
)

func TestCharts(t *testing.T) {
	t.Parallel()
	series := []Series{
		{"tiled", []float64{64, 128, 256}, []float64{1, 2.5, 3}},
		{"auto", []float64{64, 128, 256}, []float64{2, 4, 0.01}},
	}
	charts := map[string]func(w io.Writer, format string) error{
		"speed": func(w io.Writer, format string) error { return Speed(w, format, "a title", series) },
		"one size": func(w io.Writer, format string) error {
			return Speed(w, format, "a title", []Series{{"auto", []float64{8}, []float64{1}}})
		},
		"roofline":       func(w io.Writer, format string) error { return Roofline(w, format, "a title", 2, 20, series) },
		"above its roof": func(w io.Writer, format string) error { return Roofline(w, format, "a title", 0.1, 0.5, series) },
	}
	for name, draw := range charts {
		var svg, picture bytes.Buffer
		if err := draw(&svg, "svg"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := svg.String()
		for _, want := range []string{"a title", "GFLOP/s", "auto"} {
			if !strings.Contains(text, ">"+want+"<") {
				t.Errorf("%s: the SVG has no text %q", name, want)
			}
		}
		for d := xml.NewDecoder(&svg); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := draw(&picture, "png"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := png.Decode(&picture); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
