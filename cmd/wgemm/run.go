package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/matfile"
	"github.com/wgemm/wgemm/wgsl"
)

type runOptions struct {
	where    deviceChoice
	a, b     string
	output   string
	dtype    string
	acc      string
	kernel   string
	set      []string
	check    bool
	asJSON   bool
	stdout   io.Writer
	stderr   io.Writer
	progress func(phase string) // tells what is being done, on a terminal
}

func newRunCmd() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run A B -o OUT",
		Short: "Multiply two matrix files",
		Long: `Multiply the matrix in file A by the one in file B and write the product.

A and B are .npy files (versions 1 to 3; f2 f4 f8, i1 to i8, u1 to u8, b1; either
byte order, C or Fortran order), .csv or .tsv. A vector of n elements is a row as
A and a column as B. OUT is written as .npy, .csv or .tsv by its ending; it may
be one of the inputs. Nothing is written unless all went well.

Values are rounded to --dtype when they are read: f16 if both files hold f2, else
f32. Sums are in binary32.`,
		Example: `  wgemm run a.npy b.npy -o c.npy
  wgemm run a.csv b.csv -o c.csv --check
  wgemm run a.npy b.npy -o c.npy --dtype f16 --json
  wgemm run a.npy b.npy -o c.npy --kernel gemm_tiled --set BM=32,BN=32,TM=2,TN=2`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.a, o.b = args[0], args[1]
			o.stdout, o.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			phases := newPhases(cmd.ErrOrStderr())
			defer phases.done()
			o.progress = phases.next
			return runRun(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "file to write: .npy, .csv or .tsv")
	f.StringVar(&o.dtype, "dtype", "", "type of the elements of all three matrices: f32 or f16 (default f16 if both files hold f2, else f32)")
	f.StringVar(&o.acc, "acc", "f32", "accumulator: f32, or f16, which is rounded after every slice of K to show what that costs")
	f.StringVar(&o.kernel, "kernel", "", "kernel in place of the planned one: "+strings.Join(wgsl.Kernels(), ", "))
	f.StringSliceVar(&o.set, "set", nil, "tunables of the kernel, as BM=32,BN=64")
	f.BoolVar(&o.check, "check", false, "compare the product with a float64 reference; exit 3 if it is outside the error bound")
	f.BoolVar(&o.asJSON, "json", false, "print what was done as JSON")
	o.where.flags(cmd)
	for name, values := range map[string][]string{"dtype": {"f32", "f16"}, "acc": {"f32", "f16"}, "kernel": wgsl.Kernels()} {
		if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag is there: it was made above
		}
	}
	return cmd
}

// A runReport is what a run did, in seconds and bytes.
type runReport struct {
	Output  string       `json:"output"`
	Device  string       `json:"device"`
	Adapter string       `json:"adapter"` // "" for the CPU path
	Type    string       `json:"adapter_type"`
	Variant string       `json:"variant"` // "gonum" for the CPU path
	DType   string       `json:"dtype"`
	M       int          `json:"m"`
	N       int          `json:"n"`
	K       int          `json:"k"`
	Grid    [2]uint32    `json:"grid"`   // workgroups over rows and columns of C
	Slices  int          `json:"slices"` // of K, in each workgroup
	Seconds seconds      `json:"seconds"`
	Clock   string       `json:"clock"`  // that measured compute: device or host
	GFLOPS  float64      `json:"gflops"` // 2 m n k / compute / 1e9
	Check   *gemm.Report `json:"check,omitempty"`
}

type seconds struct {
	Upload   float64 `json:"upload"`
	Compile  float64 `json:"compile"` // of the shader, with what is around the dispatch
	Compute  float64 `json:"compute"`
	ReadBack float64 `json:"read_back"`
}

func runRun(ctx context.Context, o *runOptions) error {
	if o.output == "" {
		return usagef("no output file: want -o OUT with the ending .npy, .csv or .tsv")
	}
	if err := matfile.Supported(o.output); err != nil {
		return usageError{err}
	}
	opts, err := o.kernelOptions()
	if err != nil {
		return err
	}
	a, err := openOperand(o.a, "A")
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := openOperand(o.b, "B")
	if err != nil {
		return err
	}
	defer b.Close()
	if b.Dims == 1 { // a vector is a column as B
		b.Rows, b.Cols = b.Cols, b.Rows
	}
	if a.Cols != b.Rows {
		return usagef("%s is %d x %d and %s is %d x %d: want a B with %d rows, as A has columns",
			o.a, a.Rows, a.Cols, o.b, b.Rows, b.Cols, a.Cols)
	}
	if a.Rows == 0 || b.Cols == 0 {
		if ending := strings.ToLower(filepath.Ext(o.output)); ending != ".npy" {
			return usagef("%s: the product is %d x %d, which a %s file cannot hold: want the ending .npy", o.output, a.Rows, b.Cols, ending)
		}
	}
	dtype := o.dtype
	if dtype == "" {
		dtype = "f32"
		if a.DType == "f2" && b.DType == "f2" {
			dtype = "f16"
		}
	}
	engine, where, err := o.where.open(ctx)
	if err != nil {
		return err
	}
	defer engine.Close()
	job := job{o, engine, where, opts}
	switch dtype {
	case "f32":
		return multiplyFiles(ctx, job, a, b, (*matfile.File).Float32, matfile.WriteFloat32)
	case "f16":
		return multiplyFiles(ctx, job, a, b, (*matfile.File).Float16, matfile.WriteFloat16)
	}
	return usagef("--dtype %q: want f32 or f16", o.dtype)
}

// kernelOptions reads --kernel, --set and --acc.
func (o *runOptions) kernelOptions() ([]gemm.Option, error) {
	params, err := wgsl.ParseParams(strings.Join(o.set, ","))
	if err != nil {
		return nil, usagef("--set %s: %w", strings.Join(o.set, ","), err)
	}
	switch o.acc {
	case "f32":
	case "f16":
		if o.kernel != "" {
			return nil, usagef("--acc f16 is a kernel of its own: want it without --kernel")
		}
		tile := wgsl.Params{"BM": 16, "BN": 16, "BK": 8, "F16_ACC": 1}
		return []gemm.Option{gemm.WithKernel("broken/gemm_tiled", tile.With(params))}, nil
	default:
		return nil, usagef("--acc %q: want f32 or f16", o.acc)
	}
	if o.kernel == "" && len(params) == 0 {
		return nil, nil
	}
	return []gemm.Option{gemm.WithKernel(o.kernel, params)}, nil
}

func openOperand(path, arg string) (*matfile.File, error) {
	f, err := matfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", arg, err)
	}
	return f, nil
}

// maxElements bounds the product before memory is taken for it: with k = 0 two
// files without values can ask for any size.
const maxElements = 1 << 32

// A job is what multiplyFiles needs beside the files.
type job struct {
	*runOptions
	engine *gemm.Engine
	where  place
	opts   []gemm.Option
}

// multiplyFiles reads, multiplies and writes in one element type.
func multiplyFiles[T gemm.Element](
	ctx context.Context, j job, a, b *matfile.File,
	read func(*matfile.File) ([]T, error), write func(string, int, int, []T) error,
) error {
	r := runReport{Output: j.output, Device: j.where.Device, Adapter: j.where.adapterName(), M: a.Rows, N: b.Cols, K: a.Cols}
	if j.where.Adapter != nil {
		r.Type = string(j.where.Adapter.Type)
	}
	if float64(r.M)*float64(r.N) > maxElements {
		return usagef("the product of %s and %s is %d x %d: past 2^32 elements", j.a, j.b, r.M, r.N)
	}
	hostA, err := readMatrix(j, a, read)
	if err != nil {
		return err
	}
	hostB, err := readMatrix(j, b, read)
	if err != nil {
		return err
	}
	hostC := gemm.NewMatrix[T](r.M, r.N, nil)
	r.DType = hostC.DType().String()
	plan, err := j.engine.Plan(hostC, hostA, hostB, j.opts...)
	if err != nil {
		return j.explain(err)
	}
	r.Variant, r.Grid, r.Slices = plan.Name(), [2]uint32{plan.Grid[1], plan.Grid[0]}, plan.Slices()
	j.where.noteTo(j.stderr)
	if r.M > 0 && r.N > 0 {
		if err := compute(ctx, j, plan, hostC, hostA, hostB, &r); err != nil {
			return j.explain(err)
		}
	}
	if j.check {
		j.progress("checking")
		report := gemm.Check(hostC, hostA, hostB, 1)
		r.Check = &report
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	j.progress("writing " + j.output)
	if err := write(j.output, r.M, r.N, hostC.Data); err != nil {
		return err
	}
	j.progress("")
	if err := r.print(j); err != nil {
		return err
	}
	if r.Check != nil && !r.Check.Right() {
		return fmt.Errorf("%w: %v", errDiffers, *r.Check)
	}
	return nil
}

// explain turns a limit that the user's own tile is over into wrong use, and
// names the way out of one that the matrices are over.
func (j job) explain(err error) error {
	if _, ok := errors.AsType[*gemm.LimitError](err); !ok {
		return err
	}
	if j.opts != nil {
		return usageError{err}
	}
	return fmt.Errorf("%w (--device cpu has no such limit)", err)
}

func readMatrix[T gemm.Element](j job, f *matfile.File, read func(*matfile.File) ([]T, error)) (gemm.Matrix[T], error) {
	j.progress("reading " + f.Path)
	values, err := read(f)
	if err != nil {
		return gemm.Matrix[T]{}, err
	}
	return gemm.NewMatrix(f.Rows, f.Cols, values), nil
}

// compute multiplies and fills in how long each part took.
func compute(ctx context.Context, j job, plan gemm.Plan, c, a, b gemm.HostMatrix, r *runReport) error {
	clock := newStopwatch()
	j.progress("uploading")
	da, err := j.engine.Upload(ctx, a)
	if err != nil {
		return err
	}
	defer da.Close()
	db, err := j.engine.Upload(ctx, b)
	if err != nil {
		return err
	}
	defer db.Close()
	dc, err := j.engine.NewMatrix(c.DType(), r.M, r.N)
	if err != nil {
		return err
	}
	defer dc.Close()
	if err := j.engine.Wait(ctx); err != nil {
		return err
	}
	r.Seconds.Upload = clock.lap()
	j.progress("multiplying")
	took, by, err := j.engine.Elapsed(ctx, plan, dc, da, db)
	if err != nil {
		return err
	}
	r.Seconds.Compute, r.Clock = took.Seconds(), string(by)
	r.Seconds.Compile = max(clock.lap()-r.Seconds.Compute, 0)
	r.GFLOPS = 2 * float64(r.M) * float64(r.N) * float64(r.K) / took.Seconds() / 1e9
	j.progress("reading back")
	if err := j.engine.Download(ctx, c, dc); err != nil {
		return err
	}
	r.Seconds.ReadBack = clock.lap()
	return nil
}

type stopwatch struct{ last time.Time }

func newStopwatch() *stopwatch { return &stopwatch{time.Now()} }

// lap is the time in seconds since the last lap.
func (s *stopwatch) lap() float64 {
	now := time.Now()
	defer func() { s.last = now }()
	return now.Sub(s.last).Seconds()
}

func (r runReport) print(j job) error {
	if j.asJSON {
		return printJSON(j.stdout, r)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %d x %d %s, %s (%d x %d) times %s (%d x %d)\n", r.Output, r.M, r.N, r.DType, j.a, r.M, r.K, j.b, r.K, r.N)
	fmt.Fprintf(&out, "  on       %s\n", j.where)
	if r.Seconds.Compute > 0 {
		fmt.Fprintf(&out, "  variant  %s", r.Variant)
		if r.Grid[0] > 0 {
			fmt.Fprintf(&out, ", %d x %d workgroups", r.Grid[0], r.Grid[1])
		}
		if r.Slices > 0 {
			fmt.Fprintf(&out, ", %d slices of K", r.Slices)
		}
		fmt.Fprintf(&out, "\n")
		fmt.Fprintf(&out, "  time     upload %s, compile %s, compute %s (%.3g GFLOP/s, %s clock), read-back %s\n",
			duration(r.Seconds.Upload), duration(r.Seconds.Compile), duration(r.Seconds.Compute), r.GFLOPS, r.Clock, duration(r.Seconds.ReadBack))
	}
	if r.Check != nil {
		verdict := "right"
		if !r.Check.Right() {
			verdict = "WRONG"
		}
		fmt.Fprintf(&out, "  check    %s: compared %d of %d elements with float64; largest error %.3g; largest error over its bound %.3g\n",
			verdict, r.Check.Checked, r.Check.Elements, r.Check.MaxError, r.Check.Ratio)
	}
	_, err := io.WriteString(j.stdout, out.String())
	return err
}

func duration(seconds float64) string {
	return time.Duration(seconds * 1e9).Round(10 * time.Microsecond).String()
}

// phases tells on a terminal what is being done; elsewhere it says nothing.
type phases struct{ bar *progressbar.ProgressBar }

func newPhases(w io.Writer) *phases {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &phases{}
	}
	return &phases{progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(f),
		progressbar.OptionSpinnerType(14),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetElapsedTime(true),
	)}
}

// next names the phase that begins; "" ends the last.
func (p *phases) next(phase string) {
	switch {
	case p.bar == nil:
	case phase == "":
		p.done()
	default:
		p.bar.Describe(phase)
	}
}

// done takes the line away. Calling it twice is allowed.
func (p *phases) done() {
	if p.bar != nil {
		// Only a broken terminal makes it fail, and then there is nobody to tell.
		_ = p.bar.Finish()
		p.bar = nil
	}
}
