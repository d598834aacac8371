
"use strict";
// Texts of the run are set as text alone: nothing of the record is ever read as markup.
(() => {
  const record = JSON.parse(document.getElementById("record").textContent);
  const main = document.getElementById("main");
  const width = 640;
  const height = 260;
  const left = 64;
  const right = 12;
  const top = 12;
  const bottom = 32;

  const fill = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
    for (const child of children) node.append(child);
    return node;
  };
  const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
  const svg = (name, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

  // What differs by more than a number can say is not drawn.
  const isNumber = (value) => typeof value === "number" && Math.abs(value) < 1e300;
  const short = (value) => {
    if (!isNumber(value)) return "–";
    if (Number.isInteger(value)) return value.toLocaleString("en");
    const size = Math.abs(value);
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return size < 0.001 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  };
  const seconds = (value) => isNumber(value) ? short(value) + " s" : "–";
  const share = (value) => isNumber(value) ? (100 * value).toFixed(1) + " %" : "–";
  const titles = {accuracy: "accuracy", auc: "AUC", average_precision: "average precision", mrr: "MRR"};
  const titleOf = (metric) => titles[metric] || metric;
  const time = (text) => text.replace("T", " ").replace("Z", "");
  const hitRate = (rows) => rows && rows.cache + rows.remote > 0 ? rows.cache / (rows.cache + rows.remote) : null;

  const section = (title, ...children) => main.append(html("section", {}, html("h2", {}, title), ...children));
  const note = (text) => html("p", {class: "note"}, text);

  // Round numbers from `low` to `high`, about five.
  const ticksOf = (low, high) => {
    const raw = (high - low) / 5 || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((times) => times * power >= raw);
    const ticks = [];
    for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9 && ticks.length < 20; ++i) ticks.push(i * step);
    return ticks;
  };
  const tickText = (value) => Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3)
    ? value.toExponential(0) : String(Number(value.toPrecision(6)));

  const table = (head, rows, textColumns = []) => {
    const line = (cells, name) => html("tr", {}, ...cells.map((cell, i) =>
      html(i === 0 ? "th" : name, i === 0 ? {scope: name === "th" ? "col" : "row"}
        : name === "th" ? {scope: "col"} : textColumns.includes(i) ? {class: "text"} : {}, cell)));
    return html("table", {}, html("thead", {}, line(head, "th")), html("tbody", {}, ...rows.map((row) => line(row, "td"))));
  };
  const scroll = (label, child) => html("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": label}, child);
  // A table may have thousands of rows: it is made when it is asked for.
  const numbers = (label, make, name = "Numbers") => {
    const details = html("details", {}, html("summary", {}, name));
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) details.append(scroll(label, make()));
    });
    return details;
  };
  const legend = (names, kind) => html("ul", {class: "legend"}, ...names.map((name, i) => {
    const sample = kind === "line" ? svg("line", {x1: 0, y1: 6, x2: 28, y2: 6, class: "line l" + (i + 1)})
      : svg("rect", {x: 8, y: 0, width: 12, height: 12, class: "f" + (i + 1)});
    return html("li", {}, svg("svg", {viewBox: "0 0 28 12", "aria-hidden": "true"}, sample), name);
  }));

  const frame = (label, low, high, atY) => {
    const chart = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, tabindex: 0});
    for (const tick of ticksOf(low, high)) {
      chart.append(svg("line", {class: "grid", x1: left, x2: width - right, y1: atY(tick), y2: atY(tick)}),
        svg("text", {x: left - 6, y: atY(tick) + 4, "text-anchor": "end"}, tickText(tick)));
    }
    chart.append(svg("line", {class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}));
    return chart;
  };

  // Lines by epoch. `series`: name and values, of which those that are no number make a gap.
  const lines = (title, unit, series, format = short, fixed = null) => {
    const epochs = record.epochs.map((epoch) => epoch.epoch + 1);
    const shown = series.filter((one) => one.values.some(isNumber));
    const all = shown.flatMap((one) => one.values.filter(isNumber));
    let [low, high] = fixed || [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
    if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 10, high + (Math.abs(high) || 1) / 10];
    const first = epochs[0];
    const last = epochs[epochs.length - 1];
    const atX = (epoch) => last === first ? (left + width - right) / 2
      : left + (epoch - first) / (last - first) * (width - left - right);
    const atY = (value) => height - bottom - (value - low) / (high - low) * (height - bottom - top);
    const newest = shown.map((one) => `${one.name} ${format(one.values.findLast(isNumber))}`).join(", ");
    const chart = frame(`${title} by epoch, from ${first} to ${last}. At the end: ${newest}`, low, high, atY);
    chart.dataset.points = String(epochs.length);
    for (const tick of ticksOf(first, last).filter(Number.isInteger))
      chart.append(svg("text", {x: atX(tick), y: height - 12, "text-anchor": "middle"}, String(tick)));
    for (const attempt of record.attempts.slice(1)) {
      const x = atX(Math.min(Math.max(attempt.epoch + 1, first), last));
      chart.append(svg("line", {class: "mark", x1: x, x2: x, y1: top, y2: height - bottom},
        svg("title", {}, `Restart at epoch ${attempt.epoch + 1}`)));
    }
    shown.forEach((one, number) => {
      let points = [];
      const end = () => {
        if (points.length === 1) {
          const [x, y] = points[0].split(",");
          chart.append(svg("circle", {class: "f" + (number + 1), cx: x, cy: y, r: 3}));
        } else if (points.length > 1) {
          chart.append(svg("polyline", {class: "line l" + (number + 1), points: points.join(" ")}));
        }
        points = [];
      };
      one.values.forEach((value, i) => {
        if (isNumber(value)) points.push(`${atX(epochs[i]).toFixed(1)},${atY(value).toFixed(1)}`);
        else if (!one.sparse) end();
      });
      end();
    });
    const cursor = svg("line", {class: "cursor", y1: top, y2: height - bottom});
    chart.append(cursor);
    const readout = html("p", {class: "readout", "aria-live": "polite"},
      record.attempts.length > 1 ? "Dashed vertical lines are restarts." : "");
    let at = epochs.length - 1;
    const point = (i) => {
      at = Math.min(Math.max(i, 0), epochs.length - 1);
      const x = atX(epochs[at]);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      cursor.style.visibility = "visible";
      readout.textContent = `Epoch ${epochs[at]}: ` +
        shown.map((one) => `${one.name} ${format(one.values[at])}`).join(", ");
    };
    chart.addEventListener("pointermove", (event) => {
      const box = chart.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * width;
      let nearest = 0;
      epochs.forEach((epoch, i) => {
        if (Math.abs(atX(epoch) - x) < Math.abs(atX(epochs[nearest]) - x)) nearest = i;
      });
      point(nearest);
    });
    chart.addEventListener("keydown", (event) => {
      const move = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9}[event.key];
      if (move === undefined) return;
      event.preventDefault();
      point(at + move);
    });
    return html("figure", {}, html("h3", {}, title + " ", html("span", {class: "unit"}, unit)), chart,
      legend(shown.map((one) => one.name), "line"), readout,
      numbers(title, () => table(["epoch", ...shown.map((one) => one.name)],
        epochs.map((epoch, i) => [String(epoch), ...shown.map((one) => format(one.values[i]))]))));
  };

  const phases = ["wait", "forward", "backward", "reduce", "optimizer", "other"];
  const phaseSeconds = (times) => {
    const known = phases.slice(0, 5).map((phase) => times[phase] || 0);
    return [...known, Math.max(0, (times.total || 0) - known.reduce((a, b) => a + b, 0))];
  };
  const phaseNote = "wait: no batch was there yet; reduce: waiting for other ranks; other: all else of a step.";

  // Stacked bars, one below the other.
  const stacks = (title, unit, rows, names, format) => {
    const step = 22;
    const high = top + rows.length * step + bottom;
    const most = Math.max(...rows.map((row) => row.values.reduce((a, b) => a + b, 0))) || 1;
    const atX = (value) => left + value / most * (width - left - right);
    const chart = svg("svg", {viewBox: `0 0 ${width} ${high}`, role: "img", tabindex: 0,
      "aria-label": `${title}: ` + rows.slice(0, 8).map((row) =>
        `${row.name}: ` + names.map((name, i) => `${name} ${format(row.values[i])}`).join(", ")).join("; ")});
    chart.dataset.bars = String(rows.length);
    for (const tick of ticksOf(0, most)) {
      chart.append(svg("line", {class: "grid", x1: atX(tick), x2: atX(tick), y1: top, y2: high - bottom}),
        svg("text", {x: atX(tick), y: high - 12, "text-anchor": "middle"}, tickText(tick)));
    }
    rows.forEach((row, i) => {
      chart.append(svg("text", {x: left - 6, y: top + i * step + 15, "text-anchor": "end"}, row.name));
      let sum = 0;
      row.values.forEach((value, phase) => {
        chart.append(svg("rect", {class: "f" + (phase + 1), x: atX(sum), y: top + i * step + 2,
          width: Math.max(0, atX(sum + value) - atX(sum)), height: step - 4},
        svg("title", {}, `${row.name}, ${names[phase]}: ${format(value)}`)));
        sum += value;
      });
    });
    return html("figure", {}, html("h3", {}, title + " ", html("span", {class: "unit"}, unit)), chart, legend(names, "bar"),
      numbers(title, () => table(["", ...names], rows.map((row) => [row.name, ...row.values.map(format)]))));
  };

  // One bar beside the other.
  const bars = (title, unit, names, values, by, log = false) => {
    const scale = log ? (value) => Math.log10(1 + value) : (value) => value;
    const most = Math.max(...values.map(scale)) || 1;
    const room = (width - left - right) / names.length;
    const chart = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0,
      "aria-label": `${title}: ` + names.map((name, i) => `${name}: ${short(values[i])}`).join("; ")});
    chart.dataset.bars = String(names.length);
    const ticks = log ? Array.from({length: Math.floor(most) + 1}, (_, power) => 10 ** power) : ticksOf(0, most);
    for (const tick of ticks) {
      const y = height - bottom - scale(tick) / most * (height - bottom - top);
      if (y < top - 1) continue;
      chart.append(svg("line", {class: "grid", x1: left, x2: width - right, y1: y, y2: y}),
        svg("text", {x: left - 6, y: y + 4, "text-anchor": "end"}, tickText(tick)));
    }
    const every = Math.ceil(Math.max(...names.map((name) => name.length)) * 7 / room);
    values.forEach((value, i) => {
      const size = scale(value) / most * (height - bottom - top);
      chart.append(svg("rect", {class: "f1", x: left + i * room + room * 0.1, y: height - bottom - size, width: room * 0.8,
        height: size}, svg("title", {}, `${names[i]}: ${short(value)}`)));
      if (i % every === 0) {
        chart.append(svg("text", {x: left + (i + 0.5) * room, y: height - 14, "text-anchor": "middle"}, names[i]));
      }
    });
    return html("figure", {}, html("h3", {}, title + " ", html("span", {class: "unit"}, unit)), chart,
      numbers(title, () => table([by, "count"], names.map((name, i) => [name, short(values[i])]))));
  };

  const last = record.attempts[record.attempts.length - 1];
  const states = {Complete: "complete", Stopped: "stopped on request", Failed: "failed",
    Unknown: "no end recorded"};

  const showSummary = () => {
    const facts = record.facts;
    document.getElementById("job").textContent = facts.job || "Training report";
    document.title = (facts.job ? facts.job + " – " : "") + "training report";
    document.getElementById("summary").textContent =
      [facts.task, facts.model, facts.dataset].filter((text) => text).join(" · ");
    const tiles = html("dl", {class: "tiles"});
    const tile = (name, value) => tiles.append(html("div", {class: "tile"}, html("dt", {}, name), html("dd", {}, value)));
    if (last) tile("State", states[last.end] + (last.end === "Unknown" ? `, last seen ${time(last.seen)}` : ""));
    const done = record.epochs.length ? record.epochs[record.epochs.length - 1].epoch + 1 : 0;
    tile("Epochs", facts.epochs ? `${done} of ${facts.epochs}` : String(done));
    if (record.epochs.length) tile("Loss of the last epoch", short(record.epochs[record.epochs.length - 1].loss));
    const outcome = record.outcome;
    const bestEpoch = outcome && outcome.bestEpoch !== undefined ? outcome.bestEpoch : null;
    if (bestEpoch !== null) tile("Best epoch", String(bestEpoch + 1));
    for (const [name, value] of Object.entries(outcome ? outcome.metrics : {}))
      tile(name.replaceAll("_", " ") + (name.startsWith("test_") && outcome.testModel ? `, ${outcome.testModel} model` : ""), short(value));
    if (last) tile("Ranks", `${last.worldSize}${last.device ? ", first on " + last.device : ""}`);
    if (facts.batchSize) tile("Batch of a rank", short(facts.batchSize));
    if (record.epochs.length)
      tile("Mean epoch", seconds(record.epochs.reduce((sum, epoch) => sum + (epoch.seconds || 0), 0) / record.epochs.length));
    tile("Restarts", String(Math.max(0, record.attempts.length - 1 + record.attemptsLeftOut)));
    main.append(tiles);
    if (last && last.end === "Failed" && last.reason) main.append(html("p", {id: "failure"}, "Failure: " + last.reason));
    for (const [name, value] of outcome ? [["Checkpoint", outcome.checkpoint], ["Hash of the parameters", outcome.parametersHash]] : [])
      if (value) main.append(note(`${name}: ${value}`));
  };

  const showEpochs = () => {
    if (!record.epochs.length) return section("By epoch", note("No epoch has ended yet."));
    const of = (part) => record.epochs.map((epoch) => epoch[part] ? epoch[part].value : null);
    const metricOf = (part) => (record.epochs.findLast((epoch) => epoch[part]) || {[part]: {metric: ""}})[part].metric;
    const charts = html("div", {class: "charts"});
    if (record.epochs.some((epoch) => isNumber(epoch.loss)))
      charts.append(lines("Loss", "mean over the training items", [{name: "loss", values: record.epochs.map((epoch) => epoch.loss)}]));
    const metrics = [["train", "training batches"], ["trainSet", "training set"], ["validation", "validation set"], ["test", "test set"]]
      .map(([part, name]) => ({name: `${name}, ${titleOf(metricOf(part))}`, values: of(part), sparse: part !== "train"}))
      .filter((one) => one.values.some(isNumber));
    if (metrics.length) charts.append(lines("Metrics", "higher is better; training batches with dropout", metrics, short));
    const rates = record.epochs.map((epoch) => epoch.learningRate);
    if (rates.some(isNumber)) charts.append(lines("Learning rate", "of each epoch's last step", [{name: "learning rate", values: rates}]));
    charts.append(lines("Time of an epoch", "seconds, with its evaluation", [{name: "seconds", values: record.epochs.map((epoch) => epoch.seconds)}], seconds));
    const timed = record.epochs.some((epoch) => epoch.stepSeconds);
    if (timed) {
      charts.append(lines("Phases of the steps", "seconds of an epoch, mean of the ranks", phases.map((phase, i) =>
        ({name: phase, values: record.epochs.map((epoch) => epoch.stepSeconds ? phaseSeconds(epoch.stepSeconds)[i] : null)})), seconds));
    }
    const hits = record.epochs.map((epoch) => hitRate(epoch.rows));
    if (hits.some(isNumber))
      charts.append(lines("Cache hit rate", "of the feature rows that are not the node's own", [{name: "hit rate", values: hits}], share, [0, 1]));
    section("By epoch", charts);
    if (record.epochStride > 1) main.append(note(`Of this long run the record keeps every ${record.epochStride}th epoch.`));
    if (!hits.some(isNumber)) main.append(note("No cache hit rates: no feature row was read through a cache of remote rows."));
    if (!timed) main.append(note("The record has no step phases of these epochs."));
  };

  const showRanks = () => {
    const ranks = record.ranks;
    if (!ranks || !ranks.ranks.length) return section("By rank", note("No epoch of the newest attempts has ended: nothing is known by rank."));
    const rows = ranks.ranks.map((rank, i) => ({name: "rank " + i, values: phaseSeconds(rank.seconds),
      own: rank.seconds.total - rank.seconds.reduce, rank}));
    const most = 64;
    const shown = rows.length <= most ? rows : [...rows].sort((a, b) => b.own - a.own).slice(0, most);
    section("By rank", note(`Sums over the epochs ${ranks.firstEpoch + 1} to ${ranks.lastEpoch + 1}, since the last restart that has ended an epoch. ${phaseNote}`),
      ...(shown.length < ranks.worldSize ? [note(`${shown.length} of ${ranks.worldSize} ranks: those that wait least for others.`)] : []),
      html("div", {class: "charts"}, stacks("Seconds of steps", "by phase", shown, phases, seconds)),
      numbers("Work by rank", () => table(["", "items", "sampled edges", "own rows", "cached rows", "remote rows", "hit rate", "expected"],
        rows.map((row) => [row.name, short(row.rank.items), short(row.rank.sampledEdges),
          ...["local", "cache", "remote"].map((place) => row.rank.rows ? short(row.rank.rows[place]) : "–"),
          share(hitRate(row.rank.rows)), share(row.rank.expectedHitRate)])), "Work by rank"));
  };

  const showAttempts = () => {
    const rows = record.attempts.map((attempt, i) => {
      const later = i + 1 < record.attempts.length;
      const end = attempt.end === "Unknown" ? (later ? "lost: said nothing of its end" : "no end recorded") : states[attempt.end];
      return [String(record.attemptsLeftOut + i + 1), time(attempt.began), `epoch ${attempt.epoch + 1}, step ${attempt.step}`,
        time(attempt.seen), String(attempt.worldSize), end, attempt.reason || ""];
    });
    section("Attempts", ...(record.attemptsLeftOut ? [note(`${record.attemptsLeftOut} earlier ones are left out.`)] : []),
      scroll("Attempts", table(["attempt", "began", "from", "last record", "ranks", "end", "reason"], rows, [1, 2, 3, 5, 6])));
  };

  const showConfusion = () => {
    const confusion = record.confusion;
    if (!confusion) {
      return section("Confusion matrix", note("None: it is counted when the test set of a classification of at most 1,000 classes is measured."));
    }
    const names = confusion.classes.map((one) => one < 0 ? "others" : String(one));
    const size = names.length;
    const head = html("tr", {}, html("th", {scope: "col"}, "class \\ answer"), ...names.map((name) => html("th", {scope: "col"}, name)),
      html("th", {scope: "col"}, "right"));
    const body = names.map((name, row) => {
      const counts = confusion.counts.slice(row * size, (row + 1) * size);
      const sum = counts.reduce((a, b) => a + b, 0);
      const cells = counts.map((count, column) => {
        const level = sum && count ? Math.min(5, 1 + Math.floor(5 * count / sum)) : 0;
        return html("td", {class: `h${level}${row === column ? " right" : ""}`}, short(count));
      });
      return html("tr", {}, html("th", {scope: "row"}, name), ...cells,
        html("td", {}, sum && confusion.classes[row] >= 0 ? share(counts[row] / sum) : "–"));
    });
    const sheet = html("table", {id: "confusion"}, html("thead", {}, head), html("tbody", {}, ...body));
    section("Confusion matrix", note("The last measurement of the test set. Rows are the classes of the items, columns the answers; shades are shares of a row."),
      ...(size <= confusion.numClasses && confusion.classes[size - 1] < 0
        ? [note(`The ${size - 1} of ${confusion.numClasses} classes with most wrong answers; all others are one.`)] : []),
      scroll("Confusion matrix", sheet));
  };

  const bucketNames = (counts) => counts.map((_, i) => i < 2 ? String(i) : i === 2 ? "2–3" : `${short(2 ** (i - 1))}–${short(2 ** i - 1)}`);
  const showData = () => {
    const data = record.data;
    if (!data) return section("Data set", note("The record has no counts of the data set: its lists and labels were not on rank 0."));
    const charts = html("div", {class: "charts"});
    for (const degrees of data.degrees) {
      if (!degrees.counts.length) continue;
      charts.append(bars("In-degrees " + degrees.edgeType,
        `nodes, log scale; most ${short(degrees.most)}` + (degrees.looked < degrees.nodes ? `; ${short(degrees.looked)} of ${short(degrees.nodes)} nodes` : ""),
        bucketNames(degrees.counts), degrees.counts, "in-degree", true));
    }
    const labels = data.labels;
    if (labels && labels.classes.length) {
      const names = [...labels.classes.map(String), ...(labels.others ? ["others"] : [])];
      charts.append(bars("Classes of " + labels.of,
        `items; ${short(labels.numClasses)} classes, ${short(labels.unlabelled)} without one` +
          (labels.looked < labels.items ? `; ${short(labels.looked)} of ${short(labels.items)}` : ""),
        names, [...labels.counts, ...(labels.others ? [labels.others] : [])], "class"));
    }
    section("Data set", note(data.description), charts);
    if (!labels) main.append(note("The data set has no labels."));
  };

  showSummary();
  showEpochs();
  showRanks();
  showAttempts();
  showConfusion();
  showData();
  document.documentElement.dataset.ready = "true";
})();
