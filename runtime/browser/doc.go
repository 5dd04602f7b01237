// Package browser is the driver over navigator.gpu, for Go programs built with
// GOOS=js GOARCH=wasm: in a page, in a worker, and in Node with Dawn's WebGPU.
//
// Nothing in it blocks the event loop: a call that must wait parks its
// goroutine until the promise settles. So call it from a goroutine, never
// straight from a js.Func. Data crosses between the Go heap and JavaScript by
// copies through arrays of JavaScript's own, since a view on WASM memory is
// detached when that memory grows.
//
// On other platforms the package is empty.
package browser
