package gemm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/wgemm/wgemm/gemm"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/open"
)

// Multiply two matrices on whatever device is there.
func Example() {
	ctx := context.Background()
	engine := gemm.NewCPU()
	if dev, choice, err := open.Device(ctx, ""); err == nil {
		engine = gemm.New(dev)
		log.Println("on", choice.Adapter)
	}
	defer engine.Close()

	a := gemm.NewMatrix(2, 3, []float32{
		1, 2, 3,
		4, 5, 6,
	})
	b := gemm.NewMatrix(3, 2, []float32{
		1, 0,
		0, 1,
		1, 1,
	})
	c := gemm.NewMatrix[float32](2, 2, nil)
	if err := engine.Multiply(ctx, c, a, b); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Data)
	// Output: [4 5 10 11]
}

// Upload weights once and use them in many products; results stay on the
// device until they are wanted.
func ExampleEngine_Upload() {
	ctx := context.Background()
	engine := gemm.NewCPU() // or gemm.New(dev)
	defer engine.Close()

	weights, err := engine.Upload(ctx, gemm.NewMatrix(2, 2, []float32{0, 1, 1, 0}))
	if err != nil {
		log.Fatal(err)
	}
	defer weights.Close()
	hidden, err := engine.NewMatrix(gemm.F32, 1, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer hidden.Close()

	for _, x := range [][]float32{{1, 2}, {3, 4}} {
		y := gemm.NewMatrix[float32](1, 2, nil)
		if err := engine.Multiply(ctx, hidden, gemm.NewMatrix(1, 2, x), weights); err != nil {
			log.Fatal(err)
		}
		if err := engine.Multiply(ctx, y, hidden, weights.Transposed()); err != nil {
			log.Fatal(err)
		}
		fmt.Println(y.Data)
	}
	// Output:
	// [1 2]
	// [3 4]
}

// A view is a part of a larger matrix, and a transposed one costs nothing.
func ExampleMatrix_View() {
	engine := gemm.NewCPU() // or gemm.New(dev)
	defer engine.Close()

	big := gemm.NewMatrix(3, 3, []float32{
		1, 2, 3,
		4, 5, 6,
		7, 8, 9,
	})
	corner := big.View(1, 1, 2, 2)
	c := gemm.NewMatrix[float32](2, 2, nil)
	if err := engine.Multiply(context.Background(), c, corner, corner.Transposed()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Data)
	// Output: [61 94 94 145]
}

// A linear layer: y = gelu(x Wᵀ + bias), for weights that are stored with a row
// for each output.
func ExampleWithBias() {
	engine := gemm.NewCPU() // or gemm.New(dev)
	defer engine.Close()

	x := gemm.NewMatrix(1, 2, []float32{1, 2})
	weights := gemm.NewMatrix(3, 2, []float32{
		1, 0,
		0, 1,
		1, 1,
	})
	bias := gemm.NewMatrix(1, 3, []float32{0, -1, -3})
	y := gemm.NewMatrix[float32](1, 3, nil)
	err := engine.Multiply(context.Background(), y, x, weights.Transposed(),
		gemm.WithBias(bias), gemm.WithActivation(gemm.GELU))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.4f\n", y.Data)
	// Output: [0.8413 0.8413 0.0000]
}

// A sum in which 10^8 cancels, in binary32 and in twice the digits of it.
func ExampleWithAccumulator() {
	engine := gemm.NewCPU() // or gemm.New(dev)
	defer engine.Close()

	a := gemm.NewMatrix(1, 3, []float32{1e8, 1, -1e8})
	b := gemm.NewMatrix(3, 1, []float32{1, 1, 1})
	c := gemm.NewMatrix[float32](1, 1, nil)
	for _, acc := range []gemm.Accumulator{gemm.AccF32, gemm.AccF32x2} {
		if err := engine.Multiply(context.Background(), c, a, b, gemm.WithAccumulator(acc)); err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.Data)
	}
	// Output:
	// [0]
	// [1]
}

// A batch of matrices times one matrix, added to what C held.
func ExampleNewBatch() {
	engine := gemm.NewCPU() // or gemm.New(dev)
	defer engine.Close()

	a := gemm.NewBatch(2, 1, 2, []float32{
		1, 2, // first
		3, 4, // second
	})
	b := gemm.NewMatrix(2, 1, []float32{1, 10})
	c := gemm.NewBatch(2, 1, 1, []float32{100, 200})
	if err := engine.Multiply(context.Background(), c, a, b, gemm.WithBeta(1)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Data)
	// Output: [121 243]
}

// Plan a product for a device that is not here, as it was measured to be best
// there; engines take the same with SetTuning.
func ExamplePlanFor() {
	tuning, err := gemm.ParseTuning("1x1024x1024x1024 f32 f32 rows4 rows4\tgemm_block/BM=64,BN=64,TM=4,TN=4;splits=2\n")
	if err != nil {
		log.Fatal(err)
	}
	there := gpu.Adapter{Type: gpu.DiscreteGPU, Limits: gpu.DefaultLimits()}
	p, err := gemm.PlanFor(gemm.Shape{M: 1000, N: 600, K: 800}, there, tuning)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Choice, p.Tuned)
	fmt.Println(p.Grid, p.Flops(), p.Bytes())
	// Output:
	// gemm_block/BM=64,BN=64,TM=4,TN=4;splits=2 true
	// [10 16 2] 9.6e+08 7.52e+06
}
