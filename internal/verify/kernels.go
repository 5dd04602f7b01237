package verify

import (
	"strings"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/wgsl"
)

// A Kernel is what computes: a kernel with values for its tunables, or the
// planner's choice.
type Kernel struct {
	Name   string // of package wgsl; "" for the planner's choice
	Params wgsl.Params
	text   string
}

func (k Kernel) String() string { return k.text }

func (k Kernel) options() []gemm.Option {
	if k.Name == "" {
		return nil
	}
	return []gemm.Option{gemm.WithKernel(k.Name, k.Params)}
}

// ParseKernel reads a variant's name such as gemm_tiled/BM=32,BN=32. "" is the
// planner's choice.
func ParseKernel(text string) (Kernel, error) {
	k := Kernel{Name: text, text: text}
	if text == "" {
		return k, nil
	}
	params := ""
	if i := strings.LastIndex(text, "/"); i >= 0 && strings.Contains(text[i:], "=") {
		k.Name, params = text[:i], text[i+1:]
	}
	var err error
	if k.Params, err = wgsl.ParseParams(params); err != nil {
		return k, err
	}
	_, err = wgsl.Specialize(k.Name, k.Params)
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
