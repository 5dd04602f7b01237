//go:build unix

package matfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestNamedPipe reads through Open what another writes into a pipe.
func TestNamedPipe(t *testing.T) {
	t.Parallel()
	whole := npy(1, dict("<f4", "True", "(2, 3)"), le(float32(1), float32(4), float32(2), float32(5), float32(3), float32(6)))
	tests := []struct {
		name, file string
		content    []byte
		refusal    string
	}{
		{"npy", "a.npy", whole, ""},
		{"no ending", "a", whole, ""},
		{"csv", "a.csv", []byte("1,2,3\n4,5,6\n"), ""},
		{"npy cut", "a.npy", whole[:len(whole)-4], "20 bytes of data; want 24 for 2x3 of <f4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), tt.file)
			if err := syscall.Mkfifo(path, 0o600); errors.Is(err, errors.ErrUnsupported) {
				t.Skip("no named pipes here: ", err)
			} else if err != nil {
				t.Fatal(err)
			}
			written := make(chan error, 1)
			go func() { written <- os.WriteFile(path, tt.content, 0o600) }()
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := f.Float32()
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			if tt.refusal != "" {
				wantRefusal(t, err, tt.refusal)
				return
			}
			if err != nil || !slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) {
				t.Errorf("got %v, error %v", got, err)
			}
		})
	}
}
