package wgsl

import (
	"fmt"
	"strconv"
	"strings"
)

// A token is a piece of WGSL text: an identifier, a number, an operator, or a
// run of white space or comment.
type token struct {
	text string
	kind tokenKind
}

type tokenKind uint8

const (
	space tokenKind = iota // white space and line comments
	ident
	number
	punct
)

// scan splits one line of WGSL into tokens; together they are the line. Block
// comments are not among what the kernels use.
func scan(line string) []token {
	var out []token
	for len(line) > 0 {
		n, kind := 1, punct
		switch c := line[0]; {
		case strings.HasPrefix(line, "//"):
			n, kind = len(line), space
		case c == ' ' || c == '\t' || c == '\r':
			n, kind = prefix(line, func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }), space
		case isLetter(c):
			n, kind = prefix(line, func(c byte) bool { return isLetter(c) || isDigit(c) }), ident
		case isDigit(c):
			n, kind = prefix(line, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' }), number
		default:
			for _, op := range []string{"==", "!=", "<=", ">=", "&&", "||", "+=", "->"} {
				if strings.HasPrefix(line, op) {
					n = len(op)
				}
			}
		}
		out = append(out, token{line[:n], kind})
		line = line[n:]
	}
	return out
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

func prefix(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

// eval computes a constant u32 or bool expression; booleans are 0 or 1.
// Arithmetic that does not fit 32 bits is an error, as it is in WGSL.
func eval(expr string, env map[string]uint32) (uint32, error) {
	e := evaluator{env: env}
	for _, t := range scan(expr) {
		if t.kind != space {
			e.tokens = append(e.tokens, t)
		}
	}
	v := e.binary(0)
	if e.err == nil && len(e.tokens) > 0 {
		e.fail("unexpected %q", e.tokens[0].text)
	}
	if e.err != nil {
		return 0, fmt.Errorf("constant expression %q: %w", strings.TrimSpace(expr), e.err)
	}
	return v, nil
}

// An evaluator is a recursive-descent parser that computes as it goes.
type evaluator struct {
	tokens []token
	env    map[string]uint32
	err    error // the first
	depth  int
}

// maxDepth bounds the nesting of parentheses, far above what a kernel needs.
const maxDepth = 100

// precedence lists the binary operators from the loosest to the tightest; each
// level is left-associative.
var precedence = [][]string{{"||"}, {"&&"}, {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}}

func (e *evaluator) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

func (e *evaluator) next() token {
	if len(e.tokens) == 0 {
		e.fail("ends early")
		return token{}
	}
	t := e.tokens[0]
	e.tokens = e.tokens[1:]
	return t
}

func (e *evaluator) binary(level int) uint32 {
	if level == len(precedence) {
		return e.operand()
	}
	x := e.binary(level + 1)
	for e.err == nil && len(e.tokens) > 0 {
		op := e.tokens[0].text
		found := false
		for _, o := range precedence[level] {
			found = found || o == op
		}
		if !found {
			break
		}
		e.next()
		x = e.apply(op, x, e.binary(level+1))
	}
	return x
}

func (e *evaluator) operand() uint32 {
	if e.depth++; e.depth > maxDepth {
		e.fail("nested too deeply")
	}
	defer func() { e.depth-- }()
	if e.err != nil {
		return 0
	}
	switch t := e.next(); {
	case t.text == "(":
		v := e.binary(0)
		if e.next().text != ")" {
			e.fail("missing )")
		}
		return v
	case t.text == "u32": // of a bool, which is 0 or 1 already
		if e.next().text != "(" {
			e.fail("missing (")
		}
		v := e.binary(0)
		if e.next().text != ")" {
			e.fail("missing )")
		}
		return v
	case t.text == "true":
		return 1
	case t.text == "false":
		return 0
	case t.kind == number:
		v, err := strconv.ParseUint(strings.TrimSuffix(t.text, "u"), 0, 32)
		if err != nil {
			e.fail("%q is not a u32", t.text)
		}
		return uint32(v)
	case t.kind == ident:
		v, ok := e.env[t.text]
		if !ok {
			e.fail("unknown name %q", t.text)
		}
		return v
	default:
		e.fail("unexpected %q", t.text)
		return 0
	}
}

func (e *evaluator) apply(op string, x, y uint32) uint32 {
	truth := func(b bool) uint32 {
		if b {
			return 1
		}
		return 0
	}
	wide := uint64(0)
	switch op {
	case "||":
		return truth(x != 0 || y != 0)
	case "&&":
		return truth(x != 0 && y != 0)
	case "==":
		return truth(x == y)
	case "!=":
		return truth(x != y)
	case "<=":
		return truth(x <= y)
	case ">=":
		return truth(x >= y)
	case "<":
		return truth(x < y)
	case ">":
		return truth(x > y)
	case "+":
		wide = uint64(x) + uint64(y)
	case "-":
		wide = uint64(x) - uint64(y)
	case "*":
		wide = uint64(x) * uint64(y)
	case "/", "%":
		switch {
		case y == 0:
			e.fail("%d %s 0", x, op)
		case op == "/":
			wide = uint64(x / y)
		default:
			wide = uint64(x % y)
		}
	}
	if wide > 1<<32-1 {
		e.fail("%d %s %d does not fit 32 bits", x, op, y)
	}
	return uint32(wide)
}
