package wgsl

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	constDecl   = regexp.MustCompile(`^const (\w+): (u32|bool) = ([^;]+);(.*)$`)
	constAssert = regexp.MustCompile(`^const_assert ([^;]+);`)
	alternative = regexp.MustCompile(`^\s*// with (\w+):(.*)$`)
	wgSize      = regexp.MustCompile(`@workgroup_size\(([^,()]+), ([^,()]+), ([^,()]+)\)`)
	wgVar       = regexp.MustCompile(`^var<(?:workgroup)> (\w+): (.+?);`)
	binding     = regexp.MustCompile(`^@group\(0\) @binding\((\d+)\) var<([^>]+)>`)
	arrayType   = regexp.MustCompile(`^array<(.+), (\w+)>$`)
	loop        = regexp.MustCompile(`^(\s*)for \(var (\w+) = (\w+); (\w+) < (\w+); (\w+) \+= 1u\) \{ // unroll(?: if (\w+))?$`)
	arrayLength = regexp.MustCompile(`(array<[\w<>]+, )(\w+)>`)
)

// maxLines bounds the text that unrolling makes. No kernel comes near it; a
// tile of a thousand elements would.
const maxLines = 1 << 14

// Specialize returns a kernel with the tunables in p set and the others at
// their defaults. Every module constant, array length and workgroup size
// becomes a literal, the conditions of the file's const_asserts are checked
// here (the statements become comments), and loops marked
//
//	for (var i = 0u; i < TM; i += 1u) { // unroll if UNROLL
//
// are written out where the switch is on. A line
//
//	// with NATIVE_F16: enable f16;
//
// stands in for the line before it where the constant is true: for text that
// not every compiler takes, or whose types would not fit. It returns a *ParamError for a
// kernel or tunable that does not exist, or values that do not go together.
func Specialize(kernel string, p Params) (*Variant, error) {
	src, err := Source(kernel)
	if err != nil {
		return nil, err
	}
	return specialize(kernel, src, p)
}

func specialize(kernel, src string, p Params) (*Variant, error) {
	v := &Variant{Kernel: kernel}
	lines := strings.Split(strings.TrimSuffix(src, "\n"), "\n")
	consts, named, err := constants(kernel, lines, p)
	if err != nil {
		return nil, err
	}
	v.consts = consts
	if err := replaceAlternatives(kernel, lines, consts); err != nil {
		return nil, err
	}
	for n, line := range lines {
		at := func(err error) error { return fmt.Errorf("%s.wgsl:%d: %w", kernel, n+1, err) }
		if m := constAssert.FindStringSubmatch(line); m != nil {
			ok, err := eval(m[1], v.consts)
			if err != nil {
				return nil, at(err)
			}
			if ok == 0 {
				return nil, &ParamError{kernel, m[1], "does not hold for " + strings.Join(named, ",")}
			}
			lines[n] = "// holds: " + m[1]
		} else if line == "enable f16;" {
			v.Features = append(v.Features, "shader-f16")
		} else if m := binding.FindStringSubmatch(line); m != nil {
			if m[1] != strconv.Itoa(len(v.Bindings)) {
				return nil, at(fmt.Errorf("binding %s out of order", m[1]))
			}
			v.Bindings = append(v.Bindings, m[2])
		} else if m := wgVar.FindStringSubmatch(line); m != nil {
			size, err := sizeOf(m[2], v.consts)
			if err != nil {
				return nil, at(err)
			}
			if size > 1<<31 {
				return nil, &ParamError{kernel, m[1], fmt.Sprintf("%d bytes of workgroup memory", size)}
			}
			v.WorkgroupBytes += int(size)
		} else if m := wgSize.FindStringSubmatch(line); m != nil {
			for i := range v.WorkgroupSize {
				var err error
				if v.WorkgroupSize[i], err = eval(m[i+1], v.consts); err != nil {
					return nil, at(err)
				}
			}
			size := fmt.Sprintf("@workgroup_size(%d, %d, %d)", v.WorkgroupSize[0], v.WorkgroupSize[1], v.WorkgroupSize[2])
			lines[n] = strings.Replace(line, m[0], size, 1)
		}
		lines[n] = arrayLength.ReplaceAllStringFunc(lines[n], func(s string) string {
			m := arrayLength.FindStringSubmatch(s)
			if value, ok := v.consts[m[2]]; ok {
				return fmt.Sprintf("%s%d>", m[1], value)
			}
			return s
		})
	}
	numbered := make([]sourceLine, len(lines))
	for n, line := range lines {
		numbered[n] = sourceLine{line, n + 1}
	}
	unrolled, err := unroll(numbered, v.consts, maxLines)
	if err != nil {
		return nil, &ParamError{Kernel: kernel, Reason: err.Error()}
	}
	var text strings.Builder
	for _, l := range unrolled {
		text.WriteString(l.text + "\n")
		v.lines = append(v.lines, l.line)
	}
	v.Source = text.String()
	v.Name = kernel + "/" + strings.Join(named, ",")
	return v, nil
}

// constants evaluates the module's constants with the tunables in p set, makes
// their declarations literal, and returns their values and name=value of the
// tunables that a variant's name lists.
func constants(kernel string, lines []string, p Params) (consts map[string]uint32, named []string, err error) {
	consts = map[string]uint32{}
	var known []string // tunables
	for n, line := range lines {
		m := constDecl.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name, typ, expr, comment := m[1], m[2], m[3], m[4]
		value, err := eval(expr, consts)
		set, given := p[name]
		tunable := strings.HasPrefix(comment, " // tunable:")
		switch {
		case tunable && given && typ == "bool" && set > 1:
			return nil, nil, &ParamError{kernel, name, fmt.Sprintf("%d is neither true nor false", set)}
		case tunable && given:
			value = set
		case err != nil && tunable:
			return nil, nil, fmt.Errorf("%s.wgsl:%d: %w", kernel, n+1, err)
		case err != nil: // a derived constant: values that do not go together
			return nil, nil, &ParamError{kernel, name, err.Error()}
		}
		if tunable {
			known = append(known, name)
			if value != 0 {
				named = append(named, name+"="+strings.TrimSuffix(literal(typ, value), "u"))
			}
		}
		consts[name] = value
		lines[n] = fmt.Sprintf("const %s: %s = %s;%s", name, typ, literal(typ, value), comment)
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if !slices.Contains(known, name) {
			return nil, nil, &ParamError{kernel, name, "no such tunable; there are " + strings.Join(known, ", ")}
		}
	}
	return consts, named, nil
}

// replaceAlternatives puts the text of alternatives whose constant is true in
// place of the lines before them.
func replaceAlternatives(kernel string, lines []string, consts map[string]uint32) error {
	for n, line := range lines {
		m := alternative.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		on, ok := consts[m[1]]
		if !ok || n == 0 {
			return fmt.Errorf("%s.wgsl:%d: no constant %s, or no line before", kernel, n+1, m[1])
		}
		if on != 0 {
			before := lines[n-1]
			indent := before[:len(before)-len(strings.TrimLeft(before, " "))]
			lines[n-1] = strings.TrimRight(indent+strings.TrimSpace(m[2]), " ")
		}
	}
	return nil
}

func literal(typ string, value uint32) string {
	if typ == "bool" {
		return strconv.FormatBool(value != 0)
	}
	return strconv.FormatUint(uint64(value), 10) + "u"
}

// sizeOf is the size in bytes of a type of workgroup memory: Num, which is f32
// or i32, f32, u32, vec4<f32>, and arrays of these.
func sizeOf(typ string, consts map[string]uint32) (uint64, error) {
	switch typ {
	case "Num", "f32", "u32":
		return 4, nil
	case "vec4<f32>":
		return 16, nil
	}
	m := arrayType.FindStringSubmatch(typ)
	if m == nil {
		return 0, fmt.Errorf("size of type %q is not known", typ)
	}
	elem, err := sizeOf(m[1], consts)
	if err != nil {
		return 0, err
	}
	length, err := eval(m[2], consts)
	if err != nil {
		return 0, err
	}
	if elem > 1<<31 { // more than any device has; and the product stays below 2^64
		return elem, nil
	}
	return elem * uint64(length), nil
}

// A sourceLine is a line of text and its number in the kernel's file.
type sourceLine struct {
	text string
	line int
}

// unroll writes out the marked loops whose switch is on, inner ones too. Each
// turn becomes a block of its own, in which the loop's variable is a literal.
func unroll(lines []sourceLine, consts map[string]uint32, max int) ([]sourceLine, error) {
	var out []sourceLine
	for n := 0; n < len(lines); n++ {
		m := loop.FindStringSubmatch(lines[n].text)
		if m == nil {
			out = append(out, lines[n])
			continue
		}
		indent, variable, from, bound, cond := m[1], m[2], m[3], m[5], m[7]
		fail := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %s", lines[n].line, fmt.Sprintf(format, args...))
		}
		if m[4] != variable || m[6] != variable {
			return nil, fail("the loop tests and counts other variables than %s", variable)
		}
		first, err := eval(from, consts)
		if err != nil {
			return nil, fail("%v", err)
		}
		last, err := eval(bound, consts)
		if err != nil {
			return nil, fail("%v", err)
		}
		length := slices.IndexFunc(lines[n:], func(l sourceLine) bool { return l.text == indent+"}" })
		if length < 0 {
			return nil, fail("the loop has no closing brace of its own indentation")
		}
		if cond != "" && consts[cond] == 0 {
			out = append(out, sourceLine{strings.TrimSuffix(lines[n].text, " // unroll if "+cond), lines[n].line})
			continue
		}
		body := lines[n+1 : n+length]
		for turn := first; turn < last; turn++ {
			copied := make([]sourceLine, len(body))
			for i, l := range body {
				copied[i] = sourceLine{substitute(l.text, variable, literal("u32", turn)), l.line}
			}
			inner, err := unroll(copied, consts, max-len(out))
			if err != nil {
				return nil, err
			}
			out = append(out, sourceLine{indent + "{", lines[n].line})
			out = append(out, inner...)
			out = append(out, sourceLine{indent + "}", body[len(body)-1].line + 1})
			if len(out) > max {
				return nil, fmt.Errorf("unrolls to more than %d lines", maxLines)
			}
		}
		n += length
	}
	return out, nil
}

// substitute puts value in place of the identifier name, comments aside.
func substitute(line, name, value string) string {
	var out strings.Builder
	for _, t := range scan(line) {
		if t.kind == ident && t.text == name {
			t.text = value
		}
		out.WriteString(t.text)
	}
	return out.String()
}
