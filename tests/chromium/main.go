//go:build !js

// Command chromium runs a Go js/wasm program in a headless Chromium with
// WebGPU, as go test's -exec:
//
//	go build -o tests/chromium/chromium ./tests/chromium
//	GOOS=js GOARCH=wasm go test -exec="$PWD/tests/chromium/chromium" ./runtime/browser
//
// The program has no file system: it embeds its test data. Its output is
// streamed and its exit status is the command's.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed page.html
var page []byte

const (
	// defaultTimeout is go test's.
	defaultTimeout = 10 * time.Minute
	// grace is how much longer than its own time-out a test may take before it
	// is given up: Go reports that time-out itself, with all goroutines.
	grace = 20 * time.Second
	// maxEnvironment is the most that Go's js/wasm programs get of arguments
	// and environment.
	maxEnvironment = 8 << 10
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: chromium PROGRAM.wasm [ARGUMENT]...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	status, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chromium:", err)
		status = 1
	}
	os.Exit(status)
}

// run runs the program argv[0] and returns its exit status.
func run(parent context.Context, argv []string) (int, error) {
	address, err := serve(argv)
	if err != nil {
		return 0, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, // the page is our own, and containers have no sandbox to offer
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("enable-unsafe-webgpu", true), // the one that gives a software adapter
	)
	ctx, cancel := chromedp.NewExecAllocator(parent, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()

	type end struct {
		status int
		err    error
	}
	ended := make(chan end, 1)
	finish := func(e end) {
		select {
		case ended <- e:
		default: // the first end counts
		}
	}
	err = chromedp.Listen(ctx, func(event any) {
		switch event := event.(type) {
		case *runtime.EventBindingCalled:
			var m message
			if err := json.Unmarshal([]byte(event.Payload), &m); err != nil {
				finish(end{err: err})
				return
			}
			switch {
			case m.Exit != nil:
				finish(end{status: *m.Exit})
			case m.Fail != "":
				finish(end{err: errors.New(m.Fail)})
			case m.FD == 2:
				fmt.Fprint(os.Stderr, m.Text)
			default:
				fmt.Print(m.Text)
			}
		case *runtime.EventConsoleAPICalled:
			fmt.Fprintf(os.Stderr, "console.%s:", event.Type)
			for _, arg := range event.Args {
				fmt.Fprint(os.Stderr, " ", cmp.Or(arg.Description, string(arg.Value)))
			}
			fmt.Fprintln(os.Stderr)
		case *inspector.EventTargetCrashed:
			finish(end{err: errors.New("the page crashed")})
		}
	})
	if err != nil {
		return 0, fmt.Errorf("start Chromium: %w", err)
	}
	if _, err := chromedp.Call(ctx, runtime.AddBinding, runtime.AddBindingParams{Name: "tell"}); err != nil {
		return 0, err
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		return 0, err
	}

	limit := timeout(argv)
	select {
	case e := <-ended:
		return e.status, e.err
	case <-ctx.Done():
		if cause := context.Cause(parent); cause != nil {
			return 0, cause
		}
		return 0, errors.New("the browser ended")
	case <-time.After(limit):
	}
	// Goroutines that cannot run again are printed; a page that computes for ever
	// does not answer.
	reporting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, _ = chromedp.Run(reporting, chromedp.Evaluate[any]("reportDeadlock()"))
	return 0, fmt.Errorf("no end after %v", limit)
}

// A message is what the page tells: output, or one of two ends.
type message struct {
	FD   int
	Text string
	Exit *int
	Fail string
}

// serve serves the page and the program argv[0] on this machine until the
// command ends, and returns the page's address.
func serve(argv []string) (string, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	program, err := json.Marshal(map[string]any{"argv": argv, "env": environment(argv)})
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		// An isolated page has clocks of 5 µs rather than 100 µs.
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		w.Write(page)
	})
	mux.HandleFunc("/program.json", func(w http.ResponseWriter, _ *http.Request) { w.Write(program) })
	for path, file := range map[string]string{
		"/program.wasm": argv[0],
		"/wasm_exec.js": filepath.Join(strings.TrimSpace(string(goroot)), "lib", "wasm", "wasm_exec.js"),
	} {
		contentType := map[string]string{".wasm": "application/wasm", ".js": "text/javascript"}[filepath.Ext(path)]
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			http.ServeFile(w, r, file)
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go http.Serve(listener, mux)
	return "http://" + listener.Addr().String() + "/", nil
}

var passed = regexp.MustCompile(`^(GO.*|WGEMM_.*|HOME|PATH|PWD|TMPDIR|CI|TERM)$`)

// environment returns the variables that tests may need, as far as they fit
// beside the arguments; the longest are left out first.
func environment(argv []string) map[string]string {
	room := maxEnvironment
	size := func(s string) int { return len(s) + 16 } // its end, alignment and a pointer
	for _, arg := range argv {
		room -= size(arg)
	}
	all := os.Environ()
	slices.SortStableFunc(all, func(a, b string) int { return len(a) - len(b) })
	env := map[string]string{}
	for _, pair := range all {
		name, value, _ := strings.Cut(pair, "=")
		if passed.MatchString(name) && size(pair) <= room {
			room -= size(pair)
			env[name] = value
		}
	}
	return env
}

// timeout returns when a program with these arguments is given up.
func timeout(argv []string) time.Duration {
	limit := defaultTimeout
	for _, arg := range argv {
		if value, ok := strings.CutPrefix(arg, "-test.timeout="); ok {
			if d, err := time.ParseDuration(value); err == nil && d > 0 {
				limit = d
			}
		}
	}
	return limit + grace
}
