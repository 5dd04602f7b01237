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
extern void *wgpuDeviceCreateCommandEncoder(WGPUDevice, void const *descriptor);
extern void *wgpuCommandEncoderBeginComputePass(void *encoder, void const *descriptor);
extern void *wgpuCommandEncoderFinish(void *encoder, void const *descriptor);
extern void wgpuCommandEncoderRelease(void *encoder);
extern void wgpuCommandBufferRelease(void *commands);
extern void wgpuComputePassEncoderSetPipeline(void *pass, void *pipeline);
extern void wgpuComputePassEncoderSetBindGroup(void *pass, uint32_t index, void *group, size_t offsets, uint32_t const *);
extern void wgpuComputePassEncoderDispatchWorkgroups(void *pass, uint32_t x, uint32_t y, uint32_t z);
extern void wgpuComputePassEncoderEnd(void *pass);
extern void wgpuComputePassEncoderRelease(void *pass);
extern void wgpuQueueSubmit(void *queue, size_t count, void *const *commands);

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

// drain waits for the queue to be empty, for some polls from the given one on,
// and tells whether it is. It does not let wgpu-core wait: after 5 seconds that
// takes a submission that still runs for done, and frees what it uses.
static bool drain(void *device, int polls) {
	for (int end = polls + 16; polls < end; polls++) {
		if (wgpuDevicePoll(device, false, NULL))
			return true;
		rest(polls);
	}
	return false;
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

// A command is a dispatch, by the handles of its pipeline and bind group.
typedef struct {
	void *pipeline, *group;
	uint32_t grid[3];
} command;

// submit submits the commands as one compute pass, unless an error then is in
// the sink, which was empty: a submit that does not validate ends the process.
static void submit(void *device, void *queue, sink *s, command const *cs, size_t count) {
	void *encoder = wgpuDeviceCreateCommandEncoder(device, NULL);
	if (atomic_load(&s->type) == 0) {
		void *pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
		for (size_t i = 0; i < count; i++) {
			if (i == 0 || cs[i].pipeline != cs[i - 1].pipeline)
				wgpuComputePassEncoderSetPipeline(pass, cs[i].pipeline);
			if (i == 0 || cs[i].group != cs[i - 1].group)
				wgpuComputePassEncoderSetBindGroup(pass, 0, cs[i].group, 0, NULL);
			wgpuComputePassEncoderDispatchWorkgroups(pass, cs[i].grid[0], cs[i].grid[1], cs[i].grid[2]);
		}
		wgpuComputePassEncoderEnd(pass);
		wgpuComputePassEncoderRelease(pass);
		void *commands = wgpuCommandEncoderFinish(encoder, NULL);
		if (atomic_load(&s->type) == 0)
			wgpuQueueSubmit(queue, 1, &commands);
		wgpuCommandBufferRelease(commands);
	}
	wgpuCommandEncoderRelease(encoder);
}
*/
import "C"

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	gpu "github.com/wgemm/wgemm/runtime"
)

// handles are the C handles inside a wgpu.Buffer: its device and itself. The
// module is archived and pinned, so the layout stays; TestHandles and
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

// drain waits until all submitted work has ended, or ctx has.
func drain(ctx context.Context, d *wgpu.Device) error {
	for polls := 0; !C.drain(handle(d), C.int(polls)); polls += 16 {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// An errorSink takes the errors of one device that nothing else takes, such as
// being out of memory; wgpu-native would end the process over them. It lives
// in C memory, which the device points to, until free.
type errorSink struct{ c *C.sink }

func watch(d *wgpu.Device) errorSink { return errorSink{C.watch(handle(d))} }

// err returns the first error since the last call.
func (s errorSink) err() error {
	if atomic.LoadInt32((*int32)(unsafe.Pointer(s.c))) == 0 { // its first field; a call of C takes longer
		return nil
	}
	switch t := wgpu.ErrorType(C.take(s.c)); t {
	case wgpu.ErrorType_Validation:
		return fmt.Errorf("wgpu: %w: %s", gpu.ErrInvalid, C.GoString(&s.c.message[0]))
	case wgpu.ErrorType_OutOfMemory:
		return fmt.Errorf("wgpu: %w: %s", gpu.ErrOutOfMemory, C.GoString(&s.c.message[0]))
	case wgpu.ErrorType_DeviceLost:
		return fmt.Errorf("wgpu: %w: %s", gpu.ErrDeviceLost, C.GoString(&s.c.message[0]))
	default:
		return fmt.Errorf("wgpu: %v: %s", t, C.GoString(&s.c.message[0]))
	}
}

func (s errorSink) free() { C.free(unsafe.Pointer(s.c)) }

// A command is a dispatch as C reads it.
type command = C.command

func newCommand(p *wgpu.ComputePipeline, g *wgpu.BindGroup, grid [3]uint32) command {
	return command{
		pipeline: *(*unsafe.Pointer)(unsafe.Pointer(p)),
		group:    *(*unsafe.Pointer)(unsafe.Pointer(g)),
		grid:     [3]C.uint32_t{C.uint32_t(grid[0]), C.uint32_t(grid[1]), C.uint32_t(grid[2])},
	}
}

// submit submits commands, at least one. The sink, which is empty, then has what
// went wrong.
func submit(d *wgpu.Device, q *wgpu.Queue, s errorSink, cs []command) {
	queue := (*[2]unsafe.Pointer)(unsafe.Pointer(q))[1]
	C.submit(handle(d), queue, s.c, &cs[0], C.size_t(len(cs)))
}
