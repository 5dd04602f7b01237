//go:build js

// Command peers gives peers.mjs wgemm's engine on navigator.gpu, so that its
// products can be measured in turn with those of others, in one process. It sets
// globalThis.wgemm to an object of asynchronous functions:
//
//	prepare(dtype, batch, m, n, k, a, b)  uploads bytes; resolves to the variant's name
//	run(count)                            multiplies, with one wait at the end
//	read()                                resolves to the bytes of C
//	close()                               frees the matrices
package main

import (
	"context"
	"fmt"
	"syscall/js"
	"unsafe"

	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/runtime/open"
)

func main() {
	p := &peer{}
	js.Global().Set("wgemm", map[string]any{
		"prepare": promise(p.prepare),
		"run":     promise(p.run),
		"read":    promise(p.read),
		"close":   promise(p.close),
	})
	select {}
}

// promise makes a function of JavaScript that resolves to what f returns.
func promise(f func(ctx context.Context, args []js.Value) (any, error)) js.Func {
	return js.FuncOf(func(_ js.Value, args []js.Value) any {
		return js.Global().Get("Promise").New(js.FuncOf(func(_ js.Value, settle []js.Value) any {
			go func() {
				value, err := f(context.Background(), args)
				if err != nil {
					settle[1].Invoke(js.Global().Get("Error").New(err.Error()))
					return
				}
				settle[0].Invoke(value)
			}()
			return nil
		}))
	})
}

// A peer is one product at a time on one engine.
type peer struct {
	engine  *gemm.Engine // opened by the first prepare
	plan    gemm.Plan
	a, b, c *gemm.DeviceMatrix
}

func (p *peer) prepare(ctx context.Context, args []js.Value) (any, error) {
	if p.engine == nil {
		dev, _, err := open.Device(ctx, "")
		if err != nil {
			return nil, err
		}
		p.engine = gemm.New(dev)
	}
	batch, m, n, k := args[1].Int(), args[2].Int(), args[3].Int(), args[4].Int()
	var dtype gemm.DType
	var upload func(rows, cols int, bytes js.Value) (*gemm.DeviceMatrix, error)
	switch name := args[0].String(); name {
	case gemm.F32.String():
		dtype, upload = gemm.F32, uploader[float32](ctx, p.engine, batch)
	case gemm.F16.String():
		dtype, upload = gemm.F16, uploader[float16.Float16](ctx, p.engine, batch)
	default:
		return nil, fmt.Errorf("no products of %s", name)
	}
	var err error
	if p.a, err = upload(m, k, args[5]); err != nil {
		return nil, err
	}
	if p.b, err = upload(k, n, args[6]); err != nil {
		return nil, err
	}
	if p.c, err = p.engine.NewBatch(dtype, batch, m, n); err != nil {
		return nil, err
	}
	p.plan, err = p.engine.Plan(p.c, p.a, p.b)
	return p.plan.Name(), err
}

// uploader uploads batches of matrices from bytes of JavaScript.
func uploader[T gemm.Element](ctx context.Context, e *gemm.Engine, batch int) func(int, int, js.Value) (*gemm.DeviceMatrix, error) {
	return func(rows, cols int, bytes js.Value) (*gemm.DeviceMatrix, error) {
		host := gemm.NewBatch[T](batch, rows, cols, nil)
		js.CopyBytesToGo(bytesOf(host.Data), bytes)
		return e.Upload(ctx, host)
	}
}

func bytesOf[T gemm.Element](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

func (p *peer) run(ctx context.Context, args []js.Value) (any, error) {
	for range args[0].Int() {
		if err := p.engine.Run(ctx, p.plan, p.c, p.a, p.b); err != nil {
			return nil, err
		}
	}
	return nil, p.engine.Wait(ctx)
}

func (p *peer) read(ctx context.Context, _ []js.Value) (any, error) {
	if p.c.DType() == gemm.F16 {
		return download[float16.Float16](ctx, p.engine, p.c)
	}
	return download[float32](ctx, p.engine, p.c)
}

func download[T gemm.Element](ctx context.Context, e *gemm.Engine, m *gemm.DeviceMatrix) (any, error) {
	host := gemm.NewBatch[T](m.Batch(), m.Rows(), m.Cols(), nil)
	if err := e.Download(ctx, host, m); err != nil {
		return nil, err
	}
	bytes := bytesOf(host.Data)
	out := js.Global().Get("Uint8Array").New(len(bytes))
	js.CopyBytesToJS(out, bytes)
	return out, nil
}

func (p *peer) close(context.Context, []js.Value) (any, error) {
	for _, m := range []*gemm.DeviceMatrix{p.a, p.b, p.c} {
		if m != nil {
			if err := m.Close(); err != nil {
				return nil, err
			}
		}
	}
	p.a, p.b, p.c = nil, nil, nil
	return nil, nil
}
