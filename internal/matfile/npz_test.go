package matfile

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// member is one of an archive. Its sizes are true unless they are given.
type member struct {
	name          string
	method        uint16
	content       []byte
	packed, whole uint64
	flags         uint16
	sum           uint32
}

func npz(members ...member) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		raw := m.content
		if m.method == zip.Deflate {
			var packed bytes.Buffer
			d, err := flate.NewWriter(&packed, flate.BestSpeed)
			if err == nil {
				_, err = d.Write(raw)
			}
			if err := errors.Join(err, d.Close()); err != nil {
				panic(fmt.Sprint("test: ", err))
			}
			raw = packed.Bytes()
		}
		h := &zip.FileHeader{Name: m.name, Method: m.method, Flags: m.flags, CRC32: m.sum, CompressedSize64: m.packed, UncompressedSize64: m.whole}
		if m.sum == 0 {
			h.CRC32 = crc32.ChecksumIEEE(m.content)
		}
		if m.packed == 0 {
			h.CompressedSize64 = uint64(len(raw))
		}
		if m.whole == 0 {
			h.UncompressedSize64 = uint64(len(m.content))
		}
		part, err := w.CreateRaw(h)
		if err == nil {
			_, err = part.Write(raw)
		}
		if err != nil {
			panic(fmt.Sprint("test: ", err))
		}
	}
	if err := w.Close(); err != nil {
		panic(fmt.Sprint("test: ", err))
	}
	return b.Bytes()
}

// eachFile opens content, whose path goes on with suffix, as a file and from
// memory.
func eachFile(t *testing.T, name, suffix string, content []byte, check func(t *testing.T, f *File, err error)) {
	t.Helper()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		f, err := Open(put(t, name, content) + suffix)
		if err == nil {
			defer f.Close()
		}
		check(t, f, err)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		f, err := Decode(name+suffix, content)
		check(t, f, err)
	})
}

func TestNPZ(t *testing.T) {
	t.Parallel()
	two := npy(1, dict("<f4", "False", "(2, 1)"), le(float32(1), float32(2)))
	cube := npy(1, dict(">f4", "True", "(2, 1, 2)"), binary.BigEndian.AppendUint32(nil, 0x3f800000))
	cube = append(cube, 0x40, 0x40, 0, 0, 0x40, 0, 0, 0, 0x40, 0x80, 0, 0)
	archive := func(method uint16) []byte {
		return npz(member{name: "w.npy", method: method, content: two}, member{name: "cube.npy", method: method, content: cube}, member{name: "w", content: cube}, member{name: "x.npy.npy", content: two}, member{name: "sub/"}, member{name: "sub/größe.npy", content: two})
	}
	values2, values4 := []float32{1, 2}, []float32{1, 2, 3, 4}
	tests := []struct {
		name, suffix string
		content      []byte
		batch        int
		want         []float32
	}{
		{"by name", ":cube", archive(zip.Store), 2, values4},
		{"by file name", ":cube.npy", archive(zip.Store), 2, values4},
		{"deflated", ":cube.npy", archive(zip.Deflate), 2, values4},
		{"just the name first", ":w", archive(zip.Deflate), 2, values4},
		{"with .npy", ":w.npy", archive(zip.Deflate), 1, values2},
		{"with .npy twice", ":x.npy", archive(zip.Store), 1, values2},
		{"in a folder", ":sub/größe", archive(zip.Store), 1, values2},
		{"the only one", "", npz(member{name: "sub/"}, member{name: "any.npy", content: two}), 1, values2},
		{"behind other data", "", append([]byte("#!/bin/sh\n"), npz(member{name: "any.npy", content: two})...), 1, values2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachFile(t, "a.npz", tt.suffix, tt.content, func(t *testing.T, f *File, err error) {
				if err != nil {
					t.Fatal(err)
				}
				got, err := f.Float32()
				if err != nil || f.Batch != tt.batch || !slices.Equal(got, tt.want) || !strings.HasSuffix(f.Path, "a.npz"+tt.suffix) {
					t.Errorf("%s: got %v, error %v, want %v", f.Path, got, err, tt.want)
				}
			})
		})
	}
}

// TestNPZManyBuffers reads members that fill the buffer more than once.
func TestNPZManyBuffers(t *testing.T) {
	t.Parallel()
	const m, n = 701, 431
	at := func(i, j int) float32 { return float32((i*n + j) % 4096) }
	var want []float32
	for i := range m {
		for j := range n {
			want = append(want, at(i, j))
		}
	}
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		for _, order := range []string{"False", "True"} {
			content := npz(member{name: "a.npy", method: method, content: npy(2, dict("<f8", order, fmt.Sprintf("(%d, %d)", m, n)), fill("<f8", m, n, order == "True", at))})
			eachFile(t, "a.npz", "", content, func(t *testing.T, f *File, err error) {
				if err != nil {
					t.Fatal(err)
				}
				if got, err := f.Float32(); err != nil || !slices.Equal(got, want) {
					t.Errorf("method %d, order %s: values differ, error %v", method, order, err)
				}
			})
		}
	}
}

func TestNPZRefuses(t *testing.T) {
	t.Parallel()
	const store, deflate = zip.Store, zip.Deflate
	whole := npy(1, dict("<f4", "False", "(8, 8)"), make([]byte, 256)) // 384 bytes
	huge := npy(1, dict("<f4", "False", "(1000000, 1000000)"), make([]byte, 64))
	many := make([]member, 13)
	for i := range many {
		many[i] = member{name: fmt.Sprintf("arr_%d.npy", i), content: whole}
	}
	one := npz(member{name: "w.npy", content: whole})
	flipped := slices.Clone(one)
	flipped[200] ^= 1
	long := binary.LittleEndian.AppendUint32(nil, 0x02014b50) // an entry of the list
	long = append(long, make([]byte, 28)...)
	long = append(long, 0x60, 0xea) // its comment of 60000 bytes
	long = append(long, make([]byte, 12+60000)...)
	long = bytes.Repeat(long, 300)
	long = slices.Concat(long, []byte("PK\x05\x06\x00\x00\x00\x00\x2c\x01\x2c\x01"), le(uint32(len(long)), uint32(0), uint16(0)))
	tests := []struct {
		name, suffix string
		content      []byte
		want         string
	}{
		{"no archive", "", []byte("hello"), "a.npz: no whole zip archive; want a .npz archive"},
		{"npy", "", whole, "no whole zip archive"},
		{"cut", "", one[:len(one)-30], "no whole zip archive"},
		{"empty", "", nil, "an empty file; want a matrix"},
		{"without members", "", npz(), "no members; want a matrix"},
		{"only a folder", ":w", npz(member{name: "w/"}), "no members; want a matrix"},
		{"long list", "", long, "a list of members of over 16777216 bytes; want an archive of fewer members"},
		{"no name", ":", one, "a.npz:: no name after ':'; want the name of a matrix in the file"},
		{"other name", ":x", one, `a.npz:x: no "x" among the members "w"; want the name of one of them`},
		{"two", "", npz(many[:2]...), `a.npz: 2 members, "arr_0", "arr_1"; want the name of one behind the file's, as in `},
		{"two, example", "", npz(many[:2]...), `a.npz:arr_0`},
		{"many", "", npz(many...), `13 members, "arr_0", "arr_1", "arr_2", "arr_3", "arr_4", "arr_5", "arr_6", "arr_7", "arr_8", "arr_9" and 3 more; want`},
		{"twice", ":w", npz(member{name: "w.npy", content: whole}, member{name: "w.npy", content: whole}), `2 members "w"; want one of each name`},
		{"line in the name", "", npz(member{name: "a\nb.npy", content: []byte("x")}), "a.npz: first bytes"},
		{"encrypted", "", npz(member{name: "w.npy", content: whole, flags: 1}), `member "w.npy" is encrypted; want one that is not`},
		{"other compression", "", npz(member{name: "w.npy", content: whole, method: 12}), `member "w.npy" is compressed by method 12; want method 0 (stored) or 8 (deflated)`},
		{"text", "", npz(member{name: "readme", content: []byte("hello")}), `first bytes "hello"; want a .npy file`},
		{"object", "", npz(member{name: "w.npy", content: npy(1, dict("|O", "False", "(1,)"), nil)}), `dtype "|O"; want f2, f4`},
		{"no bytes", "", npz(member{name: "w.npy"}), `member "w.npy" is empty; want a matrix`},

		// Sizes that lie.
		{"stored beyond the file", "", npz(member{name: "w.npy", content: whole, packed: 1 << 40, whole: 1 << 40}), `member "w.npy" of 1099511627776 bytes, which are not all in the file; want a whole archive`},
		{"packed beyond int64", "", npz(member{name: "w.npy", content: whole, packed: 1<<64 - 1, whole: 1<<64 - 1}), `member "w.npy" of 18446744073709551615 bytes, which are not all in the file`},
		{"stored, two sizes", "", npz(member{name: "w.npy", content: whole, whole: 500}), `member "w.npy" of 384 bytes that stand for 500; want sizes that are possible`},
		{"shape beyond the member", "", npz(member{name: "w.npy", content: huge}), "64 bytes of data; want 4000000000000 for 1000000x1000000 of <f4"},
		{"shape beyond the member, deflated", "", npz(member{name: "w.npy", content: huge, method: deflate}), "64 bytes of data; want 4000000000000"},
		{"member beyond the shape", "", npz(member{name: "w.npy", content: append(slices.Clone(whole), 0), method: deflate}), "257 bytes of data; want 256 for 8x8"},
		{"bomb that no deflate makes", "", npz(member{name: "w.npy", content: huge, method: deflate, whole: 4000000000000 + 128}), "that stand for 4000000000128; want sizes that are possible"},
		{"bomb behind the shape", "", npz(member{name: "w.npy", content: append(slices.Clone(whole), make([]byte, 32<<20)...), method: deflate, whole: 384}), `member "w.npy" goes on after 384 bytes; want the size that the archive states`},
		{"less than it states", "", npz(member{name: "w.npy", content: npy(1, dict("<f4", "False", "(64, 64)"), make([]byte, 100)), method: deflate, whole: 128 + 64*64*4}), `member "w.npy" ends before 16512 bytes; want the size that the archive states`},
		{"header less than it states", "", npz(member{name: "w.npy", content: whole[:40], method: deflate, whole: 384}), `member "w.npy" ends before 384 bytes`},
		{"flipped bit", "", flipped, `member "w.npy" is damaged; want data with the checksum that the archive states`},
		{"other checksum", "", npz(member{name: "w.npy", content: whole, sum: 77, method: store}), `member "w.npy" is damaged`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachFile(t, "a.npz", tt.suffix, tt.content, func(t *testing.T, f *File, err error) {
				if err == nil {
					_, err = f.Float32()
				}
				wantRefusal(t, err, tt.want)
			})
		})
	}
	_, err := openStream("a.npz", one)
	wantRefusal(t, err, "a.npz: a pipe; want a file: the list of what a .npz archive holds is at its end")
	_, err = Decode("a.npy", one)
	wantRefusal(t, err, "a zip archive (.npz?); want one matrix in a .npy file, or the ending .npz")
	if _, err := Open("none.npz:w"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}

// TestNPZMemory is not parallel: it counts what the whole process allocates.
func TestNPZMemory(t *testing.T) {
	zeros := npy(1, dict("<f4", "False", "(10000, 10000)"), nil)
	tests := map[string][]byte{
		"beyond deflate":   npz(member{name: "w.npy", content: zeros, method: zip.Deflate, whole: 128 + 400000000}),
		"beyond the shape": npz(member{name: "w.npy", content: append(npy(1, dict("<f4", "False", "(1, 1)"), nil), make([]byte, 64<<20)...), method: zip.Deflate, whole: 132}),
		// Sizes that are possible, but less behind them: the result grows with what comes.
		"cut": npz(member{name: "w.npy", content: append(slices.Clone(zeros), make([]byte, 2<<20)...), packed: 500000, whole: 128 + 400000000, method: zip.Deflate},
			member{name: "x", content: make([]byte, 600000)}),
	}
	for name, content := range tests {
		if got := allocated(func() {
			f, err := Decode("a.npz:w", content)
			if err == nil {
				_, err = f.Float32()
			}
			wantRefusal(t, err, "member")
		}); got > 8<<20 {
			t.Errorf("%s: took %d bytes", name, got)
		}
	}

	// A stored member is read into its memory as a .npy file is.
	const m, n = 1000, 1024
	content := npz(member{name: "w.npy", content: npy(1, dict("<f4", "False", fmt.Sprintf("(%d, %d)", m, n)), make([]byte, m*n*4))})
	path := put(t, "a.npz", content)
	if got := allocated(func() { read32(t, path) }); got > m*n*4+bufferSize+1<<18 {
		t.Errorf("stored: took %d bytes for a result of %d", got, m*n*4)
	}
}
