//go:build cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64))

package wgpu

/*
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <sched.h>
#include <time.h>
#endif

// The part of webgpu.h of wgpu-native 0.17 that is called here. go-webgpu
// links the library and keeps its header to itself.
typedef struct WGPUBufferImpl *WGPUBuffer;
typedef struct WGPUDeviceImpl *WGPUDevice;
typedef void (*WGPUBufferMapCallback)(int status, void *userdata);
typedef void (*WGPUErrorCallback)(int type, char const *message, void *userdata);
extern void wgpuBufferMapAsync(WGPUBuffer, uint32_t mode, size_t offset, size_t size, WGPUBufferMapCallback, void *userdata);
extern bool wgpuDevicePoll(WGPUDevice, bool wait, void const *index);
extern void wgpuDeviceSetUncapturedErrorCallback(WGPUDevice, WGPUErrorCallback, void *userdata);

static void mapped(int status, void *done) { atomic_store((atomic_int *)done, status + 1); }

// rest passes the time between two polls: briefly at first, for the latency of
// short work, then for 50 microseconds, for the processor.
static void rest(int polls) {
#ifdef _WIN32
	Sleep(polls < 500 ? 0 : 1);
#else
	if (polls < 500) {
		sched_yield();
	} else {
		struct timespec t = {0, 50000};
		nanosleep(&t, NULL);
	}
#endif
}

// drain waits until the queue is empty. It polls and does not let wgpu-core
// wait: after 5 seconds that takes a submission that still runs for done, and
// frees what it uses.
static void drain(void *device) {
	for (int polls = 0; !wgpuDevicePoll(device, false, NULL); polls++)
		rest(polls);
}

// map_read maps for reading, waits, and returns the status. The flag that the
// callback sets is on the C stack, out of the garbage collector's reach.
static int map_read(void *device, void *buffer, size_t size) {
	atomic_int done = 0;
	wgpuBufferMapAsync(buffer, 1, 0, size, mapped, &done);
	for (int polls = 0; atomic_load(&done) == 0; polls++) {
		wgpuDevicePoll(device, false, NULL);
		rest(polls);
	}
	return atomic_load(&done) - 1;
}

// A sink keeps the first error that no error scope took.
typedef struct {
	atomic_int type;
	char message[512];
} sink;

static void uncaptured(int type, char const *message, void *userdata) {
	sink *s = userdata;
	if (atomic_load(&s->type) != 0)
		return;
	strncpy(s->message, message ? message : "", sizeof s->message - 1);
	atomic_store(&s->type, type);
}

static sink *watch(void *device) {
	sink *s = calloc(1, sizeof *s);
	if (s)
		wgpuDeviceSetUncapturedErrorCallback(device, uncaptured, s);
	return s;
}

static int take(sink *s) { return atomic_exchange(&s->type, 0); }
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	gpu "github.com/wgemm/wgemm/runtime"
)

// handles are the C handles inside a wgpu.Buffer: its device and itself. The
// module is archived and pinned, so the layout stays; TestBufferLayout and
// every read check it.
func handles(b *wgpu.Buffer) (device, buffer unsafe.Pointer) {
	h := (*[2]unsafe.Pointer)(unsafe.Pointer(b))
	return h[0], h[1]
}

// handle is the C handle inside a wgpu.Device.
func handle(d *wgpu.Device) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(d)) }

// mapRead maps the first size bytes of a MapRead buffer and waits for it, and
// with it for all work submitted before.
func mapRead(b *wgpu.Buffer, size int) error {
	device, buffer := handles(b)
	if status := C.map_read(device, buffer, C.size_t(size)); status != 0 {
		return fmt.Errorf("wgpu: mapping for reading: %v", wgpu.BufferMapAsyncStatus(status))
	}
	return nil
}

// drain waits until all submitted work has ended.
func drain(d *wgpu.Device) { C.drain(handle(d)) }

// An errorSink takes the errors of one device that nothing else takes, such as
// being out of memory; wgpu-native would end the process over them. It lives
// in C memory, which the device points to, until free.
type errorSink struct{ c *C.sink }

func watch(d *wgpu.Device) errorSink { return errorSink{C.watch(handle(d))} }

// err returns the first error since the last call.
func (s errorSink) err() error {
	switch t := wgpu.ErrorType(C.take(s.c)); t {
	case wgpu.ErrorType_NoError:
		return nil
	case wgpu.ErrorType_OutOfMemory:
		return fmt.Errorf("wgpu: %w: %s", gpu.ErrOutOfMemory, C.GoString(&s.c.message[0]))
	case wgpu.ErrorType_DeviceLost:
		return fmt.Errorf("wgpu: %w: %s", gpu.ErrDeviceLost, C.GoString(&s.c.message[0]))
	default:
		return fmt.Errorf("wgpu: %v: %s", t, C.GoString(&s.c.message[0]))
	}
}

func (s errorSink) free() { C.free(unsafe.Pointer(s.c)) }
