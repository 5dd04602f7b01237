//go:build !js

package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// What go test prints is counted, failures are shown whole and skips with
// their reasons.
func TestRead(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"output","Package":"github.com/wgemm/wgemm/gemm","Test":"TestA","Output":"    a_test.go:7: adapter: Card X\n"}
{"Action":"pass","Package":"github.com/wgemm/wgemm/gemm","Test":"TestA"}
{"Action":"output","Package":"github.com/wgemm/wgemm/gemm","Test":"TestB","Output":"    b_test.go:9: no device to test on\n"}
{"Action":"skip","Package":"github.com/wgemm/wgemm/gemm","Test":"TestB"}
{"Action":"output","Package":"github.com/wgemm/wgemm/gemm","Test":"TestC","Output":"    c_test.go:1: got 1, want 2\n"}
{"Action":"fail","Package":"github.com/wgemm/wgemm/gemm","Test":"TestC"}
{"Action":"fail","Package":"github.com/wgemm/wgemm/gemm","Elapsed":1.5}
`
	r := result{name: "dawn"}
	var out strings.Builder
	r.read(strings.NewReader(events), &out)
	r.err = errors.New("1 tests failed")
	if r.passed != 1 || r.failed != 1 || r.skipped != 1 || r.adapter != "Card X" {
		t.Errorf("counted %+v", r)
	}
	if got := out.String(); !strings.Contains(got, "got 1, want 2") || !strings.Contains(got, "FAIL  gemm  1.5 s") {
		t.Errorf("printed %q", got)
	}
	out.Reset()
	err := table([]result{r, {name: "chromium", err: errors.New("is missing")}}, &out)
	if err == nil || !strings.Contains(err.Error(), "chromium: is missing") {
		t.Errorf("error %v", err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"dawn Card X 3 1 1 1", "chromium none 0 0 0 0",
		"skipped on dawn: gemm TestB: no device to test on", "1 passed, 2 failed, 1 skipped",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestNarrowVectorsHaveTheirOwnCache(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("LocalAppData", home)
	own := slices.IndexFunc(narrowVectors(), func(v string) bool {
		folder, ok := strings.CutPrefix(v, "MESA_SHADER_CACHE_DIR="+home)
		return ok && folder != ""
	})
	if own < 0 {
		t.Errorf("%q: no MESA_SHADER_CACHE_DIR in %s", narrowVectors(), home)
	}
	t.Setenv("HOME", "")
	t.Setenv("LocalAppData", "")
	if env := narrowVectors(); !slices.Contains(env, "MESA_SHADER_CACHE_DISABLE=true") {
		t.Errorf("without a home: %q, want the cache disabled", env)
	}
}
