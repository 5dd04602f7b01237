//go:build cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64))

package wgpu

import (
	"errors"
	"sync"
	"testing"
	"unsafe"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/wgemm/wgemm/runtime/runtimetest"
)

func TestConformance(t *testing.T) { runtimetest.Run(t, Driver{}) }

// native.go takes two C handles out of a wgpu.Buffer and one out of a
// wgpu.Device.
func TestBufferLayout(t *testing.T) {
	if size, want := unsafe.Sizeof(wgpu.Buffer{}), 2*unsafe.Sizeof(uintptr(0)); size != want {
		t.Errorf("a wgpu.Buffer has %d bytes, want %d", size, want)
	}
	if size, want := unsafe.Sizeof(wgpu.Device{}), unsafe.Sizeof(uintptr(0)); size != want {
		t.Errorf("a wgpu.Device has %d bytes, want %d", size, want)
	}
	dev := runtimetest.Open(t, Driver{}).(*device)
	b, err := dev.NewBuffer("layout", 4)
	if err != nil {
		t.Fatal(err)
	}
	first, second := handles(b.(*buffer).ref)
	if first != handle(dev.dev) {
		t.Error("the first handle of a buffer is not its device's")
	}
	if second == nil || second == first {
		t.Error("the second handle of a buffer is not its own")
	}
}

// Devices come and go, several at a time, each with work just done: the last one
// to close must not take the drivers away from under another thread.
func TestOpenAndCloseInParallel(t *testing.T) {
	runtimetest.Open(t, Driver{}) // skips without an adapter
	adapters, err := Driver{}.Adapters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				dev, err := Driver{}.Open(t.Context(), adapters[0])
				if err != nil {
					t.Error(err)
					return
				}
				b, err := dev.NewBuffer("test", 1<<20)
				if err == nil {
					err = errors.Join(b.Write(0, make([]byte, 1<<20)), b.Read(t.Context(), 0, make([]byte, 4)))
				}
				if err := errors.Join(err, dev.Close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
