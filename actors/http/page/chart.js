// A line chart of the last minutes: the present value large, the line below, and the value under the pointer.

import { clock, element, text } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, GAP_S] = [600, 64, 5];

// Minutes that the chart may span. It takes the smallest that holds all points.
const SPANS = [2, 5, 10];

export class Chart {
  constructor(figure, { title, hint, value, write, least }) {
    Object.assign(this, { value, write, least, points: [] });
    this.now = element("output", { className: "now" }, "–");
    this.most = element("span", { className: "most" });
    this.at = element("span", { className: "at" });
    this.svg = drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.area = drawing("path", { class: "area" });
    this.line = drawing("path", { class: "line" });
    this.rule = drawing("line", { class: "rule", y1: 0, y2: HEIGHT, visibility: "hidden" });
    this.svg.append(
      drawing("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }), this.area, this.line, this.rule,
    );
    const caption = element("figcaption", { title: hint }, element("span", { className: "what" }, title), this.now);
    figure.replaceChildren(caption, element("div", { className: "plot" }, this.svg, this.most, this.at));
    this.title = title;
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX / this.svg.clientWidth));
    this.svg.addEventListener("pointerleave", () => this.point(null));
  }

  begin(points) {
    this.points = points.map((point) => [point.at, this.value(point)]);
    this.draw();
  }

  step(point) {
    this.points.push([point.at, this.value(point)]);
    this.draw();
  }

  draw() {
    if (!this.points.length) return;
    const last = this.points.at(-1)[0];
    while (this.points[0][0] < last - 60 * SPANS.at(-1)) this.points.shift();
    const minutes = SPANS.find((span) => this.points[0][0] >= last - 60 * span);
    this.span = 60 * minutes;
    const values = this.points.map(([, value]) => value).filter((value) => value !== null);
    this.scale = pleasant(Math.max(this.least, ...values));
    const x = (at) => (WIDTH * (at - last + this.span)) / this.span;
    const y = (value) => HEIGHT - 1 - ((HEIGHT - 4) * value) / this.scale;
    let [line, area, run] = ["", "", []];
    const close = () => {
      if (run.length) {
        const path = run.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join("L");
        line += `M${path}`;
        area += `M${x(run[0][0]).toFixed(1)},${HEIGHT}L${path}L${x(run.at(-1)[0]).toFixed(1)},${HEIGHT}Z`;
      }
      run = [];
    };
    for (const [at, value] of this.points) {
      if (value === null || (run.length && at - run.at(-1)[0] > GAP_S)) close();
      if (value !== null) run.push([at, value]);
    }
    close();
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", area);
    const now = this.points.at(-1)[1];
    text(this.now, now === null ? "–" : this.write(now));
    text(this.most, `${this.write(this.scale)} · ${minutes} min`);
    this.svg.setAttribute("aria-label", `${this.title}, now ${this.now.textContent}, at most ${this.write(Math.max(0, ...values))} in ${minutes} minutes`);
    if (this.pointed !== undefined && this.pointed !== null) this.point(this.pointed);
  }

  point(part) {
    this.pointed = part;
    const points = this.points.filter(([, value]) => value !== null);
    this.rule.setAttribute("visibility", part === null || !points.length ? "hidden" : "visible");
    if (part === null || !points.length) return text(this.at, "");
    const wanted = this.points.at(-1)[0] - this.span * (1 - part);
    const [at, value] = points.reduce((a, b) => (Math.abs(b[0] - wanted) < Math.abs(a[0] - wanted) ? b : a));
    const x = (WIDTH * (at - this.points.at(-1)[0] + this.span)) / this.span;
    this.rule.setAttribute("x1", x);
    this.rule.setAttribute("x2", x);
    text(this.at, `${this.write(value)} at ${clock(new Date(at * 1000))}`);
  }
}

function drawing(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function pleasant(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value * 0.999);
}
