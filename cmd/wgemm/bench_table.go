package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// rows are the table for people: a head, and a row for each point.
func (r benchReport) rows() [][]string {
	rows := [][]string{{"m n k", "", "GFLOP/s", "ratio", "of roof", "time", "spread", "upload", "read-back", "variant"}}
	for _, p := range r.Points {
		ofRoof := "-"
		if p.OfRoof > 0 {
			ofRoof = fmt.Sprintf("%.3g %%", 100*p.OfRoof)
		}
		variant := p.Variant
		if p.Tuned {
			variant += tunedMark
		}
		rows = append(rows, []string{
			p.shape.String(), p.Series, fmt.Sprintf("%.3g", p.GFLOPS), fmt.Sprintf("%.2f", p.Ratio), ofRoof,
			threeDigits(p.Median), fmt.Sprintf("%.0f %%", 100*(p.Most-p.Least)/p.Median),
			threeDigits(p.Upload), threeDigits(p.ReadBack), variant,
		})
	}
	return rows
}

// tunedMark stands behind a variant that wgemm tune chose.
const tunedMark = " (tuned)"

// threeDigits is a duration to three digits.
func threeDigits(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	unit := time.Nanosecond
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// conditions say under which the points were measured.
func (r benchReport) conditions(where string) string {
	text := fmt.Sprintf("%s on %s, ", r.Points[0].DType, where)
	for _, x := range []struct {
		on   bool
		text string
	}{{r.Points[0].TransA, "A transposed, "}, {r.Points[0].TransB, "B transposed, "}, {r.Cold, "cold caches, "}} {
		if x.on {
			text += x.text
		}
	}
	return text + r.Date
}

// head is what stands above a table.
func (r benchReport) head(where place) string {
	text := r.conditions(where.String())
	if r.Roof != nil {
		text += fmt.Sprintf("\nroof: %.3g GFLOP/s, %.3g GB/s", r.Roof.FLOPS/1e9, r.Roof.BytesPerSecond/1e9)
	}
	return text
}

func (r benchReport) text(w io.Writer, where place) error {
	fmt.Fprintln(w, r.head(where))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range r.rows() {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

func (r benchReport) markdown(w io.Writer, where place) error {
	rows := r.rows()
	rule := make([]string, len(rows[0]))
	for i := range rule {
		rule[i] = "---"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", r.head(where))
	for _, row := range append([][]string{rows[0], rule}, rows[1:]...) {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (r benchReport) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{
		"batch", "m", "n", "k", "layer", "dtype", "trans_a", "trans_b", "cold", "series", "variant", "tuned", "gflops", "ratio", "of_roof", "seconds", "seconds_least",
		"seconds_most", "seconds_upload", "seconds_read_back", "error_ratio", "repeats", "device", "adapter", "driver", "date",
	}}
	for _, p := range r.Points {
		var row []string
		for _, n := range []int{p.Batch, p.M, p.N, p.K} {
			row = append(row, strconv.Itoa(n))
		}
		row = append(row, p.Layer, p.DType, strconv.FormatBool(p.TransA), strconv.FormatBool(p.TransB), strconv.FormatBool(r.Cold), p.Series, p.Variant, strconv.FormatBool(p.Tuned))
		for _, v := range []float64{p.GFLOPS, p.Ratio, p.OfRoof, p.Median, p.Least, p.Most, p.Upload, p.ReadBack, p.Error} {
			row = append(row, strconv.FormatFloat(v, 'g', -1, 64))
		}
		rows = append(rows, append(row, strconv.Itoa(p.Repeats), r.Device, r.Adapter, r.Driver, r.Date))
	}
	return out.WriteAll(rows)
}
