// Package wgsl holds the kernels and specializes them.
//
// Each kernel is a .wgsl file that is valid by itself: a runnable default
// variant. A comment marks the constants that a caller may set:
//
//	const BM: u32 = 64u; // tunable: rows of C per workgroup
//
// Specialize sets them and turns every constant, array length and workgroup
// size into a literal, which is what the strictest WGSL compiler in use (naga
// 0.13, inside wgpu-native 0.17) accepts. The kernels in broken are wrong on
// purpose and never planned; those in passes do a part of a product, and those in
// probes measure a device: Kernels leaves both out.
package wgsl

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.wgsl broken/*.wgsl passes/*.wgsl probes/*.wgsl
var files embed.FS

// Kernels are the names of all kernels, sorted: the path of the file without
// its ending, for example "gemm_tiled" and "broken/gemm_tiled".
func Kernels() []string {
	var names []string
	for _, pattern := range []string{"*.wgsl", "broken/*.wgsl"} {
		paths, err := fs.Glob(files, pattern)
		if err != nil {
			panic(err) // the pattern is a constant
		}
		for _, p := range paths {
			names = append(names, strings.TrimSuffix(p, ".wgsl"))
		}
	}
	slices.Sort(names)
	return names
}

// Source returns the text of a kernel as it stands in its file.
func Source(kernel string) (string, error) {
	text, err := files.ReadFile(kernel + ".wgsl")
	if err != nil {
		return "", &ParamError{Kernel: kernel, Reason: "no such kernel; there are " + strings.Join(Kernels(), ", ")}
	}
	return string(text), nil
}

// HasTunable reports whether a kernel has a tunable of this name.
func HasTunable(kernel, name string) bool {
	text, err := Source(kernel)
	if err != nil {
		return false
	}
	_, rest, found := strings.Cut(text, "\nconst "+name+": ")
	line, _, _ := strings.Cut(rest, "\n")
	return found && strings.Contains(line, "// tunable:")
}

// Params are values for the tunables of a kernel. Booleans are 0 or 1.
type Params map[string]uint32

// ParseParams reads "BM=64,IN_F16=true", the form in which variants are named.
// The empty string has no values.
func ParseParams(s string) (Params, error) {
	p := Params{}
	if s == "" {
		return p, nil
	}
	for field := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(field), "=")
		if !ok || name == "" {
			return nil, &ParamError{Param: field, Reason: "want NAME=VALUE"}
		}
		if _, twice := p[name]; twice {
			return nil, &ParamError{Param: name, Reason: "given twice"}
		}
		switch value {
		case "true":
			p[name] = 1
		case "false":
			p[name] = 0
		default:
			v, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return nil, &ParamError{Param: name, Reason: fmt.Sprintf("%q is not a whole number below 2^32, true or false", value)}
			}
			p[name] = uint32(v)
		}
	}
	return p, nil
}

// With returns a copy of p with the values of q over it.
func (p Params) With(q Params) Params {
	out := maps.Clone(p)
	if out == nil {
		out = Params{}
	}
	maps.Copy(out, q)
	return out
}

// A ParamError reports a variant that a kernel does not have.
type ParamError struct {
	Kernel string // "" when the text was not read that far
	Param  string // the tunable, or the condition that does not hold
	Reason string
}

func (e *ParamError) Error() string {
	s := e.Reason
	if e.Param != "" {
		s = e.Param + ": " + s
	}
	if e.Kernel != "" {
		s = e.Kernel + ": " + s
	}
	return s
}

// A Variant is a kernel with values for all its tunables, ready to compile.
type Variant struct {
	// Name is the kernel and its tunables, in the order of the file; what is 0
	// or off is left out: "gemm_tiled/BM=64,BN=64,BK=16,TM=4,TN=4".
	Name   string
	Kernel string
	Source string // WGSL with literals only

	WorkgroupSize  [3]uint32
	WorkgroupBytes int      // workgroup memory
	Features       []string // of WebGPU, that the device must have: "shader-f16"
	Bindings       []string // address space and access of group 0: "uniform", "storage, read", "storage, read_write"

	consts map[string]uint32
	lines  []int // line of the kernel's file for each line of Source
}

// Const is the folded value of a constant of the kernel, such as BM or a
// derived one; booleans are 0 or 1. ok is false if the kernel has none of that
// name.
func (v *Variant) Const(name string) (value uint32, ok bool) {
	value, ok = v.consts[name]
	return value, ok
}

// FileLine is the line of the kernel's file from which a line of Source came,
// both from 1; 0 for a line that is not there.
func (v *Variant) FileLine(line int) int {
	if line < 1 || line > len(v.lines) {
		return 0
	}
	return v.lines[line-1]
}
