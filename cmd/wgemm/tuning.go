package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/tuning"
	gpu "github.com/wgemm/wgemm/runtime"
)

// A tuningChoice is what the flag --no-tuning says.
type tuningChoice struct{ ignored bool }

func (c *tuningChoice) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.ignored, "no-tuning", os.Getenv("WGEMM_TUNING") == "off",
		"take the planner's choice, whatever wgemm tune measured (env WGEMM_TUNING=off)")
}

// load returns what was measured on an adapter, nil for nothing. What cannot be
// used is only worth a note: there is the planner.
func (c tuningChoice) load(a gpu.Adapter) (gemm.Tuning, string) {
	if c.ignored {
		return nil, ""
	}
	if v := os.Getenv("WGEMM_TUNING"); v != "" && v != "off" {
		return nil, fmt.Sprintf("tuning is ignored: WGEMM_TUNING is %q, want off or nothing", v)
	}
	store, err := userStore()
	if err != nil {
		return nil, "" // so nothing was kept
	}
	t, err := store.load(a)
	if err != nil {
		return nil, fmt.Sprintf("tuning is ignored: %v", err)
	}
	return t, ""
}

// use gives an engine what was measured on its adapter, and returns a note.
func (c tuningChoice) use(engine *gemm.Engine, where place) (note string) {
	if where.Adapter == nil {
		return ""
	}
	t, note := c.load(*where.Adapter)
	engine.SetTuning(t)
	return note
}

// A tuningStore keeps a file for each adapter in a folder: a line that says whose
// it is, and the gemm.Tuning.
type tuningStore struct{ dir string }

func userStore() (tuningStore, error) {
	dir, err := os.UserCacheDir()
	return tuningStore{filepath.Join(dir, "wgemm")}, err
}

func (s tuningStore) path(a gpu.Adapter) string {
	return filepath.Join(s.dir, fmt.Sprintf("tuning-%.8x.txt", sha256.Sum256([]byte(tuning.Head(a)))))
}

// load is what the file of an adapter holds, nil without one.
func (s tuningStore) load(a gpu.Adapter) (gemm.Tuning, error) {
	t, err := readTuning(s.path(a), a)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return t, err
}

// readTuning reads a file that is for an adapter and this version.
func readTuning(path string, a gpu.Adapter) (gemm.Tuning, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, tuning.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	t, err := tuning.Parse(a, string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// save replaces the file of an adapter, as a whole: others may read it.
func (s tuningStore) save(a gpu.Adapter, t gemm.Tuning) (err error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	path := s.path(a)
	f, err := os.CreateTemp(s.dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.WriteString(tuning.Text(a, t))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// clear removes the file of an adapter, if there is one.
func (s tuningStore) clear(a gpu.Adapter) error {
	if err := os.Remove(s.path(a)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
