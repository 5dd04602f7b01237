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

	mu      sync.Mutex
	byLabel map[string]*list.Element
	order   list.List // of *cached, most recently used first
}

type cached struct {
	shader   Shader
	pipeline Pipeline
}

// NewPipelines returns an empty cache of at most max pipelines on dev, which
// stays the caller's to close, after the cache.
func NewPipelines(dev Device, max int) *Pipelines {
	return &Pipelines{dev: dev, max: max, byLabel: map[string]*list.Element{}}
}

// Use calls f with the pipelines of the shaders, which are compiled if need be.
// They are f's until f returns, and no other call of Use runs meanwhile. A label
// names one source: a shader with another takes the place of the one before.
func (c *Pipelines) Use(ctx context.Context, f func(...Pipeline) error, shaders ...Shader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pipelines := make([]Pipeline, len(shaders))
	for i, s := range shaders {
		var err error
		if pipelines[i], err = c.get(ctx, s); err != nil {
			return err
		}
	}
	for c.order.Len() > max(c.max, len(shaders)) {
		if err := c.drop(c.order.Back()); err != nil {
			return err
		}
	}
	return f(pipelines...)
}

func (c *Pipelines) get(ctx context.Context, s Shader) (Pipeline, error) {
	if e, ok := c.byLabel[s.Label]; ok {
		if kept := e.Value.(*cached); kept.shader.Source == s.Source {
			c.order.MoveToFront(e)
			return kept.pipeline, nil
		}
		if err := c.drop(e); err != nil {
			return nil, err
		}
	}
	p, err := c.dev.NewPipeline(ctx, s)
	if err != nil {
		return nil, err
	}
	c.byLabel[s.Label] = c.order.PushFront(&cached{s, p})
	return p, nil
}

func (c *Pipelines) drop(e *list.Element) error {
	last := c.order.Remove(e).(*cached)
	delete(c.byLabel, last.shader.Label)
	return last.pipeline.Close()
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
	clear(c.byLabel)
	return errors.Join(errs...)
}
