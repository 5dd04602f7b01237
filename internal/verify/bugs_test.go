package verify

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wgemm/wgemm/gemm"
)

// Each of the 52 cases has one home: the suite bugs, the suite big, or a test
// that exists.
func TestEveryBugHasAHome(t *testing.T) {
	t.Parallel()
	if len(Bugs()) != 52 {
		t.Errorf("%d cases, want 52", len(Bugs()))
	}
	r := &Runner{Engine: gemm.NewCPU()}
	inSuite, products := map[string]bool{}, map[string]bool{}
	for _, c := range bugs(r, Kernel{}) {
		id, _, isProduct := strings.Cut(c.Name, ",")
		inSuite[id] = true
		products[id] = products[id] || isProduct
	}
	for i, b := range Bugs() {
		if want := fmt.Sprintf("H%02d", i+1); b.ID != want {
			t.Errorf("case %d is %s, want %s", i, b.ID, want)
		}
		homes := 0
		if inSuite[b.ID] {
			homes++
		}
		if slices.Contains(bigBugs, b.ID) {
			homes++
		}
		if place, ok := Elsewhere[b.ID]; ok {
			homes++
			file, function, _ := strings.Cut(place, ": ")
			text, err := os.ReadFile(filepath.Join("../..", file))
			if err != nil || !strings.Contains(string(text), "\nfunc "+function+"(t *testing.T) {") {
				t.Errorf("%s: no %s: %v", b.ID, place, err)
			}
		}
		if homes != 1 {
			t.Errorf("%s has %d homes, want 1", b.ID, homes)
		}
		// That of H28 is in the suite big, that of H29 too large for a host.
		if wantProduct := !slices.Contains([]string{"H28", "H29"}, b.ID); inSuite[b.ID] && wantProduct && !products[b.ID] {
			t.Errorf("%s: its own product is not in the suite", b.ID)
		}
		if b.A.expr == nil || b.B.expr == nil || len(b.Spots) == 0 && b.M > 0 {
			t.Errorf("%s lacks a generator or right values", b.ID)
		}
	}
}

// Row tiles that never run at a large M are found by the blocks of rows too, whose
// own M is small: C there is whole.
func TestRowBlocksFindMissingTiles(t *testing.T) {
	t.Parallel()
	r := &Runner{Engine: gemm.NewCPU()}
	r.Multiply = func(ctx context.Context, c, a, b gemm.Operand, opts ...gemm.Option) error {
		err := r.Engine.Multiply(ctx, c, a, b, opts...)
		if m := c.(gemm.Matrix[float32]); m.Rows > 512 {
			clear(m.Data[512*m.RowStride:])
		}
		return err
	}
	res, err := rowBlocks(t.Context(), r, Bugs()[5], Kernel{})
	if err != nil || !strings.HasPrefix(res.Failure, "C[512, 0] is 0, and ") {
		t.Errorf("%+v, %v", res, err)
	}
}

// A device may refuse what is over a limit, and nothing else.
func TestRefusalsAreJudged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		limit                 gemm.LimitError
		wantFailed, wantSkips bool
	}{
		{gemm.LimitError{What: "C", Limit: "maxBufferSize", Need: 5, Have: 4}, false, true},
		{gemm.LimitError{What: "C", Limit: "maxBufferSize", Need: 4, Have: 4}, true, false},
		{gemm.LimitError{What: "C", Need: 5, Have: 4}, true, false},
	} {
		r := &Runner{Engine: gemm.NewCPU(), Multiply: func(context.Context, gemm.Operand, gemm.Operand, gemm.Operand, ...gemm.Option) error {
			return &tc.limit
		}}
		res, err := r.Run(t.Context(), problems([]Problem{{M: 2, N: 2, K: 2, Alpha: 1}})[0])
		if err != nil || (res.Failure != "") != tc.wantFailed || (res.Skipped != "") != tc.wantSkips {
			t.Errorf("%v: %+v, %v", &tc.limit, res, err)
		}
	}
}

// A case's name stands for it alone, and its random numbers do not depend on
// what ran before.
func TestCaseNames(t *testing.T) {
	t.Parallel()
	r := &Runner{Engine: gemm.NewCPU(), Seed: 1}
	for _, s := range Suites {
		seen := map[string]bool{}
		for _, c := range s.of(r, []Kernel{{}}) {
			if seen[c.Name] || strings.Contains(c.Name, "'") {
				t.Errorf("%s: case %q twice, or not to be quoted", s.Name, c.Name)
			}
			seen[c.Name] = true
		}
		if len(seen) == 0 {
			t.Errorf("%s has no case", s.Name)
		}
	}
	if a, b := r.rand("x").Uint64(), r.rand("x").Uint64(); a != b {
		t.Errorf("%d and %d from one name", a, b)
	}
	if a, b := r.rand("x").Uint64(), r.rand("y").Uint64(); a == b {
		t.Errorf("%d from two names", a)
	}
}

func TestParseKernel(t *testing.T) {
	t.Parallel()
	for _, k := range EveryKernel() {
		again, err := ParseKernel(k.String())
		if err != nil || again.Choice.Kernel != k.Choice.Kernel || strings.HasPrefix(k.Choice.Kernel, "broken/") {
			t.Errorf("%v: %+v, %v", k, again, err)
		}
	}
	k, err := ParseKernel("broken/gemm_tiled/BM=8,NO_K_MASK=true")
	if err != nil || k.Choice.Kernel != "broken/gemm_tiled" || k.Choice.Params["BM"] != 8 || k.Choice.Params["NO_K_MASK"] != 1 {
		t.Errorf("%+v, %v", k, err)
	}
	for _, text := range []string{"gemm", "gemm_tiled/BM=7", "gemm_tiled/BM", "gemm_tiled/X=1"} {
		if _, err := ParseKernel(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// Every case of the suite is right on the CPU path; on devices TestBugs of tests/products
// runs them.
func TestBugsOnTheCPU(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: the references of long sums take 20 s")
	}
	r := &Runner{Engine: gemm.NewCPU(), Seed: 1}
	for _, c := range bugs(r, Kernel{}) {
		res, err := r.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if res.Failure != "" {
			t.Errorf("%s: %s", c.Name, res.Failure)
		}
	}
}
