'use strict';
(() => {
  const status = document.getElementById('status');
  const read = cell => 'v' in cell.dataset ? (cell.dataset.v === '' ? NaN : Number(cell.dataset.v)) : cell.textContent;
  const compare = (a, b) => {
    if (typeof a === 'string') return a.localeCompare(b, undefined, { numeric: true });
    return a - b;
  };
  const missing = value => typeof value === 'number' && Number.isNaN(value);

  function sort(head) {
    const table = head.closest('table'), heads = [...head.parentNode.children], column = heads.indexOf(head);
    const up = head.getAttribute('aria-sort') !== 'ascending';
    const rows = [...table.tBodies[0].rows].map(row => [read(row.cells[column]), row]);
    rows.sort(([a], [b]) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b); // what is not known comes last, either way
      return up ? compare(a, b) : compare(b, a);
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const other of heads) other.setAttribute('aria-sort', 'none');
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    status.textContent = `${table.caption.textContent}: sorted by ${head.textContent}, ${up ? 'ascending' : 'descending'}`;
  }

  for (const button of document.querySelectorAll('table.sortable thead button')) {
    button.addEventListener('click', () => sort(button.closest('th')));
  }

  // Paper shows everything.
  let closed = [];
  addEventListener('beforeprint', () => {
    closed = [...document.querySelectorAll(':not(.screen) > details:not([open])')];
    for (const each of closed) each.open = true;
  });
  addEventListener('afterprint', () => { for (const each of closed) each.open = false; });
})();
