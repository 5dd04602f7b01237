// Package products tests the products of every kernel on the driver of this build
// and on the CPU path.
package products

import (
	"errors"
	"math/rand/v2"
	goruntime "runtime"
	"testing"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

// onEngines runs a test on this build's driver and, in native builds, on the CPU
// path, which is the same Go in a js/wasm build but slow on its one thread.
// Without an adapter the driver's part is skipped, or fails where WGEMM_REQUIRE
// names it.
func onEngines(t *testing.T, test func(t *testing.T, e *gemm.Engine)) {
	if goruntime.GOARCH != "wasm" {
		t.Run("cpu", func(t *testing.T) {
			t.Parallel()
			test(t, gemm.NewCPU())
		})
	}
	t.Run(open.Driver().Name(), func(t *testing.T) {
		t.Parallel()
		test(t, deviceEngine(t))
	})
}

func deviceEngine(t testing.TB) *gemm.Engine {
	t.Helper()
	dev := runtimetest.Open(t, open.Driver())
	e := gemm.New(dev)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	return e
}

type variant struct {
	name, kernel, choice string // the kernel, and what of its choice follows the slash
	tile                 [3]int // BM, BN, BK, from which shapes are made; BK of a kernel without slices is 8
	few                  bool   // one of the few that stand for all: one for each kernel
}

// variants are the forms in which a kernel is run: each kernel, small and
// large tiles, tiles that are not square, rolled and unrolled.
var variants = []variant{
	{"planned", "", "", [3]int{64, 64, 16}, true},
	{"naive", "gemm_naive", "", [3]int{16, 16, 8}, true},
	{"naive wide", "gemm_naive", "BM=2,BN=64", [3]int{2, 64, 8}, false},
	{"tiled", "gemm_tiled", "", [3]int{64, 64, 16}, false},
	{"chapter", "gemm_tiled", "BM=4,BN=4,BK=4,TM=1,TN=1", [3]int{4, 4, 4}, true},
	{"one", "gemm_tiled", "BM=1,BN=1,BK=1,TM=1,TN=1", [3]int{1, 1, 1}, false},
	{"odd", "gemm_tiled", "BM=6,BN=15,BK=7,TM=2,TN=5,UNROLL=true", [3]int{6, 15, 7}, false},
	{"unrolled", "gemm_tiled", "BM=16,BN=32,BK=4,TM=2,TN=4,UNROLL=true", [3]int{16, 32, 4}, false},
	{"block", "gemm_block", "BM=32,BN=16,BK=4,TM=4,TN=4,UNROLL=false", [3]int{32, 16, 4}, false},
	{"block in parts", "gemm_block", "BM=32,BN=16,BK=8,TM=4,TN=4,LANES_K=2,UNROLL=false;splits=3;pack", [3]int{32, 16, 8}, true},
	{"block with edges", "gemm_block", "BM=32,BN=16,BK=4,TM=4,TN=4,UNROLL=false;pack;edges", [3]int{32, 16, 4}, false},
	{"skinny", "gemm_skinny", "BM=4,LANES_N=4,LANES_K=2,UNROLL=false;transposed", [3]int{16, 4, 8}, true},
	{"skinny in parts", "gemm_skinny", "BM=2,LANES_N=4,LANES_K=2;splits=2", [3]int{2, 16, 8}, false},
	{"direct", "gemm_direct", "TM=4,TN=4,LANES_N=2,UNROLL=false", [3]int{4, 8, 4}, true},
	{"direct in parts", "gemm_direct", "TM=4,TN=4,LANES_N=2;splits=4;pack", [3]int{4, 8, 4}, false},
	{"native f16", "gemm_tiled", "BM=8,BN=8,BK=8,TM=2,TN=4,NATIVE_F16=true", [3]int{8, 8, 8}, true},
	{"native f16 naive", "gemm_naive", "NATIVE_F16=true", [3]int{16, 16, 8}, false},
	{"faultless", "broken/gemm_tiled", "BM=8,BN=4,BK=4", [3]int{8, 4, 4}, false},
	{"compensated", "gemm_compensated", "", [3]int{32, 32, 32}, false},
}

// eachVariant runs a test on every variant that the engine's device has the
// features for; in a js/wasm build, where the same kernels go through another
// compiler, on the few that stand for all; with -short, for slow adapters, on
// those of these that have tiles and are not the planned one, which takes long to
// compile.
func eachVariant(t *testing.T, e *gemm.Engine, test func(t *testing.T, v variant, opts []gemm.Option)) {
	one := gemm.NewMatrix[float16.Float16](1, 1, nil)
	for _, v := range variants {
		slow := v.kernel == "" || v.kernel == "gemm_naive"
		if (testing.Short() || goruntime.GOARCH == "wasm") && !v.few || testing.Short() && slow {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			opts := with(t, v.kernel, v.choice)
			if _, err := e.Plan(one, one, one, opts...); errors.Is(err, gpu.ErrUnsupported) {
				runtimetest.Skip(t, "shader-f16", err.Error())
			}
			test(t, v, opts)
		})
	}
}

// with is the option for a variant; the planner's choice for no kernel.
func with(t testing.TB, kernel, params string) []gemm.Option {
	t.Helper()
	if kernel == "" {
		return nil
	}
	if params != "" {
		kernel += "/" + params
	}
	c, err := gemm.ParseChoice(kernel)
	if err != nil {
		t.Fatal(err)
	}
	return []gemm.Option{gemm.WithChoice(c)}
}

const seed = 1

func newRand() *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// element makes a T of a number.
func element[T gemm.Element](v float64) T {
	switch p := any(new(T)).(type) {
	case *float32:
		*p = float32(v)
		return any(*p).(T)
	case *float16.Float16:
		*p = float16.Fromfloat32(float32(v))
		return any(*p).(T)
	case *gemm.BFloat16:
		*p = gemm.ToBFloat16(float32(v))
		return any(*p).(T)
	case *int8:
		*p = int8(v)
		return any(*p).(T)
	case *int32:
		*p = int32(v)
		return any(*p).(T)
	}
	panic("not an element")
}

// number is the reverse.
func number[T gemm.Element](v T) float64 {
	switch v := any(v).(type) {
	case float32:
		return float64(v)
	case float16.Float16:
		return float64(v.Float32())
	case gemm.BFloat16:
		return float64(v.Float32())
	case int8:
		return float64(v)
	case int32:
		return float64(v)
	}
	panic("not an element")
}

// filled is a dense rows x cols matrix with the values of f.
func filled[T gemm.Element](rows, cols int, f func(i, j int) float64) gemm.Matrix[T] {
	m := gemm.NewMatrix[T](rows, cols, nil)
	for i := range rows {
		for j := range cols {
			m.Data[i*cols+j] = element[T](f(i, j))
		}
	}
	return m
}
