// Package wgpu is the native driver: wgpu-native 0.17 through
// github.com/rajveermalviya/go-webgpu, which needs cgo and carries the library
// for linux/amd64, darwin and windows/amd64. In other builds the package is
// empty and runtime/open has no native driver.
//
// Four faults of the two libraries are kept away from callers here. A map
// callback of go-webgpu hands C a pointer into Go memory that nothing keeps
// alive, so mapping is done by a few lines of C (native.go). A submit that
// does not validate ends the process, so everything is checked in Go first
// (runtime's Check functions), and what went wrong nevertheless is not submitted
// (native.go). A wait frees what is still in use after 5 seconds,
// so waiting is polling (native.go). And out-of-memory errors end the process unless
// a callback takes them (native.go).
package wgpu
