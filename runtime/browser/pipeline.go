//go:build js

package browser

import (
	"context"
	"encoding/binary"
	"strings"
	"syscall/js"

	gpu "github.com/wgemm/wgemm/runtime"
)

// maxGroups is how many bind groups a device keeps. A loop over some sets of
// buffers finds its own again; making one takes about 0.1 ms.
const maxGroups = 1024

// Pipeline is a GPUComputePipeline.
type Pipeline struct {
	device   *Device
	shader   gpu.Shader
	pipeline js.Value
	layout   *layout
	closed   bool // guarded by device.mu
}

// A layout is what pipelines with the same bindings share, and with it their
// bind groups.
type layout struct {
	id              uint64
	group, pipeline js.Value
}

var _ gpu.Pipeline = (*Pipeline)(nil)

// NewPipeline compiles the shader.
func (d *Device) NewPipeline(ctx context.Context, s gpu.Shader) (gpu.Pipeline, error) {
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	if err := d.adapter.CheckShader(s); err != nil {
		return nil, err
	}
	p := &Pipeline{device: d, shader: s}

	var module js.Value
	refused := d.scoped(ctx, func() {
		module = d.device.Call("createShaderModule", map[string]any{"label": s.Label, "code": s.Source})
		p.layout = d.layout(s.Bindings)
	})
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	if module.Truthy() {
		info, err := d.await(ctx, module.Call("getCompilationInfo"))
		if err != nil {
			return nil, err
		}
		if err := compileError(s.Label, info.Get("messages")); err != nil {
			return nil, err
		}
	}
	if refused != nil {
		return nil, &gpu.ShaderError{Label: s.Label, Message: firstLine(refused.Error())}
	}

	var err error
	p.pipeline, err = d.await(ctx, d.device.Call("createComputePipelineAsync", map[string]any{
		"label":   s.Label,
		"layout":  p.layout.pipeline,
		"compute": map[string]any{"module": module, "entryPoint": s.Entry},
	}))
	if stop := d.check(ctx); stop != nil {
		return nil, stop
	}
	if err != nil {
		return nil, &gpu.ShaderError{Label: s.Label, Message: firstLine(err.Error())}
	}
	return p, nil
}

// layout returns the layout of bindings. There are so few that the device keeps
// them all. The caller holds mu.
func (d *Device) layout(bindings []gpu.Binding) *layout {
	types := [...]string{gpu.Uniform: "uniform", gpu.ReadOnly: "read-only-storage", gpu.ReadWrite: "storage"}
	key := make([]byte, len(bindings))
	entries := make([]any, len(bindings))
	for i, b := range bindings {
		key[i] = byte(b)
		entries[i] = map[string]any{
			"binding":    i,
			"visibility": stageCompute,
			"buffer":     map[string]any{"type": types[b]},
		}
	}
	if l, ok := d.layouts[string(key)]; ok {
		return l
	}
	l := &layout{id: uint64(len(d.layouts)), group: d.device.Call("createBindGroupLayout", map[string]any{"entries": entries})}
	l.pipeline = d.device.Call("createPipelineLayout", map[string]any{"bindGroupLayouts": []any{l.group}})
	d.layouts[string(key)] = l
	return l
}

// compileError returns the first error among the compiler's messages, or nil.
func compileError(label string, messages js.Value) error {
	for i := range messages.Length() {
		if m := messages.Index(i); m.Get("type").String() == "error" {
			return &gpu.ShaderError{Label: label, Line: m.Get("lineNum").Int(), Message: firstLine(m.Get("message").String())}
		}
	}
	return nil
}

// firstLine is the part of a message that says what is wrong. What follows is
// where the implementation was when it found out.
func firstLine(message string) string {
	line, _, _ := strings.Cut(message, "\n")
	return line
}

// group returns the bind group of the buffers. The caller holds mu.
func (d *Device) group(l *layout, buffers []gpu.Buffer) js.Value {
	var room [64]byte
	key := binary.LittleEndian.AppendUint64(room[:0], l.id)
	for _, b := range buffers {
		key = binary.LittleEndian.AppendUint64(key, b.(*Buffer).id)
	}
	if g, ok := d.groups[string(key)]; ok {
		return g
	}
	entries := make([]any, len(buffers))
	for i, b := range buffers {
		entries[i] = map[string]any{"binding": i, "resource": map[string]any{"buffer": b.(*Buffer).buffer}}
	}
	g := d.device.Call("createBindGroup", map[string]any{"layout": l.group, "entries": entries})
	if len(d.groups) == maxGroups {
		// Groups of closed buffers are among them: ids are not used again.
		clear(d.groups)
	}
	d.groups[string(key)] = g
	return g
}

// Close drops the pipeline, which queued work holds on to by itself.
func (p *Pipeline) Close() error {
	p.device.mu.Lock()
	defer p.device.mu.Unlock()
	p.closed = true
	return nil
}
