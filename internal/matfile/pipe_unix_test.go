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

// namedPipe makes a pipe of a name.
func namedPipe(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := syscall.Mkfifo(path, 0o600); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system has no named pipes: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return path
}

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
			path := namedPipe(t, tt.file)
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

// What is written over keeps its permissions, and a link what it leads to.
func TestReplaceKeeps(t *testing.T) {
	t.Parallel()
	secret := put(t, "secret.csv", []byte("before"))
	if err := os.Chmod(secret, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.csv")
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFloat32(link, 1, 2, []float32{1, 2}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "1,2\n" {
		t.Errorf("behind the link is %q, error %v", data, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, error %v", info, err)
	}
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's permissions are %v, error %v", info.Mode(), err)
	}
}

// A pipe is written to, not replaced.
func TestWriteIntoPipe(t *testing.T) {
	t.Parallel()
	pipe := namedPipe(t, "pipe.csv")
	if err := Supported(pipe); err != nil {
		t.Errorf("before the write: %v", err)
	}
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := os.ReadFile(pipe)
		read <- result{data, err}
	}()
	if err := WriteFloat32(pipe, 1, 2, []float32{1, 2}); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got.err != nil || string(got.data) != "1,2\n" {
		t.Errorf("through the pipe came %q, error %v", got.data, got.err)
	}
	if info, err := os.Stat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is %v, error %v", info, err)
	}
}
