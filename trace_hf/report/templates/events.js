// What a record has on its timeline: one list, from which the figure and the table are both made.

const TONES = {
  instruction: '#7f8790', trigger: '#d4555a', evidence: '#2e9b6a', stored: '#c9711f', five: '#3b82c4', ten: '#9a6fc9',
  span: '#2a97a8', frames: '#7f8790', deadline: '#7f8790',
};
const HIDDEN = '(answer hidden)';

function seconds(value) {
  return String(Math.round(value * 1e6) / 1e6);
}

// The rule of `trace_hf.windows.sampling_times`: the start, every second after it, and the end.
function samplingTimes(start, end) {
  const round = (value) => Math.round(value * 1e6) / 1e6;
  const whole = Math.floor(round(end - start));
  const times = [];
  for (let step = 0; step <= whole; step += 1) times.push(round(start + step));
  if (times[times.length - 1] >= round(end)) times[times.length - 1] = end;
  else times.push(end);
  return times;
}

function spanOf(record, tolerance) {
  return record.task === 'qa' ? record.span : record.effective[tolerance].span;
}

function rowsOf(record) {
  const rows = record.task === 'qa'
    ? ['question', 'anchor', 'evidence']
    : ['instruction', 'triggers', 'evidence', 'stored', 'W = 5', 'W = 10'];
  if (record.task !== 'qa' && !record.triggers.some((trigger) => trigger.evidence)) rows.splice(2, 1);
  if (record.task === 'qa' && !record.evidence.length) rows.splice(2, 1);
  rows.push('span', '1 FPS');
  if (record.frames) rows.push('frames', ' ');
  return rows;
}

function eventsOf(record, tolerance, answers) {
  const found = record.task === 'qa' ? qaEvents(record, answers) : proactiveEvents(record, answers);
  const [from, to] = spanOf(record, tolerance);
  const about = record.task === 'qa' ? '' : ` at W = ${tolerance}`;
  found.push({ row: 'span', what: `Evidence span${about}`, from, to, tone: 'span', text: 'What a model may see.' });
  return found;
}

function qaEvents(record, answers) {
  const found = [
    { row: 'question', what: 'Question', from: record.time, marker: 'inverted_triangle', tone: 'trigger',
      text: 'Nothing later may be seen.' },
    { row: 'anchor', what: 'Evidence anchor', from: record.anchor, marker: 'diamond', tone: 'stored',
      text: 'The moment that the answer rests on.' },
  ];
  record.evidence.forEach((span, index) => found.push({
    row: 'evidence', what: `Evidence ${index + 1}`, from: span.at[0], to: span.at[1], tone: 'evidence',
    text: answers ? span.about : HIDDEN, shade: index,
  }));
  return found;
}

function triggerText(trigger, answers) {
  const parts = [trigger.type];
  if (!answers) return `${parts[0]}; ${HIDDEN}`;
  parts.push(`answer: ${trigger.answer}`);
  if (trigger.facts && trigger.facts.length) parts.push(`accepted facts: ${trigger.facts.join(' | ')}`);
  parts.push(`annotated by: ${trigger.by}`);
  return parts.join('\n');
}

function proactiveEvents(record, answers) {
  const found = [{ row: 'instruction', what: 'Instruction', from: record.time, marker: 'inverted_triangle',
    tone: 'instruction', text: 'The instruction is given.' }];
  const due = (index) => (answers ? `due: ${record.answers[index]}` : HIDDEN);
  record.triggers.forEach((trigger, index) => {
    const text = triggerText(trigger, answers);
    const state = trigger.state;
    const base = { row: 'triggers', what: `Trigger ${index + 1}`, tone: 'trigger', text, shade: index };
    found.push(state ? { ...base, from: state[0], to: state[1] } : { ...base, from: trigger.at, marker: 'triangle' });
    if (trigger.evidence) {
      const [from, to] = trigger.evidence;
      const about = answers ? trigger.about || '' : HIDDEN;
      found.push({ row: 'evidence', what: `Evidence ${index + 1}`, from, to, tone: 'evidence', text: about, shade: index });
    }
  });
  const add = (row, tone, windows, what) => windows.forEach(([from, to], index) => found.push(
    { row, what: `${what} ${index + 1}`, from, to, tone, text: due(index), shade: index, halfOpen: true }));
  add('stored', 'stored', record.stored, 'Stored window');
  add('W = 5', 'five', record.effective['5'].windows, 'W = 5, window');
  add('W = 10', 'ten', record.effective['10'].windows, 'W = 10, window');
  if (record.deadline !== null) {
    found.push({ row: null, what: 'Deadline (provenance)', from: record.deadline, tone: 'deadline', quiet: true,
      text: 'Stated by the source; it bounds nothing.' });
  }
  return found;
}

function labelOf(event) {
  const at = event.to === undefined ? `${seconds(event.from)} s`
    : event.halfOpen ? `[${seconds(event.from)}, ${seconds(event.to)}) s`
      : `${seconds(event.from)} … ${seconds(event.to)} s`;
  const text = event.text.length > 400 ? `${event.text.slice(0, 400)}…` : event.text;
  return `${event.what}: ${at}\n${text}`;
}
