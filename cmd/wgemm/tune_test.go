package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/tuning"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

// Whoever tests has measured something, perhaps: tests of tuning have a cache
// folder of their own.
func TestMain(m *testing.M) {
	if err := os.Setenv("WGEMM_TUNING", "off"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// cacheIn makes the user's cache folder one in dir.
func cacheIn(t *testing.T, dir string) tuningStore {
	t.Helper()
	t.Setenv("WGEMM_TUNING", "")
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
	store, err := userStore()
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func tuningOf(t *testing.T, text string) gemm.Tuning {
	t.Helper()
	parsed, err := gemm.ParseTuning(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestTuningStore(t *testing.T) {
	t.Parallel()
	a, _ := knownAdapter("lavapipe")
	s := tuningStore{filepath.Join(t.TempDir(), "new", "wgemm")}
	if got, err := s.load(a); got != nil || err != nil {
		t.Errorf("nothing kept: %v, %v", got, err)
	}
	want := tuningOf(t, "1x64x64x64 f32 f32 rows4 rows4\tgemm_direct/TM=4;splits=2\n")
	if err := s.save(a, want); err != nil {
		t.Fatal(err)
	}
	if got, err := s.load(a); err != nil || got.String() != want.String() {
		t.Errorf("kept %q, %v", got, err)
	}
	other := a
	other.Version = "a newer driver"
	if got, err := s.load(other); got != nil || err != nil {
		t.Errorf("after an update of the driver: %v, %v", got, err)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"empty":     {"", "its first line"},
		"corrupt":   {"\x00\x01", "its first line"},
		"truncated": {tuning.Head(a) + "1x64x64x64 f32 f3", "line 1"},
		"foreign":   {tuning.Head(other) + want.String(), "a newer driver"},
		"huge":      {strings.Repeat("#", tuning.MaxBytes+1), "bytes, want at most"},
	} {
		if err := os.WriteFile(s.path(a), []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := s.load(a); got != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want %q", name, got, err, tt.want)
		}
	}
	for range 2 {
		if err := s.clear(a); err != nil {
			t.Error(err)
		}
	}
	names, err := os.ReadDir(s.dir)
	if err != nil || len(names) != 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// What was measured is kept, taken, told, exported, forgotten and imported.
func TestTune(t *testing.T) {
	dev := runtimetest.Open(t, open.Driver())
	store := cacheIn(t, t.TempDir())
	a := dev.Adapter()
	code, stdout, stderr := wgemm(t, "tune", "--shapes", "24,32x32x32", "--budget", "1s", "--json")
	var r tuneReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, stderr)
	}
	if len(r.Classes) > 1 || r.File != store.path(a) || r.Adapter != a.Name || r.Version == "" { // one class, on a slow day none
		t.Errorf("report %+v", r)
	}
	for _, c := range r.Classes {
		if c.Class != "1x32x32x32 f32 f32 rows4 rows4" || c.Seconds <= 0 || c.Raced < 1 || c.Raced > c.Candidates || len(c.LeftOut) > 0 {
			t.Errorf("class %+v", c)
		}
	}
	tuned := "gemm_block/BM=32,BN=32,TM=4,TN=4;splits=2"
	if err := store.save(a, tuningOf(t, "1x64x64x128 f32 f32 rows4 rows4\t"+tuned+"\n")); err != nil {
		t.Fatal(err)
	}
	plan := func(want bool, more ...string) {
		t.Helper()
		code, stdout, stderr := wgemm(t, append([]string{"plan", "64", "64", "100", "--json"}, more...)...)
		var r planReport
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || stderr != "" || r.Tuned != want || (r.Choice == tuned) != want {
			t.Errorf("plan %v: exit %d, %v: %s, tuned %t, want %t: %s", more, code, err, r.Choice, r.Tuned, want, stderr)
		}
	}
	plan(true)
	plan(false, "--no-tuning")
	code, stdout, stderr = wgemm(t, "bench", "--shapes", "64x64x128", "--compare", "auto,naive", "--json")
	var b benchReport
	if err := json.Unmarshal([]byte(stdout), &b); err != nil || code != 0 || !b.Points[0].Tuned || b.Points[1].Tuned || !strings.HasPrefix(b.Points[0].Variant, "gemm_block/BM=32") {
		t.Errorf("bench: exit %d, %v: %+v, %s", code, err, b.Points, stderr)
	}
	pathA, pathB, _, _ := matrices(t, 64, 64, 128, false, false)
	out := filepath.Join(t.TempDir(), "c.npy")
	for flag, want := range map[string]bool{"--no-tuning=false": true, "--no-tuning": false} {
		code, stdout, stderr := wgemm(t, "run", pathA, pathB, "-o", out, "--check", flag)
		if code != 0 || strings.Contains(stdout, tunedMark) != want {
			t.Errorf("run %s: exit %d: %s%s", flag, code, stdout, stderr)
		}
	}
	exported := filepath.Join(t.TempDir(), "tuning.txt")
	for _, step := range []struct {
		args  []string
		tuned bool // afterwards
	}{{[]string{"--export", exported}, true}, {[]string{"--clear"}, false}, {[]string{"--import", exported}, true}} {
		if code, _, stderr := wgemm(t, append([]string{"tune"}, step.args...)...); code != 0 {
			t.Errorf("tune %v: exit %d: %s", step.args, code, stderr)
		}
		plan(step.tuned)
	}
	// Over the limits of the device, the planner's choice is taken.
	if err := store.save(a, tuningOf(t, "1x64x64x128 f32 f32 rows4 rows4\tgemm_tiled/BM=4096,BN=4096,TM=8,TN=8\n")); err != nil {
		t.Fatal(err)
	}
	plan(false)
	// So is it, with a notice, where the variable is mistyped.
	t.Setenv("WGEMM_TUNING", "of")
	if code, _, stderr := wgemm(t, "run", pathA, pathB, "-o", out, "--device", open.Driver().Name()); code != 0 || !strings.Contains(stderr, `WGEMM_TUNING is "of", want off`) {
		t.Errorf("WGEMM_TUNING=of: exit %d: %s", code, stderr)
	}
	t.Setenv("WGEMM_TUNING", "")
	// A file that is not one is ignored, with one notice.
	for _, text := range []string{"{}", tuning.Head(gpu.Adapter{Name: "another"})} {
		if err := os.WriteFile(store.path(a), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := wgemm(t, "run", pathA, pathB, "-o", out, "--device", open.Driver().Name())
		if code != 0 || !strings.Contains(stdout, "GFLOP/s") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "wgemm: note: tuning is ignored: ") {
			t.Errorf("with %q: exit %d: %s%s", text, code, stdout, stderr)
		}
		if code, _, stderr := wgemm(t, "tune", "--import", store.path(a)); code != exitUsage || !strings.Contains(stderr, "--import: ") {
			t.Errorf("import of %q: exit %d: %s", text, code, stderr)
		}
	}
}

// Where nothing can be kept tune says so at once, and all else works.
func TestTuneWithoutFolder(t *testing.T) {
	runtimetest.Open(t, open.Driver())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cacheIn(t, file)
	code, stdout, stderr := wgemm(t, "tune", "--shapes", "8", "--device", open.Driver().Name())
	if last := strings.Split(strings.TrimSpace(stderr), "\n"); code != exitUsage || stdout != "" || !strings.Contains(last[len(last)-1], "no tuning can be kept: ") {
		t.Errorf("tune: exit %d: %s%s", code, stdout, stderr)
	}
	a, b, _, _ := matrices(t, 4, 4, 4, false, false)
	code, stdout, stderr = wgemm(t, "run", a, b, "-o", filepath.Join(t.TempDir(), "c.npy"), "--check")
	if code != 0 || !strings.Contains(stdout, "right") {
		t.Errorf("run: exit %d: %s%s", code, stdout, stderr)
	}
}

func TestTuneWrongUse(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"--budget 0":           "--budget 0s: want more than 0",
		"--budget -3s":         "--budget -3s",
		"--budget soon":        "budget",
		"--shapes 0":           "--shapes",
		"--preset big":         `--preset "big"`,
		"--dtype f64":          `--dtype "f64"`,
		"--export x --clear":   "export",
		"--clear --sizes 8":    "clear",
		"--device cpu":         "--device cpu: the CPU path has nothing to tune",
		"more":                 `unexpected argument "more"`,
		"--import no/such.txt": "no/such.txt",
		"--export no/such.txt": "--export: open no/such.txt: ",
	} {
		if strings.Contains(flags, "such.txt") {
			runtimetest.Open(t, open.Driver())
		}
		code, stdout, stderr := wgemm(t, append([]string{"tune"}, strings.Fields(flags)...)...)
		if last := strings.Split(strings.TrimSpace(stderr), "\n"); code != exitUsage || stdout != "" || !strings.Contains(last[len(last)-1], want) {
			t.Errorf("%s: exit %d: %s%s", flags, code, stdout, stderr)
		}
	}
}

func TestTuneInterrupted(t *testing.T) {
	runtimetest.Open(t, open.Driver())
	cacheIn(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	var out bytes.Buffer
	start := time.Now()
	if code := run(ctx, []string{"tune", "--shapes", "64", "--budget", "10m"}, &out, &out); code != exitFailed || !strings.HasSuffix(out.String(), interrupted+"\n") || time.Since(start) > time.Minute {
		t.Errorf("exit %d after %v: %s", code, time.Since(start), out.String())
	}
}
