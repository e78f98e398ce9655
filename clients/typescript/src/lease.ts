/** How long a lease lasts, and how soon a heartbeat is due. */

const SHORTEST_S = 0.1;

/**
 * Seconds until the next heartbeat: a third of what is left of the lease, by the clock of the server, which its answer
 * names in `Date`. Ours may be minutes away from it.
 */
export function beatAfter(expiresAt: string, date: string | null, longest: number): number {
  return Math.min(Math.max(leaseLeft(expiresAt, date) / 3, SHORTEST_S), longest);
}

/** Seconds, at least, that were left of the lease when the server answered. */
export function leaseLeft(expiresAt: string, date: string | null): number {
  const said = Date.parse(date ?? "");
  const now = Number.isNaN(said) ? Date.now() : said + 1000; // the header has no parts of a second
  return (Date.parse(expiresAt) - now) / 1000;
}
