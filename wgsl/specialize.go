package wgsl

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The lines that Specialize reads, as patterns of match. (Package regexp would
// be a tenth of the page's program.)
const (
	constDecl   = "const %w: %w = %u;%r"
	constAssert = "const_assert %u;%r"
	alternative = "%s// with %w:%r"
	wgSize      = "@workgroup_size(%u, %u, %u)%r"
	wgVar       = "var<%w> %w: %u;%r"
	binding     = "@group(0) @binding(%w) var<%u>%r"
	loop        = "%sfor (var %w = %w; %w < %u; %w += 1u) { // unroll%r"
)

// match compares a line with a pattern and returns what its verbs stand for, or
// nil: %w a word, %s blanks or nothing, %u what comes before the next character
// of the pattern, and %r the rest.
func match(line, pattern string) []string {
	var found []string
	for len(pattern) > 0 {
		if pattern[0] != '%' {
			if line == "" || line[0] != pattern[0] {
				return nil
			}
			line, pattern = line[1:], pattern[1:]
			continue
		}
		n, least := len(line), 0
		switch pattern[1] {
		case 'w':
			n, least = prefix(line, func(c byte) bool { return isLetter(c) || isDigit(c) }), 1
		case 's':
			n = prefix(line, func(c byte) bool { return c == ' ' })
		case 'u':
			n, least = strings.IndexByte(line, pattern[2]), 1
		}
		if n < least {
			return nil
		}
		found = append(found, line[:n])
		line, pattern = line[n:], pattern[2:]
	}
	if line != "" {
		return nil
	}
	return found
}

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
// stands in for the line before it (before all such lines, where several follow
// each other) where the constant is true: for text that not every compiler
// takes, or whose types would not fit. It returns a *ParamError for a
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
		if m := match(line, constAssert); m != nil {
			ok, err := eval(m[0], v.consts)
			if err != nil {
				return nil, at(err)
			}
			if ok == 0 {
				for _, name := range slices.Sorted(maps.Keys(p)) {
					if p[name] == 0 && strings.Contains(m[0], name) { // what a name leaves out is the reason here
						named = append(named, name+"=0")
					}
				}
				return nil, &ParamError{kernel, m[0], "does not hold for " + strings.Join(named, ",")}
			}
			lines[n] = "// holds: " + m[0]
		} else if line == "enable f16;" {
			v.Features = append(v.Features, "shader-f16")
		} else if m := match(line, binding); m != nil {
			// A binding may be declared again, as another type of the same access.
			switch number, err := strconv.Atoi(m[0]); {
			case err == nil && number == len(v.Bindings):
				v.Bindings = append(v.Bindings, m[1])
			case err != nil || number > len(v.Bindings) || v.Bindings[number] != m[1]:
				return nil, at(fmt.Errorf("binding %s out of order, or declared otherwise before", m[0]))
			}
		} else if m := match(line, wgVar); m != nil && m[0] == "workgroup" {
			size, err := sizeOf(m[2], v.consts)
			if err != nil {
				return nil, at(err)
			}
			if size > 1<<31 {
				return nil, &ParamError{kernel, m[1], fmt.Sprintf("%d bytes of workgroup memory", size)}
			}
			v.WorkgroupBytes += int(size)
		} else if begin := strings.Index(line, "@workgroup_size("); begin >= 0 {
			if m := match(line[begin:], wgSize); m != nil {
				for i := range v.WorkgroupSize {
					var err error
					if v.WorkgroupSize[i], err = eval(m[i], v.consts); err != nil {
						return nil, at(err)
					}
				}
				size := v.WorkgroupSize
				lines[n] = fmt.Sprintf("%s@workgroup_size(%d, %d, %d)%s", line[:begin], size[0], size[1], size[2], m[3])
			}
		}
		lines[n] = foldLengths(lines[n], v.consts)
	}
	numbered := make([]sourceLine, len(lines))
	for n, line := range lines {
		numbered[n] = sourceLine{line, n + 1}
	}
	unrolled, err := unroll(numbered, v.consts, maxLines, false)
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

// foldLengths puts the values of constants in place of the lengths of arrays.
func foldLengths(line string, consts map[string]uint32) string {
	tokens := scan(line)
	inArray := false
	for i, t := range tokens {
		if t.text == "array" {
			inArray = true
		}
		value, ok := consts[t.text]
		length := i >= 2 && tokens[i-2].text == "," && i+1 < len(tokens) && tokens[i+1].text == ">"
		if inArray && ok && length {
			tokens[i].text = strconv.FormatUint(uint64(value), 10)
		}
	}
	var out strings.Builder
	for _, t := range tokens {
		out.WriteString(t.text)
	}
	return out.String()
}

// constants evaluates the module's constants with the tunables in p set, makes
// their declarations literal, and returns their values and name=value of the
// tunables that a variant's name lists.
func constants(kernel string, lines []string, p Params) (consts map[string]uint32, named []string, err error) {
	consts = map[string]uint32{}
	var known []string // tunables
	for n, line := range lines {
		m := match(line, constDecl)
		if m == nil || (m[1] != "u32" && m[1] != "bool") {
			continue
		}
		name, typ, expr, comment := m[0], m[1], m[2], m[3]
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
	base := -1 // the line that the alternatives below it stand in for
	for n, line := range lines {
		m := match(line, alternative)
		if m == nil {
			base = n
			continue
		}
		on, ok := consts[m[1]]
		if !ok || base < 0 {
			return fmt.Errorf("%s.wgsl:%d: no constant %s, or no line before", kernel, n+1, m[1])
		}
		if on != 0 {
			before := lines[base]
			indent := before[:len(before)-len(strings.TrimLeft(before, " "))]
			lines[base] = strings.TrimRight(indent+strings.TrimSpace(m[2]), " ")
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
// or i32, f32, u32, Num4, a vector of four Num, and arrays of these.
func sizeOf(typ string, consts map[string]uint32) (uint64, error) {
	switch typ {
	case "Num", "f32", "u32":
		return 4, nil
	case "Num4":
		return 16, nil
	}
	inner, ok := strings.CutPrefix(strings.TrimSuffix(typ, ">"), "array<")
	comma := strings.LastIndex(inner, ", ")
	if !ok || comma < 0 {
		return 0, fmt.Errorf("size of type %q is not known", typ)
	}
	elem, err := sizeOf(inner[:comma], consts)
	if err != nil {
		return 0, err
	}
	length, err := eval(inner[comma+2:], consts)
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
// Lines of a turn have their indices folded.
func unroll(lines []sourceLine, consts map[string]uint32, max int, turn bool) ([]sourceLine, error) {
	var out []sourceLine
	for n := 0; n < len(lines); n++ {
		m := match(lines[n].text, loop)
		if m == nil {
			if strings.Contains(lines[n].text, "// unroll") {
				return nil, fmt.Errorf("line %d: only a loop that counts up by 1u can be written out", lines[n].line)
			}
			l := lines[n]
			if turn {
				l.text = foldIndices(l.text, consts)
			}
			out = append(out, l)
			continue
		}
		indent, variable, from, bound := m[0], m[1], m[2], m[4]
		cond := strings.TrimPrefix(m[6], " if ")
		fail := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %s", lines[n].line, fmt.Sprintf(format, args...))
		}
		if m[3] != variable || m[5] != variable {
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
		for value := first; value < last; value++ {
			copied := make([]sourceLine, len(body))
			for i, l := range body {
				copied[i] = sourceLine{substitute(l.text, variable, literal("u32", value)), l.line}
			}
			inner, err := unroll(copied, consts, max-len(out), true)
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

// foldIndices puts its value in place of each index that is constant: compilers
// keep an array in registers only if they see that no index is computed, and
// naga 0.13 does not compute any itself.
func foldIndices(line string, consts map[string]uint32) string {
	if !strings.Contains(line, "[") {
		return line
	}
	var out strings.Builder
	for line != "" {
		begin := strings.IndexByte(line, '[') + 1
		end := begin + strings.IndexAny(line[begin:]+"]", "[]")
		if begin == 0 || end >= len(line) {
			break
		}
		index := line[begin:end]
		if value, err := eval(index, consts); err == nil {
			index = literal("u32", value)
		}
		out.WriteString(line[:begin] + index)
		line = line[end:]
	}
	return out.String() + line
}

// substitute puts value in place of the identifier name, comments aside.
func substitute(line, name, value string) string {
	if !strings.Contains(line, name) {
		return line
	}
	var out strings.Builder
	for _, t := range scan(line) {
		if t.kind == ident && t.text == name {
			t.text = value
		}
		out.WriteString(t.text)
	}
	return out.String()
}
