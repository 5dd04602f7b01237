package verify

import (
	"testing"

	"github.com/wgemm/wgemm/gemm"
)

func TestQuick(t *testing.T) {
	t.Parallel()
	r := &Runner{Engine: gemm.NewCPU(), Seed: 1}
	cases, err := Select(r, []string{"quick"}, []Kernel{{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		res, err := r.Run(t.Context(), c)
		if err != nil || res.Failure != "" || res.Skipped != "" {
			t.Errorf("%s %s: %v %s %s", c.Suite, c.Name, err, res.Failure, res.Skipped)
		}
	}
}
