//go:build js

package browser

import (
	"context"
	"fmt"
	"syscall/js"

	gpu "github.com/wgemm/wgemm/runtime"
)

// outcome is what became of a promise.
type outcome struct {
	value js.Value
	err   error
}

// settle returns a channel that gets the outcome of the promise p.
func settle(p js.Value) <-chan outcome {
	settled := make(chan outcome, 1)
	var resolve, reject js.Func
	end := func(o outcome) any {
		settled <- o
		resolve.Release()
		reject.Release()
		return nil
	}
	resolve = js.FuncOf(func(_ js.Value, args []js.Value) any { return end(outcome{value: args[0]}) })
	reject = js.FuncOf(func(_ js.Value, args []js.Value) any { return end(outcome{err: toError(args[0])}) })
	p.Call("then", resolve, reject)
	return settled
}

// await parks the goroutine until the promise p settles or ctx ends.
func await(ctx context.Context, p js.Value) (js.Value, error) {
	select {
	case o := <-settle(p):
		return o.value, o.err
	case <-ctx.Done():
		return js.Undefined(), ctx.Err()
	}
}

// try calls f and returns what a JavaScript function in it throws.
func try(f func()) (err error) {
	defer func() {
		switch thrown := recover().(type) {
		case nil:
		case js.Error:
			err = toError(thrown.Value)
		default:
			panic(thrown)
		}
	}()
	f()
	return nil
}

// toError turns a GPUError, or whatever a promise was rejected with, into the
// error that the contract has for it.
func toError(v js.Value) error {
	if v.Type() != js.TypeObject {
		return fmt.Errorf("WebGPU: %s", v)
	}
	class, message := v.Get("constructor").Get("name").String(), v.Get("message").String()
	switch class {
	case "GPUValidationError":
		return fmt.Errorf("%w: %s", gpu.ErrInvalid, message)
	case "GPUOutOfMemoryError":
		return fmt.Errorf("%w: %s", gpu.ErrOutOfMemory, message)
	}
	return fmt.Errorf("WebGPU: %s: %s", class, message)
}
