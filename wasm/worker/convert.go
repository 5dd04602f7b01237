//go:build js

package main

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"syscall/js"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/matfile"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

// A message is one to the page, with the fields of its type.
type message struct {
	ID      int      `json:"id"`
	Type    string   `json:"type"`
	Kernels []kernel `json:"kernels"`
	Value   any      `json:"value"`
	Error   *failure `json:"error"`
}

// post sends a message. Slices of bytes in it are copied once, to arrays that
// then belong to the page.
func post(m message) {
	var c converter
	converted := c.toJS(m)
	js.Global().Call("postMessage", converted, c.moved)
}

type converter struct {
	moved []any // the memory of the arrays of bytes
}

// toJS converts a value to what js.ValueOf takes: structs to objects with the
// names in their json tags, in their order, and slices to arrays; slices of
// bytes to a Uint8Array. (encoding/json would add 0.1 MB to the first load, and
// has no infinities.)
func (c *converter) toJS(x any) any {
	if x == nil {
		return nil
	}
	v := reflect.ValueOf(x)
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return c.toJS(v.Elem().Interface())
	case reflect.Struct:
		object := js.Global().Get("Object").New()
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			object.Set(name, c.toJS(v.Field(i).Interface()))
		}
		return object
	case reflect.Slice, reflect.Array:
		if b, ok := x.([]byte); ok {
			array := js.Global().Get("Uint8Array").New(len(b))
			js.CopyBytesToJS(array, b)
			c.moved = append(c.moved, array.Get("buffer"))
			return array
		}
		array := make([]any, v.Len())
		for i := range array {
			array[i] = c.toJS(v.Index(i).Interface())
		}
		return array
	case reflect.String:
		return v.String()
	case reflect.Uint64: // beyond 2^53 a neighbor, as all numbers of JavaScript
		return float64(v.Uint())
	default:
		return x
	}
}

// bytesOf copies a Uint8Array.
func bytesOf(v js.Value) []byte {
	b := make([]byte, v.Get("length").Int())
	js.CopyBytesToGo(b, v)
	return b
}

// A fieldError says which of the page's controls an error belongs to.
type fieldError struct {
	field string
	err   error
}

func (e *fieldError) Error() string { return e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// at is err at a control, or nil for nil.
func at(field string, err error) error {
	if err == nil {
		return nil
	}
	return &fieldError{field, err}
}

// A failure is an error as the page gets it.
type failure struct {
	Kind  string `json:"kind"`  // what the page can do about it: see describe
	Field string `json:"field"` // the control it belongs to, or ""
	Text  string `json:"text"`
	What  string `json:"what"` // of a limit: what asked for it
	Limit string `json:"limit"`
	Need  uint64 `json:"need"`
	Have  uint64 `json:"have"`
}

func describe(err error) failure {
	f := failure{Kind: "failed", Text: strings.TrimPrefix(err.Error(), "gemm: ")}
	if fe, ok := errors.AsType[*fieldError](err); ok {
		f.Field = fe.field
	}
	var (
		limit  *gpu.LimitError
		format *matfile.FormatError
		shape  *gemm.ShapeError
		param  *wgsl.ParamError
	)
	switch {
	case errors.Is(err, context.Canceled):
		f.Kind = "canceled"
	case errors.Is(err, gpu.ErrDeviceLost):
		f.Kind = "lost"
	case errors.Is(err, gpu.ErrOutOfMemory):
		f.Kind = "memory"
	case errors.Is(err, gpu.ErrNoAdapter):
		f.Kind = "no-adapter"
	case errors.Is(err, gpu.ErrUnsupported):
		f.Kind = "no-webgpu"
		if secure := js.Global().Get("isSecureContext"); secure.Type() == js.TypeBoolean && !secure.Bool() {
			f.Kind = "insecure"
		}
	case errors.As(err, &limit):
		f.Kind, f.What, f.Limit, f.Need, f.Have = "limit", limit.What, limit.Limit, limit.Need, limit.Have
	case errors.As(err, &format), errors.As(err, &shape), errors.As(err, &param):
		f.Kind = "input"
	}
	return f
}
