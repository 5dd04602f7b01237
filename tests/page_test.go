//go:build !js

package tests

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/x448/float16"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/matfile"
	"github.com/wgemm/wgemm/runtime/runtimetest"
	"github.com/wgemm/wgemm/wasm"
)

//go:embed testdata/page_probe.js
var probe string

// TestPage uses the page as a visitor does, in Chromium. Its parts share one
// tab and come in the order of the page.
func TestPage(t *testing.T) {
	t.Parallel()
	v := visit(t)
	site := serve(t, v.buildPage())
	v.open(site + "/probed/")
	if chip := v.text("#chip"); chip == "no GPU" {
		v.skip("this Chromium has no adapter: " + v.text("#device-card"))
	}
	t.Run("device", func(t *testing.T) { v.at(t).testDevice() })
	t.Run("multiply", func(t *testing.T) { v.at(t).testMultiply() })
	t.Run("errors", func(t *testing.T) { v.at(t).testErrors() })
	t.Run("chapter", func(t *testing.T) { v.at(t).testChapter() })
	t.Run("benchmark", func(t *testing.T) { v.at(t).testBenchmark() })
	t.Run("tune", func(t *testing.T) { v.at(t).testTune(site + "/probed/") })
	t.Run("looks", func(t *testing.T) { v.at(t).testLooks() })
	t.Run("memory", func(t *testing.T) { v.at(t).testMemory() })
	t.Run("cancel", func(t *testing.T) { v.at(t).testCancel() })
	t.Run("lost device", func(t *testing.T) { v.at(t).testLostDevice() })
	t.Run("static host", func(t *testing.T) {
		v := v.at(t)
		v.open(site + "/static/")
		v.multiply(`m: 8, n: 8, k: 8`)
	})
	t.Run("without a device", func(t *testing.T) { v.at(t).testWithoutDevice(site) })
}

// buildPage does what `make web` does, into a folder that stays: what is compressed
// there already is not compressed again.
func (v visitor) buildPage() string {
	v.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		v.skip("no Node, which compresses the page: install Node 20 or newer")
	}
	v.Logf("%s", command(v.T, "..", nil, "sh", "scripts/web.sh", "bin/page"))
	return "../bin/page"
}

// serve serves the page as wgemm does, and in the folders of the test as it is
// seen in other browsers and by other hosts. It returns the address.
func serve(t *testing.T, folder string) string {
	t.Helper()
	page, err := wasm.Handler(os.DirFS(folder))
	if err != nil {
		t.Fatal(err)
	}
	worker, err := os.ReadFile(filepath.Join(folder, "worker.js"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", page)
	mux.Handle("/static/", http.StripPrefix("/static/", http.FileServerFS(os.DirFS(folder))))
	for name, before := range map[string]string{
		"probed":     probe,
		"no-webgpu":  "delete WorkerNavigator.prototype.gpu;",
		"no-adapter": "GPU.prototype.requestAdapter = async () => null;",
	} {
		mux.Handle("/"+name+"/", http.StripPrefix("/"+name, page))
		mux.HandleFunc("/"+name+"/worker.js", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
			io.WriteString(w, before+"\n")
			w.Write(worker)
		})
	}
	mux.Handle("/no-program/", http.StripPrefix("/no-program", page))
	mux.HandleFunc("/no-program/wgemm.wasm", http.NotFound)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// insecure is a name for this machine that browsers do not trust.
const insecure = "insecure.test"

// A visitor is a tab of a browser, and the test it acts for.
type visitor struct {
	*testing.T
	ctx       context.Context
	downloads string
}

// visit starts Chromium. Without one the test is skipped, or fails where
// WGEMM_REQUIRE names chromium.
func visit(t *testing.T) visitor {
	t.Helper()
	v := visitor{T: t, downloads: t.TempDir()}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		v.skip("no Chromium here: install Debian's package chromium, or Chrome")
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // the page is our own, and containers have no sandbox to offer
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("enable-unsafe-webgpu", true), // the one that gives a software adapter
		chromedp.Flag("host-resolver-rules", "MAP "+insecure+" 127.0.0.1"),
	)...)
	t.Cleanup(cancel)
	v.ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	var mu sync.Mutex
	var thrown []string
	v.must(chromedp.Listen(v.ctx, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			mu.Lock()
			defer mu.Unlock()
			thrown = append(thrown, fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
		}
	}))
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, text := range thrown {
			t.Errorf("the page threw what nobody caught: %s", text)
		}
	})
	v.must(chromedp.Do(v.ctx, chromedp.EmulateViewport(1100, 900)))
	_, err := chromedp.CallBrowser(v.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: v.downloads,
	})
	v.must(err)
	return v
}

// at is the visitor in a part of the test.
func (v visitor) at(t *testing.T) visitor {
	v.T = t
	return v
}

func (v visitor) skip(reason string) {
	v.Helper()
	runtimetest.Skip(v.T, "chromium", reason)
}

func (v visitor) must(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

// open goes to a page and waits until it has tried for a device.
func (v visitor) open(address string) {
	v.Helper()
	v.must(chromedp.Do(v.ctx, chromedp.Navigate(address)))
	v.until(`!$("#chip").textContent.startsWith("loading")`)
}

// eval is the value of a JavaScript expression, as text; await is allowed.
func (v visitor) eval(expression string) string {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 5*time.Minute)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		`(async () => { const $ = (s) => document.querySelector(s); return String(await (`+expression+`)); })()`, chromedp.EvalAwaitPromise))
	if err != nil {
		v.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits for a JavaScript condition.
func (v visitor) until(condition string) {
	v.Helper()
	for deadline := time.Now().Add(4 * time.Minute); v.eval("Boolean("+condition+")") != "true"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			v.Fatalf("not so in time: %s\nstatus: %q\nerrors: %s", condition, v.text(".status:not(:empty)"),
				v.eval(`[...document.querySelectorAll(".error:not([hidden])")].map((e) => e.textContent).join("; ")`))
		}
	}
}

// text is the text of an element; "" if there is none.
func (v visitor) text(selector string) string {
	v.Helper()
	return v.eval(fmt.Sprintf("$(%q)?.innerText ?? ''", selector))
}

// click clicks, with the mouse, where the element is.
func (v visitor) click(selector string) {
	v.Helper()
	if err := chromedp.Do(v.ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		v.Fatalf("click on %s: %v", selector, err)
	}
}

// wantText compares the text of an element with parts that it must hold.
func (v visitor) wantText(selector string, parts ...string) {
	v.Helper()
	got := v.text(selector)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			v.Errorf("%s says %q, which lacks %q", selector, got, part)
		}
	}
}

// fill sets the fields of the form, {name: value, ...}, as typing does.
func (v visitor) fill(form, values string) {
	v.Helper()
	v.eval(fmt.Sprintf(`(() => {
		for (const [name, value] of Object.entries({%s})) {
			const field = $(%q)[name];
			field.value = value;
			(field instanceof RadioNodeList ? [...field].find((f) => f.checked) : field).dispatchEvent(new Event("change", { bubbles: true }));
		}
	})()`, values, form))
}

// multiply fills the form, multiplies, and waits for the product.
func (v visitor) multiply(values string) {
	v.Helper()
	v.fill("#multiply-form", values)
	v.eval(`(() => { $("#product").dataset.old = "yes"; for (const e of $("#product").children) e.dataset.old = "yes"; })()`)
	v.click("#multiply-form [type=submit]")
	v.until(`$("#product .verdict:not([data-old])") || $("#multiply-form .error:not([hidden])")`)
	if text := v.text("#multiply-form .error:not([hidden])"); text != "" {
		v.Fatalf("multiply: %s", text)
	}
}

// drop drops files on an element, as from a file manager.
func (v visitor) drop(selector string, files ...string) {
	v.Helper()
	at := strings.Split(v.eval(fmt.Sprintf(`(() => {
		$(%q).scrollIntoView({ block: "center", behavior: "instant" });
		const r = $(%q).getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`, selector, selector)), ",")
	x, errX := strconv.ParseFloat(at[0], 64)
	y, errY := strconv.ParseFloat(at[1], 64)
	v.must(errX)
	v.must(errY)
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: files, DragOperationsMask: 1}
	for _, kind := range []input.DispatchDragEventType{"dragEnter", "dragOver", "drop"} {
		_, err := chromedp.Call(v.ctx, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: x, Y: y, Data: data})
		v.must(err)
	}
}

// download clicks and returns the content of the file that is saved then.
func (v visitor) download(selector, name string) []byte {
	v.Helper()
	path := filepath.Join(v.downloads, name)
	v.click(selector)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		// A download has another name until it is whole; its own holds a place, empty.
		if content, err := os.ReadFile(path); err == nil && len(content) > 0 {
			v.must(os.Remove(path)) // the next of its name would get another
			return content
		}
		if time.Now().After(deadline) {
			v.Fatalf("no file %s after a click on %s", name, selector)
		}
	}
}

func (v visitor) testDevice() {
	if strings.Contains(v.text("#device-card"), "swiftshader") {
		v.wantText("#chip", "software")
		v.wantText("#device-card", "software adapter", "the shaders run on the CPU")
	}
	v.wantText("#device-card", "maxStorageBufferBindingSize", "maxComputeWorkgroupStorageSize", "Features")
}

func (v visitor) testMultiply() {
	rng := rand.New(rand.NewPCG(1, 2))
	uniform := func(rows, cols int) gemm.Matrix[float32] {
		m := gemm.NewMatrix[float32](rows, cols, nil)
		for i := range m.Data {
			m.Data[i] = 2*rng.Float32() - 1
		}
		return m
	}
	halves := func(rows, cols int) gemm.Matrix[float16.Float16] {
		m := gemm.NewMatrix[float16.Float16](rows, cols, nil)
		for i, v := range uniform(rows, cols).Data {
			m.Data[i] = float16.Fromfloat32(v)
		}
		return m
	}

	// A .npy file and a .csv file, dropped together.
	a, b := uniform(37, 19), uniform(19, 23)
	fileA, fileB := filepath.Join(v.TempDir(), "a.npy"), filepath.Join(v.TempDir(), "b.csv")
	v.must(matfile.WriteFloat32(fileA, 37, 19, a.Data))
	v.must(matfile.WriteFloat32(fileB, 19, 23, b.Data))
	v.click("#multiply-form [value=files] + span")
	v.drop("#drop-a", fileA, fileB)
	v.until(`$("#drop-b").innerText.includes("19 × 23")`)
	v.wantText("#drop-a", "a.npy: 37 × 19, f4")
	v.multiply("")
	v.wantText("#product", "✓ right", "all 851 elements", "upload", "compile", "compute", "read-back", "GFLOP/s", "C is 37 × 23 of f32")
	v.wantProduct(a, b, 0)

	// Two files of binary16, chosen: the product is of binary16 then.
	halfA, halfB := halves(5, 64), halves(64, 9)
	fileA, fileB = filepath.Join(v.TempDir(), "a16.npy"), filepath.Join(v.TempDir(), "b16.npy")
	v.must(matfile.WriteFloat16(fileA, 5, 64, halfA.Data))
	v.must(matfile.WriteFloat16(fileB, 64, 9, halfB.Data))
	v.must(chromedp.Do(v.ctx,
		chromedp.SetUploadFiles(chromedp.CSS("#drop-a input"), []string{fileA}),
		chromedp.SetUploadFiles(chromedp.CSS("#drop-b input"), []string{fileB})))
	v.until(`$("#drop-a").innerText.includes("5 × 64") && $("#drop-b").innerText.includes("64 × 9")`)
	v.multiply(`kernel: "gemm_naive"`)
	v.wantText("#product", "✓ right", "C is 5 × 9 of f16", "gemm_naive/BM=16,BN=16,IN_F16=true,OUT_F16=true")
	v.wantProduct(halfA, halfB, 0x1p-11)

	// Random matrices, a tile of one's own, and a fault that the check finds.
	v.click("#multiply-form [value=random] + span")
	v.multiply(`m: 33, n: 31, k: 30, dtype: "f32", kernel: "broken/gemm_tiled"`)
	v.wantText("#product", "✓ right", "9 × 8 workgroups, 8 slices of K")
	v.eval(`(() => { $("#tile").open = true; $("#tunables [data-name=NO_K_MASK]").value = "true"; })()`)
	v.multiply("")
	v.wantText("#product", "✗ wrong, on purpose", "times the bound")
}

// wantProduct downloads C and compares it with a float64 product of A and B;
// unit is the unit roundoff of C's type, if it is not binary32.
func (v visitor) wantProduct(a, b gemm.HostMatrix, unit float64) {
	v.Helper()
	f, err := matfile.Decode("c.npy", v.download("#product a.button", "c.npy"))
	v.must(err)
	c, err := f.Float32()
	v.must(err)
	k := 19
	if unit > 0 {
		k = 64
	}
	for i := range f.Rows {
		for j := range f.Cols {
			var want, abs float64
			for kk := range k {
				want += a.Value(i, kk) * b.Value(kk, j)
				abs += math.Abs(a.Value(i, kk) * b.Value(kk, j))
			}
			bound := float64(k+2)*0x1p-24*abs + unit*math.Abs(want)
			if got := float64(c[i*f.Cols+j]); math.Abs(got-want) > bound {
				v.Fatalf("C[%d, %d] is %v, want %v within %v", i, j, got, want, bound)
			}
		}
	}
}

// Every error stands beside its control, and the next product is computed.
func (v visitor) testErrors() {
	dir := v.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		v.must(os.WriteFile(path, content, 0o644))
		return path
	}
	text := write("text.npy", []byte("hello, world\n"))
	ragged := write("ragged.csv", []byte("1,2\n3\n"))
	wide := filepath.Join(dir, "wide.npy")
	v.must(matfile.WriteFloat32(wide, 2, 7, make([]float32, 14)))
	batch := filepath.Join(dir, "batch.npy")
	v.must(matfile.Options{}.WriteFloat32(batch, 3, 2, 7, make([]float32, 42)))
	long := filepath.Join(dir, "long.npy")
	v.must(matfile.WriteFloat32(long, 5, 2, make([]float32, 10)))

	v.click("#multiply-form [value=files] + span")
	for _, file := range []struct{ zone, path, want string }{
		{"a", text, "first bytes"},
		{"b", ragged, "line 2"},
		{"a", batch, "a batch of 3 matrices"},
	} {
		v.drop("#drop-"+file.zone, file.path)
		v.until(`$("#error-` + file.zone + `").innerText.includes("` + filepath.Base(file.path) + `")`)
		v.wantText("#error-"+file.zone, filepath.Base(file.path), file.want, "want")
		if v.eval(`$("#drop-`+file.zone+` input").getAttribute("aria-invalid")`) != "true" {
			v.Errorf("the control of the wrong file %s is not marked", file.path)
		}
	}
	v.drop("#drop-a", wide, long)
	v.until(`!$("#error-b").hidden && $("#error-b").innerText.includes("7 rows")`)
	v.wantText("#error-b", "A is 2 × 7 and B is 5 × 2: B must have 7 rows")

	v.click("#multiply-form [value=random] + span")
	for _, tc := range []struct{ fill, place, want string }{
		{`m: 100000, n: 8, k: 100000, dtype: "f32"`, "#error-sizes", "A, 100000 x 100000 of f32: over this adapter’s limit max"},
		{`m: 100000, n: 8, k: 100000`, "#error-sizes", "needed are 37.25 GiB"},
		{`m: "", n: 8, k: 8`, "#error-sizes", "m: a whole number from 1"},
		{`m: 8, n: 8, k: 1.5`, "#error-sizes", "k: a whole number"},
		{`m: 8, n: 8, k: 8, kernel: "gemm_tiled", BM: 7`, "#error-tile", "BM % TM == 0u"},
		{`m: 8, n: 8, k: 8, kernel: "gemm_tiled", BM: 1024`, "#error-tile", "needed are"},
	} {
		fill, tile, own := strings.Cut(tc.fill, ", BM: ")
		v.fill("#multiply-form", fill)
		if own {
			v.eval(`$("#tunables [data-name=BM]").value = ` + tile)
		}
		v.click("#multiply-form [type=submit]")
		v.until(`!$("#multiply-form [type=submit]").disabled && !$("` + tc.place + `").hidden`)
		v.wantText(tc.place, tc.want)
	}
	v.multiply(`m: 8, n: 8, k: 8, kernel: "gemm_naive"`)
	if left := v.text("#multiply-form .error:not([hidden])"); left != "" {
		v.Errorf("after a right product an error is left: %s", left)
	}
}

func (v visitor) testChapter() {
	v.click(`#walk-form [data-preset="5,6,7,4,4,4"]`)
	v.until(`document.querySelectorAll("#walk .cell.b").length === 42`)
	for range 7 {
		v.click("#walk-step")
	}
	v.wantText("#walk-caption", "Step 8 of 8: workgroup (1, 1) of 2 × 2, K-iteration 2 of 2", "the tile is stored")
	// As the chapter draws it: A has 3 of the slice's columns in one row.
	for class, want := range map[string]string{"a.staged": "3", "a.masked": "13", "b.staged": "6", "b.masked": "10", "c.staged": "2", "c.masked": "14"} {
		if got := v.eval(`document.querySelectorAll("#walk .cell.` + class + `").length`); got != want {
			v.Errorf("%s cells of %s, want %s", got, class, want)
		}
	}
	v.click("#walk-play")
	v.until(`$("#walk-caption").innerText.startsWith("Step 2 of 8")`)
	v.click("#walk-play")
	v.fill("#walk-form", `m: 50`)
	v.wantText("#error-walk", "m: a whole number from 1 to 16")

	v.until(`$("#masks-lesson").innerText.includes("C is right, and nothing")`)
	for _, tc := range []struct{ mask, want string }{
		{"k", "6 of 6 elements of C are wrong"},
		{"m", "on M whole tiles are stored: 2 elements around C"},
		{"n", "on N whole tiles are stored: 6 elements around C"},
	} {
		toggle := "#masks-form [name=" + tc.mask + "]"
		v.click(toggle)
		v.until(fmt.Sprintf(`$("#masks-lesson").innerText.includes(%q)`, tc.want))
		if right := v.eval(`[...document.querySelectorAll("#masks .of-c .inside")].every((e) => e.innerText.includes("right"))`); right != fmt.Sprint(tc.mask != "k") {
			v.Errorf("without the mask on %s: C is right: %s", tc.mask, right)
		}
		v.click(toggle)
	}

	v.click("#accumulator-run")
	v.until(`$("#accumulator-values").children.length || !$("#error-accumulator").hidden`)
	v.wantText("#accumulator-values", "binary32 accumulator, K = 1024", "9.737179152580211e-05", "binary16 accumulator, K = 1024", "0.001974425897060428")
	v.click("#examples-run")
	v.until(`$("#examples-status").innerText.includes("must be") || !$("#error-examples").hidden`)
	v.wantText("#examples-status", "Every result is as it must be.")
	v.wantText("#examples", "9.737179152580211e-05", "0.001974425897060428", "64 of 64 wrong, on purpose")
}

func (v visitor) testBenchmark() {
	v.fill("#benchmark-form", `largest: 4096`)
	v.click("#benchmark-form [type=submit]")
	v.until(`document.querySelectorAll("#benchmark-chart .plot .s2 path").length > 0`)
	if v.eval(`$("#benchmark-progress").value > 0 && $("#benchmark-csv").disabled`) != "true" {
		v.Error("while it runs there is no progress, or something to save")
	}
	v.click("#benchmark-cancel")
	v.until(`$("#benchmark-status").innerText === "Canceled."`)
	rows, err := csv.NewReader(bytes.NewReader(v.download("#benchmark-csv", "wgemm-benchmark.csv"))).ReadAll()
	v.must(err)
	if len(rows) < 4 || rows[0][0] != "size" || rows[1][1] != "gemm_naive" || !strings.HasPrefix(rows[2][2], "gemm_tiled/") {
		v.Errorf("the table that was saved is %q", rows)
	}
	picture := v.download("#benchmark-png", "wgemm-benchmark.png")
	if !bytes.HasPrefix(picture, []byte("\x89PNG\r\n")) || len(picture) < 5000 {
		v.Errorf("the picture that was saved has %d bytes and begins with %q", len(picture), picture[:min(8, len(picture))])
	}
}

// What was tuned is kept in the browser, taken after a reload, and forgotten. What
// is kept and cannot be used is ignored, with a notice.
func (v visitor) testTune(address string) {
	v.fill("#benchmark-form", `largest: 128`)
	v.wantText("#tune-largest", "128")
	v.fill("#tune-form", `seconds: 30`) // of which a busy machine needs most
	v.click("#tune-form [type=submit]")
	v.until(`$("#tune-progress").value > 0 && $("#tune-status").innerText.includes(" of ")`)
	v.until(`$("#tune-status").innerText.startsWith("Measured") || !$("#error-tune").hidden`)
	v.wantText("#tune-status", "Measured ", " size")
	const key = `Object.keys(localStorage).find((key) => key.startsWith("tuning of wgemm "))`
	head, lines, _ := strings.Cut(v.eval(`localStorage.getItem(`+key+`)`), "\n")
	if got := "# " + v.eval(key); head != got {
		v.Fatalf("kept under %q is %q", got, head)
	}
	for line := range strings.Lines(lines) { // none where the planner's choices are the fastest
		v.wantText("#tune-table", strings.TrimSpace(line[strings.Index(line, "\t"):]))
	}

	// Whatever was the fastest, this is not the planner's choice.
	const choice = "gemm_block/BM=32,BN=32,TM=4,TN=4"
	v.eval(fmt.Sprintf(`localStorage.setItem(%s, %q)`, key, head+"\n1x64x64x64 f32 f32 rows4 rows4\t"+choice+"\n"))
	product := func(tuned bool) {
		v.Helper()
		v.multiply(`m: 64, n: 64, k: 60, kernel: ""`)
		v.wantText("#product", "✓ right")
		if text := v.text("#product dd"); strings.Contains(text, "gemm_block/BM=32") != tuned || strings.HasSuffix(text, " (tuned)") != tuned {
			v.Errorf("the variant is %s, want it tuned: %t", text, tuned)
		}
	}
	v.open(address)
	v.wantText("#tune-table", "64", choice+" (tuned)")
	product(true)
	v.click("#tune-forget")
	v.until(`$("#tune-status").innerText.startsWith("Forgotten")`)
	product(false)
	if left := v.eval(key); left != "undefined" {
		v.Errorf("after forgetting %q is kept", left)
	}

	name := strings.TrimPrefix(head, "# ")
	for text, want := range map[string]string{
		"{}":                            "its first line does not say whose it is",
		"# tuning of wgemm 0 for a GPU": "is a tuning of wgemm 0 for a GPU, want one of",
		head + "\n1x64x64x64 f32":       "line 1",
	} {
		v.eval(fmt.Sprintf(`localStorage.setItem(%q, %q)`, name, text))
		v.open(address)
		v.wantText("#error-tune", "is ignored: ", want)
		product(false)
	}
	v.click("#tune-forget")
	v.until(`$("#error-tune").hidden`)

	v.fill("#benchmark-form", `largest: 1024`)
	v.fill("#tune-form", `seconds: 600`)
	v.click("#tune-form [type=submit]")
	v.until(`$("#tune-status").innerText.includes(" of ")`)
	v.click("#tune-cancel")
	v.until(`$("#tune-status").innerText === "Canceled."`)
	product(false)
	v.eval(fmt.Sprintf(`localStorage.setItem(%q, %q)`, name, head+"\n1x64x64x64 f32 f32 rows4 rows4\t"+choice+"\n"))
	v.open(address) // to be looked at
}

// The page fits wide and narrow windows. Its pictures are there to be looked
// at: go test -artifacts keeps them.
func (v visitor) testLooks() {
	for _, look := range []struct {
		name, scheme  string
		width, height int64
	}{
		{"wide-light", "light", 1200, 900},
		{"wide-dark", "dark", 1200, 900},
		{"phone-light", "light", 320, 640},
		{"phone-dark", "dark", 320, 640},
	} {
		v.must(chromedp.Do(v.ctx, chromedp.EmulateViewport(look.width, look.height)))
		_, err := chromedp.Call(v.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}},
		})
		v.must(err)
		v.until(`document.documentElement.clientWidth === ` + strconv.FormatInt(look.width, 10))
		if wide := v.eval(`document.documentElement.scrollWidth`); wide != strconv.FormatInt(look.width, 10) {
			v.Errorf("%s: the page is %s wide in a window of %d", look.name, wide, look.width)
		}
		for _, section := range []string{"multiply", "chapter", "benchmark", "device"} {
			picture, err := chromedp.Run(v.ctx, chromedp.Screenshot(chromedp.CSS("#"+section)))
			v.must(err)
			v.must(os.WriteFile(filepath.Join(v.ArtifactDir(), look.name+"-"+section+".png"), picture, 0o644))
		}
	}
	v.must(chromedp.Do(v.ctx, chromedp.EmulateViewport(1100, 900)))
}

// 200 products leave neither buffers nor memory behind, and the page answers
// meanwhile.
func (v visitor) testMemory() {
	v.fill("#multiply-form", `m: 32, n: 32, k: 32, kernel: "gemm_naive"`)
	products := func(count int) {
		v.Helper()
		v.eval(fmt.Sprintf(`(async () => {
			for (let i = 0; i < %d; i++) {
				const done = new Promise((resolve, reject) => {
					new MutationObserver((_, o) => { o.disconnect(); resolve(); }).observe($("#product"), { childList: true });
					setTimeout(() => reject(new Error("product " + i + ": " + $("#multiply-form").innerText)), 20_000);
				});
				$("#multiply-form").requestSubmit();
				await done;
			}
		})()`, count))
	}
	held := func() string {
		return v.eval(`new Promise((resolve) => {
			const channel = new BroadcastChannel("probe");
			channel.onmessage = ({ data }) => { channel.close(); resolve(data.buffers + " buffers, " + data.bytes + " bytes of WASM memory"); };
			channel.postMessage("count");
		})`)
	}
	products(10)
	before := held()
	products(190)
	if after := held(); after != before {
		v.Errorf("after 10 products the worker holds %s, after 200 %s", before, after)
	}

	// While a larger product is computed the page goes on: its timer fires.
	v.fill("#multiply-form", `m: 256, n: 256, k: 2048`)
	v.eval(`(() => {
		window.beats = 0;
		window.timer = setInterval(() => { window.beats++; }, 10);
	})()`)
	v.multiply("")
	beats, err := strconv.Atoi(v.eval(`(clearInterval(window.timer), window.beats)`))
	if err != nil || beats < 3 {
		v.Errorf("the page's timer fired %d times during a product, %v", beats, err)
	}
	v.Logf("after 200 products: %s", before)
}

func (v visitor) testCancel() {
	v.fill("#multiply-form", `m: 6000, n: 8, k: 6000`)
	v.click("#multiply-form [type=submit]")
	v.until(`$("#multiply-status").innerText.includes("random")`)
	v.click("#multiply-cancel")
	v.until(`$("#multiply-status").innerText === "Canceled."`)
	v.multiply(`m: 32, n: 32, k: 32`)
}

func (v visitor) testLostDevice() {
	v.eval(`new BroadcastChannel("probe").postMessage("lose")`)
	v.fill("#multiply-form", `m: 32, n: 32, k: 32`)
	v.click("#multiply-form [type=submit]")
	v.until(`!$("#error-multiply").hidden`)
	v.wantText("#error-multiply", "The GPU device is lost", "Reopen the device")
	v.click("#error-multiply button")
	v.until(`$("#error-multiply").hidden`)
	v.multiply("")
	v.wantText("#product", "✓ right", "workgroups")
}

// Each way to have no device says why, and what to do; the CPU path computes.
func (v visitor) testWithoutDevice(site string) {
	_, port, _ := strings.Cut(strings.TrimPrefix(site, "http://"), ":")
	for _, tc := range []struct {
		address string
		want    []string
	}{
		{"http://" + insecure + ":" + port + "/", []string{"This page is not secure", "Open the page over https", "localhost"}},
		{site + "/no-webgpu/", []string{"This browser has no WebGPU", "Use a current Chrome, Edge, Safari or Firefox"}},
		{site + "/no-adapter/", []string{"finds no GPU to run on", "Turn on hardware acceleration", "--enable-unsafe-webgpu"}},
		{site + "/no-program/", []string{"The program of this page does not run", "wgemm.wasm: 404"}},
	} {
		v.open(tc.address)
		v.wantText("#notice", append(tc.want, "Try again")...)
		if v.eval(`$("#benchmark-form [type=submit]").disabled`) != "true" {
			v.Errorf("%s: the benchmark can be started", tc.address)
		}
	}
	v.open(site + "/no-adapter/")
	v.multiply(`m: 40, n: 30, k: 20`)
	v.wantText("#product", "✓ right", "the CPU path")
	v.click("#accumulator-run")
	v.until(`$("#accumulator-values").children.length || !$("#error-accumulator").hidden`)
	v.wantText("#accumulator-values", "9.737179152580211e-05", "0.001974425897060428")
}
