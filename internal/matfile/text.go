package matfile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/x448/float16"
)

const (
	textDType = "text"
	utf8BOM   = "\xef\xbb\xbf"
)

// textLayout is the source of a text file, which is read twice: to count, and
// into the values.
type textLayout struct{ src io.ReadSeeker }

func (f *File) readTextHead(src io.ReadSeeker) (err error) {
	f.text.src, f.DType, f.Dims = src, textDType, 2
	f.Rows, f.Cols, err = f.scanText(func(field string) error {
		_, err := parseFloat32(field)
		return err
	})
	return err
}

func readText[T float32 | float16.Float16](f *File, parse func(string) (T, error)) ([]T, error) {
	values := make([]T, 0, f.Rows*f.Cols)
	rows, cols, err := f.scanText(func(field string) error {
		if len(values) == cap(values) {
			return f.refuseChange()
		}
		v, err := parse(field)
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
// counts. Memory is that of one line.
func (f *File) scanText(visit func(field string) error) (rows, cols int, err error) {
	if _, err := f.text.src.Seek(0, io.SeekStart); err != nil {
		return 0, 0, f.failed(err)
	}
	in := bufio.NewReader(f.text.src)
	if lead, _ := in.Peek(len(utf8BOM)); string(lead) == utf8BOM {
		in.Discard(len(utf8BOM))
	}
	records := csv.NewReader(in)
	records.Comma = comma(f.Path)
	// Only so may a blank come before a quote. In .tsv it would swallow tabs.
	records.TrimLeadingSpace = records.Comma == ','
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
		if line, _ := records.FieldPos(0); line != rows+1 {
			return 0, 0, f.refuse(fmt.Sprintf("line %d is blank", rows+1), "one row per line")
		}
		if rows == 0 {
			cols = len(record)
		}
		for i, field := range record {
			field = strings.Trim(field, " \t")
			switch err := visit(field); {
			case errors.Is(err, strconv.ErrSyntax):
				return 0, 0, f.refuseField(rows+1, i+1, field)
			case err != nil && !errors.Is(err, strconv.ErrRange):
				return 0, 0, err
			}
		}
		if len(record) != cols {
			return 0, 0, f.refuse(fmt.Sprintf("line %d has %d columns, line 1 has %d", rows+1, len(record), cols), "as many in every line")
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

// refuseField says what a field that is no number looks like. The usual
// causes are a separator or a decimal comma of another convention, and names
// of columns.
func (f *File) refuseField(line, column int, field string) error {
	found := fmt.Sprintf("line %d, column %d: %q is not a number", line, column, clip(field))
	want := "a number such as -1.5 or 1e-3"
	switch separator := comma(f.Path); {
	case strings.Contains(field, ";"):
		found += " (';' as separator?)"
		want = fmt.Sprintf("%q between values and a decimal point", separator)
	case strings.Contains(field, ","):
		found += " (a decimal comma?)"
		want = fmt.Sprintf("%q between values and a decimal point", separator)
	case strings.Contains(field, "\t"):
		found += " (a tab as separator?)"
		want = "',' between values, or a name ending in .tsv"
	case line == 1:
		want = "values from the first line on, no names of columns"
	}
	return f.refuse(found, want)
}

func parseFloat32(s string) (float32, error) {
	v, err := parseFloat(s, 32)
	return float32(v), err
}

func parseFloat16(s string) (float16.Float16, error) {
	v, err := parseFloat(s, 64)
	return fromFloat64(v), err
}

// parseFloat is strconv.ParseFloat without Go's own 1_000. Beyond the range
// it returns ±Inf and strconv.ErrRange.
func parseFloat(s string, bits int) (float64, error) {
	if strings.Contains(s, "_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(s, bits)
}
