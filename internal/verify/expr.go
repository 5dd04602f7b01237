package verify

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// vars are the variables of an expression: row and column of C, inner index,
// matrix of the batch and goroutine, each 0 where it has no meaning.
type vars struct{ i, j, k, p, g int }

// An expr is a generator of testdata/cases.json, such as ((i*7+k*3)%13-6)/4. Its
// operators are + - * / % == <, <= and &&, its functions where(cond, x, y), its
// names i, j, k, p, g, nan and inf; true is any number but 0. / is real division,
// % of whole numbers that are not negative.
type expr func(v vars) float64

func parseExpr(text string) (expr, error) {
	p := &parser{text: strings.ReplaceAll(text, " ", "")}
	e := p.binary(0)
	if p.err == nil && p.text != "" {
		p.err = fmt.Errorf("%q is left", p.text)
	}
	if p.err != nil {
		return nil, fmt.Errorf("verify: expression %q: %w", text, p.err)
	}
	return e, nil
}

type parser struct {
	text string // what is left of it
	err  error
}

// operators are the binary ones by precedence, the weakest first; of those that
// begin alike the longest first.
var operators = [][]string{{"&&"}, {"==", "<=", "<"}, {"+", "-"}, {"*", "/", "%"}}

var apply = map[string]func(x, y float64) float64{
	"&&": func(x, y float64) float64 { return truth(x != 0 && y != 0) },
	"==": func(x, y float64) float64 { return truth(x == y) },
	"<=": func(x, y float64) float64 { return truth(x <= y) },
	"<":  func(x, y float64) float64 { return truth(x < y) },
	"+":  func(x, y float64) float64 { return x + y },
	"-":  func(x, y float64) float64 { return x - y },
	"*":  func(x, y float64) float64 { return x * y },
	"/":  func(x, y float64) float64 { return x / y },
	"%":  math.Mod,
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (p *parser) take(token string) bool {
	rest, ok := strings.CutPrefix(p.text, token)
	p.text = rest
	return ok
}

func (p *parser) binary(level int) expr {
	if level == len(operators) {
		return p.unary()
	}
	left := p.binary(level + 1)
next:
	for _, op := range operators[level] {
		if p.take(op) {
			x, y, f := left, p.binary(level+1), apply[op]
			left = func(v vars) float64 { return f(x(v), y(v)) }
			goto next
		}
	}
	return left
}

func (p *parser) unary() expr {
	if p.take("-") {
		x := p.unary()
		return func(v vars) float64 { return -x(v) }
	}
	if p.take("(") {
		x := p.binary(0)
		p.want(")")
		return x
	}
	if p.take("where(") {
		cond := p.binary(0)
		p.want(",")
		x := p.binary(0)
		p.want(",")
		y := p.binary(0)
		p.want(")")
		return func(v vars) float64 {
			if cond(v) != 0 {
				return x(v)
			}
			return y(v)
		}
	}
	for name, x := range map[string]expr{"nan": constant(math.NaN()), "inf": constant(math.Inf(1))} {
		if p.take(name) {
			return x
		}
	}
	for name, x := range variables {
		if p.take(name) {
			return x
		}
	}
	end := strings.IndexFunc(p.text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(p.text)
	}
	x, err := strconv.ParseFloat(p.text[:end], 64)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("want a number, a name or ( at %q", p.text)
	}
	p.text = p.text[end:]
	return constant(x)
}

var variables = map[string]expr{
	"i": func(v vars) float64 { return float64(v.i) },
	"j": func(v vars) float64 { return float64(v.j) },
	"k": func(v vars) float64 { return float64(v.k) },
	"p": func(v vars) float64 { return float64(v.p) },
	"g": func(v vars) float64 { return float64(v.g) },
}

func constant(x float64) expr { return func(vars) float64 { return x } }

func (p *parser) want(token string) {
	if !p.take(token) && p.err == nil {
		p.err = fmt.Errorf("want %s at %q", token, p.text)
	}
}
