package products

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

// maxGrowth is how much the resident set may grow over 4500 products: far more
// than the allocator's noise, far less than one leaked matrix of 16 KiB a
// product.
const maxGrowth = 16 << 20

// Thousands of products, a new engine now and then and hundreds of shapes and
// variants leave neither memory nor handles behind. Not parallel: it measures
// the process.
func TestNothingLeaks(t *testing.T) {
	e := deviceEngine(t)
	a, b := filled[float32](64, 64, small), filled[float32](64, 64, smallB)
	want := multiply(a, b)
	c := gemm.NewMatrix[float32](64, 64, nil)
	product := func() {
		t.Helper()
		if err := e.Multiply(t.Context(), c, a, b); err != nil {
			t.Fatal(err)
		}
	}
	for range 500 {
		product()
	}
	before := resident(t)
	for range 4500 {
		product()
	}
	if grown := resident(t) - before; grown > maxGrowth {
		t.Errorf("4500 products grew the resident set by %d bytes, want at most %d", grown, maxGrowth)
	}
	if !slices.Equal(c.Data, want.Data) {
		t.Error("the last product is wrong")
	}

	for i := range 100 { // more shapes and variants than the engine keeps
		m := filled[float32](i+1, 64, small)
		opts := with(t, "gemm_tiled", "BM="+strconv.Itoa(i%50+1)+",BN=8,BK="+strconv.Itoa(i%7+1)+",TM=1,TN=1")
		if err := e.Multiply(t.Context(), gemm.NewMatrix[float32](i+1, 64, nil), m, b, opts...); err != nil {
			t.Fatal(err)
		}
	}

	shapes := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			m := filled[float32](i+1, 64, small)
			if err := e.Multiply(t.Context(), gemm.NewMatrix[float32](i+1, 64, nil), m, b, with(t, "gemm_naive", "")...); err != nil {
				t.Fatal(err)
			}
		}
	}
	shapes(0, 300) // more than the engine keeps uniforms for
	before = resident(t)
	shapes(300, 600)
	if grown := resident(t) - before; grown > maxGrowth {
		t.Errorf("300 other shapes grew the resident set by %d bytes, want at most %d", grown, maxGrowth)
	}

	openAndClose := func(times int) {
		t.Helper()
		for range times {
			dev := runtimetest.Open(t, open.Driver())
			e := gemm.New(dev)
			if err := e.Multiply(t.Context(), c, a, b); err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	openAndClose(100) // until the allocator has its arenas
	before, files := resident(t), openFiles(t)
	openAndClose(50)
	// A device that is not freed keeps 12 MB.
	if grown := resident(t) - before; grown > 50<<20 {
		t.Errorf("50 engines grew the resident set by %d bytes, want at most 1 MiB each", grown)
	}
	if more := openFiles(t) - files; more > 0 {
		t.Errorf("50 engines left %d files open", more)
	}
}

// resident is the process's resident set in bytes.
func resident(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
