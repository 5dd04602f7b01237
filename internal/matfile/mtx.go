package matfile

// The format: https://math.nist.gov/MatrixMarket/formats.html and Boisvert,
// Pozo and Remington, "The Matrix Market Exchange Formats: Initial Design",
// NISTIR 5935.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	mtxBanner = "%%MatrixMarket"

	// maxDense bounds the elements of a file of coordinates, which states its
	// shape in a few bytes.
	maxDense = 1 << 31

	// maxLine bounds a line in bytes; the format allows 1024.
	maxLine = 64 << 10
)

// mtxLayout is the header of an .mtx file.
type mtxLayout struct {
	coordinate      bool // a line is an entry with its indices, or else a value, column after column
	pattern         bool // entries without values, which are 1
	integer         bool
	symmetric, skew bool // only the lower triangle is in the file
	rows, cols      int
	entries         int // lines behind the header
}

// readMTXHead reads the text for the first time, to check all of it.
func (f *File) readMTXHead(src source, size int64) error {
	f.text, f.DType = src, textDType
	in := &mtxLines{in: bufio.NewReaderSize(src, maxLine)}
	l, err := f.readMTXSizes(in)
	if err != nil {
		return err
	}
	if err := f.setShape([]int{l.rows, l.cols}); err != nil {
		return err
	}
	if l.coordinate && int64(f.count()) > maxDense {
		return f.refuse(fmt.Sprintf("coordinates in %dx%d, dense %d elements", l.rows, l.cols, f.count()), fmt.Sprintf("at most %d (2^31)", int64(maxDense)))
	}
	// Before the entries are read: the last line may have no end.
	least := int64(len("1\n"))
	if l.coordinate {
		least = int64(len("1 1 1\n"))
		if l.pattern {
			least = int64(len("1 1\n"))
		}
	}
	if rest := size - in.taken; int64(l.entries) > (rest+1)/least {
		return f.refuse(fmt.Sprintf("%d entries in the header, %d bytes behind it", l.entries, rest), fmt.Sprintf("at least %d bytes for each", least))
	}
	f.mtx = l
	return f.readMTXEntries(in, l, "", func(_, _ int, value string) error {
		if l.integer && !isInteger(value) {
			return strconv.ErrSyntax
		}
		_, err := parseFloat(value, 32)
		return err
	})
}

// readMTX reads the text again, into the values.
func readMTX[T element](f *File, as conversion[T]) ([]T, error) {
	l := f.mtx
	again := func(visit func(i, j int, value string) error) error {
		if _, err := f.text.Seek(0, io.SeekStart); err != nil {
			return f.failed(err)
		}
		in := &mtxLines{in: bufio.NewReaderSize(f.text, maxLine)}
		switch now, err := f.readMTXSizes(in); {
		case err != nil:
			return err
		case now != l:
			return f.refuseChange()
		}
		return f.readMTXEntries(in, l, as.want, visit)
	}
	values := make([]T, l.rows*l.cols)
	set := func(i, j int, v T) error {
		values[i*l.cols+j] = v
		if i == j || !l.symmetric && !l.skew {
			return nil
		}
		if l.skew {
			negative, ok := as.negate(v)
			if !ok {
				return f.refuse(fmt.Sprintf("%v at %s, counted from 0, of the other sign above", v, f.place(0, i, j)), as.want)
			}
			v = negative
		}
		values[j*l.cols+i] = v
		return nil
	}
	// A number beyond the range is ±Inf, which the first reading has let pass.
	parse := func(i, j int, value string) error {
		v, err := as.parse(value)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return err
		}
		return set(i, j, v)
	}
	if !l.coordinate {
		if err := again(parse); err != nil {
			return nil, err
		}
		return values, nil
	}

	// A value is rounded once where it is alone in its cell. So the cells with
	// several are found first: the sums, which are rarely any, are in float64.
	seen := make([]uint64, (len(values)+63)/64)
	sums := map[int]float64{}
	err := again(func(i, j int, _ string) error {
		at := i*l.cols + j
		if bit := uint64(1) << (at % 64); seen[at/64]&bit == 0 {
			seen[at/64] |= bit
		} else {
			sums[at] = 0
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = again(func(i, j int, value string) error {
		at := i*l.cols + j
		if sum, ok := sums[at]; ok {
			v, err := parseFloat(value, 64)
			sums[at] = sum + v
			return err
		}
		return parse(i, j, value)
	})
	if err != nil {
		return nil, err
	}
	for _, at := range slices.Sorted(maps.Keys(sums)) {
		i, j := at/l.cols, at%l.cols
		v, ok := as.round(sums[at])
		if !ok {
			return nil, f.refuseValue(sums[at], f.place(0, i, j), as.want)
		}
		if err := set(i, j, v); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// readMTXSizes reads the first line, comments and the line of sizes.
func (f *File) readMTXSizes(in *mtxLines) (l mtxLayout, err error) {
	line, err := in.next()
	if err != nil && err != io.EOF {
		return l, f.mtxError(in, err)
	}
	words := strings.Fields(strings.ToLower(string(line)))
	if in.line != 1 || len(words) == 0 || words[0] != strings.ToLower(mtxBanner) {
		return l, f.refuse(fmt.Sprintf("line %d: %q", max(in.line, 1), clip(string(line))), mtxBanner+" in the first line")
	}
	if len(words) != 5 {
		return l, f.refuse(fmt.Sprintf("line 1: %d words", len(words)), mtxBanner+" and 4 more, as in matrix coordinate real general")
	}
	object, layout, field, symmetry := words[1], words[2], words[3], words[4]
	reject := func(kind, word, want string) (mtxLayout, error) {
		return l, f.refuse(fmt.Sprintf("%s %q", kind, clip(word)), want)
	}
	if object != "matrix" {
		return reject("object", object, "matrix")
	}
	switch layout {
	case "array":
	case "coordinate":
		l.coordinate = true
	default:
		return reject("format", layout, "array or coordinate")
	}
	switch field {
	case "real":
	case "integer":
		l.integer = true
	case "pattern":
		l.pattern = true
	default:
		return reject("values of type", field, "real, integer or pattern")
	}
	switch symmetry {
	case "general":
	case "symmetric":
		l.symmetric = true
	case "skew-symmetric":
		l.skew = true
	default:
		return reject("symmetry", symmetry, "general, symmetric or skew-symmetric")
	}
	if l.pattern && (!l.coordinate || l.skew) {
		return l, f.refuse(fmt.Sprintf("%s pattern %s", layout, symmetry), "a pattern of coordinates, general or symmetric")
	}

	for line, err = in.next(); err == nil && line[0] == '%'; line, err = in.next() {
	}
	if err != nil && err != io.EOF {
		return l, f.mtxError(in, err)
	}
	sizes := []*int{&l.rows, &l.cols, &l.entries}
	want := "rows, columns and entries"
	if !l.coordinate {
		sizes, want = sizes[:2], "rows and columns"
	}
	rest := line
	for _, size := range sizes {
		var word []byte
		var ok bool
		word, rest = cutWord(rest)
		if *size, ok = wholeNumber(word); !ok {
			return l, f.refuse(fmt.Sprintf("line %d: %q", in.line, clip(string(line))), want+", each below 2^63")
		}
	}
	if len(rest) > 0 {
		return l, f.refuse(fmt.Sprintf("line %d: %q", in.line, clip(string(line))), want)
	}
	if (l.symmetric || l.skew) && l.rows != l.cols {
		return l, f.refuse(fmt.Sprintf("a %s matrix of %dx%d", symmetry, l.rows, l.cols), "as many rows as columns")
	}
	if !countable(1, l.rows, l.cols) {
		return l, f.refuse("shape "+shapeText([]int{l.rows, l.cols}), "one whose size in bytes can be counted")
	}
	if !l.coordinate {
		l.entries = l.rows * l.cols
		if l.symmetric {
			l.entries = (l.entries + l.rows) / 2
		}
		if l.skew {
			l.entries = (l.entries - l.rows) / 2
		}
	}
	return l, nil
}

// readMTXEntries hands every entry to visit, with indices from 0. Want says
// what visit takes if it reports errNoElement.
func (f *File) readMTXEntries(in *mtxLines, l mtxLayout, want string, visit func(i, j int, value string) error) error {
	top := func(j int) int { // first row in the file of column j
		switch {
		case l.symmetric:
			return j
		case l.skew:
			return j + 1
		}
		return 0
	}
	i, j := top(0), 0
	for done := 0; ; done++ {
		line, err := in.next()
		if err == io.EOF {
			if done < l.entries {
				return f.refuse(fmt.Sprintf("%d entries", done), fmt.Sprintf("%d, as its header says", l.entries))
			}
			return nil
		}
		if err != nil {
			return f.mtxError(in, err)
		}
		if done == l.entries {
			return f.refuse(fmt.Sprintf("line %d: more entries", in.line), fmt.Sprintf("%d, as its header says", l.entries))
		}
		rest := line
		if l.coordinate {
			var row, col []byte
			row, rest = cutWord(rest)
			col, rest = cutWord(rest)
			var okRow, okCol bool
			i, okRow = wholeNumber(row)
			j, okCol = wholeNumber(col)
			if !okRow || !okCol || i < 1 || j < 1 || i > l.rows || j > l.cols {
				return f.refuse(fmt.Sprintf("line %d: indices %q and %q", in.line, clip(string(row)), clip(string(col))), fmt.Sprintf("1 to %d and 1 to %d", l.rows, l.cols))
			}
			i, j = i-1, j-1
			if i < top(j) {
				return f.refuse(fmt.Sprintf("line %d: row %d of column %d", in.line, i+1, j+1), fmt.Sprintf("row %d or below: the other triangle follows from it", top(j)+1))
			}
		}
		value := []byte("1")
		if !l.pattern {
			value, rest = cutWord(rest)
		}
		if len(rest) > 0 || len(value) == 0 {
			return f.refuse(fmt.Sprintf("line %d: %q", in.line, clip(string(line))), l.lineText())
		}
		switch err := visit(i, j, string(value)); {
		case errors.Is(err, strconv.ErrSyntax) && l.integer:
			return f.refuse(fmt.Sprintf("line %d: %q is not a whole number", in.line, clip(string(value))), "whole numbers, as its header says")
		case errors.Is(err, strconv.ErrSyntax):
			return f.refuse(fmt.Sprintf("line %d: %q is not a number", in.line, clip(string(value))), "a number such as -1.5 or 1e-3")
		case errors.Is(err, errNoElement):
			return f.refuse(fmt.Sprintf("line %d: %s", in.line, clip(string(value))), want)
		case err != nil && !errors.Is(err, strconv.ErrRange):
			return err
		}
		if i++; i == l.rows && !l.coordinate {
			j++
			i = top(j)
		}
	}
}

// lineText says what a line behind the header holds.
func (l mtxLayout) lineText() string {
	switch {
	case l.pattern:
		return "a row and a column, as in 3 1"
	case l.coordinate:
		return "a row, a column and a value, as in 3 1 -1.5"
	}
	return "one value in each line"
}

// mtxLines reads lines, blank ones left out, in bounded memory.
type mtxLines struct {
	in    *bufio.Reader
	line  int   // number of the last one, from 1
	taken int64 // bytes read so far
}

// next returns a line without the blanks around it, valid until the next call;
// io.EOF when there is none.
func (m *mtxLines) next() ([]byte, error) {
	for {
		line, err := m.in.ReadSlice('\n')
		m.taken += int64(len(line))
		if len(line) > 0 {
			m.line++
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		if line := bytes.Trim(line, " \t\r\n"); len(line) > 0 {
			return line, nil
		}
		if err == io.EOF {
			return nil, io.EOF
		}
	}
}

func (f *File) mtxError(in *mtxLines, err error) error {
	if err == bufio.ErrBufferFull {
		return f.refuse(fmt.Sprintf("line %d of over %d bytes", in.line, maxLine), "the lines of an .mtx file")
	}
	return f.failed(err)
}

// cutWord takes the first word off a line without blanks around it.
func cutWord(line []byte) (word, rest []byte) {
	at := bytes.IndexAny(line, " \t")
	if at < 0 {
		return line, nil
	}
	return line[:at], bytes.TrimLeft(line[at:], " \t")
}

// wholeNumber reads digits without a sign.
func wholeNumber(word []byte) (int, bool) {
	if len(word) == 0 || word[0] < '0' || word[0] > '9' {
		return 0, false
	}
	v, err := strconv.Atoi(string(word))
	return v, err == nil
}

// isInteger reports whether value is digits, with a sign or without.
func isInteger(value string) bool {
	if value[0] == '+' || value[0] == '-' {
		value = value[1:]
	}
	return value != "" && strings.Trim(value, "0123456789") == ""
}
