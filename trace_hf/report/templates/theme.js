// The page's theme, and the parts of the charts that follow it.

const INK = {
  light: { text: '#1a1e23', quiet: '#57606a', line: '#c3c9d0' },
  dark: { text: '#e4e8ec', quiet: '#a3adb8', line: '#4a535d' },
};
const systemDark = window.matchMedia('(prefers-color-scheme: dark)');
const themeChoice = document.getElementById('theme');
const plots = [];
let printing = false;

function themeName() {
  if (printing) return 'light';
  return themeChoice.value === 'auto' ? (systemDark.matches ? 'dark' : 'light') : themeChoice.value;
}

function ink() {
  return INK[themeName()];
}

function setIf(model, values) {
  const known = model.properties || {};
  const fitting = {};
  // What a chart leaves out on purpose (null) stays out.
  for (const [name, value] of Object.entries(values)) if (name in known && model[name] !== null) fitting[name] = value;
  if (Object.keys(fitting).length) model.setv(fitting);
}

function paintDocument(doc) {
  const { text, quiet, line } = ink();
  for (const model of doc.all_models || doc._all_models.values()) {
    setIf(model, {
      axis_label_text_color: text, major_label_text_color: text, axis_line_color: quiet,
      major_tick_line_color: quiet, grid_line_color: line, label_text_color: text,
    });
  }
}

function applyTheme() {
  document.documentElement.dataset.theme = themeName();
  for (const { doc } of plots) paintDocument(doc);
}

// A chart repaints itself too late for the paper, so that copies in light colours are printed in its place.
function startPrint() {
  printing = true;
  applyTheme();
  for (const part of document.querySelectorAll('#release details:not([open]), #videos > details:not([open])')) {
    part.open = true;
    part.dataset.opened = '';
  }
  for (const { view, target } of plots) {
    const copy = view.export('png', true).canvas;
    copy.className = 'printed';
    copy.removeAttribute('style');
    target.append(copy);
  }
}

function endPrint() {
  printing = false;
  for (const copy of document.querySelectorAll('.printed')) copy.remove();
  for (const part of document.querySelectorAll('[data-opened]')) {
    part.open = false;
    delete part.dataset.opened;
  }
  applyTheme();
}

function startTheme() {
  systemDark.addEventListener('change', applyTheme);
  themeChoice.addEventListener('change', applyTheme);
  window.addEventListener('beforeprint', startPrint);
  window.addEventListener('afterprint', endPrint);
  applyTheme();
}
