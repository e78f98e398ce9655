"""Icons of 16 by 16, drawn here: a shape for each status, so that colour is never the only sign."""

from __future__ import annotations

from markupsafe import Markup

_RING = '<circle cx="8" cy="8" r="6.25" fill="none" stroke="currentColor" stroke-width="1.5"/>'
_DISC = '<circle cx="8" cy="8" r="7" fill="currentColor"/>'
_LINE = 'fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"'
_CUT = 'fill="none" stroke="var(--surface)" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"'

_SHAPES = {
    "queued": _RING,
    "scheduled": f'{_RING}<path d="M8 4.6V8l2.3 1.5" {_LINE}/>',
    "held": f'{_RING}<path d="M6.4 5.8v4.4M9.6 5.8v4.4" {_LINE}/>',
    "running": f'{_RING}<path d="M6.6 5.2v5.6L11 8z" fill="currentColor"/>',
    "waiting": f'{_RING}<path d="M5.2 8h.01M8 8h.01M10.8 8h.01" {_LINE}/>',
    "succeeded": f'{_DISC}<path d="M5 8.3l2.1 2.1L11.2 6" {_CUT}/>',
    "failed": '<path d="M8 1.4l6.9 12.4H1.1z" fill="currentColor"/>' + f'<path d="M8 6.2v3.4M8 11.6h.01" {_CUT}/>',
    "timeout": '<path d="M8 1.4l6.9 12.4H1.1z" fill="currentColor"/>' + f'<path d="M8 6.4v3l1.8 1.2" {_CUT}/>',
    "dead": '<path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z" fill="currentColor"/>'
    + f'<path d="M5.7 5.7l4.6 4.6M10.3 5.7l-4.6 4.6" {_CUT}/>',
    "lost": '<path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    + f'<path d="M6.2 6.3c.2-2.3 3.8-2.2 3.7.1C9.8 7.8 8 7.9 8 9.3M8 11.5h.01" {_LINE}/>',
    "canceled": f'{_RING}<path d="M3.8 12.2L12.2 3.8" {_LINE}/>',
    "released": f'{_RING}<path d="M10.5 8H5.6M7.6 5.8L5.4 8l2.2 2.2" {_LINE}/>',
    "snoozed": f'{_RING}<path d="M8 4.6V8l2.3 1.5" {_LINE}/>',
    "skipped": f'{_RING}<path d="M5.5 5.5L8 8l-2.5 2.5M9 5.5L11.5 8 9 10.5" {_LINE}/>',
    "warning": f'<path d="M8 2l6.5 11.5h-13z" {_LINE}/><path d="M8 6.6v3.1M8 11.5h.01" {_LINE}/>',
    "good": f'{_DISC}<path d="M5 8.3l2.1 2.1L11.2 6" {_CUT}/>',
    "copy": f'<rect x="5.5" y="5.5" width="8" height="8" rx="1.5" {_LINE}/><path d="M3 10.5h-.5v-8h8V3" {_LINE}/>',
    "menu": f'<path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" {_LINE}/>',
    "theme": f'{_RING}<path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor"/>',
    "mark": '<path d="M2 12.5h12" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/>'
    '<path d="M3.5 9.7V4.5a2 2 0 0 1 2-2h3.2c2.8 0 5.3 2.5 5.3 5.3v.4a1.5 1.5 0 0 1-1.5 1.5z" fill="currentColor"/>'
    '<path d="M6 5.3h2.5M6 7.3h4.5" stroke="var(--surface)" stroke-width="1.2" stroke-linecap="round"/>',
}


def icon(name: str) -> Markup:
    """A picture beside a word; screen readers are told the word alone."""
    shape = _SHAPES.get(name, _SHAPES["queued"])
    return Markup(f'<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">{shape}</svg>')  # noqa: S704 - drawn here
