//go:build js

package browser

import (
	"context"
	"encoding/binary"
	"strings"
	"syscall/js"

	gpu "github.com/wgemm/wgemm/runtime"
)

// maxGroups is how many bind groups a pipeline keeps. A loop over a few sets
// of buffers finds its own again; making one takes about 0.1 ms.
const maxGroups = 64

// Pipeline is a GPUComputePipeline with the layout of its one bind group.
type Pipeline struct {
	device           *Device
	shader           gpu.Shader
	pipeline, layout js.Value

	closed bool                // guarded by device.mu
	groups map[string]js.Value // by the ids of the buffers; guarded by device.mu
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
	p := &Pipeline{device: d, shader: s, groups: map[string]js.Value{}}

	var module, layout js.Value
	refused := d.scoped(ctx, func() {
		module = d.device.Call("createShaderModule", map[string]any{"label": s.Label, "code": s.Source})
		p.layout = d.device.Call("createBindGroupLayout", map[string]any{"entries": layoutEntries(s.Bindings)})
		layout = d.device.Call("createPipelineLayout", map[string]any{"bindGroupLayouts": []any{p.layout}})
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
		"layout":  layout,
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

func layoutEntries(bindings []gpu.Binding) []any {
	types := map[gpu.Binding]string{gpu.Uniform: "uniform", gpu.ReadOnly: "read-only-storage", gpu.ReadWrite: "storage"}
	entries := make([]any, len(bindings))
	for i, b := range bindings {
		entries[i] = map[string]any{
			"binding":    i,
			"visibility": stageCompute,
			"buffer":     map[string]any{"type": types[b]},
		}
	}
	return entries
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

// group returns the bind group of the buffers. The caller holds device.mu.
func (p *Pipeline) group(buffers []gpu.Buffer) js.Value {
	var room [64]byte
	key := room[:0]
	for _, b := range buffers {
		key = binary.LittleEndian.AppendUint64(key, b.(*Buffer).id)
	}
	if g, ok := p.groups[string(key)]; ok {
		return g
	}
	entries := make([]any, len(buffers))
	for i, b := range buffers {
		entries[i] = map[string]any{"binding": i, "resource": map[string]any{"buffer": b.(*Buffer).buffer}}
	}
	g := p.device.device.Call("createBindGroup", map[string]any{"layout": p.layout, "entries": entries})
	if len(p.groups) == maxGroups {
		// Groups of closed buffers are among them: ids are not used again.
		clear(p.groups)
	}
	p.groups[string(key)] = g
	return g
}

// Close drops the pipeline, which queued work holds on to by itself.
func (p *Pipeline) Close() error {
	p.device.mu.Lock()
	defer p.device.mu.Unlock()
	p.closed = true
	clear(p.groups)
	return nil
}
