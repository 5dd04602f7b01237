//go:build js

// Command worker computes for the page, in a Web Worker, so that nothing it
// does keeps the page from answering. The page and the worker send messages:
//
//	to the worker    {id, kind, ...}               a request; the kinds are in handlers
//	                 {id, kind: "cancel"}          end the request of that id
//	to the page      {type: "ready", kernels}      once, before the first request
//	                 {id, type: "progress", value} any number of times
//	                 {id, type: "result", value}   or
//	                 {id, type: "error", error}    last, for each request
package main

import (
	"context"
	"fmt"
	"sync"
	"syscall/js"
	"time"

	"github.com/wgemm/wgemm/gemm"
	gpu "github.com/wgemm/wgemm/runtime"
)

func main() {
	s := &session{
		engine: gemm.NewCPU(),
		turn:   make(chan struct{}, 1),
		cancel: map[int]context.CancelFunc{},
	}
	js.Global().Set("onmessage", js.FuncOf(func(_ js.Value, args []js.Value) any {
		s.receive(args[0].Get("data"))
		return nil
	}))
	post(message{Type: "ready", Kernels: kernels()})
	select {}
}

// A session is the state of the worker.
type session struct {
	turn    chan struct{} // holds a token while a request computes: one at a time
	engine  *gemm.Engine  // changed by the holder of the turn
	adapter *gpu.Adapter  // nil on the CPU path
	tuning  gemm.Tuning   // the engine's

	mu     sync.Mutex
	cancel map[int]context.CancelFunc // of the requests that run
}

// A request is a message of the page.
type request struct {
	id   int
	data js.Value
}

func (r request) text(name string) string { return r.data.Get(name).String() }
func (r request) int(name string) int     { return r.data.Get(name).Int() }
func (r request) bool(name string) bool   { return r.data.Get(name).Bool() }

func (r request) progress(value any) {
	post(message{ID: r.id, Type: "progress", Value: value})
}

// phase tells what is being done.
func (r request) phase(name string) {
	r.progress(struct {
		Phase string `json:"phase"`
	}{name})
}

type handler func(*session, context.Context, request) (any, error)

// handlers compute; the names are the kinds of request.
var handlers = map[string]handler{
	"open":        (*session).open,
	"inspect":     (*session).inspect,
	"multiply":    (*session).multiply,
	"walk":        (*session).walk,
	"examples":    (*session).examples,
	"masks":       (*session).masks,
	"accumulator": (*session).accumulator,
	"benchmark":   (*session).benchmark,
	"tuning":      (*session).takeTuning,
	"tune":        (*session).tune,
}

// untimed are the kinds that use no engine, and so need no turn.
var untimed = map[string]bool{"inspect": true, "walk": true}

func (s *session) receive(data js.Value) {
	r := request{data.Get("id").Int(), data}
	kind := r.text("kind")
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == "cancel" {
		if cancel, ok := s.cancel[r.id]; ok {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel[r.id] = cancel
	go func() {
		value, err := s.handle(ctx, kind, r)
		s.mu.Lock()
		delete(s.cancel, r.id)
		s.mu.Unlock()
		cancel()
		if err != nil {
			f := describe(err)
			post(message{ID: r.id, Type: "error", Error: &f})
			return
		}
		post(message{ID: r.id, Type: "result", Value: value})
	}()
}

func (s *session) handle(ctx context.Context, kind string, r request) (value any, err error) {
	handle, ok := handlers[kind]
	if !ok {
		return nil, fmt.Errorf("no request of kind %q", kind)
	}
	// What a JavaScript function throws is a panic here. One request may fail
	// of it; the others go on.
	defer func() {
		if thrown := recover(); thrown != nil {
			err = fmt.Errorf("unexpected: %v", thrown)
		}
	}()
	if !untimed[kind] {
		select {
		case s.turn <- struct{}{}:
		default:
			r.phase("waiting for what else is computed")
			select {
			case s.turn <- struct{}{}:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		defer func() { <-s.turn }()
	}
	return handle(s, ctx, r)
}

// A pace is kept by loops that compute on the CPU: Go runs on the worker's
// only thread, and until it rests no message, not even a cancel, arrives.
type pace struct{ rested time.Time }

func (p *pace) keep(ctx context.Context) error {
	if time.Since(p.rested) > 50*time.Millisecond {
		time.Sleep(time.Millisecond)
		p.rested = time.Now()
	}
	return ctx.Err()
}
