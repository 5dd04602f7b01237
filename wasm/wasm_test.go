package wasm

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"
)

func TestHandler(t *testing.T) {
	t.Parallel()
	page := fstest.MapFS{
		"index.html":    {Data: []byte("<!doctype html>")},
		"wgemm.wasm":    {Data: []byte("program")},
		"wgemm.wasm.br": {Data: []byte("brotli")},
		"wgemm.wasm.gz": {Data: []byte("gzip")},
		".gitkeep":      {},
	}
	handler, err := Handler(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, method, path, accept string
		status                     int
		body, contentType          string
		encoding                   string
	}{
		{"root", "GET", "/", "gzip", 200, "<!doctype html>", "text/html; charset=utf-8", ""},
		{"plain", "GET", "/wgemm.wasm", "", 200, "program", "application/wasm", ""},
		{"brotli first", "GET", "/wgemm.wasm", "gzip, deflate, br", 200, "brotli", "application/wasm", "br"},
		{"only gzip", "GET", "/wgemm.wasm", "gzip;q=0.5", 200, "gzip", "application/wasm", "gzip"},
		{"refused", "GET", "/wgemm.wasm", "br;q=0, gzip; q=0.0", 200, "program", "application/wasm", ""},
		{"another", "GET", "/wgemm.wasm", "zstd, brotli", 200, "program", "application/wasm", ""},
		{"head", "HEAD", "/wgemm.wasm", "br", 200, "", "application/wasm", "br"},
		{"compressed by name", "GET", "/wgemm.wasm.br", "", 404, "404 page not found\n", "text/plain; charset=utf-8", ""},
		{"the placeholder", "GET", "/.gitkeep", "", 404, "404 page not found\n", "text/plain; charset=utf-8", ""},
		{"absent", "GET", "/other.js", "", 404, "404 page not found\n", "text/plain; charset=utf-8", ""},
		{"post", "POST", "/", "", 405, "only GET and HEAD\n", "text/plain; charset=utf-8", ""},
	} {
		r := httptest.NewRequest(tc.method, tc.path, nil)
		r.Header.Set("Accept-Encoding", tc.accept)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		body, err := io.ReadAll(w.Result().Body)
		h := w.Header()
		if err != nil || w.Code != tc.status || string(body) != tc.body || h.Get("Content-Type") != tc.contentType || h.Get("Content-Encoding") != tc.encoding {
			t.Errorf("%s: %d, %q of %q, encoding %q, %v", tc.name, w.Code, body, h.Get("Content-Type"), h.Get("Content-Encoding"), err)
		}
		if w.Code != http.StatusOK {
			continue
		}
		if h.Get("Vary") != "Accept-Encoding" || h.Get("Cache-Control") != "no-cache" || h.Get("Cross-Origin-Embedder-Policy") != "require-corp" {
			t.Errorf("%s: headers %v", tc.name, h)
		}
		// The same file again is not sent again.
		r.Header.Set("If-None-Match", h.Get("ETag"))
		w = httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusNotModified {
			t.Errorf("%s: %d for what the browser has, want %d", tc.name, w.Code, http.StatusNotModified)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	if _, err := pageIn(fstest.MapFS{"dist/.gitkeep": {}}); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("a fresh clone: %v, want %v", err, ErrNotBuilt)
	}
	page, err := pageIn(fstest.MapFS{"dist/index.html": {Data: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := fs.ReadFile(page, "index.html"); err != nil || string(data) != "x" {
		t.Errorf("got %q, %v", data, err)
	}
}
