package gemm

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	gpu "github.com/wgemm/wgemm/runtime"
)

// A Class is what products have in common that are computed in the same way:
// their sizes up to a power of two, their types, and how A and B can be read.
// Classes are compared with ==.
type Class struct {
	batch, m, n, k int // rounded up to powers of two
	in, out        DType
	a, b           access
}

func (p problem) class() Class {
	up := func(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
	return Class{up(p.Batch), up(p.M), up(p.N), up(p.K), p.In, p.Out, p.a, p.b}
}

// ClassOf is the class of a shape. It returns a *ShapeError for one that Multiply
// would not take.
func ClassOf(s Shape) (Class, error) {
	p, err := s.problem(newOptions(nil))
	return p.class(), err
}

// strides are the words for an access: along what the stride is 1, and 4 where
// four elements can be read at once.
var strides = map[access]string{
	{noAxis, false}:   "strided",
	{inRow, false}:    "rows",
	{inRow, true}:     "rows4",
	{inColumn, false}: "columns",
	{inColumn, true}:  "columns4",
}

// String is "BATCHxMxNxK IN OUT A B", as "1x64x64x4096 f32 f32 rows4 columns":
// sizes, types, and along what A and B have their stride of 1, with a 4 where four
// elements can be read at once.
func (c Class) String() string {
	return fmt.Sprintf("%dx%dx%dx%d %s %s %s %s", c.batch, c.m, c.n, c.k, c.in, c.out, strides[c.a], strides[c.b])
}

func parseClass(text string) (c Class, ok bool) {
	fields := strings.Split(text, " ")
	if len(fields) != 5 {
		return c, false
	}
	sizes := strings.Split(fields[0], "x")
	if len(sizes) != 4 {
		return c, false
	}
	for i, to := range []*int{&c.batch, &c.m, &c.n, &c.k} {
		n, err := strconv.ParseUint(sizes[i], 10, 32)
		if err != nil || bits.OnesCount64(n) != 1 {
			return c, false
		}
		*to = int(n)
	}
	for i, to := range []*DType{&c.in, &c.out} {
		n := slices.IndexFunc(dtypes[:], func(d dtype) bool { return d.name == fields[1+i] })
		if n < 0 {
			return c, false
		}
		*to = DType(n)
	}
	for i, to := range []*access{&c.a, &c.b} {
		found := false
		for x, name := range strides {
			if name == fields[3+i] {
				*to, found = x, true
			}
		}
		if !found {
			return c, false
		}
	}
	return c, c.String() == text
}

// A Tuning says how products of each class are computed, in place of the planner's
// choice: what was measured on one device. It holds for sums in binary32.
type Tuning map[Class]Choice

// String is the tuning as ParseTuning reads it: a line for each class, sorted, the
// class and, after a tab, the choice.
func (t Tuning) String() string {
	lines := make([]string, 0, len(t))
	for class, c := range t {
		lines = append(lines, class.String()+"\t"+c.String()+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// ParseTuning reads what String writes. Lines that are empty or start with # are
// skipped. It returns an error that names the first line it cannot read.
func ParseTuning(text string) (Tuning, error) {
	t := Tuning{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		left, right, _ := strings.Cut(line, "\t")
		class, ok := parseClass(left)
		if !ok {
			return nil, fmt.Errorf("gemm: tuning, line %d: %q is no class of products", number, left)
		}
		c, err := ParseChoice(right)
		if err != nil {
			return nil, fmt.Errorf("gemm: tuning, line %d: %w", number, err)
		}
		if c.Kernel == "" {
			return nil, fmt.Errorf("gemm: tuning, line %d: no kernel", number)
		}
		if strings.HasPrefix(c.Kernel, "broken/") {
			return nil, fmt.Errorf("gemm: tuning, line %d: %s is wrong on purpose", number, c.Kernel)
		}
		if _, twice := t[class]; twice {
			return nil, fmt.Errorf("gemm: tuning, line %d: %q is there twice", number, left)
		}
		c.Why = "measured as the fastest on this device"
		t[class] = c
	}
	return t, nil
}

// With is a copy of t with u over it.
func (t Tuning) With(u Tuning) Tuning {
	out := maps.Clone(t)
	if out == nil {
		out = Tuning{}
	}
	maps.Copy(out, u)
	return out
}

// plan is the plan as it was measured to be best; false where nothing was, where
// the caller chooses in part, and where the device cannot, as after an update of
// its driver.
func (t Tuning) plan(p problem, o options, a gpu.Adapter) (Plan, bool) {
	if len(t) == 0 || p.Acc != AccF32 || len(o.choice.Params) > 0 {
		return Plan{}, false
	}
	c, ok := t[p.class()]
	if !ok {
		return Plan{}, false
	}
	plan, err := planAs(p, c, a)
	plan.Tuned = true
	return plan, err == nil
}
