package main

import (
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/internal/verify"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

// bug is a case of internal/verify/testdata/cases.json.
func bug(t *testing.T, id string) verify.Bug {
	t.Helper()
	i := slices.IndexFunc(verify.Bugs(), func(b verify.Bug) bool { return b.ID == id })
	if i < 0 {
		t.Fatalf("no case %s", id)
	}
	return verify.Bugs()[i]
}

// layout is how a .npy file holds a matrix.
type layout struct {
	descr   string // "<f4", ">f4", "<f2"
	version byte   // 0 is 1
	fortran bool
	shape   string // "" is "(rows, cols)"
}

// file is the bytes of a .npy file with the values of f.
func (l layout) file(rows, cols int, f func(i, j int) float64) string {
	order, shape, version := "False", l.shape, max(l.version, 1)
	if l.fortran {
		order = "True"
	}
	if shape == "" {
		shape = fmt.Sprintf("(%d, %d)", rows, cols)
	}
	begin := 10
	if version > 1 {
		begin = 12
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", l.descr, order, shape)
	header += strings.Repeat(" ", 63-(begin+len(header))%64) + "\n"
	b := append([]byte("\x93NUMPY"), version, 0)
	if version > 1 {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	}
	b = append(b, header...)
	for n := range rows * cols {
		i, j := n/cols, n%cols
		if l.fortran {
			i, j = n%rows, n/rows
		}
		v := float32(f(i, j))
		switch l.descr {
		case "<f4":
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		case ">f4":
			b = binary.BigEndian.AppendUint32(b, math.Float32bits(v))
		default:
			b = binary.LittleEndian.AppendUint16(b, uint16(float16.Fromfloat32(v)))
		}
	}
	return string(b)
}

// The cases of public bug reports that are about files, through the command:
// right products of every layout, and refusals that name the file, what was
// found and what is wanted.
func TestFileCases(t *testing.T) {
	t.Parallel()
	little := layout{descr: "<f4"}
	for _, tc := range []struct {
		id, name         string
		layoutA, layoutB layout
	}{
		{"H46", "Fortran A", layout{descr: "<f4", fortran: true}, little},
		{"H46", "Fortran A and B", layout{descr: "<f4", fortran: true}, layout{descr: "<f4", fortran: true}},
		{"H47", "versions 2 and 3", layout{descr: "<f4", version: 2}, layout{descr: "<f4", version: 3}},
		{"H48", "no dimension", layout{descr: "<f4", shape: "()"}, little},
		{"H48", "one dimension", layout{descr: "<f4", shape: "(1,)"}, little},
		{"H49", "big-endian A", layout{descr: ">f4"}, little},
		{"H50", "as it should be", little, little},
	} {
		b := bug(t, tc.id)
		dir := t.TempDir()
		path := func(name string) string { return filepath.Join(dir, name) }
		write(t, path("a.npy"), tc.layoutA.file(b.M, b.K, func(i, kk int) float64 { return b.ValueA(0, i, kk) }))
		write(t, path("b.npy"), tc.layoutB.file(b.K, b.N, func(kk, j int) float64 { return b.ValueB(0, kk, j) }))
		if code, _, stderr := wgemm(t, "run", path("a.npy"), path("b.npy"), "-o", path("c.npy"), "--device", cpuName); code != 0 {
			t.Errorf("%s, %s: exit %d: %s", tc.id, tc.name, code, stderr)
			continue
		}
		spots(t, b, readFile(t, path("c.npy"), b.M, b.N))
	}

	h50, h51 := bug(t, "H50"), bug(t, "H51")
	whole := little.file(h50.M, h50.K, func(i, kk int) float64 { return h50.ValueA(0, i, kk) })
	start := len(whole) - 4*h50.M*h50.K
	for _, tc := range []struct {
		id, name, file, text string
		want                 []string // parts of the message; nil where the file is right
	}{
		{"H48", "four dimensions", "a.npy", layout{descr: "<f4", shape: "(1, 1, 8, 8)"}.file(8, 8, func(int, int) float64 { return 1 }), []string{"4 dimensions", "want"}},
		{"H50", "cut in the data", "a.npy", whole[:start+100], []string{"100 bytes", "want 256"}},
		{"H50", "cut in the header", "a.npy", whole[:40], []string{"want"}},
		{"H50", "empty", "a.npy", "", []string{"empty file", "want"}},
		{"H50", "4 bytes too many", "a.npy", whole + "more", []string{"260 bytes", "want 256"}},
		{"H51", "commas", "a.csv", "1,1.5\n2,2.5", nil},
		{"H51", "byte order mark, CRLF and quotes", "a.csv", "\xef\xbb\xbf\"1\",\"1.5\"\r\n2,2.5\r\n", nil},
		{"H51", "decimal commas", "a.csv", "1;1,5\n2;2,5", []string{`"1;1"`, "want"}},
		{"H51", "ragged", "a.csv", "1,1.5\n2", []string{"line 2 ends before column 2", "want"}},
		{"H51", "an empty value", "a.csv", "1,\n2,2.5", []string{"line 1, column 2", "no value", "want"}},
		{"H51", "a comment", "a.csv", "# values\n1,1.5\n2,2.5", []string{"line 1, column 1", "# values", "want"}},
		{"H51", ".npy by another name", "a.csv", whole, []string{"line 1, column 1", "NUMPY", "want"}},
	} {
		dir := t.TempDir()
		a, b, c := filepath.Join(dir, tc.file), filepath.Join(dir, "b.csv"), filepath.Join(dir, "c.npy")
		write(t, a, tc.text)
		write(t, b, "1,1\n1,1\n")
		code, stdout, stderr := wgemm(t, "run", a, b, "-o", c, "--device", cpuName)
		if tc.want == nil {
			if code != 0 {
				t.Errorf("%s, %s: exit %d: %s", tc.id, tc.name, code, stderr)
				continue
			}
			spots(t, h51, readFile(t, c, 2, 2))
			continue
		}
		if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s, %s: exit %d, stdout %q, stderr %q", tc.id, tc.name, code, stdout, stderr)
		}
		for _, part := range append(tc.want, tc.file) {
			if !strings.Contains(stderr, part) {
				t.Errorf("%s, %s: stderr %q lacks %q", tc.id, tc.name, stderr, part)
			}
		}
		if _, err := os.Stat(c); err == nil {
			t.Errorf("%s, %s: an output file was left", tc.id, tc.name)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// spots compares a result with the right values of a case.
func spots(t *testing.T, b verify.Bug, c []float64) {
	t.Helper()
	if len(b.Spots) == 0 {
		t.Errorf("%s has no right values", b.ID)
	}
	for _, s := range b.Spots {
		i, j, want := int(s[0]), int(s[1]), float64(s[2])
		if got := c[i*b.N+j]; got != want {
			t.Errorf("%s: C[%d, %d] is %v, want %v", b.ID, i, j, got, want)
		}
	}
}

// A file that the command writes is what NumPy's format asks for.
func TestOutputOfCase52(t *testing.T) {
	t.Parallel()
	b := bug(t, "H52")
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	half := layout{descr: "<f2"}
	write(t, path("a.npy"), half.file(b.M, b.K, func(i, kk int) float64 { return b.ValueA(0, i, kk) }))
	write(t, path("b.npy"), half.file(b.K, b.N, func(kk, j int) float64 { return b.ValueB(0, kk, j) }))
	if code, _, stderr := wgemm(t, "run", path("a.npy"), path("b.npy"), "-o", path("out.npy"), "--device", cpuName); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	data, err := os.ReadFile(path("out.npy"))
	if err != nil {
		t.Fatal(err)
	}
	if string(data[:8]) != "\x93NUMPY\x01\x00" {
		t.Fatalf("the file begins with %q", data[:8])
	}
	start := 10 + int(binary.LittleEndian.Uint16(data[8:]))
	header := string(data[10:start])
	for _, part := range []string{"'descr': '<f2'", "'fortran_order': False", "'shape': (10, 4)"} {
		if !strings.Contains(header, part) {
			t.Errorf("the header %q lacks %s", header, part)
		}
	}
	if start%64 != 0 || !strings.HasSuffix(header, "\n") || len(data) != start+80 {
		t.Errorf("data start at %d of %d bytes, the header ends with %q", start, len(data), header[len(header)-1:])
	}
	values := make([]float64, b.M*b.N)
	for i := range values {
		values[i] = float64(float16.Float16(binary.LittleEndian.Uint16(data[start+2*i:])).Float32())
	}
	spots(t, b, values)
}

// A software adapter that nobody asked for by name is worth one line on stderr,
// and only there.
func TestSoftwareAdapterIsNamed(t *testing.T) {
	t.Parallel()
	adapter := runtimetest.Open(t, open.Driver()).Adapter()
	if adapter.Type != gpu.Software || os.Getenv("WGEMM_DEVICE") != "" {
		runtimetest.Skip(t, "software", "not on a software adapter by choice of auto: run it where there is no GPU, without WGEMM_DEVICE")
	}
	b := bug(t, "H44")
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	little := layout{descr: "<f4"}
	write(t, path("a.npy"), little.file(b.M, b.K, func(i, kk int) float64 { return b.ValueA(0, i, kk) }))
	write(t, path("b.npy"), little.file(b.K, b.N, func(kk, j int) float64 { return b.ValueB(0, kk, j) }))
	code, stdout, stderr := wgemm(t, "run", path("a.npy"), path("b.npy"), "-o", path("c.npy"), "--json")
	if code != 0 || !json.Valid([]byte(stdout)) {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
	if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "is a software adapter") || !strings.Contains(stderr, adapter.Name) {
		t.Errorf("stderr %q is not one line that names %q", stderr, adapter.Name)
	}
	spots(t, b, readFile(t, path("c.npy"), b.M, b.N))
}

// wgemm verify tells of right products and of wrong ones, with the command that
// repeats them, to people, programs and build servers.
func TestVerify(t *testing.T) {
	t.Parallel()
	onDevices(t, func(t *testing.T, device string) {
		junit := filepath.Join(t.TempDir(), "verify.xml")
		code, stdout, stderr := wgemm(t, "verify", "--suite", "chapter,int8", "--device", device, "--json", "--junit", junit)
		var r verifyReport
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
			t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
		}
		if len(r.Suites) != 2 || r.Suites[0].Suite != "chapter" || r.Suites[0].Cases != 8 || r.Suites[1].Failed != 0 || r.Suites[1].Ratio != 0 || r.Device != device {
			t.Errorf("report %+v", r)
		}
		if strings.Count(stderr, "\n") != 2 || !strings.HasPrefix(stderr, "chapter: 8 cases, 0 failed, 0 skipped, ") {
			t.Errorf("stderr is not a line per suite: %q", stderr)
		}
		var report junitSuites
		if data, err := os.ReadFile(junit); err != nil || xml.Unmarshal(data, &report) != nil || len(report.Suites) != 2 || report.Suites[0].Tests != 8 || report.Suites[0].Failures != 0 {
			t.Errorf("JUnit: %+v, %v", report, err)
		}
		code, stdout, _ = wgemm(t, "verify", "--shapes", "33x34x35,1x0x5", "--suite", "bf16", "--device", device)
		if code != 0 || !strings.Contains(stdout, "shapes  4") {
			t.Errorf("--shapes: exit %d: %s", code, stdout)
		}
	})
	// A wrong kernel; the command that repeats one failure fails with that alone.
	code, stdout, stderr := wgemm(t, "verify", "--suite", "tiles", "--kernel", "broken/gemm_tiled/RESET_ACC=true;transposed", "--device", cpuName, "--seed", "7")
	if code != exitDiffers || !strings.Contains(stdout, "more failed") || !strings.Contains(stderr, "results differ: ") {
		t.Fatalf("a faulty kernel: exit %d: %s%s", code, stdout, stderr)
	}
	_, repeat, _ := strings.Cut(stdout, "\n  wgemm ")
	repeat, _, _ = strings.Cut(repeat, "\n")
	if !strings.Contains(repeat, " --kernel 'broken/gemm_tiled/RESET_ACC=true;transposed'") {
		t.Errorf("%s: a shell would cut the kernel", repeat)
	}
	code, stdout, _ = wgemm(t, strings.Fields(strings.ReplaceAll(repeat, "'", ""))...)
	if code != exitDiffers || !strings.Contains(stdout, "tiles  1      1") || !strings.Contains(stdout, "seed 7") {
		t.Errorf("%s: exit %d: %s", repeat, code, stdout)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--suite", "tile"}, `--suite "tile": want one of chapter, edges, `},
		{[]string{"--case", "no"}, `--case "no": no such case`},
		{[]string{"--shapes", "3x4"}, `--shapes "3x4": want MxNxK`},
		{[]string{"--shapes", "3x-4x5"}, "want MxNxK"},
		{[]string{"--shapes", "16777216x16777216x1"}, `--shapes "16777216x16777216x1": past 2^32 elements`},
		{[]string{"--shapes", "1x16777216x16777216"}, "past 2^32 elements"},
		{[]string{"--shapes", "16777216x1x16777216"}, "past 2^32 elements"},
		{[]string{"--shapes", "3x4x5", "--suite", "f16,bf16"}, "--suite f16,bf16 with --shapes: want one of f16, bf16, int8"},
		{[]string{"--shapes", "3x4x5", "--suite", "edges"}, "--suite edges with --shapes: want one of"},
		{[]string{"--kernel", "gemm"}, `--kernel "gemm": `},
		{[]string{"--kernel", "gemm_tiled/BM=7"}, "BM % TM"},
		{[]string{"--seed", "-1"}, "--seed"},
		{[]string{"--device", "tpu"}, `--device "tpu"`},
		{[]string{"--junit", filepath.Join(t.TempDir(), "no", "x.xml"), "--suite", "chapter"}, "--junit: "},
	} {
		args := append([]string{"verify"}, tc.args...)
		if !slices.Contains(args, "--device") {
			args = append(args, "--device", cpuName)
		}
		code, stdout, stderr := wgemm(t, args...)
		if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tc.want) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q, want %q", tc.args, code, stdout, stderr, tc.want)
		}
	}
}
