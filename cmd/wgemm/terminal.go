package main

import (
	"fmt"
	"io"
	"os"

	"github.com/fatih/color"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// isTerminal reports whether w is a terminal that moves its cursor.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// A style colours text, or leaves it as it is.
type style struct{ title, wrong, right, dim *color.Color }

// newStyle colours on a terminal, unless NO_COLOR is set.
func newStyle(w io.Writer) style {
	s := style{color.New(color.Bold), color.New(color.FgRed, color.Bold), color.New(color.FgGreen), color.New(color.Faint)}
	for _, c := range []*color.Color{s.title, s.wrong, s.right, s.dim} {
		if isTerminal(w) && os.Getenv("NO_COLOR") == "" {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
	}
	return s
}

// phases tells on a terminal what is being done; elsewhere only notes.
type phases struct {
	w   io.Writer
	bar *progressbar.ProgressBar // nil without a terminal, and once done
}

func newPhases(w io.Writer) *phases {
	p := &phases{w: w}
	if isTerminal(w) {
		p.bar = progressbar.NewOptions(-1,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSpinnerType(14),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetElapsedTime(true),
		)
	}
	return p
}

// next names the phase that begins.
func (p *phases) next(phase string) {
	if p.bar != nil {
		p.bar.Describe(phase)
	}
}

// note prints a line, "" for none, that stays.
func (p *phases) note(text string) {
	if text == "" {
		return
	}
	if p.bar != nil {
		// Only a broken terminal makes it fail, and then there is nobody to tell.
		_ = p.bar.Clear()
	}
	fmt.Fprintln(p.w, "wgemm: note:", text)
}

// line tells elsewhere than on a terminal what was done, for logs.
func (p *phases) line(text string) {
	if p.bar == nil {
		fmt.Fprintln(p.w, text)
	}
}

// done takes the line away. Calling it twice is allowed.
func (p *phases) done() {
	if p.bar != nil {
		_ = p.bar.Finish() // as in note
		p.bar = nil
	}
}
