// The figures: put into the page, and the timeline filled with a record.

const FRAME_PX = 82;
const timeline = { figure: null, doc: null };

function source(name) {
  return timeline.doc.get_model_by_name(name);
}

function columns(names, rows) {
  return Object.fromEntries(names.map((name, index) => [name, rows.map((row) => row[index])]));
}

function drawRecord(record, keepView = false) {
  if (!timeline.figure || !record) return;
  const tolerance = byId('tolerance').value;
  const events = eventsOf(record, tolerance, byId('answers').checked);
  const rows = rowsOf(record);
  const bars = events.filter((event) => event.to !== undefined);
  const points = events.filter((event) => event.to === undefined && event.row);
  const lines = events.filter((event) => event.row === null);
  source('bars').data = columns(['row', 'left', 'right', 'colour', 'alpha', 'label'], bars.map((event) => [
    event.row, event.from, event.to, TONES[event.tone], (event.shade || 0) % 2 ? 0.55 : 0.95, labelOf(event)]));
  source('points').data = columns(['x', 'row', 'marker', 'colour', 'label'], points.map((event) => [
    event.from, event.row, event.marker, TONES[event.tone], labelOf(event)]));
  source('lines').data = columns(['x', 'colour', 'label'], lines.map((event) => [
    event.from, TONES[event.tone], labelOf(event)]));
  const times = samplingTimes(...spanOf(record, tolerance));
  source('ticks').data = columns(['x', 'row', 'label'], times.map((time, index) => [
    time, '1 FPS', `Frame ${index + 1} at 1 FPS: ${seconds(time)} s`]));
  timeline.figure.y_range.factors = rows.slice().reverse();
  timeline.figure.height = 90 + 36 * rows.length;
  if (!keepView) setView(record, state.view);
  drawFrames();
}

// Frames are drawn in screen pixels; those that would overlap are left out.
function drawFrames() {
  const frames = (state.record && state.record.frames) || [];
  const { start, end } = timeline.figure.x_range;
  const width = timeline.figure.inner_width || byId('timeline').clientWidth;
  const inView = frames.filter(([time]) => time >= start && time <= end);
  const pitch = frames.length > 1
    ? ((frames[frames.length - 1][0] - frames[0][0]) / (frames.length - 1) / (end - start)) * width : width;
  const every = Math.max(1, Math.ceil(FRAME_PX / pitch));
  const kept = inView.filter((frame, index) => index % every === 0);
  source('images').data = columns(['x', 'row', 'url'], kept.map(([time, url]) => [time, ['frames', -0.5], url]));
}

function extent(record) {
  const events = eventsOf(record, '10', false);
  const times = events.flatMap((event) => [event.from, event.to === undefined ? event.from : event.to]);
  return [Math.min(...times), Math.max(...times)];
}

function setView(record, view) {
  let [from, to] = view === 'all' ? extent(record) : spanOf(record, '10');
  // A deadline that is not far away is in view at once.
  if (record.deadline > to && record.deadline - to < (to - from) / 2) to = record.deadline;
  const part = record.frames ? FRAME_PX / 2 / Math.max(byId('timeline').clientWidth - 120, 200) : 0.03;
  const margin = Math.max((to - from) * Math.max(part, 0.03), 0.5);
  setRange(from - margin, to + margin);
}

function setRange(start, end) {
  timeline.figure.x_range.setv({ start, end });
}

function moveView(kind) {
  if (!timeline.figure || !state.record) return;
  const { start, end } = timeline.figure.x_range;
  const length = end - start;
  if (kind === 'span' || kind === 'all') { state.view = kind; setView(state.record, kind); }
  else if (kind === 'in') setRange(start + length / 4, end - length / 4);
  else if (kind === 'out') setRange(start - length / 2, end + length / 2);
  else setRange(...[start, end].map((edge) => edge + (kind === 'earlier' ? -length : length) / 4));
}

async function embed(key, target) {
  const item = figures[key];
  const views = await Bokeh.embed.embed_item({ ...item, target_id: target.id });
  const view = Array.isArray(views) ? views[0] : [...views][0];
  const doc = view.model.document;
  plots.push({ view, doc, target });
  paintDocument(doc);
  return { view, doc };
}

async function embedAll() {
  const targets = [...document.querySelectorAll('[data-figure]')];
  for (const target of targets) if (!target.id) target.id = `figure-${target.dataset.figure}`;
  for (const target of targets.sort((a) => (a.id === 'timeline' ? -1 : 1))) {
    const { view, doc } = await embed(target.dataset.figure, target);
    if (target.id !== 'timeline') continue;
    timeline.doc = doc;
    timeline.figure = view.model;
    timeline.figure.x_range.change.connect(drawFrames);
    timeline.figure.properties.inner_width.change.connect(drawFrames);
    drawRecord(state.record);
  }
  document.documentElement.dataset.ready = 'true';
}

const figures = JSON.parse(byId('figures').textContent);
startTheme();
if (byId('timelines')) startBrowser();
embedAll();
