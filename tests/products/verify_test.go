package products

import (
	"context"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/verify"
)

// quick are the cases of the selection quick for a kernel.
func quick(t *testing.T, r *verify.Runner, kernel string) []verify.Case {
	t.Helper()
	k, err := verify.ParseKernel(kernel)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := verify.Select(r, []string{"quick"}, []verify.Kernel{k})
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() || goruntime.GOARCH == "wasm" { // a few of each suite: the references are slow there
		cases = slices.DeleteFunc(cases, func(c verify.Case) bool { return len(c.Name)%5 != 0 })
	}
	return cases
}

// The selection quick of wgemm verify is right on the driver of this build and
// on the CPU path. All of it is wgemm verify --suite all.
func TestVerify(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short, for slow adapters: TestShapes and what follows stand for it")
	}
	onEngines(t, func(t *testing.T, e *gemm.Engine) {
		r := &verify.Runner{Engine: e, Seed: seed}
		for _, c := range quick(t, r, "") {
			res, err := r.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if res.Failure != "" {
				t.Errorf("%s, %s: %s", c.Suite, c.Name, res.Failure)
			}
			if res.Skipped != "" {
				t.Logf("%s, %s is skipped: %s", c.Suite, c.Name, res.Skipped)
			}
		}
	})
}

// Every case of the suite bugs is right on a native device, not only those that
// quick takes (TestVerify); internal/verify runs them on the CPU path.
func TestBugs(t *testing.T) {
	t.Parallel()
	if testing.Short() || goruntime.GOARCH == "wasm" {
		t.Skip("a native device stands for it: the references take minutes in a browser's engine")
	}
	r := &verify.Runner{Engine: deviceEngine(t), Seed: seed}
	cases, err := verify.Select(r, []string{"bugs"}, []verify.Kernel{{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		res, err := r.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if res.Failure != "" {
			t.Errorf("%s: %s", c.Name, res.Failure)
		}
		if res.Skipped != "" {
			t.Logf("%s is skipped: %s", c.Name, res.Skipped)
		}
	}
}

// Suites that see every fault which leaves C as it was.
const products = "edges blas3 tiles deep f16 bf16 int8 batch views bugs"

// Each fault, in a kernel or around the engine, makes the named suites fail; the
// same kernel with no fault on makes none fail. An empty kernel is the planner's
// choice.
var faults = []struct {
	name, params string
	multiply     func(e *gemm.Engine) multiplyFunc
	suites       string // that fail, by a case of the selection quick
}{
	{"none", "", nil, ""},
	{"mask on M left out", "NO_M_MASK=true", nil, "edges tiles deep f16 bf16 int8 batch views"},
	{"mask on N left out", "NO_N_MASK=true", nil, "edges blas3 tiles deep f16 bf16 int8 batch views bugs"},
	{"mask on K left out", "NO_K_MASK=true", nil, "edges tiles deep f16 bf16 int8 batch views"},
	{"mask on M off by one", "PAST_M=1", nil, "edges tiles deep f16 bf16 int8 batch views"},
	{"mask on N off by one", "PAST_N=1", nil, "edges tiles deep f16 bf16 int8 batch views"},
	{"mask on K off by one", "PAST_K=1", nil, "edges tiles deep f16 bf16 int8 batch views"},
	{"tail of K dropped", "DROP_K_TAIL=true", nil, products},
	{"tiles swapped", "SWAP_TILES=true", nil, "blas3 tiles f16 bf16 int8 batch views bugs"},
	{"accumulator set to zero", "RESET_ACC=true", nil, products},
	{"accumulator of binary16", "F16_ACC=true", nil, "deep f16 int8"},
	{"binary16 rounded twice", "ROUND_TWICE=true", nil, "deep f16 int8"},
	{"last matrix of a batch skipped", "SKIP_LAST=true", nil, "batch views"},
	{"C read with beta = 0", "READ_C=true", nil, "edges tiles deep f16 bf16 batch views"},
	{"nothing computed", "", nothing, products},
	{"the product before read back", "", stale, "blas3"},
}

type multiplyFunc = func(ctx context.Context, c, a, b gemm.Operand, opts ...gemm.Option) error

func nothing(*gemm.Engine) multiplyFunc {
	return func(context.Context, gemm.Operand, gemm.Operand, gemm.Operand, ...gemm.Option) error { return nil }
}

// stale gives each C of binary32 on the host what the call before computed, as
// a read-back that does not wait.
func stale(e *gemm.Engine) multiplyFunc {
	var before []float32
	return func(ctx context.Context, c, a, b gemm.Operand, opts ...gemm.Option) error {
		err := e.Multiply(ctx, c, a, b, opts...)
		if m, ok := c.(gemm.Matrix[float32]); ok {
			now := slices.Clone(m.Data)
			for i := range min(m.Rows, len(before)) {
				if m.Cols > 0 {
					m.Data[i*m.RowStride] = before[i]
				}
			}
			before = now
		}
		return err
	}
}

// The faults are those of the kernel's text, whatever runs it.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	if testing.Short() || goruntime.GOARCH == "wasm" {
		t.Skip("a native device stands for it: the suites are the same Go on all")
	}
	e := deviceEngine(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			r := &verify.Runner{Engine: e, Seed: seed}
			kernel := "broken/gemm_tiled/BM=8,BN=8,BK=8"
			if f.params != "" {
				kernel += "," + f.params
			}
			if f.multiply != nil {
				r.Multiply = f.multiply(e)
			}
			suites := strings.Fields(f.suites)
			found := map[string]bool{}
			for _, c := range quick(t, r, kernel) {
				switch {
				case c.Suite == "chapter": // its kernels are its own
					continue
				case len(suites) > 0 && (found[c.Suite] || !slices.Contains(suites, c.Suite)):
					continue
				}
				res, err := r.Run(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if res.Failure == "" {
					continue
				}
				found[c.Suite] = true
				if len(suites) == 0 {
					t.Errorf("%s, %s fails without a fault: %s", c.Suite, c.Name, res.Failure)
				}
			}
			for _, suite := range suites {
				if !found[suite] {
					t.Errorf("the suite %s does not find it", suite)
				}
			}
		})
	}
}

// A whole number of a large product that is wrong by the least there is shows in
// the random sums, wherever it is; a right product passes. Pairs of errors that
// cancel in one sum do not in all.
func TestCheckSums(t *testing.T) {
	t.Parallel()
	if goruntime.GOARCH == "wasm" {
		t.Skip("the same Go as in a native build, and no device in it")
	}
	const n = 120
	a, b := filled[float32](n, n, small), filled[float32](n, n, smallB)
	c := multiply(a, b)
	x := gemm.Product{A: a, B: b, Alpha: 1}
	if r := x.CheckSums(c, true, seed); !r.Right() || r.Ratio != 0 || r.Checked != n*n {
		t.Errorf("a right product: %+v", r)
	}
	if r := x.CheckSums(c, false, seed); !r.Right() {
		t.Errorf("a right product, with a bound: %+v", r)
	}
	rng := newRand()
	for range 25 {
		row, col, other := rng.IntN(n), rng.IntN(n), rng.IntN(n)
		was := c.Data[row*n+col]
		c.Data[row*n+col]++
		if r := x.CheckSums(c, true, seed); r.Right() || r.Row != row {
			t.Fatalf("C[%d, %d] is 1 off: %+v", row, col, r)
		}
		wasOther := c.Data[row*n+other]
		c.Data[row*n+other]--
		right := 0
		for s := range uint64(4) {
			if x.CheckSums(c, true, s).Right() {
				right++
			}
		}
		if right > 0 && other != col {
			t.Errorf("C[%d, %d] is 1 over and C[%d, %d] 1 under: %d of 4 seeds see nothing", row, col, row, other, right)
		}
		c.Data[row*n+other], c.Data[row*n+col] = wasOther, was
	}
	c.Data[5*n+7] = float32(nan)
	if r := x.CheckSums(c, false, seed); r.Right() || r.Row != 5 {
		t.Errorf("a NaN: %+v", r)
	}
	c.Data[5*n+7] = 1e9
	if r := x.CheckSums(c, false, seed); r.Right() || r.Row != 5 {
		t.Errorf("1e9: %+v", r)
	}
}

// Of products too large for a whole reference a sample is looked at, the last row
// with it.
func TestCheckOfBigProducts(t *testing.T) {
	t.Parallel()
	if goruntime.GOARCH == "wasm" {
		t.Skip("the same Go as in a native build, and no device in it")
	}
	const n, k = 1 << 12, 1 << 10 // 2^34 products, more than are formed
	a, b := gemm.NewMatrix(n, k, make([]float32, n*k)), gemm.NewMatrix(k, n, make([]float32, k*n))
	c := gemm.NewMatrix(n, n, make([]float32, n*n))
	r := gemm.Check(c, a, b, seed)
	if !r.Right() || r.Checked < 200*n || r.Checked >= n*n {
		t.Errorf("checked %d of %d elements: %v", r.Checked, r.Elements, r)
	}
	c.Data[n*n-1] = 1 // the last row is always looked at
	if r := gemm.Check(c, a, b, seed); r.Right() || r.Row != n-1 || r.Col != n-1 {
		t.Errorf("an error in the last element: %v", r)
	}
}
