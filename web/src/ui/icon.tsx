// SPDX-License-Identifier: Apache-2.0

// Drawn on 24 by 24 with lines.
const kPaths = {
  menu: 'M4 7h16M4 12h16M4 17h16',
  plus: 'M12 5v14M5 12h14',
  close: 'M6 6l12 12M18 6 6 18',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M8 8h8v8H8z',
  retry: 'M19 12a7 7 0 1 1-2.1-5M19 4v4h-4',
  edit: 'M5 19h3L19 8l-3-3L5 16z',
  copy: 'M9 9h10v10H9zM5 15V5h10',
  check: 'M5 13l4 4L19 7',
  previous: 'M14 6l-6 6 6 6',
  next: 'M10 6l6 6-6 6',
  more: 'M6 12h.01M12 12h.01M18 12h.01',
  trash: 'M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  upload: 'M12 16V5M7 9l5-5 5 5M5 20h14',
  settings: 'M4 8h9M17 8h3M4 16h3M11 16h9M15 6v4M9 14v4',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 3v1M12 20v1M3 12h1M20 12h1M5.6 5.6l.8.8M17.6 17.6l.8.8M5.6 18.4l.8-.8M17.6 6.4l.8-.8',
  moon: 'M19 14.5A7.5 7.5 0 0 1 9.5 5a7.5 7.5 0 1 0 9.5 9.5z',
  system: 'M4 5h16v11H4zM9 20h6M12 16v4',
  search: 'M11 5a6 6 0 1 0 0 12 6 6 0 0 0 0-12M16 16l4 4',
  down: 'M12 5v14M6 13l6 6 6-6',
  fold: 'M9 6l6 6-6 6',
  tool: 'M14 7a4 4 0 0 1 5-4l-2 3 2 2 3-2a4 4 0 0 1-5 5l-9 9-3-3z',
};

export function Icon({ name }: { name: keyof typeof kPaths }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={kPaths[name]} />
    </svg>
  );
}
