//go:build page

package matfile

import (
	"bufio"
	"errors"
	"io"
)

// The page is built without the formats of several matrices, which would take
// archive/zip and encoding/json with them: a fifth of its first load.

const pageWant = "in the page a .npy, .mtx, .csv or .tsv file"

func (f *File) readNPZHead(io.ReaderAt, int64) error {
	return f.refuse("a .npz archive", pageWant)
}

func (f *File) readTensorsHead(io.ReaderAt, int64) error {
	return f.refuse("a .safetensors file", pageWant)
}

var errPage = errors.New("the page writes no such file")

func writeNPZ[T any](io.Writer, string, string, []T, encoding[T]) error { return errPage }

func writeTensor[T any](*bufio.Writer, string, int, int, int, []T, encoding[T]) error { return errPage }
