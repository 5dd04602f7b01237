//go:build !js

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/wasm"
)

func newServeCmd() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the page that multiplies matrices in the browser",
		Long: `Serve the page that multiplies matrices on the visitor's GPU, in the browser,
with the same kernels. Its address goes to stdout; Ctrl-C ends it.

Browsers give WebGPU only to pages from this machine or over https: to show the
page to other machines, put it behind https or copy the folder that make web
builds to any static host.`,
		Example: `  wgemm serve
  wgemm serve --addr 127.0.0.1:9000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := wasm.Page()
			if err != nil {
				return err
			}
			handler, err := wasm.Handler(page)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), addr, handler, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:8080", "address and port to listen on; port 0 takes a free one")
	return cmd
}

// serve answers until ctx ends, which is no error.
func serve(ctx context.Context, addr string, handler http.Handler, stdout, stderr io.Writer) error {
	if _, err := net.ResolveTCPAddr("tcp", addr); err != nil {
		return usagef("--addr %s: %w", addr, err)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("serve on %s: %w", addr, cause(err))
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		fmt.Fprintln(stderr, "wgemm: note: on other machines browsers give this page no WebGPU unless it comes over https")
	}
	if _, err := fmt.Fprintln(stdout, address(listener)); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}

// address is where a browser on this machine finds the page.
func address(listener net.Listener) string {
	at := listener.Addr().(*net.TCPAddr)
	host := at.IP.String()
	if at.IP.IsUnspecified() {
		host = "localhost"
	}
	return fmt.Sprintf("http://%s/", net.JoinHostPort(host, fmt.Sprint(at.Port)))
}

// cause is what the system says, without the names of Go's functions.
func cause(err error) error {
	if oe, ok := errors.AsType[*net.OpError](err); ok {
		err = oe.Err
	}
	var inner interface{ Unwrap() error }
	if errors.As(err, &inner) && inner.Unwrap() != nil {
		return inner.Unwrap()
	}
	return err
}
