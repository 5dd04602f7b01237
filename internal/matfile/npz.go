//go:build !page

package matfile

// The format: a zip archive of .npy files, as numpy.savez and
// numpy.savez_compressed write it.

import (
	"archive/zip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
)

const (
	// maxDirectory bounds the bytes of the list of members, room for some
	// 100000: archive/zip holds it in memory, in several times as many bytes.
	maxDirectory = 16 << 20

	// maxDeflate bounds how many bytes come out of one: at best, two bits of
	// deflate stand for 258 bytes.
	maxDeflate = 258 * 8 / 2

	// listed is how many names a refusal lists.
	listed = 10
)

func (f *File) readNPZHead(src io.ReaderAt, size int64) error {
	in := &archiveSource{src: src, left: maxDirectory}
	archive, err := zip.NewReader(in, size)
	switch {
	case in.err != nil:
		return f.failed(in.err)
	case errors.Is(err, errDirectory):
		return f.refuse(fmt.Sprintf("a list of members of over %d bytes", maxDirectory), "an archive of fewer members")
	case err != nil && !errors.Is(err, zip.ErrInsecurePath): // nothing is unpacked
		return f.refuse("no whole zip archive", "a .npz archive")
	}
	in.left = math.MaxInt64

	member, err := f.member(archive.File)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("member %q", clip(member.Name))
	stored := member.Method == zip.Store
	const encrypted = 1
	switch {
	case member.Flags&encrypted != 0:
		return f.refuse(what+" is encrypted", "one that is not")
	case !stored && member.Method != zip.Deflate:
		return f.refuse(fmt.Sprintf("%s is compressed by method %d", what, member.Method), "method 0 (stored) or 8 (deflated)")
	}
	start, err := member.DataOffset()
	if in.err != nil {
		return f.failed(in.err)
	}
	packed, whole := member.CompressedSize64, member.UncompressedSize64
	switch {
	case err != nil || start < 0 || start > size || packed > uint64(size-start):
		return f.refuse(fmt.Sprintf("%s of %d bytes, which are not all in the file", what, packed), "a whole archive")
	case stored && packed != whole, !stored && whole/maxDeflate > packed:
		return f.refuse(fmt.Sprintf("%s of %d bytes that stand for %d", what, packed, whole), "sizes that are possible")
	case whole == 0:
		return f.refuse(what+" is empty", "a matrix")
	}
	content, err := member.Open()
	if err != nil {
		return f.failed(err)
	}
	if err := f.readNPYHead(&memberReader{content, in, f, what, whole}, int64(whole)); err != nil {
		return err
	}
	// How much there is in a compressed member shows when it is read.
	f.raw.sized = stored
	return nil
}

// member returns the member that is asked for. As in NumPy, a name stands for
// the member of just that name, or else for the one with .npy behind it.
func (f *File) member(files []*zip.File) (*zip.File, error) {
	var names []string // without .npy
	var exact, longer, only []*zip.File
	for _, m := range files {
		if strings.HasSuffix(m.Name, "/") {
			continue // a folder
		}
		only = append(only, m)
		names = append(names, strings.TrimSuffix(m.Name, ".npy"))
		switch m.Name {
		case f.name:
			exact = append(exact, m)
		case f.name + ".npy":
			longer = append(longer, m)
		}
	}
	found := only
	if f.named {
		if found = exact; len(exact) == 0 {
			found = longer
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if f.named && len(found) > 1 {
		return nil, f.refuse(fmt.Sprintf("%d members %q", len(found), clip(f.name)), "one of each name")
	}
	return nil, f.refuseNames("members", names)
}

// refuseNames lists what a file holds that has no matrix of the name asked
// for, or of which none is asked for.
func (f *File) refuseNames(kind string, names []string) error {
	if len(names) == 0 {
		return f.refuse("no "+kind, "a matrix")
	}
	quoted := make([]string, 0, listed)
	for _, name := range names[:min(len(names), listed)] {
		quoted = append(quoted, fmt.Sprintf("%q", clip(name)))
	}
	list := strings.Join(quoted, ", ")
	if rest := len(names) - listed; rest > 0 {
		list += fmt.Sprintf(" and %d more", rest)
	}
	if f.named {
		return f.refuse(fmt.Sprintf("no %q among the %s %s", clip(f.name), kind, list), "the name of one of them")
	}
	return f.refuse(fmt.Sprintf("%d %s, %s", len(names), kind, list), fmt.Sprintf("the name of one behind the file's, as in %s:%s", f.Path, clip(names[0])))
}

// archiveSource is the file under an archive. It bounds what is read of the
// list of members, and tells faults of the file from those of the archive.
type archiveSource struct {
	src  io.ReaderAt
	left int64
	err  error // of src
}

var errDirectory = errors.New("a long list of members")

func (s *archiveSource) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, zip.ErrFormat
	}
	if s.left -= int64(len(p)); s.left < 0 {
		return 0, errDirectory
	}
	n, err := s.src.ReadAt(p, off)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// memberReader reads a member of an archive, which checks its size and its
// checksum on the way.
type memberReader struct {
	io.Reader
	in    *archiveSource
	f     *File
	what  string
	whole uint64
}

func (r *memberReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case r.in.err != nil:
		return n, r.in.err
	case err == zip.ErrFormat:
		return n, r.f.refuse(fmt.Sprintf("%s goes on after %d bytes", r.what, r.whole), "the size that the archive states")
	case err == io.ErrUnexpectedEOF:
		return n, r.f.refuse(fmt.Sprintf("%s ends before %d bytes", r.what, r.whole), "the size that the archive states")
	}
	return n, r.f.refuse(r.what+" is damaged", "data with the checksum that the archive states")
}

// writeNPZ writes an archive of one member, stored. Its size and checksum stand
// in front of it too, where some readers look for them, so that the checksum is
// computed first.
func writeNPZ[T any](w io.Writer, name, head string, data []T, enc encoding[T]) error {
	sum := crc32.NewIEEE()
	io.WriteString(sum, head)
	if err := writeItems(sum, data, enc.npy); err != nil {
		return err
	}
	size := uint64(len(head)) + uint64(len(data))*uint64(len(enc.npy(nil, *new(T))))
	const (
		version2 = 20
		utf8Name = 1 << 11
		firstDay = 1<<5 | 1 // 1980-01-01, as NumPy has it
	)
	archive := zip.NewWriter(w)
	member, err := archive.CreateRaw(&zip.FileHeader{
		Name: name + ".npy", ReaderVersion: version2, Flags: utf8Name, Method: zip.Store,
		//lint:ignore SA1019 CreateRaw takes no other date.
		ModifiedDate: firstDay,
		CRC32:        sum.Sum32(), CompressedSize64: size, UncompressedSize64: size,
	})
	if err != nil {
		return err
	}
	if _, err := io.WriteString(member, head); err != nil {
		return err
	}
	if err := writeItems(member, data, enc.npy); err != nil {
		return err
	}
	return archive.Close()
}
