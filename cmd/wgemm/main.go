// Command wgemm multiplies matrices on a GPU. Run wgemm help for its use.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/matfile"
	gpu "github.com/wgemm/wgemm/runtime"
	"github.com/wgemm/wgemm/wgsl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	done := make(chan int, 1)
	go func() { done <- run(ctx, os.Args[1:], os.Stdout, os.Stderr) }()
	select {
	case code := <-done:
		os.Exit(code)
	case <-ctx.Done():
	}
	select {
	case code := <-done:
		os.Exit(code)
	case <-time.After(grace):
		fmt.Fprintln(os.Stderr, interrupted)
		os.Exit(exitFailed)
	}
}

// grace is how long an interrupted command may take to clean up. A dispatch
// that runs on a device, or a read from a pipe, cannot be called back.
const grace = time.Second

const interrupted = "wgemm: interrupted"

// Exit statuses, as the help lists them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitDiffers  = 3
	exitNoDevice = 4
)

const exitHelp = `EXIT STATUS
  0  done
  1  failed
  2  wrong use or wrong input
  3  results differ
  4  no such device`

// run is main without the process around it: it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, interrupted)
		return exitFailed
	}
	fmt.Fprintln(stderr, "wgemm:", err)
	return status(err)
}

// A usageError is wrong use of the command: exit status 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errDiffers says that a result is outside its error bound: exit status 3.
var errDiffers = errors.New("results differ")

func status(err error) int {
	var (
		usage  usageError
		format *matfile.FormatError
		shape  *gemm.ShapeError
		param  *wgsl.ParamError
	)
	switch {
	case errors.Is(err, errDiffers):
		return exitDiffers
	case errors.Is(err, gpu.ErrNoAdapter), errors.Is(err, gpu.ErrUnsupported):
		return exitNoDevice
	case errors.As(err, &usage), errors.As(err, &format), errors.As(err, &shape), errors.As(err, &param),
		errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return exitUsage
	default:
		return exitFailed
	}
}

// checkOutput asks before long work whether the file of a flag can be written. It
// leaves nothing behind.
func checkOutput(flag, path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice) != 0 {
		return nil // the reader of a pipe would take closing it for the end
	}
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		err = f.Close()
	}
	if err == nil && isNew {
		err = os.Remove(path)
	}
	if err != nil {
		return usagef("%s: %w", flag, err)
	}
	return nil
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "wgemm",
		Short: "Multiply matrices on the GPU, through WebGPU",
		Long: `wgemm multiplies matrices on the GPU, through WebGPU: on any graphics card
with a Vulkan, Metal or Direct3D 12 driver, on a software adapter, or on the CPU.`,
		Example: `  wgemm run a.npy b.npy -o c.npy     multiply two files
  wgemm info                         what it would run on, and why
  wgemm demo                         the blocked matrix product, step by step`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// cobra checks this too, later, and its error would not be wrong use.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.ValidateFlagGroups(); err != nil { // which are of flags that exclude each other
				_, set, _ := strings.Cut(err.Error(), "; [")
				set, _, _ = strings.Cut(set, "]")
				return usagef("--%s: want one of them", strings.ReplaceAll(set, " ", " and --"))
			}
			return nil
		},
	}
	root.SetOut(stdout) // before completion is made, which keeps it
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text := err.Error()
		if number, ok := errors.AsType[*strconv.NumError](err); ok {
			text = strings.Replace(text, number.Error(), wanted(number), 1)
		}
		return usagef("%s (%s --help lists the flags)", text, cmd.CommandPath())
	})
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(newRunCmd(), newInfoCmd(), newDemoCmd(), newBenchCmd(), newPlanCmd(), newTuneCmd(), newVerifyCmd(), newServeCmd(), newVersionCmd())
	root.SetUsageTemplate(root.UsageTemplate() + "\n" + exitHelp + "\n")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() { // cobra's own print help for a command that there is not, and succeed
		case "help":
			c.Args = existing(root)
		case "completion":
			c.RunE = root.RunE
		}
	}
	wrongUse(root)
	return root
}

// wanted says of the value of a flag what it is not.
func wanted(err *strconv.NumError) string {
	switch {
	case err.Func == "ParseBool":
		return "want true or false"
	case errors.Is(err, strconv.ErrRange):
		return "out of range"
	case err.Func == "ParseFloat":
		return "want a number"
	case err.Func == "ParseUint":
		return "want a whole number from 0 on"
	}
	return "want a whole number"
}

// existing checks that arguments name a command.
func existing(root *cobra.Command) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("unknown command %q for %q", rest[0], found.CommandPath())
		}
		return err
	}
}

// wrongUse makes errors about the arguments of a command, and of those below it,
// wrong use.
func wrongUse(c *cobra.Command) {
	if c.Args != nil {
		c.Args = wrongArgs(c.Args)
	}
	for _, below := range c.Commands() {
		wrongUse(below)
	}
}

// wrongArgs makes errors about arguments wrong use.
func wrongArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case cmd.HasSubCommands() || cmd.Name() == "help" || strings.Contains(err.Error(), "arg(s)"):
			err = errors.New(strings.Replace(err.Error(), "arg(s)", "arguments", 1))
		default: // cobra takes an argument too many for a command
			err = fmt.Errorf("unexpected argument %q", args[0])
		}
		return usagef("%w (%s --help shows the use)", err, cmd.CommandPath())
	}
}
