package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/chapter"
)

func newDemoCmd() *cobra.Command {
	var where deviceChoice
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Walk through the blocked matrix product, and what goes wrong without its parts",
		Long: `Walk through the blocked matrix product on the chosen device: the grid of tiles
and the loop over K (13.1), the accumulator that is reset in the wrong place, the
masks on M, N and K (13.2), and the precision of the accumulator (13.3). Each
result stands beside a float64 reference. On a terminal, wrong elements are red.`,
		Example: `  wgemm demo
  wgemm demo --device cpu
  wgemm demo --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			engine, place, err := where.open(cmd.Context())
			if err != nil {
				return err
			}
			defer engine.Close()
			newPhases(cmd.ErrOrStderr()).note(place.note)
			return demo(cmd.Context(), cmd.OutOrStdout(), engine, place, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	where.flags(cmd)
	return cmd
}

type demoReport struct {
	Device   string        `json:"device"`
	Adapter  string        `json:"adapter"`
	Examples []demoExample `json:"examples"`
}

type demoExample struct {
	Section string       `json:"section"`
	Title   string       `json:"title"`
	M       int          `json:"m"`
	N       int          `json:"n"`
	K       int          `json:"k"`
	Grid    [2]int       `json:"grid"`   // workgroups over rows and columns of C
	Slices  int          `json:"slices"` // turns of the loop over K
	Results []demoResult `json:"results"`
}

type demoResult struct {
	Label    string      `json:"label"`
	Faulty   bool        `json:"faulty"` // wrong on purpose
	Variant  string      `json:"variant"`
	C        [][]float64 `json:"c"`
	MaxError float64     `json:"max_error"` // against float64
	Wrong    int         `json:"wrong"`     // elements outside their error bound
}

// demo runs every example. It returns errDiffers if a kernel that should be
// right is wrong, or a faulty one right.
func demo(ctx context.Context, stdout io.Writer, engine *gemm.Engine, where place, asJSON bool) error {
	examples, err := chapter.Examples()
	if err != nil {
		return err
	}
	report := demoReport{Device: where.Device, Adapter: where.adapterName()}
	d := drawer{w: stdout, style: newStyle(stdout)}
	if !asJSON {
		d.printf("on %s\n", where)
	}
	var differs error
	for _, x := range examples {
		rows, cols := x.Grid()
		e := demoExample{x.Section, x.Title, x.M, x.N, x.K, [2]int{rows, cols}, x.Slices(), nil}
		if !asJSON {
			d.heading(x)
		}
		for _, run := range x.Runs {
			out, err := x.Run(ctx, engine, run)
			if err != nil {
				return err
			}
			if (out.Wrong > 0) != run.Faulty && differs == nil {
				differs = fmt.Errorf("%w: section %s, %s: %d wrong elements", errDiffers, x.Section, run.Label, out.Wrong)
			}
			e.Results = append(e.Results, demoResult{run.Label, run.Faulty, out.Variant, values(x, out.C.Value), out.MaxError, out.Wrong})
			if !asJSON {
				d.outcome(x, out)
			}
		}
		report.Examples = append(report.Examples, e)
	}
	if asJSON {
		if err := printJSON(stdout, report); err != nil {
			return err
		}
	}
	if d.err != nil {
		return d.err
	}
	return differs
}

func values(x chapter.Example, at func(i, j int) float64) [][]float64 {
	c := make([][]float64, x.M)
	for i := range c {
		c[i] = make([]float64, x.N)
		for j := range c[i] {
			c[i][j] = at(i, j)
		}
	}
	return c
}

// A drawer prints the examples for people and keeps the first error.
type drawer struct {
	w     io.Writer
	style style
	err   error
}

func (d *drawer) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format, args...)
	}
}

func (d *drawer) heading(x chapter.Example) {
	rows, cols := x.Grid()
	d.printf("\n%s\n", d.style.title.Sprintf("%s  %s", x.Section, x.Title))
	d.printf("%s\n\n", wrap(x.Lesson, 78))
	d.printf("  A is %d x %d, B is %d x %d of %s; tile %d x %d, slices of %d\n", x.M, x.K, x.K, x.N, x.A.DType(), x.Tile.BM, x.Tile.BN, x.Tile.BK)
	d.printf("  grid %d x %d workgroups, %d K-iterations in each\n", rows, cols, x.Slices())
	if !x.Draw {
		return
	}
	d.host("A", x.ParentA)
	d.host("B", x.ParentB)
	row, col := rows-1, cols-1
	for slice := range x.Slices() {
		d.printf("\n  workgroup (%d, %d), K-iteration %d: A, B and the tile of C\n", row, col, slice)
		for _, line := range x.Drawing(row, col, slice) {
			line = strings.ReplaceAll(line, string(chapter.Staged), d.style.right.Sprint(string(chapter.Staged)))
			line = strings.ReplaceAll(line, string(chapter.Masked), d.style.dim.Sprint(string(chapter.Masked)))
			d.printf("    %s\n", line)
		}
	}
	d.printf("    %s\n", d.style.dim.Sprint("# of the tile   x masked: past an edge, counts as 0   . the rest"))
}

func (d *drawer) outcome(x chapter.Example, out chapter.Outcome) {
	d.printf("\n  %s: %s\n", d.style.title.Sprint(out.Label), out.Variant)
	if x.Draw || out.Faulty {
		d.matrix("C", x.M, x.N, out.C.Value, func(i, j int) bool { return x.IsWrong(out, i, j) })
		if !out.Faulty {
			d.matrix("float64", x.M, x.N, x.Reference, nil)
		}
	}
	verdict := d.style.right.Sprint("right")
	if out.Wrong > 0 {
		verdict = d.style.wrong.Sprintf("wrong in %d of %d elements", out.Wrong, x.M*x.N)
		if out.Faulty {
			verdict += ", as it must be"
		}
	}
	d.printf("  max abs error against float64: %v  %s\n", out.MaxError, verdict)
}

func (d *drawer) host(name string, m gemm.HostMatrix) {
	rows, cols := chapter.Shape(m)
	d.matrix(name, rows, cols, m.Value, nil)
}

// matrix prints values in columns, the wrong ones in red.
func (d *drawer) matrix(name string, rows, cols int, at func(i, j int) float64, wrong func(i, j int) bool) {
	text := make([][]string, rows)
	width := 0
	for i := range text {
		for j := range cols {
			text[i] = append(text[i], chapter.Format(at(i, j)))
			width = max(width, len(text[i][j]))
		}
	}
	for i, row := range text {
		label := ""
		if i == 0 {
			label = name
		}
		d.printf("    %-8s", label)
		for j, s := range row {
			cell := fmt.Sprintf("%*s", width, s)
			if wrong != nil && wrong(i, j) {
				cell = d.style.wrong.Sprint(cell)
			}
			d.printf(" %s", cell)
		}
		d.printf("\n")
	}
}

// wrap breaks text into lines of at most width characters.
func wrap(text string, width int) string {
	var lines []string
	line := " "
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = " "
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}
