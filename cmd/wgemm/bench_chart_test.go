//go:build !js

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestBenchCharts(t *testing.T) {
	t.Parallel()
	onDevices(t, func(t *testing.T, device string) {
		dir := t.TempDir()
		speed, roof := filepath.Join(dir, "speed.svg"), filepath.Join(dir, "roof.PNG")
		args := []string{"bench", "--device", device, "--sizes", "16,8", "--compare", "tiled,cpu", "--plot", speed}
		starts := map[string]string{speed: "<?xml"}
		if device != cpuName {
			args = append(args, "--roofline", roof)
			starts[roof] = "\x89PNG"
		}
		if code, _, stderr := wgemm(t, args...); code != exitDone {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		for file, start := range starts {
			data, err := os.ReadFile(file)
			if err != nil || !bytes.HasPrefix(data, []byte(start)) {
				t.Errorf("%s: %v, begins with %q", file, err, data[:min(len(data), 8)])
			}
		}
	})
}

func TestBenchWrongCharts(t *testing.T) {
	t.Parallel()
	wrongBench(t, map[string]string{
		"--plot a.gif":                             ".svg or .png",
		"--roofline a":                             ".svg or .png",
		"--plot no/such/a.svg --sizes 8":           "--plot: open no/such/a.svg: ",
		"--roofline no/such/a.png --sizes 8":       "--roofline: open no/such/a.png: ",
		"--plot a.svg --shapes 1x2x3":              "1x2x3 is not square",
		"--roofline a.svg --compare cpu --sizes 8": "no roof",
	})
}
