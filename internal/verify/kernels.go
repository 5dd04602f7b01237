package verify

import (
	"strings"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/wgsl"
)

// A Kernel is what computes: a choice of its own, or the planner's.
type Kernel struct {
	Choice gemm.Choice // Kernel "" for the planner's choice
	text   string
}

func (k Kernel) String() string { return k.text }

func (k Kernel) options() []gemm.Option {
	if k.Choice.Kernel == "" {
		return nil
	}
	return []gemm.Option{gemm.WithChoice(k.Choice)}
}

// ParseKernel reads a choice, such as gemm_tiled/BM=32,BN=32 or
// gemm_block;splits=2. "" is the planner's choice.
func ParseKernel(text string) (Kernel, error) {
	k := Kernel{text: text}
	if text == "" {
		return k, nil
	}
	var err error
	if k.Choice, err = gemm.ParseChoice(text); err != nil {
		return k, err
	}
	_, err = wgsl.Specialize(k.Choice.Kernel, k.Choice.Params)
	return k, err
}

// forms are variants in which every kernel's way through the edges differs from
// that of the defaults: tiles of one element, odd and not square, unrolled.
var forms = []string{
	"gemm_naive/BM=2,BN=64",
	"gemm_tiled/BM=1,BN=1,BK=1,TM=1,TN=1",
	"gemm_tiled/BM=6,BN=15,BK=7,TM=2,TN=5,UNROLL=true",
	"gemm_tiled/BM=32,BN=64,BK=8,TM=4,TN=8,UNROLL=true",
	"gemm_tiled/BM=8,BN=8,BK=8,TM=2,TN=4,NATIVE_F16=true",
	"gemm_block/BM=32,BN=32,BK=4,TM=4,TN=4;splits=3;pack",
	"gemm_block/BM=32,BN=16,BK=4,TM=4,TN=4;transposed;edges",
	"gemm_skinny/BM=4,LANES_N=4,LANES_K=2,UNROLL=false;splits=2;transposed",
	"gemm_skinny/BM=2,LANES_N=4,LANES_K=2,UNROLL=false",
	"gemm_direct/TM=4,TN=4,LANES_N=2;splits=2",
}

// EveryKernel is the planner's choice, each kernel at its defaults and the
// forms; none with a fault.
func EveryKernel() []Kernel {
	names := []string{""}
	for _, name := range wgsl.Kernels() {
		if !strings.HasPrefix(name, "broken/") {
			names = append(names, name)
		}
	}
	var out []Kernel
	for _, name := range append(names, forms...) {
		k, err := ParseKernel(name)
		if err != nil {
			panic(err) // the names are constants; a test parses them
		}
		out = append(out, k)
	}
	return out
}
