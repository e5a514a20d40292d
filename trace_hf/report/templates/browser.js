// The list of records, its filters and search, and what is shown of the chosen one.

const MAX_LISTED = 500;
const FILTERS = ['configs', 'type', 'source', 'tier'];
const byId = (id) => document.getElementById(id);
const records = JSON.parse(byId('records').textContent);
const state = { matching: [], record: null, view: 'span' };

// Keeps a right-to-left or unclosed run of text from reordering what stands around it.
const isolated = (text) => `\u2068${text}\u2069`;

function element(name, text, values = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return Object.assign(made, values);
}

function fillFilters() {
  for (const key of FILTERS) {
    const counts = new Map();
    for (const record of records) {
      for (const value of [record[key]].flat()) counts.set(value, (counts.get(value) || 0) + 1);
    }
    const names = key === 'configs' ? [...counts.keys()] : [...counts.keys()].sort();
    const select = byId(`filter-${key}`);
    select.append(element('option', 'all', { value: '' }));
    for (const name of names) select.append(element('option', `${isolated(name)} (${counts.get(name)})`, { value: `=${name}` }));
    select.addEventListener('change', applyFilters);
  }
}

function applyFilters() {
  const wanted = byId('search').value.trim().toLowerCase();
  const chosen = FILTERS.map((key) => [key, byId(`filter-${key}`).value]).filter(([, value]) => value);
  state.matching = records.filter((record) => chosen.every(([key, value]) => [record[key]].flat().includes(value.slice(1)))
    && (!wanted || [record.id, record.video, record.text].some((text) => text.toLowerCase().includes(wanted))));
  // An ID that was typed in full, or to its end, comes first: `…:1` is also a part of `…:10`.
  const exact = state.matching.findIndex((record) => record.id.toLowerCase() === wanted || record.id.endsWith(`:${wanted}`));
  if (wanted && exact > 0) state.matching.unshift(...state.matching.splice(exact, 1));
  listMatches();
}

function listMatches() {
  const list = byId('list');
  // The list is a part of the matches that holds the chosen record.
  const place = Math.max(0, state.matching.indexOf(state.record));
  const first = place < MAX_LISTED ? 0 : place - Math.floor(MAX_LISTED / 2);
  const shown = state.matching.slice(first, first + MAX_LISTED);
  list.replaceChildren(...shown.map((record) => element('option', optionText(record), { value: record.id })));
  const count = state.matching.length;
  byId('matches').textContent = `${count} of ${records.length} match`
    + (count > MAX_LISTED ? `; ${first + 1} to ${first + shown.length} are listed` : '');
  if (!count) return;
  if (state.record && state.matching.includes(state.record)) list.value = state.record.id;
  else choose(state.matching[0], false);
}

function optionText(record) {
  const size = record.task === 'qa' ? `asked at ${seconds(record.time)} s` : `${record.stored.length} windows`;
  return [record.id, record.type, size].map(isolated).join(' · ');
}

function choose(record, remember = true) {
  state.record = record;
  state.view = 'span';
  byId('list').value = record.id;
  if (byId('list').value !== record.id && state.matching.includes(record)) listMatches();
  showRecord();
  drawRecord(record);
  if (remember) history.replaceState(null, '', `#record=${encodeURIComponent(record.id)}`);
}

function step(by) {
  if (!state.matching.length) return;
  const place = state.matching.indexOf(state.record) + by;
  choose(state.matching[(place + state.matching.length) % state.matching.length]);
}

function showRecord() {
  const { record } = state;
  const answers = byId('answers').checked;
  byId('record').hidden = false;
  byId('record-id').replaceChildren(element('bdi', record.id));
  byId('record-about').replaceChildren(...aboutParts(record));
  byId('record-text').textContent = record.text;
  byId('record-options').replaceChildren(...(record.options || []).map((option) => optionItem(option, record, answers)));
  byId('record-notes').textContent = notesOf(record);
  const events = eventsOf(record, byId('tolerance').value, answers).sort((a, b) => a.from - b.from);
  byId('events').replaceChildren(...events.map(eventRow));
}

function aboutParts(record) {
  const parts = [record.type, record.source, record.tier, record.configs.join(', '), record.video];
  return parts.flatMap((part, index) => (index ? [' · ', element('bdi', part)] : [element('bdi', part)]));
}

function optionItem(option, record, answers) {
  const item = element('li');
  item.append(element('bdi', option));
  if (answers && option.startsWith(`${record.answer}.`)) {
    item.className = 'right';
    item.append(element('span', ' ✓ answer', { className: 'mark' }));
  }
  return item;
}

function notesOf(record) {
  const notes = record.moved.map(([field, was, now, why]) => `${field} was moved from ${was} to ${now} s (${why}).`);
  if (record.deadline !== undefined && record.deadline !== null) {
    notes.push('The dashed grey line is the deadline that the source states: provenance, it bounds nothing.');
  }
  if (record.frames) notes.push('The pictures are frames of the video; each stands at its own time.');
  return notes.join(' ');
}

function eventRow(event) {
  const row = element('tr');
  if (event.quiet) row.dataset.quiet = '';
  const head = element('th', undefined, { scope: 'row' });
  const swatch = element('span', undefined, { className: 'swatch' });
  swatch.style.background = TONES[event.tone];
  head.append(swatch, event.what);
  const text = element('td');
  text.append(element('bdi', event.text));
  row.append(head, element('td', seconds(event.from), { className: 'n' }),
    element('td', event.to === undefined ? '' : seconds(event.to), { className: 'n' }), text);
  return row;
}

function fromAddress() {
  const named = /^#record=(.*)$/.exec(location.hash);
  if (!named) return false;
  let wanted = named[1];
  try { wanted = decodeURIComponent(wanted); } catch { return false; }
  const record = records.find((one) => one.id === wanted);
  if (!record) return false;
  for (const key of FILTERS) byId(`filter-${key}`).value = '';
  byId('search').value = '';
  applyFilters();
  choose(record, false);
  byId('record-id').scrollIntoView();
  byId('record-id').focus({ preventScroll: true });
  return true;
}

function startBrowser() {
  fillFilters();
  byId('search').addEventListener('input', applyFilters);
  byId('list').addEventListener('change', () => choose(records.find((record) => record.id === byId('list').value)));
  byId('previous').addEventListener('click', () => step(-1));
  byId('next').addEventListener('click', () => step(1));
  byId('answers').checked = false;
  byId('answers').addEventListener('change', () => { showRecord(); drawRecord(state.record, true); });
  byId('tolerance').addEventListener('change', () => { showRecord(); drawRecord(state.record, true); });
  for (const button of document.querySelectorAll('[data-move]')) {
    button.addEventListener('click', () => moveView(button.dataset.move));
  }
  window.addEventListener('hashchange', fromAddress);
  if (!fromAddress()) applyFilters();
}
