// Line charts in SVG. Colors come from the style sheet's variables, so that a
// chart follows dark mode.

const SVG = "http://www.w3.org/2000/svg";

/** Makes an SVG element. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const MARGIN = { top: 12, right: 16, bottom: 44, left: 58 };

const scales = {
  linear: (v) => v,
  log: (v) => Math.log10(v),
};

/** Round numbers from 0 to at least max, about four steps of them. */
function linearTicks(max) {
  const rough = max / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
  const count = Math.ceil(max / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, i) => i * step);
}

/** Powers of ten around the range from min to max. */
function decades(min, max) {
  const from = Math.floor(Math.log10(min)), to = Math.max(Math.ceil(Math.log10(max)), from + 1);
  return Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i));
}

const superscript = (n) => [...String(n)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("");
const power = (v) => `10${superscript(Math.round(Math.log10(v)))}`;

/**
 * A chart that fills the width of a figure and is drawn again with it.
 *
 * x and y are {label, scale: "linear" | "log"}; x has its ticks too, or those
 * of the points. A series is {name, points: [[x, y], ...]}; its place in the list
 * gives its color and marker.
 */
export class Chart {
  /** @param {HTMLElement} figure */
  constructor(figure, { x, y, describe }) {
    Object.assign(this, { figure, x, y, describe, series: [] });
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  update(series) {
    this.series = series;
    this.draw();
  }

  draw() {
    const width = Math.max(this.figure.clientWidth, 240), height = Math.round(Math.min(360, Math.max(240, width * 0.6)));
    const root = svg("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.describe(this.series) });
    const points = this.series.flatMap((s) => s.points);
    const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
    const xTicks = this.x.ticks ?? [...new Set(xs)].sort((a, b) => a - b);
    const yTicks = !points.length ? [] : this.y.scale === "log" ? decades(Math.min(...ys), Math.max(...ys)) : linearTicks(Math.max(...ys));
    const at = (axis, ticks, from, to) => {
      const f = scales[axis.scale], low = f(ticks[0]), high = f(ticks.at(-1));
      return (v) => (high === low ? (from + to) / 2 : from + ((f(v) - low) / (high - low)) * (to - from));
    };
    const left = MARGIN.left, right = width - MARGIN.right, top = MARGIN.top, bottom = height - MARGIN.bottom;
    const px = at(this.x, xTicks.length ? xTicks : [1], left, right), py = at(this.y, yTicks.length ? yTicks : [1], bottom, top);

    for (const tick of yTicks) {
      root.append(
        svg("line", { class: "grid", x1: left, x2: right, y1: py(tick), y2: py(tick) }),
        svg("text", { x: left - 8, y: py(tick) + 4, "text-anchor": "end" }, this.y.scale === "log" ? power(tick) : String(+tick.toPrecision(6))),
      );
    }
    let last = -Infinity;
    for (const tick of xTicks) {
      root.append(svg("line", { class: "tick", x1: px(tick), x2: px(tick), y1: bottom, y2: bottom + 4 }));
      if (px(tick) - last < 34) continue; // its label would touch the one before
      last = px(tick);
      root.append(svg("text", { x: px(tick), y: bottom + 18, "text-anchor": "middle" }, String(tick)));
    }
    root.append(
      svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      svg("text", { class: "label", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, this.x.label),
      svg("text", { class: "label", transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, this.y.label),
    );
    this.series.forEach((s, i) => {
      const line = svg("g", { class: `series s${i}` });
      line.append(svg("polyline", { points: s.points.map(([x, y]) => `${px(x)},${py(y)}`).join(" ") }));
      if (s.points.length <= 24) for (const [x, y] of s.points) line.append(marker(i, px(x), py(y)));
      else if (s.points.length) line.append(marker(i, px(s.points.at(-1)[0]), py(s.points.at(-1)[1])));
      root.append(line);
    });
    this.figure.querySelector("svg")?.remove();
    this.figure.prepend(root);
  }
}

/** The marker of a series, which tells it from the others without color. */
export function marker(i, x, y) {
  const shapes = [
    () => svg("circle", { cx: x, cy: y, r: 4 }),
    () => svg("rect", { x: x - 3.5, y: y - 3.5, width: 7, height: 7 }),
    () => svg("path", { d: `M${x} ${y - 5}l5 9h-10z` }),
  ];
  return shapes[i % shapes.length]();
}

/** A key of the series' names, markers and colors. */
export function legend(names) {
  const list = document.createElement("ul");
  list.className = "legend";
  names.forEach((name, i) => {
    const item = document.createElement("li");
    const root = svg("svg", { class: "chart", width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" });
    const line = svg("g", { class: `series s${i}` }, svg("polyline", { points: "1,6 25,6" }), marker(i, 13, 6));
    root.append(line);
    item.append(root, name);
    list.append(item);
  });
  return list;
}

/** The chart as a PNG, twice as large, with the names of its series. */
export async function toPNG(figure, names) {
  const original = figure.querySelector("svg"), copy = original.cloneNode(true);
  const { width: w, height: h } = original.viewBox.baseVal;
  const style = getComputedStyle(document.documentElement);
  // A picture has no style sheet but its own, so it takes the rules and the
  // values of the variables along.
  const rules = [...document.styleSheets].flatMap((s) => [...s.cssRules]).filter((r) => r.selectorText?.startsWith(".chart"));
  const text = rules.map((r) => r.cssText).join("\n").replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name));
  const key = svg("g");
  let x = MARGIN.left;
  names.forEach((name, i) => {
    key.append(
      svg("g", { class: `series s${i}` }, svg("polyline", { points: `${x},${h + 14} ${x + 24},${h + 14}` }), marker(i, x + 12, h + 14)),
      svg("text", { x: x + 30, y: h + 18 }, name),
    );
    x += 46 + 7.2 * name.length;
  });
  const width = Math.max(w, x), height = h + 30;
  copy.prepend(svg("style", {}, text), svg("rect", { width, height, fill: style.getPropertyValue("--card") }));
  copy.append(key);
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("viewBox", `0 0 ${width} ${height}`);

  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
