package runtime

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// Pipelines keeps the pipelines of one device, so that each shader is compiled
// once. It holds at most max of them and closes the one unused for longest
// when another is needed. It is safe for concurrent use.
type Pipelines struct {
	dev Device
	max int

	mu    sync.Mutex
	byKey map[pipelineKey]*list.Element
	order list.List // of *cached, most recently used first
}

// A pipelineKey is not one string, which would be made anew for each use.
type pipelineKey struct{ label, source string }

type cached struct {
	key      pipelineKey
	pipeline Pipeline
}

// NewPipelines returns an empty cache of at most max pipelines on dev, which
// stays the caller's to close, after the cache.
func NewPipelines(dev Device, max int) *Pipelines {
	return &Pipelines{dev: dev, max: max, byKey: map[pipelineKey]*list.Element{}}
}

// Use calls f with the pipeline of s, which is compiled if need be. The
// pipeline is f's until f returns, and no other call of Use runs meanwhile.
// Shaders are told apart by label and source.
func (c *Pipelines) Use(ctx context.Context, s Shader, f func(Pipeline) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := pipelineKey{s.Label, s.Source}
	if e, ok := c.byKey[key]; ok {
		c.order.MoveToFront(e)
		return f(e.Value.(*cached).pipeline)
	}
	p, err := c.dev.NewPipeline(ctx, s)
	if err != nil {
		return err
	}
	c.byKey[key] = c.order.PushFront(&cached{key, p})
	if c.order.Len() > c.max {
		last := c.order.Remove(c.order.Back()).(*cached)
		delete(c.byKey, last.key)
		if err := last.pipeline.Close(); err != nil {
			return err
		}
	}
	return f(p)
}

// Len is the number of pipelines held.
func (c *Pipelines) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}

// Close closes all pipelines. The cache can be used again.
func (c *Pipelines) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for e := c.order.Front(); e != nil; e = e.Next() {
		errs = append(errs, e.Value.(*cached).pipeline.Close())
	}
	c.order.Init()
	clear(c.byKey)
	return errors.Join(errs...)
}
