package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/verify"
)

type verifyOptions struct {
	where    deviceChoice
	suites   []string
	caseName string
	seed     uint64
	shapes   []string
	kernel   string
	asJSON   bool
	junit    string
	stdout   io.Writer
	progress *progress
}

func newVerifyCmd() *cobra.Command {
	o := &verifyOptions{}
	var about strings.Builder
	for _, s := range verify.Suites {
		fmt.Fprintf(&about, "  %-8s %s\n", s.Name, s.About)
	}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the device's products against float64",
		Long: `Check the device's products against float64, in suites:

` + about.String() + `  quick    some of each, but of big: the default
  all      everything but big

Products of whole numbers must be exact, others within the error bound that
docs/numerics.md derives. Around every operand lies poison that must neither be
read nor written, and two runs must give the same bits. What the device cannot
run is told as skipped, with the reason. A failure comes with the command that
repeats it. What wgemm tune measured is not used: --kernel takes it by name.`,
		Example: `  wgemm verify
  wgemm verify --suite all --junit verify.xml
  wgemm verify --suite tiles,f16 --kernel every
  wgemm verify --shapes 8192x8192x8192,8191x1x4097`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.stdout = cmd.OutOrStdout()
			o.progress = &progress{phases: newPhases(cmd.ErrOrStderr()), w: cmd.ErrOrStderr()}
			defer o.progress.phases.done()
			return runVerify(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.suites, "suite", nil, "suites to run: "+strings.Join(verify.Names(), ", "))
	f.StringVar(&o.caseName, "case", "", "run the case of this name alone, as a failure gives it")
	f.Uint64Var(&o.seed, "seed", 1, "where random numbers start")
	f.StringSliceVar(&o.shapes, "shapes", nil, "sizes MxNxK to check in place of a suite; with --suite f16, bf16 or int8 in that type")
	f.StringVar(&o.kernel, "kernel", "", "a variant such as gemm_tiled/BM=32,BN=32, or every; default the planner's choice")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.StringVar(&o.junit, "junit", "", "write a JUnit report to this file")
	complete(cmd, "suite", verify.Names()...)
	o.where.flags(cmd)
	return cmd
}

func runVerify(ctx context.Context, o *verifyOptions) error {
	kernels := verify.EveryKernel()
	if o.kernel != "every" {
		k, err := verify.ParseKernel(o.kernel)
		if err != nil {
			return usagef("--kernel %q: %w", o.kernel, err)
		}
		kernels = []verify.Kernel{k}
	}
	shapes, dtype, err := o.ownShapes()
	if err != nil {
		return err
	}
	names := o.suites
	switch {
	case len(names) > 0:
	case o.caseName != "":
		names = []string{"all", "big"}
	default:
		names = []string{"quick"}
	}
	for _, name := range names {
		if !slices.Contains(verify.Names(), name) {
			return usagef("--suite %q: want one of %s", name, strings.Join(verify.Names(), ", "))
		}
	}
	if o.junit != "" {
		if err := checkOutput("--junit", o.junit); err != nil {
			return err
		}
	}
	engine, where, err := o.where.open(ctx)
	if err != nil {
		return err
	}
	defer engine.Close()
	o.progress.phases.note(where.note)
	runner := &verify.Runner{Engine: engine, Seed: o.seed}
	cases, err := verify.Select(runner, names, kernels)
	if err != nil {
		return err
	}
	if shapes != nil {
		cases = verify.Shapes(shapes, dtype, kernels)
	}
	if o.caseName != "" {
		cases = slices.DeleteFunc(cases, func(c verify.Case) bool { return c.Name != o.caseName })
		if len(cases) == 0 {
			return usagef("--case %q: no such case in %s", o.caseName, strings.Join(names, ", "))
		}
	}
	results := make([]verifyResult, len(cases))
	for i, c := range cases {
		o.progress.begins(c.Suite, c.Name, i, len(cases))
		start := time.Now()
		r, err := runner.Run(ctx, c)
		if err != nil {
			return err
		}
		o.progress.ended(r)
		results[i] = verifyResult{r, time.Since(start)}
	}
	o.progress.ends()
	return o.report(where, results)
}

// ownShapes reads --shapes, and their type from --suite.
func (o *verifyOptions) ownShapes() ([][3]int, gemm.DType, error) {
	if len(o.shapes) == 0 {
		return nil, 0, nil
	}
	dtype := gemm.F32
	if len(o.suites) > 0 {
		types := map[string]gemm.DType{"f16": gemm.F16, "bf16": gemm.BF16, "int8": gemm.I8}
		var ok bool
		if dtype, ok = types[o.suites[0]]; !ok || len(o.suites) > 1 {
			return nil, 0, usagef("--suite %s with --shapes: want one of f16, bf16, int8, or none for f32", strings.Join(o.suites, ","))
		}
	}
	var shapes [][3]int
	for _, text := range o.shapes {
		var size [3]int
		parts := strings.Split(text, "x")
		ok := len(parts) == 3
		for i := range size {
			if ok {
				n, err := strconv.Atoi(parts[i])
				size[i], ok = n, err == nil && n >= 0 && n <= 1<<24
			}
		}
		if !ok {
			return nil, 0, usagef("--shapes %q: want MxNxK, such as 100x200x300, each at most 2^24", text)
		}
		if m, n, k := size[0], size[1], size[2]; max(m*n, m*k, k*n) > maxElements {
			return nil, 0, usagef("--shapes %q: past 2^32 elements in a matrix", text)
		}
		shapes = append(shapes, size)
	}
	return shapes, dtype, nil
}

// A progress tells which case runs, on a terminal in place and elsewhere one
// line a suite.
type progress struct {
	phases                 *phases
	w                      io.Writer
	suite                  string
	cases, failed, skipped int
	start                  time.Time
}

func (p *progress) begins(suite, name string, i, of int) {
	if suite != p.suite {
		p.ends()
		*p = progress{phases: p.phases, w: p.w, suite: suite, start: time.Now()}
	}
	p.phases.next(fmt.Sprintf("%d of %d: %s %s", i+1, of, suite, name))
}

func (p *progress) ended(r verify.Result) {
	p.cases++
	switch {
	case r.Skipped != "":
		p.skipped++
	case r.Failure != "":
		p.failed++
	}
}

// ends tells of the suite that has ended, if any.
func (p *progress) ends() {
	if p.suite != "" && p.phases.bar == nil {
		fmt.Fprintf(p.w, "%s: %d cases, %d failed, %d skipped, %.1f s\n", p.suite, p.cases, p.failed, p.skipped, time.Since(p.start).Seconds())
	}
}

type verifyResult struct {
	verify.Result
	took time.Duration
}

type verifyReport struct {
	Device  string        `json:"device"`
	Adapter string        `json:"adapter"` // "" for the CPU path
	Seed    uint64        `json:"seed"`
	Suites  []verifySuite `json:"suites"`
}

type verifySuite struct {
	Suite     string        `json:"suite"`
	Cases     int           `json:"cases"`
	Failed    int           `json:"failed"`
	Skipped   int           `json:"skipped"`
	Ratio     number        `json:"ratio"` // the largest
	RatioCase string        `json:"ratio_case"`
	Where     string        `json:"where"` // the element, "" if all are exact
	Variant   string        `json:"variant"`
	Failures  []verifyFault `json:"failures"`
	Skips     []verifySkip  `json:"skips"`
}

type verifyFault struct {
	Case    string `json:"case"`
	Kernel  string `json:"kernel"` // "" for the planner's choice
	Failure string `json:"failure"`
	Repeat  string `json:"repeat"`
}

type verifySkip struct {
	Case   string `json:"case"`
	Kernel string `json:"kernel"`
	Reason string `json:"reason"`
}

// report prints the results. It returns errDiffers if one is wrong.
func (o *verifyOptions) report(where place, results []verifyResult) error {
	r := verifyReport{Device: where.Device, Adapter: where.adapterName(), Seed: o.seed}
	plain := make([]verify.Result, len(results))
	for i, x := range results {
		plain[i] = x.Result
	}
	failed := 0
	for _, s := range verify.Summarize(plain) {
		out := verifySuite{s.Suite, s.Cases, len(s.Failures), len(s.Skips), number(s.Worst.Ratio), s.Worst.Case, s.Worst.Where, s.Worst.Variant, []verifyFault{}, []verifySkip{}}
		for _, f := range s.Failures {
			out.Failures = append(out.Failures, verifyFault{f.Case, f.Kernel, f.Failure, o.repeat(f, where)})
		}
		for _, f := range s.Skips {
			out.Skips = append(out.Skips, verifySkip{f.Case, f.Kernel, f.Skipped})
		}
		failed += out.Failed
		r.Suites = append(r.Suites, out)
	}
	o.progress.phases.done()
	var err error
	if o.asJSON {
		err = printJSON(o.stdout, r)
	} else {
		err = r.text(o.stdout, where)
	}
	if err == nil && o.junit != "" {
		err = writeJUnit(o.junit, results)
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%w: %d of %d cases failed", errDiffers, failed, len(results))
	}
	return err
}

// repeat is the command that runs one case again.
func (o *verifyOptions) repeat(r verify.Result, where place) string {
	args := []string{"wgemm", "verify"}
	if len(o.shapes) > 0 {
		args = append(args, "--shapes", strings.Join(o.shapes, ","))
		if len(o.suites) > 0 {
			args = append(args, "--suite", strings.Join(o.suites, ","))
		}
	} else {
		args = append(args, "--suite", r.Suite)
	}
	args = append(args, "--case", "'"+r.Case+"'", "--seed", strconv.FormatUint(o.seed, 10))
	if r.Kernel != "" {
		args = append(args, "--kernel", "'"+r.Kernel+"'") // a choice has semicolons
	}
	args = append(args, "--device", where.Device)
	if o.where.adapter != "" && where.Adapter != nil {
		args = append(args, "--adapter", "'"+o.where.adapter+"'")
	}
	return strings.Join(args, " ")
}

// maxShown is how many failures of a suite are printed.
const maxShown = 5

func (r verifyReport) text(w io.Writer, where place) error {
	fmt.Fprintf(w, "on %s, seed %d\n", where, r.Seed)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "suite\tcases\tfailed\tskipped\tworst ratio\twhere")
	for _, s := range r.Suites {
		at := s.Where
		if at != "" {
			at += " of " + s.RatioCase
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%.3g\t%s\n", s.Suite, s.Cases, s.Failed, s.Skipped, float64(s.Ratio), at)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, s := range r.Suites {
		for i, f := range s.Failures {
			if i == maxShown {
				fmt.Fprintf(w, "\n%s: %d more failed (--json lists them)\n", s.Suite, len(s.Failures)-maxShown)
				break
			}
			fmt.Fprintf(w, "\n%s, %s: %s\n  %s\n", s.Suite, f.Case, f.Failure, f.Repeat)
		}
		reasons := map[string]int{}
		var order []string
		for _, skip := range s.Skips {
			if reasons[skip.Reason]++; reasons[skip.Reason] == 1 {
				order = append(order, skip.Reason)
			}
		}
		for _, reason := range order {
			fmt.Fprintf(w, "\n%s: skipped %d: %s\n", s.Suite, reasons[reason], reason)
		}
	}
	return nil
}

// The JUnit report that build servers read.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Seconds string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
	}
)

func writeJUnit(path string, results []verifyResult) error {
	var out junitSuites
	for _, r := range results {
		if n := len(out.Suites); n == 0 || out.Suites[n-1].Name != r.Suite {
			out.Suites = append(out.Suites, junitSuite{Name: r.Suite})
		}
		s := &out.Suites[len(out.Suites)-1]
		c := junitCase{Class: r.Suite, Name: strings.TrimSuffix(r.Case+" "+r.Kernel, " "), Seconds: fmt.Sprintf("%.6f", r.took.Seconds())}
		switch {
		case r.Skipped != "":
			c.Skipped = &junitMessage{r.Skipped}
			s.Skipped++
		case r.Failure != "":
			c.Failure = &junitMessage{r.Failure}
			s.Failures++
		}
		s.Tests++
		s.Cases = append(s.Cases, c)
	}
	data, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, slices.Concat([]byte(xml.Header), data, []byte("\n")), 0o644); err != nil {
		return usagef("--junit: %w", err)
	}
	return nil
}
