package matfile

import "testing"

// checkAny opens content as a file and, where the format allows it, as a pipe.
// Whatever it holds: no panic, memory bounded by its size, the two ways agree,
// and a matrix that is accepted has as many values as its shape says.
func checkAny(t *testing.T, name string, content []byte) {
	ways := []func() (*File, error){
		func() (*File, error) { return Decode(name, content) },
		func() (*File, error) { return openStream(name, content) },
	}
	if f := split(name).format; f == formatNPZ || f == formatSafetensors {
		ways = ways[:1]
	}
	values := make([]int, len(ways))
	shapes := make([][3]int, len(ways))
	for i, open := range ways {
		values[i] = -1
		grown := 0 // what a few bytes may rightly stand for
		taken := allocated(func() {
			f, err := open()
			if err != nil {
				return
			}
			const most = 1 << 20
			switch {
			case f.mtx.coordinate:
				grown = f.count()
			case f.format == formatNPZ && !f.raw.sized:
				grown = min(f.count(), maxDeflate*len(content))
			}
			if grown > most {
				return
			}
			v, err := f.Float32()
			if err != nil {
				return
			}
			if len(v) != f.Batch*f.Rows*f.Cols {
				t.Errorf("%d values for %dx%dx%d", len(v), f.Batch, f.Rows, f.Cols)
			}
			values[i], shapes[i] = len(v), [3]int{f.Batch, f.Rows, f.Cols}
		})
		if most := uint64(maxHeader + 4*bufferSize + 64*len(content) + 1<<18 + 32*grown); taken > most {
			t.Errorf("took %d bytes for %d of input", taken, len(content))
		}
	}
	if len(ways) == 2 && (values[0] != values[1] || shapes[0] != shapes[1]) {
		t.Errorf("as a file %d values %v, as a pipe %d values %v", values[0], shapes[0], values[1], shapes[1])
	}
	// As int8 many values are refused, on ways of their own.
	if f, err := Decode(name, content); err == nil && f.count() < 1<<16 {
		if v, err := f.Int8(); err == nil && len(v) != f.count() {
			t.Errorf("%d int8 for %dx%dx%d", len(v), f.Batch, f.Rows, f.Cols)
		}
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

func FuzzNPZ(f *testing.F) {
	f.Add(npz(member{name: "w.npy", content: npy(1, dict("<f4", "False", "(2, 2)"), make([]byte, 16))}))
	f.Fuzz(func(t *testing.T, content []byte) {
		checkAny(t, "a.npz", content)
		checkAny(t, "a.npz:w", content)
	})
}

func FuzzSafetensors(f *testing.F) {
	f.Add(tensors("{"+entry("w", "F32", "[2,2]", 0, 16)+"}", make([]byte, 16)))
	f.Fuzz(func(t *testing.T, content []byte) {
		checkAny(t, "a.safetensors", content)
		checkAny(t, "a.safetensors:w", content)
	})
}

func FuzzMTX(f *testing.F) {
	f.Add("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 3\n")
	f.Fuzz(func(t *testing.T, content string) { checkAny(t, "a.mtx", []byte(content)) })
}
