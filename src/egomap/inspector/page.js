"use strict";
/* The inspector's page. Data comes as JSON and packed arrays in this file; text is only ever set as text. */
(async () => {
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const make = (parent, name, attributes = {}, text) => {
    const svg = parent.namespaceURI === SVG;
    const node = svg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

  /* ---- data ---- */
  const data = JSON.parse($("data").textContent);
  const KINDS = { uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, float32: Float32Array };
  const unpack = async (name) => {
    const stream = new Blob([bytes($(`part-${name}`).textContent)]).stream();
    const raw = await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
    return new KINDS[data.arrays[name].dtype](raw);
  };
  const arrays = {};
  await Promise.all(Object.keys(data.arrays).map(async (name) => { arrays[name] = await unpack(name); }));
  const strips = await Promise.all($("part-rgb").textContent.split("\n").map(async (text) => {
    const image = new Image();
    image.src = `data:image/webp;base64,${text}`;
    await image.decode();
    return image;
  }));
  const table = (name) => bytes(data.colours[name]);
  const tables = { depth: table("depth"), attention: table("attention") };
  const T = data.decisions, map = data.map, mind = data.probabilities !== null;
  const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
  const signed = (value, digits) => value.toFixed(digits).replace("-", "−");
  let now = 0;

  /* ---- words ---- */
  $("title").textContent = data.title;
  make($("title"), "span", {}, data.split ? `layout ${data.layout}, ${data.split}` : `layout ${data.layout}`);
  $("lede").textContent = [data.agent, data.driver && `driven by ${data.driver}`, data.rule].filter(Boolean).join(" · ");
  const total = data.return[T - 1];
  for (const [name, value] of [["outcome", data.outcome], ["return", signed(total, 2)], ["decisions", T]]) {
    const fact = make($("facts"), "p", name === "outcome" ? { class: `outcome ${data.outcome.split(" ")[0]}` } : {});
    make(fact, "b", {}, value);
    make(fact, "span", {}, name);
  }
  $("why-above").textContent = !data.known_layout
    ? "Where the agent walks; these scenario files come without a layout."
    : map ? (map.frame === "ego" ? "The true maze, with the agent's map laid over it where the agent stands."
      : "The true maze, with the agent's map laid over it.")
      : "The true maze and the agent's way through it.";
  const whyDecide = data.guides ? "Whom it follows (arrows: where they lead, seen by the agent), how probable each action is, the one taken."
    : mind ? "How probable each action is, the one taken, and what the agent expects."
    : "The action taken; this agent has no network to look into.";
  $("why-decide").textContent = whyDecide;
  const about = { agent: data.agent, driver: data.driver, layout: data.layout_id, seed: data.seed, ...data.settings };
  about.pictures = data.lossless ? "exact" : "slightly compressed";
  for (const [name, value] of Object.entries(about)) {
    if (value === "" || value === null) continue;
    make($("settings"), "dt", {}, name);
    make($("settings"), "dd", {}, value);
  }

  /* ---- pictures of the agent ---- */
  const paint = (canvas, width, height, colour) => {
    const context = canvas.getContext("2d"), image = context.createImageData(width, height);
    for (let i = 0; i < width * height; i++) image.data.set(colour(i), 4 * i);
    context.putImageData(image, 0, 0);
  };
  const scale = (id, colours) => {
    const stops = Array.from({ length: 9 }, (_, i) => `rgb(${colours(i * 255 / 8 | 0).join(" ")})`);
    $(id).style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
  };
  const colourOf = (name) => (i) => [...tables[name].subarray(3 * i, 3 * i + 3)];
  const opaque = (name) => Array.from({ length: 256 }, (_, i) => [...colourOf(name)(i), 255]);
  const NOTHING = [0, 0, 0, 0], attentionColours = opaque("attention");
  const H = data.arrays.depth.shape[1], W = data.arrays.depth.shape[2];
  const farthest = Math.max(...arrays.levels);
  const depthColours = Array.from(arrays.levels, (depth) => depth < 0 ? NOTHING
    : opaque("depth")[Math.round(255 * depth / farthest)]);
  const showViews = () => {
    const strip = strips[Math.floor(now / data.strip)];
    $("rgb").getContext("2d").drawImage(strip, 0, (now % data.strip) * H, W, H, 0, 0, W, H);
    const frame = arrays.depth.subarray(now * H * W, (now + 1) * H * W);
    paint($("depth"), W, H, (i) => depthColours[frame[i]]);
  };
  scale("depth-scale", colourOf("depth"));

  /* ---- the map and the attention ---- */
  const S = map ? map.size : 0, tiles = map ? map.tiles.length : 0;
  const across = tiles > 1 ? 2 : 1, side = S * across;
  const attended = Boolean(map && map.peak), arrow = Boolean(map && map.position);
  /* The picture's cell (column, row) as an index into the arrays of one decision. */
  const indexOf = (column, row) => {
    const tile = Math.floor(row / S) * across + Math.floor(column / S);
    return tile * S * S + (row % S) * S + (column % S);
  };
  const guides = data.guides, withPointer = Boolean(guides && guides.peak && map);
  let pointed = false; /* show the pointer's attention, not the query's */
  const levelAt = (index) => (pointed ? arrays.pointing : arrays.attention)[now * tiles * S * S + index];
  const peak = () => (pointed ? guides : map).peak[now];
  const attentionAt = (index) => levelAt(index) / 65535 * peak();
  const mapColour = (index) => {
    const i = now * tiles * S * S + index;
    return arrays.known[i] ? [arrays.map[3 * i], arrays.map[3 * i + 1], arrays.map[3 * i + 2], 255] : NOTHING;
  };
  const attentionColour = (index) => attentionColours[levelAt(index) >> 8];
  const marks = {};
  /* Rings for start and goals, one on each of so many tiles. */
  const makeSpots = (svg, count, width) => {
    const spot = (colour, kind) => Array.from({ length: count }, () => {
      const g = make(svg, "g", { class: `spot ${kind}`, visibility: "hidden" });
      for (const part of ["halo", "ring"]) make(g, "circle", { r: width * 0.026, class: part });
      if (colour) g.lastChild.setAttribute("stroke", colour);
      return g;
    });
    return [...(data.start ? [{ place: data.start, all: spot("", "from") }] : []),
      ...data.goals.map((goal, goalIndex) => ({ place: goal.place, goalIndex, all: spot(goal.colour, "aim") }))];
  };
  if (map) {
    const boxes = attended ? ["map", "attention"] : ["map"];
    for (const name of boxes) {
      $(`panel-${name}`).hidden = false;
      $(name).width = $(name).height = side;
      const svg = $(`${name}-marks`);
      svg.setAttribute("viewBox", `0 0 ${side} ${side}`);
      if (across > 1) {
        make(svg, "path", { d: `M${S} 0V${side}M0 ${S}H${side}`, class: "seam" });
        map.tiles.forEach((text, i) => make(svg, "text", {
          x: (i % 2) * S + 0.6, y: Math.floor(i / 2) * S + 1.7, class: "tile" }, text));
      }
      marks[name] = {
        spots: makeSpots(svg, tiles, side),
        arrow: arrow ? make(svg, "path", { class: "arrow" }) : null,
        agents: Array.from({ length: across * across }, () => make(svg, "path", { class: "agent" })),
        cell: make(svg, "rect", { class: "cell", width: 1, height: 1, visibility: "hidden" }),
      };
    }
    if (map.frame === "ego") $("why-depth").textContent = "How far away: where on the map its features go.";
    $("why-map").textContent = map.frame === "ego"
      ? "What it remembers, seen from where it stands, facing up. Similar colours are similar features."
      : "One map for each heading, north up. It writes only at the cell where it stands.";
    const explainAttention = () => {
      $("why-attention").textContent = pointed ? "Where the pointer, one of its guides, wants to go."
        : `Where its query finds what it looks for${arrow ? "; the arrow is the position that it reads" : ""}.`;
    };
    explainAttention();
    $("reader").hidden = !withPointer;
    for (const radio of $("reader").querySelectorAll("input")) {
      radio.addEventListener("change", () => {
        pointed = radio.value === "pointer";
        explainAttention();
        showMaps();
        showOverlay();
      });
    }
    $("map-key").textContent = `colours: ${percent(map.explained)} of variance`
      + (data.known_layout ? "; rings: goals" : "");
    if (attended) scale("attention-scale", colourOf("attention"));
    $("overlay").hidden = false;
    if (!attended) $("overlay").querySelector("[value=attention]").parentNode.remove();
  }
  /* An arrow in SVG from (x, y) by (dx, dy), its head of a fixed size where there is room. */
  const arrowPath = (x, y, dx, dy, head) => {
    const length = Math.hypot(dx, dy) || 1e-9, size = Math.min(head, length * 0.6);
    const [ux, uy] = [dx / length * size, dy / length * size], [tx, ty] = [x + dx, y + dy];
    return `M${x} ${y}L${tx} ${ty}M${tx - ux - uy * 0.6} ${ty - uy + ux * 0.6}L${tx} ${ty}L${tx - ux + uy * 0.6} ${ty - uy - ux * 0.6}`;
  };
  /* Where a place of the world truly is on a tile, in cells, and whether it had to be moved to the tile's edge. */
  const spotAt = ([x, y], { frame, extent, size, across }) => {
    let [right, ahead] = [x, y];
    if (frame === "ego") {
      const [px, py, phi] = data.pose[now], [dx, dy] = [x - px, y - py];
      [right, ahead] = [dx * Math.sin(phi) - dy * Math.cos(phi), dx * Math.cos(phi) + dy * Math.sin(phi)];
    }
    const shares = [right / extent, -ahead / extent], far = 2 * Math.max(...shares.map(Math.abs));
    const rim = 1 - 0.05 * across, pull = far > 1 ? rim / far : 1;
    return [...shares.map((share) => (share * pull + 0.5) * size), far > 1];
  };
  const showSpots = (spots, sheet) => spots.forEach(({ place, goalIndex, all }) => {
    const [x, y, outside] = spotAt(place, sheet), { size, across } = sheet;
    all.forEach((g, tile) => {
      g.setAttribute("transform", `translate(${x + (tile % across) * size} ${y + Math.floor(tile / across) * size}) scale(${outside ? 0.55 : 1})`);
      g.setAttribute("visibility", "visible");
      g.classList.toggle("outside", outside);
      g.classList.toggle("done", goalIndex !== undefined && Boolean(arrays.reached[now * data.goals.length + goalIndex]));
    });
  });
  const wedge = (r) => `M0 ${-r}L${r * 0.72} ${r * 0.8}L0 ${r * 0.4}L${-r * 0.72} ${r * 0.8}Z`;
  const showMaps = () => {
    if (!map) return;
    const colours = { map: mapColour, attention: attentionColour };
    for (const name of Object.keys(marks)) {
      paint($(name), side, side, (i) => colours[name](indexOf(i % side, Math.floor(i / side))));
      const found = marks[name];
      showSpots(found.spots, { ...map, across });
      const [x, y, phi] = (data.believed || data.pose)[now];
      found.agents.forEach((agent, i) => {
        const place = map.frame === "ego" ? [S / 2, S / 2, 0]
          : [(x / map.extent + 0.5) * S, (0.5 - y / map.extent) * S, 90 - phi * 180 / Math.PI];
        agent.setAttribute("d", wedge(across > 1 ? 0.9 : 0.75));
        agent.setAttribute("transform", `translate(${place[0] + (i % across) * S} ${place[1] + Math.floor(i / across) * S}) rotate(${place[2]})`);
      });
      if (found.arrow) {
        found.arrow.setAttribute("visibility", name === "attention" && pointed ? "hidden" : "visible");
        const [right, ahead] = map.position[now];
        found.arrow.setAttribute("d", arrowPath(S / 2, S / 2, right * S / 2, -ahead * S / 2, 0.9));
        found.arrow.dataset.x = right;
        found.arrow.dataset.y = ahead;
      }
    }
    if (attended) {
      const uniform = 1 / (tiles * S * S);
      $("attention-peak").textContent = `${percent(peak(), 2)}, ${(peak() / uniform).toFixed(1)} × even`;
    }
  };

  /* ---- from above ---- */
  const half = data.arena / 2, margin = data.border + data.arena * 0.02, reach = half + margin;
  for (const id of ["floor", "above"]) $(id).setAttribute("viewBox", `${-reach} ${-reach} ${2 * reach} ${2 * reach}`);
  make($("floor"), "rect", { x: -half, y: -half, width: data.arena, height: data.arena, class: "ground" });
  const above = $("above");
  if (data.known_layout) {
    const b = data.border, out = half + b;
    const d = [`M${-out} ${-out}H${out}V${out}H${-out}ZM${-half} ${-half}V${half}H${half}V${-half}Z`,
      ...data.walls.map(([x0, y0, x1, y1]) => `M${x0} ${-y1}H${x1}V${-y0}H${x0}Z`)];
    make(above, "path", { d: d.join(""), class: "wall" });
  } else {
    make(above, "rect", { x: -half, y: -half, width: data.arena, height: data.arena, class: "frame" });
  }
  const unit = 2 * reach / 100;
  const points = data.pose.map(([x, y]) => `${x.toFixed(1)},${(-y).toFixed(1)}`);
  make(above, "polyline", { points: points.join(" "), class: "way ahead", "stroke-width": unit * 0.35 });
  const walked = make(above, "polyline", { class: "way", "stroke-width": unit * 0.7 });
  if (data.start) {
    const [x, y] = data.start;
    make(above, "circle", { cx: x, cy: -y, r: unit * 0.9, class: "start", "stroke-width": unit * 0.4 });
  }
  const goals = data.goals.map((goal, i) => {
    const [x, y] = goal.place, g = make(above, "g", { class: "goal", transform: `translate(${x} ${-y})` });
    const radius = Math.max(data.goal_radius, unit * 2);
    make(g, "circle", { r: radius, fill: goal.colour, stroke: goal.colour, "stroke-width": unit * 0.5 });
    const text = make(g, "text", { "font-size": radius * 1.25 }, data.goals.length > 2 ? i + 1 : "");
    const entry = make($("legend"), "li");
    const dot = make(entry, "i");
    dot.style.background = dot.style.borderColor = goal.colour;
    make(entry, "span", {}, data.goals.length > 2 ? `${i + 1} ${goal.name}` : goal.name);
    return { g, text, entry };
  });
  if (data.start) { const entry = make($("legend"), "li"); make(entry, "i", { class: "from" }); make(entry, "span", {}, "start"); }
  { const entry = make($("legend"), "li"); make(entry, "i", { class: "you" }); make(entry, "span", {}, "agent"); }
  const reading = arrow ? make(above, "path", { class: "arrow", "stroke-width": unit * 0.8 }) : null;
  const leads = guides ? guides.names.slice(1).map((name) => make(above, "path", { class: `lead ${name}` })) : [];
  const believer = data.believed ? make(above, "path", { class: "agent believed", d: wedge(unit * 2.4), "stroke-width": unit * 0.5 }) : null;
  const walker = make(above, "path", { class: "agent", id: "walker", d: wedge(unit * 2.6), "stroke-width": unit * 0.5 });
  const hovered = make(above, "path", { class: "cell", "stroke-width": unit * 0.5, visibility: "hidden" });
  let overlay = "map";
  const over = $("over");
  const showOverlay = () => {
    over.hidden = !map || overlay === "none";
    if (over.hidden) return;
    over.width = over.height = S;
    if (map.frame === "world" && tiles > 1) {
      /* One picture for all headings: the mean colour of what is known, the sum of the attention. */
      const sums = new Float32Array(S * S);
      if (overlay === "attention") {
        for (let i = 0; i < tiles * S * S; i++) sums[i % (S * S)] += attentionAt(i);
        const peak = Math.max(...sums);
        paint(over, S, S, (i) => attentionColours[Math.round(255 * sums[i] / peak)]);
      } else {
        paint(over, S, S, (i) => {
          const found = map.tiles.map((_, tile) => mapColour(tile * S * S + i)).filter((colour) => colour[3]);
          return found.length ? [0, 1, 2, 3].map((k) => found.reduce((sum, colour) => sum + colour[k], 0) / found.length) : [0, 0, 0, 0];
        });
      }
    } else {
      paint(over, S, S, overlay === "map" ? mapColour : attentionColour);
    }
    const [x, y, phi] = map.frame === "ego" ? data.pose[now] : [0, 0, Math.PI / 2];
    const width = map.extent / (2 * reach) * 100;
    Object.assign(over.style, {
      width: `${width}%`, left: `${50 + x / (2 * reach) * 100 - width / 2}%`, top: `${50 - y / (2 * reach) * 100 - width / 2}%`,
      transform: `rotate(${90 - phi * 180 / Math.PI}deg)`,
    });
  };
  const showAbove = () => {
    const [x, y, phi] = data.pose[now], degrees = 90 - phi * 180 / Math.PI;
    walker.setAttribute("transform", `translate(${x} ${-y}) rotate(${degrees})`);
    if (believer) {
      const [bx, by, bphi] = data.believed[now];
      believer.setAttribute("transform", `translate(${bx} ${-by}) rotate(${90 - bphi * 180 / Math.PI})`);
    }
    walked.setAttribute("points", points.slice(0, now + 1).join(" "));
    if (reading) {
      const [right, ahead] = map.position[now].map((share) => share * map.extent / 2);
      const dx = right * Math.sin(phi) + ahead * Math.cos(phi), dy = -right * Math.cos(phi) + ahead * Math.sin(phi);
      reading.setAttribute("d", arrowPath(x, -y, dx, -dy, unit * 2.2));
    }
    leads.forEach((path, k) => {
      const way = guides.ways[now][k], followed = guides.whom[now] === k + 1;
      path.classList.toggle("followed", followed);
      path.setAttribute("stroke-width", unit * (followed ? 1.1 : 0.6));
      if (way) {
        const far = unit * (way[2] > 0 ? 13 : 0), [right, ahead] = [way[0] * far, way[1] * far];
        const dx = right * Math.sin(phi) + ahead * Math.cos(phi), dy = -right * Math.cos(phi) + ahead * Math.sin(phi);
        path.setAttribute("d", far ? arrowPath(x, -y, dx, -dy, unit * 3) : "");
      } else if (withPointer) { /* a ring where the pointer attends most */
        const cells = arrays.pointing.subarray(now * S * S, (now + 1) * S * S), best = cells.indexOf(65535);
        const right = ((best % S + 0.5) / S - 0.5) * map.extent, ahead = (0.5 - (Math.floor(best / S) + 0.5) / S) * map.extent;
        const px = x + right * Math.sin(phi) + ahead * Math.cos(phi), py = -y + right * Math.cos(phi) - ahead * Math.sin(phi);
        const r = unit * 2.2;
        path.setAttribute("d", `M${px - r} ${py}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`);
      }
    });
    goals.forEach(({ g, entry }, i) => {
      const done = Boolean(arrays.reached[now * goals.length + i]);
      g.classList.toggle("done", done);
      entry.classList.toggle("done", done);
    });
    const found = goals.filter(({ entry }) => entry.classList.contains("done")).length;
    $("above-text").textContent = `The maze from above; the agent is at ${Math.round(x)} east, ${Math.round(y)} north`
      + (goals.length ? `; ${found} of ${goals.length} goals reached` : "");
    showOverlay();
  };
  for (const radio of $("overlay").querySelectorAll("input")) {
    radio.addEventListener("change", () => { overlay = radio.value; showOverlay(); });
  }

  /* ---- the recurrent state of agents without a map ---- */
  const units = arrays.hidden ? data.arrays.hidden.shape[1] : 0, columns = units ? Math.ceil(Math.sqrt(units * 2)) : 0;
  const rows = units ? Math.ceil(units / columns) : 0;
  const mixed = (from, to, part) => from.map((value, k) => Math.round(value + (to[k] - value) * part));
  const LESS = [40, 96, 178], MORE = [214, 96, 30];
  const diverging = (share) => mixed([238, 238, 238], share < 0 ? LESS : MORE, Math.abs(share)); /* -1 to 1 */
  if (units) {
    $("panel-hidden").hidden = false;
    $("hidden").width = columns;
    $("hidden").height = rows;
    scale("hidden-scale", (i) => diverging(i / 127.5 - 1));
  }
  const showHidden = () => units && paint($("hidden"), columns, rows, (i) => i < units
    ? [...diverging(arrays.hidden[now * units + i] / 127), 255] : [0, 0, 0, 0]);

  /* ---- the planes of the places ---- */
  const planes = data.planes, P = planes ? planes.size : 0;
  const valueAt = (name, i) => {
    const k = planes.names.indexOf(name);
    const level = arrays.planes[(now * planes.names.length + k) * P * P + i];
    return planes.signed[k] ? (level - 128) / 127 : level / 255;
  };
  const themed = (...names) => {
    const style = getComputedStyle(document.documentElement);
    return names.map((name) => style.getPropertyValue(name).match(/[0-9a-f]{2}/gi).map((pair) => parseInt(pair, 16)));
  };
  const WAYS = { homeward: "to the start", outward: "to the unseen" };
  const nearness = (floor, share) => mixed(floor, share < 0 ? LESS : MORE, Math.abs(share) * 0.85);
  let drawn = "trail", placeSpots = [];
  const showPlaces = () => {
    if (!planes) return;
    const [free, wall, recent, old] = themed("--open", "--wall", "--way", "--old");
    paint($("places"), P, P, (i) => {
      const [open, blocked, late, early] = ["free", "blocked", "recent", "old"].map((name) => valueAt(name, i));
      let colour = mixed(free, wall, blocked);
      let shown = Math.max(open, blocked);
      if (drawn === "trail") {
        colour = mixed(mixed(colour, old, early), recent, late);
        shown = Math.max(shown, early, late);
      } else {
        colour = nearness(colour, valueAt(drawn, i));
      }
      return [...colour, Math.round(255 * shown)];
    });
    showSpots(placeSpots, { frame: "ego", extent: planes.extent, size: P, across: 1 });
  };
  const explainPlaces = () => {
    const key = $("places-key"), way = WAYS[drawn], [free] = themed("--open");
    const entry = (name, text) => {
      const box = make(key, "span", { class: "entry" });
      make(box, "i", { class: `swatch ${name}` });
      make(box, "span", {}, text);
    };
    key.textContent = "";
    entry("open", "free");
    entry("closed", "wall");
    if (way) {
      make(key, "span", { class: "from-here" }, "farther");
      const bar = make(key, "i", { class: "scale", id: "places-scale" });
      scale(bar.id, (i) => nearness(free, i / 127.5 - 1));
      make(key, "span", {}, "nearer");
    } else {
      entry("late", "just walked");
      entry("early", "long ago");
    }
    $("why-places").textContent = way ? `How much nearer each place is ${way} than the agent, by known ways.`
      : "What it saw free or blocked, and where it walked; striped: unseen.";
  };
  const drawPlaces = () => { if (planes) { explainPlaces(); showPlaces(); } }; /* anew: other colours, or another plane */
  if (planes) {
    $("panel-places").hidden = false;
    $("panels").classList.add("with-places");
    $("places").width = $("places").height = P;
    const svg = $("places-marks");
    svg.setAttribute("viewBox", `0 0 ${P} ${P}`);
    placeSpots = makeSpots(svg, 1, P);
    make(svg, "path", { class: "agent", d: wedge(0.9), transform: `translate(${P / 2} ${P / 2})` });
    for (const name of Object.keys(WAYS).filter((way) => planes.names.includes(way))) {
      const label = make($("drawn"), "label");
      make(label, "input", { type: "radio", name: "drawn", value: name });
      make(label, "span", {}, name);
    }
    $("drawn").hidden = $("drawn").children.length < 2;
    for (const radio of $("drawn").querySelectorAll("input")) {
      radio.addEventListener("change", () => { drawn = radio.value; drawPlaces(); });
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPlaces);
    $("why-hidden").textContent = "What it remembers beside the places: the units of its recurrent layer.";
    explainPlaces();
  }

  /* ---- the decision ---- */
  const bars = data.actions.map((action) => {
    const row = make($("policy"), "li"), name = make(row, "span", { class: "name" }, action);
    const bar = make(make(row, "span", { class: "track" }), "i");
    const track = make(row, "span", { class: "track other" });
    return { row, name, bar, track, other: make(track, "i"),
      share: make(row, "span", { class: "share" }), otherShare: make(row, "span", { class: "share other" }) };
  });
  $("policy").classList.toggle("bare", !mind);
  const signals = [["reward so far", data.return, 3], ["value", data.value, 3], ["β", map && map.beta, 2]]
    .filter(([, values]) => values).map(([name, values, digits]) => {
      const low = Math.min(...values), high = Math.max(...values), span = high - low || 1;
      const box = make($("signals"), "div");
      const term = make(box, "dt", {}, name);
      if (name === "β") term.title = "How sharp the attention is: its inverse temperature, 1 or more";
      if (name === "value") term.title = "The discounted reward that the agent expects from here";
      const number = make(box, "dd"), svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("viewBox", "0 0 100 24");
      svg.setAttribute("preserveAspectRatio", "none");
      svg.setAttribute("aria-hidden", "true");
      box.append(svg);
      const d = values.map((value, t) => `${(100 * t / Math.max(T - 1, 1)).toFixed(2)} ${(22 - 20 * (value - low) / span).toFixed(2)}`);
      make(svg, "path", { d: `M${d.join("L")}`, class: "curve", "vector-effect": "non-scaling-stroke" });
      return { number, values, digits, cursor: make(svg, "path", { class: "cursor", "vector-effect": "non-scaling-stroke" }) };
    });
  /* ---- whom it follows ---- */
  const followers = guides ? guides.names.map((name, k) => {
    const row = make($("whom"), "li", { class: name });
    const label = make(row, "span", { class: "name" }, name);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "-12 -12 24 24");
    svg.setAttribute("aria-hidden", "true");
    label.append(svg);
    const needle = k && guides.ways[0][k - 1] ? make(svg, "path", { d: "M0 9V-8M-5 -3L0 -9L5 -3", class: "needle" }) : null;
    const bar = make(make(row, "span", { class: "track" }), "i");
    return { row, label, name, needle, bar, share: make(row, "span", { class: "share" }), far: make(row, "span", { class: "far" }) };
  }) : [];
  const showWhom = () => followers.forEach(({ row, label, name, needle, bar, share, far }, k) => {
    const way = k ? guides.ways[now][k - 1] : null, known = Boolean(way && way[2] > 0), followed = guides.whom[now] === k;
    row.classList.toggle("taken", followed);
    label.setAttribute("aria-label", name + (followed ? ", followed" : ""));
    bar.style.width = `${100 * guides.shares[now][k]}%`;
    share.textContent = percent(guides.shares[now][k]);
    far.textContent = way ? (known ? `${Math.max(1, Math.round(way[2]))} decisions` : "no way") : "";
    if (!needle) return;
    needle.setAttribute("visibility", known ? "visible" : "hidden");
    needle.setAttribute("transform", `rotate(${Math.atan2(way[0], way[1]) * 180 / Math.PI})`);
  });
  if (guides) {
    $("whom").hidden = false;
    $("followed").removeAttribute("hidden");
    $("panels").classList.add("with-guides");
    $("followed").setAttribute("viewBox", `0 0 ${T} 1`);
    const runs = []; /* of decisions with the same one followed */
    guides.whom.forEach((k, t) => {
      if (t && guides.whom[t - 1] === k) runs[runs.length - 1].width += 1;
      else runs.push({ k, x: t, width: 1 });
    });
    for (const { k, x, width } of runs) make($("followed"), "rect", { x, y: 0, width, height: 1, class: guides.names[k] });
    const counts = guides.names.map((name, k) => `${name} ${percent(guides.whom.filter((each) => each === k).length / T)}`);
    const text = `Whom it follows: ${counts.join(", ")}`;
    $("followed").setAttribute("aria-label", text);
    make($("followed"), "title", {}, text);
    for (const name of guides.names.slice(1)) {
      const entry = make($("legend"), "li");
      make(entry, "i", { class: `lead ${name}` });
      make(entry, "span", {}, name);
    }
  }
  /* ---- what the agent would have decided without a part of its memory ---- */
  const A = data.actions.length, lesions = data.lesions || [];
  let lesion = -1; /* none */
  const policyWithout = () => [...arrays.lesioned.subarray((lesion * T + now) * A, (lesion * T + now + 1) * A)];
  const nats = (kl) => (kl === 0 || kl >= 0.001 ? kl.toFixed(3) : kl.toExponential(0).replace("-", "−"));
  const differsAt = (t) => Boolean(arrays.differs[lesion * T + t]);
  const showLesioned = () => {
    if (lesion < 0) return;
    const policy = policyWithout(), best = policy.indexOf(Math.max(...policy));
    const own = data.favourite[now]; /* before rounding */
    bars.forEach(({ bar, share, track, other, otherShare }, i) => {
      other.style.width = `${100 * policy[i]}%`;
      otherShare.textContent = percent(policy[i]);
      make(otherShare, "span", { class: "sr" }, ` without ${lesions[lesion].name}`);
      for (const node of [track, otherShare]) node.classList.toggle("favourite", i === best);
      for (const node of [bar.parentNode, share]) node.classList.toggle("favourite", i === own);
    });
    const told = $("lesion-kl");
    told.textContent = "";
    make(told, "span", { class: "words" }, differsAt(now) ? "other choice, " : "same choice, ");
    make(told, "span", {}, "KL ");
    make(told, "b", {}, nats(arrays.divergence[lesion * T + now]));
    $("strip-now").setAttribute("d", `M${now} 0V22`);
  };
  const showStrip = () => {
    const svg = $("strip-marks"), from = lesion * T, kl = arrays.divergence.subarray(from, from + T);
    svg.textContent = "";
    svg.setAttribute("viewBox", `0 0 ${Math.max(T - 1, 1)} 22`);
    const most = Math.max(...kl) || 1;
    const d = Array.from(kl, (value, t) => `L${t} ${(21 - 13 * value / most).toFixed(2)}`);
    make(svg, "path", { d: `M0 21${d.join("")}L${T - 1} 21Z`, class: "far" });
    make(svg, "path", { d: `M0 21.5H${Math.max(T - 1, 1)}`, class: "base", "vector-effect": "non-scaling-stroke" });
    const ticks = Array.from(kl.keys()).filter(differsAt).map((t) => `M${t - 0.5} 0h1v6h-1Z`);
    make(svg, "path", { d: ticks.join(""), class: "ticks", "data-count": ticks.length });
    make(svg, "path", { id: "strip-now", class: "cursor", "vector-effect": "non-scaling-stroke" });
    const told = $("lesion-told");
    told.textContent = "";
    make(told, "b", { id: "lesion-count" }, `${ticks.length} of ${T}`);
    const mean = kl.reduce((sum, value) => sum + value, 0) / T;
    make(told, "span", {}, ` differ, mean KL ${nats(mean)}`);
    const text = `Upper marks: the most probable action differs. Below: KL(intact ‖ lesioned), mean ${nats(mean)}, at most ${nats(Math.max(...kl))} nats.`;
    $("strip").title = text;
    svg.setAttribute("aria-label", text);
  };
  const chooseLesion = (index) => {
    lesion = index;
    const on = lesion >= 0;
    for (const id of ["lesion-told", "strip", "lesion-kl"]) $(id).hidden = !on;
    $("policy").classList.toggle("lesioned", on);
    $("why-decide").textContent = on
      ? `Intact above, without ${lesions[lesion].name === "all" ? "memory" : lesions[lesion].name} below; most probable in bold.` : whyDecide;
    if (on) showStrip();
    showLesioned();
  };
  if (lesions.length) {
    $("lesion").hidden = false;
    $("panels").classList.add("compared");
    const ways = { mean: "its mean", zero: "zeros", shuffle: "another episode's" };
    ["none", ...lesions.map(({ name }) => name)].forEach((name, i) => {
      const label = make($("lesion"), "label");
      if (i) label.title = Object.entries(lesions[i - 1].by).map(([part, way]) => `${part}: ${ways[way]} instead`).join("; ");
      const radio = make(label, "input", { type: "radio", name: "lesion", value: i ? name : "", ...(i ? {} : { checked: "" }) });
      make(label, "span", {}, name);
      radio.addEventListener("change", () => chooseLesion(i - 1));
    });
  }
  for (const node of document.querySelectorAll(".more .lesions")) node.hidden = !lesions.length;
  const toDifference = (way) => {
    for (let t = now + way; lesion >= 0 && t >= 0 && t < T; t += way) if (differsAt(t)) { go(t); return; }
  };

  const showDecision = () => {
    showLesioned();
    showWhom();
    bars.forEach(({ row, bar, share, name }, i) => {
      const taken = data.action[now] === i;
      row.classList.toggle("taken", taken);
      name.setAttribute("aria-label", data.actions[i] + (taken ? ", taken" : ""));
      if (!mind) return;
      bar.style.width = `${100 * data.probabilities[now][i]}%`;
      share.textContent = percent(data.probabilities[now][i]);
    });
    for (const { number, values, digits, cursor } of signals) {
      number.textContent = signed(values[now], digits);
      const x = 100 * now / Math.max(T - 1, 1);
      cursor.setAttribute("d", `M${x} 0V24`);
    }
  };

  /* ---- time ---- */
  const scrubber = $("scrubber");
  scrubber.max = T - 1;
  const eventButtons = data.events.map((event) => {
    const text = `${event.name}, decision ${event.decision}`;
    const button = make($("marks"), "button", { type: "button", "aria-label": text, title: text });
    make(button, "span", {}, event.name);
    button.style.setProperty("--place", event.decision / Math.max(T - 1, 1));
    if (event.colour) button.style.setProperty("--colour", event.colour);
    if (event.decision > 0.75 * T) button.classList.add("late");
    button.addEventListener("click", () => { pause(); show(event.decision); });
    return button;
  });
  /* Names that would run into the next one give way to their flags. */
  const spread = () => {
    let free = Infinity;
    [...eventButtons].reverse().forEach((button) => {
      button.classList.remove("short");
      const box = button.getBoundingClientRect();
      const room = button.classList.contains("late") ? true : box.right + 4 < free;
      if (!room) button.classList.add("short");
      free = button.getBoundingClientRect().left;
    });
    let taken = -Infinity;
    eventButtons.forEach((button) => {
      if (button.classList.contains("late") && button.getBoundingClientRect().left < taken) button.classList.add("short");
      taken = Math.max(taken, button.getBoundingClientRect().right + 4);
    });
  };
  const remember = (() => {
    let timer = 0;
    return () => {
      clearTimeout(timer);
      timer = setTimeout(() => { try { history.replaceState(null, "", `#${now}`); } catch { /* not everywhere */ } }, 250);
    };
  })();
  const show = (decision) => {
    now = clamp(Math.round(decision) || 0, 0, T - 1);
    showViews(); showMaps(); showPlaces(); showHidden(); showAbove(); showDecision();
    const here = data.events.filter((event) => event.decision === now);
    scrubber.value = now;
    scrubber.style.setProperty("--done", now / Math.max(T - 1, 1));
    const what = here.map((event) => event.name + (event.reward ? ` (${signed(event.reward, 2)})` : "")).join("; ");
    scrubber.setAttribute("aria-valuetext", `decision ${now} of ${T - 1}: ${data.actions[data.action[now]]}${what && `, ${what}`}`);
    $("now").textContent = now;
    $("of").textContent = ` / ${T - 1}`;
    $("time").textContent = `${(now * data.seconds).toFixed(1)} s`;
    const past = data.events.filter((event) => event.decision <= now).pop();
    const text = what || (past ? `${past.name} ${now - past.decision} ago` : data.rule);
    if ($("happening").textContent !== text) $("happening").textContent = text;
    $("happening").classList.toggle("fresh", Boolean(what));
    eventButtons.forEach((button, i) => button.classList.toggle("past", data.events[i].decision <= now));
    document.body.dataset.decision = now;
    hideCell();
    remember();
  };
  let playing = 0, began = 0, from = 0;
  const tick = (time) => {
    if (!playing) return;
    const step = from + Math.floor((time - began) / 1000 / data.seconds * Number($("speed").value));
    if (step >= T - 1) { show(T - 1); pause(); return; }
    if (step > now) show(step);
    playing = requestAnimationFrame(tick);
  };
  const play = () => {
    if (now >= T - 1) show(0);
    from = now;
    began = performance.now();
    playing = requestAnimationFrame(tick);
    $("happening").setAttribute("aria-live", "off");
    document.body.classList.add("playing");
    $("play").setAttribute("aria-label", "Pause");
  };
  const pause = () => {
    cancelAnimationFrame(playing);
    playing = 0;
    $("happening").removeAttribute("aria-live");
    document.body.classList.remove("playing");
    $("play").setAttribute("aria-label", "Play");
  };
  const go = (decision) => { pause(); show(decision); };
  const toEvent = (way) => {
    const found = data.events.filter((event) => (event.decision - now) * way > 0);
    if (found.length) go(found[way > 0 ? 0 : found.length - 1].decision);
  };
  $("play").addEventListener("click", () => (playing ? pause() : play()));
  $("first").addEventListener("click", () => go(0));
  $("last").addEventListener("click", () => go(T - 1));
  $("back").addEventListener("click", () => go(now - 1));
  $("forward").addEventListener("click", () => go(now + 1));
  $("speed").addEventListener("change", () => { if (playing) { from = now; began = performance.now(); } });
  scrubber.addEventListener("input", () => go(Number(scrubber.value)));
  const theme = () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const current = document.documentElement.dataset.theme || (dark ? "dark" : "light");
    document.documentElement.dataset.theme = current === "dark" ? "light" : "dark";
    drawPlaces();
  };
  $("theme").addEventListener("click", theme);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target;
    const busy = at.matches("select, input[type=radio], #map-box, summary");
    const far = event.shiftKey ? 10 : 1;
    const keys = {
      ArrowLeft: () => go(now - far), ArrowRight: () => go(now + far), Home: () => go(0), End: () => go(T - 1),
      " ": () => (playing ? pause() : play()), n: () => toEvent(1), p: () => toEvent(-1), l: theme,
      d: () => toDifference(event.shiftKey ? -1 : 1),
    };
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!(key in keys) || (busy && key.length > 1) || (busy && key === " ") || (key === " " && at.matches("button:not(#play)"))) return;
    event.preventDefault();
    keys[key]();
  });
  addEventListener("hashchange", () => { if (location.hash.length > 1) go(Number(location.hash.slice(1))); });

  /* ---- one cell: what it holds, how much attention it gets, what stands there ---- */
  const worldOf = (right, ahead) => {
    if (map.frame === "world") return [right, ahead];
    const [x, y, phi] = data.pose[now], sin = Math.sin(phi), cos = Math.cos(phi);
    return [x + right * sin + ahead * cos, y - right * cos + ahead * sin];
  };
  const labelAt = (x, y) => {
    for (let i = goals.length - 1; i >= 0; i--) {
      const [gx, gy] = data.goals[i].place;
      if (arrays.standing[now * goals.length + i] && Math.hypot(x - gx, y - gy) <= data.goal_radius) return 3 + i;
    }
    if (data.walls.some(([x0, y0, x1, y1]) => x >= x0 && x <= x1 && y >= y0 && y <= y1)) return 2;
    const far = Math.max(Math.abs(x), Math.abs(y));
    return far < half ? 1 : far < half + data.border ? 2 : 0;
  };
  /* The same rule as egomap.inspector.surroundings.label_cells. */
  const whatIsIn = (column, row) => {
    if (!data.known_layout) return "unknown";
    const names = ["outside", "free", "wall", ...data.goals.map((goal) => goal.name)], n = data.samples;
    const counts = names.map(() => 0);
    for (let i = 0; i < n * n; i++) {
      const right = ((column % S + ((i % n) + 0.5) / n) / S - 0.5) * map.extent;
      const ahead = (0.5 - (row % S + (Math.floor(i / n) + 0.5) / n) / S) * map.extent;
      counts[labelAt(...worldOf(right, ahead))] += 1;
    }
    const best = counts.slice(3).reduce((most, count, i) => (count > counts[most] ? i + 3 : most), 0);
    if (best >= 3 && counts[best] > 0) return names[best];
    return counts.slice(3).some(Boolean) ? names[counts.findIndex((count, i) => i > 2 && count)]
      : counts[2] >= data.wall_share * n * n ? "wall" : counts[1] * 2 > n * n ? "free" : "outside";
  };
  const describe = (column, row) => {
    const index = indexOf(column, row), i = now * tiles * S * S + index;
    return {
      known: Boolean(arrays.known[i]),
      norm: arrays.norm[i] / 255 * map.largest_norm,
      attention: attended ? attentionAt(index) : null,
      there: whatIsIn(column, row),
    };
  };
  const tip = $("cell");
  const hideCell = () => {
    tip.hidden = true;
    hovered.setAttribute("visibility", "hidden");
    for (const { cell } of Object.values(marks)) cell.setAttribute("visibility", "hidden");
  };
  const showCell = (column, row, box) => {
    const found = describe(column, row);
    tip.textContent = "";
    make(tip, "b", {}, data.known_layout ? found.there : `cell ${column}, ${row}`);
    make(tip, "span", {}, found.known ? `feature norm ${found.norm.toFixed(2)}` : "never written");
    if (found.attention !== null) make(tip, "span", {}, `attention ${percent(found.attention, 3)}`);
    tip.hidden = false;
    for (const { cell } of Object.values(marks)) {
      cell.setAttribute("x", column);
      cell.setAttribute("y", row);
      cell.setAttribute("visibility", "visible");
    }
    const corners = [[0, 0], [1, 0], [1, 1], [0, 1]].map(([i, j]) => worldOf(
      ((column % S + i) / S - 0.5) * map.extent, (0.5 - (row % S + j) / S) * map.extent));
    hovered.setAttribute("d", `M${corners.map(([x, y]) => `${x} ${-y}`).join("L")}Z`);
    hovered.setAttribute("visibility", "visible");
    const place = box.getBoundingClientRect(), size = tip.getBoundingClientRect();
    const x = place.left + (column + 0.5) / side * place.width, y = place.top + (row + 0.5) / side * place.height;
    tip.style.left = `${clamp(x - size.width / 2, 8, innerWidth - size.width - 8) + scrollX}px`;
    tip.style.top = `${(y > size.height + 24 ? y - size.height - 14 : y + 18) + scrollY}px`;
  };
  let focused = [0, 0];
  if (map) {
    for (const id of Object.keys(marks).map((name) => `${name}-box`)) {
      const box = $(id);
      box.addEventListener("pointermove", (event) => {
        const place = box.getBoundingClientRect();
        focused = [(event.clientX - place.left) / place.width, (event.clientY - place.top) / place.height]
          .map((share) => clamp(Math.floor(share * side), 0, side - 1));
        showCell(...focused, box);
      });
      box.addEventListener("pointerleave", hideCell);
    }
    focused = [side >> 1, side >> 1];
    $("map-box").addEventListener("focus", () => { if ($("map-box").matches(":focus-visible")) showCell(...focused, $("map-box")); });
    $("map-box").addEventListener("blur", hideCell);
    $("map-box").addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      if (event.key === "Escape") { $("map-box").blur(); return; }
      if (!(event.key in moves)) return;
      event.preventDefault();
      focused = focused.map((value, i) => clamp(value + moves[event.key][i], 0, side - 1));
      showCell(...focused, $("map-box"));
    });
  }

  /* ---- begin ---- */
  $("panels").classList.add(map ? "with-map" : units ? "with-state" : "bare");
  show(Number(location.hash.slice(1)) || 0);
  spread();
  addEventListener("resize", spread);
  window.inspector = Object.freeze({ data, arrays, describe, show: go, get now() { return now; } });
  document.body.classList.add("ready");
})().catch((error) => {
  const note = document.createElement("p");
  note.className = "notice";
  note.textContent = `This page cannot be shown by this browser: ${error.message}`;
  document.body.prepend(note);
  throw error;
});
