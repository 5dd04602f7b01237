package matfile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

const (
	textDType = "text"
	utf8BOM   = "\xef\xbb\xbf"
)

// readTextHead reads the text for the first of two times: to count.
func (f *File) readTextHead(src source) (err error) {
	if f.opts, err = f.opts.forText(f.Path); err != nil {
		return err
	}
	f.text, f.DType, f.Dims = src, textDType, 2
	f.Rows, f.Cols, err = f.scanText("", func(field string) error {
		_, err := parseFloat(field, 32)
		return err
	})
	return err
}

func readText[T element](f *File, as conversion[T]) ([]T, error) {
	values := make([]T, 0, f.Rows*f.Cols)
	rows, cols, err := f.scanText(as.want, func(field string) error {
		if len(values) == cap(values) {
			return f.refuseChange()
		}
		v, err := as.parse(field)
		values = append(values, v)
		return err
	})
	if err == nil && (rows != f.Rows || cols != f.Cols) {
		err = f.refuseChange()
	}
	if err != nil {
		return nil, err
	}
	return values, nil
}

func (f *File) refuseChange() error {
	return f.refuse("it changed while it was read", fmt.Sprintf("%dx%d as before", f.Rows, f.Cols))
}

// scanText reads the text from its beginning, hands every field to visit and
// counts. Memory is that of one line. Fields reach visit with a decimal point;
// want says what visit takes if it reports errNoElement.
func (f *File) scanText(want string, visit func(field string) error) (rows, cols int, err error) {
	if _, err := f.text.Seek(0, io.SeekStart); err != nil {
		return 0, 0, f.failed(err)
	}
	in := bufio.NewReader(f.text)
	if lead, _ := in.Peek(len(utf8BOM)); string(lead) == utf8BOM {
		in.Discard(len(utf8BOM))
	}
	for _, other := range []struct{ lead, ending string }{{npyMagic, ".npy"}, {zipMagic, ".npz"}, {mtxBanner, ".mtx"}} {
		if lead, _ := in.Peek(len(other.lead)); string(lead) == other.lead {
			return 0, 0, f.refuse(fmt.Sprintf("line 1, column 1: %q, with which %s begins", lead, other.ending), "numbers as text, or a name ending in "+other.ending)
		}
	}
	records := csv.NewReader(in)
	records.Comma = f.opts.Comma
	// Only so may a blank come before a quote. It would swallow tabs that separate.
	records.TrimLeadingSpace = !unicode.IsSpace(records.Comma)
	records.FieldsPerRecord = -1 // checked here, for the message
	records.ReuseRecord = true

	for ; ; rows++ {
		record, err := records.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, 0, f.textError(err)
		}
		// The reader passes over blank lines, which may stand for missing
		// values. At the end they are harmless, and are not seen here.
		line, _ := records.FieldPos(0)
		if line != rows+1 || len(record) == 1 && strings.Trim(record[0], " \t") == "" {
			return 0, 0, f.refuse(fmt.Sprintf("line %d is blank", rows+1), "one row per line")
		}
		if rows == 0 {
			cols = len(record)
		}
		for i, field := range record {
			field = strings.Trim(field, " \t")
			err := strconv.ErrSyntax
			if number, ok := withPoint(field, f.opts.Decimal); ok {
				err = visit(number)
			}
			switch {
			case errors.Is(err, strconv.ErrSyntax):
				return 0, 0, f.refuseField(rows+1, i+1, field)
			case errors.Is(err, errNoElement):
				return 0, 0, f.refuse(fmt.Sprintf("line %d, column %d: %s", rows+1, i+1, clip(field)), want)
			case err != nil && !errors.Is(err, strconv.ErrRange):
				return 0, 0, err
			}
		}
		switch n := len(record); {
		case n < cols:
			return 0, 0, f.refuse(fmt.Sprintf("line %d ends before column %d, line 1 has %d", rows+1, n+1, cols), "as many in every line")
		case n > cols:
			return 0, 0, f.refuse(fmt.Sprintf("line %d goes on to column %d, line 1 has %d", rows+1, n, cols), "as many in every line")
		}
	}
	if rows == 0 {
		return 0, 0, f.refuse("no values", "a matrix")
	}
	return rows, cols, nil
}

func (f *File) textError(err error) error {
	if pe, ok := errors.AsType[*csv.ParseError](err); ok {
		return f.refuse(fmt.Sprintf("line %d: %v", pe.Line, pe.Err), "numbers, bare or in closed quotes")
	}
	return f.failed(err)
}

// withPoint turns the decimal sign of a number into a point. A point beside
// another sign, as in 1.000,5, makes it no number.
func withPoint(field string, sign rune) (string, bool) {
	if sign == '.' {
		return field, true
	}
	return strings.Replace(field, string(sign), ".", 1), !strings.Contains(field, ".")
}

// refuseField says what a field that is no number looks like. The usual
// causes are a separator or a decimal sign of another convention, and names of
// columns.
func (f *File) refuseField(line, column int, field string) error {
	found := fmt.Sprintf("line %d, column %d: %q is not a number", line, column, clip(field))
	separator, sign := f.opts.Comma, "a decimal point"
	want := "a number such as -1.5 or 1e-3"
	if f.opts.Decimal == ',' {
		sign, want = "a decimal comma", "a number such as -1,5 or 1e-3"
	}
	switch {
	case field == "":
		found = fmt.Sprintf("line %d, column %d: no value", line, column)
		want = fmt.Sprintf("a number in each place, nan where it is missing, and no %q at the end of a line", separator)
	case strings.Contains(field, "#") || column == 1 && (strings.HasPrefix(field, "%") || strings.HasPrefix(field, "//")):
		found += " (a comment?)"
		want = "numbers alone"
	case separator != ';' && strings.Contains(field, ";"):
		found += " (';' as separator?)"
		want = fmt.Sprintf("%q between values and %s", separator, sign)
	case f.opts.Decimal == '.' && strings.Contains(field, ","):
		found += " (a decimal comma?)"
		want = fmt.Sprintf("%q between values and %s", separator, sign)
	case f.opts.Decimal == ',' && strings.Contains(field, "."):
		found += " (a decimal point?)"
		want = fmt.Sprintf("%q between values and %s", separator, sign)
	case separator != '\t' && strings.Contains(field, "\t"):
		found += " (a tab as separator?)"
		want = fmt.Sprintf("%q between values, or a name ending in .tsv", separator)
	case line == 1:
		want = "values from the first line on, no names of columns"
	}
	return f.refuse(found, want)
}
