// Package wasm holds the page that multiplies matrices in a visitor's browser,
// as `make web` builds it: its files (page) and the Go program that computes
// for them (worker).
package wasm

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed all:dist
var dist embed.FS

// ErrNotBuilt says that this program was built without the page.
var ErrNotBuilt = errors.New("this build holds no page: run `make web`, then `make build`")

// Page returns the files of the page, or ErrNotBuilt.
func Page() (fs.FS, error) {
	return pageIn(dist)
}

func pageIn(files fs.FS) (fs.FS, error) {
	page, err := fs.Sub(files, "dist")
	if err != nil {
		return nil, err
	}
	if _, err := fs.Stat(page, "index.html"); err != nil {
		return nil, ErrNotBuilt
	}
	return page, nil
}

// contentTypes are given here, since those of the system may be others or
// none, and a browser runs no script and no program of another type.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".wasm": "application/wasm",
}

// A file is one of the page, as it is and compressed.
type file struct {
	contentType string
	encodings   []encoding // by preference; the last is the file as it is
}

type encoding struct {
	name string // in Content-Encoding; "" for the file as it is
	data []byte
	etag string
}

// Handler serves the files of a page. A file NAME with NAME.br or NAME.gz
// beside it is sent compressed to those who accept that.
func Handler(page fs.FS) (http.Handler, error) {
	files := map[string]file{}
	entries, err := fs.ReadDir(page, ".")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		contentType, ok := contentTypes[path.Ext(entry.Name())]
		if !ok {
			continue
		}
		f := file{contentType: contentType}
		for _, e := range []struct{ name, ending string }{{"br", ".br"}, {"gzip", ".gz"}, {"", ""}} {
			data, err := fs.ReadFile(page, entry.Name()+e.ending)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			f.encodings = append(f.encodings, encoding{e.name, data, fmt.Sprintf(`"%x"`, sha256.Sum256(data))})
		}
		files[entry.Name()] = f
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		f, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		f.serve(w, r)
	}), nil
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	e := f.encodings[len(f.encodings)-1]
	for _, offered := range f.encodings[:len(f.encodings)-1] {
		if accepts(r.Header.Get("Accept-Encoding"), offered.name) {
			e = offered
			break
		}
	}
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", e.etag)
	h.Set("Cache-Control", "no-cache") // kept, and asked about each time: names stay when contents change
	h.Set("X-Content-Type-Options", "nosniff")
	// An isolated page has clocks of 5 µs rather than 100 µs.
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Embedder-Policy", "require-corp")
	if e.name != "" {
		h.Set("Content-Encoding", e.name)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(e.data))
}

// accepts reports whether a header Accept-Encoding names an encoding and does
// not give it the weight 0.
func accepts(header, encoding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), encoding) {
			continue
		}
		weight, given := strings.CutPrefix(strings.TrimSpace(params), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		return !given || err != nil || q > 0
	}
	return false
}
