//go:build cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64))

package wgpu

import (
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
