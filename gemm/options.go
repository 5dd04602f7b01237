package gemm

import (
	"fmt"
	"math"

	"github.com/wgemm/wgemm/wgsl"
)

// An Option changes what Multiply computes, or how.
type Option func(*options)

type options struct {
	choice      Choice // Kernel "" for the planner's, with Params over it
	alpha, beta float32
	bias        Operand // nil for none
	act         Activation
	acc         Accumulator
}

func newOptions(set []Option) options {
	o := options{alpha: 1}
	for _, f := range set {
		f(&o)
	}
	return o
}

// WithKernel asks for a kernel of package wgsl by name, with values for its
// tunables, in place of the planner's choice; with the name "" only the tunables
// are in place of the planner's. Those of the element types, the bias and the
// activation follow from the call.
func WithKernel(name string, params wgsl.Params) Option {
	return func(o *options) { o.choice.Kernel, o.choice.Params = name, params }
}

// WithChoice computes as said, in place of the planner's choice.
func WithChoice(c Choice) Option { return func(o *options) { o.choice = c } }

// WithAlpha scales the product: alpha A B. With alpha = 0 neither A nor B is
// read. The default is 1.
func WithAlpha(alpha float32) Option { return func(o *options) { o.alpha = alpha } }

// WithBeta adds beta C, the old C, to the product. With beta = 0, the default, C
// is not read, so that NaN in it does not spread.
func WithBeta(beta float32) Option { return func(o *options) { o.beta = beta } }

// WithBias adds a bias before the activation: an m x n matrix, or a row of n
// elements that is added to every row, or a column of m. Its elements have the
// type of A and B. A batch has one bias, or as many as matrices.
func WithBias(bias Operand) Option { return func(o *options) { o.bias = bias } }

// WithActivation applies a function to each element, after everything else.
func WithActivation(a Activation) Option { return func(o *options) { o.act = a } }

// WithAccumulator says in what the products are summed; the default is AccF32.
// It chooses the kernel: beside a WithKernel that names one it is a
// *wgsl.ParamError, beside one that only sets tunables it is not.
func WithAccumulator(a Accumulator) Option { return func(o *options) { o.acc = a } }

// An Accumulator is what the products of an element of A B are summed in.
type Accumulator uint8

const (
	// AccF32 is binary32: the sum has the error that Product.Check allows.
	AccF32 Accumulator = iota

	// AccF32x2 is a pair of binary32, hi + lo, with twice the digits: on a device
	// the kernel gemm_compensated, in whose file the error bound is; on the CPU
	// path float64, which has more. An element of a binary32 C = A B is then within
	// 2 units in the last place of the exact one, unless cancellation leaves less
	// of |A| |B| than (1028 + k/8) 2^-24 of it; WithAlpha, WithBeta, WithBias and
	// WithActivation each add their own rounding in binary32. Sums of int8 are
	// exact without it: for them it is a *ShapeError.
	AccF32x2
)

// An Activation is a function of one element.
type Activation uint8

// The numbers are those of the tunable ACT in wgsl/parts/operands.wgsl.
const (
	None     Activation = iota
	ReLU                // max(x, 0)
	GELUTanh            // x / 2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
	GELU                // x / 2 (1 + erf(x / sqrt(2)))
	SiLU                // x / (1 + exp(-x))
	Sigmoid             // 1 / (1 + exp(-x))
	Tanh                // tanh(x)
)

var activations = [...]struct {
	name string
	f    func(float64) float64
}{
	None:     {"none", func(x float64) float64 { return x }},
	ReLU:     {"relu", func(x float64) float64 { return max(x, 0) }},
	GELUTanh: {"gelu-tanh", func(x float64) float64 { return x * logistic(2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)) }},
	GELU:     {"gelu", func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }},
	SiLU:     {"silu", func(x float64) float64 { return x * logistic(x) }},
	Sigmoid:  {"sigmoid", logistic},
	Tanh:     {"tanh", math.Tanh},
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func (a Activation) String() string { return activations[a].name }

// Of is the activation of x in float64.
func (a Activation) Of(x float64) float64 { return activations[a].f(x) }

// Activations are the names that ParseActivation takes.
func Activations() []string {
	names := make([]string, len(activations))
	for i, a := range activations {
		names[i] = a.name
	}
	return names
}

// ParseActivation is the activation of a name.
func ParseActivation(name string) (Activation, error) {
	for i, a := range activations {
		if a.name == name {
			return Activation(i), nil
		}
	}
	return None, fmt.Errorf("gemm: no activation %q; there are %v", name, Activations())
}
