//go:build !js

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/wgemm/wgemm/wasm"
)

// served starts the server on a free port and returns its address, a function
// that ends it as Ctrl-C does, and what it said on stderr.
func served(t *testing.T, addr string) (url string, end func() error, stderr *strings.Builder) {
	t.Helper()
	handler, err := wasm.Handler(fstest.MapFS{"index.html": {Data: []byte("the page")}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	stderr = &strings.Builder{}
	go func() { ended <- serve(ctx, addr, handler, write, stderr) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(10 * time.Second):
			return errors.New("it goes on after Ctrl-C")
		}
	}, stderr
}

func TestServe(t *testing.T) {
	t.Parallel()
	url, end, stderr := served(t, "127.0.0.1:0")
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("printed %q, want an address", url)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(body) != "the page" {
		t.Errorf("got %q, %v", body, err)
	}

	// Its address is in use now.
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	err = serve(t.Context(), addr, http.NotFoundHandler(), io.Discard, io.Discard)
	if err == nil || status(err) != exitFailed || err.Error() != "serve on "+addr+": address already in use" {
		t.Errorf("an address in use: %v, exit %d", err, status(err))
	}
	if err := end(); err != nil || stderr.Len() > 0 {
		t.Errorf("Ctrl-C: %v, stderr %q", err, stderr)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("it still listens")
	}
}

func TestServeElsewhere(t *testing.T) {
	t.Parallel()
	url, end, stderr := served(t, ":0")
	if err := end(); err != nil || !strings.HasPrefix(url, "http://localhost:") || !strings.Contains(stderr.String(), "https") {
		t.Errorf("address %q, stderr %q, %v", url, stderr, err)
	}
	for _, addr := range []string{"8080", "127.0.0.1:x", "127.0.0.1:99999"} {
		err := serve(t.Context(), addr, http.NotFoundHandler(), io.Discard, io.Discard)
		if err == nil || status(err) != exitUsage || strings.Contains(err.Error(), "\n") {
			t.Errorf("--addr %s: %v, exit %d, want %d", addr, err, status(err), exitUsage)
		}
	}
}

// A build without the page says so in one line; one with it serves until Ctrl-C.
func TestServePage(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr strings.Builder
	code := run(ctx, []string{"serve", "--addr", "127.0.0.1:0"}, &stdout, &stderr)
	if _, err := wasm.Page(); err != nil {
		if code != exitFailed || stdout.Len() > 0 || stderr.String() != "wgemm: "+wasm.ErrNotBuilt.Error()+"\n" {
			t.Errorf("without the page: exit %d: %s%s", code, &stdout, &stderr)
		}
	} else if code != exitDone || !strings.HasPrefix(stdout.String(), "http://127.0.0.1:") || stderr.Len() > 0 {
		t.Errorf("with the page: exit %d: %s%s", code, &stdout, &stderr)
	}
}
