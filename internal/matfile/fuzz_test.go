package matfile

import (
	"bytes"
	"testing"
)

// checkAny opens content as a file and as a pipe. Whatever it holds: no panic,
// memory bounded by its size, the two ways agree, and a matrix that is
// accepted has as many values as its shape says.
func checkAny(t *testing.T, name string, content []byte) {
	var values [2]int
	var shapes [2][2]int
	for i, open := range []func() (*File, error){
		func() (*File, error) {
			f := &File{Path: name}
			return f, f.readHead(bytes.NewReader(content), int64(len(content)))
		},
		func() (*File, error) { return openStream(name, content) },
	} {
		values[i] = -1
		taken := allocated(func() {
			f, err := open()
			if err != nil {
				return
			}
			v, err := f.Float32()
			if err != nil {
				return
			}
			if len(v) != f.Rows*f.Cols {
				t.Errorf("%d values for %dx%d", len(v), f.Rows, f.Cols)
			}
			values[i], shapes[i] = len(v), [2]int{f.Rows, f.Cols}
		})
		if most := uint64(maxHeader + 4*bufferSize + 64*len(content) + 1<<18); taken > most {
			t.Errorf("took %d bytes for %d of input", taken, len(content))
		}
	}
	if values[0] != values[1] || shapes[0] != shapes[1] {
		t.Errorf("as a file %d values %v, as a pipe %d values %v", values[0], shapes[0], values[1], shapes[1])
	}
}

func FuzzNPY(f *testing.F) {
	f.Add(npy(1, dict("<f4", "False", "(2, 2)"), make([]byte, 16)))
	f.Fuzz(func(t *testing.T, content []byte) { checkAny(t, "a.npy", content) })
}

func FuzzCSV(f *testing.F) {
	f.Add("1,2\n3,4\n")
	f.Fuzz(func(t *testing.T, content string) {
		checkAny(t, "a.csv", []byte(content))
		checkAny(t, "a.tsv", []byte(content))
	})
}
