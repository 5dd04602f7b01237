package matfile

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

type format int

const (
	formatNPY format = iota // also for an ending of no format, when reading
	formatNPZ
	formatSafetensors
	formatMTX
	formatText // .csv and .tsv
)

const endings = ".npy, .npz, .safetensors, .mtx, .csv or .tsv"

// metadataKey is the name in a .safetensors file that stands for no tensor.
const metadataKey = "__metadata__"

// target is what a path names: a file, or one matrix in a file of several.
type target struct {
	format   format
	filePath string
	name     string // of the matrix in it
	named    bool   // name was given, and may be ""
}

func split(path string) target {
	for i := range len(path) {
		if path[i] != ':' {
			continue
		}
		for _, ending := range []string{".npz", ".safetensors"} {
			if from := i - len(ending); from >= 0 && strings.EqualFold(path[from:i], ending) {
				return target{formatOf(path[:i]), path[:i], path[i+1:], true}
			}
		}
	}
	return target{format: formatOf(path), filePath: path}
}

func formatOf(file string) format {
	switch ending(file) {
	case ".npz":
		return formatNPZ
	case ".safetensors":
		return formatSafetensors
	case ".mtx":
		return formatMTX
	case ".csv", ".tsv":
		return formatText
	}
	return formatNPY
}

func ending(path string) string { return strings.ToLower(filepath.Ext(path)) }

// forText fills in the defaults for a .csv or .tsv file and checks that the two
// signs can be told from each other and from the numbers.
func (o Options) forText(path string) (Options, error) {
	if o.Comma == 0 {
		o.Comma = ','
		if ending(path) == ".tsv" {
			o.Comma = '\t'
		}
	}
	if o.Decimal == 0 {
		o.Decimal = '.'
	}
	refuse := func(found, want string) (Options, error) {
		return o, &FormatError{Path: path, Found: found, Want: want}
	}
	switch {
	case o.Decimal != '.' && o.Decimal != ',':
		return refuse(fmt.Sprintf("%q as the decimal sign", o.Decimal), "'.' or ','")
	case o.Comma == o.Decimal:
		return refuse(fmt.Sprintf("%q both between values and as the decimal sign", o.Comma), "two characters")
	case o.Comma < ' ' && o.Comma != '\t' || o.Comma == utf8.RuneError || !utf8.ValidRune(o.Comma) ||
		strings.ContainsRune("\"'+-_\x7f", o.Comma) ||
		'0' <= o.Comma && o.Comma <= '9' || 'a' <= o.Comma|0x20 && o.Comma|0x20 <= 'z':
		return refuse(fmt.Sprintf("%q between values", o.Comma), "a character that no number holds, such as ';'")
	}
	return o, nil
}
