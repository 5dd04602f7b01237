// Package chart draws measurements, as SVG or PNG.
package chart

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Formats are what the charts can be written as.
var Formats = []string{"svg", "png"}

// A Series is a line of points, in the order of X.
type Series struct {
	Name string
	X, Y []float64
}

const (
	width  = 18 * vg.Centimeter
	height = 11 * vg.Centimeter
)

var (
	ink   = color.RGBA{0x1a, 0x1e, 0x27, 0xff}
	muted = color.RGBA{0x58, 0x61, 0x72, 0xff}
	rule  = color.RGBA{0xd9, 0xde, 0xe8, 0xff}

	// marks tell the series apart, in black and white too. The first colours are
	// those of the page.
	marks = []struct {
		color color.RGBA
		shape draw.GlyphDrawer
	}{
		{color.RGBA{0xc2, 0x50, 0x0f, 0xff}, draw.BoxGlyph{}},
		{color.RGBA{0x2f, 0x62, 0xe0, 0xff}, draw.PyramidGlyph{}},
		{color.RGBA{0x0b, 0x7d, 0x6c, 0xff}, draw.CircleGlyph{}},
		{color.RGBA{0x8a, 0x3f, 0xa8, 0xff}, draw.RingGlyph{}},
		{color.RGBA{0x58, 0x61, 0x72, 0xff}, draw.SquareGlyph{}},
		{color.RGBA{0xa0, 0x7a, 0x00, 0xff}, draw.TriangleGlyph{}},
	}
)

// Speed draws GFLOP/s over the size of square matrices, one line for each series
// with its name at the end.
func Speed(w io.Writer, format, title string, series []Series) error {
	p := newPlot(title)
	p.X.Label.Text = "n, for n x n matrices"
	p.Y.Label.Text = "GFLOP/s"
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = sizes(series), steps{}
	for i, s := range series {
		line, err := plotter.NewLine(xys(s))
		if err != nil {
			return err
		}
		line.Color, line.Width = mark(i).Color, vg.Points(1.5)
		dots, err := plotter.NewScatter(xys(s))
		if err != nil {
			return err
		}
		dots.GlyphStyle = mark(i)
		p.Add(line, dots)
	}
	p.Y.Min, p.Y.Max = 0, p.Y.Max*1.05
	names, err := endNames(series, p.Y.Max)
	if err != nil {
		return err
	}
	p.Add(names)
	// Room for the names, about 5 points a letter, and for a single size.
	longest := 0
	for _, s := range series {
		longest = max(longest, len(s.Name))
	}
	room := min(vg.Points(20+5*float64(longest))/width, 0.5)
	p.X.Min /= 1.1
	p.X.Max *= math.Pow(max(p.X.Max/p.X.Min, 2), float64(room/(1-room)))
	return write(w, format, p)
}

// endNames are the names of the series beside their last points, apart enough to
// be read.
func endNames(series []Series, most float64) (*plotter.Labels, error) {
	type end struct {
		i    int
		x, y float64
	}
	var ends []end
	for i, s := range series {
		last := len(s.X) - 1
		ends = append(ends, end{i, s.X[last], s.Y[last]})
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.y, b.y) })
	var labels plotter.XYLabels
	next := 0.0
	for _, e := range ends {
		y := max(e.y, next)
		next = y + most/22 // a line of text
		labels.XYs = append(labels.XYs, plotter.XY{X: e.x, Y: y})
		labels.Labels = append(labels.Labels, series[e.i].Name)
	}
	names, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	names.Offset = vg.Point{X: vg.Points(7)}
	for n := range names.TextStyle {
		names.TextStyle[n] = style(9, mark(ends[n].i).Color)
		names.TextStyle[n].YAlign = text.YCenter
	}
	return names, nil
}

// Roofline draws GFLOP/s over arithmetic intensity, in operations for each byte
// of the matrices, below the roof: the bandwidth (GB/s) up to the ridge, then
// the arithmetic (GFLOP/s).
func Roofline(w io.Writer, format, title string, bandwidth, arithmetic float64, series []Series) error {
	p := newPlot(title)
	p.X.Label.Text = "operations for each byte of A, B and C"
	p.Y.Label.Text = "GFLOP/s"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = decades{}, decades{}
	ridge := arithmetic / bandwidth
	left, right, low, high := ridge/4, ridge*4, arithmetic, arithmetic
	for i, s := range series {
		dots, err := plotter.NewScatter(xys(s))
		if err != nil {
			return err
		}
		dots.GlyphStyle = mark(i)
		p.Add(dots)
		p.Legend.Add(s.Name, dots)
		left, right = min(left, slices.Min(s.X)/2), max(right, slices.Max(s.X)*2)
		low, high = min(low, slices.Min(s.Y)), max(high, slices.Max(s.Y))
	}
	roof, err := plotter.NewLine(plotter.XYs{{X: left, Y: left * bandwidth}, {X: ridge, Y: arithmetic}, {X: right, Y: arithmetic}})
	if err != nil {
		return err
	}
	roof.Color, roof.Width = ink, vg.Points(1.5)
	names, err := plotter.NewLabels(plotter.XYLabels{
		XYs:    plotter.XYs{{X: math.Sqrt(left * ridge), Y: math.Sqrt(left*ridge) * bandwidth}, {X: right, Y: arithmetic}},
		Labels: []string{fmt.Sprintf("%.3g GB/s  ", bandwidth), fmt.Sprintf("%.3g GFLOP/s ", arithmetic)},
	})
	if err != nil {
		return err
	}
	names.Offset = vg.Point{Y: vg.Points(4)}
	for i := range names.TextStyle {
		names.TextStyle[i] = style(9, muted)
		names.TextStyle[i].XAlign = text.XRight
	}
	p.Add(roof, names)
	p.X.Min, p.X.Max = left, right
	p.Y.Min, p.Y.Max = min(low, left*bandwidth)/2, high*2
	p.Legend.Left, p.Legend.Top = true, true // above the roof
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(4), -vg.Points(4)
	return write(w, format, p)
}

// style is of text in a sans serif, so that an SVG looks the same where it takes
// a font of the system.
func style(points float64, c color.Color) text.Style {
	return text.Style{
		Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: font.Points(points)}, Handler: plot.DefaultTextHandler,
	}
}

func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	at := func(s *text.Style, points float64, c color.Color) {
		x, y, rotation := s.XAlign, s.YAlign, s.Rotation
		*s = style(points, c)
		s.XAlign, s.YAlign, s.Rotation = x, y, rotation
	}
	at(&p.Title.TextStyle, 11, ink)
	at(&p.Legend.TextStyle, 9, ink)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		at(&axis.Label.TextStyle, 9, muted)
		at(&axis.Tick.Label, 9, muted)
		axis.Color, axis.Tick.Color, axis.Tick.LineStyle.Color = rule, rule, rule
		axis.Padding = vg.Points(4)
	}
	p.Title.Padding = vg.Points(10)
	p.Legend.ThumbnailWidth = vg.Points(22)
	p.Legend.Padding = vg.Points(2)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = rule, rule
	grid.Horizontal.Width, grid.Vertical.Width = vg.Points(0.5), vg.Points(0.5)
	p.Add(grid)
	return p
}

func mark(i int) draw.GlyphStyle {
	m := marks[i%len(marks)]
	return draw.GlyphStyle{Color: m.color, Shape: m.shape, Radius: vg.Points(3)}
}

func xys(s Series) plotter.XYs {
	points := make(plotter.XYs, len(s.X))
	for i := range points {
		points[i] = plotter.XY{X: s.X[i], Y: s.Y[i]}
	}
	return points
}

// sizes are ticks at the sizes that were measured.
func sizes(series []Series) plot.ConstantTicks {
	var all []float64
	for _, s := range series {
		all = append(all, s.X...)
	}
	slices.Sort(all)
	var ticks plot.ConstantTicks
	for _, x := range slices.Compact(all) {
		ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprintf("%.0f", x)})
	}
	return ticks
}

// decades are ticks at 1, 2 and 5 times the powers of ten.
type decades struct{}

func (decades) Ticks(least, most float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(least)); e <= math.Log10(most); e++ {
		for _, step := range []float64{1, 2, 5} {
			if v := step * math.Pow(10, e); v >= least && v <= most {
				ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.5g", v)})
			}
		}
	}
	return ticks
}

// steps are ticks at a round distance from 0 on, about six.
type steps struct{}

func (steps) Ticks(_, most float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for most/step < 5 {
		step /= 2
	}
	var ticks []plot.Tick
	for v := 0.0; v <= most; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.5g", v)})
	}
	return ticks
}

func write(w io.Writer, format string, p *plot.Plot) error {
	c, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return err
	}
	page := draw.New(c)
	page.SetColor(color.White) // an SVG is read on dark pages too
	page.Fill(page.Rectangle.Path())
	margin := vg.Points(8)
	p.Draw(draw.Crop(page, margin, -margin, margin, -margin))
	var file bytes.Buffer
	if _, err := c.WriteTo(&file); err != nil {
		return err
	}
	// Arial has the same widths, where a system lacks Liberation.
	_, err = w.Write(bytes.ReplaceAll(file.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,sans-serif;")))
	return err
}
