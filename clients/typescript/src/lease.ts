/** How soon a heartbeat is due. */

const SHORTEST_S = 0.1;

/**
 * Seconds until the next heartbeat: a third of what is left of the lease, by the clock of the server, which its answer
 * names in `Date`. Ours may be minutes away from it.
 */
export function beatAfter(expiresAt: string, date: string | null, longest: number): number {
  const said = Date.parse(date ?? "");
  const now = Number.isNaN(said) ? Date.now() : said + 1000; // the header has no parts of a second
  return Math.min(Math.max((Date.parse(expiresAt) - now) / 3000, SHORTEST_S), longest);
}
