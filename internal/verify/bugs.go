package verify

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/wgemm/wgemm/gemm"
)

var nan, inf = math.NaN(), math.Inf(1)

//go:embed testdata/cases.json
var casesJSON []byte

// A Bug is a kind of fault that a public bug report shows, with inputs of our
// own and right values that were not computed by this program. A and B are the
// values of op(A) and op(B), of row, column and matrix of the batch.
type Bug struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Source string `json:"source"` // the report
	M      int    `json:"m"`
	N      int    `json:"n"`
	K      int    `json:"k"`
	Batch  int    `json:"batch"`
	DType  string `json:"dtype"`
	TransA bool   `json:"transA"`
	TransB bool   `json:"transB"`
	Alpha  float32
	Beta   float32
	A      generator `json:"a"`
	B      generator `json:"b"`
	C      generator `json:"c"`
	Spots  [][]value `json:"spots"` // [i, j, value], or [p, i, j, value]
	Sums   *checksum `json:"checksum"`
}

type checksum struct {
	Sum       float64 `json:"sum"`
	SumAbs    float64 `json:"sumabs"`
	Zeros     int     `json:"zeros"`
	NonFinite int     `json:"nonfinite"`
}

// A value is a number of JSON, or "NaN" or "+Inf".
type value float64

func (v *value) UnmarshalJSON(text []byte) error {
	x, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	*v = value(x)
	return err
}

// A generator gives the values of an operand; nil for "none".
type generator struct{ expr }

func (g *generator) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil || s == "none" {
		return err
	}
	var err error
	g.expr, err = parseExpr(s)
	return err
}

// Bugs are all of testdata/cases.json, in order.
var Bugs = sync.OnceValue(func() []Bug {
	var bugs []Bug
	if err := json.Unmarshal(casesJSON, &bugs); err != nil {
		panic(err) // it is embedded, and has a test
	}
	return bugs
})

// ValueA is element (i, kk) of op(A) of matrix p.
func (b Bug) ValueA(p, i, kk int) float64 { return b.A.expr(vars{p: p, i: i, k: kk}) }

// ValueB is element (kk, j) of op(B) of matrix p.
func (b Bug) ValueB(p, kk, j int) float64 { return b.B.expr(vars{p: p, k: kk, j: j}) }

// problem is the bug's own product.
func (b Bug) problem() Problem {
	p := Problem{M: b.M, N: b.N, K: b.K, TransA: b.TransA, TransB: b.TransB, Alpha: b.Alpha, Beta: b.Beta}
	if b.DType == "f16" {
		p.In, p.Out = gemm.F16, gemm.F16
	}
	if b.Batch > 1 {
		p.Batch = b.Batch
	}
	p.data = &data{name: b.ID, exact: true, a: b.ValueA, b: b.ValueB}
	if b.C.expr != nil {
		p.data.c = func(p, i, j int) float64 { return b.C.expr(vars{p: p, i: i, j: j}) }
	}
	return p
}

// tolerance is by how much a spot may be off, where the product is not exact.
func (b Bug) tolerance(want float64) float64 {
	switch {
	case b.ID == "H23":
		return 1e-4 * math.Abs(want) // the report's
	case b.ID == "H24" && math.Abs(want) < 0x1p-126:
		return math.Abs(want) // WGSL lets a device flush it (15.7.2)
	}
	return 0
}

// check compares a product with the values of the file.
func (b Bug) check(at func(p, i, j int) float64) string {
	for _, spot := range b.Spots {
		p := 0
		if len(spot) == 4 {
			p, spot = int(spot[0]), spot[1:]
		}
		i, j, want := int(spot[0]), int(spot[1]), float64(spot[2])
		got := at(p, i, j)
		if got != want && !(math.Abs(got-want) <= b.tolerance(want)) && !(math.IsNaN(got) && math.IsNaN(want)) {
			return fmt.Sprintf("C[%d, %d, %d] is %v, the case's file says %v", p, i, j, got, want)
		}
	}
	if b.Sums == nil || b.ID == "H23" || b.ID == "H24" {
		return ""
	}
	var got checksum
	for p := range b.Batch {
		for i := range b.M {
			for j := range b.N {
				switch v := at(p, i, j); {
				case v-v != 0:
					got.NonFinite++
				default:
					got.Sum += v
					got.SumAbs += math.Abs(v)
					got.Zeros += int(truth(v == 0))
				}
			}
		}
	}
	if got != *b.Sums {
		return fmt.Sprintf("sums over C are %+v, the case's file says %+v", got, *b.Sums)
	}
	return ""
}

// A form of a bug is a product that its report suggests beside its own.
type form func(p *Problem)

func size(m, n, k int) form { return func(p *Problem) { p.M, p.N, p.K = m, n, k } }

func depth(k int) form { return func(p *Problem) { p.K = k } }

func factors(alpha, beta float32) form {
	return func(p *Problem) { p.Alpha, p.Beta = alpha, beta }
}

func trans(a, b bool) form { return func(p *Problem) { p.TransA, p.TransB = a, b } }

func inF16(p *Problem) { p.In, p.Out = gemm.F16, gemm.F16 }
func inF32(p *Problem) { p.In, p.Out = gemm.F32, gemm.F32 }
func toF32(p *Problem) { p.Out = gemm.F32 }
func gaps(p *Problem)  { p.Gaps = true }

// noC leaves C as poison.
func noC(p *Problem) { p.data.c = nil }

// ones makes A all ones, as B is.
func ones(p *Problem) {
	p.data.a = func(int, int, int) float64 { return 1 }
	p.data.name += "-ones"
}

// near wants every element within 1e-4 of a value: that of H23.
func near(want float64) form {
	return func(p *Problem) {
		m, n := p.M, p.N
		p.data.check = func(at func(p, i, j int) float64) string {
			for i := range m {
				for j := range n {
					if got := at(0, i, j); !(math.Abs(got-want) <= 1e-4*want) {
						return fmt.Sprintf("C[%d, %d] is %v, want %v within 1e-4 of it", i, j, got, want)
					}
				}
			}
			return ""
		}
	}
}

// firstIsOrZero wants the first element to be a value, or 0 where the device
// flushed the subnormal product before alpha.
func firstIsOrZero(want float64) form {
	return func(p *Problem) {
		p.data.check = func(at func(p, i, j int) float64) string {
			if got := at(0, 0, 0); got != want && got != 0 {
				return fmt.Sprintf("C[0, 0] is %v, want %v or 0", got, want)
			}
			return ""
		}
	}
}

func batchOf(n int) form { return func(p *Problem) { p.Batch = n } }

func all(fs ...form) form {
	return func(p *Problem) {
		for _, f := range fs {
			f(p)
		}
	}
}

// forms of each bug. A bug that is none here is its own product alone.
var formsOf = map[string][]form{
	"H01": each(depth, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129),
	"H02": {size(513, 513, 513), size(509, 509, 509)},
	"H03": {size(5, 1, 768), size(5, 3, 768), size(1, 2, 768), size(2, 2, 768), size(3, 2, 768)},
	"H04": triples(200),
	"H05": transposes(),
	"H06": {size(1024, 1024, 1024)},
	"H07": {size(4099, 3, 5), size(3, 5, 4099)},
	"H08": {size(49, 440, 440)},
	"H09": {size(1, 65, 129), size(65, 1, 129), size(17, 1, 129)},
	"H10": {factors(0, 1), all(factors(0, 0), noC)},
	"H11": {inF16, batchOf(2)},
	"H12": {trans(true, false), trans(false, true), trans(true, true), size(2, 1, 2)},
	"H15": {batchOf(3)},
	"H16": {size(5, 0, 3), size(0, 0, 0)},
	"H18": {toF32},
	"H20": {size(1, 1, 1), size(5, 7, 9)},
	"H21": {inF32},
	"H22": {inF32},
	"H23": {all(size(2, 2, 1_000_000), near(1_000_000*float64(float32(0.1)))), all(depth(16_777_300), ones, near(16_777_300))},
	"H24": {all(factors(0x1p40, 0), firstIsOrZero(0x1p-90))},
	"H30": {size(512, 1, 256)},
	"H34": {inF16},
	"H35": {func(p *Problem) { p.SharedB, p.SharedA = true, false }, func(p *Problem) { p.SharedA, p.SharedB = true, true }},
	"H37": {all(gaps, trans(false, false)), trans(true, false)},
	"H38": {factors(2, -0.5)},
}

func each(f func(int) form, values ...int) []form {
	var out []form
	for _, v := range values {
		out = append(out, f(v))
	}
	return out
}

func transposes() []form {
	var out []form
	for _, n := range []int{7, 11, 15, 19} {
		for t := range 4 {
			out = append(out, all(size(9, n, 6), trans(t&1 != 0, t&2 != 0)))
		}
	}
	return out
}

func triples(n int) []form {
	sizes := []int{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129}
	rng := rand.New(rand.NewPCG(4, 4))
	pick := func() int { return sizes[rng.IntN(len(sizes))] }
	var out []form
	for range n {
		out = append(out, size(pick(), pick(), pick()))
	}
	return out
}

// bugProblems are the products of a bug: its own, and its forms.
func bugProblems(b Bug) []Problem {
	if b.ID == "H29" {
		return nil // C is of 4 GB: whether it is refused is all that is asked here
	}
	own := b.problem()
	own.data.check = b.check
	switch b.ID {
	case "H12", "H33":
		own.Gaps, own.OnDevice = true, true
	case "H26":
		own.data.must = true // C is below every limit of size, and a grid can be cut
	case "H35":
		own.SharedA = true
	case "H23", "H24":
		own.data.exact = false
	}
	out := []Problem{own}
	for _, f := range formsOf[b.ID] {
		p, d := own, *own.data
		p.data, d.check = &d, nil
		f(&p)
		if !slices.ContainsFunc(out, func(q Problem) bool { return q.String() == p.String() }) {
			out = append(out, p)
		}
	}
	return out
}

func bugs(*Runner, Kernel) []Case {
	var cases []Case
	for _, b := range Bugs() {
		if _, elsewhere := Elsewhere[b.ID]; elsewhere || slices.Contains(bigBugs, b.ID) {
			continue
		}
		if special, ok := specials[b.ID]; ok {
			cases = append(cases, Case{Name: b.ID, run: func(ctx context.Context, r *Runner, k Kernel) (Result, error) {
				return special(ctx, r, b, k)
			}})
		}
		for _, p := range bugProblems(b) {
			if !bigForm(p) {
				cases = append(cases, problems([]Problem{p})...)
			}
		}
	}
	return cases
}

// bigBugs are part of the suite big, as are the products of others that are too
// deep or too wide for a software adapter.
var bigBugs = []string{"H31", "H32"}

func bigForm(p Problem) bool { return p.K > 1<<22 || p.M*p.N > 1<<27 }

// Elsewhere says which test of this project holds a case that needs a file, a
// page or a process of its own.
var Elsewhere = map[string]string{
	"H40": "tests/products/leak_linux_test.go: TestNothingLeaks",
	"H41": "tests/products/memory_js_test.go: TestMemoryGrows",
	"H42": "runtime/browser/browser_test.go: TestNoDevice",
	"H44": "cmd/wgemm/cases_test.go: TestSoftwareAdapterIsNamed",
	"H46": "cmd/wgemm/cases_test.go: TestFileCases",
	"H47": "cmd/wgemm/cases_test.go: TestFileCases",
	"H48": "cmd/wgemm/cases_test.go: TestFileCases",
	"H49": "cmd/wgemm/cases_test.go: TestFileCases",
	"H50": "cmd/wgemm/cases_test.go: TestFileCases",
	"H51": "cmd/wgemm/cases_test.go: TestFileCases",
	"H52": "cmd/wgemm/cases_test.go: TestOutputOfCase52",
}
