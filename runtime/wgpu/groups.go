//go:build cgo && ((linux && amd64 && !android) || (darwin && !ios) || (windows && amd64))

package wgpu

import (
	"container/list"
	"encoding/binary"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	gpu "github.com/wgemm/wgemm/runtime"
)

// maxGroups bounds the bind groups that a device keeps.
const maxGroups = 1024

// A layout is what pipelines with the same bindings share, and with it their
// bind groups.
type layout struct {
	id       uint64
	group    *wgpu.BindGroupLayout
	pipeline *wgpu.PipelineLayout
}

// layout returns the layout of bindings. There are so few that the device keeps
// them all.
func (d *device) layout(bindings []gpu.Binding) (*layout, error) {
	key := make([]byte, len(bindings))
	entries := make([]wgpu.BindGroupLayoutEntry, len(bindings))
	for i, b := range bindings {
		key[i] = byte(b)
		entries[i] = wgpu.BindGroupLayoutEntry{
			Binding:    uint32(i),
			Visibility: wgpu.ShaderStage_Compute,
			Buffer:     wgpu.BufferBindingLayout{Type: bindingTypes[b]},
		}
	}
	if l, ok := d.layouts[string(key)]; ok {
		return l, nil
	}
	group, err := d.dev.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Entries: entries})
	if err := d.fault(err); err != nil {
		return nil, err
	}
	pipeline, err := d.dev.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{
		BindGroupLayouts: []*wgpu.BindGroupLayout{group},
	})
	if err := d.fault(err); err != nil {
		group.Release()
		return nil, err
	}
	l := &layout{id: uint64(len(d.layouts)), group: group, pipeline: pipeline}
	d.layouts[string(key)] = l
	return l, nil
}

var bindingTypes = [...]wgpu.BufferBindingType{
	gpu.Uniform:   wgpu.BufferBindingType_Uniform,
	gpu.ReadOnly:  wgpu.BufferBindingType_ReadOnlyStorage,
	gpu.ReadWrite: wgpu.BufferBindingType_Storage,
}

func (l *layout) free() {
	l.pipeline.Release()
	l.group.Release()
}

// A group is a bind group. It keeps its buffers' memory alive, so that closing
// one of them drops the group.
type group struct {
	ref     *wgpu.BindGroup
	key     string
	buffers []*buffer
	place   *list.Element // in groups.order
}

// groups keeps the bind groups of a device: making one costs more than all else
// about a dispatch.
type groups struct {
	byKey map[string]*group
	order list.List // of *group, most recently used first
	key   []byte    // room for the key to look up
}

// group returns the bind group of the buffers, which are the device's.
func (d *device) group(l *layout, buffers []gpu.Buffer) (*group, error) {
	c := &d.groups
	c.key = binary.LittleEndian.AppendUint64(c.key[:0], l.id)
	for _, b := range buffers {
		c.key = binary.LittleEndian.AppendUint64(c.key, b.(*buffer).id)
	}
	if g, ok := c.byKey[string(c.key)]; ok {
		c.order.MoveToFront(g.place)
		return g, nil
	}
	g := &group{key: string(c.key), buffers: make([]*buffer, len(buffers))}
	entries := make([]wgpu.BindGroupEntry, len(buffers))
	for i, b := range buffers {
		g.buffers[i] = b.(*buffer)
		entries[i] = wgpu.BindGroupEntry{Binding: uint32(i), Buffer: g.buffers[i].ref, Size: wgpu.WholeSize}
	}
	var err error
	g.ref, err = d.dev.CreateBindGroup(&wgpu.BindGroupDescriptor{Layout: l.group, Entries: entries})
	if err := d.fault(err); err != nil {
		return nil, err
	}
	g.place = c.order.PushFront(g)
	c.byKey[g.key] = g
	for _, b := range g.buffers {
		b.groups[g] = struct{}{}
	}
	if c.order.Len() > maxGroups {
		d.drop(c.order.Back().Value.(*group))
	}
	return g, nil
}

// drop takes a group out of the cache and frees it once no gathered dispatch
// uses it.
func (d *device) drop(g *group) {
	d.groups.order.Remove(g.place)
	delete(d.groups.byKey, g.key)
	for _, b := range g.buffers {
		delete(b.groups, g)
	}
	d.free(g.ref.Release)
}
