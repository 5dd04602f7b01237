package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/spf13/cobra"
	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/matfile"
	"github.com/wgemm/wgemm/wgsl"
)

type runOptions struct {
	where          deviceChoice
	tuning         tuningChoice
	a, b           string
	transA, transB bool
	c, bias        string
	alpha, beta    float32
	betaGiven      bool
	act            string
	output         string
	dtype          string
	outDType       string
	acc            string
	kernel         string
	set            []string
	delimiter      string
	decimal        string
	check          bool
	reportRange    bool
	asJSON         bool
	stdout         io.Writer
	phases         *phases
}

func newRunCmd() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run A B -o OUT",
		Short: "Multiply two matrix files",
		Long: `Multiply the matrices in two files: OUT = act(alpha op(A) op(B) + beta C + bias),
where op transposes or not; by default just OUT = A B.

Files are .npy, .npz (a.npz:name), .safetensors (w.safetensors:name), .mtx, .csv
or .tsv. A vector of n elements is a row as A and a column as B. Three dimensions
are a batch of matrices; a single A, B or bias goes with each of a batch. A bias is
a row, a column or a matrix. OUT is written in the format of its ending and may be
one of the inputs. It is replaced as a whole: an archive then holds OUT alone. Nothing
is written unless all went well.

Values are rounded to --dtype when they are read: f16 or bf16 if both files hold
that, else f32. Sums are in binary32, of i8 in int32. --acc f32x2 sums in pairs of
binary32, which keep twice the digits, on the CPU in float64: for a long K, or
where much cancels. --check takes a few seconds more; its reference multiplies the
rounded values, and of a big product it compares some rows. --report-range counts what
left the range of --dtype and --out-dtype. Both keep the inputs on the host until the
end, which takes more memory: on the CPU path five matrices of one size, where a run
without them holds three.

The time to compute holds some of a driver's compiling when a variant is new to it;
wgemm bench leaves that out.`,
		Example: `  wgemm run a.npy b.npy -o c.npy
  wgemm run a.csv b.csv -o c.csv --check
  wgemm run x.npy w.safetensors:fc.weight -o y.npy --trans-b --bias w.safetensors:fc.bias --act gelu
  wgemm run a.npy b.npy -o c.npy -c c.npy --alpha 0.5 --beta 1
  wgemm run a.npy b.npy -o c.npy --acc f32x2 --check
  wgemm run a.npy b.npy -o c.npy --dtype f16 --report-range
  wgemm run a.npy b.npy -o c.npy --kernel gemm_tiled --set BM=32,BN=32,TM=2,TN=2`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.a, o.b = args[0], args[1]
			o.betaGiven = cmd.Flags().Changed("beta")
			o.stdout = cmd.OutOrStdout()
			o.phases = newPhases(cmd.ErrOrStderr())
			defer o.phases.done()
			return runRun(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "file to write")
	f.BoolVar(&o.transA, "trans-a", false, "A's file holds A transposed")
	f.BoolVar(&o.transB, "trans-b", false, "B's file holds B transposed")
	f.Float32Var(&o.alpha, "alpha", 1, "factor of the product")
	f.StringVarP(&o.c, "c", "c", "", "file of C, which is added to the product")
	f.Float32Var(&o.beta, "beta", 0, "factor of C (default 1 with -c)")
	f.StringVar(&o.bias, "bias", "", "file of a bias: a row, a column or a matrix")
	f.StringVar(&o.act, "act", "none", "activation, applied last: "+strings.Join(gemm.Activations(), ", "))
	f.StringVar(&o.dtype, "dtype", "", "type of the elements of A and B: f32, f16, bf16 or i8 (default that of both files if f16 or bf16, else f32)")
	f.StringVar(&o.outDType, "out-dtype", "", "type of the elements of OUT: that of A and B, or f32 (default that of A and B; i32 for i8)")
	f.StringVar(&o.acc, "acc", "f32", "accumulator: f32; f32x2, within 2 units in the last place of the exact sum; or f16, which is rounded after every slice of K to show what that costs")
	f.StringVar(&o.kernel, "kernel", "", "kernel in place of the planned one, or a choice as wgemm plan prints it; there are "+strings.Join(wgsl.Kernels(), ", "))
	f.StringSliceVar(&o.set, "set", nil, "tunables of the kernel, as BM=32,BN=64")
	f.StringVar(&o.delimiter, "delimiter", "", "character between the values of .csv and .tsv (default comma, and tab)")
	f.StringVar(&o.decimal, "decimal", "", "decimal sign of .csv and .tsv (default point)")
	f.BoolVar(&o.check, "check", false, "compare the product with a float64 reference; exit 3 if it is outside the error bound")
	f.BoolVar(&o.reportRange, "report-range", false, "count the elements of all matrices that overflowed, are infinite, NaN or subnormal")
	f.BoolVar(&o.asJSON, "json", false, "print what was done as JSON")
	o.where.flags(cmd)
	o.tuning.flags(cmd)
	complete(cmd, "dtype", "f32", "f16", "bf16", "i8")
	complete(cmd, "out-dtype", "f32", "f16", "bf16")
	complete(cmd, "acc", "f32", "f32x2", "f16")
	complete(cmd, "act", gemm.Activations()...)
	complete(cmd, "kernel", wgsl.Kernels()...)
	return cmd
}

// complete lets the shell complete a flag's values.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the command has no such flag
	}
}

// A runReport is what a run did, in seconds.
type runReport struct {
	Output   string        `json:"output"`
	Device   string        `json:"device"`
	Adapter  string        `json:"adapter"` // "" for the CPU path
	Type     string        `json:"adapter_type"`
	Variant  string        `json:"variant"` // "gonum" or "float64" for the CPU path
	Tuned    bool          `json:"tuned"`   // the variant is what wgemm tune measured as the fastest
	DType    string        `json:"dtype"`
	OutDType string        `json:"out_dtype"`
	Batch    int           `json:"batch"`
	M        int           `json:"m"`
	N        int           `json:"n"`
	K        int           `json:"k"`
	Alpha    float32       `json:"alpha"`
	Beta     float32       `json:"beta"`
	Act      string        `json:"act"`
	Grid     [2]uint32     `json:"grid"`   // workgroups over rows and columns of C
	Splits   int           `json:"splits"` // parts of K, each of workgroups of its own
	Slices   int           `json:"slices"` // of K, in all its parts together
	Seconds  seconds       `json:"seconds"`
	Clock    string        `json:"clock"`  // that measured compute: device or host
	GFLOPS   float64       `json:"gflops"` // 2 batch m n k / compute / 1e9
	Check    *checkReport  `json:"check,omitempty"`
	Range    []rangeReport `json:"range,omitempty"` // with --report-range

	workgroups int // of all matrices and parts of K
}

// A checkReport is a gemm.Report for programs.
type checkReport struct {
	Right    bool   `json:"right"`
	Checked  int    `json:"checked"`
	Elements int    `json:"elements"`
	Ratio    number `json:"ratio"` // largest error over its bound
	Batch    int    `json:"batch"` // where that is
	Row      int    `json:"row"`
	Col      int    `json:"col"`
	Got      number `json:"got"`
	Want     number `json:"want"`
	Bound    number `json:"bound"`
	MaxError number `json:"max_error"`
}

// A number is a string in JSON where JSON has no such number, as for the NaN
// that a NaN in A gives.
type number float64

func (v number) MarshalJSON() ([]byte, error) {
	if f := float64(v); f-f != 0 {
		return json.Marshal(fmt.Sprint(f))
	}
	return json.Marshal(float64(v))
}

type seconds struct {
	Upload   float64 `json:"upload"`
	Compile  float64 `json:"compile"` // of the shader, with what is around the dispatch
	Compute  float64 `json:"compute"`
	ReadBack float64 `json:"read_back"`
}

// An input is an opened file and its shape as an operand, which is another than
// the file's where that holds the operand transposed, or a vector.
type input struct {
	*matfile.File
	rows, cols int
	trans      bool
}

// inputs are the opened files; c and bias are nil if there is none.
type inputs struct{ a, b, c, bias *input }

func (in inputs) close() {
	for _, x := range []*input{in.a, in.b, in.c, in.bias} {
		if x != nil {
			x.Close()
		}
	}
}

func runRun(ctx context.Context, o *runOptions) error {
	text, err := o.textOptions()
	if err != nil {
		return err
	}
	opts, err := o.kernelOptions()
	if err != nil {
		return err
	}
	act, err := gemm.ParseActivation(o.act)
	if err != nil {
		return usagef("--act %q: want one of %s", o.act, strings.Join(gemm.Activations(), ", "))
	}
	switch {
	case o.output == "":
		return usagef("no output file: want -o OUT")
	case o.c == "" && o.beta != 0:
		return usagef("--beta %v without C: want -c FILE", o.beta)
	case o.c != "" && !o.betaGiven:
		o.beta = 1
	}
	in, err := o.open(text)
	if err != nil {
		return err
	}
	defer in.close()
	r := runReport{
		Output: o.output, Batch: max(in.a.Batch, in.b.Batch), M: in.a.rows, N: in.b.cols, K: in.a.cols,
		Alpha: o.alpha, Beta: o.beta, Act: o.act,
	}
	if in.c != nil {
		r.Batch = max(r.Batch, in.c.Batch)
	}
	if float64(r.Batch)*float64(r.M)*float64(r.N) > maxElements {
		return usagef("the product of %s and %s is %s: past 2^32 elements", o.a, o.b, sizeOf(r.Batch, r.M, r.N))
	}
	if err := text.Supported(o.output, r.Batch, r.M, r.N); err != nil {
		return usageError{err}
	}
	dtype, outDType, err := o.types(in)
	if err != nil {
		return err
	}
	switch {
	case dtype == gemm.I8 && o.acc == "f32x2":
		return usagef("--acc f32x2 with i8: want it without, as sums of i8 are exact")
	case dtype == gemm.I8 && o.reportRange:
		return usagef("--report-range with i8: want f32, f16 or bf16, as only these overflow or are rounded")
	}
	r.DType, r.OutDType = dtype.String(), outDType.String()
	engine, where, err := o.where.open(ctx)
	if err != nil {
		return err
	}
	defer engine.Close()
	o.phases.note(o.tuning.use(engine, where))
	r.Device, r.Adapter = where.Device, where.adapterName()
	if where.Adapter != nil {
		r.Type = string(where.Adapter.Type)
	}
	j := job{runOptions: o, engine: engine, where: where, text: text, tile: len(opts) > 0, opts: opts}
	j.opts = append(j.opts, gemm.WithAlpha(o.alpha), gemm.WithBeta(o.beta), gemm.WithActivation(act))
	if o.acc == "f32x2" {
		j.opts = append(j.opts, gemm.WithAccumulator(gemm.AccF32x2))
	}
	return j.run(ctx, in, dtype, outDType, act, &r)
}

// maxElements bounds the product before memory is taken for it: with k = 0 two
// files without values can ask for any size.
const maxElements = 1 << 32

// textOptions reads --delimiter and --decimal.
func (o *runOptions) textOptions() (matfile.Options, error) {
	var text matfile.Options
	for _, x := range []struct {
		flag, value string
		to          *rune
	}{{"--delimiter", o.delimiter, &text.Comma}, {"--decimal", o.decimal, &text.Decimal}} {
		if x.value == `\t` {
			x.value = "\t"
		}
		if x.value == "" {
			continue
		}
		if utf8.RuneCountInString(x.value) != 1 {
			return text, usagef("%s %q: want one character", x.flag, x.value)
		}
		*x.to, _ = utf8.DecodeRuneInString(x.value)
	}
	return text, nil
}

// kernelOptions reads --kernel, --set and --acc.
func (o *runOptions) kernelOptions() ([]gemm.Option, error) {
	params, err := wgsl.ParseParams(strings.Join(o.set, ","))
	if err != nil {
		return nil, usagef("--set %s: %w", strings.Join(o.set, ","), err)
	}
	choice, err := gemm.ParseChoice(o.kernel)
	if err != nil {
		return nil, usagef("--kernel %s: %w", o.kernel, err)
	}
	if o.kernel != "" && !slices.Contains(wgsl.Kernels(), choice.Kernel) {
		return nil, usagef("--kernel %q: want one of %s", o.kernel, strings.Join(wgsl.Kernels(), ", "))
	}
	if o.acc != "f32" && o.kernel != "" {
		return nil, usagef("--acc %s is a kernel of its own: want it without --kernel", o.acc)
	}
	switch o.acc {
	case "f32", "f32x2":
	case "f16":
		tile := wgsl.Params{"BM": 16, "BN": 16, "BK": 8, "F16_ACC": 1}
		return []gemm.Option{gemm.WithKernel("broken/gemm_tiled", tile.With(params))}, nil
	default:
		return nil, usagef("--acc %q: want f32, f32x2 or f16", o.acc)
	}
	if o.kernel == "" && len(params) == 0 {
		return nil, nil
	}
	choice.Params = choice.Params.With(params)
	return []gemm.Option{gemm.WithChoice(choice)}, nil
}

// open opens the files and checks their shapes against each other, as the user
// gave them.
func (o *runOptions) open(text matfile.Options) (in inputs, err error) {
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	for _, x := range []struct {
		arg, path string
		to        **input
	}{{"A", o.a, &in.a}, {"B", o.b, &in.b}, {"C", o.c, &in.c}, {"bias", o.bias, &in.bias}} {
		if x.path == "" && (x.arg == "C" || x.arg == "bias") {
			continue
		}
		f, err := text.Open(x.path)
		if err != nil {
			return in, fmt.Errorf("%s: %w", x.arg, err)
		}
		*x.to = &input{File: f, rows: f.Rows, cols: f.Cols}
	}
	in.a.trans, in.b.trans = o.transA, o.transB
	if in.b.Dims == 1 { // a vector is a column as B
		in.b.rows, in.b.cols = in.b.cols, in.b.rows
	}
	for _, x := range []*input{in.a, in.b} {
		if x.trans {
			x.rows, x.cols = x.cols, x.rows
		}
	}
	if in.a.cols != in.b.rows {
		return in, usagef("%s is %d x %d and %s is %d x %d%s: want a B with %d rows, one for each column of A",
			o.a, in.a.rows, in.a.cols, o.b, in.b.rows, in.b.cols, o.transposed(), in.a.cols)
	}
	batch := max(in.a.Batch, in.b.Batch)
	for _, x := range []struct {
		path string
		file *input
	}{{o.a, in.a}, {o.b, in.b}, {o.bias, in.bias}, {o.c, in.c}} {
		if x.file != nil && x.file.Batch != 1 && batch != 1 && x.file.Batch != batch {
			return in, usagef("%s holds %d matrices, want %d as the other files, or 1", x.path, x.file.Batch, batch)
		}
	}
	if c := in.c; c != nil && (c.rows != in.a.rows || c.cols != in.b.cols || (c.Batch != batch && batch != 1)) {
		return in, usagef("%s is %s: want a C of %s", o.c, sizeOf(c.Batch, c.rows, c.cols), sizeOf(batch, in.a.rows, in.b.cols))
	}
	if b := in.bias; b != nil && ((b.rows != 1 && b.rows != in.a.rows) || (b.cols != 1 && b.cols != in.b.cols)) {
		return in, usagef("%s is %d x %d: want a bias of 1 x %d, %d x 1 or %d x %d", o.bias, b.rows, b.cols, in.b.cols, in.a.rows, in.a.rows, in.b.cols)
	}
	return in, nil
}

// transposed says which operands are, for a message about shapes.
func (o *runOptions) transposed() string {
	switch {
	case o.transA && o.transB:
		return " (both transposed)"
	case o.transA:
		return " (A transposed)"
	case o.transB:
		return " (B transposed)"
	}
	return ""
}

// types are the element types of A and B, and of C.
func (o *runOptions) types(in inputs) (dtype, out gemm.DType, err error) {
	byName := map[string]gemm.DType{"f32": gemm.F32, "f16": gemm.F16, "bf16": gemm.BF16, "i8": gemm.I8}
	dtype, ok := byName[o.dtype]
	switch {
	case ok:
	case o.dtype != "":
		return 0, 0, usagef("--dtype %q: want f32, f16, bf16 or i8", o.dtype)
	case in.a.DType == "f2" && in.b.DType == "f2":
		dtype = gemm.F16
	case in.a.DType == "bf16" && in.b.DType == "bf16":
		dtype = gemm.BF16
	}
	out = dtype
	if dtype == gemm.I8 {
		out = gemm.I32
	}
	if o.outDType == "" || o.outDType == out.String() {
		return dtype, out, nil
	}
	if o.outDType == "f32" && dtype != gemm.I8 {
		return dtype, gemm.F32, nil
	}
	want := out.String()
	if dtype != gemm.I8 && dtype != gemm.F32 {
		want += " or f32"
	}
	return 0, 0, usagef("--out-dtype %q: want %s for A and B of %s", o.outDType, want, dtype)
}

// A job is what multiplying takes beside the files.
type job struct {
	*runOptions
	engine *gemm.Engine
	where  place
	text   matfile.Options
	tile   bool // the user chose a kernel or a tile
	opts   []gemm.Option
}

// run reads, multiplies, checks and writes. Each matrix is held once, but for one
// on its way: on the host until it is uploaded, and the product from when the
// others are gone. What is counted or checked afterwards stays on the host too.
func (j job) run(ctx context.Context, in inputs, dtype, outDType gemm.DType, act gemm.Activation, r *runReport) error {
	x := gemm.Product{Alpha: j.alpha, Beta: j.beta, Act: act}
	if a := j.where.Adapter; a != nil { // before memory is taken for it
		size := r.Batch * r.M * r.N * outDType.Size()
		if err := a.Limits.CheckBuffer("the product", max(size, 1)); err != nil {
			return j.explain(err)
		}
	}
	var d onDevice
	defer func() { closeAll(d.a, d.b, d.bias, d.c) }()
	for _, y := range []struct {
		file  *input
		dtype gemm.DType
		host  *gemm.HostMatrix
		to    **gemm.DeviceMatrix
	}{
		{in.a, dtype, &x.A, &d.a},
		{in.b, dtype, &x.B, &d.b},
		{in.bias, dtype, &x.Bias, &d.bias},
		{in.c, outDType, &x.C0, &d.c},
	} {
		if y.file == nil {
			continue
		}
		j.phases.next("reading " + y.file.Path)
		if j.reportRange {
			y.file.Lost = new(matfile.Lost)
		}
		var err error
		if *y.host, err = readMatrix(y.file, y.dtype); err != nil {
			return err
		}
		j.phases.next("uploading " + y.file.Path)
		if *y.to, err = j.upload(ctx, *y.host, r); err != nil {
			return j.explain(err)
		}
		if !j.check && !j.reportRange {
			*y.host = nil
			freeMemory()
		}
	}
	if err := j.compute(ctx, &d, outDType, r); err != nil {
		return j.explain(err)
	}
	closeAll(d.a, d.b, d.bias)
	freeMemory()
	j.phases.next("reading back")
	c := newMatrix(outDType, r.Batch, r.M, r.N)
	clock := &stopwatch{time.Now()}
	if err := j.engine.Download(ctx, c, d.c); err != nil {
		return err
	}
	r.Seconds.ReadBack = clock.lap()
	closeAll(d.c)
	var check *gemm.Report
	if j.check {
		j.phases.next("checking")
		report := x.Check(c, 1)
		check = &report
		r.Check = &checkReport{
			report.Right(), report.Checked, report.Elements, number(report.Ratio), report.Batch, report.Row, report.Col,
			number(report.Got), number(report.Want), number(report.Bound), number(report.MaxError),
		}
	}
	if j.reportRange {
		j.phases.next("counting")
		r.Range = ranges(in, x, c)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	right := check == nil || check.Right()
	if right {
		j.phases.next("writing " + j.output)
		if err := j.write(c); err != nil {
			return err
		}
	}
	j.phases.done()
	if err := r.print(j); err != nil {
		return err
	}
	if !right {
		return fmt.Errorf("%w: %v; %s was not written", errDiffers, *check, j.output)
	}
	return nil
}

// explain turns a limit that the user's own tile is over into wrong use, and
// names the way out of one that the matrices are over.
func (j job) explain(err error) error {
	if _, ok := errors.AsType[*gemm.LimitError](err); !ok {
		return err
	}
	if j.tile {
		return usageError{err}
	}
	return fmt.Errorf("%w (--device cpu has no such limit)", err)
}

// onDevice are the operands of a product; bias is nil if there is none.
type onDevice struct{ a, b, bias, c *gemm.DeviceMatrix }

// closeAll closes what there is. After an error there is nothing to do about
// another one.
func closeAll(ms ...*gemm.DeviceMatrix) {
	for _, m := range ms {
		if m != nil {
			_ = m.Close()
		}
	}
}

// freeMemory gives what a matrix had back to the system. By itself the collector
// would wait until the heap is twice as large as what is in use, and that is
// another set of matrices.
func freeMemory() { debug.FreeOSMemory() }

func (j job) upload(ctx context.Context, m gemm.HostMatrix, r *runReport) (*gemm.DeviceMatrix, error) {
	clock := &stopwatch{time.Now()}
	d, err := j.engine.Upload(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := j.engine.Wait(ctx); err != nil {
		return d, err
	}
	r.Seconds.Upload += clock.lap()
	return d, nil
}

// compute plans and multiplies, into a new C if there was none.
func (j job) compute(ctx context.Context, d *onDevice, outDType gemm.DType, r *runReport) (err error) {
	if d.c == nil {
		if d.c, err = j.engine.NewBatch(outDType, r.Batch, r.M, r.N); err != nil {
			return err
		}
	}
	opts := j.opts
	if d.bias != nil {
		opts = append(slices.Clone(opts), gemm.WithBias(d.bias))
	}
	plan, err := j.engine.Plan(d.c, d.a, d.b, opts...)
	if err != nil {
		return err
	}
	r.Variant, r.Tuned, r.Splits, r.Slices = plan.Name(), plan.Tuned, max(plan.Splits, 1), plan.Slices()
	r.Grid, r.workgroups = [2]uint32{plan.Grid[1], plan.Grid[0]}, int(plan.Grid[0])*int(plan.Grid[1])*int(plan.Grid[2])
	j.phases.note(j.where.note)
	j.phases.next("multiplying")
	clock := &stopwatch{time.Now()}
	took, by, err := j.engine.Elapsed(ctx, plan, d.c, d.a, d.b, opts...)
	if err != nil {
		return err
	}
	r.Seconds.Compute, r.Clock = took.Seconds(), string(by)
	r.Seconds.Compile = max(clock.lap()-r.Seconds.Compute, 0)
	r.GFLOPS = 2 * float64(r.Batch) * float64(r.M) * float64(r.N) * float64(r.K) / max(took.Seconds(), 1e-9) / 1e9
	return nil
}

type stopwatch struct{ last time.Time }

// lap is the time in seconds since the last lap.
func (s *stopwatch) lap() float64 {
	now := time.Now()
	defer func() { s.last = now }()
	return now.Sub(s.last).Seconds()
}

// newMatrix is a batch of zeros.
func newMatrix(dtype gemm.DType, batch, rows, cols int) gemm.HostMatrix {
	switch dtype {
	case gemm.F16:
		return gemm.NewBatch[float16.Float16](batch, rows, cols, nil)
	case gemm.BF16:
		return gemm.NewBatch[gemm.BFloat16](batch, rows, cols, nil)
	case gemm.I32:
		return gemm.NewBatch[int32](batch, rows, cols, nil)
	default:
		return gemm.NewBatch[float32](batch, rows, cols, nil)
	}
}

// readMatrix reads the values of an input.
func readMatrix(f *input, dtype gemm.DType) (gemm.HostMatrix, error) {
	switch dtype {
	case gemm.F16:
		v, err := f.Float16()
		return operand(f, v), err
	case gemm.BF16:
		v, err := f.BFloat16()
		return operand(f, unsafe.Slice((*gemm.BFloat16)(unsafe.SliceData(v)), len(v))), err
	case gemm.I8:
		v, err := f.Int8()
		return operand(f, v), err
	default:
		v, err := f.Float32()
		return operand(f, v), err
	}
}

func operand[T gemm.Element](f *input, values []T) gemm.HostMatrix {
	if f.trans {
		return gemm.NewBatch(f.Batch, f.cols, f.rows, values).Transposed()
	}
	return gemm.NewBatch(f.Batch, f.rows, f.cols, values)
}

func (j job) write(c gemm.HostMatrix) error {
	switch m := c.(type) {
	case gemm.Matrix[float16.Float16]:
		return j.text.WriteFloat16(j.output, m.Batch, m.Rows, m.Cols, m.Data)
	case gemm.Matrix[gemm.BFloat16]:
		bits := unsafe.Slice((*uint16)(unsafe.SliceData(m.Data)), len(m.Data))
		return j.text.WriteBFloat16(j.output, m.Batch, m.Rows, m.Cols, bits)
	case gemm.Matrix[int32]:
		return j.text.WriteInt32(j.output, m.Batch, m.Rows, m.Cols, m.Data)
	case gemm.Matrix[float32]:
		return j.text.WriteFloat32(j.output, m.Batch, m.Rows, m.Cols, m.Data)
	}
	return fmt.Errorf("no writer for a %T", c)
}

func (r runReport) print(j job) error {
	if j.asJSON {
		return printJSON(j.stdout, r)
	}
	style := newStyle(j.stdout)
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s %s, %s (%d x %d) times %s (%d x %d)\n", r.Output, sizeOf(r.Batch, r.M, r.N), r.OutDType, j.a, r.M, r.K, j.b, r.K, r.N)
	fmt.Fprintf(&out, "  on       %s\n", j.where)
	if r.Seconds.Compute > 0 {
		fmt.Fprintf(&out, "  variant  %s", r.Variant)
		if r.Tuned {
			out.WriteString(tunedMark)
		}
		if r.workgroups > 0 && j.where.Adapter != nil {
			fmt.Fprintf(&out, ", %s", plural(r.workgroups, "workgroup"))
		}
		if r.Splits > 1 {
			fmt.Fprintf(&out, ", %d parts of K", r.Splits)
		}
		if r.Slices > 0 {
			fmt.Fprintf(&out, ", %s of K", plural(r.Slices, "slice"))
		}
		fmt.Fprintf(&out, "\n  time     upload %s, ", duration(r.Seconds.Upload))
		if j.where.Adapter != nil {
			fmt.Fprintf(&out, "compile %s, ", duration(r.Seconds.Compile))
		}
		fmt.Fprintf(&out, "compute %s (%.3g GFLOP/s, %s clock), read-back %s\n",
			duration(r.Seconds.Compute), r.GFLOPS, r.Clock, duration(r.Seconds.ReadBack))
	}
	if c := r.Check; c != nil {
		verdict := style.right.Sprint("right")
		if !c.Right {
			verdict = style.wrong.Sprint("WRONG")
		}
		fmt.Fprintf(&out, "  check    %s: compared %d of %d elements with float64; largest error %.3g, which is %.3g of what rounding may cause\n",
			verdict, c.Checked, c.Elements, c.MaxError, c.Ratio)
	}
	for _, x := range r.Range {
		fmt.Fprintf(&out, "  range    %s\n", x)
	}
	_, err := io.WriteString(j.stdout, out.String())
	return err
}

// sizeOf is the size of a matrix, or of a batch of them.
func sizeOf(batch, rows, cols int) string {
	size := fmt.Sprintf("%d x %d", rows, cols)
	if batch != 1 {
		size = fmt.Sprintf("%d times %s", batch, size)
	}
	return size
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func duration(seconds float64) string {
	return time.Duration(seconds * 1e9).Round(10 * time.Microsecond).String()
}
